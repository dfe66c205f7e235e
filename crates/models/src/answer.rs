//! From a stream of events to one reply, the same way for every provider whose client has a [`Decoder`].
//!
//! A decoder does no I/O. Whatever ends a stream early, the error says what the provider charges for it all the same.

use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use serde::Serialize;
use sortie_agent::model::{Content, Deltas, ModelError, Reply, Usage};
use sortie_net::sse;
use tokio::time::timeout;

use crate::{
    estimate::{BYTES_PER_TOKEN, tokens, with_input},
    transport::{Events, Transport},
};

/// Least margin of the bytes of an answer beyond those of the tokens that were asked for.
const MARGIN_BYTES: u64 = 64 << 10;

/// Tool calls of one answer; more is a server gone wrong.
pub(crate) const CALLS: usize = 1_024;

/// Reads the events of one answer.
pub(crate) trait Decoder {
    /// Takes the next event; its text goes to `deltas`.
    fn take(&mut self, event: &sse::Message, deltas: &dyn Deltas) -> Result<Flow, Failure>;

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

/// Sends `body`, which asks for at most `max_tokens`, and reads the stream that it is answered with.
pub(crate) async fn call(
    transport: &Transport,
    body: &(impl Serialize + Sync),
    decoder: impl Decoder + Send,
    deltas: &dyn Deltas,
    max_tokens: u64,
) -> Result<Reply, ModelError> {
    let events = transport.stream(body).await?;
    read(events, decoder, (transport, deltas), longest_bytes(max_tokens)).await
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
            Ok(None) => break,
            Err(_) if decoder.is_whole() => break,
            Err(error) => return Err(charged(error, &decoder, sent)),
        };
        let taken = decoder.take(&event, &shown);
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
                let error = told(&failure, transport);
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
            ..told(&failure, transport)
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

/// An answer with the side estimated that its provider has not counted.
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
        ..reply
    }
}

fn told(failure: &Failure, transport: &Transport) -> ModelError {
    match failure {
        Failure::Reported(status, said) => transport.failure(*status, said, None),
        Failure::Unreadable(why) => {
            let message = format!("the model's provider sent what cannot be read: {why}");
            ModelError::retryable(transport.clean(&message), None)
        }
        Failure::CutOff => {
            ModelError::retryable("the model's provider ended the stream before its answer", None)
        }
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
