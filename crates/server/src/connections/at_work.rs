//! Active requests of a connection, from their header until the last byte of their answer is handed to the kernel.
//!
//! The HTTP library drops the body of an answer as soon as it has read the last piece, which may be long before that piece is
//! sent. The connection therefore keeps all resources of an answer until the library flushes the stream, which happens after all
//! buffered output is written.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::registry::AtRequest;
use crate::kit::AnswerRoom;

/// Resources of an answer until it is sent.
#[derive(Debug)]
struct Holds {
    _request: AtRequest,
    room: AnswerRoom,
}

/// Requests of one connection.
#[derive(Debug, Default)]
pub(super) struct Requests {
    answers: Mutex<Answers>,
    flushed: Notify,
    lingers: AtomicBool,
}

#[derive(Debug, Default)]
struct Answers {
    /// Number of requests with an answer that the library has not read completely.
    at_work: usize,
    /// Resources of an answer that the library has read completely but has not flushed. The next request waits for the flush.
    unsent: Option<Holds>,
}

impl Requests {
    /// Begins a request. The connection stays busy until the answer is sent.
    pub(super) fn begin(self: &Arc<Self>, request: AtRequest) -> AtWork {
        self.answers().at_work += 1;
        AtWork {
            requests: Arc::clone(self),
            holds: Some(Holds {
                _request: request,
                room: AnswerRoom::default(),
            }),
        }
    }

    /// Records that all buffered output is sent.
    pub(super) fn flushed(&self) {
        let sent = self.answers().unsent.take();
        if sent.is_some() {
            // Dropping the resources may take other locks.
            drop(sent);
            self.flushed.notify_waiters();
        }
    }

    /// Waits until the previous answers are sent. A client that sends requests without reading could otherwise fill the memory
    /// with answers without a body: the library buffers any number of them.
    pub(super) async fn until_sent(&self) {
        loop {
            let flushed = self.flushed.notified();
            if self.answers().unsent.is_none() {
                return;
            }
            flushed.await;
        }
    }

    /// Returns true if no request is active and no answer is unsent.
    pub(super) fn is_idle(&self) -> bool {
        let answers = self.answers();
        answers.at_work == 0 && answers.unsent.is_none()
    }

    /// Records that the connection is closed while its client is still sending.
    pub(super) fn linger(&self) {
        self.lingers.store(true, Ordering::Relaxed);
    }

    pub(super) fn lingers(&self) -> bool {
        self.lingers.load(Ordering::Relaxed)
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock()
    }
}

/// Active request, with the resources that it keeps until its answer is sent.
pub(super) struct AtWork {
    requests: Arc<Requests>,
    /// `None` after the drop.
    holds: Option<Holds>,
}

impl AtWork {
    /// Keeps the memory reservation of the answer.
    pub(super) fn hold(&mut self, room: AnswerRoom) {
        if let Some(holds) = &mut self.holds {
            holds.room = room;
        }
    }

    /// Wraps the body of the answer. The request is active until the library drops the body.
    pub(super) fn answer(self, body: Body) -> Body {
        Body::new(Answer { body, _at_work: self })
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let mut answers = self.requests.answers();
        answers.at_work -= 1;
        answers.unsent = self.holds.take();
    }
}

/// Body of an answer.
struct Answer {
    body: Body,
    _at_work: AtWork,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
