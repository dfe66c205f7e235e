//! Assembles an answer from its events.
//!
//! A block counts even if it is never closed. Servers report tokens at the start, at the end or both. A later value of a field
//! replaces an earlier one, because some servers report cache tokens only at the end.

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use sortie_agent::model::{Content, Deltas, Reply, StopReason, ToolCall, Usage};

use crate::{
    answer::{CALLS, Decoder, Failure, Flow, parse},
    openai, stop,
    wire::{Arguments, Count, Joined, List, Object, Piece, Text, Values},
};

/// The part of an answer that has arrived.
#[derive(Debug, Default)]
pub(super) struct Message {
    /// Blocks with their indexes. Servers can reuse an index: a delta belongs to the last block with its index.
    blocks: Vec<(u64, Block)>,
    usage: Usage,
    written: u64,
    /// Number of tool calls that have started.
    calls: usize,
    stop_reason: Option<StopReason>,
    stopped: bool,
    /// Whether the model signs its thinking.
    signs: bool,
}

#[derive(Debug)]
enum Block {
    Text(Joined),
    ToolUse {
        id: String,
        name: String,
        /// Arguments at the start of the block. Servers that do not stream arguments send all of them here.
        input: String,
        json: Joined,
    },
    Thinking {
        thinking: Joined,
        signature: Option<Joined>,
    },
    /// Returned to the provider unchanged.
    Redacted(Box<RawValue>),
    /// A block of an unknown type.
    Other,
}

impl Block {
    fn is_unsigned(&self) -> bool {
        match self {
            Self::Thinking { signature, .. } => signature
                .as_ref()
                .is_none_or(|signature| signature.as_str().is_empty()),
            Self::Text(_) | Self::ToolUse { .. } | Self::Redacted(_) | Self::Other => false,
        }
    }
}

/// An event of the stream, or the whole message from a server that does not stream.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(default)]
    index: Count,
    #[serde(borrow, default)]
    message: Object<Start<'a>>,
    #[serde(borrow, default)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delta: Object<Delta<'a>>,
    #[serde(default)]
    usage: Object<WireUsage>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Values<'a>,
    #[serde(borrow, default)]
    stop_reason: Text<'a>,
}

#[derive(Deserialize)]
struct Start<'a> {
    #[serde(default)]
    usage: Object<WireUsage>,
    /// Parts that the provider has omitted from the request, if it reports them.
    #[serde(borrow, default)]
    input_transformations: List<Transformation<'a>>,
}

#[derive(Deserialize)]
struct Transformation<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    reason: Text<'a>,
}

#[derive(Default, Deserialize)]
struct WireUsage {
    #[serde(default, rename = "input_tokens")]
    input: Count,
    #[serde(default, rename = "output_tokens")]
    output: Count,
    #[serde(default, rename = "cache_read_input_tokens")]
    cache_read: Count,
    #[serde(default, rename = "cache_creation_input_tokens")]
    cache_write: Count,
}

#[derive(Deserialize)]
struct NewBlock<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    text: Piece<'a>,
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    input: Arguments<'a>,
    #[serde(borrow, default)]
    thinking: Piece<'a>,
    #[serde(borrow, default)]
    signature: Option<Piece<'a>>,
}

/// Delta of a block or of the message.
#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    text: Piece<'a>,
    #[serde(borrow, default)]
    partial_json: Arguments<'a>,
    #[serde(borrow, default)]
    thinking: Piece<'a>,
    #[serde(borrow, default)]
    signature: Option<Piece<'a>>,
    #[serde(borrow, default)]
    stop_reason: Text<'a>,
}

#[derive(Default, Deserialize)]
struct WireError<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    message: Text<'a>,
}

impl Delta<'_> {
    /// Returns the block that a delta without one starts.
    fn begun(&self) -> Option<Block> {
        if !self.text.is_empty() {
            return Some(Block::Text(Joined::default()));
        }
        (!self.thinking.is_empty()).then(|| Block::Thinking {
            thinking: Joined::default(),
            signature: None,
        })
    }
}

/// Returns the failure that an event reports: its `error`, or the event itself.
fn failure(error: &RawValue) -> Failure {
    let told = parse::<WireError<'_>>(error.get()).unwrap_or_default();
    if let Some(status) = status(&told.kind) {
        return Failure::Reported(status, format!("{}: {}", &*told.kind, &*told.message));
    }
    let (status, said) = openai::told(error);
    Failure::Reported(
        status,
        match &*told.kind {
            "" | "None" => said,
            kind => format!("{kind}: {said}"),
        },
    )
}

