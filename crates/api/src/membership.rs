//! Organizations of people: members, roles and invitations (`docs/ACCOUNTS.md`).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    credential::Credential,
    id::{InvitationId, OrgId, UserId},
    mail::EmailDelivery,
    object::{objects, read_objects},
    organization::Role,
    time::Timestamp,
};

/// Organization of the person who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Organization {
    /// ID of the organization.
    pub id: OrgId,
    /// Name of the organization.
    #[schema(example = "Example Ltd")]
    pub name: String,
    /// Role of the person in the organization.
    pub role: Role,
    /// Whether the operator has suspended the organization; absent where not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable = false)]
    pub suspended: bool,
}

/// Role that a member can be given: an organization has one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemberRole {
    /// Works with runs.
    Member,
    /// Also manages members, invitations, keys and payments.
    Admin,
}

impl From<MemberRole> for Role {
    fn from(role: MemberRole) -> Self {
        match role {
            MemberRole::Member => Self::Member,
            MemberRole::Admin => Self::Admin,
        }
    }
}

objects!(OrganizationName ChangeRole TransferOwnership CreateInvitation AcceptInvitation);
read_objects!(DeleteOrganization);

/// Body of `POST /v1/organizations` and `PATCH /v1/organizations/{id}`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct OrganizationName {
    /// Name of the organization: 1 to 200 characters after trimming, without control and invisible characters.
    #[schema(
        min_length = 1,
        max_length = 200,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$",
        example = "Example Ltd"
    )]
    pub name: String,
}

/// Body of `DELETE /v1/organizations/{id}`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct DeleteOrganization {
    /// Name of the organization, as the confirmation.
    #[schema(example = "Example Ltd")]
    pub name: String,
    /// Password of the account. An account without one needs a sign-in of the last ten minutes instead.
    #[schema(value_type = Option<String>, nullable = false, format = Password, example = "correct horse battery staple")]
    pub password: Option<Credential>,
}

/// Member of an organization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OrganizationMember {
    /// ID of the person.
    pub id: UserId,
    /// Email address of the person.
    #[schema(example = "ann@example.com")]
    pub email: String,
    /// Name of the person.
    #[schema(example = "Ann")]
    pub name: String,
    /// Role of the person in the organization.
    pub role: Role,
    /// Address of the person's picture; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub avatar_url: Option<String>,
}

/// Body of `PATCH /v1/organizations/{id}/members/{user_id}`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct ChangeRole {
    /// New role of the member.
    pub role: MemberRole,
}

/// Body of `POST /v1/organizations/{id}/ownership`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct TransferOwnership {
    /// Member who becomes the owner.
    pub user_id: UserId,
}

/// Body of `POST /v1/organizations/{id}/invitations`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct CreateInvitation {
    /// Email address of the person to invite.
    #[schema(min_length = 3, max_length = 254, example = "bob@example.com")]
    pub email: String,
    /// Role of the person once the invitation is accepted.
    pub role: MemberRole,
}

/// Invitation that has not been accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Invitation {
    /// ID of the invitation.
    pub id: InvitationId,
    /// Email address of the person who is invited.
    #[schema(example = "bob@example.com")]
    pub email: String,
    /// Role of the person once the invitation is accepted.
    pub role: Role,
    /// ID of the person who invites.
    pub invited_by: UserId,
    /// Time of the invitation.
    pub created_at: Timestamp,
    /// End of the invitation, seven days later.
    pub expires_at: Timestamp,
}

/// Answer of `POST /v1/organizations/{id}/invitations`: the only time the token is shown.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct CreatedInvitation {
    /// The invitation.
    #[serde(flatten)]
    pub invitation: Invitation,
    /// Token that accepts the invitation, for the person with this email address.
    #[schema(example = "sti_…")]
    pub token: String,
    /// Page that accepts the invitation, to share with the person.
    #[schema(example = "https://accounts.example.com/invitations/accept?token=sti_…")]
    pub url: String,
    /// Outcome of the mail to the person. Share `url` privately unless it is `accepted`.
    pub email_delivery: EmailDelivery,
}

/// Body of `POST /v1/invitations/accept`.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct AcceptInvitation {
    /// Token of the invitation.
    #[schema(example = "sti_…")]
    pub token: String,
}
