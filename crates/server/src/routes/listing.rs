//! The body of a list, piece by piece: an entry may be large (a run's output 1 MiB, a definition 24 MiB), so an answer
//! holds one piece, however slowly its reader takes it. Short entries are read several at a time; a large text in an entry
//! is left out of what is read, and comes by itself ([`OpenText`]).

use std::io::Write as _;

use axum::{body::Body, response::Response};
use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use sortie_engine::Error;
use sortie_store::Found;

use crate::kit::{ApiResult, BodyBudget, OpenText, PIECE_BYTES, TextForm, json_response};

/// Memory that an answer in several pieces counts for: a piece, and what the connection holds of it, in bytes.
const ANSWER_BYTES: usize = 256 * 1024;

/// Source of a list.
pub(super) trait Source: Send + Sync + 'static {
    /// Type of an entry.
    type Item: Send;
    /// Position of an entry in the order of the list.
    type Position: Clone + Send + Sync;

    /// Number of entries that are read at once.
    const STRETCH: u32;

    /// The entries behind `before`, or from the beginning, at most `limit`.
    fn read(
        &self,
        before: Option<Self::Position>,
        limit: u32,
    ) -> impl Future<Output = Result<Found<Self::Item, Self::Position>, Error>> + Send;

    /// Returns the position of an entry.
    fn position(item: &Self::Item) -> Self::Position;

    /// Returns an entry as JSON.
    fn entry(&self, item: Self::Item) -> Result<Entry, Error>;

    /// The cursor of the page behind this position. A list that is only ever an array has none.
    fn cursor_after(&self, _last: Self::Position) -> String {
        String::new()
    }
}

/// Entry of a list as JSON.
pub(super) struct Entry {
    text: Vec<u8>,
    large: Option<Large>,
}

/// Large text in an entry, and what comes behind it.
struct Large {
    text: OpenText,
    form: TextForm,
    rest: Vec<u8>,
}

impl Entry {
    /// An entry without a large text.
    pub(super) fn of(value: &impl Serialize) -> Result<Self, Error> {
        let text = serde_json::to_vec(value).map_err(|error| Error::Internal(error.to_string()))?;
        Ok(Self { text, large: None })
    }

    /// An entry with a large text in the place of the first `"field":""` or `"field":null`, by its form.
    pub(super) fn around(
        value: &impl Serialize,
        field: &str,
        text: OpenText,
        form: TextForm,
    ) -> Result<Self, Error> {
        let mut head = Self::of(value)?.text;
        // Bytes of the value before the text, and in its place.
        let (value, before, replaced) = match form {
            TextForm::Quoted => ("\"\"", 1, 0),
            TextForm::Json => ("null", 0, 4),
        };
        let place = format!("\"{field}\":{value}");
        let found = head
            .windows(place.len())
            .position(|window| window == place.as_bytes())
            .ok_or_else(|| Error::Internal(format!("an entry has no {field}")))?;
        let mut rest = head.split_off(found + place.len() - value.len() + before);
        rest.drain(..replaced);
        Ok(Self {
            text: head,
            large: Some(Large { text, form, rest }),
        })
    }
}

/// Form of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A plain array.
    Array,
    /// `{items, next_cursor}`.
    Page,
    /// An entry by itself.
    Alone,
}

/// A list, as far as it is not shown yet.
pub(super) struct Listing<S: Source> {
    source: S,
    /// Only entries behind this one.
    before: Option<S::Position>,
    /// Entries still to be shown, at most.
    left: u32,
    form: Form,
    /// Entries that are read next, at most.
    rows: u32,
    /// Large text that is being shown.
    large: Option<Large>,
    progress: Progress,
}

/// Progress of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Nothing is shown.
    Unopened,
    /// The beginning is shown, and no entry.
    Opened,
    /// An entry is shown.
    Begun,
    /// The last entry and the end are shown, but for a large text in that entry.
    Ended,
}

impl<S: Source> Listing<S> {
    /// The entries behind `before`, at most `limit`.
    pub(super) fn new(source: S, before: Option<S::Position>, limit: u32, form: Form) -> Self {
        Self {
            source,
            before,
            left: limit,
            form,
            rows: S::STRETCH,
            large: None,
            progress: Progress::Unopened,
        }
    }

    /// The answer. What goes wrong with the first piece is an error; later, the connection is broken off.
    pub(super) async fn respond(self, bodies: &BodyBudget) -> ApiResult<Response> {
        self.begin().await?.respond(bodies).await
    }

    /// Makes the first piece.
    pub(super) async fn begin(mut self) -> Result<Begun<S>, Error> {
        let first = self.piece().await?;
        Ok(Begun { first, rest: self })
    }

