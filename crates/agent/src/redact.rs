//! Takes credentials out of everything a run shows: what tools return, what is recorded, what an error says.

use std::borrow::Cow;

/// The credentials the engine holds for one run, in every form in which they could come back.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Vec<String>,
}

impl Redactor {
    /// A redactor of these secrets.
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Self {
        Self {
            secrets: secrets.into_iter().map(str::to_owned).collect(),
        }
    }

    /// The text without them.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut shown = Cow::Borrowed(text);
        for secret in &self.secrets {
            if shown.contains(secret.as_str()) {
                shown = Cow::Owned(shown.replace(secret.as_str(), "[redacted]"));
            }
        }
        shown
    }
}

/// Names no secret.
impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}
