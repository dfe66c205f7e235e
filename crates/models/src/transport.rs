//! A streamed call to a provider: the request, its failure with the provider's message, and the events of its answer.
//!
//! Every provider client uses this module. Retries, size limits and the removal of the key from messages are therefore decided
//! in one place.

mod events;
mod fields;
mod refusals;
mod too_long;
mod wait;
mod wordings;

use std::{borrow::Cow, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header::CONTENT_TYPE};
use reqwest::{Method, Response};
use serde::Serialize;
use serde_json::Value;
use sortie_agent::{
    model::{ErrorKind, ModelError, Retry, Usage},
    surrogates::paired,
};
use sortie_api::Credential;
use sortie_net::{DecodedBody, EngineClient, read_body, send_patiently};
use url::Url;

pub(crate) use self::{events::Events, refusals::is_filtered};
use self::{
    events::{NoEvents, start_of},
    fields::RefusedFields,
    too_long::is_too_long,
};
use crate::{estimate, json, openai, provider::Provider};

/// Maximum number of characters of a provider's message that we report.
const TOLD_CHARS: usize = 500;
/// Codes of a 429 that is not a rate limit: the account has no funds, so retries cannot help.
const UNPAID: [&str; 2] = ["insufficient_quota", "exceeded_current_quota_error"];

/// Largest list of models that is read.
const LIST_BYTES: usize = 4 << 20;

/// Returns the names of models in a list: `data[].id`, or `models[].name` of Gemini.
fn listed_models(body: &[u8]) -> Vec<String> {
    let list: Value = serde_json::from_slice(body).unwrap_or_default();
    let models = list.get("data").or_else(|| list.get("models"));
    let name = |model: &Value| {
        let name = model.get("id").or_else(|| model.get("name"))?.as_str()?;
        Some(name.strip_prefix("models/").unwrap_or(name).to_owned())
    };
    let models = models.and_then(Value::as_array).into_iter().flatten();
    models.filter_map(name).collect()
}

/// Address, headers and connections of a provider.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    client: EngineClient,
    url: Url,
    /// Includes the content type.
    headers: HeaderMap,
    /// Removed from messages of the provider.
    key: Option<Credential>,
    end_wait: Duration,
    /// Fields that the server has rejected as unknown.
    refused: Arc<RefusedFields>,
}

impl Transport {
    /// Creates a transport to `url`. `headers` carry the provider's key.
    pub(crate) fn new(provider: &Provider, url: Url, mut headers: HeaderMap) -> Self {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self {
            client: provider.http.clone(),
            url,
            headers,
            key: provider.key.clone(),
            end_wait: provider.end_wait,
            refused: Arc::default(),
        }
    }

    /// See [`Provider::end_wait`].
    pub(crate) const fn end_wait(&self) -> Duration {
        self.end_wait
    }

