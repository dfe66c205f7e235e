//! The answer, put together from its events.

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use sortie_agent::model::{Content, Deltas, Reply, StopReason, Usage};
use sortie_net::sse;

use crate::{
    answer::{CALLS, Decoder, Failure, Flow},
    openai::{self, Arguments, Count, Counted, Text},
};

use super::request::Body;

/// An event of the stream. Fields that are not named here are passed over.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    delta: Text<'a>,
    #[serde(default)]
    output_index: Count,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// A whole item of the answer.
#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    content: Option<Vec<Part<'a>>>,
    #[serde(borrow)]
    summary: Option<Vec<Part<'a>>>,
    #[serde(borrow)]
    phase: Option<&'a RawValue>,
    #[serde(borrow)]
    encrypted_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    call_id: Text<'a>,
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow)]
    arguments: Option<Arguments<'a>>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    refusal: Text<'a>,
}

/// The response object of the last event.
#[derive(Deserialize)]
struct Response<'a> {
    usage: Option<Figures>,
    #[serde(borrow)]
    output: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    incomplete_details: Option<Incomplete<'a>>,
}

#[derive(Deserialize)]
struct Incomplete<'a> {
    #[serde(borrow, default)]
    reason: Text<'a>,
}

#[derive(Deserialize)]
struct Figures {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    total_tokens: Count,
    input_tokens_details: Option<CacheFigures>,
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
        let cache = figures.input_tokens_details.unwrap_or_default();
        Self {
            input: figures.input_tokens.0,
            output: figures.output_tokens.0,
            total: figures.total_tokens.0,
            cache_read: cache.cached_tokens.0,
            cache_write: cache.cache_write_tokens.0,
        }
    }
}

/// Answer as far as it has come.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    /// Request. Its size stands in for figures that the provider does not tell.
    body: &'a Body<'a>,
    /// Turns of the conversation so far.
    turn: usize,
    /// The finished items with their places.
    items: Vec<(u64, Vec<Content>)>,
    refused: bool,
    /// Summaries of the reasoning, in the order of the items.
    thinking: Vec<String>,
    /// Bytes that the model has written so far.
    bytes: usize,
    counted: Counted,
    stopped: Option<StopReason>,
}

impl<'a> Answer<'a> {
    /// The answer to `body`, whose conversation has this many turns.
    pub(super) fn new(body: &'a Body<'a>, turn: usize) -> Self {
        Self {
            body,
            turn,
            items: Vec::new(),
            refused: false,
            thinking: Vec::new(),
            bytes: 0,
            counted: Counted::default(),
            stopped: None,
        }
    }

    fn take_event(&mut self, data: &str, deltas: &dyn Deltas) -> Result<(), Failure> {
        let event: Event<'_> = serde_json::from_str(data).map_err(Failure::unreadable)?;
        self.bytes += event.delta.0.len();
        match &*event.kind.0 {
            "response.output_text.delta" | "response.refusal.delta" => deltas.text(&event.delta.0),
            "response.output_item.done" => {
                if let Some(item) = event.item {
                    self.take_item(event.output_index.0, item)?;
                }
            }
            kind @ ("response.completed" | "response.incomplete" | "response.failed") => {
                if let Some(response) = event.response {
                    let response = serde_json::from_str(response.get()).map_err(Failure::unreadable)?;
                    self.take_response(response)?;
                }
                if kind == "response.failed" {
                    let said = "no reason given".to_owned();
                    return Err(Failure::Reported(StatusCode::INTERNAL_SERVER_ERROR, said));
                }
                self.stopped.get_or_insert(StopReason::EndTurn);
            }
            "error" => {
                // The failure is the event itself, or within it.
                let whole = serde_json::from_str(data).map_err(Failure::unreadable)?;
                return Err(openai::failure(event.error.unwrap_or(whole)));
            }
            _ => {}
        }
        Ok(())
    }

