//! What stands in place of the oldest turns of a long conversation: a summary by the model, or else a plain note.

use std::{borrow::Cow, collections::BTreeMap, fmt::Write as _};

use crate::{
    model::{Content, Turn},
    text,
};

/// What the model is told when it makes a summary.
pub(crate) const SYSTEM: &str = include_str!("summary_prompt.md");
/// The longest summary, in tokens.
pub(crate) const TOKENS: u64 = 2_048;
/// What a model that thinks is given besides: its thinking counts as part of the answer.
pub(crate) const THINKING_TOKENS: u64 = 8_192;
/// How much of one piece of text, and of one tool output, the model reads for it, in bytes.
const TEXT_BYTES: usize = 4 * 1024;
const OUTPUT_BYTES: usize = 1024;
/// How much of the task it reads, in bytes.
const TASK_BYTES: usize = 4 * 1024;

/// The turns as one text of at most about `limit` bytes, for a call that needs neither tools nor the provider's own pieces.
pub(crate) fn record(task: &str, turns: &[Turn], limit: usize) -> String {
    let mut record = format!(
        "<task>\n{}\n</task>\n\n<record>\n",
        text::bounded(task, TASK_BYTES)
    );
    for turn in turns {
        match turn {
            Turn::Assistant(pieces) => {
                for piece in pieces {
                    match piece {
                        Content::Text(said) => part(&mut record, "agent", said, TEXT_BYTES),
                        Content::ToolCall(call) => {
                            let call = format!("{} {}", call.name, call.arguments);
                            part(&mut record, "call", &call, OUTPUT_BYTES);
                        }
                        Content::Opaque(_) => {}
                    }
                }
            }
            Turn::ToolResults(results) => {
                for result in results {
                    part(&mut record, "result", &result.content.text(), OUTPUT_BYTES);
                }
            }
            Turn::User(told) => part(&mut record, "engine", told, 4 * TEXT_BYTES),
        }
    }
    let mut record = match text::bounded(&record, limit) {
        Cow::Borrowed(_) => record,
        Cow::Owned(bounded) => bounded,
    };
    record.push_str("</record>\n\nWrite the notes.");
    record
}

fn part(record: &mut String, who: &str, what: &str, limit: usize) {
    // Writing to a String cannot fail.
    let _ = writeln!(record, "[{who}] {}", text::bounded(what, limit));
}

/// The summary as the model finds it in the conversation.
pub(crate) fn notes(summary: &str) -> String {
    format!(
        "The first part of this conversation was removed to make room. These notes stand for it:\n\n<notes>\n{}\n\
         </notes>\n\nGo on with the task.",
        summary.trim()
    )
}

/// What is told where there is no summary: which tools were called how often.
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
    let earlier = turns.iter().find_map(|turn| match turn {
        Turn::User(told) => Some(text::bounded(told, 4 * TEXT_BYTES)),
        Turn::Assistant(_) | Turn::ToolResults(_) => None,
    });
    let called: Vec<String> = called
        .iter()
        .map(|(name, times)| format!("{name} ({times} times)"))
        .collect();
    let mut note = format!(
        "The first part of this conversation was removed to make room, and there is no summary of it. It called: {}. \
         Look again at what you need, and go on with the task.",
        called.join(", ")
    );
    if let Some(earlier) = earlier {
        note.push_str("\n\nWhat stood before it:\n\n");
        note.push_str(&earlier);
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        content::ToolContent,
        model::{ToolCall, ToolResult},
    };

    fn turns() -> Vec<Turn> {
        let call = ToolCall {
            id: "1".to_owned(),
            name: "shell".to_owned(),
            arguments: "{\"command\":\"ls\"}".to_owned(),
        };
        let result = ToolResult {
            id: "1".to_owned(),
            name: "shell".to_owned(),
            content: ToolContent::Text("x".repeat(100_000)),
            is_error: false,
            note: None,
        };
        vec![
            Turn::User("Notes of before.".to_owned()),
            Turn::Assistant(vec![Content::Text("I look.".to_owned()), Content::ToolCall(call)]),
            Turn::ToolResults(vec![result]),
        ]
    }

    #[test]
    fn a_record_shows_who_said_what_and_is_bounded() {
        let record = record("List.", &turns(), 1 << 20);
        assert!(record.starts_with("<task>\nList.\n</task>"));
        for part in [
            "[engine] Notes of before.",
            "[agent] I look.",
            "[call] shell {\"command\":\"ls\"}",
            "[result] xxx",
        ] {
            assert!(record.contains(part), "{part}");
        }
        assert!(record.len() < 2_000);
        let short = super::record("List.", &turns(), 500);
        assert!(short.len() < 600 && short.ends_with("Write the notes."));
    }

    #[test]
    fn a_note_says_what_was_called_and_keeps_what_stood_before() {
        let note = note(&turns());
        assert!(note.contains("shell (1 times)") && note.ends_with("Notes of before."));
    }
}
