//! `/v1/admin/license`: the license of a self-hosted engine. Licenses of a hosted organization belong to the organization API.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use sortie_api::{License, license::PutLicense};

use super::installation::InstallationAdmin;
use crate::{
    app::App,
    kit::{Admin, ApiResult, Json, JsonBody},
};

/// Get the license
///
/// Returns the license, the ID that a license is issued for, and the runs of this month, in UTC. Self-hosted engines only.
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

/// Install a license
///
/// Installs the license of a token, in place of an earlier one. From then on a run is created only while the month's
/// allowance lasts; otherwise the answer is 402. The count of the month stays when a license is replaced. Other nodes of
/// the database take the license within five seconds. Self-hosted engines with one organization only.
#[utoipa::path(
    put, path = "/v1/admin/license", tag = "administration",
    request_body(content = PutLicense, description = "Token of the license.", example = json!({"token": "v4.public.…"})),
    responses((status = 200, description = "The license.", body = License, example = json!({
        "licensed": true, "organization": "org_01kafs6w1cefkstv6qr1ptb0mp",
        "deployment_id": "depl_01kafs6w1cefkstv6qr1ptb0mp", "name": "factory north",
        "machine_id": "6d0f5b1a8f1c4f0e9b7a3c2d1e0f9a8b", "monthly_runs": 10_000, "runs_used": 0,
        "resets_at": "2026-12-01T00:00:00.000Z", "expires_at": "2027-11-20T21:30:00.000Z",
        "grace_until": "2027-12-04T21:30:00.000Z"
    }))),
)]
pub(crate) async fn put_license(
    State(app): State<Arc<App>>,
    InstallationAdmin(who): InstallationAdmin,
    JsonBody(put, _room): JsonBody<PutLicense>,
) -> ApiResult<Json<License>> {
    let license = app.engine.put_license(&who, &put.token).await?;
    tracing::info!(deployment = ?license.deployment_id, by = %who.actor, "installed a license");
    Ok(Json(license))
}

/// Delete the license
///
/// Deletes the license. From then on the engine has no limit on runs. The count of the month stays for a later
/// license. Self-hosted engines with one organization only.
#[utoipa::path(
    delete, path = "/v1/admin/license", tag = "administration",
    responses((status = 204, description = "The license is deleted.")),
)]
pub(crate) async fn delete_license(
    State(app): State<Arc<App>>,
    InstallationAdmin(who): InstallationAdmin,
) -> ApiResult<StatusCode> {
    app.engine.delete_license(&who).await?;
    tracing::info!(by = %who.actor, "deleted a license");
    Ok(StatusCode::NO_CONTENT)
}
