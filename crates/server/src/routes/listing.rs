//! Bodies of answers, piece by piece: an entry may be large (a run's output 1 MiB, a definition 24 MiB), so an answer
//! holds one piece, however slowly its reader takes it. Short entries are read several at a time; a large text in an entry
//! is left out of what is read, and comes by itself ([`OpenText`]). Any other large entry is made anew for each of its pieces.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::Write as _,
};

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::StatusCode;
use serde::Serialize;
use sortie_engine::Error;
use sortie_store::Found;

use crate::kit::{ApiError, ApiResult, BodyBudget, OpenText, PIECE_BYTES, TextForm, crowded, json_response};

/// Memory that an answer in several pieces counts for: a piece, and what the connection holds of it, in bytes.
const ANSWER_BYTES: usize = 256 * 1024;

/// Number of times that an entry is read again because others have changed it in the meantime.
const TRIES: u32 = 10;

/// Source of a list.
pub(super) trait Source: Send + Sync + 'static {
    /// Type of an entry.
    type Item: Send;
    /// Position of an entry in the order of the list.
    type Position: Clone + Send + Sync;

    /// Number of entries that are read at once.
    fn stretch(&self) -> u32;

    /// The entries behind `before`, or from the beginning, at most `limit`.
    fn read(
        &self,
        before: Option<Self::Position>,
        limit: u32,
    ) -> impl Future<Output = Result<Found<Self::Item, Self::Position>, Error>> + Send;

    /// Returns the position of an entry.
    fn position(&self, item: &Self::Item) -> Self::Position;

    /// Returns an entry as JSON. An entry of more than [`PIECE_BYTES`] is read and made again for each of its pieces.
    fn entry(&mut self, item: Self::Item) -> Result<Entry, Error>;

    /// The cursor of the page behind this position. A list that is only ever an array has none.
    fn cursor_after(&self, _last: Self::Position) -> String {
        String::new()
    }

    /// Begins anew: no entry is made yet.
    fn restart(&mut self) {}

    /// Text before the array and behind it, of a list with [`Form::Within`].
    fn around(&self) -> Result<(Vec<u8>, Vec<u8>), Error> {
        Ok((Vec::new(), Vec::new()))
    }
}

/// Source of entries that a function reads, at most `stretch` at once.
pub(super) struct Rows<T, P, R> {
    pub(super) stretch: u32,
    /// Returns the entries behind a position, or from the beginning, at most a number.
    pub(super) read: R,
    pub(super) position: fn(&T) -> P,
}

impl<T, P, R, F> Source for Rows<T, P, R>
where
    T: Serialize + Send + 'static,
    P: Clone + Send + Sync + 'static,
    R: Fn(Option<P>, u32) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Vec<T>, Error>> + Send,
{
    type Item = T;
    type Position = P;

    fn stretch(&self) -> u32 {
        self.stretch
    }

    async fn read(&self, before: Option<P>, limit: u32) -> Result<Found<T, P>, Error> {
        Ok(Found::all((self.read)(before, limit).await?))
    }

    fn position(&self, item: &T) -> P {
        (self.position)(item)
    }

    fn entry(&mut self, item: T) -> Result<Entry, Error> {
        Entry::of(&item)
    }
}

/// Entry of a list as JSON.
pub(super) struct Entry {
    pub(super) text: Vec<u8>,
    pub(super) large: Option<Large>,
}

/// Large text in an entry, and what comes behind it.
pub(super) struct Large {
    text: OpenText,
    form: TextForm,
    rest: Vec<u8>,
}

impl Large {
    /// Appends the next piece to `into`. Returns true at the end.
    async fn append(&mut self, into: &mut Vec<u8>) -> Result<bool, Error> {
        let is_end = self.text.append(self.form, into).await?;
        if is_end {
            into.append(&mut self.rest);
        }
        Ok(is_end)
    }

    /// Makes the next piece. Returns it with what comes behind it.
    pub(super) async fn piece(mut self) -> Result<(Bytes, Option<Self>), Error> {
        let mut piece = Vec::new();
        while piece.len() < PIECE_BYTES {
            if self.append(&mut piece).await? {
                return Ok((Bytes::from(piece), None));
            }
        }
        Ok((Bytes::from(piece), Some(self)))
    }
}

