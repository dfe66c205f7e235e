//! `/v1/organizations/{id}/invitations` and `/v1/invitations/accept`.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::StatusCode;
use sortie_api::{
    InvitationId, OrgId,
    membership::{AcceptInvitation, CreateInvitation, CreatedInvitation, Invitation, Organization},
};
use sortie_store::people::InvitationRow;

use super::{OrgApp, Person, VerifiedPerson, organizations};
use crate::kit::{Admin, ApiResult, Inner, Json, JsonBody, shown_once};

fn shown(invitation: InvitationRow) -> Invitation {
    Invitation {
        id: invitation.id,
        email: invitation.email,
        role: invitation.role,
        invited_by: invitation.invited_by,
        created_at: invitation.created_at,
        expires_at: invitation.expires_at,
    }
}

/// List invitations
///
/// Lists the open invitations of the organization, in the order of their addresses. Their tokens are not shown.
#[utoipa::path(
    get, path = "/v1/organizations/{id}/invitations", tag = "organizations",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 200, description = "The invitations.", body = [Invitation], example = json!([{
        "id": "inv_01kafs6w1cefkstv6qr1ptb0mp", "email": "bob@example.com", "role": "member",
        "invited_by": "user_01kafs6w1cefkstv6qr1ptb0mp",
        "created_at": "2026-11-20T21:30:00.000Z", "expires_at": "2026-11-27T21:30:00.000Z"
    }]))),
)]
pub(crate) async fn list_invitations(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
) -> ApiResult<Json<Vec<Invitation>>> {
    let invitations = app.accounts.invitations(who.org).await?;
    Ok(Json(invitations.into_iter().map(shown).collect()))
}

/// Invite a person
///
/// Invites an email address into the organization, in place of an earlier invitation of the address. Only a person with
/// this address can accept, within seven days. The person gets a mail where mail is configured. Share `url` privately unless
/// `email_delivery` is `accepted`. An organization has at most 50 open invitations and makes at most 20 in an hour.
#[utoipa::path(
    post, path = "/v1/organizations/{id}/invitations", tag = "organizations",
    params(("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp")),
    request_body(content = CreateInvitation, description = "Address and role of the person.",
        example = json!({"email": "bob@example.com", "role": "member"})),
    responses(
        (status = 201, description = "The invitation with its token.", body = CreatedInvitation, example = json!({
            "id": "inv_01kafs6w1cefkstv6qr1ptb0mp", "email": "bob@example.com", "role": "member",
            "invited_by": "user_01kafs6w1cefkstv6qr1ptb0mp",
            "created_at": "2026-11-20T21:30:00.000Z", "expires_at": "2026-11-27T21:30:00.000Z",
            "token": "sti_…", "url": "https://accounts.example.com/invitations/accept?token=sti_…",
            "email_delivery": "accepted"
        })),
        (status = 409, description = "The person is a member already, or the organization has 50 open invitations.",
            body = sortie_api::ErrorBody, example = json!(
            {"error": "email: this person is a member of the organization already", "code": "conflict"}
        )),
    ),
)]
pub(crate) async fn create_invitation(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
    VerifiedPerson(person): VerifiedPerson,
    JsonBody(request, _room): JsonBody<CreateInvitation>,
) -> ApiResult<Response> {
    let role = request.role.into();
    let link = app
        .accounts
        .invite((&who, person.user), role, &request.email)
        .await?;
    let created = CreatedInvitation {
        invitation: shown(link.invitation),
        token: link.token.expose().to_owned(),
        url: link.url,
        email_delivery: link.email_delivery,
    };
    Ok(shown_once(StatusCode::CREATED, &created))
}

/// Withdraw an invitation
///
/// Ends an invitation: its token works no more.
#[utoipa::path(
    delete, path = "/v1/organizations/{id}/invitations/{invitation_id}", tag = "organizations",
    params(
        ("id" = OrgId, Path, description = "The organization.", example = "org_01kafs6w1cefkstv6qr1ptb0mp"),
        ("invitation_id" = InvitationId, Path, description = "The invitation.", example = "inv_01kafs6w1cefkstv6qr1ptb0mp"),
    ),
    responses((status = 204, description = "The invitation is withdrawn.")),
)]
pub(crate) async fn withdraw_invitation(
    State(app): State<Arc<OrgApp>>,
    who: Admin,
    Inner(id): Inner<InvitationId>,
) -> ApiResult<StatusCode> {
    app.accounts.withdraw_invitation(&who, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Accept an invitation
///
/// Makes the signed-in person a member of the organization that invites. The person's address must be the invited one and,
/// where mail is configured, verified. A person who is a member already keeps the role.
#[utoipa::path(
    post, path = "/v1/invitations/accept", tag = "organizations",
    request_body(content = AcceptInvitation, description = "Token of the invitation.", example = json!({"token": "sti_…"})),
    responses(
        (status = 200, description = "The organization, with the person's role there.", body = Organization, example = json!(
            {"id": "org_01kafs6w1cefkstv6qr1ptb0mp", "name": "Example Ltd", "role": "member"}
        )),
        (status = 404, description = "The invitation is unknown, used, withdrawn or expired.", body = sortie_api::ErrorBody,
            example = json!({"error": "not found", "code": "not_found"})),
    ),
)]
pub(crate) async fn accept_invitation(
    State(app): State<Arc<OrgApp>>,
    who: Person,
    JsonBody(request, _room): JsonBody<AcceptInvitation>,
) -> ApiResult<Json<Organization>> {
    let accepted = app
        .accounts
        .accept_invitation((who.user, &who.actor), &request.token)
        .await?;
    Ok(Json(organizations::shown(accepted)))
}
