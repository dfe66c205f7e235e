//! Pages and documents of OAuth that need no key: the callback of browsers, and the client metadata that authorization servers
//! read. A callback is identified by a single-use state.

use std::{borrow::Cow, sync::Arc};

use axum::{
    Extension,
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
use sortie_api::{ErrorCode, Refusal, file::is_deceptive};
use sortie_engine::{AwaitingConfirmation, Callback};
use sortie_store::access::Actor;

use crate::{
    app::App,
    kit::{ApiError, ApiResult, Json, Path},
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

/// Return from an authorization server
///
/// Redirect URI of OAuth: shows the confirmation code to the person who has consented. No run uses the tokens until an
/// admin key presents that code (`POST /v1/connections/{name}/oauth/confirm`). Needs no key: `state` is random, valid
/// once and for ten minutes. A failure is a page for browsers, which ask for `text/html`, and JSON for others.
#[utoipa::path(
    get, path = "/v1/oauth/callback", tag = "connections",
    params(
        ("state" = String, Query, description = "The state of the authorization.", example = "l2Zkx0"),
        ("code" = Option<String>, Query, nullable = false, description = "The authorization code."),
        ("iss" = Option<String>, Query, nullable = false, description = "The authorization server that answers."),
        ("error" = Option<String>, Query, nullable = false, description = "Reason why there is no code."),
    ),
    responses(
        (status = 200, description = "A page with the confirmation code.", body = String, content_type = "text/html",
            example = json!("<!doctype html>…")),
        (status = 409, description = "The person or the authorization server refused.", body = sortie_api::ErrorBody,
            example = json!({"error": "the authorization was refused: access_denied", "code": "conflict"})),
    ),
)]
pub(crate) async fn finish_authorization(
    State(app): State<Arc<App>>,
    Extension(actor): Extension<Actor>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    finish(&app, actor, None, query.as_deref(), &headers).await
}

/// Return from an authorization server to a connection's own address
///
/// Works like `/v1/oauth/callback`, for clients that the engine registers itself. Each connection has one such address
/// for each authorization server, so that the answer of one server is never taken for that of another.
#[utoipa::path(
    get, path = "/v1/oauth/callback/{tag}", tag = "connections",
    params(
        ("tag" = String, Path, description = "Tag of the connection and its authorization server.", pattern = "^[0-9a-f]{32}$",
            example = "5b3c8c1f0f3d4f1e9a7b6c5d4e3f2a1b"),
        ("state" = String, Query, description = "The state of the authorization.", example = "l2Zkx0"),
        ("code" = Option<String>, Query, nullable = false, description = "The authorization code."),
        ("iss" = Option<String>, Query, nullable = false, description = "The authorization server that answers."),
        ("error" = Option<String>, Query, nullable = false, description = "Reason why there is no code."),
    ),
    responses(
        (status = 200, description = "A page with the confirmation code.", body = String, content_type = "text/html",
            example = json!("<!doctype html>…")),
        (status = 409, description = "The person or the authorization server refused.", body = sortie_api::ErrorBody,
            example = json!({"error": "the authorization was refused: access_denied", "code": "conflict"})),
    ),
)]
pub(crate) async fn finish_own_authorization(
    State(app): State<Arc<App>>,
    Extension(actor): Extension<Actor>,
    Path(tag): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    finish(&app, actor, Some(&tag), query.as_deref(), &headers).await
}

async fn finish(
    app: &App,
    actor: Actor,
    tag: Option<&str>,
    query: Option<&str>,
    headers: &HeaderMap,
) -> Response {
    let callback = Callback {
        tag,
        query: query.unwrap_or_default(),
    };
    let connections = app.engine.connections();
    match connections.finish_authorization(actor, callback).await {
        Ok(awaiting) => {
            tracing::info!(
                connection = awaiting.connection,
                "issued the confirmation code of an authorization"
            );
            confirmation_page(&awaiting)
        }
        Err(Refusal { code, text, .. }) if wants_page(headers) && has_page(code) => {
            let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            failure_page(status, &text)
        }
        Err(error) => ApiError::from(error).into_response(),
    }
}

/// Whether a person at a browser can do something about a failure.
fn has_page(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::InvalidRequest | ErrorCode::Conflict | ErrorCode::Unavailable
    )
}

fn wants_page(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT)
        .iter()
        .any(|value| value.to_str().is_ok_and(|value| value.contains("text/html")))
}

