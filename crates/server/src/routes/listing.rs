//! Lists and single entries as answers in pieces. Entries may be large (a run's output has up to 1 MiB, a definition
//! 24 MiB), and no large entry stays in memory while a piece waits for its client. Short entries are read several at a
//! time. A large text in an entry is not loaded with the entry, but sent from the store ([`OpenText`]). Any other large
//! entry is read again for each of its pieces.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use axum::response::Response;
use serde::Serialize;
use sortie_api::{ErrorCode, Refusal};
use sortie_store::Found;

use crate::kit::{ApiResult, BodyBudget, OpenText, PIECE_BYTES, PieceWriter, Pieces, crowded};

/// Number of times that an entry is read again because others have changed it in the meantime.
const TRIES: u32 = 10;

/// Entry of a list as JSON.
pub(super) struct Entry {
    /// Text up to the large text, or all of it.
    pub(super) text: Vec<u8>,
    pub(super) large: Option<OpenText>,
    /// Text after the large text.
    pub(super) rest: String,
}

impl Entry {
    /// An entry without a large text.
    pub(super) fn of(value: &impl Serialize) -> Result<Self, Refusal> {
        let text = serde_json::to_vec(value).map_err(Refusal::internal)?;
        Ok(Self::whole(text))
    }

    /// An entry that is JSON already.
    pub(super) fn whole(text: impl Into<Vec<u8>>) -> Self {
        Self {
            text: text.into(),
            large: None,
            rest: String::new(),
        }
    }

    /// The object `record`, which ends with `field` and a large text. `field` is `"name":`, or empty for a text of several
    /// fields.
    pub(super) fn ending_with(
        record: &impl Serialize,
        field: &str,
        large: OpenText,
    ) -> Result<Self, Refusal> {
        let mut entry = Self::of(record)?;
        entry.text.pop();
        entry.text.push(b',');
        entry.text.extend_from_slice(field.as_bytes());
        Ok(Self {
            large: Some(large),
            rest: "}".to_owned(),
            ..entry
        })
    }

