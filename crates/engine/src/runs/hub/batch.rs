//! Messages of a run's stream. All followers of the run share them.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::value::RawValue;
use sortie_api::{
    Refusal, Run, RunId, RunStatus, Timestamp,
    event::kind,
    live::{MessageDelta, MessageStart, ToolOutput},
};
use sortie_store::runs::{EventRow, ListedEvent, ListedRun};

/// Memory around the content of a message, in bytes.
const AROUND: usize = 160;

/// Largest data of an event, or output of a run, that followers share in memory, in bytes.
pub(super) const INLINE_BYTES: usize = 64 * 1024;

/// Size up to which events are joined to a batch, in bytes. A follower that does not read holds a batch.
pub(super) const BATCH_BYTES: usize = 64 * 1024;

/// A message of a run's stream.
#[derive(Clone, Debug)]
pub enum Message {
    /// A recorded event.
    Event(EventRow),
    /// A live message. It is not recorded and has no position.
    Delta(Delta),
    /// The run in its terminal status, as JSON. The stream ends after it.
    Done(Arc<RawValue>),
    /// A message with a large text, which each follower reads separately. It is alone in its batch.
    Large(LargeMessage),
    /// A piece of a stream that is encoded already. It is alone in its batch.
    Passed(Passed),
    /// A message of a feed of the list of runs.
    Change(RunChange),
}

/// Message of a feed of the list of runs.
#[derive(Clone, Debug)]
pub struct RunChange {
    /// Position from which a reader continues after the message.
    pub position: String,
    /// Run as a list has it, as JSON without its output. `None` for a `reset`: changes were missed, or the position of the reader
    /// is unknown, so it has to load the list again.
    pub run: Option<Arc<RawValue>>,
}

/// Piece of a stream in the form in which a client gets it, such as that of another node.
#[derive(Clone, Debug)]
pub struct Passed {
    /// Text of the stream. A message may begin in one piece and end in a later one.
    pub bytes: Bytes,
    /// End of the piece.
    pub end: PassedEnd,
}

/// End of a piece of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PassedEnd {
    /// The piece ends between two messages.
    #[default]
    Between,
    /// The piece ends within a message.
    Within,
    /// The piece ends with the last message of the stream.
    Done,
}

/// Message without its large text. Each follower reads the text piece by piece, so that slow followers do not hold it in memory.
#[derive(Clone, Debug)]
pub enum LargeMessage {
    /// A recorded event without its data.
    Event(LargeEvent),
    /// The run in its terminal status, without its output. The stream ends after it.
    Done(Arc<Run>),
}

/// Recorded event without its data.
#[derive(Clone, Debug)]
pub struct LargeEvent {
    /// Run of the event.
    pub run: RunId,
    /// Position in the run, from 1.
    pub seq: i64,
    /// Type of the event.
    pub kind: String,
    /// Time that the event was recorded with.
    pub created_at: Timestamp,
}

/// Live message about a run.
#[derive(Clone, Debug)]
pub enum Delta {
    /// A call of a model begins.
    ModelStart(MessageStart),
    /// A piece of the text that the model is writing.
    Text(MessageDelta),
    /// A piece of the output of a running command.
    Output(ToolOutput),
}

impl Message {
    /// Creates the message of a recorded event.
    pub(super) fn of(run: RunId, event: ListedEvent) -> Self {
        let ListedEvent {
            seq,
            kind,
            data,
            created_at,
        } = event;
        match data {
            Some(data) => Self::Event(EventRow {
                seq,
                kind,
                data,
                created_at,
            }),
            None => Self::Large(LargeMessage::Event(LargeEvent {
                run,
                seq,
                kind,
                created_at,
            })),
        }
    }

    /// Length of the text or JSON that the message carries, in bytes. A large message carries none.
    pub fn content_bytes(&self) -> usize {
        match self {
            Self::Event(event) => event.data.len(),
            Self::Delta(Delta::ModelStart(start)) => start.model.len(),
            Self::Delta(Delta::Text(delta)) => delta.text.len(),
            Self::Delta(Delta::Output(delta)) => delta.text.len(),
            Self::Done(run) => run.get().len(),
            Self::Large(_) => 0,
            Self::Passed(passed) => passed.bytes.len(),
            Self::Change(change) => change.run.as_ref().map_or(0, |run| run.get().len()),
        }
    }
}

