//! A streamed call to a provider: the request, its failure in the provider's words, the events of its answer.
//!
//! Every provider client goes through here, so that what may be tried again, how much is taken, and that the key is in
//! no message, is decided in one place.

mod too_long;
mod wait;

use std::{borrow::Cow, collections::VecDeque, time::Duration};

use http::{HeaderMap, HeaderValue, StatusCode, header::CONTENT_TYPE};
use reqwest::{Method, Response};
use serde::Serialize;
use serde_json::Value;
use sortie_agent::{
    model::{ErrorKind, ModelError, Retry, Usage},
    surrogates::paired,
};
use sortie_api::Credential;
use sortie_net::{EngineClient, send_patiently, sse};
use url::Url;

use self::too_long::is_too_long;
use crate::{estimate, provider::Provider};

/// Most bytes of an event of a stream.
const EVENT_BYTES: usize = 16 << 20;
/// A whole answer, in bytes.
const ANSWER_BYTES: usize = 64 << 20;
/// The body of a failure, in bytes; what is over is not read.
const FAILURE_BYTES: usize = 64 << 10;
/// Most characters of a failure that are told.
const TOLD_CHARS: usize = 500;
/// Codes of a 429 that is no rate limit: the account is empty, and stays so.
const UNPAID: [&str; 2] = ["insufficient_quota", "exceeded_current_quota_error"];

/// Address, headers and connections of a provider.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    client: EngineClient,
    url: Url,
    /// With the type of the body.
    headers: HeaderMap,
    /// Taken out of what the provider says.
    key: Option<Credential>,
    end_wait: Duration,
}

impl Transport {
    /// Calls `url` with `headers`, which carry the provider's key in its own way.
    pub(crate) fn new(provider: &Provider, url: Url, mut headers: HeaderMap) -> Self {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self {
            client: provider.http.clone(),
            url,
            headers,
            key: provider.key.clone(),
            end_wait: provider.end_wait,
        }
    }

    /// See [`Provider::end_wait`].
    pub(crate) const fn end_wait(&self) -> Duration {
        self.end_wait
    }

    /// Sends a request and returns its events once the provider has accepted it. A failure after that, or where nobody
    /// knows whether it was before, carries the estimated cost of the request.
    pub(crate) async fn stream(&self, body: &(impl Serialize + Sync)) -> Result<Events<'_>, ModelError> {
        let request = self
            .client
            .request(Method::POST, &self.url)
            .map_err(|error| ModelError::fatal(error.to_string()))?;
        let body = serde_json::to_string(body)
            .map_err(|error| ModelError::fatal(format!("the request is not JSON: {error}")))?;
        // Schemas and pieces of the provider's own go out as they came.
        let whole = match paired(&body) {
            Cow::Borrowed(_) => None,
            Cow::Owned(whole) => Some(whole),
        };
        let body = whole.unwrap_or(body);
        let sent_bytes = body.len();
        let charged = |error: ModelError| ModelError {
            usage: estimate::with_input(Usage::default(), sent_bytes),
            ..error
        };
        let sent = send_patiently(request.headers(self.headers.clone()).body(body)).await;
        let response = sent.map_err(|error| {
            let is_before = error.is_builder() || error.is_connect();
            let error = self.broken(error);
            if is_before { error } else { charged(error) }
        })?;
        let is_accepted = response.status().is_success();
        // A success that is a page or one JSON value is no stream: a wrong address, or a failure in disguise. It may be
        // an answer in one piece as well, which costs what any other does.
        if !is_accepted || is_whole(response.headers()) {
            let error = self.refused(response).await;
            return Err(if is_accepted { charged(error) } else { error });
        }
        Ok(Events {
            transport: self,
            sent_bytes,
            response,
            parser: sse::Parser::new(EVENT_BYTES),
            ready: VecDeque::new(),
            parsed: Ok(()),
            bytes: 0,
        })
    }

    /// Asks for what is there, which has no effect and costs nothing: whether the provider answers and takes the key. What
    /// it answers is not read.
    pub(crate) async fn list(&self) -> Result<(), ModelError> {
        let request = self
            .client
            .request(Method::GET, &self.url)
            .map_err(|error| ModelError::fatal(error.to_string()))?;
        let response = request
            .headers(self.headers.clone())
            .send()
            .await
            .map_err(|error| self.broken(error))?;
        if response.status().is_success() {
            return Ok(());
        }
        Err(self.refused(response).await)
    }

    /// A message for people, without the key.
    pub(crate) fn clean(&self, text: &str) -> String {
        let text = match &self.key {
            Some(key) if !key.expose().is_empty() => text.replace(key.expose(), "[redacted]"),
            Some(_) | None => text.to_owned(),
        };
        text.chars().take(TOLD_CHARS).collect()
    }

    /// The connection failed or broke: it may be tried again, unless the request could not even be written.
    fn broken(&self, error: reqwest::Error) -> ModelError {
        let is_ours = error.is_builder();
        let kind = if error.is_timeout() {
            ErrorKind::Timeout
        } else {
            ErrorKind::Connection
        };
        let message = self.clean(&format!(
            "the model's provider: {}",
            sortie_net::Error::from(error)
        ));
        if is_ours {
            ModelError::fatal(message)
        } else {
            ModelError {
                kind,
                ..ModelError::retryable(message, None)
            }
        }
    }

    async fn refused(&self, response: Response) -> ModelError {
        let status = response.status();
        let headers = response.headers().clone();
        let body = read_start(response).await;
        let said = ErrorBody::of(&body);
        let after = wait::asked(&headers, &said.waits, &said.message);
        let failure = self.failure(status, &said.with_details(), after);
        match said.code.as_deref() {
            Some(code) if UNPAID.contains(&code) => ModelError {
                retry: Retry::Never,
                ..failure
            },
            Some(_) | None => failure,
        }
    }

    /// Meaning of a failure with this status and this message, also of one that comes inside of a stream.
    pub(crate) fn failure(&self, status: StatusCode, said: &str, after: Option<Duration>) -> ModelError {
        // A server error can be one of length.
        let retry = if is_too_long(status, said) {
            Retry::Smaller
        } else if is_passing(status) || status == StatusCode::PAYLOAD_TOO_LARGE {
            Retry::Soon {
                after: after.or_else(|| wait::in_words(said)),
            }
        } else if is_bound_elsewhere(said) {
            Retry::WithoutThinking
        } else {
            Retry::Never
        };
        let message = format!("the model's provider answered {}: {said}", status.as_u16());
        let kind = match (status.as_u16(), retry) {
            (_, Retry::Smaller) => ErrorKind::TooLarge,
            // 413 is one where it is not about the size of the request.
            (413 | 429 | GROQ_BUSY, _) => ErrorKind::RateLimit,
            (401 | 403, _) => ErrorKind::Credential,
            (408, _) => ErrorKind::Timeout,
            (500.., _) => ErrorKind::Server,
            _ => ErrorKind::Request,
        };
        ModelError {
            kind,
            retry,
            ..ModelError::fatal(self.clean(&message))
        }
    }
}

