//! Rebuilds a run from its journal: exactly the state of its agent when the last entry was written.

use crate::{
    conversation::Conversation,
    counts::Counts,
    journal::{Entry, NoteKind, What},
    model::{Content, ToolCall, ToolResult},
    reply,
    stop::{ANSWER_NOW, NO_CALL, NO_ROOM_LEFT, NOTHING_SAID},
    tool::Effect,
};

/// Point at which a run resumes.
#[derive(Debug, Default)]
pub(crate) struct Point {
    pub(crate) conversation: Conversation,
    /// The turn that was begun last.
    pub(crate) step: u32,
    /// Answers that did not match so far.
    pub(crate) rejected: u32,
    /// Consecutive turns in which no call could be made.
    pub(crate) broken: u32,
    /// Open part of the last turn.
    pub(crate) open: Option<Open>,
    /// The environment block and the digest of the fixed part of every request, where a reply was kept.
    pub(crate) began: Option<(String, String)>,
    /// Subjects of notes that the model has received.
    pub(crate) noted: Vec<NoteKind>,
    /// The provider's counts of requests that are still prefixes of the conversation.
    pub(crate) counts: Counts,
    /// The pieces so far of an answer that was cut off.
    pub(crate) cut: Vec<String>,
    /// Whether the fallback model answers.
    pub(crate) fell_back: bool,
}

/// A turn with a reply that is not complete.
#[derive(Debug)]
pub(crate) enum Open {
    /// Calls of the turn that have no result.
    Calls(OpenCalls),
    /// A rejected answer for which the model has not received a correction.
    Answer(String),
    /// A part of an answer; the model has not been asked to continue.
    Cut,
}

/// The calls of a turn, and their states, each at its call's index.
#[derive(Debug)]
pub(crate) struct OpenCalls {
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) states: Vec<CallState>,
}

/// State of a call of an open turn.
#[derive(Debug)]
pub(crate) enum CallState {
    /// The call was not begun.
    Planned,
    /// The call was begun, with this possible effect.
    Begun(Effect),
    /// The server works on the call as a task.
    Task(KeptTask),
    /// The call has ended with this result.
    Ended(ToolResult),
}

/// Task of a call that an earlier attempt has begun.
#[derive(Debug)]
pub(crate) struct KeptTask {
    /// Id of the task at the server.
    pub(crate) id: String,
    /// Possible effect of the call.
    pub(crate) effect: Effect,
}

impl OpenCalls {
    /// Creates the state in which no call was made.
    pub(crate) fn new(calls: Vec<ToolCall>) -> Self {
        let states = calls.iter().map(|_| CallState::Planned).collect();
        Self { calls, states }
    }

    fn state(&mut self, call: &str) -> Option<&mut CallState> {
        let index = self.calls.iter().position(|planned| planned.id == call)?;
        self.states.get_mut(index)
    }
}

impl Point {
    /// Replays the journal; `is_broken` returns whether a call could not be made.
    pub(crate) fn after(entries: Vec<Entry>, is_broken: impl Fn(&ToolCall) -> bool) -> Result<Self, String> {
        let mut point = Self::default();
        for Entry { step, what, .. } in entries {
            point.step = point.step.max(step);
            match what {
                What::Began { environment, prefix } => point.began = Some((environment, prefix)),
                What::Reply {
                    content,
                    count,
                    is_cut,
                } => {
                    if let Some(count) = count {
                        point.counts.push(count);
                    }
                    point.replied(content, is_cut, &is_broken);
                }
                What::Intent { id, effect, .. } => point.begun(&id, effect),
                What::CallTask { id, task } => point.task(&id, task)?,
                What::Result(result) => point.result(result)?,
                What::Correction { text } => point.corrected(text),
                What::Compacted { summary, turns } => {
                    point.conversation.replace_oldest(turns, summary);
                    point.counts.turns_replaced();
                    point.noted.retain(|kind| !kind.is_warning());
                    point.cut.clear();
                }
                What::Trimmed { turns } => {
                    point.conversation.trim_oldest(turns);
                    point.counts.outputs_dropped(point.conversation.outputs());
                }
                What::Note { kind, text } => {
                    point.noted.push(kind);
                    if kind == NoteKind::Ending {
                        point.cut.clear();
                    }
                    point.conversation.note(&text);
                }
                What::ThinkingDropped => {
                    point.conversation.drop_opaque();
                }
                What::FellBack => {
                    point.fell_back = true;
                    point.conversation.hand_over();
                    point.counts.model_replaced();
                }
            }
        }
        Ok(point)
    }

