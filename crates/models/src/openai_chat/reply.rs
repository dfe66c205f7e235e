//! The answer, put together from its chunks.

use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use sortie_agent::model::{Content, Deltas, Reply, StopReason, Usage};
use sortie_net::sse;

use crate::{
    answer::{CALLS, Decoder, Failure, Flow},
    openai::{self, Arguments, Count, Counted, Text},
};

use super::{
    reasoning::{Piece, Reasoning},
    request::Body,
};

/// An event of the stream. Fields that are not named here are passed over.
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<Figures>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    finish_reason: Text<'a>,
    /// A few servers put it here.
    usage: Option<Figures>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Text<'a>,
    #[serde(borrow, default)]
    refusal: Text<'a>,
    #[serde(borrow)]
    reasoning_content: Option<Text<'a>>,
    #[serde(borrow, default)]
    reasoning: Text<'a>,
    #[serde(borrow)]
    reasoning_details: Option<Vec<Piece<'a>>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    index: Option<Count>,
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow)]
    function: Option<FunctionDelta<'a>>,
}

#[derive(Deserialize)]
struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow)]
    arguments: Option<Arguments<'a>>,
}

#[derive(Deserialize)]
struct Figures {
    #[serde(default)]
    prompt_tokens: Count,
    #[serde(default)]
    completion_tokens: Count,
    #[serde(default)]
    total_tokens: Count,
    prompt_tokens_details: Option<CacheFigures>,
    /// `DeepSeek`'s name for tokens read from its cache.
    #[serde(default)]
    prompt_cache_hit_tokens: Count,
}

#[derive(Default, Deserialize)]
struct CacheFigures {
    #[serde(default)]
    cached_tokens: Count,
    #[serde(default)]
    cache_write_tokens: Count,
}

impl From<Figures> for Counted {
    fn from(figures: Figures) -> Self {
        let cache = figures.prompt_tokens_details.unwrap_or_default();
        Self {
            input: figures.prompt_tokens.0,
            output: figures.completion_tokens.0,
            total: figures.total_tokens.0,
            cache_read: cache.cached_tokens.0.max(figures.prompt_cache_hit_tokens.0),
            cache_write: cache.cache_write_tokens.0,
        }
    }
}

/// The mark that ends a stream.
const DONE: &str = "[DONE]";

/// Answer as far as it has come.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    /// Request. Its size stands in for figures that the provider does not tell.
    body: &'a Body<'a>,
    /// Turns of the conversation so far.
    turn: usize,
    text: String,
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
    arguments: String,
}

impl<'a> Answer<'a> {
    /// The answer to `body`, whose conversation has this many turns.
    pub(super) fn new(body: &'a Body<'a>, turn: usize) -> Self {
        Self {
            body,
            turn,
            text: String::new(),
            refused: false,
            reasoning: Reasoning::default(),
            calls: Vec::new(),
            counted: Counted::default(),
            stopped: None,
        }
    }

    fn take_chunk(&mut self, data: &str, deltas: &dyn Deltas) -> Result<(), Failure> {
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(Failure::unreadable)?;
        if let Some(figures) = chunk.usage {
            self.counted.take(figures.into());
        }
        for choice in chunk.choices.into_iter().flatten() {
            if let Some(figures) = choice.usage {
                self.counted.take(figures.into());
            }
            if let Some(delta) = choice.delta {
                self.take_delta(delta, deltas)?;
            }
            match stop_reason(&choice.finish_reason.0) {
                Ok(reason) => self.stopped = reason.or(self.stopped),
                // Told in the words of the chunk, where it has any.
                Err(_) if chunk.error.is_some() => {}
                Err(failure) => return Err(failure),
            }
        }
        chunk.error.map_or(Ok(()), |error| Err(openai::failure(error)))
    }

    fn take_delta(&mut self, delta: Delta<'_>, deltas: &dyn Deltas) -> Result<(), Failure> {
        for piece in [&delta.content.0, &delta.refusal.0] {
            if !piece.is_empty() {
                deltas.text(piece);
                self.text.push_str(piece);
            }
        }
        self.refused |= !delta.refusal.0.is_empty();
        if let Some(piece) = &delta.reasoning_content {
            self.reasoning.take_content(&piece.0);
        }
        self.reasoning.take_bare(&delta.reasoning.0);
        for piece in delta.reasoning_details.into_iter().flatten() {
            self.reasoning.take_detail(piece)?;
        }
        for call in delta.tool_calls.into_iter().flatten() {
            self.take_call(&call)?;
        }
        Ok(())
    }

