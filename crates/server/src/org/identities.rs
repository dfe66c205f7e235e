//! `/v1/auth/identities`: the identity providers that a person signs in with.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use sortie_accounts::identity_id;
use sortie_api::account::LinkedIdentity;
use sortie_store::people::IdentityRow;

use super::{OrgApp, Person};
use crate::kit::{ApiResult, Json, Path};

pub(super) fn shown(row: IdentityRow) -> LinkedIdentity {
    LinkedIdentity {
        id: identity_id(&row.identity),
        issuer: row.identity.issuer,
        subject: row.identity.subject,
        created_at: row.created_at,
    }
}

/// List your identities
///
/// Lists the accounts at identity providers with which the signed-in person signs in, the earliest first, at most 100.
#[utoipa::path(
    get, path = "/v1/auth/identities", tag = "account",
    responses((status = 200, description = "The identities.", body = [LinkedIdentity])),
)]
pub(crate) async fn list_identities(
    State(app): State<Arc<OrgApp>>,
    who: Person,
) -> ApiResult<Json<Vec<LinkedIdentity>>> {
    let identities = app.accounts.identities(who.user).await?;
    Ok(Json(identities.into_iter().map(shown).collect()))
}

/// Unlink an identity
///
/// Ends an account at an identity provider as a way to sign in. The other sessions of the person end; the session of this
/// request stays. A provider that is trusted for the email address links it again at the next sign-in there.
#[utoipa::path(
    delete, path = "/v1/auth/identities/{id}", tag = "account",
    params(("id" = String, Path, description = "The identity.", example = "1f8a3bd2c4e5968770a1b2c3d4e5f607")),
    responses(
        (status = 204, description = "The identity is unlinked."),
        (status = 409, description = "The person has no other way to sign in.", body = sortie_api::ErrorBody,
            example = json!({"error": "this is the only way in which you sign in: set a password first", "code": "conflict"})),
    ),
)]
pub(crate) async fn unlink_identity(
    State(app): State<Arc<OrgApp>>,
    who: Person,
    Path(id): Path<String>,
) -> ApiResult<StatusCode> {
    app.accounts.unlink_identity(who.user, &id, who.session).await?;
    Ok(StatusCode::NO_CONTENT)
}
