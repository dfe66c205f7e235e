//! `/v1/admin/keys`: API keys of a self-hosted engine. Keys of a hosted organization belong to the organization API.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::StatusCode;
use sortie_api::{
    KeyId, OrgId,
    key::{ApiKey, CreateKey, CreatedKey, RotateKey},
};
use sortie_store::Store;

use super::listing::{Form, Listing, entries};
use crate::{
    app::App,
    kit::{Admin, ApiResult, BodyBudget, JsonBody, Path, Query, shown_once},
};

/// List API keys
///
/// Lists the organization's keys, oldest first, without their secrets; expired keys are included. Self-hosted engines
/// only.
#[utoipa::path(
    get, path = "/v1/admin/keys", tag = "administration",
    responses((status = 200, description = "The keys.", body = [ApiKey], example = json!([{
        "id": "key_01kafs6w1cefkstv6qr1ptb0mp", "name": "deploy pipeline", "role": "member",
        "created_at": "2026-11-20T21:30:00.000Z", "expires_at": "2027-02-20T00:00:00.000Z"
    }]))),
)]
pub(crate) async fn list_keys(
    State(app): State<Arc<App>>,
    who: Admin,
    Query(()): Query<()>,
) -> ApiResult<Response> {
    keys_of(app.engine.store().clone(), who.org, &app.bodies).await
}

/// Lists the keys of an organization.
pub(crate) async fn keys_of(store: Store, org: OrgId, bodies: &BodyBudget) -> ApiResult<Response> {
    let list = Listing {
        stretch: 100,
        read: move |after, limit| {
            let store = store.clone();
            async move {
                let keys = store.list_keys(org, after, limit).await?;
                entries(&keys, |key| (key.created_at, key.id))
            }
        },
        after: None,
        limit: u32::MAX,
        form: Form::Array,
    };
    list.respond(bodies).await
}

/// Create an API key
///
/// Creates a key. Only this answer shows the secret. Self-hosted engines only.
#[utoipa::path(
    post, path = "/v1/admin/keys", tag = "administration",
    request_body(content = CreateKey, description = "Name, role and expiry of the key.",
        example = json!({"name": "deploy pipeline", "role": "member", "expires_at": "2999-12-31T00:00:00.000Z"})),
    responses((status = 201, description = "The key with its secret.", body = CreatedKey, links(
        ("rotate_key" = (operation_id = "rotate_key", parameters(("id" = "$response.body#/id")))),
        ("delete_key" = (operation_id = "delete_key", parameters(("id" = "$response.body#/id")))),
    ), example = json!({
        "id": "key_01kafs6w1cefkstv6qr1ptb0mp", "name": "deploy pipeline", "role": "member",
        "key": "sts_…", "expires_at": "2999-12-31T00:00:00.000Z"
    }))),
)]
pub(crate) async fn create_key(
    State(app): State<Arc<App>>,
    who: Admin,
    JsonBody(request, _room): JsonBody<CreateKey>,
) -> ApiResult<Response> {
    let created = app.engine.create_key(&who, request).await?;
    tracing::info!(key.id = %created.id, key.role = %created.role, by = %who.actor, "created an API key");
    Ok(shown_once(StatusCode::CREATED, &created))
}

/// Rotate an API key
///
/// Gives the key a new secret, which only this answer shows. The previous secret works for `grace_seconds` more; an
/// older one stops at once. Id, role and expiry stay. Self-hosted engines only.
#[utoipa::path(
    post, path = "/v1/admin/keys/{id}/rotate", tag = "administration",
    params(("id" = KeyId, Path, description = "The key's id.", example = "key_01kafs6w1cefkstv6qr1ptb0mp")),
    request_body(content = RotateKey, description = "Time for which the previous secret still works.", example = json!({"grace_seconds": 3600})),
    responses(
        (status = 200, description = "The key with its new secret.", body = CreatedKey, example = json!({
            "id": "key_01kafs6w1cefkstv6qr1ptb0mp", "name": "deploy pipeline", "role": "member", "key": "sts_…",
            "previous_until": "2026-11-20T22:30:00.000Z"
        })),
        (status = 409, description = "The key has expired.", body = sortie_api::ErrorBody,
            example = json!({"error": "the key has expired: make a new one", "code": "conflict"})),
    ),
)]
pub(crate) async fn rotate_key(
    State(app): State<Arc<App>>,
    who: Admin,
    Path(id): Path<KeyId>,
    JsonBody(request, _room): JsonBody<RotateKey>,
) -> ApiResult<Response> {
    let rotated = app.engine.rotate_key(&who, id, &request).await?;
    tracing::info!(key.id = %id, by = %who.actor, "rotated an API key");
    Ok(shown_once(StatusCode::OK, &rotated))
}

/// Revoke an API key
///
/// Revokes the key: it is refused from then on. The last admin key that does not expire cannot be revoked, so that an
/// administrator remains. Self-hosted engines only.
#[utoipa::path(
    delete, path = "/v1/admin/keys/{id}", tag = "administration",
    params(("id" = KeyId, Path, description = "The key's id.", example = "key_01kafs6w1cefkstv6qr1ptb0mp")),
    responses(
        (status = 204, description = "The key is revoked."),
        (status = 409, description = "The key is the last admin key that does not expire.", body = sortie_api::ErrorBody),
    ),
)]
pub(crate) async fn delete_key(
    State(app): State<Arc<App>>,
    who: Admin,
    Path(id): Path<KeyId>,
) -> ApiResult<StatusCode> {
    app.engine.delete_key(&who, id).await?;
    tracing::info!(key.id = %id, by = %who.actor, "revoked an API key");
    Ok(StatusCode::NO_CONTENT)
}
