//! What was said in a run so far, bounded in memory, and shortened where it no longer fits into the model's window.
//!
//! It is changed the same way while the run works and while it is rebuilt from the journal. A tool call is never parted
//! from its result. Every change of what was already sent says from which turn on it holds: counts and thinking blocks
//! behind it are void.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::{
    content::ToolContent,
    model::{Content, ToolCall, ToolResult, Turn},
};

/// Tool outputs that are held together; the oldest are dropped beyond.
const HELD_BYTES: usize = 32 * 1024 * 1024;
/// An output that is not longer is not worth dropping: the words in its place are hardly shorter.
const FEW_BYTES: usize = 128;

/// Changed files that are remembered.
const CHANGED_FILES: usize = 200;

/// The conversation after the task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conversation {
    turns: Vec<Turn>,
    /// Files that the run has written or edited by tools, also in turns that are gone.
    changed_files: BTreeSet<String>,
}

impl Conversation {
    /// All of it, oldest first.
    pub(crate) fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// What the engine told the model, if that came last.
    pub(crate) fn last_told(&self) -> Option<&str> {
        match self.turns.last() {
            Some(Turn::User(text)) => Some(text),
            Some(Turn::Assistant(_) | Turn::ToolResults(_)) | None => None,
        }
    }

    /// What the model said.
    pub(crate) fn said(&mut self, content: Vec<Content>) {
        self.turns.push(Turn::Assistant(content));
    }

    /// What came of its tool calls. Bounds what is held: beyond the limit the oldest outputs go. Returns the first turn that
    /// has changed, if one has.
    pub(crate) fn did(&mut self, results: Vec<ToolResult>) -> Option<usize> {
        self.note_changed_files(&results);
        self.turns.push(Turn::ToolResults(results));
        let (mut held, mut changed) = (0, None);
        for (index, turn) in self.turns.iter_mut().enumerate().rev() {
            let Turn::ToolResults(results) = turn else {
                continue;
            };
            for result in results.iter_mut().rev() {
                held += result.content.held_bytes();
                if held > HELD_BYTES && drop_output(result) > 0 {
                    changed = Some(index);
                }
            }
        }
        changed
    }

    /// Appends a sentence of the engine to the newest result of a tool, or adds a turn of its own where there is none.
    pub(crate) fn note(&mut self, text: &str) {
        let newest = match self.turns.last_mut() {
            Some(Turn::ToolResults(results)) => results.last_mut(),
            Some(Turn::Assistant(_) | Turn::User(_)) | None => None,
        };
        match newest {
            Some(result) => {
                let note = result.note.get_or_insert_default();
                if !note.is_empty() {
                    note.push(' ');
                }
                note.push_str(text);
            }
            None => self.told(text.to_owned()),
        }
    }

    /// Drops all pieces of the provider's own, which are its thinking. Returns the first turn that has changed.
    pub(crate) fn drop_opaque(&mut self) -> Option<usize> {
        let first = self.turns.iter().position(Turn::is_opaque)?;
        for turn in self.turns.iter_mut().skip(first) {
            if let Turn::Assistant(pieces) = turn {
                pieces.retain(|piece| !matches!(piece, Content::Opaque(_)));
            }
        }
        Some(first)
    }

    /// The files that the run has written or edited by tools.
    pub(crate) fn changed_files(&self) -> impl Iterator<Item = &str> {
        self.changed_files.iter().map(String::as_str)
    }

    fn note_changed_files(&mut self, results: &[ToolResult]) {
        let Some(Turn::Assistant(pieces)) = self.turns.last() else {
            return;
        };
        let calls = pieces.iter().filter_map(|piece| match piece {
            Content::ToolCall(call) => Some(call),
            Content::Text(_) | Content::Opaque(_) => None,
        });
        for path in calls.filter_map(|call| changed_file(call, results)) {
            if self.changed_files.len() < CHANGED_FILES {
                self.changed_files.insert(path);
            }
        }
    }

    /// What the engine told the model.
    pub(crate) fn told(&mut self, text: String) {
        self.turns.push(Turn::User(text));
    }

    /// Drops the outputs of the oldest tool calls until about `bytes` less are held, but not those of the last turn.
    /// Returns how many of the oldest turns have none left; `None` when nothing was dropped.
    pub(crate) fn trim(&mut self, bytes: usize) -> Option<usize> {
        let (last, mut freed, mut trimmed) = (self.last_turn(), 0, None);
        for (index, turn) in self.turns.iter_mut().enumerate().take(last) {
            if freed >= bytes {
                break;
            }
            let before = freed;
            freed += trim_turn(turn);
            if freed > before {
                trimmed = Some(index + 1);
            }
        }
        trimmed
    }

    /// Drops the outputs in the oldest `turns` turns, as [`trim`](Self::trim) has done before.
    pub(crate) fn trim_oldest(&mut self, turns: usize) {
        for turn in self.turns.iter_mut().take(turns) {
            trim_turn(turn);
        }
    }

    /// Whether a summary would stand for anything: a turn that is none itself.
    pub(crate) fn is_summarizable(&self) -> bool {
        self.turns.iter().any(|turn| !matches!(turn, Turn::User(_)))
    }

    /// Puts `summary` in the place of the oldest `turns` turns.
    pub(crate) fn replace_oldest(&mut self, turns: usize, summary: String) {
        let turns = turns.min(self.turns.len());
        self.turns.splice(..turns, [Turn::User(summary)]);
    }

    /// Where the last turn begins: with what the model said last.
    fn last_turn(&self) -> usize {
        let said = self
            .turns
            .iter()
            .rposition(|turn| matches!(turn, Turn::Assistant(_)));
        said.unwrap_or(0)
    }
}

