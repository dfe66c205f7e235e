//! Removes credentials from all output of a run: tool results, recorded events, error messages.
//!
//! A credential is found verbatim, in base64, in hexadecimal and form-encoded, each also escaped up to twice (see `forms`). Other
//! encodings, such as a compressed or an encrypted copy, are not found. A text that cannot be searched is not shown at all.

mod decode;
mod forms;

use std::{
    borrow::Cow,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::RwLock;

use self::{
    decode::Tail,
    forms::{Forms, Found},
};

/// Replacement text of a credential.
const REDACTED: &str = "[redacted]";

/// The credentials that the engine holds for one run, in the forms that are searched for: verbatim, escaped for a URL, for JSON
/// or for HTML, in base64 (also inside a longer one) and in hexadecimal.
///
/// A secret of fewer than four bytes is searched for verbatim and escaped, not in base64 or hexadecimal, which ordinary text
/// would contain by chance. Empty secrets are ignored. A clone shares its secrets with the original.
#[derive(Clone, Default)]
pub struct Redactor {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Whether there is any secret: most runs have none, and then this check is their only cost.
    any: AtomicBool,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    secrets: Vec<String>,
    search: Option<Search>,
}

#[derive(Clone)]
enum Search {
    Forms(Arc<Forms>),
    /// They are too many or too long to search for: all text is redacted.
    Everything,
}

impl Redactor {
    /// A redactor of these secrets.
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Self {
        let redactor = Self::default();
        redactor.know(secrets.into_iter().map(str::to_owned));
        redactor
    }

    /// Adds a secret during the run: a token that was refreshed.
    pub fn add(&self, secret: &str) {
        self.know(std::iter::once(secret.to_owned()));
    }

    /// Whether it knows no secret.
    pub fn is_empty(&self) -> bool {
        !self.shared.any.load(Ordering::Acquire)
    }

    /// Whether a secret has several lines.
    pub(crate) fn has_line_breaks(&self) -> bool {
        let known = self.shared.known.read();
        known.secrets.iter().any(|secret| secret.trim().contains('\n'))
    }

    /// The text without them.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.search() {
            None => Cow::Borrowed(text),
            Some(Search::Everything) if text.is_empty() => Cow::Borrowed(text),
            Some(Search::Everything) => Cow::Borrowed(REDACTED),
            Some(Search::Forms(forms)) => without(text, &forms.find(text, Tail::Complete).ranges),
        }
    }

    /// Redacts an owned text; nothing is copied if it contains no secret.
    pub(crate) fn redact_owned(&self, text: String) -> String {
        if self.is_empty() {
            return text;
        }
        let shown = self.redact(&text);
        if shown == text { text } else { shown.into_owned() }
    }

    fn search(&self) -> Option<Search> {
        if self.is_empty() {
            return None;
        }
        // A panic elsewhere leaves the list as it was before or after one change.
        let known = self.shared.known.read();
        known.search.clone()
    }

    fn know(&self, secrets: impl Iterator<Item = String>) {
        let mut known = self.shared.known.write();
        let before = known.secrets.len();
        for secret in secrets.filter(|secret| !secret.is_empty()) {
            if !known.secrets.contains(&secret) {
                known.secrets.push(secret);
            }
        }
        if known.secrets.len() > before {
            let forms = Forms::new(known.secrets.iter().map(String::as_str));
            known.search = Some(forms.map_or(Search::Everything, |forms| Search::Forms(Arc::new(forms))));
            self.shared.any.store(true, Ordering::Release);
        }
    }
}

/// Names no secret.
impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

/// Redacts a text that arrives in pieces, even if a secret is spread over several: a possible beginning of a secret is held back
/// until the next piece.
#[derive(Default)]
pub(crate) struct Pieces {
    held: String,
}

impl Pieces {
    /// Adds a piece, and returns the text that can be shown now.
    pub(crate) fn push<'t>(&mut self, redactor: &Redactor, piece: &'t str) -> Cow<'t, str> {
        let forms = match redactor.search() {
            None => return self.after_held(piece),
            Some(Search::Everything) => return Cow::Borrowed(""),
            Some(Search::Forms(forms)) => forms,
        };
        let text = self.after_held(piece);
        let Found { mut ranges, open } = forms.find(&text, Tail::Open);
        let open = text.floor_char_boundary(open);
        ranges.retain(|range| range.end <= open);
        text.get(open..).unwrap_or_default().clone_into(&mut self.held);
        match text {
            Cow::Borrowed(text) => without(text.get(..open).unwrap_or_default(), &ranges),
            Cow::Owned(text) => {
                Cow::Owned(without(text.get(..open).unwrap_or_default(), &ranges).into_owned())
            }
        }
    }

    /// Returns the text that was held back, at the end of the text.
    pub(crate) fn rest(&mut self, redactor: &Redactor) -> String {
        redactor.redact_owned(std::mem::take(&mut self.held))
    }

    fn after_held<'t>(&mut self, piece: &'t str) -> Cow<'t, str> {
        if self.held.is_empty() {
            return Cow::Borrowed(piece);
        }
        let mut text = std::mem::take(&mut self.held);
        text.push_str(piece);
        Cow::Owned(text)
    }
}

/// `text` with the mark in place of each range.
fn without<'t>(text: &'t str, ranges: &[Range<usize>]) -> Cow<'t, str> {
    if ranges.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut from = 0;
    for range in ranges {
        shown.push_str(
            text.get(from..text.floor_char_boundary(range.start))
                .unwrap_or_default(),
        );
        shown.push_str(REDACTED);
        from = text.ceil_char_boundary(range.end);
    }
    shown.push_str(text.get(from..).unwrap_or_default());
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests;
