//! `/v1/admin/keys`: API keys of a self-hosted engine. Hosted, keys belong to the organization API: 404 here.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, StatusCode, header::CACHE_CONTROL};
use sortie_api::{
    KeyId, Mode,
    key::{ApiKey, CreateKey, CreatedKey},
};

use crate::{
    app::App,
    kit::{Admin, ApiError, ApiResult, Json, JsonBody, Path},
};

fn self_hosted(app: &App) -> ApiResult<()> {
    match app.engine.mode() {
        Mode::SelfHosted => Ok(()),
        Mode::Hosted => Err(ApiError::not_found("keys are managed in the organization API")),
    }
}

/// List API keys
///
/// The organization's keys, oldest first, without their secrets. Self-hosted engines only.
#[utoipa::path(
    get, path = "/v1/admin/keys", tag = "administration",
    responses((status = 200, description = "The keys.", body = [ApiKey], example = json!([{
        "id": "key_01kafs6w1cefkstv6qr1ptb0mp", "name": "deploy pipeline", "role": "member",
        "created_at": "2026-11-20T21:30:00.000Z"
    }]))),
    security(("api_key" = ["admin"])),
)]
pub(crate) async fn list_keys(State(app): State<Arc<App>>, who: Admin) -> ApiResult<Json<Vec<ApiKey>>> {
    self_hosted(&app)?;
    Ok(Json(app.engine.store().list_keys(who.org).await?))
}

/// Create an API key
///
/// The answer is the only one that ever shows the secret. Self-hosted engines only.
#[utoipa::path(
    post, path = "/v1/admin/keys", tag = "administration",
    request_body(content = CreateKey, description = "What the key is for, and what it may do.",
        example = json!({"name": "deploy pipeline", "role": "member"})),
    responses((status = 201, description = "The key with its secret.", body = CreatedKey, links(
        ("delete_key" = (operation_id = "delete_key", parameters(("id" = "$response.body#/id")))),
    ), example = json!({
        "id": "key_01kafs6w1cefkstv6qr1ptb0mp", "name": "deploy pipeline", "role": "member",
        "key": "sts_…"
    }))),
    security(("api_key" = ["admin"])),
)]
pub(crate) async fn create_key(
    State(app): State<Arc<App>>,
    who: Admin,
    JsonBody(request, _room): JsonBody<CreateKey>,
) -> ApiResult<Response> {
    self_hosted(&app)?;
    let created = app.engine.create_key(who.org, request).await?;
    tracing::info!(key.id = %created.id, key.role = %created.role, by = %who.key, "API key created");
    let mut response = (StatusCode::CREATED, Json(created)).into_response();
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Revoke an API key
///
/// The key is refused from then on. The last admin key cannot be revoked. Self-hosted engines only.
#[utoipa::path(
    delete, path = "/v1/admin/keys/{id}", tag = "administration",
    params(("id" = KeyId, Path, description = "The key's id.", example = "key_01kafs6w1cefkstv6qr1ptb0mp")),
    responses(
        (status = 204, description = "The key is revoked."),
        (status = 409, description = "It is the last admin key.", body = sortie_api::ErrorBody),
    ),
    security(("api_key" = ["admin"])),
)]
pub(crate) async fn delete_key(
    State(app): State<Arc<App>>,
    who: Admin,
    Path(id): Path<KeyId>,
) -> ApiResult<StatusCode> {
    self_hosted(&app)?;
    app.engine.delete_key(who.org, id).await?;
    tracing::info!(key.id = %id, by = %who.key, "API key revoked");
    Ok(StatusCode::NO_CONTENT)
}
