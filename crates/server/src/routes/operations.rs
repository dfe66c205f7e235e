//! Operations for operators and machines: liveness, readiness, metrics and the API document.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::HeaderMap;
use serde::Serialize;
use sortie_api::ErrorCode;
use sortie_engine::Engine;
use utoipa::ToSchema;

use crate::{
    app::App,
    kit::{ApiResult, Json, shared_document},
};

/// The state of the node.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`.
    #[schema(example = "ok")]
    status: &'static str,
}

/// State of a node that serves requests.
pub(crate) const OK: Health = Health { status: "ok" };

/// The state of a node that takes runs.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Readiness {
    /// `ok`.
    #[schema(example = "ok")]
    status: &'static str,
    /// Optional parts that are unavailable. With `storage`, files are refused with 503, and runs that have files or leave
    /// outputs wait. New names may be added.
    #[schema(value_type = Vec<String>, example = json!([]))]
    degraded: Vec<&'static str>,
}

impl Readiness {
    /// Returns the state of the node, or the reason why it takes no runs.
    pub(crate) async fn of(engine: &Engine) -> ApiResult<Self> {
        engine.ready().await?;
        Ok(Self {
            status: OK.status,
            degraded: engine.degraded(),
        })
    }
}

/// Liveness
///
/// Answers while the process serves requests, also without its database. Needs no key and is not counted
/// against the rate limit.
#[utoipa::path(
    get, path = "/healthz", tag = "operations",
    responses(
        (status = 200, description = "The process is alive.", body = Health, example = json!({"status": "ok"})),
        (status = "4XX", description = "The request cannot be read.", body = sortie_api::ErrorBody,
            example = json!({"error": "the request is malformed: it must be a valid HTTP/1.1 request", "code": "invalid_request"})),
    ),
)]
pub(crate) async fn get_health() -> Json<Health> {
    Json(OK)
}

/// Readiness
///
/// Answers 200 while the node can take runs. Answers 503 while its database is unavailable or the node is stopping: load
/// balancers then send no new clients, and connected clients are served for `drain_seconds`. While the storage of files
/// is unavailable, the answer is 200 and `degraded` names it. Needs no key and is not counted against the rate limit.
#[utoipa::path(
    get, path = "/readyz", tag = "operations",
    responses(
        (status = 200, description = "The node takes runs.", body = Readiness,
            example = json!({"status": "ok", "degraded": ["storage"]})),
        (status = "4XX", description = "The request cannot be read.", body = sortie_api::ErrorBody,
            example = json!({"error": "the request is malformed: it must be a valid HTTP/1.1 request", "code": "invalid_request"})),
    ),
)]
pub(crate) async fn get_readiness(State(app): State<Arc<App>>) -> ApiResult<Json<Readiness>> {
    Readiness::of(&app.engine).await.map(Json)
}

/// Metrics
///
/// Returns the metrics of the node as Prometheus text 0.0.4, or as `OpenMetrics` 1.0 where `Accept` names
/// `application/openmetrics-text`. They name no organization and show no content of runs. Needs no key
/// and is not counted against the rate limit. With `metrics_listen` in the configuration the metrics have an address of
/// their own, and this one answers 404.
#[utoipa::path(
    get, path = "/metrics", tag = "operations",
    responses(
        (status = 200, description = "The current metrics.", content(
            (String = "text/plain", example = "# TYPE sortie_queue_depth gauge\nsortie_queue_depth 0\n"),
            (String = "application/openmetrics-text", example = "# TYPE sortie_queue_depth gauge\nsortie_queue_depth 0\n# EOF\n"),
        )),
        (status = 404, description = "The metrics are served at another address (`metrics_listen`).", body = sortie_api::ErrorBody,
            example = json!({"error": "this engine serves its metrics at another address (metrics_listen)", "code": "not_found"})),
    ),
)]
pub(crate) async fn get_metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> ApiResult<Response> {
    match &app.exposition {
        Some(exposition) => Ok(exposition.answer(&headers).await?),
        None => Err(ErrorCode::NotFound
            .because("this engine serves its metrics at another address (metrics_listen)")
            .into()),
    }
}

/// Get this description
///
/// Returns the `OpenAPI` 3.1 document of the engine API. `security` of an operation has the role that it needs.
#[utoipa::path(
    get, path = "/openapi.json", tag = "operations",
    responses((status = 200, description = "The document.", body = serde_json::Value, example = json!({"openapi": "3.1.0"}))),
)]
pub(crate) async fn get_description(State(app): State<Arc<App>>) -> Response {
    shared_document(&app.document)
}
