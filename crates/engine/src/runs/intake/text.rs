//! Rules of plain text fields.

use sortie_api::limits;

use super::broken;
use crate::error::Error;

pub(super) fn prompt(prompt: &str) -> Result<(), Error> {
    if prompt.trim().is_empty() {
        return Err(broken("prompt", "must not be empty"));
    }
    if prompt.len() > limits::PROMPT_BYTES {
        return Err(broken(
            "prompt",
            format!("must be at most {} bytes", limits::PROMPT_BYTES),
        ));
    }
    Ok(())
}

pub(super) fn description(description: &str) -> Result<(), Error> {
    if description.chars().count() > limits::DESCRIPTION_CHARS {
        return Err(broken(
            "description",
            format!("must be at most {} characters", limits::DESCRIPTION_CHARS),
        ));
    }
    Ok(())
}

/// `tags`: at most 16, each 1 to 64 characters without control characters, none twice.
pub(super) fn tags(tags: &[String]) -> Result<(), Error> {
    if tags.len() > limits::TAGS {
        return Err(broken("tags", format!("must be at most {}", limits::TAGS)));
    }
    for (position, tag) in tags.iter().enumerate() {
        let field = format!("tags[{position}]");
        let length = tag.chars().count();
        if length == 0 || length > limits::TAG_CHARS || tag.chars().any(char::is_control) {
            return Err(broken(
                field,
                format!(
                    "must be 1 to {} characters, without control characters",
                    limits::TAG_CHARS
                ),
            ));
        }
        if tags.iter().take(position).any(|earlier| earlier == tag) {
            return Err(broken(field, format!("{tag:?} is there already")));
        }
    }
    Ok(())
}

/// A workflow's or connection's name: `[a-z0-9][a-z0-9._-]{0,99}`.
pub(crate) fn name(field: &str, name: &str) -> Result<(), Error> {
    if limits::is_name(name) {
        return Ok(());
    }
    Err(broken(
        field,
        "a name is 1 to 100 characters of a to z, 0 to 9, `.`, `_`, `-`, and starts with a letter or digit",
    ))
}

/// The `Idempotency-Key` header: 1 to 200 characters.
pub(crate) fn idempotency_key(key: &str) -> Result<(), Error> {
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
