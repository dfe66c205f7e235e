//! `/v1/auth/me`, its export, and `/v1/me/password`: the account of the calling person.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use sortie_accounts::{Accounts, PersonExport};
use sortie_api::{
    SessionId,
    account::{AccountExport, ChangePassword, DeleteUser, ExportedChange, ExportedGrant, UpdateUser, User},
};
use sortie_store::people::PersonRow;

use super::{OrgApp, Person, identities, organizations, sessions};
use crate::kit::{ApiResult, Json, JsonBody};

pub(super) fn user(accounts: &Accounts, person: PersonRow) -> User {
    let hash = person.avatar.as_deref().and_then(|hash| hash.try_into().ok());
    User {
        id: person.id,
        avatar_url: hash.map(|hash| accounts.url_of_avatar(person.id, hash)),
        email: person.email,
        name: person.name,
        email_verified: person.email_verified_at.is_some(),
        second_factor: person.second_factor_since.is_some(),
        created_at: person.created_at,
    }
}

fn exported(accounts: &Accounts, export: PersonExport, current: SessionId) -> AccountExport {
    AccountExport {
        user: user(accounts, export.person),
        organizations: export
            .organizations
            .into_iter()
            .map(organizations::shown)
            .collect(),
        sessions: export
            .sessions
            .into_iter()
            .map(|session| sessions::shown(session, current))
            .collect(),
        grants: export
            .grants
            .into_iter()
            .map(|grant| ExportedGrant {
                id: grant.id,
                organization_id: grant.org,
                client_id: grant.client_id,
                client_name: grant.client_name,
                scope: grant.scope,
                created_at: grant.created_at,
                expires_at: grant.expires_at,
            })
            .collect(),
        identities: export.identities.into_iter().map(identities::shown).collect(),
        changes: export
            .changes
            .into_iter()
            .map(|(organization_id, entry)| ExportedChange {
                organization_id,
                entry,
            })
            .collect(),
    }
}

/// Get your account
///
/// Returns the account of the signed-in person.
#[utoipa::path(
    get, path = "/v1/auth/me", tag = "account",
    responses((status = 200, description = "The account.", body = User)),
)]
pub(crate) async fn get_user(State(app): State<Arc<OrgApp>>, who: Person) -> ApiResult<Json<User>> {
    let person = app.accounts.person(who.user).await?;
    Ok(Json(user(&app.accounts, person)))
}

/// Change your name
///
/// Changes the name that others see.
#[utoipa::path(
    patch, path = "/v1/auth/me", tag = "account",
    request_body(content = UpdateUser, description = "The new name."),
    responses((status = 200, description = "The account.", body = User)),
)]
pub(crate) async fn update_user(
    State(app): State<Arc<OrgApp>>,
    who: Person,
    JsonBody(request, _room): JsonBody<UpdateUser>,
) -> ApiResult<Json<User>> {
    let person = app.accounts.rename_person(who.user, &request.name).await?;
    Ok(Json(user(&app.accounts, person)))
}

/// Delete your account
///
/// Deletes the account with its sessions, memberships and permissions. The audit logs keep its id. An organization without
/// other members is deleted with everything in it, as by `DELETE /v1/organizations/{id}`. Counts against the
/// limit of 10 password attempts an hour.
#[utoipa::path(
    delete, path = "/v1/auth/me", tag = "account",
    request_body(content = DeleteUser, description = "The password of the account, if it has one."),
    responses(
        (status = 204, description = "The account is deleted."),
        (status = 403, description = "The account has no password, and the sign-in was more than ten minutes ago.", body = sortie_api::ErrorBody,
            example = json!({"error": "this account has no password: sign in again, and repeat this within ten minutes", "code": "forbidden"})),
        (status = 409, description = "You own an organization with other members, with credits, or with a subscription to licenses that renews.", body = sortie_api::ErrorBody),
    ),
)]
pub(crate) async fn delete_user(
    State(app): State<Arc<OrgApp>>,
    who: Person,
    JsonBody(request, _room): JsonBody<DeleteUser>,
) -> ApiResult<StatusCode> {
    let deleted = app
        .accounts
        .delete_person(who.user, who.proof(request.password), &who.actor)
        .await;
    // Also after an error: the account may have been deleted, and organizations with it.
    app.engine.erase_deleted();
    deleted?;
    Ok(StatusCode::NO_CONTENT)
}

/// Export your data
///
/// Returns what the service keeps about the signed-in person.
#[utoipa::path(
    get, path = "/v1/auth/me/export", tag = "account",
    responses((status = 200, description = "The data.", body = AccountExport)),
)]
pub(crate) async fn export_user(
    State(app): State<Arc<OrgApp>>,
    who: Person,
) -> ApiResult<Json<AccountExport>> {
    let export = app.accounts.export_person(who.user).await?;
    Ok(Json(exported(&app.accounts, export, who.session)))
}

/// Change your password
///
/// Changes the password, or sets the first one. The other sessions of the person end; the session of this request stays. At most 10 attempts an
/// hour.
#[utoipa::path(
    put, path = "/v1/me/password", tag = "account",
    request_body(content = ChangePassword, description = "The current password, if there is one, and the new password."),
    responses(
        (status = 204, description = "The password is changed."),
        (status = 403, description = "The account has no password, and the sign-in was more than ten minutes ago.", body = sortie_api::ErrorBody,
            example = json!({"error": "this account has no password: sign in again, and repeat this within ten minutes", "code": "forbidden"})),
        (status = 409, description = "The password was changed at the same time.", body = sortie_api::ErrorBody),
    ),
)]
pub(crate) async fn change_password(
    State(app): State<Arc<OrgApp>>,
    who: Person,
    JsonBody(request, _room): JsonBody<ChangePassword>,
) -> ApiResult<StatusCode> {
    app.accounts
        .change_password(
            (who.user, who.session),
            who.proof(request.current_password),
            request.new_password,
        )
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
