//! Conversation of a run: bounded in memory, and shortened when it exceeds the model's window.
//!
//! It changes the same way while the run works and while it is rebuilt from the journal. A tool call is never separated from its
//! result. A function that changes already sent turns reports it to its caller: later thinking may be invalid.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use sortie_sandbox::ExitKind;

use crate::{
    content::ToolContent,
    model::{Content, ToolCall, ToolResult, Turn},
    tool::names::{is_path, tool_named},
};

/// Maximum size of all tool outputs in memory; beyond it the oldest are dropped.
const HELD_BYTES: usize = 32 * 1024 * 1024;
/// Outputs up to this length are not worth dropping: the replacement text is hardly shorter.
const FEW_BYTES: usize = 128;

/// Maximum number of changed files that are remembered.
const CHANGED_FILES: usize = 200;

/// The conversation after the task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conversation {
    turns: Vec<Turn>,
    /// Files that the run has written or edited by tools, the newest last, including those of replaced turns.
    changed_files: Vec<String>,
    /// The ids of all calls, including those of replaced turns.
    call_ids: HashSet<String>,
}

impl Conversation {
    /// Returns the turns, oldest first.
    pub(crate) fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// Returns the engine's message to the model, if that came last.
    pub(crate) fn last_told(&self) -> Option<&str> {
        match self.turns.last() {
            Some(Turn::User(text)) => Some(text),
            Some(Turn::Assistant(_) | Turn::ToolResults(_)) | None => None,
        }
    }

    /// Adds a turn of the model.
    pub(crate) fn push_reply(&mut self, content: Vec<Content>) {
        let calls = content.iter().filter_map(|piece| match piece {
            Content::ToolCall(call) => Some(call.id.clone()),
            Content::Text(_) | Content::Opaque(_) => None,
        });
        self.call_ids.extend(calls);
        self.turns.push(Turn::Assistant(content));
    }

    /// Adds the results of its tool calls. Bounds the held bytes: beyond the limit the oldest outputs are dropped. Returns
    /// whether any was dropped.
    pub(crate) fn did(&mut self, results: Vec<ToolResult>) -> bool {
        self.note_changed_files(&results);
        self.turns.push(Turn::ToolResults(results));
        let (mut held, mut has_dropped) = (0, false);
        for turn in self.turns.iter_mut().rev() {
            let Turn::ToolResults(results) = turn else {
                continue;
            };
            for result in results.iter_mut().rev() {
                held += result.content.held_bytes();
                if held > HELD_BYTES {
                    has_dropped |= drop_output(result) > 0;
                }
            }
        }
        has_dropped
    }

    /// Appends a sentence of the engine to the newest tool result, or adds a separate turn if there is no such result.
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
            None => self.push_message(text.to_owned()),
        }
    }

    /// Drops all opaque pieces, which are the provider's thinking. Returns whether there were any.
    pub(crate) fn drop_opaque(&mut self) -> bool {
        let has_dropped = self.turns.iter().any(Turn::is_opaque);
        for turn in &mut self.turns {
            if let Turn::Assistant(pieces) = turn {
                pieces.retain(|piece| !matches!(piece, Content::Opaque(_)));
            }
        }
        has_dropped
    }

    /// The ids of all calls of the run.
    pub(crate) fn call_ids(&self) -> &HashSet<String> {
        &self.call_ids
    }

    /// Prepares the conversation for another model: removes the thinking of the previous one, which it cannot read, and replaces
    /// call ids by ones that every provider accepts. Some accept only their own format.
    pub(crate) fn hand_over(&mut self) {
        self.drop_opaque();
        let mut ids = HashMap::new();
        for turn in &mut self.turns {
            match turn {
                Turn::Assistant(pieces) => {
                    for piece in pieces {
                        if let Content::ToolCall(call) = piece {
                            // Nine letters and digits, as Mistral requires.
                            let id = format!("call{:05}", ids.len());
                            ids.insert(std::mem::replace(&mut call.id, id.clone()), id);
                        }
                    }
                }
                Turn::ToolResults(results) => {
                    for result in results {
                        if let Some(id) = ids.get(&result.id) {
                            result.id.clone_from(id);
                        }
                    }
                }
                Turn::User(_) => {}
            }
        }
        self.call_ids.extend(ids.into_values());
    }

    /// Whether a command was left running in the background.
    pub(crate) fn had_jobs(&self) -> bool {
        let results = self.turns.iter().flat_map(|turn| match turn {
            Turn::ToolResults(results) => results.as_slice(),
            Turn::Assistant(_) | Turn::User(_) => &[],
        });
        let mut contents = results.map(|result| &result.content);
        contents.any(
            |content| matches!(content, ToolContent::Command(command) if command.exit == ExitKind::Running),
        )
    }

    /// Number of tool results that it holds.
    pub(crate) fn outputs(&self) -> usize {
        let results = self.turns.iter().map(|turn| match turn {
            Turn::ToolResults(results) => results.len(),
            Turn::Assistant(_) | Turn::User(_) => 0,
        });
        results.sum()
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
        let changed: Vec<String> = calls.filter_map(|call| changed_file(call, results)).collect();
        for path in changed {
            self.changed_files.retain(|known| *known != path);
            self.changed_files.push(path);
        }
        let surplus = self.changed_files.len().saturating_sub(CHANGED_FILES);
        self.changed_files.drain(..surplus);
    }

    /// Adds a message of the engine to the model.
    pub(crate) fn push_message(&mut self, text: String) {
        self.turns.push(Turn::User(text));
    }

    /// Drops the outputs of the oldest tool calls until about `bytes` are freed, but not those of the last turn. Returns how many
    /// of the oldest turns have none left; `None` if nothing was dropped.
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

    /// Drops the outputs in the oldest `turns` turns, repeating an earlier [`trim`](Self::trim).
    pub(crate) fn trim_oldest(&mut self, turns: usize) {
        for turn in self.turns.iter_mut().take(turns) {
            trim_turn(turn);
        }
    }

    /// Whether there is anything to summarize: a turn that is not a summary itself.
    pub(crate) fn is_summarizable(&self) -> bool {
        self.turns.iter().any(|turn| !matches!(turn, Turn::User(_)))
    }

    /// Replaces the oldest `turns` turns by `summary`.
    pub(crate) fn replace_oldest(&mut self, turns: usize, summary: String) {
        let turns = turns.min(self.turns.len());
        self.turns.splice(..turns, [Turn::User(summary)]);
    }

    /// Returns the index at which the last turn begins: that of the model's last message.
    fn last_turn(&self) -> usize {
        let said = self
            .turns
            .iter()
            .rposition(|turn| matches!(turn, Turn::Assistant(_)));
        said.unwrap_or(0)
    }
}

