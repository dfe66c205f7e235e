//! Rules of single fields of a definition.

use std::fmt::Display;

use reqwest::header::{HeaderName, HeaderValue};
use sortie_api::{ErrorCode, Refusal, limits};

/// Path of a definition inside the request, for error messages about its fields.
#[derive(Clone, Copy)]
pub(crate) struct At<'a>(pub(crate) &'a str);

impl At<'_> {
    /// Returns the error `field: rule`, with the path before it.
    pub(crate) fn broken(self, field: impl Display, rule: impl Display) -> Refusal {
        let dot = if self.0.is_empty() { "" } else { "." };
        ErrorCode::InvalidRequest.because(format!("{}{dot}{field}: {rule}", self.0))
    }
}

/// Shortens a name for use in a message.
pub(super) fn short(name: &str) -> String {
    name.chars().take(40).collect()
}

/// The name of a header.
pub(super) fn header_name(at: At<'_>, field: &str, name: &str) -> Result<HeaderName, Refusal> {
    HeaderName::from_bytes(name.as_bytes())
        .ok()
        .filter(|_| name.len() <= limits::CONNECTION_NAME_BYTES)
        .ok_or_else(|| {
            let rule = format!("{:?} is not the name of a header", short(name));
            at.broken(field, rule)
        })
}

/// The value of a header: visible ASCII, spaces and tabs, with neither at its ends.
pub(super) fn header_value(at: At<'_>, field: impl Display, value: &str) -> Result<(), Refusal> {
    let fits = (1..=limits::CREDENTIAL_BYTES).contains(&value.len());
    let is_value = HeaderValue::from_str(value).is_ok() && value.trim_ascii().len() == value.len();
    if fits && is_value && value.is_ascii() {
        return Ok(());
    }
    let rule = format!(
        "must be 1 to {} visible ASCII characters",
        limits::CREDENTIAL_BYTES
    );
    Err(at.broken(field, rule))
}

/// Whether a text may name a tool, a parameter or a variable.
pub(super) fn is_name(text: &str) -> bool {
    (1..=limits::CONNECTION_NAME_BYTES).contains(&text.len()) && !text.contains(char::is_control)
}