impl Entry {
    /// An entry without a large text.
    pub(super) fn of(value: &impl Serialize) -> Result<Self, Error> {
        let text = serde_json::to_vec(value).map_err(|error| Error::Internal(error.to_string()))?;
        Ok(Self { text, large: None })
    }

    /// An entry with a large text in the place of the first `"field":""` for a quoted text, or `"field":null` for any other.
    /// The members of an object take the place of the whole field.
    pub(super) fn around(
        value: &impl Serialize,
        field: &str,
        text: OpenText,
        form: TextForm,
    ) -> Result<Self, Error> {
        let mut head = Self::of(value)?.text;
        let place = match form {
            TextForm::Quoted => format!("\"{field}\":\"\""),
            TextForm::Json | TextForm::Members => format!("\"{field}\":null"),
        };
        let found = head
            .windows(place.len())
            .position(|window| window == place.as_bytes())
            .ok_or_else(|| Error::Internal(format!("an entry has no {field}")))?;
        // Bytes of the field that stay before the text, and behind it.
        let (before, behind) = match form {
            TextForm::Quoted => (place.len() - 1, 1),
            TextForm::Json => (place.len() - "null".len(), 0),
            TextForm::Members => (0, 0),
        };
        let rest = head.split_off(found + place.len() - behind);
        head.truncate(found + before);
        Ok(Self {
            text: head,
            large: Some(Large { text, form, rest }),
        })
    }

