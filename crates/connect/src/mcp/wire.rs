//! The streamable HTTP transport of MCP over our own guarded client.
//!
//! Credentials are added to each request anew, no redirect is followed, bodies and events are bounded, and what the
//! server sends has the credentials taken out before the protocol's machinery, its errors and its log lines see it. The
//! long-lived stream for messages that nobody asked for is never opened: the client offers nothing to ask for.

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

/// Maximum part of an error's body that is read, in bytes.
pub(super) const ERROR_BYTES: usize = 64 * 1024;
/// Maximum part of an error's body that a message repeats, in bytes.
const ERROR_TOLD_BYTES: usize = 300;
/// Maximum number of broken streams that a session resumes.
const RESUMPTIONS: u32 = 20;
/// The bounds of the pause that a server may ask for before a stream is taken up again.
const RETRY: std::ops::RangeInclusive<u64> = 100..=5_000;

/// The HTTP side of one session.
#[derive(Clone)]
pub(super) struct Wire {
    outlet: Arc<Outlet>,
    url: Url,
    resumptions: Arc<AtomicU32>,
}

/// Reason why a request got no usable answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The URL takes no message by POST: the server may speak the transport of revision 2024-11-05.
    #[error("{0}")]
    NotServed(String),
    /// The server refuses for now a request that may be made again.
    #[error("{told}")]
    Busy {
        told: String,
        /// Pause that it asks for.
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

/// Sends a request, up to the head of an answer that neither asks for an authorization nor is a redirect.
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

/// Reads an answer with an error status: what users are told of it, and its redacted body.
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
            // A request is answered in the body, and by no other way.
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
        let body = read_body(response, MESSAGE_BYTES)
            .await
            .map_err(|error| fails(error.to_string()))?;
        meter.add(body.len());
        match frames::message(&body, |text| self.outlet.redactor().redact(text)) {
            Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, new_session)),
            // Nothing is waited for: some servers say something to a notification.
            Err(_) if !is_request => Ok(StreamableHttpPostResponse::Accepted),
            Err(Unreadable::TooLarge(error)) => {
                Err(fails(format!("the server's answer cannot be read: {error}")))
            }
            Err(Unreadable::NoMessage(_)) => {
                let body = String::from_utf8_lossy(&body);
                Err(fails(frames::no_message(&self.outlet.redactor().redact(&body))))
            }
        }
    }

    /// Interprets an answer to `server/discover` that has a status of success. Whatever is no result of it, with or
    /// without a body, comes from a server of an older revision: the client then falls back to `initialize`.
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
                let error = ErrorData::invalid_request("the answer is no result of server/discover", None);
                ServerJsonRpcMessage::error(error, Some(id))
            }
        };
        Ok(StreamableHttpPostResponse::Json(answer, None))
    }

    /// The first answer among the events of a stream.
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

    /// Interprets an error status: a session that is gone, an older server, a JSON-RPC error, or just a failure.
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
            // The server may not have read the id: the answer gets it, so that the client falls back to `initialize`.
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
            // Not every server answers 404 for a session it does not know.
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

    /// The events of an answer to the request of this id, redacted, until the server ends it or has sent too much.
    fn events(
        &self,
        response: Response,
        meter: Arc<Meter>,
        id: Option<RequestId>,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        let events = Events::new(Arc::clone(&self.outlet), response);
        unfold((events, meter, id), |(mut events, meter, id)| async move {
            let next = events.next(&meter).await?.map_err(|broken| {
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

/// Returns the text to read in place of that of an event: the mended message, or the failure of the request, for whose
/// answer the protocol's machinery would otherwise wait. `None` where the text is fine, and where it answers nothing.
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

    /// Takes up a broken stream. The stream of unasked messages is not opened.
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

/// The names of the protocol's headers in lower case, as `HeaderName` wants them.
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

/// The request that a message answers.
pub(super) fn answered(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        ServerJsonRpcMessage::Response(response) => Some(&response.id),
        ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
        ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
    }
}

/// The id of a request.
fn id_of(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
        ClientJsonRpcMessage::Response(_)
        | ClientJsonRpcMessage::Notification(_)
        | ClientJsonRpcMessage::Error(_) => None,
    }
}

/// Whether a request changes nothing, so that it may be made again after a refusal: those that open a session and list
/// its tools.
pub(super) fn may_be_repeated(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Request(request) if matches!(
        request.request,
        ClientRequest::DiscoverRequest(_) | ClientRequest::InitializeRequest(_) | ClientRequest::ListToolsRequest(_)
    ))
}

/// Whether a refusal with this status may pass.
pub(super) fn is_busy(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 500 | 502..=504)
}

/// The pause that a server asks for, in seconds.
pub(super) fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = header(response, "retry-after")?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Whether an answer says that it has a body of the protocol's.
fn has_body(response: &Response) -> bool {
    header(response, "content-type").is_some_and(|kind| kind.starts_with("application/json"))
        || is_event_stream(response)
}

/// The id of the request that asks a server whether it speaks the newest revision.
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

/// Whether an `initialize` that is answered like this may have met a server that takes messages elsewhere. A JSON-RPC
/// error with a 400 is an answer of a server that has read it.
fn is_not_served(status: StatusCode, is_rpc_error: bool) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
        || (status == StatusCode::BAD_REQUEST && !is_rpc_error)
}

/// Whether a server that answers the discovery like this may still speak an older revision.
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