/// The file that a call of a file tool has changed, under any of the names that the model may use.
fn changed_file(call: &ToolCall, results: &[ToolResult]) -> Option<String> {
    let tool = tool_named(&call.name).unwrap_or(&call.name);
    let has_changed = results
        .iter()
        .any(|result| result.id == call.id && !result.is_error);
    if !matches!(tool, "write_file" | "edit_file") || !has_changed {
        return None;
    }
    let arguments: serde_json::Map<String, Value> = serde_json::from_str(&call.arguments).ok()?;
    let path = arguments.iter().find(|(field, _)| is_path(field))?.1;
    path.as_str().map(str::to_owned)
}

/// Returns the number of freed bytes.
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

    /// Adds a turn with one tool call for each of these output sizes.
    fn turn(conversation: &mut Conversation, outputs: &[usize]) {
        conversation.push_reply(Vec::new());
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
        conversation.push_message(String::new());
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
    fn dropping_thinking_tells_whether_there_was_any() {
        let raw = |text: &str| serde_json::value::RawValue::from_string(text.to_owned()).unwrap();
        let mut conversation = Conversation::default();
        turn(&mut conversation, &[10]);
        assert!(!conversation.drop_opaque());
        conversation.push_reply(vec![Content::Opaque(raw("{}")), Content::Text("said".to_owned())]);
        assert!(conversation.drop_opaque());
        assert!(!conversation.drop_opaque());
    }

    #[test]
    fn another_model_gets_ids_that_it_takes_and_the_run_forgets_none() {
        let mut conversation = Conversation::default();
        for id in ["call00001", "functions.shell:0"] {
            conversation.push_reply(vec![Content::ToolCall(ToolCall {
                id: id.to_owned(),
                name: "shell".to_owned(),
                arguments: "{}".to_owned(),
            })]);
            let result = ToolResult {
                id: id.to_owned(),
                ..result(1)
            };
            conversation.did(vec![result]);
        }
        conversation.hand_over();
        let ids: Vec<&str> = conversation
            .turns()
            .iter()
            .map(|turn| match turn {
                Turn::Assistant(pieces) => match &pieces[0] {
                    Content::ToolCall(call) => call.id.as_str(),
                    other @ (Content::Text(_) | Content::Opaque(_)) => panic!("{other:?}"),
                },
                Turn::ToolResults(results) => results[0].id.as_str(),
                Turn::User(text) => panic!("{text}"),
            })
            .collect();
        assert_eq!(ids, ["call00000", "call00000", "call00001", "call00001"]);
        conversation.replace_oldest(4, "notes".to_owned());
        let mut known: Vec<_> = conversation.call_ids().iter().map(String::as_str).collect();
        known.sort_unstable();
        assert_eq!(known, ["call00000", "call00001", "functions.shell:0"]);
    }

    #[test]
    fn files_that_tools_have_changed_are_remembered_beyond_a_summary() {
        let mut conversation = Conversation::default();
        for (id, name, is_error) in [
            ("1", "write_file", false),
            ("2", "edit_file", true),
            ("3", "read_file", false),
        ] {
            conversation.push_reply(vec![Content::ToolCall(ToolCall {
                id: id.to_owned(),
                name: name.to_owned(),
                arguments: format!("{{\"path\": \"{name}.txt\"}}"),
            })]);
            let result = ToolResult {
                id: id.to_owned(),
                is_error,
                ..result(1)
            };
            assert!(!conversation.did(vec![result]));
        }
        conversation.replace_oldest(6, "notes".to_owned());
        assert_eq!(
            conversation.changed_files().collect::<Vec<_>>(),
            ["write_file.txt"]
        );
        assert!(!conversation.is_summarizable());
    }
}