    /// Returns the entry that `read` makes, of one version to its end: a large text that may change is held for the answer.
    /// `read` is called again where others have changed the entry in the meantime.
    pub(super) async fn of_one_version<F>(read: impl Fn() -> F) -> ApiResult<Self>
    where
        F: Future<Output = Result<Self, Error>>,
    {
        for _ in 0..TRIES {
            let entry = read().await?;
            match entry.hold().await {
                Ok(true) => return Ok(entry),
                Ok(false) => return Err(crowded()),
                Err(Error::NotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(ApiError::unavailable(
            "others are changing it at the same time, retry later",
        ))
    }

    /// Holds a large text that may change, until the answer has ended. Returns false if there is no memory for that.
    /// `NotFound` if it has changed already.
    async fn hold(&self) -> Result<bool, Error> {
        match &self.large {
            Some(large) => large.text.hold().await,
            None => Ok(true),
        }
    }

    /// Holds the large text, which is `text`, if there is memory for that now.
    pub(super) fn hold_known(self, text: String) -> Self {
        if let Some(large) = &self.large {
            large.text.hold_known(text);
        }
        self
    }

    /// The entry as one line, between two texts.
    pub(super) fn in_line(mut self, before: &str, behind: &str) -> Result<Self, Error> {
        self.text = one_line(before, self.text)?;
        if let Some(large) = &mut self.large {
            large.rest = one_line("", std::mem::take(&mut large.rest))?;
            large.rest.extend_from_slice(behind.as_bytes());
        } else {
            self.text.extend_from_slice(behind.as_bytes());
        }
        Ok(self)
    }

    /// The answer with this entry alone.
    pub(super) async fn respond(self, bodies: &BodyBudget) -> ApiResult<Response> {
        let Some(large) = self.large else {
            return Ok(json_response(self.text));
        };
        let room = match bodies.answer_room_now(ANSWER_BYTES) {
            Some(room) => room,
            None => bodies.answer_room(ANSWER_BYTES).await?,
        };
        let mut response = in_pieces(self.text, large);
        response.extensions_mut().insert(room);
        Ok(response)
    }

    /// The answer to a request that is done and cannot be refused any more.
    pub(super) fn respond_done(self, status: StatusCode, bodies: &BodyBudget) -> Response {
        let Some(large) = self.large else {
            return (status, json_response(self.text)).into_response();
        };
        let mut response = in_pieces(self.text, large);
        if let Some(room) = bodies.answer_room_now(ANSWER_BYTES) {
            response.extensions_mut().insert(room);
        }
        (status, response).into_response()
    }
}

/// Returns a text and a part of a JSON text in one line.
fn one_line(before: &str, json: Vec<u8>) -> Result<Vec<u8>, Error> {
    let json = String::from_utf8(json).map_err(|error| Error::Internal(error.to_string()))?;
    Ok(format!("{before}{}", sortie_api::json::in_line(json)).into_bytes())
}

/// An answer of a text and a large text behind it.
fn in_pieces(first: Vec<u8>, large: Large) -> Response {
    let rest = stream::try_unfold(Some(large), |large| async move {
        let Some(large) = large else {
            return Ok(None);
        };
        let piece = large.piece().await.inspect_err(log_broken)?;
        Ok::<_, Error>(Some(piece))
    });
    let body = stream::once(async { Ok(Bytes::from(first)) }).chain(rest);
    json_response(Body::from_stream(body))
}

fn log_broken(error: &Error) {
    tracing::error!(%error, "answer aborted");
}

/// Form of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A plain array.
    Array,
    /// `{items, next_cursor}`.
    Page,
    /// An array within an object of the source.
    Within,
}

/// A list, as far as it is not shown yet.
pub(super) struct Listing<S: Source> {
    source: S,
    /// Position and number of entries at the beginning.
    asked: (Option<S::Position>, u32),
    /// Only entries behind this one.
    before: Option<S::Position>,
    /// Entries still to be shown, at most.
    left: u32,
    form: Form,
    /// Entries that are read next, at most.
    rows: u32,
    /// Number of times that the next entry was changed between two reads.
    changes: u32,
    /// Rest of an entry that is being shown.
    open: Option<Open<S::Position>>,
    /// Text behind the last entry, while that is being shown.
    end: Vec<u8>,
    progress: Progress,
}

/// Entry that is larger than a piece.
enum Open<P> {
    /// A large text.
    Text(Large),
    /// The entry behind `before`, of which `shown` bytes are shown.
    Again {
        before: Option<P>,
        shown: usize,
        hash: u64,
    },
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
    /// The last entry and the end are shown, but for the rest of that entry.
    Ended,
}

impl<S: Source> Listing<S> {
    /// The entries behind `before`, at most `limit`.
    pub(super) fn new(source: S, before: Option<S::Position>, limit: u32, form: Form) -> Self {
        Self {
            rows: source.stretch(),
            source,
            asked: (before.clone(), limit),
            before,
            left: limit,
            form,
            changes: 0,
            open: None,
            end: Vec::new(),
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

    /// Begins anew, as if nothing was shown.
    fn restart(&mut self) {
        (self.before, self.left) = self.asked.clone();
        self.rows = self.source.stretch();
        self.changes = 0;
        self.open = None;
        self.end.clear();
        self.progress = Progress::Unopened;
        self.source.restart();
    }

    /// The next piece; empty at the end. It holds at most two times [`PIECE_BYTES`].
    async fn piece(&mut self) -> Result<Vec<u8>, Error> {
        let mut text = Vec::new();
        while text.len() < PIECE_BYTES && !self.is_over() {
            if self.open.is_some() {
                self.go_on(&mut text).await?;
            } else {
                self.stretch(&mut text).await?;
            }
        }
        Ok(text)
    }

    fn is_over(&self) -> bool {
        self.progress == Progress::Ended && self.open.is_none()
    }

    /// Appends more of the entry that is being shown.
    async fn go_on(&mut self, text: &mut Vec<u8>) -> Result<(), Error> {
        let is_end = match &mut self.open {
            None => true,
            Some(Open::Text(large)) => large.append(text).await?,
            Some(Open::Again { before, shown, hash }) => {
                let found = self.source.read(before.clone(), 1).await?;
                let item = found.items.into_iter().next();
                let entry = item.map(|item| self.source.entry(item)).transpose()?;
                let entry = entry
                    .filter(|entry| hash_of(&entry.text) == *hash)
                    .ok_or_else(|| Error::Internal("an entry became another one".to_owned()))?;
                let end = shown.saturating_add(PIECE_BYTES).min(entry.text.len());
                text.extend_from_slice(entry.text.get(*shown..end).unwrap_or_default());
                *shown = end;
                end == entry.text.len()
            }
        };
        if is_end {
            self.open = None;
            text.append(&mut self.end);
        }
        Ok(())
    }

    /// Appends an entry, or begins it where it is large. `before` is the position before it.
    fn show(&mut self, mut entry: Entry, before: Option<S::Position>, text: &mut Vec<u8>) {
        if entry.large.is_none() && entry.text.len() > PIECE_BYTES {
            let hash = hash_of(&entry.text);
            text.extend_from_slice(entry.text.get(..PIECE_BYTES).unwrap_or_default());
            self.open = Some(Open::Again {
                before,
                shown: PIECE_BYTES,
                hash,
            });
            return;
        }
        text.append(&mut entry.text);
        self.open = entry.large.map(Open::Text);
    }

    /// Appends the next entries, as far as there is room for them. Those behind are read again.
    async fn stretch(&mut self, text: &mut Vec<u8>) -> Result<(), Error> {
        let shown = self.left.min(self.rows);
        // One more than is shown tells whether there is another page.
        let limit = shown + u32::from(self.form == Form::Page && shown == self.left);
        let Found { items, stopped_at } = self.source.read(self.before.clone(), limit).await?;
        let is_last = items.len() < usize::try_from(limit).unwrap_or(usize::MAX);
        if self.progress == Progress::Unopened {
            match self.form {
                Form::Page => text.extend_from_slice(b"{\"items\":["),
                Form::Array => text.push(b'['),
                Form::Within => text.append(&mut self.source.around()?.0),
            }
            self.progress = Progress::Opened;
        }
        let mut items = items.into_iter();
        let mut taken = 0_u32;
        while self.left > 0 && self.open.is_none() && text.len() < PIECE_BYTES {
            let Some(item) = items.next() else { break };
            let position = self.source.position(&item);
            let entry = self.source.entry(item)?;
            match entry.hold().await {
                // Without memory for it, the text is read again for each piece.
                Ok(_) => self.changes = 0,
                Err(Error::NotFound) if self.changes < TRIES => {
                    // The entry was changed or deleted. It is read again with those behind it.
                    self.changes += 1;
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
            if self.progress == Progress::Begun {
                text.push(b',');
            }
            self.progress = Progress::Begun;
            self.left -= 1;
            taken += 1;
            let before = self.before.replace(position);
            self.show(entry, before, text);
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
                    self.rows = self.rows.saturating_mul(2).min(self.source.stretch());
                }
                return Ok(());
            }
            Some(_) | None => self.before.clone().filter(|_| more > 0),
        };
        self.progress = Progress::Ended;
        let mut end = self.end(next)?;
        match &self.open {
            Some(_) => self.end = end,
            None => text.append(&mut end),
        }
        Ok(())
    }

    /// Text behind the last entry. The next page is behind the position `next`, if there is one.
    fn end(&self, next: Option<S::Position>) -> Result<Vec<u8>, Error> {
        Ok(match self.form {
            Form::Within => self.source.around()?.1,
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
        })
    }
}

fn hash_of(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// A list whose first piece is made.
pub(super) struct Begun<S: Source> {
    first: Vec<u8>,
    rest: Listing<S>,
}

impl<S: Source> Begun<S> {
    /// The answer. It has room for its pieces until it is sent, and holds none while it waits for room.
    pub(super) async fn respond(self, bodies: &BodyBudget) -> ApiResult<Response> {
        let Self { mut first, mut rest } = self;
        if rest.is_over() {
            return Ok(json_response(first));
        }
        let room = if let Some(room) = bodies.answer_room_now(ANSWER_BYTES) {
            room
        } else {
            drop(first);
            rest.restart();
            let room = bodies.answer_room(ANSWER_BYTES).await?;
            first = rest.piece().await?;
            room
        };
        let rest = stream::try_unfold(rest, |mut rest| async move {
            if rest.is_over() {
                return Ok(None);
            }
            let piece = rest.piece().await.inspect_err(log_broken)?;
            Ok::<_, Error>(Some((piece, rest)))
        });
        let body = stream::once(async { Ok(first) }).chain(rest);
        let mut response = json_response(Body::from_stream(body));
        response.extensions_mut().insert(room);
        Ok(response)
    }
}

#[cfg(test)]
mod tests;
