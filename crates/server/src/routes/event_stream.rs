//! The body of an event stream: ready events are sent in one chunk, a heartbeat is sent in each interval, and the stream ends at
//! once when the node stops or the credential of the stream has ended.
//!
//! A large message is sent in pieces. The stream buffers one of them, and sends nothing else between them.
//!
//! The opening and the heartbeat are lines without a blank line after them: a blank line ends a message, and some
//! clients then report an empty one. The opening lines therefore belong to the first message, heartbeats to the next.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, StreamExt as _, stream::BoxStream};
use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use hyper::body::Frame as Chunk;
use sortie_api::{OrgId, Refusal};
use sortie_engine::{Batch, LargeMessage, PassedEnd};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::event_encoder::{encode, encode_large};
use crate::{
    kit::{LargeTexts, Pieces, Watched},
    metrics::OpenStream,
};

const OPENING: Bytes = Bytes::from_static(b": connected\nretry: 2000\n");
const HEARTBEAT: Bytes = Bytes::from_static(b": heartbeat\n");

const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Size up to which batches are joined into a chunk.
const CHUNK_BYTES: usize = 64 * 1024;

/// Whether a header with media types, such as `Accept`, names this one.
pub(crate) fn names(headers: &HeaderMap, header: HeaderName, kind: &str) -> bool {
    headers
        .get_all(header)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|range| range.split(';').next())
        .any(|range| range.trim().eq_ignore_ascii_case(kind))
}

