//! The body of an event stream: what is ready goes out in one chunk, a heartbeat every 15 seconds, and an end at once
//! when the node stops.
//!
//! The opening and the heartbeat are lines without a blank line behind them: a blank line ends a message, and some
//! clients then report an empty one. The opening lines so belong to the first message, heartbeats to the next.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::HttpBody;
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, StreamExt as _, stream::BoxStream};
use hyper::body::Frame as Chunk;
use sortie_engine::{Error, Frame};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

const OPENING: Bytes = Bytes::from_static(b": connected\nretry: 2000\n");
const HEARTBEAT: Bytes = Bytes::from_static(b": heartbeat\n");
const HEARTBEAT_PERIOD: Duration = Duration::from_secs(15);

/// Frames are gathered into one chunk up to this size; a larger frame goes out alone.
const CHUNK_BYTES: usize = 64 * 1024;

/// A response body.
pub(super) struct EventStream {
    frames: BoxStream<'static, Result<Frame, Error>>,
    heartbeat: Interval,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Opening,
    Open,
    Ended,
}

impl EventStream {
    pub(super) fn new(frames: BoxStream<'static, Result<Frame, Error>>, stop: CancellationToken) -> Self {
        let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT_PERIOD, HEARTBEAT_PERIOD);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            frames,
            heartbeat,
            stop: Box::pin(stop.cancelled_owned()),
            state: State::Opening,
        }
    }

    /// Everything that is ready now, as one chunk; empty when nothing is.
    fn ready(&mut self, cx: &mut Context<'_>) -> Result<Bytes, Error> {
        let mut first = Bytes::new();
        if self.state == State::Opening {
            self.state = State::Open;
            first = OPENING;
        }
        let mut more = BytesMut::new();
        while self.state == State::Open && first.len().max(more.len()) < CHUNK_BYTES {
            let bytes = match self.frames.poll_next_unpin(cx) {
                Poll::Pending => break,
                Poll::Ready(None) => {
                    self.state = State::Ended;
                    break;
                }
                Poll::Ready(Some(Err(error))) => return Err(error),
                Poll::Ready(Some(Ok(Frame::Events(bytes)))) => bytes,
                Poll::Ready(Some(Ok(Frame::Done(bytes)))) => {
                    self.state = State::Ended;
                    bytes
                }
            };
            if first.is_empty() {
                first = bytes;
            } else {
                if more.is_empty() {
                    more.extend_from_slice(&first);
                }
                more.extend_from_slice(&bytes);
            }
        }
        Ok(if more.is_empty() { first } else { more.freeze() })
    }
}

impl HttpBody for EventStream {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Chunk<Bytes>, Error>>> {
        let this = &mut *self;
        if this.state == State::Ended || this.stop.poll_unpin(cx).is_ready() {
            this.state = State::Ended;
            return Poll::Ready(None);
        }
        let chunk = match this.ready(cx) {
            Ok(chunk) => chunk,
            Err(error) => {
                // The connection is broken off, so that the client comes back for the rest.
                tracing::error!(%error, "an event stream broke off");
                this.state = State::Ended;
                return Poll::Ready(Some(Err(error)));
            }
        };
        if !chunk.is_empty() {
            return Poll::Ready(Some(Ok(Chunk::data(chunk))));
        }
        if this.state == State::Ended {
            return Poll::Ready(None);
        }
        this.heartbeat
            .poll_tick(cx)
            .map(|_| Some(Ok(Chunk::data(HEARTBEAT))))
    }

    fn is_end_stream(&self) -> bool {
        self.state == State::Ended
    }
}
