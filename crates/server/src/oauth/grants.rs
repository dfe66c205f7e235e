//! Applications that act for a person: list and revocation.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use sortie_api::{GrantId, OrgId, Role, Timestamp};
use sortie_store::oauth::GrantRow;
use utoipa::ToSchema;

use crate::{
    kit::{ApiResult, Json, Path},
    org::{OrgApp, Person},
};

/// Application that acts for a person in an organization.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Grant {
    /// ID of the grant.
    id: GrantId,
    /// Organization in which the application acts.
    organization: GrantedOrganization,
    /// ID of the application.
    client_id: String,
    /// Name that the application calls itself by.
    client_name: String,
    /// Highest role of the application: `member` or `admin`.
    scope: Role,
    /// Time at which the person allowed it.
    created_at: Timestamp,
    /// Time at which the application last got tokens.
    used_at: Timestamp,
    /// End of the access.
    expires_at: Timestamp,
}

/// Organization of a grant.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GrantedOrganization {
    /// ID of the organization.
    id: OrgId,
    /// Name of the organization.
    name: String,
}

impl From<GrantRow> for Grant {
    fn from(row: GrantRow) -> Self {
        Self {
            id: row.id,
            organization: GrantedOrganization {
                id: row.org,
                name: row.org_name,
            },
            client_id: row.client_id,
            client_name: row.client_name,
            scope: row.scope,
            created_at: row.created_at,
            used_at: row.used_at,
            expires_at: row.expires_at,
        }
    }
}

/// List applications
///
/// Returns the applications that act for the signed-in person, at most 100.
#[utoipa::path(
    get, path = "/v1/auth/grants", tag = "oauth",
    responses((status = 200, description = "The applications.", body = Vec<Grant>, example = json!([{
        "id": "grant_01kafs6w1cefkstv6qr1ptb0mp",
        "organization": {"id": "org_01kafs6w1cefkstv6qr1ptb0mp", "name": "Acme"},
        "client_id": "client_01kafs6w1cefkstv6qr1ptb0mp", "client_name": "App", "scope": "member",
        "created_at": "2026-11-20T10:00:00.000Z", "used_at": "2026-11-21T10:00:00.000Z",
        "expires_at": "2027-05-19T10:00:00.000Z"
    }]))),
)]
pub(crate) async fn list_grants(
    State(app): State<Arc<OrgApp>>,
    person: Person,
) -> ApiResult<Json<Vec<Grant>>> {
    let grants = app.accounts.grants(person.user).await?;
    Ok(Json(grants.into_iter().map(Grant::from).collect()))
}

/// End the access of an application
///
/// Ends a grant with all its tokens. Nodes that have just accepted a token refuse it within five seconds.
#[utoipa::path(
    delete, path = "/v1/auth/grants/{grant_id}", tag = "oauth",
    params(("grant_id" = GrantId, Path, description = "ID of the grant.", example = "grant_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 204, description = "The access has ended.")),
)]
pub(crate) async fn end_grant(
    State(app): State<Arc<OrgApp>>,
    person: Person,
    Path(grant): Path<GrantId>,
) -> ApiResult<StatusCode> {
    app.accounts.end_grant(person.user, grant, &person.actor).await?;
    Ok(StatusCode::NO_CONTENT)
}
