//! The answer, put together from its events.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use sortie_agent::model::{Content, Deltas, ModelError, Reply, StopReason, Usage};

use crate::{
    openai::{self, Arguments, Count, Counted, Text},
    transport::Transport,
};

/// One event of the stream. What is not named here is passed over.
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

/// What has come of an answer.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The finished items with their places.
    items: Vec<(u64, Vec<Content>)>,
    refused: bool,
    /// What was written so far, in bytes.
    bytes: usize,
    counted: Counted,
    stopped: Option<StopReason>,
}

impl Answer {
    /// Whether the last event has come.
    pub(super) fn is_whole(&self) -> bool {
        self.stopped.is_some()
    }

    /// Takes the next event, and hands its text on.
    pub(super) fn take(
        &mut self,
        transport: &Transport,
        data: &str,
        deltas: &dyn Deltas,
    ) -> Result<(), ModelError> {
        let event: Event<'_> = serde_json::from_str(data).map_err(|error| openai::malformed(&error))?;
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
                    let response =
                        serde_json::from_str(response.get()).map_err(|error| openai::malformed(&error))?;
                    self.take_response(transport, response)?;
                }
                if kind == "response.failed" {
                    let message = "the model's provider failed without a reason";
                    return Err(ModelError::retryable(message, None));
                }
                self.stopped.get_or_insert(StopReason::EndTurn);
            }
            "error" => {
                // The failure is the event itself, or within it.
                let whole = serde_json::from_str(data).map_err(|error| openai::malformed(&error))?;
                return Err(openai::failure(transport, event.error.unwrap_or(whole)));
            }
            _ => {}
        }
        Ok(())
    }

    fn take_item(&mut self, place: u64, raw: &RawValue) -> Result<(), ModelError> {
        let item: Item<'_> = serde_json::from_str(raw.get()).map_err(|error| openai::malformed(&error))?;
        let mut pieces = Vec::new();
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
                let arguments = arguments
                    .map_err(|error| openai::malformed(&error))?
                    .unwrap_or_default();
                let (id, name) = (item.call_id.0.into_owned(), item.name.0.into_owned());
                pieces.extend(openai::tool_call(id, name, arguments.into_owned())?.map(Content::ToolCall));
            }
            // Without its content the provider would look for it in its storage, where nothing is.
            "reasoning" if item.encrypted_content.is_some() => pieces.push(Content::Opaque(raw.to_owned())),
            _ => {}
        }
        if self.items.len() >= openai::CALLS {
            return Err(ModelError::fatal(format!(
                "the model's answer has more than {} items",
                openai::CALLS
            )));
        }
        self.items.push((place, pieces));
        Ok(())
    }

    fn take_response(&mut self, transport: &Transport, response: Response<'_>) -> Result<(), ModelError> {
        if let Some(figures) = response.usage {
            self.counted.take(figures.into());
        }
        if let Some(error) = response.error {
            return Err(openai::failure(transport, error));
        }
        // Some servers send their items only here.
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

    /// What the call has cost so far: nothing where nothing has come.
    pub(super) fn usage(&self, body: &impl Serialize) -> Usage {
        if self.bytes == 0 && self.counted.is_empty() && !self.is_whole() {
            return Usage::default();
        }
        let whole = self
            .items
            .iter()
            .flat_map(|(_, pieces)| pieces)
            .map(|piece| match piece {
                Content::Text(text) => text.len(),
                Content::ToolCall(call) => call.name.len() + call.arguments.len(),
                Content::Opaque(raw) => raw.get().len(),
            });
        self.counted.usage(body, self.bytes.max(whole.sum()))
    }

    /// The whole answer. `turn` is how long the conversation was before it.
    pub(super) fn into_reply(mut self, usage: Usage, turn: usize) -> Result<Reply, ModelError> {
        self.items.sort_by_key(|(place, _)| *place);
        let mut content: Vec<Content> = self.items.into_iter().flat_map(|(_, pieces)| pieces).collect();
        openai::tell_apart(&mut content, turn);
        let calls = content.iter().any(|piece| matches!(piece, Content::ToolCall(_)));
        let stop_reason = match self.stopped.unwrap_or(StopReason::EndTurn) {
            StopReason::EndTurn | StopReason::ToolUse if self.refused => StopReason::Refusal,
            StopReason::EndTurn | StopReason::ToolUse if calls => StopReason::ToolUse,
            reason => reason,
        };
        Ok(Reply {
            content,
            stop_reason,
            usage,
        })
    }
}

/// What a message is to the model: newer ones want to see it again. It stands before the text it belongs to.
fn phase_of(phase: &RawValue) -> Result<Box<RawValue>, ModelError> {
    #[derive(Serialize)]
    struct Opaque<'a> {
        phase: &'a RawValue,
    }
    to_raw_value(&Opaque { phase }).map_err(|error| openai::malformed(&error))
}
