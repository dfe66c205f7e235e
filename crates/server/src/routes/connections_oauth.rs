//! Pages and documents of OAuth that need no key: the callback of browsers, and the client metadata that authorization servers
//! read. A callback is identified by a single-use state.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{RawQuery, State},
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, StatusCode};
use sortie_api::{ErrorCode, Refusal};
use sortie_engine::Callback;
use sortie_store::access::Actor;

use crate::{
    app::App,
    kit::{ApiError, ApiResult, Json, Path},
    pages,
};

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
        ("error" = Option<String>, Query, nullable = false, description = "Error of the authorization server, instead of a code."),
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
        ("error" = Option<String>, Query, nullable = false, description = "Error of the authorization server, instead of a code."),
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
            pages::confirmation(&awaiting)
        }
        Err(Refusal { code, text, .. }) if pages::wants_page(headers) && has_page(code) => {
            let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            pages::authorization_failure(status, &text)
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
