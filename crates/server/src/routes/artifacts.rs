//! `/v1/runs/{id}/artifacts`: the files that a run left under `outputs/`.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::{HeaderMap, Method};
use sortie_api::{Artifact, RunId};

use super::files::{Content, send};
use crate::{
    app::App,
    kit::{ApiResult, Below, Json, Member, Path},
};

/// List the artifacts of a run
///
/// The files that the agent left under `outputs/` in its working directory, by path. They are kept before the run becomes
/// final: there are none before, and none of a run that was cancelled or interrupted.
#[utoipa::path(
    get, path = "/v1/runs/{id}/artifacts", tag = "runs",
    params(("id" = RunId, Path, description = "The run's id.", example = "run_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 200, description = "The artifacts.", body = [Artifact], example = json!([{
        "path": "charts/north.svg", "size": 18_204, "content_type": "image/svg+xml",
        "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    }]))),
    security(("api_key" = ["member"])),
)]
pub(crate) async fn list_run_artifacts(
    State(app): State<Arc<App>>,
    who: Member,
    Path(id): Path<RunId>,
) -> ApiResult<Json<Vec<Artifact>>> {
    Ok(Json(app.engine.run_artifacts(who.org, id).await?))
}

/// Download an artifact of a run
///
/// The content, to be saved and not to be shown. The slashes of `path` may be sent as they are. `ETag` is the SHA-256. Takes
/// `Range` and conditions as the content of a file does.
#[utoipa::path(
    get, path = "/v1/runs/{id}/artifacts/{*path}", tag = "runs",
    params(
        ("id" = RunId, Path, description = "The run's id.", example = "run_01kafs6w1cefkstv6qr1ptb0mp"),
        ("path" = String, Path, description = "The artifact's path, as the run shows it.", example = "report.md"),
        ("Range" = Option<String>, Header, nullable = false, description = "The bytes that are wanted.", example = "bytes=0-1023"),
        ("If-None-Match" = Option<String>, Header, nullable = false, description = "An entity tag that the client has."),
    ),
    responses(
        (status = 200, description = "The content.", content_type = "*/*", body = inline(Content), example = json!("north 12\n")),
        (status = 206, description = "The bytes that were asked for.", content_type = "*/*", body = inline(Content), example = json!("north")),
        (status = 304, description = "The client has the content already."),
        (status = 412, description = "The content is another one than `If-Match` names.", body = sortie_api::ErrorBody),
        (status = 416, description = "The content has none of the bytes that were asked for.", body = sortie_api::ErrorBody),
    ),
    security(("api_key" = ["member"])),
)]
pub(crate) async fn get_run_artifact(
    State(app): State<Arc<App>>,
    who: Member,
    Below(id, path): Below<RunId>,
    (method, headers): (Method, HeaderMap),
) -> ApiResult<Response> {
    let stored = app.engine.stored_artifact(who.org, id, &path).await?;
    send(&app, stored, &method, &headers).await
}
