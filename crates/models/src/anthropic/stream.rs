//! The events of an answer, put together.
//!
//! Blocks are kept by their index, whether they are ever closed or not. A count of tokens may come at the start, at the
//! end or both: the larger one holds for each field.

use std::{borrow::Cow, collections::BTreeMap};

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use sortie_agent::model::{Content, Deltas, Reply, StopReason, ToolCall, Usage};
use sortie_net::sse;

use crate::answer::{CALLS, Decoder, Failure, Flow};

/// An answer as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Message {
    blocks: BTreeMap<u64, Block>,
    usage: Usage,
    written: u64,
    /// Tool calls that have begun.
    calls: usize,
    stop_reason: Option<StopReason>,
    stopped: bool,
    /// Whether the model signs its thinking.
    signs: bool,
}

#[derive(Debug)]
enum Block {
    Text(String),
    ToolUse {
        id: String,
        name: String,
        /// Arguments at the start of the block; servers that do not stream arguments have all of them here.
        input: Option<Box<RawValue>>,
        json: String,
    },
    Thinking(Thinking),
    /// Sent back as it came.
    Redacted(Box<RawValue>),
    /// Of a kind that nobody asked for.
    Other,
}

impl Block {
    fn is_unsigned(&self) -> bool {
        match self {
            Self::Thinking(thinking) => thinking.signature.as_deref().is_none_or(str::is_empty),
            Self::Text(_) | Self::ToolUse { .. } | Self::Redacted(_) | Self::Other => false,
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "thinking")]
struct Thinking {
    thinking: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Start {
    message: Option<StartMessage>,
}

#[derive(Deserialize)]
struct StartMessage {
    usage: Option<WireUsage>,
    /// Parts that the provider has left out of the request, where it tells.
    input_transformations: Option<Vec<Transformation>>,
}

#[derive(Deserialize)]
struct Transformation {
    #[serde(rename = "type")]
    kind: Option<String>,
    reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct WireUsage {
    #[serde(rename = "input_tokens")]
    input: Option<u64>,
    #[serde(rename = "output_tokens")]
    output: Option<u64>,
    #[serde(rename = "cache_read_input_tokens")]
    cache_read: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens")]
    cache_write: Option<u64>,
}

#[derive(Deserialize)]
struct BlockStart<'a> {
    index: u64,
    #[serde(borrow)]
    content_block: &'a RawValue,
}

#[derive(Deserialize)]
struct NewBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    text: Option<String>,
    id: Option<String>,
    name: Option<String>,
    input: Option<Box<RawValue>>,
    thinking: Option<String>,
    signature: Option<String>,
}

#[derive(Deserialize)]
struct BlockDelta<'a> {
    index: u64,
    #[serde(borrow)]
    delta: Delta<'a>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    partial_json: Option<Cow<'a, str>>,
    #[serde(borrow)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow)]
    signature: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct MessageDelta<'a> {
    #[serde(borrow)]
    delta: Option<Stop<'a>>,
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct Stop<'a> {
    #[serde(borrow)]
    stop_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct ErrorEvent<'a> {
    #[serde(borrow)]
    error: WireError<'a>,
}

#[derive(Deserialize)]
struct WireError<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<Cow<'a, str>>,
}

impl Decoder for Message {
    fn take(&mut self, event: &sse::Message, deltas: &dyn Deltas) -> Result<Flow, Failure> {
        let data = event.data.as_str();
        let kind: Kind<'_> = read(data)?;
        match kind.kind.as_deref().unwrap_or(&event.event) {
            "message_start" => {
                let start: Start = read(data)?;
                if let Some(message) = start.message {
                    self.count(message.usage);
                    log_dropped(message.input_transformations.as_deref().unwrap_or_default());
                }
            }
            "content_block_start" => self.begin(&read(data)?, deltas)?,
            "content_block_delta" => self.extend(&read(data)?, deltas)?,
            "message_delta" => {
                let end: MessageDelta<'_> = read(data)?;
                self.count(end.usage);
                let reason = end.delta.and_then(|delta| delta.stop_reason);
                self.stop_reason = reason.as_deref().map(stop_reason).or(self.stop_reason);
            }
            "message_stop" => {
                self.stopped = true;
                return Ok(Flow::Done);
            }
            "error" => {
                let ErrorEvent { error } = read(data)?;
                let kind = error.kind.unwrap_or_default();
                let message = error.message.unwrap_or_default();
                return Err(Failure::Reported(status(&kind), format!("{kind}: {message}")));
            }
            // `ping`, `content_block_stop`, and what is new.
            _ => {}
        }
        Ok(Flow::On)
    }

    /// With the reason to stop everything of the answer has come, also where the last event is missing.
    fn is_whole(&self) -> bool {
        self.stopped || self.stop_reason.is_some()
    }

    fn usage(&self) -> Usage {
        self.usage
    }

    fn written_bytes(&self) -> u64 {
        self.written
    }

    fn cut(&mut self) {
        self.stop_reason = Some(StopReason::MaxTokens);
    }

    fn finish(self) -> Result<Reply, Failure> {
        if !self.is_whole() {
            return Err(Failure::CutOff);
        }
        let thinking = readable(self.blocks.values());
        let is_cut = |block: &Block| self.signs && block.is_unsigned();
        let blocks = self.blocks.into_values().filter(|block| !is_cut(block));
        let content = blocks.filter_map(|block| content(block).transpose());
        let content = content.collect::<Result<Vec<_>, _>>()?;
        let calls = content.iter().any(|piece| matches!(piece, Content::ToolCall(_)));
        let stop_reason = match self.stop_reason {
            None | Some(StopReason::EndTurn) if calls => StopReason::ToolUse,
            reason => reason.unwrap_or(StopReason::EndTurn),
        };
        Ok(Reply {
            content,
            thinking,
            stop_reason,
            usage: self.usage,
        })
    }
}

