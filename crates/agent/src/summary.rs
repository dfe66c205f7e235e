//! Replacement text of a long conversation: notes by the model, or else a plain note.

use std::{borrow::Cow, collections::BTreeMap, fmt::Write as _};

use crate::{
    model::{Content, Turn},
    text,
};

/// The request for notes, appended to the conversation.
pub(crate) const REQUEST: &str = include_str!("summary_prompt.md");
/// The longest notes, in tokens.
pub(crate) const TOKENS: u64 = 2_048;
/// Additional tokens for a model that thinks: its thinking counts as part of the answer.
pub(crate) const THINKING_TOKENS: u64 = 8_192;
/// Bytes of the newest texts that a plain note keeps, in all and of one.
const NEWEST_BYTES: usize = 6 * 1024;
const PART_BYTES: usize = 2 * 1024;

/// The notes as the model finds them in the conversation, with the files that its tools have changed.
pub(crate) fn notes<'f>(notes: &str, changed_files: impl Iterator<Item = &'f str>) -> String {
    let mut text = format!(
        "The conversation so far was removed to make room. These notes, which you wrote, stand for it:\n\n<notes>\n{}\n\
         </notes>",
        notes.trim()
    );
    for (number, path) in changed_files.enumerate() {
        // Writing to a String cannot fail.
        let _ = match number {
            0 => write!(
                text,
                "\n\nFiles that you have written or edited with tools: {path}"
            ),
            _ => write!(text, ", {path}"),
        };
    }
    text.push_str("\n\nGo on with the task.");
    text
}

/// The text without notes: the number of calls of each tool, and the newest texts and results.
pub(crate) fn note(turns: &[Turn]) -> String {
    let mut called: BTreeMap<&str, u32> = BTreeMap::new();
    let pieces = turns.iter().flat_map(|turn| match turn {
        Turn::Assistant(pieces) => pieces.as_slice(),
        Turn::ToolResults(_) | Turn::User(_) => &[],
    });
    for piece in pieces {
        if let Content::ToolCall(call) = piece {
            *called.entry(&call.name).or_default() += 1;
        }
    }
    let called: Vec<String> = called
        .iter()
        .map(|(name, times)| format!("{name} ({times} times)"))
        .collect();
    let mut note = format!(
        "The conversation so far was removed to make room, and there are no notes of it. These tools were called: {}.",
        called.join(", ")
    );
    let mut newest: Vec<String> = Vec::new();
    let mut left = NEWEST_BYTES;
    for said in turns.iter().rev().flat_map(texts) {
        let part = text::bounded(&said, PART_BYTES.min(left)).into_owned();
        left = left.saturating_sub(part.len());
        newest.push(part);
        if left < PART_BYTES / 4 {
            break;
        }
    }
    if !newest.is_empty() {
        newest.reverse();
        note.push_str(" The newest of it:\n\n");
        note.push_str(&newest.join("\n\n"));
    }
    note
}

/// The texts of a turn, the newest first.
fn texts(turn: &Turn) -> Vec<Cow<'_, str>> {
    let mut texts: Vec<Cow<'_, str>> = match turn {
        Turn::Assistant(pieces) => pieces
            .iter()
            .filter_map(|piece| match piece {
                Content::Text(text) => Some(Cow::Borrowed(text.as_str())),
                Content::ToolCall(_) | Content::Opaque(_) => None,
            })
            .collect(),
        Turn::ToolResults(results) => results.iter().map(|result| result.content.text()).collect(),
        Turn::User(text) => vec![Cow::Borrowed(text)],
    };
    texts.retain(|text| !text.trim().is_empty());
    texts.reverse();
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ToolCall;

    #[test]
    fn a_note_says_what_was_called_and_keeps_what_stood_before() {
        let call = ToolCall {
            id: "1".to_owned(),
            name: "shell".to_owned(),
            arguments: "{}".to_owned(),
        };
        let note = note(&[
            Turn::User("Notes of before.".to_owned()),
            Turn::Assistant(vec![Content::ToolCall(call)]),
        ]);
        assert!(note.contains("shell (1 times)") && note.ends_with("\n\nNotes of before."));
    }

    #[test]
    fn notes_name_the_changed_files() {
        let text = notes(" done \n", ["a.rs", "b.rs"].into_iter());
        assert!(text.contains(
            "<notes>\ndone\n</notes>\n\nFiles that you have written or edited with tools: a.rs, b.rs\n"
        ));
        assert!(!notes("done", std::iter::empty()).contains("Files"));
    }
}