    fn take_item(&mut self, place: u64, raw: &RawValue) -> Result<(), Failure> {
        let item: Item<'_> = serde_json::from_str(raw.get()).map_err(Failure::unreadable)?;
        let mut pieces = Vec::new();
        let summaries = item.summary.iter().flatten().map(|part| part.text.0.trim());
        self.thinking
            .extend(summaries.filter(|text| !text.is_empty()).map(str::to_owned));
        match &*item.kind.0 {
            "message" => {
                let text: String = item.content.iter().flatten().map(|part| &*part.text.0).collect();
                let refusal: String = item
                    .content
                    .iter()
                    .flatten()
                    .map(|part| &*part.refusal.0)
                    .collect();
                self.refused |= !refusal.is_empty();
                let text = text + &refusal;
                if !text.is_empty() {
                    if let Some(phase) = item.phase {
                        pieces.push(Content::Opaque(phase_of(phase)?));
                    }
                    pieces.push(Content::Text(text));
                }
            }
            "function_call" => {
                let arguments = item.arguments.map(Arguments::text).transpose();
                let arguments = arguments.map_err(Failure::unreadable)?.unwrap_or_default();
                let (id, name) = (item.call_id.0.into_owned(), item.name.0.into_owned());
                pieces.extend(openai::tool_call(id, name, arguments.into_owned())?.map(Content::ToolCall));
            }
            // Without its content the provider would look for it in its storage, where nothing is.
            "reasoning" if item.encrypted_content.is_some() => pieces.push(Content::Opaque(raw.to_owned())),
            _ => {}
        }
        if self.items.len() >= CALLS {
            return Err(Failure::Garbled(format!(
                "the model's answer has more than {CALLS} items"
            )));
        }
        self.items.push((place, pieces));
        Ok(())
    }

    fn take_response(&mut self, response: Response<'_>) -> Result<(), Failure> {
        if let Some(figures) = response.usage {
            self.counted.take(figures.into());
        }
        if let Some(error) = response.error {
            return Err(openai::failure(error));
        }
        // A few servers send their items only here.
        if self.items.is_empty() {
            for (place, item) in (0..).zip(response.output.iter().flatten()) {
                self.take_item(place, item)?;
            }
        }
        if let Some(incomplete) = response.incomplete_details {
            self.stopped = Some(match &*incomplete.reason.0 {
                "content_filter" => StopReason::Refusal,
                _ => StopReason::MaxTokens,
            });
        }
        Ok(())
    }
}

impl Decoder for Answer<'_> {
    fn take(&mut self, event: &sse::Message, deltas: &dyn Deltas) -> Result<Flow, Failure> {
        self.take_event(&event.data, deltas)?;
        Ok(if self.is_whole() { Flow::Done } else { Flow::On })
    }

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
        let pieces = self
            .items
            .iter()
            .flat_map(|(_, pieces)| pieces)
            .map(|piece| match piece {
                Content::Text(text) => text.len(),
                Content::ToolCall(call) => call.name.len() + call.arguments.len(),
                Content::Opaque(raw) => raw.get().len(),
            });
        self.bytes.max(pieces.sum()) as u64
    }

    fn cut(&mut self) {
        self.stopped = Some(StopReason::MaxTokens);
    }

    fn finish(mut self) -> Result<Reply, Failure> {
        let usage = self.usage();
        let Some(stopped) = self.stopped else {
            return Err(Failure::CutOff);
        };
        self.items.sort_by_key(|(place, _)| *place);
        let mut content: Vec<Content> = self.items.into_iter().flat_map(|(_, pieces)| pieces).collect();
        openai::tell_apart(&mut content, self.turn);
        let calls = content.iter().any(|piece| matches!(piece, Content::ToolCall(_)));
        let stop_reason = match stopped {
            StopReason::EndTurn if self.refused => StopReason::Refusal,
            StopReason::EndTurn if calls => StopReason::ToolUse,
            reason @ (StopReason::EndTurn
            | StopReason::ToolUse
            | StopReason::MaxTokens
            | StopReason::Refusal) => reason,
        };
        Ok(Reply {
            content,
            thinking: self.thinking.join("\n\n"),
            stop_reason,
            usage,
        })
    }
}

/// Phase of a message, which newer models want to see again. The piece stands before its text.
fn phase_of(phase: &RawValue) -> Result<Box<RawValue>, Failure> {
    #[derive(Serialize)]
    struct Opaque<'a> {
        phase: &'a RawValue,
    }
    to_raw_value(&Opaque { phase }).map_err(Failure::unreadable)
}