impl Message {
    /// An answer of which nothing has come. A Claude model signs its thinking (`signs`): a block without signature was cut
    /// off, and the provider refuses it. Other servers may want their thinking back unsigned.
    pub(super) fn new(signs: bool) -> Self {
        Self {
            signs,
            ..Self::default()
        }
    }

    fn count(&mut self, usage: Option<WireUsage>) {
        let new = usage.unwrap_or_default();
        let most = |old: u64, new: Option<u64>| old.max(new.unwrap_or(0));
        self.usage = Usage {
            input_tokens: most(self.usage.input_tokens, new.input),
            output_tokens: most(self.usage.output_tokens, new.output),
            cache_read_tokens: most(self.usage.cache_read_tokens, new.cache_read),
            cache_write_tokens: most(self.usage.cache_write_tokens, new.cache_write),
        };
    }

    fn begin(&mut self, start: &BlockStart<'_>, deltas: &dyn Deltas) -> Result<(), Failure> {
        let raw = start.content_block;
        let new: NewBlock<'_> = read(raw.get())?;
        let block = match &*new.kind {
            "text" => {
                let text = new.text.unwrap_or_default();
                if !text.is_empty() {
                    deltas.text(&text);
                }
                self.written += text.len() as u64;
                Block::Text(text)
            }
            "tool_use" => {
                self.calls += 1;
                if self.calls > CALLS {
                    return Err(Failure::too_many_calls());
                }
                Block::ToolUse {
                    id: new.id.unwrap_or_default(),
                    name: new.name.unwrap_or_default(),
                    input: new.input,
                    json: String::new(),
                }
            }
            "thinking" => Block::Thinking(Thinking {
                thinking: new.thinking.unwrap_or_default(),
                signature: new.signature,
            }),
            "redacted_thinking" => Block::Redacted(raw.to_owned()),
            _ => Block::Other,
        };
        self.blocks.insert(start.index, block);
        Ok(())
    }

    fn extend(&mut self, part: &BlockDelta<'_>, deltas: &dyn Deltas) -> Result<(), Failure> {
        let Some(block) = self.blocks.get_mut(&part.index) else {
            return Err(Failure::Unreadable(
                "a part of a block that has not begun".to_owned(),
            ));
        };
        let Delta {
            text,
            partial_json,
            thinking,
            signature,
        } = &part.delta;
        match block {
            Block::Text(all) => {
                if let Some(text) = text.as_deref().filter(|text| !text.is_empty()) {
                    all.push_str(text);
                    self.written += text.len() as u64;
                    deltas.text(text);
                }
            }
            Block::ToolUse { json, .. } => {
                let part = partial_json.as_deref().unwrap_or_default();
                json.push_str(part);
                self.written += part.len() as u64;
            }
            Block::Thinking(all) => {
                let part = thinking.as_deref().unwrap_or_default();
                all.thinking.push_str(part);
                self.written += part.len() as u64;
                if let Some(part) = signature.as_deref() {
                    all.signature.get_or_insert_default().push_str(part);
                }
            }
            Block::Redacted(_) | Block::Other => {}
        }
        Ok(())
    }
}

fn read<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, Failure> {
    serde_json::from_str(data).map_err(Failure::unreadable)
}

/// Logs how much thinking the provider has dropped from the request: thinking of another model, which it cannot read, or
/// thinking whose conversation has changed.
fn log_dropped(transformations: &[Transformation]) {
    let kinds = transformations.iter().filter_map(|entry| entry.kind.as_deref());
    let blocks = kinds.filter(|kind| *kind == "thinking_dropped").count();
    if blocks > 0 {
        let reason = transformations.iter().find_map(|entry| entry.reason.as_deref());
        tracing::info!(
            blocks,
            reason,
            "the model's provider dropped thinking blocks from the request"
        );
    }
}

/// The thinking that people can read, with an empty line between its blocks.
fn readable<'a>(blocks: impl Iterator<Item = &'a Block>) -> String {
    let texts = blocks.filter_map(|block| match block {
        Block::Thinking(block) => Some(block.thinking.trim()),
        Block::Text(_) | Block::ToolUse { .. } | Block::Redacted(_) | Block::Other => None,
    });
    let texts: Vec<_> = texts.filter(|text| !text.is_empty()).collect();
    texts.join("\n\n")
}

fn content(block: Block) -> Result<Option<Content>, Failure> {
    let piece = match block {
        Block::Text(text) if text.is_empty() => return Ok(None),
        Block::Text(text) => Content::Text(text),
        Block::ToolUse {
            id,
            name,
            input,
            json,
        } => {
            let arguments = match input {
                _ if !json.trim().is_empty() => json,
                Some(input) => input.get().to_owned(),
                None => "{}".to_owned(),
            };
            Content::ToolCall(ToolCall { id, name, arguments })
        }
        Block::Thinking(thinking) => Content::Opaque(to_raw_value(&thinking).map_err(Failure::unreadable)?),
        Block::Redacted(raw) => Content::Opaque(raw),
        Block::Other => return Ok(None),
    };
    Ok(Some(piece))
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        // `end_turn`, `stop_sequence`, `pause_turn`, and what is new.
        _ => StopReason::EndTurn,
    }
}

/// The status that a failure has when it comes before the stream.
fn status(kind: &str) -> StatusCode {
    let code = match kind {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => 500,
    };
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