    fn replied(&mut self, content: Vec<Content>, is_cut: bool, is_broken: impl Fn(&ToolCall) -> bool) {
        let calls = reply::tool_calls(&content);
        self.open = Some(if is_cut {
            self.cut.push(reply::joined(&content));
            Open::Cut
        } else if calls.is_empty() {
            let mut answer = std::mem::take(&mut self.cut).concat();
            answer.push_str(&reply::joined(&content));
            Open::Answer(answer)
        } else {
            self.cut.clear();
            self.broken = if calls.iter().all(is_broken) {
                self.broken + 1
            } else {
                0
            };
            Open::Calls(OpenCalls::new(calls))
        });
        self.conversation.push_reply(content);
    }

    /// The state of a call in the open turn.
    fn call_state(&mut self, call: &str) -> Option<&mut CallState> {
        match &mut self.open {
            Some(Open::Calls(open)) => open.state(call),
            Some(Open::Answer(_) | Open::Cut) | None => None,
        }
    }

    fn begun(&mut self, call: &str, effect: Effect) {
        if let Some(state) = self.call_state(call) {
            *state = CallState::Begun(effect);
        }
    }

    fn task(&mut self, call: &str, id: String) -> Result<(), String> {
        if let Some(state) = self.call_state(call)
            && let CallState::Begun(effect) = *state
        {
            *state = CallState::Task(KeptTask { id, effect });
            return Ok(());
        }
        Err(format!(
            "the journal has a task of {call:?} and no such call that was begun"
        ))
    }

    fn result(&mut self, result: ToolResult) -> Result<(), String> {
        let Some(state) = self.call_state(&result.id) else {
            return Err(format!(
                "the journal has a result of {:?} and no such call",
                result.id
            ));
        };
        *state = CallState::Ended(result);
        self.complete_turn();
        Ok(())
    }

    /// Adds the results of the open turn to the conversation, if every call has one.
    fn complete_turn(&mut self) {
        let is_ended = |state: &CallState| matches!(state, CallState::Ended(_));
        let Some(Open::Calls(open)) = self.open.take_if(
            |open| matches!(open, Open::Calls(OpenCalls { states, .. }) if states.iter().all(is_ended)),
        ) else {
            return;
        };
        let results = open.states.into_iter().filter_map(|state| match state {
            CallState::Ended(result) => Some(result),
            CallState::Planned | CallState::Begun(_) | CallState::Task(_) => None,
        });
        if self.conversation.did(results.collect()) {
            self.counts.outputs_dropped(self.conversation.outputs());
        }
    }

    fn corrected(&mut self, text: String) {
        let open = self.open.take();
        if text == NO_ROOM_LEFT {
            self.cut.push(String::new());
        } else if text == NO_CALL {
            self.cut.clear();
        } else if !matches!(open, Some(Open::Cut)) && text != NOTHING_SAID && text != ANSWER_NOW {
            self.rejected += 1;
        }
        self.conversation.push_message(text);
    }
}

#[cfg(test)]
mod tests {
    use sortie_api::Micros;

    use super::*;
    use crate::content::ToolContent;

    #[test]
    fn a_task_without_a_begun_call_is_refused() {
        let entry = Entry {
            step: 1,
            spent_micros: Micros::ZERO,
            what: What::CallTask {
                id: "a".to_owned(),
                task: "task-1".to_owned(),
            },
        };
        let refused = Point::after(vec![entry], |_| false).unwrap_err();
        assert_eq!(
            refused,
            "the journal has a task of \"a\" and no such call that was begun"
        );
    }

    #[test]
    fn a_result_without_its_call_is_refused() {
        let result = ToolResult {
            id: "a".to_owned(),
            name: "shell".to_owned(),
            content: ToolContent::Text(String::new()),
            is_error: false,
            note: None,
        };
        let entry = Entry {
            step: 1,
            spent_micros: Micros::ZERO,
            what: What::Result(result),
        };
        let refused = Point::after(vec![entry], |_| false).unwrap_err();
        assert_eq!(refused, "the journal has a result of \"a\" and no such call");
    }
}
