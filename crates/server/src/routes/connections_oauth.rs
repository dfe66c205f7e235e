//! Where authorization servers send people back to, and where they read who this engine is. Neither needs a key: the one
//! is found by a state that is good once, the other is public by its nature.

use std::{borrow::Cow, sync::Arc};

use axum::{
    body::Body,
    extract::{RawQuery, State},
    response::{IntoResponse as _, Response},
};
use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{
        ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
        X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
    },
};
use sortie_engine::Error;

use crate::{
    app::App,
    kit::{Anybody, ApiError, ApiResult, Json},
};

/// A page runs nothing, loads nothing, is framed by nobody and tells nobody where it was.
const PAGE_HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_TYPE, "text/html; charset=utf-8"),
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (X_FRAME_OPTIONS, "DENY"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
];

/// End an authorization
///
/// Where an authorization server sends the browser back to. Needs no key: `state` is known to nobody else, good once and
/// for ten minutes. A failure is a page for a browser, which asks for `text/html`, and JSON for all others.
#[utoipa::path(
    get, path = "/v1/oauth/callback", tag = "connections",
    params(
        ("state" = String, Query, description = "The state of the authorization.", example = "l2Zkx0"),
        ("code" = Option<String>, Query, nullable = false, description = "The authorization code."),
        ("iss" = Option<String>, Query, nullable = false, description = "The authorization server that answers."),
        ("error" = Option<String>, Query, nullable = false, description = "Why there is no code."),
    ),
    responses(
        (status = 200, description = "A page that says that the connection is ready.", body = String, content_type = "text/html",
            example = json!("<!doctype html>…")),
        (status = 409, description = "The person or the authorization server said no.", body = sortie_api::ErrorBody,
            example = json!({"error": "the authorization was refused: access_denied", "code": "conflict"})),
    ),
    security(()),
)]
pub(crate) async fn finish_authorization(
    State(app): State<Arc<App>>,
    who: Anybody,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let finished = app
        .engine
        .connections()
        .finish_authorization(who.actor, query.as_deref().unwrap_or_default())
        .await;
    match finished {
        Ok(name) => {
            tracing::info!(connection = name, "connection authorized");
            let text = format!("The connection {name} is authorized. You can close this window.");
            page(StatusCode::OK, "Authorized", &text)
        }
        Err(error) if wants_page(&headers) => match error {
            Error::Invalid(rule) => page(StatusCode::BAD_REQUEST, "Not authorized", &rule),
            Error::Conflict(rule) => page(StatusCode::CONFLICT, "Not authorized", &rule),
            Error::Unavailable(reason) => page(StatusCode::SERVICE_UNAVAILABLE, "Not authorized", &reason),
            Error::PaymentRequired(_)
            | Error::NotFound
            | Error::Gone(_)
            | Error::Unretained
            | Error::Internal(_) => ApiError::from(error).into_response(),
        },
        Err(error) => ApiError::from(error).into_response(),
    }
}

fn wants_page(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT)
        .iter()
        .any(|value| value.to_str().is_ok_and(|value| value.contains("text/html")))
}

fn page(status: StatusCode, title: &str, text: &str) -> Response {
    let body = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<h1>{title}</h1>\n<p>{}</p>\n",
        escaped(text)
    );
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    for (name, value) in PAGE_HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Text that is nothing but text on a page.
fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let entity = |character| match character {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '"' => Some("&quot;"),
        '\'' => Some("&#39;"),
        _ => None,
    };
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match entity(character) {
            Some(entity) => safe.push_str(entity),
            None => safe.push(character),
        }
    }
    Cow::Owned(safe)
}

/// Get the engine's client metadata
///
/// Who this engine is to authorization servers that read such documents (OAuth client ID metadata). Its address is the
/// client id. 404 unless the engine's address is https, as nobody would read it otherwise.
#[utoipa::path(
    get, path = "/v1/oauth/client-metadata.json", tag = "connections",
    responses(
        (status = 200, description = "The document.", body = serde_json::Value, example = json!({
            "client_id": "https://sortie.example.com/v1/oauth/client-metadata.json", "client_name": "Sortie",
            "redirect_uris": ["https://sortie.example.com/v1/oauth/callback"], "token_endpoint_auth_method": "none"
        })),
        (status = 404, description = "The engine's address is not https.", body = sortie_api::ErrorBody),
    ),
    security(()),
)]
pub(crate) async fn get_client_metadata(State(app): State<Arc<App>>) -> ApiResult<Json<serde_json::Value>> {
    app.engine
        .connections()
        .client_document()
        .map(Json)
        .ok_or_else(|| ApiError::not_found("this engine has no https address that it could be known by"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_text_becomes_markup(text in "\\PC{0,40}") {
            let safe = escaped(&text);
            prop_assert!(!safe.contains(['<', '>', '"', '\'']));
            let back = safe.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'").replace("&amp;", "&");
            prop_assert_eq!(back, text);
        }
    }

    #[test]
    fn a_browser_is_told_by_what_it_accepts() {
        let asks = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            wants_page(&headers)
        };
        assert!(asks("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"));
        assert!(!asks("*/*") && !asks("application/json") && !wants_page(&HeaderMap::new()));
    }
}
