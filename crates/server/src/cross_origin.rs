//! Cross-origin requests of browser applications (CORS). Every page may read the endpoints that an OAuth client calls directly.
//! Pages of the configured origins may read a run: they have a run token. Cookies are ignored: no answer allows credentials.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use http::{
    HeaderMap, HeaderValue, Method, Request, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
    },
};
use sortie_api::RunId;

/// Request headers that a page may send.
const SENT: &str =
    "authorization, content-type, if-match, if-none-match, last-event-id, mcp-protocol-version, range";
/// Response headers that a page may read.
const READ: &str = "content-disposition, etag, retry-after, www-authenticate, x-request-id";

/// Pages of other origins that may read answers.
#[derive(Clone)]
pub(crate) struct CrossOrigin(Arc<[String]>);

impl CrossOrigin {
    /// Pages of these origins may read runs.
    pub(crate) fn new(allowed_origins: &[String]) -> Self {
        Self(allowed_origins.into())
    }

    /// Returns the origin that may read the answer to a request. `None` if only pages of this server may.
    pub(crate) fn reader(&self, request: &Request<Body>) -> Option<HeaderValue> {
        let path = request.uri().path();
        if is_of_oauth(path) {
            return Some(HeaderValue::from_static("*"));
        }
        let origin = request.headers().get(ORIGIN)?;
        let is_allowed = self
            .0
            .iter()
            .any(|allowed| allowed.as_bytes() == origin.as_bytes());
        (is_allowed && is_of_run(path)).then(|| origin.clone())
    }

    /// Answers a preflight request of a page that may read the answer.
    pub(crate) fn preflight(&self, request: &Request<Body>) -> Option<Response> {
        let is_preflight = request.method() == Method::OPTIONS
            && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if !is_preflight {
            return None;
        }
        self.reader(request)?;
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        for (name, value) in [
            (ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST"),
            (ACCESS_CONTROL_ALLOW_HEADERS, SENT),
            (ACCESS_CONTROL_MAX_AGE, "3600"),
        ] {
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        Some(response)
    }
}

/// Lets the pages of `reader` read an answer. The gate writes the headers, so that its own refusals have them.
pub(crate) fn write_cross_origin(reader: Option<HeaderValue>, headers: &mut HeaderMap) {
    let Some(reader) = reader else { return };
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, reader);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(READ));
    headers.append(VARY, HeaderValue::from_static("origin"));
}

/// Returns true for the endpoints that an OAuth client calls directly.
fn is_of_oauth(path: &str) -> bool {
    matches!(
        path,
        "/.well-known/oauth-authorization-server" | "/oauth/register" | "/oauth/token" | "/oauth/revoke"
    ) || path
        .strip_prefix("/.well-known/oauth-protected-resource")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns true for the paths that a run token may be used for.
fn is_of_run(path: &str) -> bool {
    let Some(rest) = path.strip_prefix("/v1/runs/") else {
        return false;
    };
    let (id, below) = rest.split_once('/').unwrap_or((rest, ""));
    let is_below = matches!(below, "" | "events" | "ui-messages" | "artifacts" | "cancel")
        || below.starts_with("artifacts/");
    id.parse::<RunId>().is_ok() && is_below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_token_opens_these_paths_of_a_run() {
        let run = "/v1/runs/run_01kafs6w1cefkstv6qr1ptb0mp";
        for path in [
            "",
            "/events",
            "/ui-messages",
            "/cancel",
            "/artifacts",
            "/artifacts/a/b.txt",
        ] {
            assert!(is_of_run(&format!("{run}{path}")), "{path}");
        }
        for path in [
            "/definition",
            "/deliveries",
            "/tokens",
            "/events/x",
            "/artifactsx",
        ] {
            assert!(!is_of_run(&format!("{run}{path}")), "{path}");
        }
        for path in ["/v1/runs", "/v1/runs/cancel", "/v1/runs/", "/v1/me", "/"] {
            assert!(!is_of_run(path), "{path}");
        }
    }
}
