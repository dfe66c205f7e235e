//! `/v1/runs/{id}/artifacts`: the files that a run wrote to `outputs/`.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::{HeaderMap, Method};
use sortie_api::{Artifact, RunId};

use super::files::{Content, send};
use crate::{
    app::App,
    kit::{ApiResult, Below, Json, Path, Query, RunReader},
};

/// List the artifacts of a run
///
/// Lists the files that the agent left under `outputs/` in its working directory, by path. They are stored before the
/// run becomes final. A run that is not final, was cancelled or was interrupted has none.
#[utoipa::path(
    get, path = "/v1/runs/{id}/artifacts", tag = "runs",
    params(("id" = RunId, Path, description = "The run's id.", example = "run_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 200, description = "The artifacts.", body = [Artifact], example = json!([{
        "path": "charts/north.svg", "size": 18_204, "content_type": "image/svg+xml",
        "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    }]))),
)]
pub(crate) async fn list_run_artifacts(
    State(app): State<Arc<App>>,
    who: RunReader,
    Path(id): Path<RunId>,
    Query(()): Query<()>,
) -> ApiResult<Json<Vec<Artifact>>> {
    Ok(Json(app.engine.run_artifacts(who.org, id).await?))
}

/// Download an artifact of a run
///
/// Returns the content as a download. The slashes of `path` may be sent as they are. `ETag` is the SHA-256. `Range` and
/// conditions work as for the content of a file.
#[utoipa::path(
    get, path = "/v1/runs/{id}/artifacts/{*path}", tag = "runs",
    params(
        ("id" = RunId, Path, description = "The run's id.", example = "run_01kafs6w1cefkstv6qr1ptb0mp"),
        ("path" = String, Path, description = "Path of the artifact, as in the run object.", example = "report.md"),
        ("Range" = Option<String>, Header, nullable = false, description = "Range of bytes to send.", example = "bytes=0-1023"),
        ("If-None-Match" = Option<String>, Header, nullable = false, description = "Entity tag of the content that the client has."),
    ),
    responses(
        (status = 200, description = "The content.", content(
            (inline(Content) = "application/octet-stream", example = json!("north 12\n")),
            (inline(Content) = "*/*", example = json!("north 12\n")),
        )),
        (status = 206, description = "The requested bytes.", content(
            (inline(Content) = "application/octet-stream", example = json!("north")),
            (inline(Content) = "*/*", example = json!("north")),
        )),
        (status = 304, description = "The client has the content already."),
        (status = 412, description = "The content does not match `If-Match`.", body = sortie_api::ErrorBody),
        (status = 416, description = "The requested bytes are beyond the end of the content.", body = sortie_api::ErrorBody),
    ),
)]
pub(crate) async fn get_run_artifact(
    State(app): State<Arc<App>>,
    who: RunReader,
    Below(id, path): Below<RunId>,
    (method, headers): (Method, HeaderMap),
) -> ApiResult<Response> {
    let stored = app.engine.stored_artifact(who.org, id, &path).await?;
    send(&app, stored, &method, &headers).await
}