    fn take_call(&mut self, delta: &CallDelta<'_>) -> Result<(), Failure> {
        let index = delta.index.map(|Count(index)| index);
        let (name, arguments) = match &delta.function {
            Some(function) => (&*function.name.0, function.arguments),
            None => ("", None),
        };
        let arguments = arguments.map(Arguments::text).transpose();
        let arguments = arguments.map_err(Failure::unreadable)?.unwrap_or_default();
        let piece = CallPiece {
            index,
            id: &delta.id.0,
            name,
            arguments: &arguments,
        };
        let continued = self.continued(&piece);
        if let Some(call) = continued.and_then(|at| self.calls.get_mut(at)) {
            call.arguments.push_str(&arguments);
            if call.name.is_empty() {
                name.clone_into(&mut call.name);
            }
            if call.id.is_empty() {
                piece.id.clone_into(&mut call.id);
            }
        } else if self.calls.len() < CALLS {
            self.calls.push(Call {
                index,
                id: piece.id.to_owned(),
                name: name.to_owned(),
                arguments: arguments.into_owned(),
            });
        } else {
            return Err(Failure::too_many_calls());
        }
        Ok(())
    }

    /// Finds the call that a piece continues. The index says it; but some servers leave it out, give every call the
    /// same, or give every piece another id. So a piece with a name begins a call when its id is another one, or when
    /// the call in its place is whole already and it brings arguments of its own.
    fn continued(&self, piece: &CallPiece<'_>) -> Option<usize> {
        let at = match piece.index {
            Some(index) => self.calls.iter().rposition(|call| call.index == Some(index)),
            None => self.calls.len().checked_sub(1),
        }?;
        let call = self.calls.get(at)?;
        let other_id = !piece.id.is_empty() && !call.id.is_empty() && piece.id != call.id;
        let second = !piece.arguments.is_empty() && openai::is_object(&call.arguments);
        let begins = !piece.name.is_empty() && (other_id || second);
        (!begins).then_some(at)
    }
}

impl Decoder for Answer<'_> {
    fn take(&mut self, event: &sse::Message, deltas: &dyn Deltas) -> Result<Flow, Failure> {
        if event.data.trim() == DONE {
            // A few servers end their answers so: the usage says that nothing is missing.
            if !self.counted.is_empty() && self.written_bytes() > 0 {
                self.stopped.get_or_insert(StopReason::EndTurn);
            }
            return if self.is_whole() {
                Ok(Flow::Done)
            } else {
                Err(Failure::CutOff)
            };
        }
        self.take_chunk(&event.data, deltas).map(|()| Flow::On)
    }

    /// A reason for the end has come: after it come only the figures.
    fn is_whole(&self) -> bool {
        self.stopped.is_some()
    }

    /// Nothing where nothing has come; what is not counted is estimated.
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
            .map(|call| call.name.len() + call.arguments.len());
        (self.text.len() + self.reasoning.bytes() + calls.sum::<usize>()) as u64
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
        if !self.text.is_empty() {
            content.push(Content::Text(self.text));
        }
        let mut calls = false;
        for call in self.calls {
            if let Some(call) = openai::tool_call(call.id, call.name, call.arguments)? {
                content.push(Content::ToolCall(call));
                calls = true;
            }
        }
        openai::tell_apart(&mut content, self.turn);
        let stop_reason = match stopped {
            StopReason::EndTurn | StopReason::ToolUse if self.refused => StopReason::Refusal,
            // Servers differ in what they say beside calls.
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

/// A piece of a call.
struct CallPiece<'a> {
    index: Option<u64>,
    id: &'a str,
    name: &'a str,
    arguments: &'a str,
}

/// Returns the reason why the answer ends, once there is one. An unknown reason ends it as well.
fn stop_reason(reason: &str) -> Result<Option<StopReason>, Failure> {
    Ok(Some(match reason {
        "" => return Ok(None),
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "length" | "max_tokens" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refusal,
        "error" | "abort" | "insufficient_system_resource" => {
            let said = format!("the answer was broken off: {reason}");
            return Err(Failure::Reported(StatusCode::INTERNAL_SERVER_ERROR, said));
        }
        _ => StopReason::EndTurn,
    }))
}
