//! `GET /v1/admin/audit`: who changed what, when, from where.

use std::sync::Arc;

use axum::extract::State;
use sortie_api::{AuditPage, KeyId, OrgId, Timestamp, limits};
use sortie_store::{Found, access::AuditFilter};

use crate::{
    app::App,
    kit::{Admin, ApiError, ApiResult, FromQuery, Json, Pairs, Query},
};

pub(crate) struct AuditQuery {
    limit: u32,
    cursor: Option<String>,
    action: Option<String>,
    target: Option<String>,
    key: Option<KeyId>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl FromQuery for AuditQuery {
    fn from_query(pairs: &Pairs<'_>) -> ApiResult<Self> {
        let limit = pairs.integer("limit", 1, i64::from(limits::PAGE))?;
        Ok(Self {
            limit: limit
                .and_then(|limit| u32::try_from(limit).ok())
                .unwrap_or(limits::PAGE),
            cursor: pairs.text("cursor")?,
            action: pairs.text("action")?,
            target: pairs.text("target")?,
            key: pairs.parse("key")?,
            since: pairs.parse("since")?,
            until: pairs.parse("until")?,
        })
    }
}

impl AuditQuery {
    /// Returns the parts that identify the list, for the seal of its cursors.
    fn parts(&self, org: OrgId) -> Vec<String> {
        let time = |at: Option<Timestamp>| at.map(|at| at.as_micros().to_string());
        let mut parts = vec!["audit".to_owned(), org.to_string()];
        parts.extend(
            [
                self.action.clone(),
                self.target.clone(),
                self.key.map(|key| key.to_string()),
                time(self.since),
                time(self.until),
            ]
            .map(Option::unwrap_or_default),
        );
        parts
    }
}

/// List the audit log
///
/// Lists the changes of resources, newest first, each with its author, client address and request. Runs are not listed
/// here. An entry is written in the transaction of its change and never deleted. With several of `action`, `target` and
/// `key`, a page can have fewer entries than `limit`, or none, and a `next_cursor` all the same: then many entries were
/// looked at, and few match.
#[utoipa::path(
    get, path = "/v1/admin/audit", tag = "administration",
    params(
        ("limit" = Option<i32>, Query, minimum = 1, maximum = 100, nullable = false, description = "Entries on a page. Default: 100.", example = 20),
        ("cursor" = Option<String>, Query, nullable = false, min_length = 1, description = "`next_cursor` of the page before; valid only with the same filters."),
        ("action" = Option<String>, Query, nullable = false, description = "Only this action.", example = "key.create"),
        ("target" = Option<String>, Query, nullable = false, description = "Only changes of the resource with this name or id."),
        ("key" = Option<KeyId>, Query, nullable = false, description = "Only changes made with this API key."),
        ("since" = Option<Timestamp>, Query, nullable = false, description = "Only from this time on."),
        ("until" = Option<Timestamp>, Query, nullable = false, description = "Only before this time."),
    ),
    responses((status = 200, description = "A page of entries.", body = AuditPage, example = json!({
        "items": [{
            "id": "aud_01kafs6w1cefkstv6qr1ptb0mq", "at": "2026-11-20T21:30:00.000Z", "action": "key.create",
            "target": "key_01kafs6w1cefkstv6qr1ptb0mp", "actor_kind": "key",
            "actor_id": "key_01kafs6w1cefkstv6qr1ptb0mn", "key_id": "key_01kafs6w1cefkstv6qr1ptb0mn",
            "address": "192.0.2.7", "request_id": "5f0c1a528d3b4c8e00000017"
        }],
        "next_cursor": ""
    }))),
)]
pub(crate) async fn list_audit(
    State(app): State<Arc<App>>,
    who: Admin,
    Query(query): Query<AuditQuery>,
) -> ApiResult<Json<AuditPage>> {
    let list = query.parts(who.org);
    let before = query
        .cursor
        .as_deref()
        .map(|cursor| app.cursors.position(&list, cursor))
        .transpose()
        .map_err(|rule| ApiError::invalid_request(format!("cursor: {rule}")))?;
    let filter = AuditFilter {
        action: query.action,
        target: query.target,
        key: query.key,
        since: query.since,
        until: query.until,
        before,
        // One more than is shown tells whether there is another page.
        limit: query.limit + 1,
    };
    let found = app.engine.store().list_audit(who.org, filter).await?;
    let Found {
        mut items,
        stopped_at,
    } = found;
    let shown = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let has_more = items.len() > shown;
    items.truncate(shown);
    let next_cursor = items
        .last()
        .filter(|_| has_more)
        .map(|last| (last.at, last.id))
        .or(stopped_at)
        .map(|last| app.cursors.after(&list, last))
        .unwrap_or_default();
    Ok(Json(AuditPage { items, next_cursor }))
}
