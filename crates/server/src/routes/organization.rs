//! `GET /v1/me`.

use std::sync::Arc;

use axum::extract::State;
use sortie_api::OrganizationInfo;

use crate::{
    app::App,
    kit::{ApiResult, Json, Member},
};

/// Get the organization of the key
///
/// Returns the organization, the role and the key of the credential, the version of the engine, the defaults of runs, and the
/// features of the deployment.
#[utoipa::path(
    get, path = "/v1/me", tag = "organization",
    responses((status = 200, description = "The organization, and the role of the credential in it.", body = OrganizationInfo, example = json!({
        "organization_id": "org_01kafs6w1cefkstv6qr1ptb0mp", "organization_name": "default", "role": "admin",
        "key_id": "key_01kafs6w1cefkstv6qr1ptb0mp", "key_name": "deploy pipeline", "version": "1.0.0", "mode": "self-hosted",
        "compute_micros_per_second": 0, "default_max_cost_micros": 1_000_000,
        "features": {"console": true, "payments": false, "mail": false}
    }))),
)]
pub(crate) async fn get_me(State(app): State<Arc<App>>, who: Member) -> ApiResult<Json<OrganizationInfo>> {
    let key = who.actor.key();
    let features = app.features.clone();
    Ok(Json(
        app.engine
            .organization_info(who.org, who.role, key, features)
            .await?,
    ))
}
