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

use crate::metrics::OpenStream;

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
    _open: OpenStream,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Opening,
    Open,
    Ended,
}

impl EventStream {
    pub(super) fn new(
        frames: BoxStream<'static, Result<Frame, Error>>,
        stop: CancellationToken,
        open: OpenStream,
    ) -> Self {
        let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT_PERIOD, HEARTBEAT_PERIOD);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            frames,
            heartbeat,
            stop: Box::pin(stop.cancelled_owned()),
            state: State::Opening,
            _open: open,
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
        if this.state == State::Ended {
            return Poll::Ready(None);
        }
        let chunk = match this.ready(cx) {
            Ok(chunk) => chunk,
            Err(error) => {
                // The connection is broken off, so that the client comes back for the rest.
                tracing::error!(%error, "event stream aborted");
                this.state = State::Ended;
                return Poll::Ready(Some(Err(error)));
            }
        };
        if !chunk.is_empty() {
            return Poll::Ready(Some(Ok(Chunk::data(chunk))));
        }
        if this.state == State::Ended || this.stop.poll_unpin(cx).is_ready() {
            this.state = State::Ended;
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

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::metrics::HttpMetrics;

    fn frame(text: &'static str) -> Frame {
        Frame::Events(Bytes::from_static(text.as_bytes()))
    }

    fn body(frames: impl futures_util::Stream<Item = Result<Frame, Error>> + Send + 'static) -> EventStream {
        EventStream::new(
            frames.boxed(),
            CancellationToken::new(),
            HttpMetrics::default().stream(),
        )
    }

    async fn chunk(body: &mut EventStream) -> Option<String> {
        let frame = body.frame().await?.unwrap();
        Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
    }

    #[tokio::test]
    async fn what_is_ready_goes_out_in_one_chunk_behind_the_opening() {
        let done = Frame::Done(Bytes::from_static(b"event: done\ndata: {}\n\n"));
        let frames = stream::iter([frame("id: 1\ndata: a\n\n"), frame("id: 2\ndata: b\n\n"), done].map(Ok));
        let mut body = body(frames);
        let expected =
            ": connected\nretry: 2000\nid: 1\ndata: a\n\nid: 2\ndata: b\n\nevent: done\ndata: {}\n\n";
        assert_eq!(chunk(&mut body).await.as_deref(), Some(expected));
        assert!(body.is_end_stream());
        assert_eq!(chunk(&mut body).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stream_opens_at_once_and_beats_every_15_seconds_without_a_blank_line() {
        let mut body = body(stream::pending());
        let begun = Instant::now();
        assert_eq!(
            chunk(&mut body).await.as_deref(),
            Some(": connected\nretry: 2000\n")
        );
        assert_eq!(begun.elapsed(), Duration::ZERO);
        for beat in 1..=3 {
            assert_eq!(chunk(&mut body).await.as_deref(), Some(": heartbeat\n"));
            assert_eq!(begun.elapsed().as_secs(), 15 * beat);
        }
    }

    #[tokio::test]
    async fn a_large_backlog_is_cut_into_chunks() {
        let large = Bytes::from(vec![b'x'; 40 * 1024]);
        let frames = (0..10).map(move |_| Ok(Frame::Events(large.clone())));
        let mut body = body(stream::iter(frames));
        let mut sizes = Vec::new();
        while let Some(text) = chunk(&mut body).await {
            sizes.push(text.len());
        }
        assert!(
            sizes.iter().all(|size| *size <= CHUNK_BYTES + 40 * 1024),
            "{sizes:?}"
        );
        assert_eq!(sizes.iter().sum::<usize>(), OPENING.len() + 10 * 40 * 1024);
    }

    #[tokio::test]
    async fn the_stop_of_the_node_ends_a_stream_at_once() {
        let stop = CancellationToken::new();
        let mut body = EventStream::new(
            stream::pending().boxed(),
            stop.clone(),
            HttpMetrics::default().stream(),
        );
        assert!(chunk(&mut body).await.is_some());
        stop.cancel();
        assert_eq!(chunk(&mut body).await, None);
    }

    #[tokio::test]
    async fn a_failure_breaks_the_stream_off_instead_of_ending_it() {
        let frames = stream::iter([Ok(frame("data: a\n\n")), Err(Error::Internal("disk".into()))]);
        let mut body = body(frames);
        assert!(body.frame().await.unwrap().is_err());
        assert!(body.frame().await.is_none());
    }
}
