//! `/v1/operator/nodes`, `checks` and `master-key`: the nodes and the keys of the deployment, for its operator.

use std::sync::Arc;

use axum::extract::State;
use sortie_api::{
    check::NodeChecks,
    master_key::{MasterKeys, Reseal},
    node::Node,
};

use super::{Operator, OrgApp};
use crate::{
    kit::{ApiResult, Json, Query},
    routes::{SealedFrom, WantedChecks, example_of_keys, example_of_missing_key, example_of_reseal},
};

/// List nodes
///
/// Lists the nodes of the deployment by name: live nodes, and lost nodes with runs that no other node has taken over yet.
#[utoipa::path(
    get, path = "/v1/operator/nodes", tag = "operator",
    responses((status = 200, description = "The nodes.", body = [Node], example = json!([{
        "id": "4316709281746219841", "name": "node-a", "address": "http://10.0.0.5:8080", "version": "0.1.0",
        "state": "ready", "started_at": "2026-11-20T21:30:00.000Z", "lease_until": "2026-11-20T22:04:12.000Z",
        "runs_at_work": 12
    }]))),
)]
pub(crate) async fn list_operated_nodes(
    State(app): State<Arc<OrgApp>>,
    _who: Operator,
) -> ApiResult<Json<Vec<Node>>> {
    Ok(Json(app.engine.list_nodes().await?))
}

/// Check the node
///
/// Checks the node that answers: its database, storage, keys, sandbox and machine, and whether work is stuck. A test
/// object is written to the storage and deleted again; nothing else changes. Schedules of organizations that fail are not
/// named.
#[utoipa::path(
    get, path = "/v1/operator/checks", tag = "operator",
    params(("providers" = Option<bool>, Query, nullable = false,
        description = "Also ask the model providers for their models, which takes up to ten seconds. Default: false.")),
    responses((status = 200, description = "The findings.", body = NodeChecks, example = json!({
        "node": "node-6d0f5b1a8f1c4f0e", "version": "0.1.0", "checks": [{
            "name": "database", "verdict": "ok", "found": "PostgreSQL 15.9, migration 31, 0.6 ms until a write has its turn",
            "hints": []
        }]
    }))),
)]
pub(crate) async fn get_operated_checks(
    State(app): State<Arc<OrgApp>>,
    _who: Operator,
    Query(wanted): Query<WantedChecks>,
) -> ApiResult<Json<NodeChecks>> {
    Ok(Json(wanted.run(&app.engine, &app.proxies, None).await))
}

/// Get the master keys
///
/// Lists the keys of each node by id, and the number of sealed values (credentials, tokens, mails, receivers of callbacks)
/// that need each key, in pages over all organizations.
#[utoipa::path(
    get, path = "/v1/operator/master-key", tag = "operator",
    params(("cursor" = Option<String>, Query, nullable = false,
        description = "The `next_cursor` of the page before.", example = "6.run_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 200, description = "A page of sealed values.", body = MasterKeys, example = json!(example_of_keys()))),
)]
pub(crate) async fn get_operated_master_keys(
    State(app): State<Arc<OrgApp>>,
    _who: Operator,
    Query(from): Query<SealedFrom>,
) -> ApiResult<Json<MasterKeys>> {
    Ok(Json(app.engine.master_keys(&from.cursor).await?))
}

/// Seal everything again
///
/// Seals the values of one page, of all organizations, with the first key of this node where another key sealed them. Call it
/// with the `next_cursor` until that is empty. A value that changes at the same time is skipped. A page may be repeated; a
/// rotation that was interrupted starts from the beginning. The log of the node has the first page; audit logs belong to
/// organizations, and have none.
#[utoipa::path(
    post, path = "/v1/operator/master-key/reseal", tag = "operator",
    params(("cursor" = Option<String>, Query, nullable = false,
        description = "The `next_cursor` of the page before.", example = "6.run_01kafs6w1cefkstv6qr1ptb0mp")),
    responses(
        (status = 200, description = "The page was processed.", body = Reseal, example = json!(example_of_reseal())),
        (status = 409, description = "A node does not have the key, or this node has no key.", body = sortie_api::ErrorBody, example = json!(example_of_missing_key())),
    ),
)]
pub(crate) async fn reseal_everything(
    State(app): State<Arc<OrgApp>>,
    _who: Operator,
    Query(from): Query<SealedFrom>,
) -> ApiResult<Json<Reseal>> {
    Ok(Json(app.engine.reseal(None, &from.cursor).await?))
}
