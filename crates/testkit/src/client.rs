//! An HTTP client for tests: one connection per request, unmodified answers, no retries.

use std::{
    fmt,
    future::Future,
    net::SocketAddr,
    panic::Location,
    pin::Pin,
    task::{self, Poll},
};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sortie_api::{ErrorBody, Event, File, Run, RunStatus};
use tokio::{net::TcpStream, task::JoinSet, time::timeout};

use crate::{
    PATIENCE,
    sse::{Item, Message, Parser},
};

/// A client of one node with one credential, or none.
#[derive(Clone, Debug)]
pub struct Client {
    address: SocketAddr,
    key: Option<String>,
    headers: HeaderMap,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as it came.
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Result<Value> {
        self.read()
    }

    /// The body as a wire type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body).with_context(|| format!("unexpected body: {}", self.text()))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// This answer, if it has the status.
    pub fn expect(self, status: u16) -> Result<Self> {
        ensure!(
            self.status == status,
            "expected {status}, got {}: {}",
            self.status,
            self.text()
        );
        Ok(self)
    }

    /// The error body, if the answer is that failure in full: code, its status and content type (`docs/API.md#errors`).
    pub fn refused(&self, code: &str) -> Result<ErrorBody> {
        let status = status_of_code(code)?;
        ensure!(
            self.status == status,
            "expected {status} {code}, got {}: {}",
            self.status,
            self.text()
        );
        ensure!(
            self.json()?.get("code").is_some_and(|is| is == code),
            "expected {code}: {}",
            self.text()
        );
        let content_type = self.header("content-type")?;
        ensure!(
            content_type.starts_with("application/json"),
            "an error of type {content_type}"
        );
        self.read()
    }

    /// A header's text.
    pub fn header(&self, name: &str) -> Result<&str> {
        let value = self
            .headers
            .get(name)
            .with_context(|| format!("no {name} in {:?}", self.headers))?;
        value.to_str().with_context(|| format!("{name} is not text"))
    }
}

/// The statuses that each error code may have.
fn status_of_code(code: &str) -> Result<u16> {
    Ok(match code {
        "invalid_request" => 400,
        "unauthorized" => 401,
        "payment_required" => 402,
        "forbidden" => 403,
        "not_found" => 404,
        "method_not_allowed" => 405,
        "conflict" => 409,
        "gone" => 410,
        "precondition_failed" => 412,
        "payload_too_large" => 413,
        "range_not_satisfiable" => 416,
        "rate_limited" => 429,
        "unavailable" => 503,
        _ => bail!("no test knows the error code {code}"),
    })
}

/// A request and its answer. Nothing is sent before it is awaited.
#[must_use = "nothing is sent before it is awaited"]
pub struct Pending(BoxFuture<'static, Result<Answer>>);

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}

impl Future for Pending {
    type Output = Result<Answer>;