impl Decoder for Message {
    fn take(&mut self, name: &str, data: &str, deltas: &dyn Deltas) -> Result<Flow, Failure> {
        let event: Event<'_> = parse(data)?;
        let kind = match (&*event.kind, event.error) {
            ("", Some(_)) => "error",
            ("", None) => name,
            (kind, _) => kind,
        };
        if kind == "error" {
            return Err(failure(event.error.map_or_else(|| parse(data), Ok)?));
        }
        self.count(event.usage.0);
        match kind {
            "message_start" => {
                if let Some(start) = event.message.0 {
                    self.count(start.usage.0);
                    log_dropped(&start.input_transformations.0);
                }
            }
            "message" => self.take_whole(event.content, &event.stop_reason, deltas)?,
            "content_block_start" => {
                if let Some(block) = event.content_block {
                    self.begin(event.index.get(), block, deltas)?;
                }
            }
            "content_block_delta" => {
                if let Some(delta) = event.delta.0 {
                    self.extend(event.index, &delta, deltas);
                }
            }
            "message_delta" => {
                if let Some(delta) = event.delta.0 {
                    self.stop_for(&delta.stop_reason)?;
                }
            }
            "message_stop" => {
                self.stopped = true;
                return Ok(Flow::Done);
            }
            // `ping`, `content_block_stop`, and unknown events.
            _ => {}
        }
        Ok(Flow::On)
    }

    fn end_whole(&mut self) {
        if self.written > 0 || self.calls > 0 {
            self.stopped = true;
        }
    }

    /// After the stop reason the answer is complete, even if the last event is missing.
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
        let thinking = readable(self.blocks.iter().map(|(_, block)| block));
        let is_cut = |block: &Block| self.signs && block.is_unsigned();
        let mut blocks = self.blocks;
        blocks.sort_by_key(|(index, _)| *index);
        let blocks = blocks.into_iter().map(|(_, block)| block);
        let content = blocks
            .filter(|block| !is_cut(block))
            .filter_map(|block| content(block).transpose());
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
    /// Creates an empty answer. A Claude model signs its thinking (`signs`): a block without a signature was cut off, and the
    /// provider rejects it. Other servers may require their unsigned thinking back.
    pub(super) fn new(signs: bool) -> Self {
        Self {
            signs,
            ..Self::default()
        }
    }

    /// Updates the counts. A server that has counted nothing at the end still sends the fields, as zeros, so zeros are ignored.
    fn count(&mut self, usage: Option<WireUsage>) {
        let new = usage.unwrap_or_default();
        let usage = &mut self.usage;
        let input = [new.input, new.cache_read, new.cache_write];
        if input.iter().any(|figure| figure.get() > 0) {
            for (old, new) in [
                (&mut usage.input_tokens, new.input),
                (&mut usage.cache_read_tokens, new.cache_read),
                (&mut usage.cache_write_tokens, new.cache_write),
            ] {
                *old = new.0.unwrap_or(*old);
            }
        }
        if new.output.get() > 0 {
            usage.output_tokens = new.output.get();
        }
    }

    fn stop_for(&mut self, reason: &str) -> Result<(), Failure> {
        self.stop_reason = stop::reason(reason)?.or(self.stop_reason);
        Ok(())
    }

    fn take_whole(
        &mut self,
        content: Values<'_>,
        stop_reason: &str,
        deltas: &dyn Deltas,
    ) -> Result<(), Failure> {
        for (index, block) in (0..).zip(content.0) {
            self.begin(index, block, deltas)?;
        }
        self.stop_for(stop_reason)
    }

    fn begin(&mut self, index: u64, raw: &RawValue, deltas: &dyn Deltas) -> Result<(), Failure> {
        let new: NewBlock<'_> = parse(raw.get())?;
        let block = match &*new.kind {
            "text" => Block::Text(Joined::default()),
            "tool_use" => {
                self.calls += 1;
                if self.calls > CALLS {
                    return Err(Failure::too_many_calls());
                }
                Block::ToolUse {
                    id: new.id.0.into_owned(),
                    name: new.name.0.into_owned(),
                    input: new.input.0.into_text().into_owned(),
                    json: Joined::default(),
                }
            }
            "thinking" => Block::Thinking {
                thinking: Joined::default(),
                signature: None,
            },
            "redacted_thinking" => Block::Redacted(raw.to_owned()),
            _ => Block::Other,
        };
        self.blocks.push((index, block));
        let delta = Delta {
            text: new.text,
            partial_json: Arguments::default(),
            thinking: new.thinking,
            signature: new.signature,
            stop_reason: Text::default(),
        };
        self.extend(Count(Some(index)), &delta, deltas);
        Ok(())
    }