    /// Returns the entry that `read` makes, of one version to its end: a large text that may change is held for the answer.
    /// `read` is called again where others have changed the entry in the meantime.
    pub(super) async fn of_one_version<F>(read: impl Fn() -> F) -> Result<Self, Refusal>
    where
        F: Future<Output = Result<Self, Refusal>>,
    {
        for _ in 0..TRIES {
            let entry = read().await?;
            match entry.hold().await {
                Ok(true) => return Ok(entry),
                Ok(false) => return Err(crowded()),
                Err(error) if error.code == ErrorCode::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorCode::Unavailable.because("others are changing it at the same time, retry later"))
    }

    /// Holds a large text that may change, until the answer has ended. Returns false if there is no memory for that.
    /// `NotFound` if it has changed already.
    async fn hold(&self) -> Result<bool, Refusal> {
        match &self.large {
            Some(large) => large.hold().await,
            None => Ok(true),
        }
    }

    /// Holds the large text, which is `text`, if there is memory for that now.
    pub(super) fn hold_known(self, text: String) -> Self {
        if let Some(large) = &self.large {
            large.hold_known(text);
        }
        self
    }

    /// The answer with this entry alone.
    pub(super) fn pieces(self) -> Pieces {
        let Some(large) = self.large else {
            return Pieces::one(self.text);
        };
        let write = |mut out: PieceWriter| async move {
            large.write(&mut out).await?;
            out.push(self.rest);
            Ok(out)
        };
        Pieces::written(write).after(self.text)
    }

    fn is_large(&self) -> bool {
        self.large.is_some() || self.text.len() > PIECE_BYTES
    }
}

/// Returns these rows as all entries of a list that there are.
pub(super) fn entries<T: Serialize, P>(
    rows: &[T],
    position: impl Fn(&T) -> P,
) -> Result<Found<(P, Entry), P>, Refusal> {
    let entry = |row| Ok((position(row), Entry::of(row)?));
    Ok(Found::all(
        rows.iter().map(entry).collect::<Result<_, Refusal>>()?,
    ))
}

/// Form of a list.
pub(super) enum Form<P> {
    /// A plain array.
    Array,
    /// `{items, next_cursor}`, with the function that makes the cursor of the page after a position.
    Page(Box<dyn Fn(P) -> String + Send + Sync>),
    /// The only entry, without an array around it.
    Alone,
}

/// A list of entries with positions of the type `P`.
pub(super) struct Listing<P, R> {
    /// Number of entries that are read at once.
    pub(super) stretch: u32,
    /// Reads the entries after a position, or from the beginning, at most a number.
    pub(super) read: R,
    /// The list begins after this position.
    pub(super) after: Option<P>,
    /// Number of entries of the list, at most.
    pub(super) limit: u32,
    pub(super) form: Form<P>,
}

impl<P, R, F> Listing<P, R>
where
    P: Clone + Send + Sync + 'static,
    R: Fn(Option<P>, u32) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Found<(P, Entry), P>, Refusal>> + Send + 'static,
{
    /// The answer. An error of the first piece has its status; a later one breaks the connection off.
    pub(super) async fn respond(self, bodies: &BodyBudget) -> ApiResult<Response> {
        self.pieces().respond(bodies).await
    }

    pub(super) fn pieces(self) -> Pieces {
        Pieces::written(|out| self.write(out))
    }

    async fn write(self, mut out: PieceWriter) -> Result<PieceWriter, Refusal> {
        let Self {
            stretch,
            read,
            mut after,
            limit: mut left,
            form,
        } = self;
        let is_page = matches!(form, Form::Page(_));
        out.push(match form {
            Form::Array => "[",
            Form::Page(_) => "{\"items\":[",
            Form::Alone => "",
        });
        let (mut rows, mut changes, mut separator) = (stretch, 0, "");
        let next = 'list: loop {
            out.send_full().await;
            let wanted = left.min(rows);
            // One extra entry shows whether there is another page.
            let limit = wanted + u32::from(is_page && wanted == left);
            let Found { items, stopped_at } = read(after.clone(), limit).await?;
            let is_last = items.len() < usize::try_from(limit).unwrap_or(usize::MAX);
            let mut items = items.into_iter();
            let (mut taken, mut large) = (0_u32, None);
            while left > 0
                && large.is_none()
                && !out.is_full()
                && let Some((position, entry)) = items.next()
            {
                match entry.hold().await {
                    // Without memory for it, the text is read again for each piece.
                    Ok(_) => changes = 0,
                    Err(error) if error.code == ErrorCode::NotFound && changes < TRIES => {
                        // The entry was changed or deleted. Read it again together with the entries after it.
                        changes += 1;
                        continue 'list;
                    }
                    Err(error) => return Err(error),
                }
                out.push(std::mem::replace(&mut separator, ","));
                left -= 1;
                taken += 1;
                let before = after.replace(position);
                if entry.is_large() {
                    large = Some((before, entry));
                } else {
                    out.push(entry.text);
                }
            }
            // The remaining entries are read again: they may be too large to buffer while a piece is sent.
            let more = items.len();
            drop(items);
            if let Some((before, entry)) = large {
                write_large(entry, &mut out, || read(before.clone(), 1)).await?;
            }
            match stopped_at {
                // An array has no next page: continue after the position at which the read stopped.
                Some(position) if more == 0 && left > 0 && !is_page => {
                    after = Some(position);
                    // With sparse matches this happens many times. Yield to other tasks before each further read.
                    tokio::task::yield_now().await;
                }
                // The next page continues at this position.
                Some(position) if more == 0 => break Some(position),
                // If large entries fill a piece, read only a few at once.
                _ if left > 0 && more > 0 => rows = taken.max(1),
                _ if left > 0 && !is_last => {
                    if !out.is_full() {
                        rows = rows.saturating_mul(2).min(stretch);
                    }
                }
                _ => break after.filter(|_| more > 0),
            }
        };
        match form {
            Form::Array => out.push("]"),
            Form::Page(cursor_after) => {
                let next_cursor = next.map(cursor_after).unwrap_or_default();
                out.push(format!("],\"next_cursor\":\"{next_cursor}\"}}"));
            }
            Form::Alone => {}
        }
        Ok(out)
    }
}

/// Writes an entry with a large text, or one that is larger than a piece and that `read` makes again for each piece.
async fn write_large<P, F>(entry: Entry, out: &mut PieceWriter, read: impl Fn() -> F) -> Result<(), Refusal>
where
    F: Future<Output = Result<Found<(P, Entry), P>, Refusal>>,
{
    let mut text = entry.text;
    if let Some(large) = entry.large {
        out.push(text);
        large.write(out).await?;
        out.push(entry.rest);
        return Ok(());
    }
    let hash = hash_of(&text);
    let mut sent = 0_usize;
    loop {
        let end = sent.saturating_add(PIECE_BYTES).min(text.len());
        out.push(text.get(sent..end).unwrap_or_default());
        if end == text.len() {
            return Ok(());
        }
        sent = end;
        drop(text);
        out.send_full().await;
        let again = read().await?.items.into_iter().next();
        text = again
            .map(|(_, entry)| entry.text)
            .filter(|text| hash_of(text) == hash)
            .ok_or_else(|| Refusal::internal("an entry became another one"))?;
    }
}

fn hash_of(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
