//! Cross-origin requests of browser applications (CORS): every page may read the endpoints that such an application calls
//! directly. These endpoints ignore cookies.

use axum::{body::Body, extract::Request, middleware::Next, response::Response};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD,
    },
};

/// Headers of the answer to a preflight request.
const PREFLIGHT: [(HeaderName, &str); 3] = [
    (ACCESS_CONTROL_ALLOW_METHODS, "GET, POST"),
    (
        ACCESS_CONTROL_ALLOW_HEADERS,
        "authorization, content-type, mcp-protocol-version",
    ),
    (ACCESS_CONTROL_MAX_AGE, "3600"),
];

/// Returns true where every page may read the answer.
fn is_open(path: &str) -> bool {
    matches!(
        path,
        "/.well-known/oauth-authorization-server" | "/oauth/register" | "/oauth/token" | "/oauth/revoke"
    ) || path
        .strip_prefix("/.well-known/oauth-protected-resource")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Lets every page read the answer of an open endpoint. The gate writes the headers, so that its own refusals have them.
pub(crate) fn write_cross_origin(path: &str, headers: &mut HeaderMap) {
    if is_open(path) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("retry-after, www-authenticate"),
        );
    }
}

/// Answers the preflight requests of the open endpoints.
pub(crate) async fn preflight(request: Request, next: Next) -> Response {
    let is_preflight =
        request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    if !is_preflight || !is_open(request.uri().path()) {
        return next.run(request).await;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    for (name, value) in PREFLIGHT {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}
