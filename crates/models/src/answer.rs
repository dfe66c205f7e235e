//! From a stream of events to one reply, the same way for every provider whose client has a [`Decoder`].
//!
//! A decoder does no I/O. Whatever ends a stream early, the error says what the provider charges for it all the same.

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

/// Least margin of the bytes of an answer beyond those of the tokens that were asked for.
const MARGIN_BYTES: u64 = 64 << 10;

/// Tool calls of one answer; more is a server gone wrong.
pub(crate) const CALLS: usize = 1_024;

/// The mark that ends a stream of Chat Completions, and those of gateways for other protocols.
const DONE: &str = "[DONE]";

/// Reads the events of one answer.
pub(crate) trait Decoder {
    /// Takes the next event, by its name and its JSON; its text goes to `deltas`.
    fn take(&mut self, name: &str, data: &str, deltas: &dyn Deltas) -> Result<Flow, Failure>;

    /// Takes the mark that ends a stream.
    fn end(&mut self) {}

    /// Takes the end of an answer that came in one piece, which has all there is.
    fn end_whole(&mut self) {}

    /// Whether the answer is there and only figures can still come: a stream that breaks then loses none of it.
    fn is_whole(&self) -> bool {
        false
    }

    /// Usage that the provider has counted so far.
    fn usage(&self) -> Usage;

    /// Bytes that the model has written so far, hidden ones included.
    fn written_bytes(&self) -> u64;

    /// Ends the answer where it is: it goes on beyond the length that was asked for.
    fn cut(&mut self);

    /// The answer, if it is whole.
    fn finish(self) -> Result<Reply, Failure>;
}

/// State of a stream after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// More may come.
    On,
    /// The answer is whole.
    Done,
}

/// Failure of a stream that brought no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The provider says that it failed.
    Reported(StatusCode, String),
    /// An event is not what the protocol has.
    Unreadable(String),
    /// The stream ended before its answer.
    CutOff,
    /// The model wrote something that its provider could not use.
    Garbled(String),
}

impl Failure {
    /// Whether the provider says itself that it failed.
    fn is_reported(&self) -> bool {
        matches!(self, Self::Reported(..))
    }

    /// More tool calls than one answer may have.
    pub(crate) fn too_many_calls() -> Self {
        Self::Garbled(format!("the model made more than {CALLS} calls at once"))
    }

    /// An event that is not what the protocol has.
    #[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
    pub(crate) fn unreadable(why: serde_json::Error) -> Self {
        Self::Unreadable(why.to_string())
    }
}

/// Gives an event to a decoder, the same way for all protocols: as JSON that can be read, without what keeps the
/// connection open and what is of no protocol. Once the answer is whole, nothing that follows is a failure.
pub(crate) fn take(
    decoder: &mut impl Decoder,
    event: &sse::Message,
    deltas: &dyn Deltas,
) -> Result<Flow, Failure> {
    let mut data = event.data.trim();
    // A few relays send the name of the field twice.
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
    // Nearly every event is one object, which is read once. A decoder reads all of a text before it changes: what is no
    // JSON can be given to it again, mended or in parts.
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

/// Reads the data of an event, or a part of it.
pub(crate) fn parse<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, Failure> {
    serde_json::from_str(data).map_err(Failure::unreadable)
}

/// Sends `body`, which asks for at most `max_tokens`, and reads the stream that it is answered with.
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

/// A filter of the provider that stops a request refuses it as a model does: another model may take it.
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

/// Bytes after which an answer of so many tokens is cut: four for each token, and as many again, at least
/// [`MARGIN_BYTES`], because tokens of code and of some languages are longer.
const fn longest_bytes(max_tokens: u64) -> u64 {
    let asked = max_tokens.saturating_mul(BYTES_PER_TOKEN);
    let margin = if asked > MARGIN_BYTES { asked } else { MARGIN_BYTES };
    asked.saturating_add(margin)
}

/// Reads a stream to its end. What nobody has counted is estimated, in an answer as in a failure: money is never
/// silently zero.
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
        // Told as it comes, so that a call that is given up is charged for it.
        let unseen = decoder
            .written_bytes()
            .saturating_sub(shown.bytes.load(Ordering::Relaxed));
        if unseen > hidden {
            deltas.written(usize::try_from(unseen - hidden).unwrap_or(usize::MAX));
            hidden = unseen;
        }
        match taken {
            // Whoever writes on has not heeded the limit: the connection is closed.
            Ok(Flow::On) if !decoder.is_whole() && decoder.written_bytes() > longest_bytes => {
                tracing::warn!(
                    longest_bytes,
                    "cut the answer of a model that went on beyond the length it was asked for"
                );
                decoder.cut();
                break;
            }
            Ok(Flow::On) => {}
            Ok(Flow::Done) => {
                // Whatever comes of it, the answer is there.
                let _ended = timeout(transport.end_wait(), events.next()).await;
                break;
            }
            Err(failure) => {
                let error = told(&failure, transport, &events, decoder.written_bytes());
                let nothing_came = decoder.usage() == Usage::default() && decoder.written_bytes() == 0;
                // Treated like a refusal before the stream, for which no provider asks money.
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

/// Counts the text that is shown.
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

/// An answer with the side estimated that its provider has not counted, and with JSON that every provider takes back.
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

/// A piece without halves of surrogate pairs in its JSON.
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

/// Cost of a call without a reply: what the provider counted, and at least the request and the text that came.
/// Providers tell the whole count of the output at the end only.
fn charge(decoder: &impl Decoder, sent_bytes: usize) -> Usage {
    let usage = with_input(decoder.usage(), sent_bytes);
    Usage {
        output_tokens: usage.output_tokens.max(tokens(decoder.written_bytes())),
        ..usage
    }
}