/// Makes the answer with a stream of server-sent events.
pub(crate) fn event_stream(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// Reasons for the end of a stream, other than the end of the run.
#[derive(Default)]
pub(super) struct Ends {
    /// Cancelled when the node stops.
    pub(super) stop: CancellationToken,
    /// Credential that opened the stream; none where another node watches over it.
    pub(super) credential: Option<Watched>,
}

/// Messages of a run or of a feed, and the texts of the large ones.
pub(super) struct Messages {
    pub(super) batches: BoxStream<'static, Result<Arc<Batch>, Refusal>>,
    pub(super) texts: LargeTexts,
    /// Organization of the runs.
    pub(super) org: OrgId,
}

/// A response body.
pub(super) struct EventStream {
    messages: Messages,
    /// Rest of a large message.
    large: Option<Pieces>,
    /// Whether a message that another node sends has begun, and not ended.
    is_within: bool,
    heartbeat: Interval,
    credential: Option<Watched>,
    /// Completes when the node stops or the credential has ended.
    over: Pin<Box<WaitForCancellationFutureOwned>>,
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
    /// The stream of these messages, with a heartbeat in each `interval` without any.
    pub(super) fn new(messages: Messages, ends: Ends, interval: Duration, open: OpenStream) -> Self {
        let Ends { stop, credential } = ends;
        let mut heartbeat = tokio::time::interval_at(Instant::now() + interval, interval);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            messages,
            large: None,
            is_within: false,
            heartbeat,
            over: Box::pin(match &credential {
                Some(credential) => credential.over(),
                None => stop.cancelled_owned(),
            }),
            credential,
            state: State::Opening,
            _open: open,
        }
    }

    /// Makes the answer that has this body.
    pub(super) fn respond(self) -> Response {
        event_stream(Body::new(self))
    }

    /// Everything that is ready now, as one chunk; empty when nothing is.
    fn ready(&mut self, cx: &mut Context<'_>) -> Result<Bytes, Refusal> {
        let mut first = Bytes::new();
        if self.state == State::Opening {
            self.state = State::Open;
            first = OPENING;
        }
        let mut more = BytesMut::new();
        while self.state == State::Open && self.large.is_none() && first.len().max(more.len()) < CHUNK_BYTES {
            let bytes = match self.messages.batches.poll_next_unpin(cx) {
                Poll::Pending => break,
                Poll::Ready(None) => {
                    self.state = State::Ended;
                    break;
                }
                Poll::Ready(Some(Err(error))) => return Err(error),
                Poll::Ready(Some(Ok(batch))) => {
                    if batch.is_last() {
                        self.state = State::Ended;
                    }
                    match (batch.large(), batch.passed()) {
                        (Some(large), _) => self.begin(large)?,
                        (None, Some(passed)) => {
                            self.is_within = passed.end == PassedEnd::Within;
                            passed.bytes.clone()
                        }
                        (None, None) => batch.encoded(encode),
                    }
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

    /// Begins a large message. Returns the text before its first piece.
    fn begin(&mut self, large: &LargeMessage) -> Result<Bytes, Refusal> {
        let entry = encode_large(&self.messages.texts, self.messages.org, large)?;
        let mut pieces = entry.pieces();
        let first = pieces.take_first();
        self.large = Some(pieces);
        Ok(first.into())
    }

    fn end(&mut self) {
        self.state = State::Ended;
        self.large = None;
    }

    /// Breaks the stream off, so that the client comes back for the rest.
    fn broken(&mut self, error: Refusal) -> Poll<Option<Result<Chunk<Bytes>, Refusal>>> {
        tracing::error!(%error, "event stream aborted");
        self.end();
        Poll::Ready(Some(Err(error)))
    }
}

impl HttpBody for EventStream {
    type Data = Bytes;
    type Error = Refusal;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Chunk<Bytes>, Refusal>>> {
        let this = &mut *self;
        if this.is_end_stream() {
            return Poll::Ready(None);
        }
        // Check this before the events, so that a slow reader gets no more of them either.
        if this.credential.as_ref().is_some_and(Watched::is_revoked) {
            this.end();
            return Poll::Ready(None);
        }
        if let Some(large) = &mut this.large {
            match large.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok(piece))) => return Poll::Ready(Some(Ok(Chunk::data(piece.into())))),
                Poll::Ready(Some(Err(error))) => return this.broken(error),
                Poll::Ready(None) => this.large = None,
                Poll::Pending if this.over.poll_unpin(cx).is_ready() => {
                    this.end();
                    return Poll::Ready(None);
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        let chunk = match this.ready(cx) {
            Ok(chunk) => chunk,
            Err(error) => return this.broken(error),
        };
        if !chunk.is_empty() {
            return Poll::Ready(Some(Ok(Chunk::data(chunk))));
        }
        if this.state == State::Ended || this.over.poll_unpin(cx).is_ready() {
            this.end();
            return Poll::Ready(None);
        }
        if this.is_within {
            return Poll::Pending;
        }
        this.heartbeat
            .poll_tick(cx)
            .map(|_| Some(Ok(Chunk::data(HEARTBEAT))))
    }

    fn is_end_stream(&self) -> bool {
        self.state == State::Ended && self.large.is_none()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body_util::BodyExt as _;
    use serde_json::value::RawValue;
    use serde_json::{Value, json};
    use sortie_api::{RunId, Timestamp};
    use sortie_engine::{LargeEvent, Message, Passed};
    use sortie_store::runs::{EventRow, LargeText};

    use super::*;
    use crate::{kit::BodyBudget, metrics::HttpMetrics};

    fn event(seq: i64, data: &str) -> Arc<Batch> {
        let event = EventRow {
            seq,
            kind: "message".to_owned(),
            data: data.to_owned(),
            created_at: Timestamp::from_micros(1_700_000_000_000_000),
        };
        Arc::new(Batch::new(vec![Message::Event(event)]))
    }

    fn text_of(batch: &Batch) -> String {
        String::from_utf8(batch.encoded(encode).to_vec()).unwrap()
    }

    fn body(
        batches: impl futures_util::Stream<Item = Result<Arc<Batch>, Refusal>> + Send + 'static,
    ) -> EventStream {
        body_of(batches.boxed(), Ends::default())
    }

    const HEARTBEAT_PERIOD: Duration = Duration::from_secs(15);

    /// Large texts are this long.
    const LARGE: usize = 300_000;

    fn body_of(batches: BoxStream<'static, Result<Arc<Batch>, Refusal>>, ends: Ends) -> EventStream {
        let texts = LargeTexts::of(BodyBudget::default(), |_, text| async move {
            let LargeText::Event(_, seq) = text else {
                return Err(Refusal::internal(format!("{text:?}")));
            };
            if seq == 9 {
                return Err(Refusal::not_found());
            }
            Ok(json!({"seq": seq, "text": "x".repeat(LARGE)}).to_string())
        });
        let messages = Messages {
            batches,
            texts,
            org: OrgId::new(Timestamp::from_micros(1), [1; 10]),
        };
        EventStream::new(messages, ends, HEARTBEAT_PERIOD, HttpMetrics::default().stream())
    }

    fn large(seq: i64) -> Arc<Batch> {
        let event = LargeEvent {
            run: RunId::new(Timestamp::from_micros(1), [2; 10]),
            seq,
            kind: "message".to_owned(),
            created_at: Timestamp::from_micros(1_700_000_000_000_000),
        };
        Arc::new(Batch::new(vec![Message::Large(LargeMessage::Event(event))]))
    }

    #[tokio::test]
    async fn a_large_message_goes_out_in_pieces_between_the_others() {
        let batches = [event(1, "{}"), large(2), event(3, "{}"), large(4)];
        let mut body = body(stream::iter(batches.map(Ok)));
        let mut all = String::new();
        while let Some(text) = chunk(&mut body).await {
            assert!(text.len() <= 2 * CHUNK_BYTES, "{}", text.len());
            all.push_str(&text);
        }
        let messages: Vec<&str> = all.trim_end().split("\n\n").collect();
        assert_eq!(messages.len(), 4);
        for (at, message) in messages.iter().enumerate() {
            let seq = at + 1;
            let (_, message) = message.split_once("id: ").unwrap();
            let (head, data) = message.split_once("\ndata: ").unwrap();
            assert_eq!(head, format!("{seq}\nevent: message"));
            let event: Value = serde_json::from_str(data).unwrap();
            let data = if seq % 2 == 0 {
                json!({"seq": seq, "text": "x".repeat(LARGE)})
            } else {
                json!({})
            };
            let expected =
                json!({"id": seq, "type": "message", "data": data, "created_at": "2023-11-14T22:13:20.000Z"});
            assert_eq!(event, expected);
        }
    }

    #[tokio::test]
    async fn a_large_message_that_cannot_be_read_breaks_the_stream_off() {
        let batches = [large(9), event(10, "{}")];
        let mut body = body(stream::iter(batches.map(Ok)));
        assert!(chunk(&mut body).await.unwrap().contains("id: 9\n"));
        assert!(body.frame().await.unwrap().is_err());
        assert!(body.frame().await.is_none());
    }

    async fn chunk(body: &mut EventStream) -> Option<String> {
        let frame = body.frame().await?.unwrap();
        Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
    }

    #[tokio::test]
    async fn what_is_ready_goes_out_in_one_chunk_behind_the_opening() {
        let run = RawValue::from_string("{}".to_owned()).unwrap();
        let done = Arc::new(Batch::new(vec![Message::Done(run.into())]));
        let batches = [event(1, "{}"), event(2, "{}"), done];
        let sent: String = batches.iter().map(|batch| text_of(batch)).collect();
        let mut body = body(stream::iter(batches.map(Ok)));
        let expected = format!(": connected\nretry: 2000\n{sent}");
        assert_eq!(chunk(&mut body).await, Some(expected));
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

    #[tokio::test(start_paused = true)]
    async fn no_heartbeat_comes_within_a_message_of_another_node() {
        let passed = |text: &'static str, end| {
            let bytes = Bytes::from_static(text.as_bytes());
            Arc::new(Batch::new(vec![Message::Passed(Passed { bytes, end })]))
        };
        let pieces = [
            passed("id: 1\nevent: message\ndata: {\"te", PassedEnd::Within),
            passed("xt\":1}\n\n", PassedEnd::Between),
            passed("event: done\ndata: {}\n\n", PassedEnd::Done),
            passed("late", PassedEnd::Between),
        ];
        // Each piece arrives after more than the interval between two heartbeats.
        let batches = stream::iter(pieces).then(async |piece| {
            tokio::time::sleep(HEARTBEAT_PERIOD + Duration::from_secs(1)).await;
            Ok(piece)
        });
        let sent = body(Box::pin(batches)).collect().await.unwrap().to_bytes();
        // One heartbeat was due during the message, and follows it.
        assert_eq!(
            String::from_utf8(sent.to_vec()).unwrap(),
            ": connected\nretry: 2000\n: heartbeat\nid: 1\nevent: message\ndata: {\"text\":1}\n\n\
             : heartbeat\n: heartbeat\nevent: done\ndata: {}\n\n"
        );
    }

    #[tokio::test]
    async fn a_large_backlog_is_cut_into_chunks() {
        let large = event(1, &"x".repeat(40 * 1024));
        let size = text_of(&large).len();
        let batches = (0..10).map(move |_| Ok(Arc::clone(&large)));
        let mut body = body(stream::iter(batches));
        let mut sizes = Vec::new();
        while let Some(text) = chunk(&mut body).await {
            sizes.push(text.len());
        }
        assert!(sizes.iter().all(|sent| *sent <= CHUNK_BYTES + size), "{sizes:?}");
        assert_eq!(sizes.iter().sum::<usize>(), OPENING.len() + 10 * size);
    }

    #[tokio::test]
    async fn the_stop_of_the_node_ends_a_stream_at_once() {
        let stop = CancellationToken::new();
        let ends = Ends {
            stop: stop.clone(),
            credential: None,
        };
        let mut body = body_of(stream::pending().boxed(), ends);
        assert!(chunk(&mut body).await.is_some());
        stop.cancel();
        assert_eq!(chunk(&mut body).await, None);
    }

    #[tokio::test]
    async fn a_failure_breaks_the_stream_off_instead_of_ending_it() {
        let batches = stream::iter([Ok(event(1, "{}")), Err(Refusal::internal("disk"))]);
        let mut body = body(batches);
        assert!(body.frame().await.unwrap().is_err());
        assert!(body.frame().await.is_none());
    }
}
