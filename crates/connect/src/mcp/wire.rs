//! The streamable HTTP transport of MCP with our guarded client.
//!
//! Each request gets its credentials separately, redirects are not followed, and bodies and events have size limits. Messages
//! from the server are redacted before the protocol library, its errors and its log lines see them. The long-lived stream for
//! unsolicited messages is never opened, because the client offers nothing that a server could request.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt, unfold};
use reqwest::{
    Method, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use rmcp::{
    model::{
        ClientJsonRpcMessage, ClientRequest, ErrorData, GetExtensions, RequestId, ServerJsonRpcMessage,
        ServerResult,
    },
    transport::{
        common::http_header::{HEADER_LAST_EVENT_ID, HEADER_SESSION_ID},
        streamable_http_client::{
            SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
        },
    },
};
use sortie_net::{read_body, sse};
use sse_stream::Sse;
use url::Url;

use super::{
    events::Events,
    frames::{self, MESSAGE_BYTES, Unreadable},
    lenient::{self, Reading},
    meter::Meter,
};
use crate::{
    Failure,
    outlet::{Outgoing, Outlet},
    text,
};

/// Maximum number of bytes to read from an error's body.
pub(super) const ERROR_BYTES: usize = 64 * 1024;
/// Maximum number of bytes of an error's body in a message.
const ERROR_TOLD_BYTES: usize = 300;
/// Maximum number of broken streams that a session resumes.
const RESUMPTIONS: u32 = 20;
/// Limits for the delay that a server may request before a stream is resumed.
const RETRY: std::ops::RangeInclusive<u64> = 100..=5_000;

/// The HTTP side of one session.
#[derive(Clone)]
pub(super) struct Wire {
    outlet: Arc<Outlet>,
    url: Url,
    resumptions: Arc<AtomicU32>,
}

/// Reason why a request has no usable response.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The URL accepts no message by POST: the server may use the transport of revision 2024-11-05.
    #[error("{0}")]
    NotServed(String),
    /// The server temporarily refuses a request that can be retried.
    #[error("{told}")]
    Busy {
        told: String,
        /// Delay that the server requests.
        after: Option<Duration>,
    },
}

impl WireError {
    pub(super) fn failure(&self) -> Failure {
        match self {
            Self::Failed(failure) => failure.clone(),
            Self::NotServed(told) | Self::Busy { told, .. } => Failure::Error(told.clone()),
        }
    }
}

type Error = StreamableHttpError<WireError>;

fn fails(why: impl Into<String>) -> Error {
    Error::Client(Failure::Error(why.into()).into())
}

/// Sends a request, up to the head of a response. Redirects and requests for authorization are errors.
pub(super) async fn exchange(outlet: &Outlet, request: &Outgoing) -> Result<Response, WireError> {
    let response = outlet.send(request).await.map_err(Failure::from)?;
    match response.status() {
        StatusCode::UNAUTHORIZED => Err(outlet.refused_401().into()),
        StatusCode::FORBIDDEN => match outlet.refused_scope(&response) {
            Some(failure) => Err(failure.into()),
            None => Ok(response),
        },
        status if status.is_redirection() => Err(Failure::Error(format!(
            "the server redirects elsewhere (HTTP {}): give the URL it leads to",
            status.as_u16()
        ))
        .into()),
        _ => Ok(response),
    }
}

/// Reads a response with an error status. Returns a message for users, and the redacted body.
pub(super) async fn error_of(outlet: &Outlet, response: Response, meter: &Meter) -> (String, String) {
    let status = response.status().as_u16();
    let body = read_body(response, ERROR_BYTES).await.unwrap_or_default();
    meter.add(body.len());
    let body = String::from_utf8_lossy(&body);
    let body = outlet.redactor().redact(&body).into_owned();
    let told = match text::line(&body, ERROR_TOLD_BYTES) {
        line if line.is_empty() => format!("HTTP {status}"),
        line => format!("HTTP {status}: {line}"),
    };
    (told, body)
}