/// The events of one answer.
pub(crate) struct Events<'a> {
    transport: &'a Transport,
    sent_bytes: usize,
    response: Response,
    parser: sse::Parser,
    ready: VecDeque<sse::Message>,
    /// Fails behind the events that are ready.
    parsed: Result<(), sse::TooLarge>,
    bytes: usize,
}

impl Events<'_> {
    /// Size of the request in bytes.
    pub(crate) fn sent_bytes(&self) -> usize {
        self.sent_bytes
    }

    /// The next event; `None` when the provider has closed the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<sse::Message>, ModelError> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            self.parsed
                .map_err(|error| ModelError::fatal(format!("the model's answer: {error}")))?;
            let chunk = self.response.chunk().await;
            let chunk = chunk.map_err(|error| self.transport.broken(error))?;
            let Some(chunk) = chunk else {
                return Ok(None);
            };
            self.bytes += chunk.len();
            if self.bytes > ANSWER_BYTES {
                return Err(ModelError::fatal(format!(
                    "the model's answer is larger than {ANSWER_BYTES} bytes"
                )));
            }
            self.parsed = self.parser.push(&chunk, &mut self.ready);
        }
    }
}

/// Groq's own status of a service tier without capacity.
const GROQ_BUSY: u16 = 498;

/// Statuses of a state that passes: time-outs, conflicts, rate limits, overload, a broken server.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 409 | 425 | 429 | GROQ_BUSY)
}

/// Whether a refusal is about a thinking block: its conversation has changed, or its signature is not one. Both pass once
/// the thinking is left out.
fn is_bound_elsewhere(said: &str) -> bool {
    said.contains("bound to a different conversation")
        || said.contains("Invalid `signature` in `thinking` block")
}

/// Whether a body is announced as something that is read as a whole, and never as a stream.
fn is_whole(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| {
        let kind = kind.trim_start().to_ascii_lowercase();
        kind.starts_with("application/json") || kind.starts_with("text/html")
    })
}

/// The beginning of a body; what cannot be read is left out.
async fn read_start(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = FAILURE_BYTES - body.len();
        body.extend(chunk.iter().take(room));
        if chunk.len() >= room {
            break;
        }
    }
    body
}

/// Words of a provider about a failure.
#[derive(Debug, Default, PartialEq, Eq)]
struct ErrorBody {
    /// `error.message`, `error`, `message` or `detail` of a JSON body, else the body.
    message: String,
    /// `error.code` or `error.type`.
    code: Option<String>,
    /// `error.param`: the field that the provider refuses.
    param: Option<String>,
    /// Fields that may tell of a wait.
    waits: Vec<wait::Field>,
}

impl ErrorBody {
    /// The message, with the code and the field where they are not in it: some say more.
    fn with_details(&self) -> Cow<'_, str> {
        let mut said = Cow::Borrowed(self.message.as_str());
        for detail in [&self.code, &self.param].into_iter().flatten() {
            if !said.contains(detail.as_str()) {
                said = Cow::Owned(format!("{said} ({detail})"));
            }
        }
        said
    }

    fn of(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let Ok(json) = serde_json::from_slice::<Value>(body) else {
            return Self {
                message: text.trim().to_owned(),
                ..Self::default()
            };
        };
        // Gemini wraps a failure of a stream into an array.
        let json = json.get(0).unwrap_or(&json);
        let find = |paths: &[&str]| paths.iter().find_map(|path| json.pointer(path)?.as_str());
        Self {
            message: find(&["/error/message", "/error", "/message", "/detail"])
                .unwrap_or(&text)
                .trim()
                .to_owned(),
            code: find(&["/error/code", "/error/type"]).map(str::to_owned),
            param: find(&["/error/param"]).map(str::to_owned),
            waits: wait::fields(json),
        }
    }
}

#[cfg(test)]
mod tests;
