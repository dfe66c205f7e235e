//! Requests to authorization servers: guarded, with limits, without redirects, and with secrets removed from errors.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use reqwest::{
    Method, RequestBuilder, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use serde_json::{Map, Value};
use sortie_net::{Network, Reach, Timeouts, read_body};
use url::Url;

use super::Error;
use crate::text;

/// Maximum size of a response, in bytes.
const ANSWER_BYTES: usize = 64 * 1024;
/// Maximum length of a server's message in an error, in bytes.
const TOLD_BYTES: usize = 200;
/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(15);

/// A JSON object in a response, with its status.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) object: Map<String, Value>,
}

impl Answer {
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.object
            .get(name)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    }

    pub(super) fn texts(&self, name: &str) -> Vec<&str> {
        match self.object.get(name) {
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.object.get(name) == Some(&Value::Bool(true))
    }

    /// Returns the URL in a field, if it may be requested.
    pub(super) fn url(&self, name: &str, wire: &Wire) -> Result<Url, Error> {
        let text = self
            .text(name)
            .ok_or_else(|| Error::Refused(format!("the authorization server names no {name}")))?;
        let url = text
            .parse()
            .map_err(|_| Error::Refused(format!("the authorization server's {name} is not a URL")))?;
        wire.check(name, &url)?;
        Ok(url)
    }

    /// Returns the OAuth error in the response, as a sentence.
    pub(super) fn error(&self) -> Option<String> {
        let code = text::line(self.text("error")?, TOLD_BYTES);
        Some(match self.text("error_description") {
            Some(words) => format!("{code}: {}", text::line(words, TOLD_BYTES)),
            None => code,
        })
    }
}

/// Access to authorization servers.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    client: sortie_net::Client,
    reach: Reach,
}

impl Wire {
    pub(super) fn new(network: &Arc<Network>) -> Result<Self, sortie_net::Error> {
        let timeouts = Timeouts {
            connect: Duration::from_secs(10),
            read: TIMEOUT,
            total: Some(TIMEOUT),
        };
        Ok(Self {
            client: sortie_net::Client::on(Arc::clone(network), timeouts)?,
            reach: network.reach(),
        })
    }

    /// Refuses URLs without TLS, because requests carry secrets, unless private networks are allowed.
    pub(super) fn check(&self, what: &str, url: &Url) -> Result<(), Error> {
        let is_plain = url.scheme() == "http" && self.reach == Reach::Private;
        if url.scheme() != "https" && !is_plain {
            return Err(Error::Refused(format!("{what}: must be an https URL")));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::Refused(format!("{what}: must carry no user name")));
        }
        Ok(())
    }

    /// Fetches a document that may be missing: `None` for every status other than 200, and if it is not a JSON object.
    pub(super) async fn find(&self, url: &Url) -> Result<Option<Answer>, Error> {
        let request = self.request(Method::GET, url)?;
        let response = self.send(url, request).await?;
        if response.status() != StatusCode::OK {
            return Ok(None);
        }
        let status = response.status();
        let body = read_body(response, ANSWER_BYTES)
            .await
            .map_err(|error| unavailable(url, &error))?;
        Ok(serde_json::from_slice(&body)
            .ok()
            .map(|object| Answer { status, object }))
    }

    pub(super) async fn post_json(&self, url: &Url, body: &Value) -> Result<Answer, Error> {
        let request = self
            .request(Method::POST, url)?
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string());
        self.answer(url, request).await
    }

    /// Posts a form; `basic` is a client's id and secret for the `Authorization` header.
    pub(super) async fn post_form(
        &self,
        url: &Url,
        form: &[(&str, &str)],
        basic: Option<(&str, &str)>,
    ) -> Result<Answer, Error> {
        let body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(form)
            .finish();
        let mut request = self
            .request(Method::POST, url)?
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body);
        if let Some((id, secret)) = basic {
            // Both are first encoded as form values (RFC 6749, section 2.3.1).
            let encode =
                |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            request = request.basic_auth(encode(id), Some(encode(secret)));
        }
        self.answer(url, request).await
    }

    /// Sends a request without credentials, to get the challenge.
    pub(super) async fn knock(
        &self,
        method: Method,
        url: &Url,
        body: Option<Bytes>,
    ) -> Result<Response, Error> {
        let mut request = self
            .client
            .request(method, url)
            .map_err(|error| Error::Refused(error.to_string()))?
            .header(ACCEPT, "application/json, text/event-stream");
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        self.send(url, request).await
    }

    async fn answer(&self, url: &Url, request: RequestBuilder) -> Result<Answer, Error> {
        let response = self.send(url, request).await?;
        let status = response.status();
        let body = read_body(response, ANSWER_BYTES)
            .await
            .map_err(|error| unavailable(url, &error))?;
        match serde_json::from_slice(&body) {
            Ok(object) => Ok(Answer { status, object }),
            Err(_) if status.is_success() || status.is_client_error() => Err(Error::Refused(format!(
                "{} answers HTTP {} without a JSON object",
                without_query(url),
                status.as_u16()
            ))),
            Err(_) => Err(Error::Unavailable(format!(
                "{} answers HTTP {}",
                without_query(url),
                status.as_u16()
            ))),
        }
    }

    fn request(&self, method: Method, url: &Url) -> Result<RequestBuilder, Error> {
        let request = self
            .client
            .request(method, url)
            .map_err(|error| Error::Refused(error.to_string()))?;
        Ok(request.header(ACCEPT, "application/json"))
    }

    async fn send(&self, url: &Url, request: RequestBuilder) -> Result<Response, Error> {
        match self.client.send_patiently(request).await {
            Ok(response) => Ok(response),
            Err(error @ sortie_net::Error::Refused { .. }) => Err(Error::Refused(error.to_string())),
            Err(error) => Err(unavailable(url, &error)),
        }
    }
}

fn unavailable(url: &Url, error: &sortie_net::Error) -> Error {
    Error::Unavailable(format!("{}: {error}", without_query(url)))
}

/// Returns a URL without its query, which can contain secrets.
pub(super) fn without_query(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}
