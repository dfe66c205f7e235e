//! Scripted answers of a model.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;

use crate::raw::RawAnswer;

/// Scripted answer.
#[derive(Clone, Debug)]
pub struct Turn {
    pub(crate) text: Vec<String>,
    pub(crate) thinking: Option<String>,
    pub(crate) tool_calls: Vec<(String, Value)>,
    pub(crate) stop: Stop,
    pub(crate) usage: Option<Usage>,
    pub(crate) delay: Duration,
    pub(crate) held: bool,
    pub(crate) fault: Option<Fault>,
    /// Sent instead of everything else.
    pub(crate) raw: Option<RawAnswer>,
}

/// Reason why an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The answer is whole.
    Whole,
    /// The answer has reached its token limit.
    CutOff,
    /// The model refuses.
    Refusal,
}

/// Usage as the provider reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the request.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// A failure instead of a stream, with `Retry-After` in seconds if any.
    Status(StatusCode, Option<u32>),
    /// The connection breaks after so many chunks.
    CutAfter(usize),
}

impl Turn {
    /// The assistant's text, in one delta per element.
    pub fn says<S: Into<String>>(deltas: impl IntoIterator<Item = S>) -> Self {
        Self {
            text: deltas.into_iter().map(Into::into).collect(),
            thinking: None,
            tool_calls: Vec::new(),
            stop: Stop::Whole,
            usage: None,
            delay: Duration::ZERO,
            held: false,
            fault: None,
            raw: None,
        }
    }

    /// The assistant calls a tool.
    pub fn calls(tool: &str, arguments: Value) -> Self {
        Self::says([] as [&str; 0]).and_calls(tool, arguments)
    }

    /// A failure with this status, and `Retry-After` in seconds if any.
    pub fn fails(status: StatusCode, retry_after: Option<u32>) -> Self {
        Self {
            fault: Some(Fault::Status(status, retry_after)),
            ..Self::says([] as [&str; 0])
        }
    }

    /// Adds a tool call to the turn.
    #[must_use]
    pub fn and_calls(mut self, tool: &str, arguments: Value) -> Self {
        self.tool_calls.push((tool.to_owned(), arguments));
        self
    }

    /// Whether the assistant calls a tool.
    pub fn calls_tools(&self) -> bool {
        !self.tool_calls.is_empty()
    }

    /// The model thinks before it writes. Chat Completions shows no thinking.
    #[must_use]
    pub fn thinks(mut self, thinking: &str) -> Self {
        self.thinking = Some(thinking.to_owned());
        self
    }

    /// The answer ends at its token limit: within its thinking, if it has neither text nor calls.
    #[must_use]
    pub fn cut_off(mut self) -> Self {
        self.stop = Stop::CutOff;
        self
    }

    /// Whether the token limit was reached within the thinking.
    pub(crate) fn is_cut_off_in_thinking(&self) -> bool {
        self.stop == Stop::CutOff && self.text.is_empty() && !self.calls_tools()
    }

    /// The model refuses to answer.
    #[must_use]
    pub fn refuses(mut self) -> Self {
        self.stop = Stop::Refusal;
        self
    }

    /// The provider reports this usage, without cache figures. By default the real bytes are counted.
    #[must_use]
    pub fn using(mut self, input: u64, output: u64) -> Self {
        self.usage = Some(Usage { input, output });
        self
    }

    /// The provider waits this long before its first byte.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The provider waits for [`ScriptedModel::release`](crate::ScriptedModel::release) before its first byte.
    #[must_use]
    pub fn held(mut self) -> Self {
        self.held = true;
        self
    }

    /// The connection breaks after this many chunks of the stream.
    #[must_use]
    pub fn cut_after(mut self, chunks: usize) -> Self {
        self.fault = Some(Fault::CutAfter(chunks));
        self
    }
}
