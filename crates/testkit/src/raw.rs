//! Answers of a provider byte by byte, including malformed ones that some real servers send.

use std::{io, time::Duration};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, StatusCode};

use crate::turn::Turn;

/// Placeholder in a raw answer for the signature of a thinking block: [`ScriptedAnthropic`](crate::ScriptedAnthropic)
/// replaces it with the one that fits the conversation.
pub const SIGNATURE: &str = "{signature}";

/// Piece of the body of a raw answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes, sent as a separate chunk.
    Bytes(Bytes),
    /// A pause before the next piece.
    Pause(Duration),
    /// The connection breaks. Pieces after it are not sent.
    Disconnect,
}

/// Answer of which every byte is given.
#[derive(Clone, Debug)]
pub struct RawAnswer {
    /// The status.
    pub status: StatusCode,
    /// The headers. The body has no declared length.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<Piece>,
}

impl RawAnswer {
    pub(crate) fn sign(&mut self, signature: &str) {
        for piece in &mut self.body {
            if let Piece::Bytes(bytes) = piece
                && let Ok(text) = std::str::from_utf8(bytes)
                && text.contains(SIGNATURE)
            {
                *bytes = text.replace(SIGNATURE, signature).into();
            }
        }
    }

    pub(crate) fn response(&self) -> Response {
        let pieces = stream::iter(self.body.clone()).filter_map(|piece| async move {
            // A client sees one chunk after the other.
            tokio::task::yield_now().await;
            match piece {
                Piece::Bytes(bytes) => Some(Ok(bytes)),
                Piece::Pause(time) => {
                    tokio::time::sleep(time).await;
                    None
                }
                Piece::Disconnect => Some(Err(io::Error::from(io::ErrorKind::ConnectionReset))),
            }
        });
        (self.status, self.headers.clone(), Body::from_stream(pieces)).into_response()
    }
}

impl Turn {
    /// An answer of these bytes.
    pub fn raw(answer: RawAnswer) -> Self {
        Self {
            raw: Some(answer),
            ..Self::says([] as [&str; 0])
        }
    }
}
