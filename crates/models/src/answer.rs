//! Assembles one reply from a stream of events, in the same way for every provider with a [`Decoder`].
//!
//! A decoder does no I/O. If a stream ends early, the error carries the usage that the provider charges anyway.

use std::{
    borrow::Cow,
    sync::atomic::{AtomicU64, Ordering},
};

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sortie_agent::{
    model::{Content, Deltas, ErrorKind, ModelError, Reply, StopReason, Usage},
    surrogates,
};
use sortie_net::sse;
use tokio::time::timeout;

use crate::{
    estimate::{BYTES_PER_TOKEN, tokens, with_input},
    json,
    transport::{Events, Transport, is_filtered},
};

/// Minimum margin, in bytes, above the size of the requested tokens.
const MARGIN_BYTES: u64 = 64 << 10;

/// Maximum number of tool calls in one answer. More means that the server is faulty.
pub(crate) const CALLS: usize = 1_024;

/// End marker of a Chat Completions stream. Gateways send it for other protocols too.
const DONE: &str = "[DONE]";

/// Decodes the events of one answer.
pub(crate) trait Decoder {
    /// Decodes the next event from its name and its JSON. Text goes to `deltas`.
    fn take(&mut self, name: &str, data: &str, deltas: &dyn Deltas) -> Result<Flow, Failure>;

    /// Handles the end marker of a stream.
    fn end(&mut self) {}

    /// Handles the end of an answer that came as one JSON document, so that nothing more can follow.
    fn end_whole(&mut self) {}

    /// Whether the answer is complete and only usage figures can follow. A stream that breaks after this point loses nothing.
    fn is_whole(&self) -> bool {
        false
    }

    /// Usage that the provider has reported so far.
    fn usage(&self) -> Usage;

    /// Number of bytes that the model has written so far, including hidden ones.
    fn written_bytes(&self) -> u64;

    /// Truncates the answer here because it exceeds the requested length.
    fn cut(&mut self);

    /// Returns the answer if it is complete.
    fn finish(self) -> Result<Reply, Failure>;
}

/// State of a stream after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// More events can follow.
    On,
    /// The answer is complete.
    Done,
}

/// Failure of a stream that produced no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The provider reported an error.
    Reported(StatusCode, String),
    /// An event does not conform to the protocol.
    Unreadable(String),
    /// The stream ended before the answer was complete.
    CutOff,
    /// The model wrote something that its provider could not parse.
    Garbled(String),
}

impl Failure {
    /// Whether the provider reported the error.
    fn is_reported(&self) -> bool {
        matches!(self, Self::Reported(..))
    }

    /// The answer has more than [`CALLS`] tool calls.
    pub(crate) fn too_many_calls() -> Self {
        Self::Garbled(format!("the model made more than {CALLS} calls at once"))
    }

    /// An event does not conform to the protocol.
    #[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
    pub(crate) fn unreadable(why: serde_json::Error) -> Self {
        Self::Unreadable(why.to_string())
    }
}

/// Passes an event to a decoder, in the same way for all protocols: as readable JSON, without keep-alives and events outside the
/// protocol. Once the answer is complete, later events cannot fail it.
pub(crate) fn take(
    decoder: &mut impl Decoder,
    event: &sse::Message,
    deltas: &dyn Deltas,
) -> Result<Flow, Failure> {
    let mut data = event.data.trim();
    // A few relays repeat the field name `data:`.
    while let Some(rest) = data.strip_prefix("data:") {
        data = rest.trim_start();
    }
    if data == DONE {
        decoder.end();
        return if decoder.is_whole() {
            Ok(Flow::Done)
        } else {
            Err(Failure::CutOff)
        };
    }
    if !data.starts_with(['{', '[']) {
        return if event.event == "error" && !decoder.is_whole() {
            Err(Failure::Reported(
                StatusCode::INTERNAL_SERVER_ERROR,
                data.to_owned(),
            ))
        } else {
            Ok(Flow::On)
        };
    }
    // Nearly every event is one object, which we parse once. A decoder parses the whole text before it changes its state, so
    // invalid JSON can be repaired or split and passed to it again.
    if data.starts_with('{') {
        let was_whole = decoder.is_whole();
        match decoder.take(&event.event, data, deltas) {
            Err(Failure::Unreadable(_)) if !json::is_json(data) => {}
            Err(_) if was_whole => return Ok(Flow::On),
            taken => return taken,
        }
    }
    let data = json::readable(data);
    let objects = match json::objects(&data) {
        Err(_) if decoder.is_whole() => return Ok(Flow::On),
        objects => objects.map_err(Failure::unreadable)?,
    };
    for object in objects {
        let was_whole = decoder.is_whole();
        match decoder.take(&event.event, object.get(), deltas) {
            Ok(Flow::Done) => return Ok(Flow::Done),
            Err(failure) if !was_whole => return Err(failure),
            Ok(Flow::On) | Err(_) => {}
        }
    }
    Ok(Flow::On)
}

