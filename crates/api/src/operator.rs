//! Organizations and people, as shown to the operator of a hosted deployment (`docs/HOSTED.md#operators`).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    id::{OrgId, UserId},
    object::objects,
    time::Timestamp,
};

/// Organization of the deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OperatedOrganization {
    /// ID of the organization.
    pub id: OrgId,
    /// Name of the organization.
    #[schema(example = "Example Ltd")]
    pub name: String,
    /// Time of the creation.
    pub created_at: Timestamp,
    /// Owner of the organization; absent where no person owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub owner: Option<OperatedOwner>,
    /// Number of members, with the owner.
    #[schema(minimum = 0)]
    pub members: i64,
    /// Bytes of files and artifacts that the organization has stored.
    #[schema(minimum = 0)]
    pub stored_bytes: i64,
    /// Time of the suspension; absent while the organization is not suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub suspended_at: Option<Timestamp>,
    /// Time at which the owner deleted the organization; absent where not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub deleted_at: Option<Timestamp>,
    /// Reason of the suspension; absent where none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub suspension_reason: Option<String>,
}

/// Owner of an organization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OperatedOwner {
    /// ID of the person.
    pub id: UserId,
    /// Email address of the person.
    #[schema(example = "ann@example.com")]
    pub email: String,
}

/// Page of organizations, in the order of their ids.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct OperatedOrganizationPage {
    /// The organizations.
    pub items: Vec<OperatedOrganization>,
    /// Value for `cursor` to get the next page; empty on the last one.
    pub next_cursor: String,
}

objects!(SuspendOrganization CreateUser);

/// Body of `POST /v1/operator/organizations/{id}/suspend`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct SuspendOrganization {
    /// Reason, for operators: at most 500 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, max_length = 500, example = "unpaid invoice")]
    pub reason: Option<String>,
    /// Whether active runs are cancelled too. Default: false, they end normally.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    pub cancel: bool,
}

/// Person with an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OperatedUser {
    /// ID of the person.
    pub id: UserId,
    /// Email address of the person.
    #[schema(example = "ann@example.com")]
    pub email: String,
    /// Name of the person.
    #[schema(example = "Ann")]
    pub name: String,
    /// Time at which the account was made.
    pub created_at: Timestamp,
    /// Whether the person has proved that the address is theirs.
    pub email_verified: bool,
    /// Time since which the person cannot sign in; absent for everybody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub disabled_at: Option<Timestamp>,
}

/// Page of people, in the order of their ids.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct OperatedUserPage {
    /// The people.
    pub items: Vec<OperatedUser>,
    /// Value for `cursor` to get the next page; empty on the last one.
    pub next_cursor: String,
}

/// Body of `POST /v1/operator/users`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct CreateUser {
    /// Email address of the person.
    #[schema(min_length = 3, max_length = 254, example = "ann@example.com")]
    pub email: String,
    /// Name of the person: 1 to 200 characters after trimming, without control and invisible characters.
    #[schema(min_length = 1, max_length = 200, example = "Ann")]
    pub name: String,
}

/// Answer of `POST /v1/operator/users`: the account, and the page at which its person sets a password.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct CreatedUser {
    /// The account.
    pub user: OperatedUser,
    /// Link for the person.
    pub reset_link: ResetLink,
}

/// Page at which a person sets a password without the old one.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct ResetLink {
    /// Address of the page, with a token that works once. It is shown this once.
    #[schema(example = "https://accounts.example.com/reset-password?token=stm_…")]
    pub url: String,
    /// Time at which the token expires.
    pub expires_at: Timestamp,
}
