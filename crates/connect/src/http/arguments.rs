//! The agent's arguments for an HTTP request, and their conversion to the request.

use bytes::Bytes;
use reqwest::{
    Method,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use sortie_agent::tool::Effect;

use super::scope::Scope;
use crate::outlet::{Outgoing, Outlet};

/// Default methods of a connection.
pub(super) const METHODS: [Method; 7] = [
    Method::GET,
    Method::HEAD,
    Method::OPTIONS,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
];
/// Maximum size of a request body, in bytes.
const BODY_BYTES: usize = 1 << 20;
/// Maximum number of headers in a request, and their maximum size.
const HEADERS: usize = 32;
const HEADER_BYTES: usize = 8 * 1024;
/// Parameter with which some frameworks override the method, in any case.
const METHOD_PARAMETER: &str = "_method";
/// Headers that belong to the connection between two hosts, describe the origin of a request, or could override the method or the
/// path and bypass the limits of the connection.
const REFUSED_HEADERS: [&str; 22] = [
    "accept-encoding",
    "connection",
    "content-length",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "origin",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    method: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    query: Map<String, Value>,
    #[serde(default)]
    headers: Map<String, Value>,
    json: Option<Box<RawValue>>,
    body: Option<String>,
    idempotency_key: Option<String>,
}

impl Arguments {
    /// Returns the possible effect of the request. An invalid method has none.
    pub(super) fn effect(&self) -> Effect {
        let is_repeatable = self.idempotency_key.is_some() || self.method().is_ok_and(|m| is_safe(&m));
        if is_repeatable {
            Effect::Nothing
        } else {
            Effect::Outside
        }
    }

    pub(super) fn method(&self) -> Result<Method, String> {
        let method = Method::from_bytes(self.method.to_ascii_uppercase().as_bytes())
            .map_err(|_| "method: is not an HTTP method".to_owned())?;
        // TRACE returns the request with its credentials; CONNECT is for proxies.
        if matches!(method, Method::TRACE | Method::CONNECT) {
            return Err(format!("method: {method} is not possible"));
        }
        Ok(method)
    }

    /// Creates the request without the connection's credentials. The error names the argument and the rule.
    pub(super) fn request(
        self,
        allowed: &[Method],
        scope: &Scope,
        outlet: &Outlet,
    ) -> Result<Outgoing, String> {
        let method = self.method()?;
        let is_narrowed = METHODS.iter().any(|method| !allowed.contains(method));
        let query = query(&self.query)?;
        for (name, _) in &query {
            if outlet.sets_query(name) || scope.sets_query(name) {
                return Err(format!("query.{name}: is set by the connection"));
            }
            if is_narrowed && name.eq_ignore_ascii_case(METHOD_PARAMETER) {
                return Err(format!(
                    "query.{name}: cannot be set, as the connection does not allow every method"
                ));
            }
        }
        let url = scope.resolve(&self.path, &query)?;
        let mut headers = headers(&self.headers, outlet)?;
        if let Some(key) = &self.idempotency_key {
            if key.is_empty() {
                return Err("idempotency_key: must not be empty".to_owned());
            }
            let value = HeaderValue::from_str(key)
                .map_err(|_| "idempotency_key: has characters that a header cannot hold".to_owned())?;
            headers.insert(HeaderName::from_static("idempotency-key"), value);
        }
        let body = match (self.json, self.body) {
            (Some(_), Some(_)) => return Err("json and body: only one of them is possible".to_owned()),
            (Some(json), None) => {
                headers
                    .entry(CONTENT_TYPE)
                    .or_insert(HeaderValue::from_static("application/json"));
                Some(Bytes::from(json.get().to_owned()))
            }
            (None, body) => body.map(Bytes::from),
        };
        if body.as_ref().is_some_and(|body| body.len() > BODY_BYTES) {
            return Err(format!("body: must be at most {BODY_BYTES} bytes"));
        }
        Ok(Outgoing {
            method,
            url,
            headers,
            body,
        })
    }
}

/// Whether a method only reads.
pub(super) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Converts the query to pairs; an array repeats its name.
fn query(query: &Map<String, Value>) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::new();
    for (name, value) in query {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                std::slice::from_ref(value)
            }
        };
        for value in values {
            let text =
                plain(value).ok_or_else(|| format!("query.{name}: must be text, a number or a list"))?;
            pairs.push((name.clone(), text));
        }
    }
    Ok(pairs)
}

fn headers(wanted: &Map<String, Value>, outlet: &Outlet) -> Result<HeaderMap, String> {
    if wanted.len() > HEADERS {
        return Err(format!("headers: at most {HEADERS} are possible"));
    }
    let mut headers = HeaderMap::new();
    let mut bytes = 0;
    for (name, value) in wanted {
        let header: HeaderName = name
            .parse()
            .map_err(|_| format!("headers.{name}: is not the name of a header"))?;
        if outlet.sets_header(&header) {
            return Err(format!("headers.{name}: is set by the connection"));
        }
        let text = header.as_str();
        if REFUSED_HEADERS.contains(&text) || text.starts_with("x-forwarded") {
            return Err(format!("headers.{name}: cannot be set"));
        }
        let value = plain(value)
            .and_then(|value| HeaderValue::from_str(&value).ok())
            .ok_or_else(|| format!("headers.{name}: must be a line of text"))?;
        bytes += text.len() + value.len();
        headers.insert(header, value);
    }
    if bytes > HEADER_BYTES {
        return Err(format!("headers: must be at most {HEADER_BYTES} bytes together"));
    }
    Ok(headers)
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
