//! `GET /v1/admin/license`: the license of a self-hosted engine. Licenses of a hosted organization belong to the
//! organization API.

use std::sync::Arc;

use axum::extract::State;
use sortie_api::License;

use crate::{
    app::App,
    kit::{Admin, ApiResult, Json},
};

/// Get the license
///
/// Returns the license, the ID that a license is issued for, and the number of runs created in this month, in UTC.
/// Self-hosted engines only.
#[utoipa::path(
    get, path = "/v1/admin/license", tag = "administration",
    responses((status = 200, description = "The license.", body = License, example = json!({
        "licensed": false, "machine_id": "6d0f5b1a8f1c4f0e9b7a3c2d1e0f9a8b", "runs_used": 412,
        "resets_at": "2026-12-01T00:00:00.000Z"
    }))),
)]
pub(crate) async fn get_license(State(app): State<Arc<App>>, who: Admin) -> ApiResult<Json<License>> {
    Ok(Json(app.engine.license(who.org).await?))
}