pub(super) fn is_event_stream(response: &Response) -> bool {
    header(response, "content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
}

impl Wire {
    pub(super) fn new(outlet: Arc<Outlet>, url: Url) -> Self {
        Self {
            outlet,
            url,
            resumptions: Arc::default(),
        }
    }

    async fn send(
        &self,
        method: Method,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
        body: Option<Bytes>,
    ) -> Result<Response, Error> {
        let mut all: HeaderMap = headers.into_iter().collect();
        all.insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        if body.is_some() {
            all.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(session) = session {
            let session =
                HeaderValue::from_str(session).map_err(|_| fails("the session id cannot be sent"))?;
            all.insert(HeaderName::from_static(SESSION_ID), session);
        }
        let request = Outgoing {
            method,
            url: self.url.clone(),
            headers: all,
            body,
        };
        exchange(&self.outlet, &request).await.map_err(Error::Client)
    }

    async fn post(
        &self,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let meter = meter_of(message);
        let body = serde_json::to_vec(message)?;
        let response = self
            .send(Method::POST, session, headers, Some(body.into()))
            .await?;
        let status = response.status();
        meter.begin(status);
        let is_request = matches!(message, ClientJsonRpcMessage::Request(_));
        if !status.is_success() {
            return self.refused(message, session.is_some(), response, &meter).await;
        }
        if let Some(id) = discovery(message) {
            return self.discovered(id, response, &meter).await;
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT)
            && !(is_request && has_body(&response))
        {
            // The response to a request must be in the body.
            return if is_request {
                Err(fails(format!(
                    "the server has taken the request without an answer (HTTP {status})"
                )))
            } else {
                Ok(StreamableHttpPostResponse::Accepted)
            };
        }
        let new_session = header(&response, SESSION_ID);
        if is_event_stream(&response) {
            let events = self.events(response, meter, id_of(message));
            return Ok(StreamableHttpPostResponse::Sse(events, new_session));
        }
        let body = read_body(response, MESSAGE_BYTES).await.map_err(|error| {
            if matches!(error, sortie_net::Error::TooLarge { .. }) {
                meter.exceed();
            }
            fails(error.to_string())
        })?;
        meter.add(body.len());
        match frames::message(&body, |text| self.outlet.redactor().redact(text)) {
            Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, new_session)),
            // Nothing is pending: some servers send a body in response to a notification.
            Err(_) if !is_request => Ok(StreamableHttpPostResponse::Accepted),
            Err(Unreadable::TooLarge(error)) => {
                meter.exceed();
                Err(fails(format!("the server's answer cannot be read: {error}")))
            }
            Err(Unreadable::NoMessage(_)) => {
                let body = String::from_utf8_lossy(&body);
                Err(fails(frames::no_message(&self.outlet.redactor().redact(&body))))
            }
        }
    }

    /// Interprets a successful response to `server/discover`. If it is not a valid result, with or without a body, the server has
    /// an older revision, and the client falls back to `initialize`.
    async fn discovered(
        &self,
        id: RequestId,
        response: Response,
        meter: &Meter,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let answer = if is_event_stream(&response) {
            self.first_answer(response, meter).await?
        } else {
            let body = read_body(response, MESSAGE_BYTES)
                .await
                .map_err(|error| fails(error.to_string()))?;
            meter.add(body.len());
            frames::message(&body, |text| self.outlet.redactor().redact(text)).ok()
        };
        let answer = match answer {
            Some(ServerJsonRpcMessage::Response(response))
                if matches!(response.result, ServerResult::DiscoverResult(_)) =>
            {
                ServerJsonRpcMessage::Response(response)
            }
            Some(ServerJsonRpcMessage::Error(error)) => ServerJsonRpcMessage::error(error.error, Some(id)),
            Some(_) | None => {
                let error = ErrorData::invalid_request("the answer is not a result of server/discover", None);
                ServerJsonRpcMessage::error(error, Some(id))
            }
        };
        Ok(StreamableHttpPostResponse::Json(answer, None))
    }

    /// Returns the first response among the events of a stream.
    async fn first_answer(
        &self,
        response: Response,
        meter: &Meter,
    ) -> Result<Option<ServerJsonRpcMessage>, Error> {
        let mut events = Events::new(Arc::clone(&self.outlet), response);
        while let Some(event) = events.next(meter).await {
            let event = event.map_err(|broken| fails(broken.to_string()))?;
            let message = lenient::read(&event.data);
            if let Ok(answer @ (ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_))) = message
            {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// Interprets an error status: an expired session, an older server, a JSON-RPC error, or another failure.
    async fn refused(
        &self,
        message: &ClientJsonRpcMessage,
        has_session: bool,
        response: Response,
        meter: &Meter,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let status = response.status();
        if status == StatusCode::NOT_FOUND && has_session {
            return Err(Error::SessionExpired);
        }
        let after = retry_after(&response);
        let (told, body) = error_of(&self.outlet, response, meter).await;
        let error = match lenient::read(&body) {
            Ok(ServerJsonRpcMessage::Error(error)) => Some(error),
            Ok(_) | Err(_) => None,
        };
        if let Some(id) = discovery(message)
            && is_older(status)
        {
            // The server may not have parsed the id. We add it to the response, so that the client falls back to `initialize`.
            let error = error.map_or_else(|| ErrorData::invalid_request(told, None), |error| error.error);
            let answer = ServerJsonRpcMessage::error(error, Some(id));
            return Ok(StreamableHttpPostResponse::Json(answer, None));
        }
        if is_initialize(message) && is_not_served(status, error.is_some()) {
            return Err(Error::Client(WireError::NotServed(told)));
        }
        if is_busy(status) && may_be_repeated(message) {
            return Err(Error::Client(WireError::Busy { told, after }));
        }
        match error {
            // Not every server answers 404 for an unknown session.
            Some(error)
                if has_session && status == StatusCode::BAD_REQUEST && is_about_session(&error.error) =>
            {
                Err(Error::SessionExpired)
            }
            Some(error) if status != StatusCode::FORBIDDEN => Ok(StreamableHttpPostResponse::Json(
                ServerJsonRpcMessage::Error(error),
                None,
            )),
            Some(_) | None => Err(fails(told)),
        }
    }

    /// Returns the redacted events of the response to this request, until the server ends it or has sent too much.
    fn events(
        &self,
        response: Response,
        meter: Arc<Meter>,
        id: Option<RequestId>,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        let events = Events::new(Arc::clone(&self.outlet), response);
        unfold((events, meter, id), |(mut events, meter, id)| async move {
            let next = events.next(&meter).await?.map_err(|broken| {
                if broken.is_size() {
                    meter.exceed();
                }
                meter.break_off(&broken.to_string());
                SseError::Body(Box::new(broken))
            });
            let next = next.map(|mut message| {
                if let Some(readable) = readable(&message.data, id.as_ref()) {
                    message.data = readable;
                }
                sse_of(&message, events.retry_millis())
            });
            Some((next, (events, meter, id)))
        })
        .boxed()
    }
}

/// Returns a replacement for the text of an event: the repaired message, or the failure of the request, because the protocol
/// library would otherwise keep waiting. `None` if the text is valid, and if it is not a response.
fn readable(text: &str, id: Option<&RequestId>) -> Option<String> {
    let message = match lenient::reading(text) {
        Ok(Reading::Plain(_)) => return None,
        Ok(Reading::Mended(message)) => message,
        Err(_) => frames::unreadable(text, lenient::spoiled_answer(text, id.into_iter())?.clone()),
    };
    serde_json::to_string(&message).ok()
}

fn sse_of(message: &sse::Message, retry_millis: Option<u64>) -> Sse {
    Sse {
        event: Some(message.event.clone()),
        data: Some(message.data.clone()),
        id: Some(&message.last_id)
            .filter(|id| !id.is_empty())
            .map(ToString::to_string),
        retry: retry_millis.map(|millis| millis.clamp(*RETRY.start(), *RETRY.end())),
    }
}

impl StreamableHttpClient for Wire {
    type Error = WireError;

    async fn post_message(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        self.post(&message, session.as_deref(), headers).await
    }

    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session: Arc<str>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Error> {
        let response = self.send(Method::DELETE, Some(&session), headers, None).await?;
        if response.status().is_success() {
            Ok(())
        } else {
            Err(Error::ServerDoesNotSupportDeleteSession)
        }
    }

    /// Resumes a broken stream. The stream of unsolicited messages is not opened.
    async fn get_stream(
        &self,
        _uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth: Option<String>,
        mut headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Error> {
        let Some(last) = last_event_id else {
            return Err(Error::ServerDoesNotSupportSse);
        };
        if self.resumptions.fetch_add(1, Ordering::Relaxed) >= RESUMPTIONS {
            return Err(Error::ServerDoesNotSupportSse);
        }
        let last = HeaderValue::from_str(&last).map_err(|_| Error::ServerDoesNotSupportSse)?;
        headers.insert(HeaderName::from_static(LAST_EVENT_ID), last);
        let response = self.send(Method::GET, session.as_deref(), headers, None).await?;
        if response.status() != StatusCode::OK || !is_event_stream(&response) {
            return Err(Error::ServerDoesNotSupportSse);
        }
        Ok(self.events(response, Arc::default(), None))
    }
}

/// The protocol's header names in lower case, as `HeaderName` requires.
const SESSION_ID: &str = "mcp-session-id";
const LAST_EVENT_ID: &str = "last-event-id";
const _: () = assert!(
    HEADER_SESSION_ID.eq_ignore_ascii_case(SESSION_ID)
        && HEADER_LAST_EVENT_ID.eq_ignore_ascii_case(LAST_EVENT_ID)
);

fn header(response: &Response, name: &str) -> Option<String> {
    Some(response.headers().get(name)?.to_str().ok()?.to_owned())
}

pub(super) fn meter_of(message: &ClientJsonRpcMessage) -> Arc<Meter> {
    match message {
        ClientJsonRpcMessage::Request(request) => request
            .request
            .extensions()
            .get::<Arc<Meter>>()
            .map(Arc::clone)
            .unwrap_or_default(),
        ClientJsonRpcMessage::Response(_)
        | ClientJsonRpcMessage::Notification(_)
        | ClientJsonRpcMessage::Error(_) => Arc::default(),
    }
}

/// Returns the request that a message responds to.
pub(super) fn answered(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        ServerJsonRpcMessage::Response(response) => Some(&response.id),
        ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
        ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
    }
}

/// Returns the id of a request.
fn id_of(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
        ClientJsonRpcMessage::Response(_)
        | ClientJsonRpcMessage::Notification(_)
        | ClientJsonRpcMessage::Error(_) => None,
    }
}

/// Whether a request has no effects, so that it can be retried after a refusal: opening a session, listing its tools, and
/// querying a task.
pub(super) fn may_be_repeated(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Request(request) if matches!(
        request.request,
        ClientRequest::DiscoverRequest(_)
            | ClientRequest::InitializeRequest(_)
            | ClientRequest::ListToolsRequest(_)
            | ClientRequest::GetTaskRequest(_)
    ))
}

