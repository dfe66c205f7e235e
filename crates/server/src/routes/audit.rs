//! `GET /v1/admin/audit`: changes with their author, time and origin.

use std::sync::Arc;

use axum::extract::State;
use sortie_api::{AuditPage, KeyId, OrgId, Refusal, Timestamp};
use sortie_store::{Found, access::AuditFilter};

use crate::{
    app::App,
    kit::{Admin, ApiResult, FromQuery, Json, PageQuery, Pairs, Query},
};

pub(crate) struct AuditQuery {
    page: PageQuery,
    action: Option<String>,
    target: Option<String>,
    key: Option<KeyId>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl FromQuery for AuditQuery {
    fn from_query(pairs: &Pairs<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            page: PageQuery::from_query(pairs)?,
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
/// `key`, a page can have fewer entries than `limit`, or none, and still a `next_cursor`: one request reads a bounded
/// number of entries.
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
    let list = app.cursors.list(query.parts(who.org));
    let filter = AuditFilter {
        action: query.action,
        target: query.target,
        key: query.key,
        since: query.since,
        until: query.until,
        before: query.page.before(&list)?,
        limit: query.page.rows(),
    };
    let found = app.engine.store().list_audit(who.org, filter).await?;
    let Found {
        mut items,
        stopped_at,
    } = found;
    let mut next_cursor = query.page.cut(&mut items, |last| list.after((last.at, last.id)));
    if let Some(last) = stopped_at.filter(|_| next_cursor.is_empty()) {
        next_cursor = list.after(last);
    }
    Ok(Json(AuditPage { items, next_cursor }))
}
