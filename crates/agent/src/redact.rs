//! Takes credentials out of everything a run shows: what tools return, what is recorded, what an error says.

use std::{
    borrow::Cow,
    sync::{PoisonError, RwLock},
};

/// The credentials the engine holds for one run, in every form in which they could come back.
#[derive(Default)]
pub struct Redactor {
    secrets: RwLock<Vec<String>>,
}

impl Redactor {
    /// A redactor of these secrets.
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Self {
        Self {
            secrets: RwLock::new(secrets.into_iter().map(str::to_owned).collect()),
        }
    }

    /// Also takes out `secret` from now on.
    pub fn add(&self, secret: &str) {
        let mut secrets = self.secrets.write().unwrap_or_else(PoisonError::into_inner);
        if !secret.is_empty() && !secrets.iter().any(|known| known == secret) {
            secrets.push(secret.to_owned());
        }
    }

    /// The text without them.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut shown = Cow::Borrowed(text);
        for secret in self.secrets.read().unwrap_or_else(PoisonError::into_inner).iter() {
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
