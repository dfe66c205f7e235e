//! `/v1/connections`: the HTTP APIs and MCP servers that runs call through the engine, without their secrets.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::StatusCode;
use sortie_api::{
    Connection,
    connection::{
        Authorization, ConfirmAuthorization, ConfirmedAuthorization, ConnectionDefinition, ConnectionTest,
        KnownService,
    },
    limits,
};
use sortie_engine::Put;

use super::listing::{Form, Listing, entries};
use crate::{
    app::App,
    kit::{Admin, ApiResult, Json, JsonBody, Member, Path, Query},
};

/// List saved connections
///
/// Lists the organization's connections by name. Credentials are redacted: `auth` has its `type` only, `headers` and
/// `env` have names only.
#[utoipa::path(
    get, path = "/v1/connections", tag = "connections",
    responses((status = 200, description = "The connections.", body = [Connection], example = json!([{
        "name": "crm", "type": "http", "url": "https://api.example.com/v1", "auth": {"type": "bearer"}, "headers": [],
        "allowed_methods": ["GET"], "status": "ready", "created_at": "2026-11-20T21:30:00.000Z",
        "updated_at": "2026-11-20T21:30:00.000Z", "used_by": ["daily-report"]
    }]))),
)]
pub(crate) async fn list_connections(
    State(app): State<Arc<App>>,
    who: Member,
    Query(()): Query<()>,
) -> ApiResult<Response> {
    let bodies = app.bodies.clone();
    let connections = move |after: Option<String>, _| {
        let (app, org) = (Arc::clone(&app), who.org);
        async move {
            let _permit = app.connection_reads.acquire().await;
            let saved = app.engine.connections();
            let found = saved.list(org, after.unwrap_or_default(), 1).await?;
            entries(&found, |connection| connection.name.clone())
        }
    };
    let list = Listing {
        // A connection may have several hundred KiB.
        stretch: 1,
        read: connections,
        after: None,
        limit: limits::SAVED_CONNECTIONS,
        form: Form::Array,
    };
    list.respond(&bodies).await
}

/// Get a saved connection
///
/// Returns the connection without its credentials.
#[utoipa::path(
    get, path = "/v1/connections/{name}", tag = "connections",
    params(("name" = String, Path, description = "The connection's name.", example = "crm")),
    responses((status = 200, description = "The connection.", body = Connection, example = json!({
        "name": "tracker", "type": "mcp", "url": "https://mcp.example.com/mcp", "auth": {"type": "oauth"}, "headers": [],
        "allowed_tools": ["search_issues"], "status": "needs_authorization", "created_at": "2026-11-20T21:30:00.000Z",
        "updated_at": "2026-11-20T21:30:00.000Z", "used_by": []
    }))),
)]
pub(crate) async fn get_connection(
    State(app): State<Arc<App>>,
    who: Member,
    Path(name): Path<String>,
) -> ApiResult<Response> {
    let bodies = app.bodies.clone();
    let connection = move |_, _| {
        let (app, org, name) = (Arc::clone(&app), who.org, name.clone());
        async move {
            let _permit = app.connection_reads.acquire().await;
            let found = app.engine.connections().get(org, &name).await?;
            entries(&[found], |_| ())
        }
    };
    let list = Listing {
        stretch: 1,
        read: connection,
        after: None,
        limit: 1,
        form: Form::Alone,
    };
    list.respond(&bodies).await
}

/// Save a connection
///
/// Creates the connection or replaces it whole. Credentials are sealed and never returned: send them again with every
/// change. OAuth tokens stay where `type`, `url` and `auth` are the same as before.
#[utoipa::path(
    put, path = "/v1/connections/{name}", tag = "connections",
    params(("name" = String, Path, description = "The connection's name.", pattern = "^[a-z0-9][a-z0-9._-]{0,99}$", example = "crm")),
    request_body(content = ConnectionDefinition, description = "Server and authentication of the connection.", example = json!({
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
            "created_at": "2026-11-20T21:30:00.000Z", "updated_at": "2026-11-20T21:30:00.000Z", "used_by": []
        })),
        (status = 200, description = "The saved connection, which replaced an earlier one.", body = Connection, example = json!({
            "name": "crm", "type": "http", "url": "https://api.example.com/v2", "auth": {"type": "bearer"}, "headers": [],
            "allowed_methods": ["GET"], "description": "Customers and orders.", "status": "ready",
            "created_at": "2026-11-20T21:30:00.000Z", "updated_at": "2026-11-21T08:00:00.000Z", "used_by": []
        })),
        (status = 409, description = "The organization has reached its limit of connections, or the node has no master key.", body = sortie_api::ErrorBody,
            example = json!({"error": "the organization has reached its limit of connections", "code": "conflict"})),
    ),
)]
pub(crate) async fn put_connection(
    State(app): State<Arc<App>>,
    who: Admin,
    Path(name): Path<String>,
    JsonBody(definition, _room): JsonBody<ConnectionDefinition>,
) -> ApiResult<(StatusCode, Json<Connection>)> {
    let (connection, put) = app.engine.connections().put(&who, &name, definition).await?;
    tracing::info!(connection = name, by = %who.actor, "saved a connection");
    let status = match put {
        Put::Created => StatusCode::CREATED,
        Put::Replaced => StatusCode::OK,
    };
    Ok((status, Json(connection)))
}

