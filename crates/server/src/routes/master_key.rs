//! `/v1/admin/master-key`: the keys that seal credentials, for the admins of a self-hosted engine.

use std::sync::Arc;

use axum::extract::State;
use serde_json::{Value, json};
use sortie_api::Refusal;
use sortie_api::master_key::{MasterKeys, Reseal};

use super::installation::InstallationAdmin;
use crate::{
    app::App,
    kit::{ApiResult, FromQuery, Json, Pairs, Query},
};

/// Start of a page.
pub(crate) struct SealedFrom {
    pub(crate) cursor: String,
}

impl FromQuery for SealedFrom {
    fn from_query(pairs: &Pairs<'_>) -> Result<Self, Refusal> {
        let cursor = pairs.text("cursor")?.unwrap_or_default();
        Ok(Self { cursor })
    }
}

/// Example of a page of sealed values.
pub(crate) fn example_of_keys() -> Value {
    json!({
        "keys": ["9f86d081884c7d65", "60303ae22b998861"],
        "nodes": [{"name": "node-a", "keys": ["9f86d081884c7d65", "60303ae22b998861"]}],
        "sealed": [{"key": "60303ae22b998861", "place": "connection.credentials", "values": 4}],
        "next_cursor": "",
    })
}

/// Example of a page that was sealed again.
pub(crate) fn example_of_reseal() -> Value {
    json!({"looked_at": 12, "resealed": 4, "changed_meanwhile": 0, "unreadable": 0, "next_cursor": ""})
}

/// Example of the refusal where a node lacks the key.
pub(crate) fn example_of_missing_key() -> Value {
    json!({
        "error": "node node-b does not have the master key 9f86d081884c7d65 and could not read values sealed with it: \
            give every node both keys first",
        "code": "conflict",
    })
}

/// Get the master keys
///
/// Lists the keys of each node by id, and the number of sealed values (credentials, tokens, receivers of callbacks)
/// that need each key, in pages over the whole installation. Self-hosted engines with one organization only.
#[utoipa::path(
    get, path = "/v1/admin/master-key", tag = "administration",
    params(("cursor" = Option<String>, Query, nullable = false,
        description = "The `next_cursor` of the page before.", example = "6.run_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 200, description = "A page of sealed values.", body = MasterKeys, example = json!(example_of_keys()))),
)]
pub(crate) async fn get_master_keys(
    State(app): State<Arc<App>>,
    _who: InstallationAdmin,
    Query(from): Query<SealedFrom>,
) -> ApiResult<Json<MasterKeys>> {
    Ok(Json(app.engine.master_keys(&from.cursor).await?))
}

/// Seal everything again
///
/// Seals the values of one page with the first key of this node where another key sealed them. Call it with the
/// `next_cursor` until that is empty. A value that changes at the same time is skipped. A page may be repeated; a
/// rotation that was interrupted starts from the beginning. Self-hosted engines with one organization only.
#[utoipa::path(
    post, path = "/v1/admin/master-key/reseal", tag = "administration",
    params(("cursor" = Option<String>, Query, nullable = false,
        description = "The `next_cursor` of the page before.", example = "6.run_01kafs6w1cefkstv6qr1ptb0mp")),
    responses(
        (status = 200, description = "The page was processed.", body = Reseal, example = json!(example_of_reseal())),
        (status = 409, description = "A node does not have the key, or this node has no key.", body = sortie_api::ErrorBody, example = json!(example_of_missing_key())),
    ),
)]
pub(crate) async fn reseal(
    State(app): State<Arc<App>>,
    InstallationAdmin(who): InstallationAdmin,
    Query(from): Query<SealedFrom>,
) -> ApiResult<Json<Reseal>> {
    Ok(Json(app.engine.reseal(Some(&who), &from.cursor).await?))
}
