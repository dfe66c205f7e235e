//! `/v1/runs/{id}/tokens`: credentials for one run, which a browser can have.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::StatusCode;
use sortie_api::{
    RunId,
    run_token::{CreateRunToken, CreatedRunToken},
};

use crate::{
    app::App,
    kit::{ApiResult, JsonBody, Member, Path, shown_once},
};

/// Create a run token
///
/// Makes a bearer credential for this run and nothing else: `read` permits to get the run, its events and its artifacts,
/// `cancel` to cancel it. It ends at `expires_at`, with the API key that made it, and with the run. Only this answer shows
/// it. An access token of an application or of a person cannot make one.
#[utoipa::path(
    post, path = "/v1/runs/{id}/tokens", tag = "runs",
    params(("id" = RunId, Path, description = "The run's id.", example = "run_01kafs6w1cefkstv6qr1ptb0mp")),
    request_body(content = CreateRunToken, description = "Validity and permissions of the token.",
        example = json!({"ttl_seconds": 3600, "may": ["read"]})),
    responses((status = 201, description = "The token.", body = CreatedRunToken, example = json!({
        "token": "stt_…", "run_id": "run_01kafs6w1cefkstv6qr1ptb0mp", "may": ["read"],
        "expires_at": "2026-11-20T22:30:00.000Z"
    }))),
)]
pub(crate) async fn create_run_token(
    State(app): State<Arc<App>>,
    who: Member,
    Path(id): Path<RunId>,
    JsonBody(request, _room): JsonBody<CreateRunToken>,
) -> ApiResult<Response> {
    let created = app.engine.create_run_token(&who, id, request).await?;
    Ok(shown_once(StatusCode::CREATED, &created))
}
