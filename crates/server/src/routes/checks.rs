//! `GET /v1/admin/checks`: checks of the node that answers, for the admins of a self-hosted engine.

use std::sync::Arc;

use axum::extract::State;
use sortie_api::{OrgId, Refusal, check::NodeChecks};
use sortie_engine::{Engine, Providers};

use super::installation::InstallationAdmin;
use crate::{
    app::App,
    kit::{ApiResult, FromQuery, Json, Pairs, Query, TrustedProxies},
};

/// Optional checks in addition to those of the node itself.
pub(crate) struct WantedChecks {
    providers: Providers,
}

impl WantedChecks {
    /// Checks the node and its proxies, and the schedules of an organization.
    pub(crate) async fn run(
        self,
        engine: &Engine,
        proxies: &TrustedProxies,
        org: Option<OrgId>,
    ) -> NodeChecks {
        let mut found = engine.checks(org, self.providers).await;
        found.checks.push(proxies.check());
        found
    }
}

impl FromQuery for WantedChecks {
    fn from_query(pairs: &Pairs<'_>) -> Result<Self, Refusal> {
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
    Ok(Json(wanted.run(&app.engine, &app.proxies, Some(who.org)).await))
}
