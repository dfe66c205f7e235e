//! The UI message stream of a run: the messages of its event stream, encoded as chunks.
//!
//! Each chunk of a recorded event has an ID: the number of the event and that of the chunk among the chunks of the event. The last
//! chunks of the run continue the count of the last event. A stream that continues makes all chunks from the last model call
//! before its position on, and sends those after its position. Live messages have no ID.

use std::{fmt, fmt::Write as _, str::FromStr, sync::Arc};

use bytes::Bytes;
use futures_util::{
    StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};
use sortie_api::{OrgId, Refusal, Run, RunId};
use sortie_engine::{Batch, LargeEvent, LargeMessage, Message, Passed, PassedEnd};
use sortie_store::runs::LargeText;

use super::chunks::{Chunk, RunMessage};
use crate::kit::{LargeTexts, OpenText, PIECE_BYTES, Pieces, TextForm, integer};

/// Batches of messages that belong to one stream.
pub(super) type Batches = BoxStream<'static, Result<Arc<Batch>, Refusal>>;

/// ID of a chunk: its event, and its number among the chunks of the event, from 1. The default is before every chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) event: i64,
    chunk: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.event, self.chunk)
    }
}

impl FromStr for Position {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let position = text.split_once('.').and_then(|(event, chunk)| {
            let event = integer(event).filter(|event| *event >= 0)?;
            let chunk = integer(chunk).and_then(|chunk| u32::try_from(chunk).ok())?;
            Some(Self { event, chunk })
        });
        position.ok_or("must be the id of a chunk, such as 3.1")
    }
}

/// Chunks that are being written.
#[derive(Clone, Copy, Debug)]
struct Encoder {
    /// The stream continues after this chunk.
    after: Position,
    /// The last chunk that was made.
    last: Position,
}

impl Encoder {
    /// Writes the chunks of a recorded event.
    fn event(&mut self, out: &mut String, seq: i64, chunks: &[Chunk]) -> Result<(), Refusal> {
        self.last = Position { event: seq, chunk: 0 };
        self.more(out, chunks)
    }

    /// Counts the chunks of a recorded event without writing them.
    fn skip(&mut self, seq: i64, chunks: &[Chunk]) {
        self.last = Position {
            event: seq,
            chunk: u32::try_from(chunks.len()).unwrap_or(u32::MAX),
        };
    }

    /// Writes more chunks after the last one, except for those that the client has.
    fn more(&mut self, out: &mut String, chunks: &[Chunk]) -> Result<(), Refusal> {
        for chunk in chunks {
            self.last.chunk += 1;
            if self.last > self.after {
                let json = sortie_api::json::to_line(chunk).map_err(Refusal::internal)?;
                // Writing to a `String` cannot fail.
                let _infallible = write!(out, "id: {}\ndata: {json}\n\n", self.last);
            }
        }
        Ok(())
    }

    /// Writes the last chunks of a run.
    fn done(&mut self, out: &mut String, run: Run) -> Result<(), Refusal> {
        self.more(out, &RunMessage::finish(run)?)?;
        out.push_str("data: [DONE]\n\n");
        Ok(())
    }
}

/// Stream that is being encoded.
pub(super) struct UiMessageStream {
    batches: Batches,
    message: RunMessage,
    encoder: Encoder,
    texts: LargeTexts,
    org: OrgId,
    /// Rest of a large event.
    large: Option<Pieces>,
}

impl UiMessageStream {
    /// Encodes the chunks after a position. `batches` begin with the first event, or with the last model call before the event of
    /// that position.
    pub(super) fn new(batches: Batches, run: (OrgId, RunId), after: Position, texts: LargeTexts) -> Self {
        let (org, run) = run;
        let encoder = Encoder {
            after,
            last: Position::default(),
        };
        Self {
            batches,
            message: RunMessage::new(run),
            encoder,
            texts,
            org,
            large: None,
        }
    }

    /// Returns the encoded pieces. Fails if the data of an event cannot be read.
    pub(super) fn pieces(self) -> Batches {
        let next = async |mut stream: Self| {
            let piece = stream.next().await?;
            Ok(piece.map(|piece| (Arc::new(Batch::new(vec![Message::Passed(piece)])), stream)))
        };
        stream::try_unfold(self, next).boxed()
    }