/// Parses the data of an event, or a part of it.
pub(crate) fn parse<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, Failure> {
    serde_json::from_str(data).map_err(Failure::unreadable)
}

/// Sends `body`, which asks for at most `max_tokens`, and reads the streamed answer.
pub(crate) async fn call(
    transport: &Transport,
    body: &(impl Serialize + Sync),
    decoder: impl Decoder + Send,
    deltas: &dyn Deltas,
    max_tokens: u64,
) -> Result<Reply, ModelError> {
    let outcome = match transport.stream(body).await {
        Ok(events) => read(events, decoder, (transport, deltas), longest_bytes(max_tokens)).await,
        Err(error) => Err(error),
    };
    outcome.or_else(filtered)
}

/// Treats a request that a content filter of the provider blocked like a refusal by the model: another model may accept it.
fn filtered(error: ModelError) -> Result<Reply, ModelError> {
    let is_refusal = matches!(error.kind, ErrorKind::Request | ErrorKind::Credential);
    if !is_refusal || !is_filtered(&error.message) {
        return Err(error);
    }
    Ok(Reply {
        content: vec![Content::Text(error.message)],
        thinking: String::new(),
        stop_reason: StopReason::Refusal,
        usage: error.usage,
    })
}

/// Maximum size of an answer of `max_tokens`, in bytes: four per token, and the same again, at least [`MARGIN_BYTES`], because
/// tokens of code and of some languages are longer. A longer answer is truncated.
const fn longest_bytes(max_tokens: u64) -> u64 {
    let asked = max_tokens.saturating_mul(BYTES_PER_TOKEN);
    let margin = if asked > MARGIN_BYTES { asked } else { MARGIN_BYTES };
    asked.saturating_add(margin)
}

/// Reads a stream to its end. Usage that the provider does not report is estimated, for answers and for failures, so that a call
/// never counts as free by mistake.
async fn read(
    mut events: Events<'_>,
    mut decoder: impl Decoder,
    (transport, deltas): (&Transport, &dyn Deltas),
    longest_bytes: u64,
) -> Result<Reply, ModelError> {
    let sent = events.sent_bytes();
    let shown = CountingDeltas {
        deltas,
        bytes: AtomicU64::new(0),
    };
    let mut hidden = 0;
    loop {
        let event = match events.next().await {
            Ok(Some(event)) => event,
            Ok(None) => {
                if events.is_whole() {
                    decoder.end_whole();
                }
                break;
            }
            Err(_) if decoder.is_whole() => break,
            Err(error) => return Err(charged(error, &decoder, sent)),
        };
        let taken = take(&mut decoder, &event, &shown);
        // Reported as it arrives, so that a cancelled call is charged for it.
        let unseen = decoder
            .written_bytes()
            .saturating_sub(shown.bytes.load(Ordering::Relaxed));
        if unseen > hidden {
            deltas.written(usize::try_from(unseen - hidden).unwrap_or(usize::MAX));
            hidden = unseen;
        }
        match taken {
            // The server ignores the limit: close the connection.
            Ok(Flow::On) if !decoder.is_whole() && decoder.written_bytes() > longest_bytes => {
                tracing::warn!(
                    longest_bytes,
                    "cut the answer of a model that exceeded the requested length"
                );
                decoder.cut();
                break;
            }
            Ok(Flow::On) => {}
            Ok(Flow::Done) => {
                // The answer is complete, so the result does not matter.
                let _ended = timeout(transport.end_wait(), events.next()).await;
                break;
            }
            Err(failure) => {
                let error = told(&failure, transport, &events, decoder.written_bytes());
                let nothing_came = decoder.usage() == Usage::default() && decoder.written_bytes() == 0;
                // Equivalent to a refusal before the stream, which no provider charges for.
                let is_refused = nothing_came && failure.is_reported();
                return Err(if is_refused {
                    error
                } else {
                    charged(error, &decoder, sent)
                });
            }
        }
    }
    let usage = charge(&decoder, sent);
    let written = decoder.written_bytes();
    match decoder.finish() {
        Ok(reply) => Ok(counted(reply, sent, written)),
        Err(failure) => Err(ModelError {
            usage,
            ..told(&failure, transport, &events, written)
        }),
    }
}

