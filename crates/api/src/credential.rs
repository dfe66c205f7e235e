//! A text that must never be displayed: a provider's key, a token, a password.

use std::fmt;

use serde::Deserialize;
use zeroize::{Zeroize as _, ZeroizeOnDrop};

/// A credential of an external service. `Debug` hides it, nothing serializes it by accident, and its memory is
/// overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Credential(String);

impl Credential {
    /// Keeps `text` from being shown.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that sends or seals it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Drop for Credential {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for Credential {}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(hidden)")
    }
}
