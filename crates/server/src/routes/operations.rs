//! What operators and machines ask: is it alive, is it ready, how is it described.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    app::App,
    kit::{ApiError, ApiResult, Json, json_response},
};

/// The state of the node.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`.
    #[schema(example = "ok")]
    status: &'static str,
}

const OK: Health = Health { status: "ok" };

/// Liveness
///
/// Answers while the process serves requests, whatever the state of its database. Needs no key and is not counted
/// against the rate limit.
#[utoipa::path(
    get, path = "/healthz", tag = "operations",
    responses((status = 200, description = "The process is alive.", body = Health, example = json!({"status": "ok"}))),
    security(()),
)]
pub(crate) async fn get_health() -> Json<Health> {
    Json(OK)
}

/// Readiness
///
/// Answers 200 while the node can take runs, and 503 while its database is away or it is about to stop: then load balancers
/// send it no new clients, and those it has are served on for `drain_seconds`. Needs no
/// key and is not counted against the rate limit.
#[utoipa::path(
    get, path = "/readyz", tag = "operations",
    responses((status = 200, description = "The node takes runs.", body = Health, example = json!({"status": "ok"}))),
    security(()),
)]
pub(crate) async fn get_readiness(State(app): State<Arc<App>>) -> ApiResult<Json<Health>> {
    app.engine.ready().await?;
    Ok(Json(OK))
}

/// Metrics
///
/// What the node measures, as `OpenMetrics` text for Prometheus. Nothing in it names an organization or shows anything of its
/// runs. Needs no key and is not counted against the rate limit. An engine that listens for it elsewhere
/// (`metrics_listen`) does not have it here.
#[utoipa::path(
    get, path = "/metrics", tag = "operations",
    responses(
        (status = 200, description = "The figures now.", content_type = "application/openmetrics-text", body = String,
            example = "# TYPE sortie_queue_depth gauge\nsortie_queue_depth 0\n# EOF\n"),
        (status = 404, description = "The metrics have a listener of their own.", body = sortie_api::ErrorBody,
            example = json!({"error": "the metrics of this engine have a listener of their own", "code": "not_found"})),
    ),
    security(()),
)]
pub(crate) async fn get_metrics(State(app): State<Arc<App>>) -> ApiResult<Response> {
    match &app.exposition {
        Some(exposition) => exposition.answer().await,
        None => Err(ApiError::not_found(
            "the metrics of this engine have a listener of their own",
        )),
    }
}

/// Get this description
///
/// The `OpenAPI` 3.1 document of the engine API. The role an operation needs stands in its `security`.
#[utoipa::path(
    get, path = "/openapi.json", tag = "operations",
    responses((status = 200, description = "The document.", body = serde_json::Value, example = json!({"openapi": "3.1.0"}))),
    security(()),
)]
pub(crate) async fn get_description(State(app): State<Arc<App>>) -> Response {
    json_response(app.document.clone())
}