    /// The next piece; empty at the end. It holds at most [`PIECE_BYTES`] and an entry without its large text, or a piece
    /// of a large text.
    async fn piece(&mut self) -> Result<Vec<u8>, Error> {
        let mut text = Vec::new();
        while text.len() < PIECE_BYTES && !self.is_over() {
            if let Some(large) = &mut self.large {
                if large.text.append(large.form, &mut text).await? {
                    text.append(&mut large.rest);
                    self.large = None;
                }
            } else {
                self.stretch(&mut text).await?;
            }
        }
        Ok(text)
    }

    fn is_over(&self) -> bool {
        self.progress == Progress::Ended && self.large.is_none()
    }

    /// Appends the next entries, as far as there is room for them. Those behind are read again.
    async fn stretch(&mut self, text: &mut Vec<u8>) -> Result<(), Error> {
        let shown = self.left.min(self.rows);
        // One more than is shown tells whether there is another page.
        let limit = shown + u32::from(self.form == Form::Page && shown == self.left);
        let Found { items, stopped_at } = self.source.read(self.before.clone(), limit).await?;
        let is_last = items.len() < usize::try_from(limit).unwrap_or(usize::MAX);
        if self.progress == Progress::Unopened {
            text.extend_from_slice(match self.form {
                Form::Page => b"{\"items\":[",
                Form::Array => b"[",
                Form::Alone => b"",
            });
            self.progress = Progress::Opened;
        }
        let mut items = items.into_iter();
        let mut taken = 0_u32;
        while self.left > 0 && self.large.is_none() && text.len() < PIECE_BYTES {
            let Some(item) = items.next() else { break };
            if self.progress == Progress::Begun {
                text.push(b',');
            }
            self.progress = Progress::Begun;
            self.left -= 1;
            taken += 1;
            self.before = Some(S::position(&item));
            let mut entry = self.source.entry(item)?;
            text.append(&mut entry.text);
            self.large = entry.large;
        }
        let more = items.len();
        let next = match stopped_at {
            // An array has no next page: it goes on behind where the source has stopped.
            Some(position) if more == 0 && self.left > 0 && self.form != Form::Page => {
                self.before = Some(position);
                // Where matches are far apart this happens many times. Others have a turn before each further read.
                tokio::task::yield_now().await;
                return Ok(());
            }
            // The next page goes on there.
            Some(position) if more == 0 => Some(position),
            Some(_) | None if self.left > 0 && (more > 0 || !is_last) => {
                // Where large entries fill a piece, few of them are read at once.
                if more > 0 {
                    self.rows = taken.max(1);
                } else if text.len() < PIECE_BYTES {
                    self.rows = self.rows.saturating_mul(2).min(S::STRETCH);
                }
                return Ok(());
            }
            Some(_) | None => self.before.clone().filter(|_| more > 0),
        };
        self.progress = Progress::Ended;
        let end = self.end(next);
        match &mut self.large {
            Some(large) => large.rest.extend_from_slice(&end),
            None => text.extend_from_slice(&end),
        }
        Ok(())
    }

    /// Text behind the last entry. The next page is behind the position `next`, if there is one.
    fn end(&self, next: Option<S::Position>) -> Vec<u8> {
        match self.form {
            Form::Alone => Vec::new(),
            Form::Array => b"]".to_vec(),
            Form::Page => {
                let next_cursor = next
                    .map(|next| self.source.cursor_after(next))
                    .unwrap_or_default();
                let mut end = Vec::new();
                // Writing to memory cannot fail.
                let _written = write!(end, "],\"next_cursor\":\"{next_cursor}\"}}");
                end
            }
        }
    }
}

/// A list whose first piece is made.
pub(super) struct Begun<S: Source> {
    first: Vec<u8>,
    rest: Listing<S>,
}

impl<S: Source> Begun<S> {
    /// The answer. It has room for its pieces until it is sent.
    pub(super) async fn respond(self, bodies: &BodyBudget) -> ApiResult<Response> {
        let Self { first, rest } = self;
        if rest.is_over() {
            return Ok(json_response(first));
        }
        let mut room = bodies.room();
        room.grow(ANSWER_BYTES).await?;
        let rest = stream::try_unfold((rest, room), |(mut rest, room)| async move {
            if rest.is_over() {
                return Ok(None);
            }
            let piece = rest.piece().await.inspect_err(|error| {
                tracing::error!(%error, "list answer aborted");
            })?;
            Ok::<_, Error>(Some((piece, (rest, room))))
        });
        let body = stream::once(async { Ok(first) }).chain(rest);
        Ok(json_response(Body::from_stream(body)))
    }
}

#[cfg(test)]
mod tests;
