//! Rules that several kinds of requests share, and the error for a broken rule.

use sortie_api::{ErrorCode, Refusal, limits};

/// Returns the error for a broken rule: `field: rule`.
pub(crate) fn broken(field: impl std::fmt::Display, rule: impl std::fmt::Display) -> Refusal {
    ErrorCode::InvalidRequest.because(format!("{field}: {rule}"))
}

/// Checks the name of a workflow or a connection: `[a-z0-9][a-z0-9._-]{0,99}`.
pub(crate) fn name(field: &str, name: &str) -> Result<(), Refusal> {
    if limits::is_name(name) {
        return Ok(());
    }
    Err(broken(
        field,
        "a name is 1 to 100 characters of a to z, 0 to 9, `.`, `_`, `-`, and starts with a letter or digit",
    ))
}

/// Checks the `Idempotency-Key` header: 1 to 200 characters.
pub(crate) fn idempotency_key(key: &str) -> Result<(), Refusal> {
    let length = key.chars().count();
    if length == 0 || length > limits::IDEMPOTENCY_KEY_CHARS || key.chars().any(char::is_control) {
        return Err(broken(
            "Idempotency-Key",
            format!(
                "must be 1 to {} characters, without control characters",
                limits::IDEMPOTENCY_KEY_CHARS
            ),
        ));
    }
    Ok(())
}
