//! Metadata of the engine API and of the MCP server as protected resources (RFC 9728): a client finds the authorization server
//! there.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use bytes::Bytes;
use sortie_api::ErrorCode;

use crate::{
    app::App,
    kit::{ApiResult, Path, json_response},
};

/// Metadata of a protected resource of a hosted deployment.
#[derive(Clone, Debug)]
pub(crate) struct ResourceMetadata {
    /// The document, serialized once.
    pub(crate) document: Bytes,
    /// Path of the resource after its host, without a leading slash; empty without a path.
    pub(crate) path: String,
}

/// Get the protected resource metadata
///
/// Returns the OAuth 2.0 metadata of the engine API (RFC 9728). `authorization_servers` has the server that issues access
/// tokens. Hosted deployments only.
#[utoipa::path(
    get, path = "/.well-known/oauth-protected-resource", tag = "operations",
    responses(
        (status = 200, description = "The metadata.", body = serde_json::Value, example = json!({
            "resource": "https://engine.example.com", "authorization_servers": ["https://accounts.example.com"],
            "scopes_supported": ["member", "admin"], "bearer_methods_supported": ["header"]
        })),
        (status = 404, description = "No authorization server issues tokens for this engine.", body = sortie_api::ErrorBody),
    ),
)]
pub(crate) async fn get_resource_metadata(State(app): State<Arc<App>>) -> ApiResult<Response> {
    metadata(&app, None)
}

/// Get the protected resource metadata of a path
///
/// Returns the metadata of the resource with this path: the engine API, or its MCP server.
#[utoipa::path(
    get, path = "/.well-known/oauth-protected-resource/{*path}", tag = "operations",
    params(("path" = String, Path, description = "Path of the resource.", example = "mcp")),
    responses(
        (status = 200, description = "The metadata.", body = serde_json::Value, example = json!({
            "resource": "https://engine.example.com/mcp", "authorization_servers": ["https://accounts.example.com"],
            "scopes_supported": ["member", "admin"], "bearer_methods_supported": ["header"]
        })),
        (status = 404, description = "The path is that of no resource.", body = sortie_api::ErrorBody),
    ),
)]
pub(crate) async fn get_resource_metadata_of_path(
    State(app): State<Arc<App>>,
    Path(path): Path<String>,
) -> ApiResult<Response> {
    metadata(&app, Some(&path))
}

fn metadata(app: &App, path: Option<&str>) -> ApiResult<Response> {
    let mut all = app.resource_metadata.iter();
    let found = all.find(|of| path.is_none_or(|path| path == of.path));
    let found = found.ok_or_else(|| {
        ErrorCode::NotFound.because("no authorization server issues tokens for this address")
    })?;
    Ok(json_response(found.document.clone()))
}