    /// Appends a delta to the block with its index if that block can take it, otherwise to the last block that can, as some
    /// servers use another index for deltas. Text or thinking without a block starts a new one.
    fn extend(&mut self, index: Count, delta: &Delta<'_>, deltas: &dyn Deltas) {
        let takes = |block: &Block| match block {
            Block::Text(_) => !delta.text.is_empty(),
            Block::ToolUse { .. } => !delta.partial_json.0.is_empty(),
            Block::Thinking { .. } => !delta.thinking.is_empty() || delta.signature.is_some(),
            Block::Redacted(_) | Block::Other => false,
        };
        let of_index = self.blocks.iter().rfind(|(own, _)| Some(*own) == index.0);
        if matches!(of_index, Some((_, Block::Redacted(_) | Block::Other))) {
            return;
        }
        let own = |(own, block): &(u64, Block)| index.0.is_none_or(|index| index == *own) && takes(block);
        let any = |(_, block): &(u64, Block)| delta.text.is_empty() && takes(block);
        let blocks = self.blocks.iter();
        let found = blocks
            .clone()
            .rposition(own)
            .or_else(|| blocks.clone().rposition(any));
        let at = match (found, delta.begun()) {
            (Some(at), _) => at,
            (None, Some(block)) => {
                self.blocks.push((index.get(), block));
                self.blocks.len() - 1
            }
            (None, None) => return,
        };
        let Some((_, block)) = self.blocks.get_mut(at) else {
            return;
        };
        let new = match block {
            Block::Text(all) => {
                let new = all.push(&delta.text);
                if !new.is_empty() {
                    deltas.text(new);
                }
                new.len()
            }
            Block::ToolUse { json, .. } => json.push(&delta.partial_json.0).len(),
            Block::Thinking { thinking, signature } => {
                if let Some(part) = &delta.signature {
                    signature.get_or_insert_default().push(part);
                }
                thinking.push(&delta.thinking).len()
            }
            Block::Redacted(_) | Block::Other => 0,
        };
        self.written += new as u64;
    }
}

/// Logs how many thinking blocks of the request the provider has dropped, because they are from another model, which it cannot
/// read, or their conversation has changed.
fn log_dropped(transformations: &[Transformation<'_>]) {
    let is_dropped = |entry: &&Transformation<'_>| &*entry.kind == "thinking_dropped";
    let blocks = transformations.iter().filter(is_dropped).count();
    if blocks > 0 {
        let reasons = transformations.iter().map(|entry| &*entry.reason);
        let reason = reasons.into_iter().find(|reason| !reason.is_empty());
        tracing::info!(
            blocks,
            reason,
            "the model's provider dropped thinking blocks from the request"
        );
    }
}

/// Returns the readable thinking, with an empty line between blocks.
fn readable<'a>(blocks: impl Iterator<Item = &'a Block>) -> String {
    let texts = blocks.filter_map(|block| match block {
        Block::Thinking { thinking, .. } => Some(thinking.as_str().trim()),
        Block::Text(_) | Block::ToolUse { .. } | Block::Redacted(_) | Block::Other => None,
    });
    let texts: Vec<_> = texts.filter(|text| !text.is_empty()).collect();
    texts.join("\n\n")
}

fn content(block: Block) -> Result<Option<Content>, Failure> {
    #[derive(Serialize)]
    #[serde(tag = "type", rename = "thinking")]
    struct Thinking {
        thinking: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    }
    let piece = match block {
        Block::Text(text) => {
            let text = text.into_text();
            if text.is_empty() {
                return Ok(None);
            }
            Content::Text(text)
        }
        Block::ToolUse {
            id,
            name,
            input,
            json,
        } => {
            let json = json.into_text();
            let arguments = match (json.trim(), input.as_str()) {
                ("", "") => "{}".to_owned(),
                ("", _) => input,
                _ => json,
            };
            Content::ToolCall(ToolCall { id, name, arguments })
        }
        Block::Thinking { thinking, signature } => {
            let thinking = Thinking {
                thinking: thinking.into_text(),
                signature: signature.map(Joined::into_text),
            };
            Content::Opaque(to_raw_value(&thinking).map_err(Failure::unreadable)?)
        }
        Block::Redacted(raw) => Content::Opaque(raw),
        Block::Other => return Ok(None),
    };
    Ok(Some(piece))
}

/// Status of a response with this error type, for errors inside of a stream.
fn status(kind: &str) -> Option<StatusCode> {
    let code = match kind {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "api_error" => 500,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => return None,
    };
    StatusCode::from_u16(code).ok()
}
