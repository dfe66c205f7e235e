//! The body of a run list, stretch by stretch: a run's output may be 1 MiB, so a list of a hundred runs is never held as
//! a whole, however slowly its reader takes it.

use std::io::Write as _;

use axum::{body::Body, response::Response};
use futures_util::{StreamExt as _, stream};
use sortie_api::{RunId, Timestamp};
use sortie_store::{Error, RunFilter, Store};

use super::cursor::List;
use crate::kit::{ApiResult, json_response};

/// Runs read at once.
const STRETCH: u32 = 20;

/// A list, as far as it is not shown yet.
pub(super) struct Listing {
    store: Store,
    list: List,
    /// Only runs behind this one.
    before: Option<(Timestamp, RunId)>,
    /// Runs still to be shown, at most.
    left: u32,
    /// A page with a cursor, or a plain array.
    paged: bool,
    begun: bool,
}

impl Listing {
    /// The runs of `list` behind `before`, at most `limit`: a page of them, or a plain array.
    pub(super) fn new(
        store: Store,
        list: List,
        before: Option<(Timestamp, RunId)>,
        (limit, paged): (u32, bool),
    ) -> Self {
        Self {
            store,
            list,
            before,
            left: limit,
            paged,
            begun: false,
        }
    }

    /// The answer. What goes wrong with the first stretch is an error; later, the connection is broken off.
    pub(super) async fn respond(self) -> ApiResult<Response> {
        let (first, rest) = self.stretch().await?;
        let Some(rest) = rest else {
            return Ok(json_response(first));
        };
        let rest = stream::try_unfold(Some(rest), |rest| async move {
            let Some(rest) = rest else { return Ok(None) };
            let stretch = rest.stretch().await.inspect_err(|error| {
                tracing::error!(%error, "a list of runs broke off");
            })?;
            Ok::<_, Error>(Some(stretch))
        });
        let body = stream::once(async { Ok(first) }).chain(rest);
        Ok(json_response(Body::from_stream(body)))
    }

    /// The next stretch as text, and the list without it; none when that was the end.
    async fn stretch(mut self) -> Result<(Vec<u8>, Option<Self>), Error> {
        let last = self.left <= STRETCH;
        let limit = if last {
            // One more than is shown tells whether there is another page.
            self.left + u32::from(self.paged)
        } else {
            STRETCH
        };
        let filter = RunFilter {
            status: self.list.status,
            schedule: self.list.schedule,
            tag: self.list.tag.clone(),
            before: self.before,
            limit,
        };
        let runs = self.store.list_runs(self.list.org, filter).await?;
        let ended = last || runs.len() < usize::try_from(limit).unwrap_or(usize::MAX);
        let mut text = Vec::new();
        if !self.begun {
            text.extend_from_slice(if self.paged { b"{\"items\":[" } else { b"[" });
        }
        let mut next_cursor = String::new();
        for run in runs {
            let Some(left) = self.left.checked_sub(1) else {
                next_cursor = self
                    .before
                    .map(|last| self.list.cursor_after(last))
                    .unwrap_or_default();
                break;
            };
            if self.begun {
                text.push(b',');
            }
            serde_json::to_writer(&mut text, &run).map_err(|error| Error::Corrupt(error.to_string()))?;
            self.begun = true;
            self.left = left;
            self.before = Some((run.created_at, run.id));
        }
        if ended {
            text.push(b']');
            if self.paged {
                // Writing to memory cannot fail.
                let _written = write!(text, ",\"next_cursor\":\"{next_cursor}\"}}");
            }
        }
        Ok((text, (!ended).then_some(self)))
    }
}
