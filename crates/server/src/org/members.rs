//! `/v1/organizations/{id}/members`, `…/leave` and `…/ownership`: members of an organization and their roles.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use sortie_api::{
    OrgId, UserId,
    membership::{ChangeRole, OrganizationMember, TransferOwnership},
};
use sortie_store::people::MemberRow;

use super::{OrgApp, Person};
use crate::kit::{Admin, ApiResult, Inner, Json, JsonBody, Member, Owner};

fn shown(app: &OrgApp, member: MemberRow) -> OrganizationMember {
    let avatar = member.avatar;
    OrganizationMember {
        avatar_url: avatar.map(|hash| app.accounts.url_of_avatar(member.user, &hash)),
        id: member.user,
        email: member.email,
        name: member.name,
        role: member.role,
    }
}

/// List members
///
/// Lists the members of the organization with their roles, in the order in which they signed up.
#[utoipa::path(
    get, path = "/v1/organizations/{id}/members", tag = "organizations",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 200, description = "The members.", body = [OrganizationMember], example = json!([
        {"id": "user_01kafs6w1cefkstv6qr1ptb0mp", "email": "ann@example.com", "name": "Ann", "role": "owner"}
    ]))),
)]
pub(crate) async fn list_members(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
) -> ApiResult<Json<Vec<OrganizationMember>>> {
    let members = app.accounts.members(who.org).await?;
    Ok(Json(
        members.into_iter().map(|member| shown(&app, member)).collect(),
    ))
}

/// Change a role
///
/// Makes a member an admin or a member. The owner keeps the role: the ownership is handed over instead.
#[utoipa::path(
    patch, path = "/v1/organizations/{id}/members/{user_id}", tag = "organizations",
    params(
        ("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp"),
        ("user_id" = UserId, Path, description = "The member.", example = "user_01kafs6w1cefkstv6qr1ptb0mp"),
    ),
    request_body(content = ChangeRole, description = "New role of the member.", example = json!({"role": "admin"})),
    responses(
        (status = 200, description = "The member.", body = OrganizationMember, example = json!(
            {"id": "user_01kafs6w1cefkstv6qr1ptb0mp", "email": "ann@example.com", "name": "Ann", "role": "admin"}
        )),
        (status = 409, description = "The person owns the organization.", body = sortie_api::ErrorBody, example = json!(
            {"error": "the owner can be neither changed nor removed: hand the ownership over first", "code": "conflict"}
        )),
    ),
)]
pub(crate) async fn change_member_role(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
    Inner(user): Inner<UserId>,
    JsonBody(request, _room): JsonBody<ChangeRole>,
) -> ApiResult<Json<OrganizationMember>> {
    let member = app.accounts.change_role(&who, user, request.role.into()).await?;
    Ok(Json(shown(&app, member)))
}

/// Remove a member
///
/// Removes a person from the organization, with what applications may do there for the person. API keys stay: they belong
/// to the organization. The owner cannot be removed.
#[utoipa::path(
    delete, path = "/v1/organizations/{id}/members/{user_id}", tag = "organizations",
    params(
        ("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp"),
        ("user_id" = UserId, Path, description = "The member.", example = "user_01kafs6w1cefkstv6qr1ptb0mp"),
    ),
    responses(
        (status = 204, description = "The person is not a member."),
        (status = 409, description = "The person owns the organization.", body = sortie_api::ErrorBody, example = json!(
            {"error": "the owner can be neither changed nor removed: hand the ownership over first", "code": "conflict"}
        )),
    ),
)]
pub(crate) async fn remove_member(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
    Inner(user): Inner<UserId>,
) -> ApiResult<StatusCode> {
    app.accounts.remove_member(&who, user).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Leave an organization
///
/// Ends the membership of the signed-in person. An owner must transfer the ownership first. A suspended organization can be
/// left too.
#[utoipa::path(
    post, path = "/v1/organizations/{id}/leave", tag = "organizations",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    responses(
        (status = 204, description = "The person is not a member."),
        (status = 409, description = "The person owns the organization.", body = sortie_api::ErrorBody, example = json!(
            {"error": "the owner can be neither changed nor removed: hand the ownership over first", "code": "conflict"}
        )),
    ),
)]
pub(crate) async fn leave_organization(
    State(app): State<Arc<OrgApp>>,
    who: Member,
    person: Person,
) -> ApiResult<StatusCode> {
    app.accounts.leave(&who, person.user).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Hand over the ownership
///
/// Makes another member the owner. The former owner becomes an admin. Both get a mail, if mail is configured.
#[utoipa::path(
    post, path = "/v1/organizations/{id}/ownership", tag = "organizations",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    request_body(content = TransferOwnership, description = "Member who becomes the owner.",
        example = json!({"user_id": "user_01kafs6w1cefkstv6qr1ptb0mp"})),
    responses(
        (status = 204, description = "The member owns the organization."),
        (status = 409, description = "The person owns the organization no more, or already.", body = sortie_api::ErrorBody, example = json!(
            {"error": "only the owner can hand the ownership over", "code": "conflict"}
        )),
    ),
)]
pub(crate) async fn transfer_ownership(
    State(app): State<Arc<OrgApp>>,
    who: Owner,
    person: Person,
    JsonBody(request, _room): JsonBody<TransferOwnership>,
) -> ApiResult<StatusCode> {
    app.accounts
        .transfer_ownership(&who, (person.user, request.user_id))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