/// The file that a call of a file tool has changed.
fn changed_file(call: &ToolCall, results: &[ToolResult]) -> Option<String> {
    #[derive(Deserialize)]
    struct Arguments {
        #[serde(alias = "file_path", alias = "filename", alias = "file")]
        path: String,
    }
    let changes = matches!(call.name.as_str(), "write_file" | "edit_file");
    let has_changed = results
        .iter()
        .any(|result| result.id == call.id && !result.is_error);
    (changes && has_changed)
        .then(|| serde_json::from_str::<Arguments>(&call.arguments).ok())
        .flatten()
        .map(|arguments| arguments.path)
}

/// Returns how many bytes went.
fn trim_turn(turn: &mut Turn) -> usize {
    let Turn::ToolResults(results) = turn else {
        return 0;
    };
    let dropped = results
        .iter_mut()
        .filter(|result| result.content.held_bytes() > FEW_BYTES);
    dropped.map(drop_output).sum()
}

fn drop_output(result: &mut ToolResult) -> usize {
    let bytes = result.content.held_bytes();
    if bytes > 0 {
        result.content = ToolContent::Dropped { bytes };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(bytes: usize) -> ToolResult {
        ToolResult {
            id: String::new(),
            name: String::new(),
            content: ToolContent::Text("x".repeat(bytes)),
            is_error: false,
            note: None,
        }
    }

    /// A turn with one tool call for each output of so many bytes.
    fn turn(conversation: &mut Conversation, outputs: &[usize]) {
        conversation.said(Vec::new());
        conversation.did(outputs.iter().map(|bytes| result(*bytes)).collect());
    }

    fn held(conversation: &Conversation) -> Vec<usize> {
        let outputs = conversation.turns().iter().flat_map(|turn| match turn {
            Turn::ToolResults(results) => results.iter().map(|r| r.content.held_bytes()).collect(),
            Turn::Assistant(_) | Turn::User(_) => vec![],
        });
        outputs.collect()
    }

    #[test]
    fn the_oldest_outputs_are_dropped_when_all_together_are_too_large() {
        let mut conversation = Conversation::default();
        turn(&mut conversation, &[10 << 20, 10 << 20]);
        conversation.told(String::new());
        turn(&mut conversation, &[10 << 20, 10 << 20]);
        assert_eq!(held(&conversation), [0, 10 << 20, 10 << 20, 10 << 20]);
        let Turn::ToolResults(results) = &conversation.turns()[1] else {
            panic!()
        };
        assert_eq!(results[0].content, ToolContent::Dropped { bytes: 10 << 20 });
    }

    #[test]
    fn trimming_takes_the_oldest_outputs_first_and_never_those_of_the_last_turn() {
        let mut conversation = Conversation::default();
        for outputs in [&[1_000, 100][..], &[1_000], &[1_000]] {
            turn(&mut conversation, outputs);
        }
        assert_eq!(conversation.trim(500), Some(2));
        assert_eq!(held(&conversation), [0, 100, 1_000, 1_000]);
        assert_eq!(conversation.trim(1 << 30), Some(4));
        assert_eq!(held(&conversation), [0, 100, 0, 1_000]);
        assert_eq!(conversation.trim(1 << 30), None);
    }

    #[test]
    fn a_trimmed_conversation_can_be_trimmed_again_from_what_was_told() {
        let (mut one, mut other) = (Conversation::default(), Conversation::default());
        for outputs in [&[1_000, 100][..], &[1_000], &[1_000]] {
            turn(&mut one, outputs);
            turn(&mut other, outputs);
        }
        let turns = one.trim(1_500).unwrap();
        other.trim_oldest(turns);
        assert_eq!(held(&one), held(&other));
    }

    #[test]
    fn a_note_stands_behind_the_newest_result_or_alone() {
        let mut conversation = Conversation::default();
        conversation.note("First.");
        assert_eq!(conversation.last_told(), Some("First."));
        turn(&mut conversation, &[10, 10]);
        conversation.note("Second.");
        conversation.note("Third.");
        let Some(Turn::ToolResults(results)) = conversation.turns().last() else {
            panic!()
        };
        assert_eq!(results[0].note, None);
        assert!(results[1].text().ends_with("xxx\n\n[Second. Third.]"));
    }

    #[test]
    fn dropping_thinking_tells_the_first_turn_that_changed() {
        let raw = |text: &str| serde_json::value::RawValue::from_string(text.to_owned()).unwrap();
        let mut conversation = Conversation::default();
        turn(&mut conversation, &[10]);
        assert_eq!(conversation.drop_opaque(), None);
        conversation.said(vec![Content::Opaque(raw("{}")), Content::Text("said".to_owned())]);
        assert_eq!(conversation.drop_opaque(), Some(2));
        assert_eq!(conversation.drop_opaque(), None);
    }

    #[test]
    fn files_that_tools_have_changed_are_remembered_beyond_a_summary() {
        let mut conversation = Conversation::default();
        for (id, name, is_error) in [
            ("1", "write_file", false),
            ("2", "edit_file", true),
            ("3", "read_file", false),
        ] {
            conversation.said(vec![Content::ToolCall(ToolCall {
                id: id.to_owned(),
                name: name.to_owned(),
                arguments: format!("{{\"path\": \"{name}.txt\"}}"),
            })]);
            let result = ToolResult {
                id: id.to_owned(),
                is_error,
                ..result(1)
            };
            assert_eq!(conversation.did(vec![result]), None);
        }
        conversation.replace_oldest(6, "notes".to_owned());
        assert_eq!(
            conversation.changed_files().collect::<Vec<_>>(),
            ["write_file.txt"]
        );
        assert!(!conversation.is_summarizable());
    }
}