    async fn next(&mut self) -> Result<Option<Passed>, Refusal> {
        loop {
            if let Some(pieces) = &mut self.large {
                let piece = pieces.try_next().await?;
                let mut end = PassedEnd::Within;
                if piece.is_none() {
                    self.large = None;
                    end = PassedEnd::Between;
                }
                let bytes = Bytes::from(piece.unwrap_or_default());
                return Ok(Some(Passed { bytes, end }));
            }
            let Some(batch) = self.batches.try_next().await? else {
                return Ok(None);
            };
            if let Some(passed) = batch.passed() {
                return Ok(Some(passed.clone()));
            }
            if let Some(LargeMessage::Event(event)) = batch.large() {
                self.begin(event).await?;
                continue;
            }
            let mut out = String::new();
            for message in batch.messages() {
                self.encode(&mut out, message)?;
            }
            if !out.is_empty() {
                let is_last = batch.is_last();
                return Ok(Some(Passed {
                    bytes: out.into(),
                    end: if is_last {
                        PassedEnd::Done
                    } else {
                        PassedEnd::Between
                    },
                }));
            }
        }
    }

    fn encode(&mut self, out: &mut String, message: &Message) -> Result<(), Refusal> {
        match message {
            Message::Event(event) => {
                let chunks = self.message.take(event.seq, &event.kind, &event.data)?;
                self.encoder.event(out, event.seq, &chunks)
            }
            Message::Delta(delta) => {
                let json = sortie_api::json::to_line(&Chunk::live(delta)?).map_err(Refusal::internal)?;
                // Writing to a `String` cannot fail.
                let _infallible = write!(out, "data: {json}\n\n");
                Ok(())
            }
            Message::Done(run) => {
                let run = serde_json::from_str(run.get()).map_err(Refusal::internal)?;
                self.encoder.done(out, run)
            }
            Message::Large(LargeMessage::Done(run)) => self.encoder.done(out, Run::clone(run)),
            // These are alone in their batch, or of another stream.
            Message::Large(LargeMessage::Event(_)) | Message::Passed(_) | Message::Change(_) => Ok(()),
        }
    }

    /// Begins the chunks of a large event.
    async fn begin(&mut self, event: &LargeEvent) -> Result<(), Refusal> {
        let large = LargeChunks {
            text: self
                .texts
                .open(self.org, LargeText::Event(event.run, event.seq), TextForm::Json),
            seq: event.seq,
            kind: event.kind.clone(),
            message: self.message.clone(),
            encoder: self.encoder,
        };
        let chunks = {
            let data = large.text.read().await?;
            self.message.take(event.seq, &event.kind, &data)?
        };
        self.encoder.skip(event.seq, &chunks);
        if self.encoder.last > self.encoder.after {
            self.large = Some(large.pieces());
        }
        Ok(())
    }
}

/// Chunks of a large event.
struct LargeChunks {
    text: OpenText,
    seq: i64,
    kind: String,
    /// The message before the event.
    message: RunMessage,
    encoder: Encoder,
}

impl LargeChunks {
    /// Returns the encoded chunks in pieces. They are made again for each piece, so that they are not in memory while a piece waits
    /// for the client.
    fn pieces(self) -> Pieces {
        Pieces::written(|mut out| async move {
            let mut sent = 0_usize;
            loop {
                let chunks = self.encoded().await?;
                let end = sent.saturating_add(PIECE_BYTES).min(chunks.len());
                out.push(chunks.get(sent..end).unwrap_or_default());
                if end == chunks.len() {
                    return Ok(out);
                }
                sent = end;
                drop(chunks);
                out.send_full().await;
            }
        })
    }

    async fn encoded(&self) -> Result<Vec<u8>, Refusal> {
        let mut out = String::new();
        let chunks = {
            let data = self.text.read().await?;
            self.message.clone().take(self.seq, &self.kind, &data)?
        };
        let mut encoder = self.encoder;
        encoder.event(&mut out, self.seq, &chunks)?;
        Ok(out.into_bytes())
    }
}

#[cfg(test)]
mod tests;
