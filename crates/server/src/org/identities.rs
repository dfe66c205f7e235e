//! `/v1/auth/identities`: the identity providers that a person signs in with.

use std::sync::Arc;

use axum::extract::State;
use sortie_api::account::LinkedIdentity;
use sortie_store::IdentityRow;

use super::{OrgApp, Person};
use crate::kit::{ApiResult, Json};

pub(super) fn shown(row: IdentityRow) -> LinkedIdentity {
    LinkedIdentity {
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
