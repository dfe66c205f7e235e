//! Assembles an answer from its chunks.

use serde::Deserialize;
use serde_json::value::RawValue;
use sortie_agent::model::{Content, Deltas, Reply, StopReason, Usage};

use crate::{
    answer::{CALLS, Decoder, Failure, Flow, parse},
    json::ObjectEnd,
    openai::{self, Counted, Figures},
    stop,
    wire::{Arguments, Count, Joined, List, Object, Piece, Text},
};

use super::{
    reasoning::{Detail, Reasoning},
    request::Body,
};

/// A chunk of the stream, or the whole answer of a server that does not stream. Unknown fields are ignored.
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: List<Choice<'a>>,
    #[serde(default)]
    usage: Object<Figures>,
    /// Groq sends usage here.
    #[serde(default)]
    x_groq: Object<Extra>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Extra {
    #[serde(default)]
    usage: Object<Figures>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    delta: Object<Delta<'a>>,
    /// Message of an answer that does not stream.
    #[serde(borrow, default)]
    message: Object<Delta<'a>>,
    #[serde(borrow, default)]
    finish_reason: Text<'a>,
    /// A few servers send usage here.
    #[serde(default)]
    usage: Object<Figures>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Piece<'a>,
    #[serde(borrow, default)]
    refusal: Piece<'a>,
    #[serde(borrow, default)]
    reasoning_content: Option<Piece<'a>>,
    #[serde(borrow, default)]
    reasoning: Piece<'a>,
    #[serde(borrow, default)]
    reasoning_details: List<Detail<'a>>,
    #[serde(borrow, default)]
    tool_calls: List<CallDelta<'a>>,
    /// Call in the deprecated form that tool calls have replaced.
    #[serde(borrow, default)]
    function_call: Object<FunctionDelta<'a>>,
}

#[derive(Default, Deserialize)]
struct CallDelta<'a> {
    #[serde(default)]
    index: Count,
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow, default)]
    function: Object<FunctionDelta<'a>>,
}

#[derive(Default, Deserialize)]
struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    arguments: Arguments<'a>,
}

/// The part of an answer that has arrived.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    /// Request. We estimate missing usage from its size.
    body: &'a Body<'a>,
    /// Number of turns in the conversation so far.
    turn: usize,
    text: Joined,
    refused: bool,
    reasoning: Reasoning,
    calls: Vec<Call>,
    counted: Counted,
    stopped: Option<StopReason>,
}

#[derive(Debug)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: Joined,
    /// Detects the end of the arguments.
    end: ObjectEnd,
}

impl<'a> Answer<'a> {
    /// Creates the answer to `body`. Its conversation has `turn` turns.
    pub(super) fn new(body: &'a Body<'a>, turn: usize) -> Self {
        Self {
            body,
            turn,
            text: Joined::default(),
            refused: false,
            reasoning: Reasoning::default(),
            calls: Vec::new(),
            counted: Counted::default(),
            stopped: None,
        }
    }

    fn take_chunk(&mut self, data: &str, deltas: &dyn Deltas) -> Result<(), Failure> {
        let chunk: Chunk<'_> = parse(data)?;
        let extra = chunk.x_groq.0.and_then(|extra| extra.usage.0);
        let figures = [chunk.usage.0, extra].into_iter().flatten();
        figures.for_each(|figures| self.counted.take(figures.into()));
        for choice in chunk.choices.0 {
            if let Some(figures) = choice.usage.0 {
                self.counted.take(figures.into());
            }
            if let Some(delta) = choice.delta.0.or(choice.message.0) {
                self.take_delta(delta, deltas)?;
            }
            match stop::reason(&choice.finish_reason) {
                Ok(reason) => self.stopped = reason.or(self.stopped),
                // The error of the chunk gives a better message.
                Err(_) if chunk.error.is_some() => {}
                Err(failure) => return Err(failure),
            }
        }
        let error = chunk
            .error
            .filter(|error| !matches!(error.get(), "\"\"" | "{}" | "false"));
        error.map_or(Ok(()), |error| Err(openai::failure(error)))
    }

    fn take_delta(&mut self, delta: Delta<'_>, deltas: &dyn Deltas) -> Result<(), Failure> {
        for piece in [&delta.content, &delta.refusal] {
            let new = self.text.push(piece);
            if !new.is_empty() {
                deltas.text(new);
            }
        }
        self.refused |= !delta.refusal.is_empty();
        if let Some(piece) = &delta.reasoning_content {
            self.reasoning.take_content(piece);
        }
        self.reasoning.take_bare(&delta.reasoning);
        self.reasoning.take_details(delta.reasoning_details.0)?;
        for call in delta.tool_calls.0 {
            self.take_call(call)?;
        }
        if delta.function_call.0.is_some() {
            self.take_call(CallDelta {
                function: delta.function_call,
                ..CallDelta::default()
            })?;
        }
        Ok(())
    }

