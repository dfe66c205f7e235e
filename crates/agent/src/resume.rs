//! A run rebuilt from its journal: exactly what its agent knew when the last entry was written.

use crate::{
    conversation::Conversation,
    journal::{Entry, What},
    model::{Content, ToolCall, ToolResult},
    reply,
    turn::NOTHING_SAID,
};

/// Where a run goes on.
#[derive(Debug, Default)]
pub(crate) struct Point {
    pub(crate) conversation: Conversation,
    /// The turn that was begun last.
    pub(crate) step: u32,
    /// Answers that did not match so far.
    pub(crate) rejected: u32,
    /// Turns in a row whose calls could all not be made.
    pub(crate) broken: u32,
    /// What the last turn still lacks.
    pub(crate) open: Option<Open>,
    /// Whether the conversation was being shortened: outputs were dropped, and a summary may have been to follow.
    pub(crate) shortening: bool,
}

/// A turn whose reply is there and which is not complete.
#[derive(Debug)]
pub(crate) enum Open {
    /// Some of its calls have no result.
    Calls(OpenCalls),
    /// An answer that was rejected, and of which the model was not told so.
    Answer(String),
}

/// The calls of a turn, and the results that are there, each at its call's place.
#[derive(Debug)]
pub(crate) struct OpenCalls {
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) results: Vec<Option<ToolResult>>,
}

impl OpenCalls {
    /// None of them was made.
    pub(crate) fn new(calls: Vec<ToolCall>) -> Self {
        let results = calls.iter().map(|_| None).collect();
        Self { calls, results }
    }
}

impl Point {
    /// Goes through the journal; `is_broken` says of a call that it could not be made.
    pub(crate) fn after(entries: Vec<Entry>, is_broken: impl Fn(&ToolCall) -> bool) -> Result<Self, String> {
        let mut point = Self::default();
        for Entry { step, what, .. } in entries {
            point.step = point.step.max(step);
            point.shortening = matches!(what, What::Trimmed { .. });
            match what {
                What::Reply { content } => point.replied(content, &is_broken),
                What::Intent { .. } => {}
                What::Result(result) => point.result(result)?,
                What::Correction { text } => point.corrected(text),
                What::Compacted { summary, turns } => point.conversation.replace_oldest(turns, summary),
                What::Trimmed { turns } => point.conversation.trim_oldest(turns),
            }
        }
        Ok(point)
    }

    fn replied(&mut self, content: Vec<Content>, is_broken: impl Fn(&ToolCall) -> bool) {
        let calls = reply::tool_calls(&content);
        self.open = Some(if calls.is_empty() {
            Open::Answer(reply::joined(&content))
        } else {
            self.broken = if calls.iter().all(is_broken) {
                self.broken + 1
            } else {
                0
            };
            Open::Calls(OpenCalls::new(calls))
        });
        self.conversation.said(content);
    }

    fn result(&mut self, result: ToolResult) -> Result<(), String> {
        let stray = || format!("the journal has a result of {:?} and no such call", result.id);
        let Some(Open::Calls(OpenCalls { calls, results })) = &mut self.open else {
            return Err(stray());
        };
        let call = calls.iter().position(|call| call.id == result.id);
        let slot = call.and_then(|index| results.get_mut(index)).ok_or_else(stray)?;
        *slot = Some(result);
        if results.iter().all(Option::is_some) {
            let results = std::mem::take(results).into_iter().flatten().collect();
            self.conversation.did(results);
            self.open = None;
        }
        Ok(())
    }

    fn corrected(&mut self, text: String) {
        if text != NOTHING_SAID {
            self.rejected += 1;
        }
        self.open = None;
        self.conversation.told(text);
    }
}

#[cfg(test)]
mod tests {
    use sortie_api::Micros;

    use super::*;
    use crate::content::ToolContent;

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