    fn poll(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl Pending {
    /// The answer, if it has the status.
    pub async fn expect(self, status: u16) -> Result<Answer> {
        self.await?.expect(status)
    }

    /// The body as JSON, if the answer has the status.
    pub async fn json(self, status: u16) -> Result<Value> {
        self.read(status).await
    }

    /// The body as a wire type, if the answer has the status.
    pub async fn read<T: DeserializeOwned>(self, status: u16) -> Result<T> {
        self.expect(status).await?.read()
    }

    /// The error body, if the answer is that failure in full.
    pub async fn refused(self, code: &str) -> Result<ErrorBody> {
        self.await?.refused(code)
    }

    /// The answer. Fails the test unless it has the status.
    #[track_caller]
    pub fn must(self, status: u16) -> impl Future<Output = Answer> {
        or_panic(self.expect(status))
    }

    /// The body as JSON. Fails the test unless the answer has the status.
    #[track_caller]
    pub fn must_json(self, status: u16) -> impl Future<Output = Value> {
        or_panic(self.json(status))
    }

    /// The body as a wire type. Fails the test unless the answer has the status.
    #[track_caller]
    pub fn must_read<T: DeserializeOwned>(self, status: u16) -> impl Future<Output = T> {
        or_panic(self.read(status))
    }

    /// The error body. Fails the test unless the answer is that failure in full.
    #[track_caller]
    pub fn must_refuse(self, code: &str) -> impl Future<Output = ErrorBody> {
        or_panic(self.refused(code))
    }
}

/// Waits for a result. Fails the test with an error, and names the line that called the caller.
#[track_caller]
#[expect(clippy::panic, reason = "a test fails by panicking")]
fn or_panic<T>(result: impl Future<Output = Result<T>>) -> impl Future<Output = T> {
    let line = Location::caller();
    async move {
        match result.await {
            Ok(value) => value,
            Err(error) => panic!("{line}: {error:?}"),
        }
    }
}

/// Boundary between the parts of a form.
pub const BOUNDARY: &str = "the-end-of-a-part";

impl Client {
    /// A client of the node at `address`.
    pub fn new(address: SocketAddr, key: Option<String>) -> Self {
        Self {
            address,
            key,
            headers: HeaderMap::new(),
        }
    }

    /// Returns a client of this node with another credential.
    #[must_use]
    pub fn with_key(&self, key: &str) -> Self {
        Self {
            key: Some(key.to_owned()),
            ..self.clone()
        }
    }

    /// Returns a client of this node without a credential.
    #[must_use]
    pub fn anonymous(&self) -> Self {
        Self {
            key: None,
            ..self.clone()
        }
    }

    /// Returns a client of this node that adds a header to each request.
    ///
    /// # Panics
    ///
    /// Panics if the value is not one of a header.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test fails by panicking")]
    pub fn with_header(&self, name: &'static str, value: impl AsRef<[u8]>) -> Self {
        let value = HeaderValue::from_bytes(value.as_ref()).expect("the value of a header");
        let mut client = self.clone();
        client.headers.append(HeaderName::from_static(name), value);
        client
    }

    /// `GET path`.
    pub fn get(&self, path: &str) -> Pending {
        self.send(Method::GET, path, Bytes::new())
    }

    /// `DELETE path`.
    pub fn delete(&self, path: &str) -> Pending {
        self.send(Method::DELETE, path, Bytes::new())
    }

    /// `POST path` with a JSON body.
    pub fn post(&self, path: &str, body: &Value) -> Pending {
        self.send(Method::POST, path, body.to_string().into())
    }

    /// `POST path` without a body.
    pub fn post_empty(&self, path: &str) -> Pending {
        self.send(Method::POST, path, Bytes::new())
    }

    /// `PUT path` with a JSON body.
    pub fn put(&self, path: &str, body: &Value) -> Pending {
        self.send(Method::PUT, path, body.to_string().into())
    }

    /// `PATCH path` with a JSON body.
    pub fn patch(&self, path: &str, body: &Value) -> Pending {
        self.send(Method::PATCH, path, body.to_string().into())
    }

    /// Any request; a body is sent as JSON unless the client's own headers say otherwise.
    pub fn send(&self, method: Method, path: &str, body: Bytes) -> Pending {
        let (client, path) = (self.clone(), path.to_owned());
        Pending(Box::pin(async move { client.answer(method, &path, body).await }))
    }

    async fn answer(&self, method: Method, path: &str, body: Bytes) -> Result<Answer> {
        let (mut connection, response) = self.open(method, path, body).await?;
        let (parts, body) = response.into_parts();
        let body = timeout(PATIENCE, body.collect())
            .await
            .context("the body does not end")??
            .to_bytes();
        connection.abort_all();
        Ok(Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
        })
    }

    /// Uploads a file; an error unless it is saved.
    pub async fn upload(&self, name: &str, content: impl AsRef<[u8]>) -> Result<File> {
        let head = format!("form-data; name=\"file\"; filename=\"{name}\"");
        self.send_form(&[(&head, content.as_ref())]).read(201).await
    }

    /// Sends a form to `/v1/files`: for each part the value of its `Content-Disposition`, optionally followed by
    /// further header lines, and its content.
    pub fn send_form(&self, parts: &[(&str, &[u8])]) -> Pending {
        let mut body = Vec::new();
        for (head, content) in parts {
            body.extend_from_slice(format!("--{BOUNDARY}\r\nContent-Disposition: {head}\r\n\r\n").as_bytes());
            body.extend_from_slice(content);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
        self.with_header("content-type", "multipart/form-data; boundary=the-end-of-a-part")
            .send(Method::POST, "/v1/files", body.into())
    }

    async fn open(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(JoinSet<()>, Response<Incoming>)> {
        let stream = TcpStream::connect(self.address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let mut task = JoinSet::new();
        task.spawn(async move {
            // If the connection breaks, the request or its body fails.
            let _ended = connection.await;
        });
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, self.address.to_string());
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        if !body.is_empty() && !self.headers.contains_key(header::CONTENT_TYPE) {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let response = timeout(PATIENCE, sender.send_request(request.body(Full::new(body))?));
        let response = response.await.with_context(|| format!("no answer to {path}"))??;
        Ok((task, response))
    }

    /// Creates a run. Fails unless it is accepted as new.
    pub async fn create(&self, request: &Value) -> Result<Run> {
        self.post("/v1/runs", request).read(202).await
    }

    /// Creates a run. Returns its id. Fails unless the run is accepted as new.
    pub async fn create_id(&self, request: &Value) -> Result<String> {
        Ok(self.create(request).await?.id.to_string())
    }

    /// Waits until a worker runs it.
    pub async fn until_running(&self, id: &str) -> Result<()> {
        let mut events = self.follow(id, None).await?;
        events.until_status(RunStatus::Running).await.map(drop)
    }

    /// Fetches a run.
    pub async fn run(&self, id: &str) -> Result<Run> {
        self.get(&format!("/v1/runs/{id}")).read(200).await
    }

    /// Cancels a run.
    pub async fn cancel(&self, id: &str) -> Result<Run> {
        self.post_empty(&format!("/v1/runs/{id}/cancel")).read(200).await
    }

    /// The most recent runs that match `query` (without `?`).
    pub async fn list(&self, query: &str) -> Result<Vec<Run>> {
        self.get(&format!("/v1/runs?{query}")).read(200).await
    }

    /// Opens a run's event stream, after event `after` if given.
    pub async fn follow(&self, id: &str, after: Option<i64>) -> Result<EventStream> {
        self.follow_at(&format!("/v1/runs/{id}/events"), after).await
    }

    /// Opens the event stream at this path, after event `after` if given.
    pub async fn follow_at(&self, path: &str, after: Option<i64>) -> Result<EventStream> {
        let mut client = self.clone();
        if let Some(after) = after {
            client.headers.insert("last-event-id", HeaderValue::from(after));
        }
        let (connection, response) = client.open(Method::GET, path, Bytes::new()).await?;
        if response.status() != 200 {
            bail!(
                "{path}: {} {:?}",
                response.status(),
                response.into_body().collect().await?.to_bytes()
            );
        }
        Ok(EventStream {
            _connection: connection,
            headers: response.headers().clone(),
            body: response.into_body(),
            parser: Parser::default(),
            waiting: Vec::new().into_iter(),
            raw: Vec::new(),
            last: after.unwrap_or(0),
            status: None,
        })
    }

    /// Follows a run to its end: its events from the first, and the final run.
    pub async fn finished(&self, id: &str) -> Result<(Vec<Event>, Run)> {
        self.follow(id, None).await?.to_done().await
    }

    /// Creates a run and follows it to its end.
    pub async fn complete(&self, request: &Value) -> Result<(Vec<Event>, Run)> {
        let run = self.create(request).await?;
        self.finished(&run.id.to_string()).await
    }
}

/// An open event stream. Each recorded event is checked on arrival: its id follows the previous one, its frame agrees
/// with its data, and the status transition is allowed.
#[derive(Debug)]
pub struct EventStream {
    _connection: JoinSet<()>,
    /// The answer's headers.
    pub headers: HeaderMap,
    body: Incoming,
    parser: Parser,
    waiting: std::vec::IntoIter<Item>,
    raw: Vec<u8>,
    last: i64,
    status: Option<RunStatus>,
}

/// Next item of a stream.
#[derive(Clone, Debug)]
pub enum Next {
    /// A recorded event.
    Event(Event),
    /// The final run, as JSON; the stream closes after it.
    Done(Value),
    /// The stream was closed without `done`.
    Closed,
}

impl EventStream {
    /// Every byte received so far.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The next line-level item, or `None` at the end of the stream.
    pub async fn item(&mut self) -> Result<Option<Item>> {
        loop {
            if let Some(item) = self.waiting.next() {
                return Ok(Some(item));
            }
            let Some(frame) = timeout(PATIENCE, self.body.frame())
                .await
                .context("the stream is silent")?
            else {
                return Ok(None);
            };
            if let Ok(bytes) = frame.context("the stream broke")?.into_data() {
                self.raw.extend_from_slice(&bytes);
                self.waiting = self.parser.push(&bytes).into_iter();
            }
        }
    }

    /// The next message: a checked event, `done`, or the end.
    pub async fn next(&mut self) -> Result<Next> {
        loop {
            return match self.item().await? {
                None => Ok(Next::Closed),
                Some(Item::Comment(_) | Item::Retry(_)) => continue,
                Some(Item::Message(message)) if message.event == "done" => {
                    ensure!(message.id.is_none(), "done carries an id: {message:?}");
                    Ok(Next::Done(serde_json::from_str(&message.data)?))
                }
                Some(Item::Message(message)) => self.event(&message).map(Next::Event),
            };
        }
    }

    fn event(&mut self, message: &Message) -> Result<Event> {
        let event: Event =
            serde_json::from_str(&message.data).with_context(|| format!("not an event: {message:?}"))?;
        self.last += 1;
        ensure!(
            event.id == self.last,
            "event {} where {} was due",
            event.id,
            self.last
        );
        ensure!(
            message.id.as_deref() == Some(&event.id.to_string()),
            "the frame has another id: {message:?}"
        );
        ensure!(
            message.event == event.kind,
            "the frame has another type: {message:?}"
        );
        if let Some(status) = status_of(&event) {
            let before = self.status.replace(status);
            let allowed = before.is_none_or(|before| before.may_become(status));
            ensure!(allowed, "{before:?} became {status}");
        }
        Ok(event)
    }

    /// Reads up to the event that `wanted` accepts. Fails if the stream ends first.
    pub async fn until(&mut self, wanted: impl Fn(&Event) -> bool) -> Result<Event> {
        loop {
            match self.next().await? {
                Next::Event(event) if wanted(&event) => return Ok(event),
                Next::Event(_) => {}
                Next::Done(run) => bail!("the run ended before the event: {run}"),
                Next::Closed => bail!("the stream closed before the event"),
            }
        }
    }

    /// Reads up to the event with this status of the run.
    pub async fn until_status(&mut self, status: RunStatus) -> Result<Event> {
        self.until(|event| status_of(event) == Some(status)).await
    }

    /// Reads to the end. Returns the remaining events and the final run. Fails if anything follows `done`.
    pub async fn to_done(&mut self) -> Result<(Vec<Event>, Run)> {
        let mut events = Vec::new();
        loop {
            match self.next().await? {
                Next::Event(event) => events.push(event),
                Next::Done(run) => {
                    ensure!(self.item().await?.is_none(), "the stream goes on after done");
                    return Ok((events, serde_json::from_value(run)?));
                }
                Next::Closed => bail!("the stream closed without done, after event {}", self.last),
            }
        }
    }
}

/// The status in a `status` event; `None` for every other event.
pub fn status_of(event: &Event) -> Option<RunStatus> {
    if event.kind != "status" {
        return None;
    }
    data(event).get("status")?.as_str()?.parse().ok()
}

/// An event's data as a JSON value.
pub fn data(event: &Event) -> Value {
    serde_json::from_str(event.data.get()).unwrap_or_default()
}

/// The types of events, in order.
pub fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}
