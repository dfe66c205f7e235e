//! The events of an answer: from a stream or one JSON document, compressed or not.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header::CONTENT_TYPE};
use reqwest::Response;
use sortie_agent::model::ModelError;
use sortie_net::{DecodedBody, sse, unknown_coding};

use super::{ErrorBody, Transport};

/// Maximum size of an event of a stream, in bytes.
const EVENT_BYTES: usize = 16 << 20;
/// Maximum size of a whole answer, in bytes.
const ANSWER_BYTES: usize = 64 << 20;
/// Maximum size of the body of a failure, in bytes. The rest is not read.
const FAILURE_BYTES: usize = 64 << 10;
/// Number of bytes from the start of a stream that we keep, to describe an unexpected response.
const HEAD_BYTES: usize = 300;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Reason why an accepted request has no events.
pub(super) enum NoEvents {
    /// The response has a success status but contains an error, with its message.
    Refused(ModelError, String),
    Broken(ModelError),
}

impl From<ModelError> for NoEvents {
    fn from(error: ModelError) -> Self {
        Self::Broken(error)
    }
}

/// The events of one answer.
pub(crate) struct Events<'a> {
    transport: &'a Transport,
    sent_bytes: usize,
    body: DecodedBody,
    bytes: usize,
    parser: sse::Parser,
    ready: VecDeque<sse::Message>,
    /// An error is reported after the events that are ready.
    parsed: Result<(), sse::TooLarge>,
    head: Vec<u8>,
    /// Whether the answer is one JSON document, which has been read completely.
    is_whole: bool,
    has_ended: bool,
}

impl<'a> Events<'a> {
    /// Reads the response of an accepted request. Some servers send one JSON document although we asked for a stream; it counts
    /// as one event. An HTML page or an error with a success status is not an answer.
    pub(super) async fn of(
        transport: &'a Transport,
        response: Response,
        sent_bytes: usize,
    ) -> Result<Self, NoEvents> {
        let (status, headers) = (response.status(), response.headers().clone());
        if let Some(coding) = unknown_coding(&headers) {
            let error = sortie_net::Error::Coding(coding);
            return Err(ModelError::fatal(format!("the model's provider: {error}")).into());
        }
        let mut events = Self {
            transport,
            sent_bytes,
            body: DecodedBody::new(response),
            bytes: 0,
            parser: sse::Parser::new(EVENT_BYTES),
            ready: VecDeque::new(),
            parsed: Ok(()),
            head: Vec::new(),
            is_whole: false,
            has_ended: false,
        };
        // Blank lines before the first event are keep-alives.
        let first = loop {
            match events.chunk().await? {
                Some(chunk) if chunk.trim_ascii().is_empty() => {}
                Some(chunk) => break chunk,
                None => return Ok(events),
            }
        };
        let text = first.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&first);
        let begins_with = |bytes: &[u8]| {
            text.trim_ascii_start()
                .first()
                .is_some_and(|first| bytes.contains(first))
        };
        if is_page(&headers) && begins_with(b"<") {
            let page = [&first[..], &start_of(events.body).await].concat();
            return Err(transport.refusal_of(status, &headers, &page).0.into());
        }
        if begins_with(b"{[") {
            let mut whole = first.to_vec();
            while let Some(chunk) = events.chunk().await? {
                whole.extend_from_slice(&chunk);
            }
            events.take_whole(status, &headers, &whole)?;
        } else {
            events.parsed = events.parser.push(&first, &mut events.ready);
        }
        Ok(events)
    }

    /// Handles an answer that is one JSON document.
    fn take_whole(&mut self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Result<(), NoEvents> {
        let told = ErrorBody::of(body);
        if told.is_error {
            let status = told.status.unwrap_or(status);
            let (error, said) = self.transport.refusal_of(status, headers, body);
            return Err(NoEvents::Refused(error, said));
        }
        self.is_whole = true;
        let text = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
        self.ready.push_back(sse::Message {
            event: "message".to_owned(),
            data: String::from_utf8_lossy(text).into_owned(),
            last_id: Arc::from(""),
        });
        Ok(())
    }

    /// Whether the answer came as one JSON document.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns the size of the request in bytes.
    pub(crate) fn sent_bytes(&self) -> usize {
        self.sent_bytes
    }

    /// Returns the failure of a provider that closed the stream before the answer was complete. If the model has written nothing,
    /// the message quotes the start of the response.
    pub(crate) fn cut_off(&self, has_answer: bool) -> ModelError {
        let head = String::from_utf8_lossy(&self.head);
        let head = head.trim();
        if has_answer || head.is_empty() {
            return ModelError::retryable("the model's provider ended the stream before its answer", None);
        }
        if self.is_whole {
            return self.transport.failure(StatusCode::OK, head, None);
        }
        let message = format!("the model's provider ended the stream before its answer; it sent: {head}");
        ModelError::retryable(self.transport.clean(&message), None)
    }

    /// Returns the next event. `None` after the provider has closed the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<sse::Message>, ModelError> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            self.parsed
                .map_err(|error| ModelError::fatal(format!("the model's answer: {error}")))?;
            let chunk = match self.chunk().await? {
                Some(chunk) => chunk,
                None if self.has_ended => return Ok(None),
                // A few servers omit the empty line after their last event.
                None => {
                    self.has_ended = true;
                    Bytes::from_static(b"\n\n")
                }
            };
            self.parsed = self.parser.push(&chunk, &mut self.ready);
        }
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, ModelError> {
        let chunk = self.body.chunk().await;
        let chunk = chunk.map_err(|error| self.transport.broken(&error))?;
        let taken = chunk.as_deref().unwrap_or_default();
        self.bytes += taken.len();
        if self.bytes > ANSWER_BYTES {
            return Err(ModelError::fatal(format!(
                "the model's answer is larger than {ANSWER_BYTES} bytes"
            )));
        }
        let room = HEAD_BYTES.saturating_sub(self.head.len());
        self.head.extend(taken.iter().take(room));
        Ok(chunk)
    }
}

/// Returns the start of a body. Read errors are ignored.
pub(super) async fn start_of(mut body: DecodedBody) -> Vec<u8> {
    let mut start = Vec::new();
    while start.len() < FAILURE_BYTES
        && let Ok(Some(chunk)) = body.chunk().await
    {
        start.extend_from_slice(&chunk);
    }
    start.truncate(FAILURE_BYTES);
    start
}

/// Whether the content type is HTML, which means a wrong address or the response of a proxy. PHP uses it for everything.
fn is_page(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/html"))
}
