//! Messages of a run's stream. All followers of the run share them.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sortie_api::{Run, RunStatus, event::kind};
use sortie_store::EventRow;

use crate::error::Error;

/// Memory around the content of a message, in bytes.
const AROUND: usize = 160;

/// A message of a run's stream.
#[derive(Clone, Debug)]
pub enum Message {
    /// A recorded event.
    Event(EventRow),
    /// A piece of the text that the model is writing. It is not recorded and has no position.
    Delta(TextDelta),
    /// The run in its terminal status, as JSON. The stream ends after it.
    Done(Arc<RawValue>),
}

/// A piece of the text that a model is writing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TextDelta {
    /// The text.
    pub text: String,
    /// Step of the run, from 1.
    pub step: u32,
}

impl Message {
    /// Length of the text or JSON that the message carries, in bytes.
    pub fn content_bytes(&self) -> usize {
        match self {
            Self::Event(event) => event.data.len(),
            Self::Delta(delta) => delta.text.len(),
            Self::Done(run) => run.get().len(),
        }
    }
}

/// Messages that belong together, with their encoded form.
#[derive(Debug)]
pub struct Batch {
    messages: Vec<Message>,
    encoded: OnceLock<Bytes>,
}

impl Batch {
    /// Creates a batch of these messages.
    pub fn new(messages: Vec<Message>) -> Self {
        Self {
            messages,
            encoded: OnceLock::new(),
        }
    }

    /// Creates a batch of committed events.
    pub(super) fn of_events(events: &[EventRow]) -> Self {
        Self::new(events.iter().cloned().map(Message::Event).collect())
    }

    /// Creates a batch of the `done` message alone.
    pub(super) fn of_final(run: &Run) -> Result<Self, Error> {
        let run = sortie_api::json::to_line(run)
            .and_then(RawValue::from_string)
            .map_err(|error| Error::Internal(format!("a run cannot be serialized: {error}")))?;
        Ok(Self::new(vec![Message::Done(run.into())]))
    }

    /// Returns the messages, in order.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Whether the stream ends after this batch.
    pub fn is_last(&self) -> bool {
        matches!(self.messages.last(), Some(Message::Done(_)))
    }

    /// Returns the encoded messages. `encode` is called once for every follower, so each caller must pass the same
    /// encoder.
    pub fn encoded(&self, encode: impl FnOnce(&[Message]) -> Bytes) -> Bytes {
        self.encoded.get_or_init(|| encode(&self.messages)).clone()
    }

    /// Adds the messages of another batch. Nothing of this one was encoded before.
    pub(super) fn extend(&mut self, other: &Self) {
        self.messages.extend_from_slice(&other.messages);
    }

    /// Estimated size of the encoded messages, in bytes.
    pub(super) fn encoded_bytes(&self) -> usize {
        let sizes = self.messages.iter().map(Message::content_bytes);
        sizes.map(|content| content + AROUND).sum()
    }

    /// Memory that the batch takes once it is encoded, in bytes: it then holds the content twice.
    pub(super) fn memory_bytes(&self) -> usize {
        2 * self.encoded_bytes()
    }
}

/// Whether this is the last event of a run: its terminal `status`.
pub(super) fn is_final(event: &EventRow) -> bool {
    #[derive(Deserialize)]
    struct Data {
        status: RunStatus,
    }
    event.kind == kind::STATUS
        && serde_json::from_str::<Data>(&event.data).is_ok_and(|data| data.status.is_final())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_encoded_once_for_all_followers() {
        let batch = Batch::new(vec![Message::Delta(TextDelta {
            text: "a".to_owned(),
            step: 1,
        })]);
        let first = batch.encoded(|_| Bytes::from_static(b"first"));
        let second = batch.encoded(|_| panic!("it is encoded already"));
        assert_eq!(first.as_ptr(), second.as_ptr());
    }
}
