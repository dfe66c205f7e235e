//! `/v1/connections`: the HTTP APIs and MCP servers that runs call through the engine, without what is secret of them.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use sortie_api::{
    Connection,
    connection::{
        Authorization, ConfirmAuthorization, ConfirmedAuthorization, ConnectionDefinition, ConnectionTest,
        KnownService,
    },
};
use sortie_engine::Put;

use crate::{
    app::App,
    kit::{Admin, ApiResult, Json, JsonBody, Member, Path},
};

/// List saved connections
///
/// The organization's connections, by name. Credentials are never shown: `auth` has its `type` only, `headers` and `env` their names.
#[utoipa::path(
    get, path = "/v1/connections", tag = "connections",
    responses((status = 200, description = "The connections.", body = [Connection], example = json!([{
        "name": "crm", "type": "http", "url": "https://api.example.com/v1", "auth": {"type": "bearer"}, "headers": [],
        "allowed_methods": ["GET"], "status": "ready", "created_at": "2026-11-20T21:30:00.000Z",
        "updated_at": "2026-11-20T21:30:00.000Z"
    }]))),
    security(("api_key" = ["member"])),
)]
pub(crate) async fn list_connections(
    State(app): State<Arc<App>>,
    who: Member,
) -> ApiResult<Json<Vec<Connection>>> {
    Ok(Json(app.engine.connections().list(who.org).await?))
}

/// Get a saved connection
///
/// The connection as it stands, without its credentials.
#[utoipa::path(
    get, path = "/v1/connections/{name}", tag = "connections",
    params(("name" = String, Path, description = "The connection's name.", example = "crm")),
    responses((status = 200, description = "The connection.", body = Connection, example = json!({
        "name": "tracker", "type": "mcp", "url": "https://mcp.example.com/mcp", "auth": {"type": "oauth"}, "headers": [],
        "allowed_tools": ["search_issues"], "status": "needs_authorization", "created_at": "2026-11-20T21:30:00.000Z",
        "updated_at": "2026-11-20T21:30:00.000Z"
    }))),
    security(("api_key" = ["member"])),
)]
pub(crate) async fn get_connection(
    State(app): State<Arc<App>>,
    who: Member,
    Path(name): Path<String>,
) -> ApiResult<Json<Connection>> {
    Ok(Json(app.engine.connections().get(who.org, &name).await?))
}

/// Save a connection
///
/// Creates the connection or replaces it whole. Credentials are sealed and never shown again: to change anything, send
/// them again. What OAuth has given stays where `type`, `url` and `auth` are the same as before.
#[utoipa::path(
    put, path = "/v1/connections/{name}", tag = "connections",
    params(("name" = String, Path, description = "The connection's name.", pattern = "^[a-z0-9][a-z0-9._-]{0,99}$", example = "crm")),
    request_body(content = ConnectionDefinition, description = "Where it leads, and how the engine proves itself there.", example = json!({
        "type": "http", "url": "https://api.example.com/v1", "auth": {"type": "bearer", "token": "…"},
        "allowed_methods": ["GET"], "description": "Customers and orders."
    })),
    responses(
        (status = 201, description = "The new connection.", body = Connection, links(
            ("test_connection" = (operation_id = "test_connection", parameters(("name" = "$response.body#/name")))),
            ("delete_connection" = (operation_id = "delete_connection", parameters(("name" = "$response.body#/name")))),
        ), example = json!({
            "name": "crm", "type": "http", "url": "https://api.example.com/v1", "auth": {"type": "bearer"}, "headers": [],
            "allowed_methods": ["GET"], "description": "Customers and orders.", "status": "ready",
            "created_at": "2026-11-20T21:30:00.000Z", "updated_at": "2026-11-20T21:30:00.000Z"
        })),
        (status = 200, description = "The connection that took the place of the one before.", body = Connection, example = json!({
            "name": "crm", "type": "http", "url": "https://api.example.com/v2", "auth": {"type": "bearer"}, "headers": [],
            "allowed_methods": ["GET"], "description": "Customers and orders.", "status": "ready",
            "created_at": "2026-11-20T21:30:00.000Z", "updated_at": "2026-11-21T08:00:00.000Z"
        })),
        (status = 409, description = "The organization has as many connections as it may.", body = sortie_api::ErrorBody,
            example = json!({"error": "the organization has as many connections as it may", "code": "conflict"})),
    ),
    security(("api_key" = ["admin"])),
)]
pub(crate) async fn put_connection(
    State(app): State<Arc<App>>,
    who: Admin,
    Path(name): Path<String>,
    JsonBody(definition, _room): JsonBody<ConnectionDefinition>,
) -> ApiResult<(StatusCode, Json<Connection>)> {
    let (connection, put) = app
        .engine
        .connections()
        .put(&who.caller(), &name, definition)
        .await?;
    tracing::info!(connection = name, by = %who.key, "connection saved");
    let status = match put {
        Put::Created => StatusCode::CREATED,
        Put::Replaced => StatusCode::OK,
    };
    Ok((status, Json(connection)))
}

