//! From a stream of events to one reply, the same way for every provider whose client has a [`Decoder`].
//!
//! A decoder does no I/O. Whatever ends a stream early, the error says what the provider charges for it all the same.

use std::time::Duration;

use http::StatusCode;
use serde::Serialize;
use sortie_agent::model::{Content, Deltas, ModelError, Reply, Usage};
use sortie_net::sse;
use tokio::time::timeout;

use crate::transport::{Events, Transport};

/// How long the end of a stream is waited for once its answer is whole: then its connection can serve the next call.
const END_WAIT: Duration = Duration::from_millis(250);
/// Bytes of text that one token stands for where the provider did not come to count them.
const BYTES_PER_TOKEN: u64 = 4;

/// Reads the events of one answer.
pub(crate) trait Decoder {
    /// Takes the next event; its text goes to `deltas`.
    fn take(&mut self, event: &sse::Message, deltas: &dyn Deltas) -> Result<Flow, Failure>;

    /// Whether the answer is there and only figures can still come: a stream that breaks then loses none of it.
    fn is_whole(&self) -> bool {
        false
    }

    /// What the provider has counted so far.
    fn usage(&self) -> Usage;

    /// How many bytes the model has written so far, hidden ones included.
    fn written_bytes(&self) -> u64;

    /// The answer, if it is whole.
    fn finish(self) -> Result<Reply, Failure>;
}

/// Whether a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// More may come.
    On,
    /// The answer is whole.
    Done,
}

/// Why a stream brought no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The provider says that it failed.
    Said(StatusCode, String),
    /// An event is not what the protocol has.
    Unreadable(String),
    /// The stream ended before its answer.
    CutOff,
    /// The model wrote something that its provider could not use.
    Garbled(String),
}

impl Failure {
    /// An event that is not what the protocol has.
    #[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
    pub(crate) fn unreadable(why: serde_json::Error) -> Self {
        Self::Unreadable(why.to_string())
    }
}

/// Sends `body` and reads the stream that it is answered with. An answer that nobody has counted is estimated: money is
/// never silently zero.
pub(crate) async fn call(
    transport: &Transport,
    body: &(impl Serialize + Sync),
    decoder: impl Decoder + Send,
    deltas: &dyn Deltas,
) -> Result<Reply, ModelError> {
    let events = transport.stream(body).await?;
    let reply = read(events, decoder, transport, deltas).await?;
    if reply.usage != Usage::default() {
        return Ok(reply);
    }
    // The same body has been written before.
    let sent = serde_json::to_vec(body).map_or(0, |body| body.len());
    let written = reply.content.iter().map(|piece| match piece {
        Content::Text(text) => text.len(),
        Content::ToolCall(call) => call.name.len() + call.arguments.len(),
        Content::Opaque(raw) => raw.get().len(),
    });
    let tokens = |bytes: usize| (bytes as u64).div_ceil(BYTES_PER_TOKEN);
    Ok(Reply {
        usage: Usage {
            input_tokens: tokens(sent),
            output_tokens: tokens(written.sum()),
            ..Usage::default()
        },
        ..reply
    })
}

/// Reads a stream to its end.
pub(crate) async fn read(
    mut events: Events<'_>,
    mut decoder: impl Decoder,
    transport: &Transport,
    deltas: &dyn Deltas,
) -> Result<Reply, ModelError> {
    loop {
        let event = match events.next().await {
            Ok(Some(event)) => event,
            Ok(None) => break,
            Err(_) if decoder.is_whole() => break,
            Err(error) => return Err(charged(error, &decoder)),
        };
        match decoder.take(&event, deltas) {
            Ok(Flow::On) => {}
            Ok(Flow::Done) => {
                // Whatever comes of it, the answer is there.
                let _ended = timeout(END_WAIT, events.next()).await;
                break;
            }
            Err(failure) => return Err(charged(told(&failure, transport), &decoder)),
        }
    }
    let usage = charge(&decoder);
    decoder.finish().map_err(|failure| ModelError {
        usage,
        ..told(&failure, transport)
    })
}

fn told(failure: &Failure, transport: &Transport) -> ModelError {
    match failure {
        Failure::Said(status, said) => transport.failure(*status, said, None),
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

fn charged(error: ModelError, decoder: &impl Decoder) -> ModelError {
    ModelError {
        usage: charge(decoder),
        ..error
    }
}

/// What a call without a reply has cost: what the provider counted, and at least the text that came. Providers tell
/// the whole count of the output at the end only.
fn charge(decoder: &impl Decoder) -> Usage {
    let usage = decoder.usage();
    Usage {
        output_tokens: usage
            .output_tokens
            .max(decoder.written_bytes().div_ceil(BYTES_PER_TOKEN)),
        ..usage
    }
}