/// Whether a refusal with this status is temporary.
pub(super) fn is_busy(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 500 | 502..=504)
}

/// Returns the delay that a server requests.
pub(super) fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = header(response, "retry-after")?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Whether a response declares a JSON body.
fn has_body(response: &Response) -> bool {
    header(response, "content-type").is_some_and(|kind| kind.starts_with("application/json"))
        || is_event_stream(response)
}

/// Returns the id of the request that checks if a server supports the newest revision.
fn discovery(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::DiscoverRequest(_)) =>
        {
            Some(request.id.clone())
        }
        ClientJsonRpcMessage::Request(_)
        | ClientJsonRpcMessage::Response(_)
        | ClientJsonRpcMessage::Notification(_)
        | ClientJsonRpcMessage::Error(_) => None,
    }
}

fn is_initialize(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Request(request)
        if matches!(request.request, ClientRequest::InitializeRequest(_)))
}

/// Whether this response to `initialize` may mean that the server accepts messages at another URL. A JSON-RPC error with a 400
/// comes from a server that has parsed the message.
fn is_not_served(status: StatusCode, is_rpc_error: bool) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
        || (status == StatusCode::BAD_REQUEST && !is_rpc_error)
}

/// Whether a server with this response to the discovery may still support an older revision.
fn is_older(status: StatusCode) -> bool {
    let is_final = matches!(status, StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
    (status.is_client_error() && !is_final)
        || matches!(
            status,
            StatusCode::INTERNAL_SERVER_ERROR | StatusCode::NOT_IMPLEMENTED
        )
}

fn is_about_session(error: &ErrorData) -> bool {
    error.message.to_ascii_lowercase().contains("session")
}
