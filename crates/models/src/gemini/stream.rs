//! Assembles an answer from its events.
//!
//! Each event carries a piece of the single candidate. Counts grow from event to event, so the maximum of each field is the
//! final value.

use http::StatusCode;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use sortie_agent::model::{Content, Deltas, Reply, StopReason, ToolCall, Usage};

use super::{OWN_ID, Signature};
use crate::{
    answer::{CALLS, Decoder, Failure, Flow, parse},
    stop,
    wire::{Arguments, Count, Joined, List, Object, Piece, Text},
};

/// The part of an answer that has arrived.
#[derive(Debug, Default)]
pub(super) struct Candidate {
    content: Vec<Content>,
    /// The latest text, which is not in the content yet.
    text: Joined,
    /// Summaries of thoughts, for display only. They are not sent back.
    thinking: Joined,
    /// Number of tool calls in the conversation so far.
    calls: usize,
    /// Number of tool calls in this answer.
    made: usize,
    counts: Counts,
    written: u64,
    finish: Option<Result<StopReason, Failure>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    #[serde(borrow, default)]
    candidates: List<WireCandidate<'a>>,
    #[serde(borrow, default)]
    prompt_feedback: Object<Feedback<'a>>,
    #[serde(default)]
    usage_metadata: Object<Counts>,
    #[serde(borrow, default)]
    error: Object<WireError<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireCandidate<'a> {
    #[serde(borrow, default)]
    content: Object<WireContent<'a>>,
    #[serde(borrow, default)]
    finish_reason: Text<'a>,
    #[serde(borrow, default)]
    finish_message: Text<'a>,
}

#[derive(Deserialize)]
struct WireContent<'a> {
    #[serde(borrow, default)]
    parts: List<Part<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Piece<'a>,
    #[serde(borrow, default)]
    thought: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thought_signature: Text<'a>,
    #[serde(borrow, default)]
    function_call: Object<Call<'a>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    args: Arguments<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback<'a> {
    #[serde(borrow, default)]
    block_reason: Text<'a>,
}

#[derive(Deserialize)]
struct WireError<'a> {
    #[serde(default)]
    code: Count,
    #[serde(borrow, default)]
    message: Text<'a>,
}

/// Token counts as the API reports them.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Counts {
    /// Input tokens, including cached ones.
    #[serde(rename = "promptTokenCount")]
    prompt: Count,
    #[serde(rename = "cachedContentTokenCount")]
    cached: Count,
    #[serde(rename = "toolUsePromptTokenCount")]
    tool_use: Count,
    #[serde(rename = "candidatesTokenCount")]
    said: Count,
    /// Tokens of hidden thinking, which are not included in the candidate's tokens.
    #[serde(rename = "thoughtsTokenCount")]
    thought: Count,
}

impl Candidate {
    /// Creates the answer of a conversation that already has this number of tool calls.
    pub(super) fn new(calls: usize) -> Self {
        Self {
            calls,
            ..Self::default()
        }
    }

    fn part(&mut self, part: Part<'_>, deltas: &dyn Deltas) -> Result<(), Failure> {
        let is_thought = part.thought.is_some_and(|thought| thought.get() == "true");
        if is_thought {
            self.written += self.thinking.push(&part.text).len() as u64;
        }
        let has_text = !is_thought && !part.text.is_empty();
        let is_signed = !part.thought_signature.is_empty();
        if is_signed {
            self.end_text();
            let is_alone = part.function_call.0.is_none() && !has_text;
            let signature = Signature {
                thought_signature: part.thought_signature.0.into_owned(),
                text: is_alone.then(String::new),
            };
            self.content.push(Content::Opaque(
                to_raw_value(&signature).map_err(Failure::unreadable)?,
            ));
        }
        if has_text {
            let new = self.text.push(&part.text);
            self.written += new.len() as u64;
            if !new.is_empty() {
                deltas.text(new);
            }
        }
        // A signature completes the text that it belongs to.
        if is_signed {
            self.end_text();
        }
        part.function_call.0.map_or(Ok(()), |call| self.call(call))
    }

