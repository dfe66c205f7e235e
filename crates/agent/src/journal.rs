//! Journal, from which a run resumes after the death of its worker: the transcript, and the calls that were begun.
//!
//! The agent writes entries in order while it works; the engine keeps them durable, as it does the events. A reply that is the
//! final answer is never written: a run without tools has an empty journal.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use sortie_api::Micros;

use crate::{
    counts::Count,
    model::{Content, ToolResult},
    tool::Effect,
};

/// Entry of the journal. Entries are serialized as JSON objects.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The turn it belongs to, from 1.
    pub step: u32,
    /// Cost of models and priced tools so far, without compute, in micros.
    pub spent_micros: Micros,
    /// Content of the entry.
    pub what: What,
}

/// Content of the entry.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Message of the model in a turn that is not the last.
    Reply {
        /// Pieces of the message, as they came.
        content: Vec<Content>,
        /// The provider's count of the call's input.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        count: Option<Count>,
        /// Whether it is a part of an answer that was cut off at its limit.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_cut: bool,
    },
    /// The fixed part of every later request. Written before the first reply, and again if a resumed run has a different one.
    Began {
        /// The environment block of the first message. A resumed run keeps it.
        environment: String,
        /// A digest of system prompt, tools and first message, in hexadecimal digits.
        prefix: String,
    },
    /// A tool call is about to be made. Durable before a call with an [outside](Effect::is_outside) effect begins.
    Intent {
        /// The call's id.
        id: String,
        /// The tool's name.
        tool: String,
        /// Possible effect of the call.
        effect: Effect,
    },
    /// The server of a tool call works on it as a task. Durable before the agent waits for the task, so that the next worker reads
    /// the task instead of repeating the call.
    CallTask {
        /// The call's id.
        id: String,
        /// The task's id at the server.
        task: String,
    },
    /// Result of a tool call.
    Result(ToolResult),
    /// Message of the engine that corrects the model's answer.
    Correction {
        /// The text.
        text: String,
    },
    /// The conversation before this point was replaced by a summary.
    Compacted {
        /// Summary that replaces the turns.
        summary: String,
        /// Number of the oldest turns that the summary replaces.
        turns: usize,
    },
    /// Old tool outputs were dropped from the conversation.
    Trimmed {
        /// In how many of the oldest turns.
        turns: usize,
    },
    /// The engine appended a note for the model to the newest tool result.
    Note {
        /// The subject.
        kind: NoteKind,
        /// The text.
        text: String,
    },
    /// The thinking blocks were dropped from the conversation: something before them had changed.
    ThinkingDropped,
    /// The fallback model has replaced the run's model.
    FellBack,
}

/// The subject of a note. Each is given once, except for repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// Most of the run's time has passed.
    Time,
    /// Most of the run's budget is spent.
    Budget,
    /// Equal calls had equal results several times.
    Repetition,
    /// The final answer is asked for.
    Ending,
    /// The run resumed after its worker was lost, without its jobs.
    Resumed,
}

impl NoteKind {
    /// Whether it is a warning that is given once in a conversation.
    pub(crate) const fn is_warning(self) -> bool {
        match self {
            Self::Time | Self::Budget => true,
            Self::Repetition | Self::Ending | Self::Resumed => false,
        }
    }
}

/// The journal of a resumed run: every entry so far, in order.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    entries: Vec<Entry>,
    ended: Ended,
}

/// End of the attempt that wrote the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The worker was lost: the cost of a model call under way was not recorded.
    #[default]
    Lost,
    /// The attempt was handed over cleanly: all of its cost is recorded.
    HandedOver,
}

/// A call that was begun and has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// The turn.
    pub step: u32,
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub tool: String,
}

impl Journal {
    /// Creates the journal of a run with a lost worker, from its entries, oldest first.
    pub fn new(entries: Vec<Entry>) -> Self {
        Self {
            entries,
            ended: Ended::Lost,
        }
    }

