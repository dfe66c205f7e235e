//! Answers in pieces. An async function writes the answer into a [`PieceWriter`]. Each full piece is passed to the connection,
//! and the function continues when the client has received it. A slow client occupies the memory of one piece, not of the answer.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{body::Body, response::Response};
use futures_util::{FutureExt as _, Stream, TryStreamExt as _, future::BoxFuture};
use parking_lot::Mutex;
use serde::Serialize;
use sortie_api::Refusal;

use super::{AnswerRoom, ApiResult, BodyBudget, json_response};

/// Minimum size of a full piece, in bytes.
pub(crate) const PIECE_BYTES: usize = 64 * 1024;

/// Memory that is reserved for an answer in several pieces: a piece, and the buffer of the connection, in bytes.
pub(crate) const ANSWER_BYTES: usize = 256 * 1024;

/// Full piece on its way from the function to the connection.
type FullPiece = Arc<Mutex<Option<Vec<u8>>>>;

/// Collects the text of an answer.
pub(crate) struct PieceWriter {
    text: Vec<u8>,
    full: FullPiece,
}

impl PieceWriter {
    pub(crate) fn push(&mut self, text: impl AsRef<[u8]>) {
        self.text.extend_from_slice(text.as_ref());
    }

    pub(crate) fn push_json(&mut self, value: &impl Serialize) -> Result<(), Refusal> {
        serde_json::to_writer(&mut self.text, value).map_err(Refusal::internal)
    }

    /// Whether the text fills a piece. More text makes the piece larger.
    pub(crate) fn is_full(&self) -> bool {
        self.text.len() >= PIECE_BYTES
    }

    /// If the piece is full, sends it and waits until the client has received it. The client may be slow: call this when no other
    /// large value is in memory.
    pub(crate) async fn send_full(&mut self) {
        if self.is_full() {
            *self.full.lock() = Some(std::mem::take(&mut self.text));
            // [`Pieces`] polls again for the next piece.
            let is_taken = |_: &mut Context<'_>| match *self.full.lock() {
                Some(_) => Poll::Pending,
                None => Poll::Ready(()),
            };
            poll_fn(is_taken).await;
        }
    }
}

/// Body of an answer: a stream of pieces.
pub(crate) struct Pieces {
    first: Option<Vec<u8>>,
    /// Writes the pieces after the first. `None` after it has returned the last one.
    write: Option<BoxFuture<'static, Result<PieceWriter, Refusal>>>,
    full: FullPiece,
}

impl Pieces {
    /// An answer of one piece.
    pub(crate) fn one(text: Vec<u8>) -> Self {
        Self {
            first: Some(text),
            write: None,
            full: FullPiece::default(),
        }
    }

    /// Creates an answer that a function writes. The function returns its writer at the end.
    pub(crate) fn written<F>(write: impl FnOnce(PieceWriter) -> F) -> Self
    where
        F: Future<Output = Result<PieceWriter, Refusal>> + Send + 'static,
    {
        let full = FullPiece::default();
        let writer = PieceWriter {
            text: Vec::new(),
            full: Arc::clone(&full),
        };
        Self {
            first: None,
            write: Some(write(writer).boxed()),
            full,
        }
    }

    /// Puts a text before the pieces.
    pub(crate) fn after(self, first: Vec<u8>) -> Self {
        Self {
            first: Some(first),
            ..self
        }
    }

    /// Returns the first piece if it is complete.
    pub(crate) fn take_first(&mut self) -> Vec<u8> {
        self.first.take().unwrap_or_default()
    }

    /// Generates the first piece. An error can still be answered with its status.
    pub(crate) async fn begin(mut self) -> Result<Self, Refusal> {
        self.first = self.try_next().await?;
        Ok(self)
    }

    /// Answers with the pieces. An answer of several pieces waits for a reservation in `bodies`, and becomes a 503 if no memory
    /// becomes free in time. A later error breaks the connection.
    pub(crate) async fn respond(self, bodies: &BodyBudget) -> ApiResult<Response> {
        let begun = self.begin().await?;
        let room = match begun.write {
            Some(_) => bodies.room_of_made(ANSWER_BYTES).await?,
            None => AnswerRoom::default(),
        };
        Ok(begun.response(room))
    }

    /// Sends the pieces as the answer to a request that must not be refused, because its change is done.
    pub(crate) fn respond_done(self, bodies: &BodyBudget) -> Response {
        self.response(bodies.answer_room_now(ANSWER_BYTES).unwrap_or_default())
    }

    fn response(mut self, room: AnswerRoom) -> Response {
        if self.write.is_none() {
            return json_response(self.take_first());
        }
        let pieces = self.inspect_err(|error| tracing::error!(%error, "answer aborted"));
        let mut response = json_response(Body::from_stream(pieces));
        response.extensions_mut().insert(room);
        response
    }
}

impl Stream for Pieces {
    type Item = Result<Vec<u8>, Refusal>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        let Some(write) = &mut self.write else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(written) = write.poll_unpin(cx) {
            self.write = None;
            return Poll::Ready(Some(written.map(|writer| writer.text)));
        }
        match self.full.lock().take() {
            Some(piece) => Poll::Ready(Some(Ok(piece))),
            None => Poll::Pending,
        }
    }
}