    fn end_text(&mut self) {
        let text = std::mem::take(&mut self.text).into_text();
        if !text.is_empty() {
            self.content.push(Content::Text(text));
        }
    }

    fn call(&mut self, call: Call<'_>) -> Result<(), Failure> {
        self.end_text();
        self.made += 1;
        if self.made > CALLS {
            return Err(Failure::too_many_calls());
        }
        let arguments = call.args.0.into_text();
        let arguments = if arguments.is_empty() { "{}" } else { &arguments };
        self.written += arguments.len() as u64;
        self.content.push(Content::ToolCall(ToolCall {
            id: if call.id.is_empty() {
                format!("{OWN_ID}{}", self.calls)
            } else {
                call.id.0.into_owned()
            },
            name: call.name.0.into_owned(),
            arguments: arguments.to_owned(),
        }));
        self.calls += 1;
        Ok(())
    }

    fn count(&mut self, new: Counts) {
        let old = self.counts;
        // `None` is less than any number.
        let most = |old: Count, new: Count| Count(old.0.max(new.0));
        self.counts = Counts {
            prompt: most(old.prompt, new.prompt),
            cached: most(old.cached, new.cached),
            tool_use: most(old.tool_use, new.tool_use),
            said: most(old.said, new.said),
            thought: most(old.thought, new.thought),
        };
    }
}

impl Decoder for Candidate {
    fn take(&mut self, _name: &str, data: &str, deltas: &dyn Deltas) -> Result<Flow, Failure> {
        let event: Event<'_> = parse(data)?;
        if let Some(counts) = event.usage_metadata.0 {
            self.count(counts);
        }
        if let Some(error) = event.error.0 {
            let code = error.code.0.and_then(|code| u16::try_from(code).ok());
            let status = code.and_then(|code| StatusCode::from_u16(code).ok());
            return Err(Failure::Reported(
                status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
                error.message.0.into_owned(),
            ));
        }
        if event
            .prompt_feedback
            .0
            .is_some_and(|told| !told.block_reason.is_empty())
        {
            self.finish = Some(Ok(StopReason::Refusal));
        }
        // Requests ask for a single candidate.
        let Some(candidate) = event.candidates.0.into_iter().next() else {
            return Ok(Flow::On);
        };
        for part in candidate
            .content
            .0
            .into_iter()
            .flat_map(|content| content.parts.0)
        {
            self.part(part, deltas)?;
        }
        match stop::reason(&candidate.finish_reason) {
            Ok(None) => {}
            Ok(Some(reason)) => self.finish = Some(Ok(reason)),
            Err(_) => {
                let (reason, message) = (candidate.finish_reason, candidate.finish_message);
                let why = format!("the model ended with {}: {}", &*reason, &*message);
                self.finish = Some(Err(Failure::Garbled(why)));
            }
        }
        // Counts can follow: only the end of the stream ends the answer.
        Ok(Flow::On)
    }

    /// After the finish reason only usage figures follow.
    fn is_whole(&self) -> bool {
        self.finish.is_some()
    }

    fn usage(&self) -> Usage {
        let counts = self.counts;
        let cached = counts.cached.get();
        Usage {
            input_tokens: counts
                .prompt
                .get()
                .saturating_sub(cached)
                .saturating_add(counts.tool_use.get()),
            output_tokens: counts.said.get().saturating_add(counts.thought.get()),
            cache_read_tokens: cached,
            cache_write_tokens: 0,
        }
    }

    fn written_bytes(&self) -> u64 {
        self.written
    }

    fn cut(&mut self) {
        self.finish = Some(Ok(StopReason::MaxTokens));
    }

    fn finish(mut self) -> Result<Reply, Failure> {
        self.end_text();
        let usage = self.usage();
        let stop_reason = self.finish.unwrap_or(Err(Failure::CutOff))?;
        let calls = self
            .content
            .iter()
            .any(|piece| matches!(piece, Content::ToolCall(_)));
        Ok(Reply {
            content: self.content,
            thinking: self.thinking.into_text().trim().to_owned(),
            stop_reason: if calls && stop_reason == StopReason::EndTurn {
                StopReason::ToolUse
            } else {
                stop_reason
            },
            usage,
        })
    }
}
