//! Rules of plain text fields.

use sortie_api::{Refusal, limits};

use crate::kit::rules::broken;

pub(super) fn prompt(prompt: &str) -> Result<(), Refusal> {
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

pub(super) fn description(description: &str) -> Result<(), Refusal> {
    if description.chars().count() > limits::DESCRIPTION_CHARS {
        return Err(broken(
            "description",
            format!("must be at most {} characters", limits::DESCRIPTION_CHARS),
        ));
    }
    Ok(())
}

/// `tags`: at most 16, each 1 to 64 characters without control characters, none twice.
pub(super) fn tags(tags: &[String]) -> Result<(), Refusal> {
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