/// Counts the text that is streamed to the user.
struct CountingDeltas<'a> {
    deltas: &'a dyn Deltas,
    bytes: AtomicU64,
}

impl Deltas for CountingDeltas<'_> {
    fn text(&self, piece: &str) {
        self.bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
        self.deltas.text(piece);
    }
}

/// Returns the reply with estimates for usage that the provider did not report, and with JSON that every provider accepts back.
fn counted(reply: Reply, sent_bytes: usize, written_bytes: u64) -> Reply {
    let pieces = reply.content.iter().map(|piece| match piece {
        Content::Text(text) => text.len(),
        Content::ToolCall(call) => call.name.len() + call.arguments.len(),
        Content::Opaque(raw) => raw.get().len(),
    });
    let written = written_bytes.max(pieces.sum::<usize>() as u64);
    let usage = with_input(reply.usage, sent_bytes);
    Reply {
        usage: Usage {
            output_tokens: match usage.output_tokens {
                0 => tokens(written),
                counted => counted,
            },
            ..usage
        },
        content: reply.content.into_iter().map(paired).collect(),
        ..reply
    }
}

/// Replaces unpaired surrogates in the JSON of a piece.
fn paired(piece: Content) -> Content {
    match piece {
        Content::ToolCall(mut call) => {
            if let Cow::Owned(arguments) = surrogates::paired(&call.arguments) {
                call.arguments = arguments;
            }
            Content::ToolCall(call)
        }
        Content::Opaque(raw) => {
            let whole = match surrogates::paired(raw.get()) {
                Cow::Borrowed(_) => None,
                Cow::Owned(text) => RawValue::from_string(text).ok(),
            };
            Content::Opaque(whole.unwrap_or(raw))
        }
        text @ Content::Text(_) => text,
    }
}

fn told(failure: &Failure, transport: &Transport, events: &Events<'_>, written_bytes: u64) -> ModelError {
    match failure {
        Failure::Reported(status, said) => transport.failure(*status, said, None),
        Failure::Unreadable(why) => {
            let message = format!("the model's provider sent what cannot be read: {why}");
            ModelError::retryable(transport.clean(&message), None)
        }
        Failure::CutOff => events.cut_off(written_bytes > 0),
        Failure::Garbled(why) => ModelError::retryable(transport.clean(why), None),
    }
}

fn charged(error: ModelError, decoder: &impl Decoder, sent_bytes: usize) -> ModelError {
    ModelError {
        usage: charge(decoder, sent_bytes),
        ..error
    }
}

/// Returns the cost of a call without a reply: the reported usage, but at least the request and the received text. Providers
/// report the full output count only at the end.
fn charge(decoder: &impl Decoder, sent_bytes: usize) -> Usage {
    let usage = with_input(decoder.usage(), sent_bytes);
    Usage {
        output_tokens: usage.output_tokens.max(tokens(decoder.written_bytes())),
        ..usage
    }
}
