//! Rules of plain text fields.

use sortie_api::{Refusal, RunRequest, limits};

use crate::kit::rules::broken;

/// Texts by which people find a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunTexts {
    /// First line of the description, or else of the prompt.
    pub(crate) title: Option<String>,
    /// Start of both in lower case, for searches.
    pub(crate) search: Option<String>,
}

impl RunTexts {
    pub(super) fn of(request: &RunRequest) -> Self {
        let texts = || [&request.description, &request.prompt].into_iter().flatten();
        let mut lines = texts().flat_map(|text| text.lines()).map(str::trim);
        let line = lines.find(|line| !line.is_empty());
        let characters = texts().flat_map(|text| text.chars().chain(['\n']));
        let search: String = characters
            .flat_map(char::to_lowercase)
            .take(limits::SEARCH_TEXT_CHARS)
            .collect();
        Self {
            title: line.map(|line| {
                let shown = line.chars().filter(|character| !character.is_control());
                shown.take(limits::TITLE_CHARS).collect()
            }),
            search: Some(search),
        }
    }
}

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

pub(super) fn instructions(instructions: &str) -> Result<(), Refusal> {
    if instructions.len() > limits::INSTRUCTIONS_BYTES {
        return Err(broken(
            "instructions",
            format!("must be at most {} bytes", limits::INSTRUCTIONS_BYTES),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(description: Option<&str>, prompt: &str) -> (Option<String>, Option<String>) {
        let request = RunRequest {
            description: description.map(str::to_owned),
            prompt: Some(prompt.to_owned()),
            ..RunRequest::default()
        };
        let RunTexts { title, search } = RunTexts::of(&request);
        (title, search)
    }

    #[test]
    fn a_title_is_the_first_line_of_the_description_or_of_the_prompt() {
        let title = |description, prompt| texts(description, prompt).0.unwrap();
        assert_eq!(title(None, "\n  Sum it up.\r\nAll of it."), "Sum it up.");
        assert_eq!(title(Some("Daily sums"), "Sum it up."), "Daily sums");
        assert_eq!(title(Some(" \n"), "Sum\u{7} it up."), "Sum it up.");
        assert_eq!(title(None, &"ä".repeat(121)), "ä".repeat(120));
    }

    #[test]
    fn searches_look_at_the_start_of_both_in_lower_case() {
        let search = |description, prompt| texts(description, prompt).1.unwrap();
        assert_eq!(search(Some("Daily SUMS"), "Übung\nb"), "daily sums\nübung\nb\n");
        assert_eq!(search(None, &"Ä".repeat(3_000)), "ä".repeat(2_000));
    }
}