    /// Sends a request and returns its events once the provider has accepted it. A later failure carries the estimated cost of
    /// the request, and so does one that leaves open if the provider accepted it.
    ///
    /// If the server rejects the request for an unknown field, we send it again without that field.
    pub(crate) async fn stream(&self, body: &(impl Serialize + Sync)) -> Result<Events<'_>, ModelError> {
        let whole = serde_json::to_string(body)
            .map_err(|error| ModelError::fatal(format!("the request is not JSON: {error}")))?;
        // Schemas and opaque pieces of the provider are sent unchanged.
        let paired = match paired(&whole) {
            Cow::Borrowed(_) => None,
            Cow::Owned(paired) => Some(paired),
        };
        let whole = Bytes::from(paired.unwrap_or(whole));
        loop {
            let body = self.refused.fitted(&whole);
            let sent_bytes = body.len();
            let response = self.send(body.clone()).await?;
            let (error, said) = if response.status().is_success() {
                match Events::of(self, response, sent_bytes).await {
                    Ok(events) => return Ok(events),
                    Err(NoEvents::Broken(error)) => return Err(charged(error, sent_bytes)),
                    Err(NoEvents::Refused(error, said)) => (error, said),
                }
            } else {
                self.refusal(response).await
            };
            let is_of_form = matches!(error.kind, ErrorKind::Request | ErrorKind::Server);
            if !is_of_form || !self.refused.learn(&body, &said) {
                return Err(error);
            }
        }
    }

    async fn send(&self, body: Bytes) -> Result<Response, ModelError> {
        let request = self
            .client
            .request(Method::POST, &self.url)
            .map_err(|error| ModelError::fatal(error.to_string()))?;
        let sent_bytes = body.len();
        let sent = send_patiently(request.headers(self.headers.clone()).body(body)).await;
        sent.map_err(|error| {
            let is_before = error.is_builder() || error.is_connect();
            let error = self.broken(&error.into());
            if is_before {
                error
            } else {
                charged(error, sent_bytes)
            }
        })
    }

    /// Requests the list of models, which has no effect and is free, to check that the provider responds and accepts the key.
    /// Returns the names in the first page of the list; none if the provider answers something else.
    pub(crate) async fn list(&self) -> Result<Vec<String>, ModelError> {
        let request = self
            .client
            .request(Method::GET, &self.url)
            .map_err(|error| ModelError::fatal(error.to_string()))?;
        let response = request
            .headers(self.headers.clone())
            .send()
            .await
            .map_err(|error| self.broken(&error.into()))?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await.0);
        }
        let body = read_body(response, LIST_BYTES).await.unwrap_or_default();
        Ok(listed_models(&body))
    }

    /// Returns a message for users, without the key.
    pub(crate) fn clean(&self, text: &str) -> String {
        let text = match &self.key {
            Some(key) if !key.expose().is_empty() => text.replace(key.expose(), "[redacted]"),
            Some(_) | None => text.to_owned(),
        };
        text.chars().take(TOLD_CHARS).collect()
    }

    /// The connection failed or broke. A retry is possible, unless the request could not be built.
    fn broken(&self, error: &sortie_net::Error) -> ModelError {
        let http = if let sortie_net::Error::Http(error) = error {
            Some(error)
        } else {
            None
        };
        let is_ours = http.is_some_and(reqwest::Error::is_builder);
        let kind = if http.is_some_and(reqwest::Error::is_timeout) {
            ErrorKind::Timeout
        } else {
            ErrorKind::Connection
        };
        let message = self.clean(&format!("the model's provider: {error}"));
        if is_ours {
            ModelError::fatal(message)
        } else {
            ModelError {
                kind,
                ..ModelError::retryable(message, None)
            }
        }
    }

    /// Returns a refusal, and the provider's message.
    async fn refusal(&self, response: Response) -> (ModelError, String) {
        let status = response.status();
        let headers = response.headers().clone();
        let body = start_of(DecodedBody::new(response)).await;
        self.refusal_of(status, &headers, &body)
    }

    fn refusal_of(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> (ModelError, String) {
        let told = ErrorBody::of(body);
        let said = told.with_details().into_owned();
        let after = wait::asked(headers, &told.waits, &told.message);
        let failure = self.failure(status, &said, after);
        let retry = match told.code.as_deref() {
            Some(code) if UNPAID.contains(&code) => Retry::Never,
            Some(_) | None => failure.retry,
        };
        (ModelError { retry, ..failure }, said)
    }

    /// Classifies a failure with this status and this message. Failures inside of a stream count too.
    pub(crate) fn failure(&self, status: StatusCode, said: &str, after: Option<Duration>) -> ModelError {
        // A server error can also mean that the request is too long.
        let retry = if is_too_long(status, said) {
            Retry::Smaller
        } else if is_passing(status) || status == StatusCode::PAYLOAD_TOO_LARGE || refusals::is_passing(said)
        {
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
            // Here 413 is a rate limit, because it is not about the size of the request.
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

fn charged(error: ModelError, sent_bytes: usize) -> ModelError {
    ModelError {
        usage: estimate::with_input(Usage::default(), sent_bytes),
        ..error
    }
}

/// Groq's status for a service tier without capacity.
const GROQ_BUSY: u16 = 498;

/// Statuses of temporary conditions: time-outs, conflicts, rate limits, overload, server errors.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 409 | 425 | 429 | GROQ_BUSY)
}

/// Whether a refusal is about a thinking block: its conversation has changed, or its signature is invalid or missing. A retry
/// without the thinking succeeds.
fn is_bound_elsewhere(said: &str) -> bool {
    [
        "bound to a different conversation",
        "Invalid `signature` in `thinking` block",
        "thinking.signature: Field required",
    ]
    .iter()
    .any(|words| said.contains(words))
}

/// Error message of a provider.
#[derive(Debug, Default, PartialEq, Eq)]
struct ErrorBody {
    /// `error.message`, `error`, `message` or `detail` of a JSON body, else the body.
    message: String,
    /// `error.code` or `error.type`.
    code: Option<String>,
    /// `error.param`: the field that the provider refuses.
    param: Option<String>,
    /// Fields that may contain a retry delay.
    waits: Vec<wait::Field>,
    /// Whether a JSON body is an error and not an answer.
    is_error: bool,
    /// Status of the error in the body.
    status: Option<StatusCode>,
}

impl ErrorBody {
    /// Returns the message, followed by the code and the field unless it contains them.
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
        let Ok(json) = serde_json::from_str::<Value>(&paired(&json::readable(&text))) else {
            return Self {
                message: text.trim().to_owned(),
                ..Self::default()
            };
        };
        // Gemini wraps a failure of a stream into an array.
        let json = json.get(0).unwrap_or(&json);
        let find = |paths: &[&str]| paths.iter().find_map(|path| json.pointer(path)?.as_str());
        let code = find(&["/error/code", "/error/type", "/code"]);
        let is_error = match json.get("error") {
            Some(Value::String(error)) => !error.is_empty(),
            Some(Value::Object(error)) => !error.is_empty(),
            Some(_) | None => ["type", "object"]
                .iter()
                .any(|name| json.get(name).is_some_and(|kind| kind == "error")),
        };
        let statuses = [
            "/error/code",
            "/error/status",
            "/error/status_code",
            "/code",
            "/status",
        ];
        let status = statuses.iter().find_map(|path| {
            let number = json
                .pointer(path)?
                .as_u64()
                .filter(|code| (400..600).contains(code))?;
            StatusCode::from_u16(u16::try_from(number).ok()?).ok()
        });
        let named = || openai::status_of(code?).or_else(|| openai::status_of(find(&["/error/type"])?));
        let told = || {
            let status: StatusCode = code?.parse().ok()?;
            (status.is_client_error() || status.is_server_error()).then_some(status)
        };
        let mut message = find(&["/error/message", "/error", "/message", "/detail", "/msg"])
            .unwrap_or(&text)
            .trim()
            .to_owned();
        // The message of the upstream provider, which `OpenRouter` forwards.
        if let Some(raw) = find(&["/error/metadata/raw"]) {
            message = format!("{message}: {}", Self::of(raw.as_bytes()).message);
        }
        Self {
            message,
            code: code.map(str::to_owned),
            param: find(&["/error/param"]).map(str::to_owned),
            waits: wait::fields(json),
            is_error,
            status: status.or_else(told).or_else(named),
        }
    }
}

#[cfg(test)]
mod tests;