/// Delete a connection
///
/// Forgets it with its credentials. Runs that name it and have not started yet fail when they start.
#[utoipa::path(
    delete, path = "/v1/connections/{name}", tag = "connections",
    params(("name" = String, Path, description = "The connection's name.", example = "crm")),
    responses((status = 204, description = "The connection is gone.")),
    security(("api_key" = ["admin"])),
)]
pub(crate) async fn delete_connection(
    State(app): State<Arc<App>>,
    who: Admin,
    Path(name): Path<String>,
) -> ApiResult<StatusCode> {
    app.engine.connections().delete(&who.caller(), &name).await?;
    tracing::info!(connection = name, by = %who.key, "connection deleted");
    Ok(StatusCode::NO_CONTENT)
}

/// Test a connection
///
/// Calls the other side with the connection's credentials: an HTTP API is sent a `HEAD` of its URL, an MCP server is asked
/// for its tools. What was found becomes the connection's `status` and `error`.
#[utoipa::path(
    post, path = "/v1/connections/{name}/test", tag = "connections",
    params(("name" = String, Path, description = "The connection's name.", example = "crm")),
    responses((status = 200, description = "What was found, good or bad.", body = ConnectionTest, example = json!({
        "status": "ready", "detail": "the server offers 2 tools", "protocol_version": "2026-07-28",
        "tools": ["search_issues", "get_issue"], "duration_ms": 412
    }))),
    security(("api_key" = ["admin"])),
)]
pub(crate) async fn test_connection(
    State(app): State<Arc<App>>,
    who: Admin,
    Path(name): Path<String>,
) -> ApiResult<Json<ConnectionTest>> {
    Ok(Json(app.engine.connections().test(who.org, &name).await?))
}

/// Authorize a connection
///
/// Begins OAuth. A person opens `authorization_url` in a browser, consents, and comes back to a page of this engine with a
/// confirmation code. The authorization counts once that code is sent to `POST /v1/connections/{name}/oauth/confirm`. Endpoints
/// that `auth` does not give are discovered by asking the server.
#[utoipa::path(
    post, path = "/v1/connections/{name}/oauth", tag = "connections",
    params(("name" = String, Path, description = "The connection's name.", example = "crm")),
    responses(
        (status = 200, description = "Address for the browser of a person.", body = Authorization, links(
            ("confirm_authorization" = (operation_id = "confirm_authorization", parameters(("name" = "$request.path.name")))),
        ), example = json!({
            "authorization_url": "https://auth.example.com/authorize?response_type=code&client_id=sortie&state=…",
            "expires_at": "2026-11-20T21:40:00.000Z"
        })),
        (status = 409, description = "The connection does not use OAuth, or its server not as it should.", body = sortie_api::ErrorBody,
            example = json!({"error": "the connection does not use oauth: its auth has another type", "code": "conflict"})),
    ),
    security(("api_key" = ["admin"])),
)]
pub(crate) async fn authorize_connection(
    State(app): State<Arc<App>>,
    who: Admin,
    Path(name): Path<String>,
) -> ApiResult<Json<Authorization>> {
    let authorization = app.engine.connections().authorize(&who.caller(), &name).await?;
    tracing::info!(connection = name, by = %who.key, "authorization of a connection begun");
    Ok(Json(authorization))
}

/// Confirm an authorization
///
/// Lets runs use the tokens of a person who has consented. `code` is on the page that the person came back to; it is good
/// once, for ten minutes, and for five tries. Until then the connection stays as it was.
#[utoipa::path(
    post, path = "/v1/connections/{name}/oauth/confirm", tag = "connections",
    params(("name" = String, Path, description = "The connection's name.", example = "tracker")),
    request_body(content = ConfirmAuthorization, description = "The code of the page.", example = json!({"code": "BCDF-GHJK"})),
    responses(
        (status = 200, description = "The connection is ready.", body = ConfirmedAuthorization, example = json!({
            "connection": "tracker", "status": "ready", "account": "ann@example.com",
            "issuer": "https://auth.example.com", "scope": "read"
        })),
        (status = 409, description = "No authorization waits, or the code is wrong.", body = sortie_api::ErrorBody,
            example = json!({"error": "code: is not the one that the page shows; after five tries the authorization has to be started again",
                "code": "conflict"})),
    ),
    security(("api_key" = ["admin"])),
)]
pub(crate) async fn confirm_authorization(
    State(app): State<Arc<App>>,
    who: Admin,
    Path(name): Path<String>,
    JsonBody(confirm, _room): JsonBody<ConfirmAuthorization>,
) -> ApiResult<Json<ConfirmedAuthorization>> {
    let confirmed = app
        .engine
        .connections()
        .confirm_authorization(&who.caller(), &name, &confirm.code)
        .await?;
    tracing::info!(connection = name, by = %who.key, "connection authorized");
    Ok(Json(confirmed))
}

/// List well-known services
///
/// Services that can be connected by name, URL and credential alone. Any other can be saved as well.
#[utoipa::path(
    get, path = "/v1/connections/catalog", tag = "connections",
    responses((status = 200, description = "The services, by name.", body = [KnownService], example = json!([{
        "name": "linear", "type": "mcp", "url": "https://mcp.linear.app/mcp", "auth": {"type": "oauth"}
    }]))),
    security(("api_key" = ["member"])),
)]
pub(crate) async fn list_known_services(
    State(app): State<Arc<App>>,
    _who: Member,
) -> ApiResult<Json<Vec<KnownService>>> {
    Ok(Json(app.engine.connections().catalog()))
}