/// Messages that belong together, with their encoded form.
#[derive(Debug)]
pub struct Batch {
    messages: Vec<Message>,
    encoded: OnceLock<Bytes>,
}

impl Batch {
    /// Creates a batch of these messages.
    pub fn new(messages: Vec<Message>) -> Self {
        Self {
            messages,
            encoded: OnceLock::new(),
        }
    }

    /// Creates a batch of the `done` message alone.
    pub(super) fn of_final(listed: ListedRun) -> Result<Self, Refusal> {
        let ListedRun {
            mut run,
            has_large_output,
        } = listed;
        let is_large = run.output.as_ref().map_or(0, String::len) > INLINE_BYTES;
        if has_large_output || is_large && !run.zero_data_retention {
            run.output = None;
            return Ok(Self::new(vec![Message::Large(LargeMessage::Done(run.into()))]));
        }
        let run = sortie_api::json::to_line(&run)
            .and_then(RawValue::from_string)
            .map_err(|error| Refusal::internal(format!("a run cannot be serialized: {error}")))?;
        Ok(Self::new(vec![Message::Done(run.into())]))
    }

    /// Returns the messages, in order.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Whether the stream ends after this batch.
    pub fn is_last(&self) -> bool {
        matches!(
            self.messages.last(),
            Some(
                Message::Done(_)
                    | Message::Large(LargeMessage::Done(_))
                    | Message::Passed(Passed {
                        end: PassedEnd::Done,
                        ..
                    })
            )
        )
    }

    /// Returns the large message that is alone in this batch, if there is one.
    pub fn large(&self) -> Option<&LargeMessage> {
        match self.messages.as_slice() {
            [Message::Large(large)] => Some(large),
            _ => None,
        }
    }

    /// Returns the encoded piece that is alone in this batch, if there is one.
    pub fn passed(&self) -> Option<&Passed> {
        match self.messages.as_slice() {
            [Message::Passed(passed)] => Some(passed),
            _ => None,
        }
    }

    /// Whether the batch may take a message of `content` bytes.
    pub(super) fn has_room(&self, content: usize) -> bool {
        self.large().is_none() && self.encoded_bytes() + content + AROUND <= BATCH_BYTES
    }

    /// Adds a message. The batch must not have been encoded.
    pub(super) fn push(&mut self, message: Message) {
        self.messages.push(message);
    }

    /// Returns the encoded messages. `encode` is called once for every follower, so each caller must pass the same
    /// encoder.
    pub fn encoded(&self, encode: impl FnOnce(&[Message]) -> Bytes) -> Bytes {
        self.encoded.get_or_init(|| encode(&self.messages)).clone()
    }

    /// Adds the messages of another batch. This batch must not have been encoded.
    pub(super) fn extend(&mut self, other: &Self) {
        self.messages.extend_from_slice(&other.messages);
    }

    /// Estimated size of the encoded messages, in bytes.
    pub(super) fn encoded_bytes(&self) -> usize {
        let sizes = self.messages.iter().map(Message::content_bytes);
        sizes.map(|content| content + AROUND).sum()
    }

    /// Memory that the batch uses once it is encoded, in bytes. It then holds the content twice.
    pub(crate) fn memory_bytes(&self) -> usize {
        2 * self.encoded_bytes()
    }
}

/// Whether this is the last event of a run: its terminal `status`.
pub(super) fn is_final(event: &ListedEvent) -> bool {
    #[derive(serde::Deserialize)]
    struct Data {
        status: RunStatus,
    }
    event.kind == kind::STATUS
        && event
            .data
            .as_deref()
            .and_then(|data| serde_json::from_str::<Data>(data).ok())
            .is_some_and(|data| data.status.is_final())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_encoded_once_for_all_followers() {
        let batch = Batch::new(vec![Message::Delta(Delta::Text(MessageDelta {
            text: "a".to_owned(),
            step: 1,
        }))]);
        let first = batch.encoded(|_| Bytes::from_static(b"first"));
        let second = batch.encoded(|_| panic!("it is encoded already"));
        assert_eq!(first.as_ptr(), second.as_ptr());
    }
}
