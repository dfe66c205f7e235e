//! What was said in a run so far, bounded in memory, and shortened where it no longer fits into the model's window.
//!
//! It is changed the same way while the run works and while it is rebuilt from the journal. A tool call is never parted
//! from its result, and the last turn is never shortened.

use crate::{
    content::ToolContent,
    model::{Content, ToolResult, Turn},
};

/// Tool outputs that are held together; the oldest are dropped beyond.
const HELD_BYTES: usize = 32 * 1024 * 1024;
/// An output that is not longer is not worth dropping: the words in its place are hardly shorter.
const FEW_BYTES: usize = 128;

/// The conversation after the task.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    turns: Vec<Turn>,
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

    /// What came of its tool calls. Bounds what is held: beyond the limit the oldest outputs go.
    pub(crate) fn did(&mut self, results: Vec<ToolResult>) {
        self.turns.push(Turn::ToolResults(results));
        let mut held = 0;
        for turn in self.turns.iter_mut().rev() {
            let Turn::ToolResults(results) = turn else {
                continue;
            };
            for result in results.iter_mut().rev() {
                held += result.content.held_bytes();
                if held > HELD_BYTES {
                    drop_output(result);
                }
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

    /// How many of the oldest turns a summary can stand for so that the turns it leaves take at most `bytes`, or the
    /// last turn alone does not: zero when there is nothing but the last turn, or a summary before it.
    pub(crate) fn summarizable(&self, bytes: usize) -> usize {
        let (mut kept, mut first) = (0_usize, self.last_turn());
        for (index, turn) in self.turns.iter().enumerate().rev() {
            kept += turn.bytes();
            if index >= first {
                continue;
            }
            if kept > bytes {
                break;
            }
            if matches!(turn, Turn::Assistant(_)) {
                first = index;
            }
        }
        let oldest = self.turns.get(..first).unwrap_or_default();
        let worth = oldest.iter().any(|turn| !matches!(turn, Turn::User(_)));
        if worth { first } else { 0 }
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
    fn a_summary_stands_for_whole_turns_and_leaves_the_last() {
        let mut conversation = Conversation::default();
        for _ in 0..4 {
            turn(&mut conversation, &[10_000]);
        }
        assert_eq!(conversation.summarizable(25_000), 4);
        assert_eq!(conversation.summarizable(1), 6);
        conversation.replace_oldest(6, "what was".to_owned());
        assert_eq!(conversation.turns().len(), 3);
        assert!(matches!(&conversation.turns()[0], Turn::User(text) if text == "what was"));
        assert_eq!(conversation.summarizable(1), 0);
        assert_eq!(Conversation::default().summarizable(0), 0);
    }
}