    fn take_call(&mut self, delta: CallDelta<'_>) -> Result<(), Failure> {
        let FunctionDelta { name, arguments } = delta.function.0.unwrap_or_default();
        let piece = CallPiece {
            index: delta.index.0,
            id: &delta.id,
            name: &name,
            has_arguments: !arguments.0.is_empty(),
        };
        let continued = self.continued(&piece);
        let at = match continued {
            Some(at) => at,
            None if self.calls.len() < CALLS => {
                self.calls.push(Call {
                    index: piece.index,
                    id: String::new(),
                    name: String::new(),
                    arguments: Joined::default(),
                    end: ObjectEnd::default(),
                });
                self.calls.len() - 1
            }
            None => return Err(Failure::too_many_calls()),
        };
        if let Some(call) = self.calls.get_mut(at) {
            call.continue_name(piece.name);
            let new = call.arguments.push(&arguments.0);
            call.end.push(new);
            if call.id.is_empty() {
                piece.id.clone_into(&mut call.id);
            }
        }
        Ok(())
    }

    /// Finds the call that a piece continues. The index identifies the call, but some servers omit it, use one index for all
    /// calls, use another index for the arguments than for the name, or change the id with every piece. A piece with a name
    /// therefore starts a new call if its id differs, or if the call at its index is complete and the piece brings further
    /// arguments.
    fn continued(&self, piece: &CallPiece<'_>) -> Option<usize> {
        let last = || self.calls.len().checked_sub(1);
        let named = piece.name.is_empty() && !piece.id.is_empty();
        let same_id = || self.calls.iter().rposition(|call| named && call.id == piece.id);
        let by_index = || match piece.index {
            Some(index) => {
                let own = self.calls.iter().rposition(|call| call.index == Some(index));
                let begins_nothing = piece.name.is_empty() && piece.id.is_empty();
                own.or_else(|| begins_nothing.then(last).flatten())
            }
            None => last(),
        };
        let at = same_id().or_else(by_index)?;
        let call = self.calls.get(at)?;
        let other_id = !piece.id.is_empty() && !call.id.is_empty() && piece.id != call.id;
        let second = piece.has_arguments && call.end.is_whole();
        let begins = !piece.name.is_empty() && (other_id || second);
        (!begins).then_some(at)
    }
}

impl Decoder for Answer<'_> {
    fn take(&mut self, _name: &str, data: &str, deltas: &dyn Deltas) -> Result<Flow, Failure> {
        self.take_chunk(data, deltas).map(|()| Flow::On)
    }

    /// A few servers send no finish reason. Their usage then shows that the answer is complete.
    fn end(&mut self) {
        if !self.counted.is_empty() && self.written_bytes() > 0 {
            self.stopped.get_or_insert(StopReason::EndTurn);
        }
    }

    fn end_whole(&mut self) {
        if self.written_bytes() > 0 {
            self.stopped.get_or_insert(StopReason::EndTurn);
        }
    }

    /// After the finish reason only usage figures follow.
    fn is_whole(&self) -> bool {
        self.stopped.is_some()
    }

    /// Empty if nothing has arrived. Missing counts are estimated.
    fn usage(&self) -> Usage {
        let written = self.written_bytes();
        if written == 0 && self.counted.is_empty() && !self.is_whole() {
            return Usage::default();
        }
        self.counted.usage(self.body, written)
    }

    fn written_bytes(&self) -> u64 {
        let calls = self
            .calls
            .iter()
            .map(|call| call.name.len() + call.arguments.as_str().len());
        (self.text.as_str().len() + self.reasoning.bytes() + calls.sum::<usize>()) as u64
    }

    fn cut(&mut self) {
        self.stopped = Some(StopReason::MaxTokens);
    }

    fn finish(self) -> Result<Reply, Failure> {
        let usage = self.usage();
        let Some(stopped) = self.stopped else {
            return Err(Failure::CutOff);
        };
        let thinking = self.reasoning.readable();
        let mut content = Vec::with_capacity(self.calls.len() + 2);
        if let Some(reasoning) = self.reasoning.into_opaque() {
            content.push(Content::Opaque(reasoning?));
        }
        let text = self.text.into_text();
        if !text.is_empty() {
            content.push(Content::Text(text));
        }
        let mut calls = false;
        for call in self.calls {
            if let Some(call) = openai::tool_call(call.id, call.name, call.arguments.into_text())? {
                content.push(Content::ToolCall(call));
                calls = true;
            }
        }
        openai::tell_apart(&mut content, self.turn);
        let stop_reason = match stopped {
            StopReason::EndTurn | StopReason::ToolUse if self.refused => StopReason::Refusal,
            // Servers send different finish reasons together with tool calls.
            StopReason::EndTurn | StopReason::ToolUse if calls => StopReason::ToolUse,
            reason @ (StopReason::EndTurn
            | StopReason::ToolUse
            | StopReason::MaxTokens
            | StopReason::Refusal) => reason,
        };
        Ok(Reply {
            content,
            thinking,
            stop_reason,
            usage,
        })
    }
}

impl Call {
    /// Adds the next piece of the name. Some servers repeat the whole name, or its prefix so far, in each piece.
    fn continue_name(&mut self, piece: &str) {
        if piece.starts_with(&self.name) {
            piece.clone_into(&mut self.name);
        } else if self.arguments.as_str().is_empty() {
            self.name.push_str(piece);
        }
    }
}

/// A piece of a call.
struct CallPiece<'a> {
    index: Option<u64>,
    id: &'a str,
    name: &'a str,
    has_arguments: bool,
}
