//! Liveness, readiness and description of the organization API.

use std::sync::Arc;

use axum::{extract::State, response::Response};

use super::OrgApp;
use crate::{
    kit::{ApiResult, Json, shared_document},
    routes::{Health, OK, Readiness},
};

/// Liveness
///
/// Answers while the process serves requests, whatever the state of its database. Needs no credential and is not counted
/// against the rate limit.
#[utoipa::path(
    get, path = "/healthz", tag = "operations",
    responses(
        (status = 200, description = "The process is alive.", body = Health, example = json!({"status": "ok"})),
        (status = "4XX", description = "The request cannot be read.", body = sortie_api::ErrorBody,
            example = json!({"error": "the request is malformed: it must be one of HTTP/1.1", "code": "invalid_request"})),
    ),
)]
pub(crate) async fn get_org_health() -> Json<Health> {
    Json(OK)
}

/// Readiness
///
/// Answers 200 while the node can serve requests. Answers 503 while its database is away or the node is about to stop. While
/// the storage of files is away, the answer is 200 and `degraded` names it. Needs no credential and is not counted against
/// the rate limit.
#[utoipa::path(
    get, path = "/readyz", tag = "operations",
    responses(
        (status = 200, description = "The node serves requests.", body = Readiness,
            example = json!({"status": "ok", "degraded": ["storage"]})),
        (status = "4XX", description = "The request cannot be read.", body = sortie_api::ErrorBody,
            example = json!({"error": "the request is malformed: it must be one of HTTP/1.1", "code": "invalid_request"})),
    ),
)]
pub(crate) async fn get_org_readiness(State(app): State<Arc<OrgApp>>) -> ApiResult<Json<Readiness>> {
    Readiness::of(&app.engine).await.map(Json)
}

/// Get this description
///
/// Returns the `OpenAPI` 3.1 document of the organization API. `security` of an operation has the role that it needs.
#[utoipa::path(
    get, path = "/openapi.json", tag = "operations",
    responses((status = 200, description = "The document.", body = serde_json::Value, example = json!({"openapi": "3.1.0"}))),
)]
pub(crate) async fn get_org_description(State(app): State<Arc<OrgApp>>) -> Response {
    shared_document(&app.document)
}
