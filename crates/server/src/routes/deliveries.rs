//! `/v1/runs/{id}/deliveries`: delivery attempts of a run's completion callback, and redelivery.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use sortie_api::{DeliveryAttempt, Redelivery, RunId};

use crate::{
    app::App,
    kit::{ApiResult, Json, Member, Path},
};

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
