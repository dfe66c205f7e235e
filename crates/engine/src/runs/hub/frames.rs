//! The messages of a run's stream, as bytes.

use std::fmt::Write as _;

use bytes::Bytes;
use sortie_api::{Run, RunStatus, event::kind};
use sortie_store::EventRow;

use crate::error::Error;

/// Room for what stands around an event's data.
const AROUND: usize = 160;

pub(super) fn events(events: &[EventRow]) -> Bytes {
    let size = events.iter().map(|event| event.data.len() + AROUND).sum();
    let mut out = String::with_capacity(size);
    for event in events {
        // Writing to a `String` cannot fail.
        let _infallible = write!(
            out,
            "id: {seq}\nevent: {kind}\ndata: {{\"id\":{seq},\"type\":\"{kind}\",\"data\":{data},\"created_at\":\"{at}\"}}\n\n",
            seq = event.seq,
            kind = event.kind,
            data = event.data,
            at = event.created_at,
        );
    }
    out.into()
}

/// A `message_delta`: it has no id, so that `Last-Event-ID` keeps its meaning.
pub(super) fn delta(step: u32, text: &str) -> Bytes {
    #[derive(serde::Serialize)]
    struct Data<'a> {
        text: &'a str,
        step: u32,
    }
    // A text and a number always serialize.
    let data = sortie_api::json::to_line(&Data { text, step }).unwrap_or_default();
    format!("event: message_delta\ndata: {data}\n\n").into()
}

pub(super) fn done(run: &Run) -> Result<Bytes, Error> {
    let run = sortie_api::json::to_line(run)
        .map_err(|error| Error::Internal(format!("a run cannot be serialized: {error}")))?;
    Ok(format!("event: done\ndata: {run}\n\n").into())
}

/// Whether this is the last event of a run: its final `status`.
pub(super) fn is_final(event: &EventRow) -> bool {
    #[derive(serde::Deserialize)]
    struct Data {
        status: RunStatus,
    }
    event.kind == kind::STATUS
        && serde_json::from_str::<Data>(&event.data).is_ok_and(|data| data.status.is_final())
}
