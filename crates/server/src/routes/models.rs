//! `GET /v1/models`.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use sortie_api::{Refusal, model::ModelCatalog};

use crate::{
    app::App,
    kit::{ApiResult, json_response},
};

/// List the models runs can use
///
/// Returns the catalog with prices, and the default model. Needs no key.
#[utoipa::path(
    get, path = "/v1/models", tag = "models",
    responses((status = 200, description = "The catalog.", body = ModelCatalog, example = json!({
        "default_model": "runbook",
        "models": [{
            "id": "runbook", "provider": "sortie", "name": "Runbook", "context_window": 1_000_000,
            "max_output_tokens": 262_144, "capabilities": ["tools", "offline"],
            "prices": {
                "input_micros_per_mtok": 0, "output_micros_per_mtok": 0,
                "cache_read_micros_per_mtok": 0, "cache_write_micros_per_mtok": 0
            }
        }]
    }))),
)]
pub(crate) async fn list_models(State(app): State<Arc<App>>) -> ApiResult<Response> {
    let body = serde_json::to_vec(app.engine.models()).map_err(Refusal::internal)?;
    Ok(json_response(body))
}
