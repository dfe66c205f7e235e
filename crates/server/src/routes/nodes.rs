//! `GET /v1/admin/nodes`: the nodes of a self-hosted engine, for its admins.

use std::sync::Arc;

use axum::extract::State;
use sortie_api::node::Node;

use super::installation::InstallationAdmin;
use crate::{
    app::App,
    kit::{ApiResult, Json, Query},
};

/// List nodes
///
/// Lists the nodes of the engine by name: live nodes, and lost nodes with runs that no other node has taken over yet.
/// Self-hosted engines with one organization only.
#[utoipa::path(
    get, path = "/v1/admin/nodes", tag = "administration",
    responses((status = 200, description = "The nodes.", body = [Node], example = json!([{
        "id": "4316709281746219841", "name": "node-a", "address": "http://10.0.0.5:8080", "version": "0.1.0",
        "state": "ready", "started_at": "2026-11-20T21:30:00.000Z", "lease_until": "2026-11-20T22:04:12.000Z",
        "runs_at_work": 12
    }]))),
)]
pub(crate) async fn list_nodes(
    State(app): State<Arc<App>>,
    _who: InstallationAdmin,
    Query(()): Query<()>,
) -> ApiResult<Json<Vec<Node>>> {
    Ok(Json(app.engine.list_nodes().await?))
}
