//! The events of an answer, put together.
//!
//! Each event is a piece of the one candidate. The counts grow from event to event; the largest of each field holds.

use http::StatusCode;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use sortie_agent::model::{Content, Deltas, Reply, StopReason, ToolCall, Usage};
use sortie_net::sse;

use super::{OWN_ID, Signature};
use crate::answer::{CALLS, Decoder, Failure, Flow};

/// An answer as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Candidate {
    content: Vec<Content>,
    /// Summaries of thoughts, which are for people to read and are not sent back.
    thinking: String,
    /// Whether the last text goes on with the next: not so where a signature has closed it.
    text_is_open: bool,
    /// Tool calls of the conversation so far.
    calls: usize,
    /// Tool calls of this answer.
    made: usize,
    counts: Counts,
    written: u64,
    finish: Option<Finish>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Finish {
    Reason(StopReason),
    Garbled(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(default)]
    candidates: Vec<WireCandidate>,
    prompt_feedback: Option<Feedback>,
    usage_metadata: Option<Counts>,
    error: Option<WireError>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireCandidate {
    content: Option<WireContent>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct WireContent {
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    thought_signature: Option<String>,
    function_call: Option<Call>,
}

#[derive(Deserialize)]
struct Call {
    id: Option<String>,
    name: String,
    args: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
}

#[derive(Deserialize)]
struct WireError {
    code: Option<u16>,
    message: Option<String>,
}

/// Tokens as the API counts them.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Counts {
    /// Tokens that were read, cached ones included.
    #[serde(rename = "promptTokenCount")]
    prompt: Option<u64>,
    #[serde(rename = "cachedContentTokenCount")]
    cached: Option<u64>,
    #[serde(rename = "toolUsePromptTokenCount")]
    tool_use: Option<u64>,
    #[serde(rename = "candidatesTokenCount")]
    said: Option<u64>,
    /// Hidden thinking; not part of what was said.
    #[serde(rename = "thoughtsTokenCount")]
    thought: Option<u64>,
}

impl Candidate {
    /// An answer in a conversation that has had so many tool calls.
    pub(super) fn new(calls: usize) -> Self {
        Self {
            calls,
            ..Self::default()
        }
    }

    fn part(&mut self, part: Part, deltas: &dyn Deltas) -> Result<(), Failure> {
        let Part {
            text,
            thought,
            thought_signature,
            function_call,
        } = part;
        let mut text = text.unwrap_or_default();
        if thought {
            self.written += text.len() as u64;
            self.thinking.push_str(&text);
            text.clear();
        }
        if let Some(thought_signature) = thought_signature {
            let alone = function_call.is_none() && text.is_empty();
            let signature = Signature {
                thought_signature,
                text: alone.then(String::new),
            };
            self.content.push(Content::Opaque(
                to_raw_value(&signature).map_err(Failure::unreadable)?,
            ));
            self.text_is_open = false;
            if !text.is_empty() {
                self.say(text, deltas);
                self.text_is_open = false;
            }
        } else if !text.is_empty() {
            self.say(text, deltas);
        }
        if let Some(call) = function_call {
            self.call(call)?;
        }
        Ok(())
    }

    fn say(&mut self, text: String, deltas: &dyn Deltas) {
        self.written += text.len() as u64;
        deltas.text(&text);
        match self.content.last_mut() {
            Some(Content::Text(all)) if self.text_is_open => all.push_str(&text),
            Some(_) | None => self.content.push(Content::Text(text)),
        }
        self.text_is_open = true;
    }

    fn call(&mut self, call: Call) -> Result<(), Failure> {
        self.made += 1;
        if self.made > CALLS {
            return Err(Failure::too_many_calls());
        }
        let id = call.id.filter(|id| !id.is_empty());
        let arguments = call
            .args
            .map_or_else(|| "{}".to_owned(), |args| args.get().to_owned());
        self.written += arguments.len() as u64;
        self.content.push(Content::ToolCall(ToolCall {
            id: id.unwrap_or_else(|| format!("{OWN_ID}{}", self.calls)),
            name: call.name,
            arguments,
        }));
        self.calls += 1;
        self.text_is_open = false;
        Ok(())
    }

    fn count(&mut self, new: Counts) {
        let old = self.counts;
        // `None` is less than any number.
        self.counts = Counts {
            prompt: old.prompt.max(new.prompt),
            cached: old.cached.max(new.cached),
            tool_use: old.tool_use.max(new.tool_use),
            said: old.said.max(new.said),
            thought: old.thought.max(new.thought),
        };
    }
}

impl Decoder for Candidate {
    fn take(&mut self, event: &sse::Message, deltas: &dyn Deltas) -> Result<Flow, Failure> {
        let event: Event = serde_json::from_str(&event.data).map_err(Failure::unreadable)?;
        if let Some(counts) = event.usage_metadata {
            self.count(counts);
        }
        if let Some(error) = event.error {
            let status = error.code.and_then(|code| StatusCode::from_u16(code).ok());
            return Err(Failure::Reported(
                status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
                error.message.unwrap_or_default(),
            ));
        }
        if event.prompt_feedback.and_then(|f| f.block_reason).is_some() {
            self.finish = Some(Finish::Reason(StopReason::Refusal));
        }
        // A request asks for a single candidate.
        let Some(candidate) = event.candidates.into_iter().next() else {
            return Ok(Flow::On);
        };
        for part in candidate.content.into_iter().flat_map(|content| content.parts) {
            self.part(part, deltas)?;
        }
        if let Some(reason) = candidate.finish_reason {
            self.finish = Some(finish(&reason, candidate.finish_message));
        }
        // The counts may follow: only the end of the stream ends the answer.
        Ok(Flow::On)
    }

    /// The reason for the end has come: after it come only the figures.
    fn is_whole(&self) -> bool {
        self.finish.is_some()
    }

    fn usage(&self) -> Usage {
        let counted = |tokens: Option<u64>| tokens.unwrap_or(0);
        let counts = self.counts;
        let cached = counted(counts.cached);
        Usage {
            input_tokens: counted(counts.prompt)
                .saturating_sub(cached)
                .saturating_add(counted(counts.tool_use)),
            output_tokens: counted(counts.said).saturating_add(counted(counts.thought)),
            cache_read_tokens: cached,
            cache_write_tokens: 0,
        }
    }

    fn written_bytes(&self) -> u64 {
        self.written
    }

    fn cut(&mut self) {
        self.finish = Some(Finish::Reason(StopReason::MaxTokens));
    }

    fn finish(self) -> Result<Reply, Failure> {
        let usage = self.usage();
        let stop_reason = match self.finish {
            None => return Err(Failure::CutOff),
            Some(Finish::Garbled(why)) => return Err(Failure::Garbled(why)),
            Some(Finish::Reason(reason)) => reason,
        };
        let calls = self
            .content
            .iter()
            .any(|piece| matches!(piece, Content::ToolCall(_)));
        Ok(Reply {
            content: self.content,
            thinking: self.thinking.trim().to_owned(),
            stop_reason: if calls && stop_reason == StopReason::EndTurn {
                StopReason::ToolUse
            } else {
                stop_reason
            },
            usage,
        })
    }
}

fn finish(reason: &str, message: Option<String>) -> Finish {
    match reason {
        "STOP" => Finish::Reason(StopReason::EndTurn),
        "MAX_TOKENS" => Finish::Reason(StopReason::MaxTokens),
        "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" => {
            Finish::Reason(StopReason::Refusal)
        }
        // `MALFORMED_FUNCTION_CALL`, `UNEXPECTED_TOOL_CALL`, `OTHER`, and what is new.
        _ => {
            let message = message.unwrap_or_default();
            Finish::Garbled(format!("the model ended with {reason}: {message}"))
        }
    }
}