    /// Marks the journal of a run that its worker handed over cleanly: [`BudgetSpec::spent`](crate::BudgetSpec::spent) includes
    /// all of its cost, even of a model call that was under way.
    #[must_use]
    pub fn handed_over(self) -> Self {
        Self {
            ended: Ended::HandedOver,
            ..self
        }
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn into_parts(self) -> (Vec<Entry>, Ended) {
        (self.entries, self.ended)
    }

    /// The last complete turn: its reply exists and each of its calls has a result, or it was corrected. Zero if there is none.
    pub fn last_step(&self) -> u32 {
        let (mut complete, mut waiting) = (0, HashSet::new());
        for Entry { step, what, .. } in &self.entries {
            match what {
                What::Reply { content, .. } => {
                    waiting = content.iter().filter_map(call_id).collect();
                }
                What::Result(result) => {
                    if waiting.remove(result.id.as_str()) && waiting.is_empty() {
                        complete = *step;
                    }
                }
                What::Correction { .. } => complete = *step,
                What::Began { .. }
                | What::Intent { .. }
                | What::CallTask { .. }
                | What::Compacted { .. }
                | What::Trimmed { .. }
                | What::Note { .. }
                | What::ThinkingDropped
                | What::FellBack => {}
            }
        }
        complete
    }

    /// Returns the cost of models and priced tools at the last entry.
    pub fn spent(&self) -> Micros {
        self.entries
            .last()
            .map_or(Micros::ZERO, |entry| entry.spent_micros)
    }

    /// A call under way with an unknown effect, and without a task: the run must not continue.
    pub fn uncertain_call(&self) -> Option<OpenCall> {
        self.open_call(false)
    }

    /// A call under way with an unknown effect, and with a task: the run may continue only with the result of the task.
    pub fn call_with_task(&self) -> Option<OpenCall> {
        self.open_call(true)
    }

    /// The first call that was begun, may have an effect outside of the run, and has no result.
    fn open_call(&self, has_task: bool) -> Option<OpenCall> {
        let (mut ended, mut with_task) = (HashSet::new(), HashSet::new());
        for Entry { step, what, .. } in &self.entries {
            match what {
                What::Result(result) => {
                    ended.insert((*step, result.id.as_str()));
                }
                What::CallTask { id, .. } => {
                    with_task.insert((*step, id.as_str()));
                }
                What::Reply { .. }
                | What::Began { .. }
                | What::Intent { .. }
                | What::Correction { .. }
                | What::Compacted { .. }
                | What::Trimmed { .. }
                | What::Note { .. }
                | What::ThinkingDropped
                | What::FellBack => {}
            }
        }
        self.entries.iter().find_map(|Entry { step, what, .. }| {
            let What::Intent { id, tool, effect } = what else {
                return None;
            };
            let key = (*step, id.as_str());
            let is_open =
                effect.is_outside() && !ended.contains(&key) && with_task.contains(&key) == has_task;
            is_open.then(|| OpenCall {
                step: *step,
                id: id.clone(),
                tool: tool.clone(),
            })
        })
    }
}

fn call_id(piece: &Content) -> Option<&str> {
    match piece {
        Content::ToolCall(call) => Some(&call.id),
        Content::Text(_) | Content::Opaque(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use sortie_testkit::list;

    use super::*;
    use crate::{content::ToolContent, model::ToolCall};

    fn entry(step: u32, what: What) -> Entry {
        Entry {
            step,
            spent_micros: Micros::new(u64::from(step)).unwrap(),
            what,
        }
    }

    fn reply(step: u32, ids: &[&str]) -> Entry {
        let call = |id: &&str| {
            Content::ToolCall(ToolCall {
                id: (*id).to_owned(),
                name: "post".to_owned(),
                arguments: "{}".to_owned(),
            })
        };
        let content = ids.iter().map(call).collect();
        entry(
            step,
            What::Reply {
                content,
                count: None,
                is_cut: false,
            },
        )
    }

    fn intent(step: u32, id: &str, effect: Effect) -> Entry {
        let (id, tool) = (id.to_owned(), "post".to_owned());
        entry(step, What::Intent { id, tool, effect })
    }

    fn task(step: u32, id: &str) -> Entry {
        let (id, task) = (id.to_owned(), "task-1".to_owned());
        entry(step, What::CallTask { id, task })
    }

    fn result(step: u32, id: &str) -> Entry {
        let result = ToolResult {
            id: id.to_owned(),
            name: "post".to_owned(),
            content: ToolContent::Text("ok".to_owned()),
            is_error: false,
            note: None,
        };
        entry(step, What::Result(result))
    }

    #[test]
    fn a_turn_is_complete_with_the_last_of_its_results() {
        let all = vec![
            reply(1, &["a", "b"]),
            intent(1, "a", Effect::Nothing),
            intent(1, "b", Effect::Nothing),
            result(1, "b"),
            result(1, "a"),
            reply(2, &[]),
            entry(2, What::Correction { text: String::new() }),
            entry(2, What::Trimmed { turns: 1 }),
            reply(3, &["a"]),
        ];
        let steps: Vec<u32> = (0..=all.len())
            .map(|cut| Journal::new(all[..cut].to_vec()).last_step())
            .collect();
        assert_eq!(steps, [0, 0, 0, 0, 0, 1, 1, 2, 2, 2]);
        assert_eq!(Journal::new(all).spent().get(), 3);
    }

    #[test]
    fn only_an_open_call_with_an_effect_outside_is_uncertain() {
        let open = |effect| Journal::new(vec![reply(4, &["a"]), intent(4, "a", effect)]);
        assert_eq!(open(Effect::Nothing).uncertain_call(), None);
        assert_eq!(open(Effect::Directory).uncertain_call(), None);
        assert!(open(Effect::DirectoryAndOutside).uncertain_call().is_some());
        let call = open(Effect::Outside).uncertain_call().unwrap();
        assert_eq!(
            (call.step, call.id.as_str(), call.tool.as_str()),
            (4, "a", "post")
        );
        // The same id in a different turn is a different call.
        let entries = vec![result(3, "a"), reply(4, &["a"]), intent(4, "a", Effect::Outside)];
        assert!(Journal::new(entries).uncertain_call().is_some());
        let entries = vec![reply(4, &["a"]), intent(4, "a", Effect::Outside), result(4, "a")];
        assert_eq!(Journal::new(entries).uncertain_call(), None);
    }

    #[test]
    fn a_call_with_a_task_is_not_uncertain_and_is_known_until_it_has_its_result() {
        let of = |entries: Vec<Entry>| {
            let journal = Journal::new(entries);
            let id = |call: Option<OpenCall>| call.map(|call| call.id);
            (id(journal.uncertain_call()), id(journal.call_with_task()))
        };
        let (a, b) = (Some("a".to_owned()), Some("b".to_owned()));
        let mut entries = vec![
            reply(4, &["a", "b"]),
            intent(4, "a", Effect::Outside),
            task(4, "a"),
        ];
        assert_eq!(of(entries.clone()), (None, a.clone()));
        entries.push(intent(4, "b", Effect::Outside));
        assert_eq!(of(entries.clone()), (b, a));
        entries.extend([result(4, "a"), result(4, "b")]);
        assert_eq!(of(entries), (None, None));
        // A task of another turn belongs to another call.
        let entries = vec![task(3, "a"), reply(4, &["a"]), intent(4, "a", Effect::Outside)];
        assert_eq!(of(entries), (Some("a".to_owned()), None));
        let entries = vec![reply(4, &["a"]), intent(4, "a", Effect::Nothing), task(4, "a")];
        assert_eq!(of(entries), (None, None), "a call that may be repeated");
    }

    #[test]
    fn an_entry_is_a_json_object_that_comes_back_the_same() {
        for entry in list! {
            reply(1, &["a"]), intent(1, "a", Effect::Outside), task(1, "a"), result(1, "a"),
            entry(2, What::Correction { text: "again".to_owned() }),
            entry(2, What::Compacted { summary: "so".to_owned(), turns: 3 }), entry(2, What::Trimmed { turns: 3 }),
            entry(2, What::ThinkingDropped), entry(2, What::FellBack),
            entry(2, What::Note { kind: NoteKind::Ending, text: "now".to_owned() }),
        } {
            let stored = serde_json::to_string(&entry).unwrap();
            assert!(stored.starts_with('{'));
            let back: Entry = serde_json::from_str(&stored).unwrap();
            assert_eq!(serde_json::to_string(&back).unwrap(), stored);
        }
    }
}