/// Delete a connection
///
/// Deletes the connection with its credentials. Runs that name it and have not started yet fail when they start.
#[utoipa::path(
    delete, path = "/v1/connections/{name}", tag = "connections",
    params(("name" = String, Path, description = "The connection's name.", example = "crm")),
    responses((status = 204, description = "The connection was deleted.")),
)]
pub(crate) async fn delete_connection(
    State(app): State<Arc<App>>,
    who: Admin,
    Path(name): Path<String>,
) -> ApiResult<StatusCode> {
    app.engine.connections().delete(&who, &name).await?;
    tracing::info!(connection = name, by = %who.actor, "deleted a connection");
    Ok(StatusCode::NO_CONTENT)
}

/// Test a connection
///
/// Calls the server with the connection's credentials: `HEAD` of the URL of an HTTP API, the list of tools of an MCP
/// server. The result becomes the connection's `status` and `error`.
#[utoipa::path(
    post, path = "/v1/connections/{name}/test", tag = "connections",
    params(("name" = String, Path, description = "The connection's name.", example = "crm")),
    responses((status = 200, description = "Result of the test, good or bad.", body = ConnectionTest, example = json!({
        "status": "ready", "detail": "the server offers 2 tools", "protocol_version": "2026-07-28",
        "tools": ["search_issues", "get_issue"], "duration_ms": 412
    }))),
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
/// Starts OAuth. A person opens `authorization_url` in a browser, consents, and comes back to a page of this engine
/// with a confirmation code. The authorization takes effect when that code is sent to `POST
/// /v1/connections/{name}/oauth/confirm`. Endpoints that `auth` does not name are discovered from the server.
#[utoipa::path(
    post, path = "/v1/connections/{name}/oauth", tag = "connections",
    params(("name" = String, Path, description = "The connection's name.", example = "crm")),
    responses(
        (status = 200, description = "Address that a person opens in a browser.", body = Authorization, links(
            ("confirm_authorization" = (operation_id = "confirm_authorization", parameters(("name" = "$request.path.name")))),
        ), example = json!({
            "authorization_url": "https://auth.example.com/authorize?response_type=code&client_id=sortie&state=…",
            "expires_at": "2026-11-20T21:40:00.000Z"
        })),
        (status = 409, description = "The connection does not use OAuth, its server does not follow the protocol, or the node has no `advertise_url`.", body = sortie_api::ErrorBody,
            example = json!({"error": "the connection does not use oauth: its auth has another type", "code": "conflict"})),
    ),
)]
pub(crate) async fn authorize_connection(
    State(app): State<Arc<App>>,
    who: Admin,
    Path(name): Path<String>,
) -> ApiResult<Json<Authorization>> {
    let authorization = app.engine.connections().authorize(&who, &name).await?;
    tracing::info!(connection = name, by = %who.actor, "started the authorization of a connection");
    Ok(Json(authorization))
}

/// Confirm an authorization
///
/// Lets runs use the tokens of a person who has consented. `code` is on the page that the person came back to. It is
/// valid once, for ten minutes and five attempts. Until the confirmation the connection stays as it was.
#[utoipa::path(
    post, path = "/v1/connections/{name}/oauth/confirm", tag = "connections",
    params(("name" = String, Path, description = "The connection's name.", example = "tracker")),
    request_body(content = ConfirmAuthorization, description = "Code that the page shows.", example = json!({"code": "BCDF-GHJK"})),
    responses(
        (status = 200, description = "The connection is ready.", body = ConfirmedAuthorization, example = json!({
            "connection": "tracker", "status": "ready", "account": "ann@example.com",
            "issuer": "https://auth.example.com", "scope": "read"
        })),
        (status = 409, description = "No authorization waits, or the code is wrong.", body = sortie_api::ErrorBody,
            example = json!({"error": "code: is not the one that the page shows; after five tries the authorization has to be started again",
                "code": "conflict"})),
    ),
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
        .confirm_authorization(&who, &name, &confirm.code)
        .await?;
    tracing::info!(connection = name, by = %who.actor, "authorized a connection");
    Ok(Json(confirmed))
}

/// List well-known services
///
/// Lists services that can be connected by name, URL and credential alone. Other services can be saved as well.
#[utoipa::path(
    get, path = "/v1/connections/catalog", tag = "connections",
    responses((status = 200, description = "The services, by name.", body = [KnownService], example = json!([{
        "name": "linear", "type": "mcp", "url": "https://mcp.linear.app/mcp", "auth": {"type": "oauth"}
    }]))),
)]
pub(crate) async fn list_known_services(
    State(app): State<Arc<App>>,
    _who: Member,
    Query(()): Query<()>,
) -> ApiResult<Json<Vec<KnownService>>> {
    Ok(Json(app.engine.connections().catalog()))
}
