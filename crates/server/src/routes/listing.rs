//! The body of a list, stretch by stretch: what one entry holds may be large (a run's output 1 MiB, a schedule's input
//! as much), so a list of a hundred is never held as a whole, however slowly its reader takes it.

use std::io::Write as _;

use axum::{body::Body, response::Response};
use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use sortie_engine::Error;

use crate::kit::{ApiResult, json_response};

/// Source of a list.
pub(super) trait Source: Send + Sync + 'static {
    /// Type of an entry.
    type Item: Serialize + Send;
    /// Position of an entry in the order of the list.
    type Position: Clone + Send + Sync;

    /// Number of entries that are read, and held, at once.
    const STRETCH: u32;

    /// The entries behind `before`, or from the beginning, at most `limit`.
    fn read(
        &self,
        before: Option<Self::Position>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Self::Item>, Error>> + Send;

    /// Returns the position of an entry.
    fn position(item: &Self::Item) -> Self::Position;

    /// The cursor of the page behind this position. A list that is only ever an array has none.
    fn cursor_after(&self, _last: Self::Position) -> String {
        String::new()
    }
}

/// Form of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A plain array.
    Array,
    /// `{items, next_cursor}`.
    Page,
}

/// A list, as far as it is not shown yet.
pub(super) struct Listing<S: Source> {
    source: S,
    /// Only entries behind this one.
    before: Option<S::Position>,
    /// Entries still to be shown, at most.
    left: u32,
    form: Form,
    begun: bool,
}

impl<S: Source> Listing<S> {
    /// The entries behind `before`, at most `limit`.
    pub(super) fn new(source: S, before: Option<S::Position>, limit: u32, form: Form) -> Self {
        Self {
            source,
            before,
            left: limit,
            form,
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
                tracing::error!(%error, "list answer aborted");
            })?;
            Ok::<_, Error>(Some(stretch))
        });
        let body = stream::once(async { Ok(first) }).chain(rest);
        Ok(json_response(Body::from_stream(body)))
    }

    /// The next stretch as text, and the list without it; none when that was the end.
    async fn stretch(mut self) -> Result<(Vec<u8>, Option<Self>), Error> {
        let last = self.left <= S::STRETCH;
        let limit = if last {
            // One more than is shown tells whether there is another page.
            self.left + u32::from(self.form == Form::Page)
        } else {
            S::STRETCH
        };
        let items = self.source.read(self.before.clone(), limit).await?;
        let ended = last || items.len() < usize::try_from(limit).unwrap_or(usize::MAX);
        let mut text = Vec::new();
        if !self.begun {
            text.extend_from_slice(match self.form {
                Form::Page => b"{\"items\":[",
                Form::Array => b"[",
            });
        }
        let mut next_cursor = String::new();
        for item in items {
            let Some(left) = self.left.checked_sub(1) else {
                next_cursor = self
                    .before
                    .clone()
                    .map(|last| self.source.cursor_after(last))
                    .unwrap_or_default();
                break;
            };
            if self.begun {
                text.push(b',');
            }
            serde_json::to_writer(&mut text, &item).map_err(|error| Error::Internal(error.to_string()))?;
            self.begun = true;
            self.left = left;
            self.before = Some(S::position(&item));
        }
        if ended {
            text.push(b']');
            if self.form == Form::Page {
                // Writing to memory cannot fail.
                let _written = write!(text, ",\"next_cursor\":\"{next_cursor}\"}}");
            }
        }
        Ok((text, (!ended).then_some(self)))
    }
}