/// Page for the person who has consented. The warning stands before the code, and every fact that an attacker may have
/// chosen stands behind a label.
fn confirmation_page(awaiting: &AwaitingConfirmation) -> Response {
    let account = awaiting.account.as_deref();
    let rows = [
        ("Your account", account.or(Some("the server does not name it"))),
        ("At", Some(&*awaiting.server)),
        ("Permissions", awaiting.scope.as_deref()),
        (
            "Used by agents of the organization",
            Some(&*awaiting.organization),
        ),
        ("On the Sortie server", Some(&*awaiting.engine)),
        ("As the connection", Some(&*awaiting.connection)),
        ("To call", awaiting.service.as_deref()),
    ];
    let rows: String = rows
        .into_iter()
        .filter_map(|(name, value)| {
            let value = value.filter(|value| !value.is_empty())?;
            Some(format!("<dt>{name}</dt>\n<dd>{}</dd>\n", escaped(value)))
        })
        .collect();
    let body = format!(
        "<p>You allowed Sortie to use an account of yours. Nothing uses it yet.</p>\n<dl>\n{rows}</dl>\n\
         <h2>Did somebody send you here?</h2>\n\
         <p>Then keep the code below to yourself and close this window. Whoever has the code can let those agents act as you. \
         Without the code the access is never used, and it is deleted. You can also withdraw it in the settings of your \
         account.</p>\n\
         <h2>Did you start this, or do you want this organization to act as you?</h2>\n\
         <p>Then enter this code where it was started, or give it to the administrator you know:</p>\n\
         <p><strong><code>{code}</code></strong></p>\n\
         <p>In a terminal: <code>sortie connections confirm {connection} {code}</code></p>\n\
         <p>The code is good once, until {until}.</p>\n",
        code = escaped(awaiting.code.expose()),
        connection = escaped(&awaiting.connection),
        until = awaiting.expires_at,
    );
    page(StatusCode::OK, "Confirm this access", &body)
}

fn failure_page(status: StatusCode, reason: &str) -> Response {
    let body = format!(
        "<p>{}</p>\n<p>Nothing was connected. You can close this window.</p>\n",
        escaped(reason)
    );
    page(status, "Not authorized", &body)
}

/// A page; `body` is markup.
fn page(status: StatusCode, title: &str, body: &str) -> Response {
    let text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title} - Sortie</title>\n</head>\n\
         <body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n"
    );
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    for (name, value) in PAGE_HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Text that is nothing but text on a page, and that a reader sees as it is.
fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) && !text.contains(is_deceptive) {
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
    for character in text.chars().filter(|character| !is_deceptive(*character)) {
        match entity(character) {
            Some(entity) => safe.push_str(entity),
            None => safe.push(character),
        }
    }
    Cow::Owned(safe)
}

/// Get the client metadata of a connection
///
/// Describes this engine to the authorization server of one connection, with the redirect URI that only this connection
/// has. The address of the document is the client ID. 404 unless the engine's address is https.
#[utoipa::path(
    get, path = "/v1/oauth/client-metadata/{tag}", tag = "connections",
    params(
        ("tag" = String, Path, description = "Tag of the connection and its authorization server.", pattern = "^[0-9a-f]{32}$",
            example = "5b3c8c1f0f3d4f1e9a7b6c5d4e3f2a1b"),
    ),
    responses(
        (status = 200, description = "The document.", body = serde_json::Value, example = json!({
            "client_id": "https://sortie.example.com/v1/oauth/client-metadata/5b3c8c1f0f3d4f1e9a7b6c5d4e3f2a1b",
            "client_name": "Sortie",
            "redirect_uris": ["https://sortie.example.com/v1/oauth/callback/5b3c8c1f0f3d4f1e9a7b6c5d4e3f2a1b"],
            "token_endpoint_auth_method": "none"
        })),
        (status = 404, description = "The engine's address is not https, or the tag is unknown.", body = sortie_api::ErrorBody),
    ),
)]
pub(crate) async fn get_own_client_metadata(
    State(app): State<Arc<App>>,
    Path(tag): Path<String>,
) -> ApiResult<Json<serde_json::Value>> {
    let document = app.engine.connections().client_document(&tag).ok_or_else(|| {
        ErrorCode::NotFound.because("this engine has no https address that it could be known by")
    })?;
    Ok(Json(document))
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
            prop_assert_eq!(back, text.replace(is_deceptive, ""));
        }
    }

    #[tokio::test]
    async fn the_page_names_who_asks_and_nothing_of_it_is_markup() {
        let awaiting = AwaitingConfirmation {
            connection: "crm".to_owned(),
            organization: "<b>Acme\u{202e}\u{e0041}\u{3164} & Co</b>".to_owned(),
            engine: "sortie.example.com".to_owned(),
            service: Some("https://api.example.com".to_owned()),
            server: "https://auth.example.com".to_owned(),
            account: Some("<ann@example.com>".to_owned()),
            scope: Some("read\" onload=\"x".to_owned()),
            code: sortie_api::Credential::new("BCDF-GHJK"),
            expires_at: sortie_api::Timestamp::from_micros(1_764_000_000_000_000),
        };
        let page = confirmation_page(&awaiting);
        let body = axum::body::to_bytes(page.into_body(), 1 << 16).await.unwrap();
        insta::assert_snapshot!(String::from_utf8(body.to_vec()).unwrap());
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
