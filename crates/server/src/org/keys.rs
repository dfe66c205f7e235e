//! `/v1/organizations/{id}/keys`: the API keys of an organization. They grant access to the engine API.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::StatusCode;
use sortie_api::{
    KeyId, OrgId,
    key::{ApiKey, CreateKey, CreatedKey, RotateKey},
};

use super::{OrgApp, Person, VerifiedPerson};
use crate::{
    kit::{Admin, ApiResult, Inner, JsonBody, shown_once},
    routes::keys_of,
};

/// List API keys
///
/// Lists the keys of the organization, oldest first, without their secrets; expired keys are included.
#[utoipa::path(
    get, path = "/v1/organizations/{id}/keys", tag = "keys",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 200, description = "The keys.", body = [ApiKey], example = json!([{
        "id": "key_01kafs6w1cefkstv6qr1ptb0mp", "name": "deploy pipeline", "role": "member",
        "created_at": "2026-11-20T21:30:00.000Z"
    }]))),
)]
pub(crate) async fn list_organization_keys(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
) -> ApiResult<Response> {
    keys_of(app.accounts.store().clone(), who.org, &app.bodies).await
}

/// Create an API key
///
/// Creates a key of the organization. Only this answer shows the secret. Where mail is configured, the address of the
/// signed-in person must be verified.
#[utoipa::path(
    post, path = "/v1/organizations/{id}/keys", tag = "keys",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    request_body(content = CreateKey, description = "Name, role and expiry of the key.",
        example = json!({"name": "deploy pipeline", "role": "member"})),
    responses((status = 201, description = "The key with its secret.", body = CreatedKey, example = json!({
        "id": "key_01kafs6w1cefkstv6qr1ptb0mp", "name": "deploy pipeline", "role": "member", "key": "sth_…"
    }))),
)]
pub(crate) async fn create_organization_key(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
    VerifiedPerson(person): VerifiedPerson,
    JsonBody(request, _room): JsonBody<CreateKey>,
) -> ApiResult<Response> {
    let created = app.engine.create_key(&who, request).await?;
    tracing::info!(key.id = %created.id, key.role = %created.role, user = %person.user, "created an API key");
    Ok(shown_once(StatusCode::CREATED, &created))
}

/// Rotate an API key
///
/// Gives the key a new secret, which only this answer shows. The previous secret works for `grace_seconds` more; an older
/// one stops at once. Id, role and expiry stay.
#[utoipa::path(
    post, path = "/v1/organizations/{id}/keys/{key_id}/rotate", tag = "keys",
    params(
        ("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp"),
        ("key_id" = KeyId, Path, description = "The key.", example = "key_01kafs6w1cefkstv6qr1ptb0mp"),
    ),
    request_body(content = RotateKey, description = "Time for which the previous secret still works.", example = json!({"grace_seconds": 3600})),
    responses(
        (status = 200, description = "The key with its new secret.", body = CreatedKey, example = json!({
            "id": "key_01kafs6w1cefkstv6qr1ptb0mp", "name": "deploy pipeline", "role": "member", "key": "sth_…",
            "previous_until": "2026-11-20T22:30:00.000Z"
        })),
        (status = 409, description = "The key has expired.", body = sortie_api::ErrorBody,
            example = json!({"error": "the key has expired: make a new one", "code": "conflict"})),
    ),
)]
pub(crate) async fn rotate_organization_key(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
    person: Person,
    Inner(id): Inner<KeyId>,
    JsonBody(request, _room): JsonBody<RotateKey>,
) -> ApiResult<Response> {
    let rotated = app.engine.rotate_key(&who, id, &request).await?;
    tracing::info!(key.id = %id, user = %person.user, "rotated an API key");
    Ok(shown_once(StatusCode::OK, &rotated))
}

/// Revoke an API key
///
/// Revokes the key: it is refused from then on, on every node within five seconds. The last admin key can be revoked too,
/// as the organization is administered by people.
#[utoipa::path(
    delete, path = "/v1/organizations/{id}/keys/{key_id}", tag = "keys",
    params(
        ("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp"),
        ("key_id" = KeyId, Path, description = "The key.", example = "key_01kafs6w1cefkstv6qr1ptb0mp"),
    ),
    responses((status = 204, description = "The key is revoked.")),
)]
pub(crate) async fn delete_organization_key(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
    person: Person,
    Inner(id): Inner<KeyId>,
) -> ApiResult<StatusCode> {
    app.engine.delete_key(&who, id).await?;
    tracing::info!(key.id = %id, user = %person.user, "revoked an API key");
    Ok(StatusCode::NO_CONTENT)
}
