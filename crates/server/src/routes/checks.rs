//! `GET /v1/admin/checks`: checks of the node that answers, for the admins of a self-hosted engine.

use std::sync::Arc;

use axum::extract::State;
use sortie_api::check::NodeChecks;
use sortie_engine::Providers;

use super::installation::InstallationAdmin;
use crate::{
    app::App,
    kit::{ApiResult, FromQuery, Json, Pairs, Query},
};

/// Optional checks beside those of the node itself.
pub(crate) struct WantedChecks {
    pub(crate) providers: Providers,
}

impl FromQuery for WantedChecks {
    fn from_query(pairs: &Pairs<'_>) -> ApiResult<Self> {
        let providers = if pairs.boolean("providers")?.unwrap_or(false) {
            Providers::Asked
        } else {
            Providers::Left
        };
        Ok(Self { providers })
    }
}

/// Check the node
///
/// Checks the node that answers: its database, storage, keys, sandbox and machine, and whether work is stuck. A test
/// object is written to the storage and deleted again; nothing else changes. Self-hosted engines with one organization
/// only.
#[utoipa::path(
    get, path = "/v1/admin/checks", tag = "administration",
    params(("providers" = Option<bool>, Query, nullable = false,
        description = "Also ask the model providers for their models, which takes up to ten seconds. Default: false.")),
    responses((status = 200, description = "The findings.", body = NodeChecks, example = json!({
        "node": "node-6d0f5b1a8f1c4f0e", "version": "0.1.0", "checks": [{
            "name": "database", "verdict": "ok", "found": "PostgreSQL 15.9, migration 16, 0.6 ms until a write has its turn",
            "hints": []
        }]
    }))),
)]
pub(crate) async fn get_checks(
    State(app): State<Arc<App>>,
    InstallationAdmin(who): InstallationAdmin,
    Query(wanted): Query<WantedChecks>,
) -> ApiResult<Json<NodeChecks>> {
    let mut found = app.engine.checks(Some(who.org), wanted.providers).await;
    found.checks.push(app.proxies.check());
    Ok(Json(found))
}
