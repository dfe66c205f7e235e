//! `/v1/organizations`: the organizations of a person.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use sortie_api::membership::{DeleteOrganization, Organization, OrganizationName};
use sortie_store::people::OwnOrganization;

use super::{OrgApp, Person, VerifiedPerson};
use crate::kit::{Admin, ApiResult, Json, JsonBody, Owner};

pub(super) fn shown(organization: OwnOrganization) -> Organization {
    Organization {
        id: organization.id,
        name: organization.name,
        role: organization.role,
        suspended: organization.suspended,
    }
}

/// List organizations
///
/// Lists the organizations of the signed-in person, oldest first, with the person's role in each.
#[utoipa::path(
    get, path = "/v1/organizations", tag = "organizations",
    responses((status = 200, description = "The organizations.", body = [Organization], example = json!([
        {"id": "org_01kafs6w1cefkstv6qr1ptb0mp", "name": "Example Ltd", "role": "owner"}
    ]))),
)]
pub(crate) async fn list_organizations(
    State(app): State<Arc<OrgApp>>,
    who: Person,
) -> ApiResult<Json<Vec<Organization>>> {
    let found = app.accounts.organizations(who.user).await?;
    Ok(Json(found.into_iter().map(shown).collect()))
}

/// Create an organization
///
/// Creates an organization that the signed-in person owns. A person creates at most 20 in an hour. Where mail is configured,
/// the person's address must be verified.
#[utoipa::path(
    post, path = "/v1/organizations", tag = "organizations",
    request_body(content = OrganizationName, description = "Name of the organization.", example = json!({"name": "Example Ltd"})),
    responses((status = 201, description = "The organization.", body = Organization, example = json!(
        {"id": "org_01kafs6w1cefkstv6qr1ptb0mp", "name": "Example Ltd", "role": "owner"}
    ))),
)]
pub(crate) async fn create_organization(
    State(app): State<Arc<OrgApp>>,
    VerifiedPerson(who): VerifiedPerson,
    JsonBody(request, _room): JsonBody<OrganizationName>,
) -> ApiResult<(StatusCode, Json<Organization>)> {
    let created = app
        .accounts
        .create_organization((who.user, &who.actor), &request.name)
        .await?;
    Ok((StatusCode::CREATED, Json(shown(created))))
}

/// Rename an organization
///
/// Changes the name of the organization.
#[utoipa::path(
    patch, path = "/v1/organizations/{id}", tag = "organizations",
    params(("id" = sortie_api::OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    request_body(content = OrganizationName, description = "New name of the organization.", example = json!({"name": "Example Ltd"})),
    responses((status = 200, description = "The organization.", body = Organization, example = json!(
        {"id": "org_01kafs6w1cefkstv6qr1ptb0mp", "name": "Example Ltd", "role": "admin"}
    ))),
)]
pub(crate) async fn rename_organization(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
    JsonBody(request, _room): JsonBody<OrganizationName>,
) -> ApiResult<Json<Organization>> {
    let name = app.accounts.rename_organization(&who, &request.name).await?;
    Ok(Json(Organization {
        id: who.org,
        name,
        role: who.role,
        suspended: false,
    }))
}

/// Delete an organization
///
/// Deletes the organization with everything in it, for good. Its keys, members, invitations and the access of applications end
/// at once, on other nodes within five seconds. Its runs are cancelled, waiting callbacks are not sent. Its runs, files,
/// workflows, schedules, connections and budgets are deleted soon afterwards. The audit log and the usage by day stay, for the
/// operator. The body repeats the name of the organization, as the confirmation, and has the password of the account. An account
/// without one needs a sign-in of the last ten minutes. Counts against the limit of 10
/// password attempts an hour.
#[utoipa::path(
    delete, path = "/v1/organizations/{id}", tag = "organizations",
    params(("id" = sortie_api::OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    request_body(content = DeleteOrganization, description = "Name of the organization, and the password of the account, if it has one.",
        example = json!({"name": "Example Ltd", "password": "correct horse battery staple"})),
    responses(
        (status = 204, description = "The organization is deleted."),
        (status = 403, description = "You are not the owner, the organization is suspended, or the account has no password and the sign-in was more than ten minutes ago.",
            body = sortie_api::ErrorBody, example = json!({"error": "this needs the role owner", "code": "forbidden"})),
        (status = 409, description = "The organization has a subscription to licenses that renews, or was renamed or handed over at the same time.", body = sortie_api::ErrorBody,
            example = json!({"error": "name: the organization was renamed at the same time", "code": "conflict"})),
    ),
)]
pub(crate) async fn delete_organization(
    State(app): State<Arc<OrgApp>>,
    who: Owner,
    person: Person,
    JsonBody(request, _room): JsonBody<DeleteOrganization>,
) -> ApiResult<StatusCode> {
    let confirmed = (request.name.as_str(), person.proof(request.password));
    let deleted = app
        .accounts
        .delete_organization((&who, person.user), confirmed)
        .await;
    // Also after an error: the organization may have been deleted.
    app.engine.erase_deleted();
    deleted?;
    tracing::info!(organization = %who.org, "deleted an organization");
    Ok(StatusCode::NO_CONTENT)
}
