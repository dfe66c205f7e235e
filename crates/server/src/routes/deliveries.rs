//! `/v1/runs/{id}/deliveries`: delivery attempts of a run's completion callback, and redelivery.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use sortie_api::{DeliveryAttempt, DeliveryPage, DeliveryState, Redelivery, Refusal, RunId, limits};
use sortie_store::outbox::DeliveryFilter;

use crate::{
    app::App,
    kit::{ApiResult, FromQuery, Json, Member, PageQuery, Pairs, Path, Query},
};

/// The parameters of the list of all callbacks.
pub(crate) struct DeliveriesQuery {
    page: PageQuery,
    states: Vec<DeliveryState>,
    receiver: Option<String>,
}

impl FromQuery for DeliveriesQuery {
    fn from_query(pairs: &Pairs<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            page: PageQuery::from_query(pairs)?,
            states: pairs.list("state", DeliveryState::ALL.len())?,
            receiver: pairs.bounded("receiver", limits::RECEIVER_CHARS)?,
        })
    }
}

/// List completion callbacks
///
/// Lists the callbacks of finished runs in pages, of the newest run first, each with its state and its last attempt. With a
/// filter a page may have fewer entries than `limit`, or none, although more follow: continue until `next_cursor` is empty.
#[utoipa::path(
    get, path = "/v1/deliveries", tag = "runs",
    params(
        ("limit" = Option<i32>, Query, minimum = 1, maximum = 100, nullable = false, description = "Callbacks on a page. Default 100.", example = 20),
        ("cursor" = Option<String>, Query, nullable = false, min_length = 1, description = "`next_cursor` of the page before."),
        ("state" = Option<Vec<DeliveryState>>, Query, style = Form, explode = false, nullable = false, description = "Only callbacks in one of these states, separated by commas.", example = json!(["retrying", "abandoned"])),
        ("receiver" = Option<String>, Query, nullable = false, min_length = 1, max_length = 300, description = "Only callbacks to this host and port.", example = "hooks.example.com:443"),
    ),
    responses((status = 200, description = "A page of callbacks.", body = DeliveryPage, example = json!({
        "items": [{"run_id": "run_01kafs6w1cefkstv6qr1ptb0mp", "receiver": "hooks.example.com:443", "state": "retrying",
            "attempts": 2, "last_attempt_at": "2026-11-20T21:30:12.874Z", "status": 502, "error": "answered 502",
            "next_at": "2026-11-20T21:30:33.120Z"}],
        "next_cursor": ""
    }))),
)]
pub(crate) async fn list_all_deliveries(
    State(app): State<Arc<App>>,
    who: Member,
    Query(query): Query<DeliveriesQuery>,
) -> ApiResult<Json<DeliveryPage>> {
    let filter = DeliveryFilter {
        states: query.states,
        receiver: query.receiver,
        before: query.page.after()?,
        limit: query.page.rows(),
    };
    let mut found = app.engine.store().deliveries(who.org, filter).await?;
    let next_cursor = query.page.cut(&mut found.items, |last| last.run_id.to_string());
    let stopped_at = found.stopped_at.filter(|_| next_cursor.is_empty());
    Ok(Json(DeliveryPage {
        items: found.items,
        next_cursor: stopped_at.map_or(next_cursor, |run| run.to_string()),
    }))
}

/// List the deliveries of a run's callback
///
/// Lists the attempts to deliver the completion callback, in order; the newest 200 are kept. The last attempt has the
/// state: without `error` the callback was delivered, with `next_at` it is tried again at that time, with `error` alone
/// it was abandoned. The list is empty while the run is not finished, and for a run without a callback.
#[utoipa::path(
    get, path = "/v1/runs/{id}/deliveries", tag = "runs",
    params(("id" = RunId, Path, description = "The run's id.", example = "run_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 200, description = "The attempts.", body = Vec<DeliveryAttempt>, example = json!([
        {"attempt": 1, "at": "2026-11-20T21:30:02.312Z", "status": 502, "error": "answered 502", "duration_ms": 48,
         "next_at": "2026-11-20T21:30:12.871Z"},
        {"attempt": 2, "at": "2026-11-20T21:30:12.874Z", "status": 204, "duration_ms": 31}
    ]))),
)]
pub(crate) async fn list_deliveries(
    State(app): State<Arc<App>>,
    who: Member,
    Path(id): Path<RunId>,
    Query(()): Query<()>,
) -> ApiResult<Json<Vec<DeliveryAttempt>>> {
    Ok(Json(app.engine.list_deliveries(who.org, id).await?))
}

/// Send a run's callback again
///
/// Sends the completion callback of a finished run again, at once, and retries a failure as it did at first. An attempt
/// that is under way counts as the new one. The answer has the number of the attempt among the deliveries.
#[utoipa::path(
    post, path = "/v1/runs/{id}/deliveries", tag = "runs",
    params(("id" = RunId, Path, description = "The run's id.", example = "run_01kafs6w1cefkstv6qr1ptb0mp")),
    responses(
        (status = 202, description = "The callback is sent again.", body = Redelivery, example = json!({"attempt": 3})),
        (status = 409, description = "The run has no callback, or is not finished.", body = sortie_api::ErrorBody,
            example = json!({"error": "the run has no callback", "code": "conflict"})),
    ),
)]
pub(crate) async fn redeliver_run(
    State(app): State<Arc<App>>,
    who: Member,
    Path(id): Path<RunId>,
) -> ApiResult<(StatusCode, Json<Redelivery>)> {
    let redelivery = app.engine.redeliver_run(who.org, id).await?;
    Ok((StatusCode::ACCEPTED, Json(redelivery)))
}
