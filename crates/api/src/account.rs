//! People and their accounts: sign-up, sign-in, profile, sessions and second factor (`docs/ACCOUNTS.md`).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    audit::AuditEntry,
    credential::Credential,
    id::{GrantId, OrgId, SessionId, UserId},
    membership::Organization,
    object::read_objects,
    organization::Role,
    time::Timestamp,
};

/// A person who can sign in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct User {
    /// ID of the person.
    pub id: UserId,
    /// Email address as the person typed it.
    #[schema(example = "ann@example.com")]
    pub email: String,
    /// Name that others see.
    #[schema(example = "Ann")]
    pub name: String,
    /// Address of the person's picture, which changes with the picture; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub avatar_url: Option<String>,
    /// Whether the person has proved that the address is theirs.
    pub email_verified: bool,
    /// Whether a sign-in needs a code of an authenticator.
    pub second_factor: bool,
    /// Time of the sign-up.
    pub created_at: Timestamp,
}

/// Answer to a sign-in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Login {
    /// Token of the session: send it as `Authorization: Bearer`. Works for 30 days. Only this answer shows it.
    #[schema(example = "stu_…")]
    pub token: String,
    /// The person.
    pub user: User,
    /// Organizations of the person.
    pub organizations: Vec<Organization>,
}

/// Client of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionClient {
    /// A program that sends the token in a header.
    Api,
    /// A browser that sends the token in a cookie.
    Web,
}

/// A sign-in of a person that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// ID of the session.
    pub id: SessionId,
    /// Client of the session.
    pub kind: SessionClient,
    /// Whether the request came with the token of this session.
    pub current: bool,
    /// Time of the sign-in.
    pub created_at: Timestamp,
    /// End of the session.
    pub expires_at: Timestamp,
    /// Time of a late use; the last use may be an hour later.
    pub seen_at: Timestamp,
    /// Address that the person signed in from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<String>, example = "192.0.2.7")]
    pub address: Option<std::net::IpAddr>,
    /// Name that the client gave itself (`User-Agent`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "curl/8.14.1")]
    pub agent: Option<String>,
}

/// Key of an authenticator, which waits for its confirmation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecondFactorKey {
    /// The key in base32, to type it into an authenticator. Only this answer shows it.
    #[schema(example = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP")]
    pub secret: String,
    /// The key as an `otpauth` URI, for a QR code.
    #[schema(example = "otpauth://totp/Sortie:ann%40example%2Ecom?secret=…")]
    pub uri: String,
}

/// Codes that each stand in for the authenticator once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecoveryCodes {
    /// The codes. Only this answer shows them.
    pub recovery_codes: Vec<String>,
}

/// Data that the service keeps about a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountExport {
    /// The person.
    pub user: User,
    /// Organizations of the person.
    pub organizations: Vec<Organization>,
    /// Sessions of the person that have not ended, newest first, at most 100.
    pub sessions: Vec<Session>,
    /// Permissions that the person has given to applications.
    pub grants: Vec<ExportedGrant>,
    /// Identities of the person at identity providers.
    pub identities: Vec<LinkedIdentity>,
    /// Changes that the person made, newest first, at most 10,000.
    pub changes: Vec<ExportedChange>,
}

/// Permission that a person has given to an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExportedGrant {
    /// ID of the permission.
    pub id: GrantId,
    /// Organization in which the application may act.
    pub organization_id: OrgId,
    /// ID of the application.
    pub client_id: String,
    /// Name that the application gave itself.
    pub client_name: String,
    /// Highest role of the application.
    pub scope: Role,
    /// Time of the permission.
    pub created_at: Timestamp,
    /// End of the permission.
    pub expires_at: Timestamp,
}

/// Session of a person at a self-hosted engine, as an admin sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PersonSession {
    /// ID of the session.
    pub id: SessionId,
    /// The person.
    pub user_id: UserId,
    /// Email address of the person.
    #[schema(example = "ann@example.com")]
    pub email: String,
    /// Time of the sign-in.
    pub created_at: Timestamp,
    /// End of the session.
    pub expires_at: Timestamp,
    /// Time of a late use; the last one may be an hour later.
    pub seen_at: Timestamp,
    /// Address that the person signed in from; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, nullable = false, example = "203.0.113.7")]
    pub address: Option<std::net::IpAddr>,
    /// `User-Agent` of the client; absent if it sent none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "Mozilla/5.0")]
    pub agent: Option<String>,
}

/// Account of a person at an identity provider, with which the person signs in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkedIdentity {
    /// ID of the identity: 32 hexadecimal characters of a hash of `issuer` and `subject`.
    #[schema(example = "1f8a3bd2c4e5968770a1b2c3d4e5f607")]
    pub id: String,
    /// Issuer of the provider.
    #[schema(example = "https://example.okta.com")]
    pub issuer: String,
    /// Name of the account there (`sub`).
    #[schema(example = "00uid4BxXw6I6TV4m0g3")]
    pub subject: String,
    /// Time of the first sign-in with it.
    pub created_at: Timestamp,
}

/// Change that a person made in an organization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExportedChange {
    /// The organization.
    pub organization_id: OrgId,
    /// Entry of the audit log of the organization.
    pub entry: AuditEntry,
}

read_objects!(SignUp LogIn VerifyEmail ForgotPassword ResetPassword ChangePassword UpdateUser DeleteUser);
read_objects!(EnrolSecondFactor ConfirmSecondFactor RemoveSecondFactor);

/// Body of `POST /v1/auth/signup`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct SignUp {
    /// Email address of the person. At most 254 bytes.
    #[schema(max_length = 254, example = "ann@example.com")]
    pub email: String,
    /// Password of the person: 12 to 72 bytes, hard to guess.
    #[schema(value_type = String, format = Password, min_length = 12, max_length = 72, example = "correct horse battery staple")]
    pub password: Credential,
    /// Name that others see. 1 to 100 characters after trimming, without control and invisible characters.
    #[schema(min_length = 1, max_length = 100, example = "Ann")]
    pub name: String,
    /// Token of an invitation of the address. A deployment may require one.
    #[schema(value_type = Option<String>, nullable = false, example = "sti_…")]
    pub invitation: Option<Credential>,
}

/// Body of `POST /v1/auth/login`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct LogIn {
    /// Email address of the person.
    #[schema(max_length = 254, example = "ann@example.com")]
    pub email: String,
    /// Password of the person.
    #[schema(value_type = String, format = Password, example = "correct horse battery staple")]
    pub password: Credential,
    /// Code of the authenticator, or a recovery code; needed where the account has a second factor.
    #[schema(value_type = Option<String>, nullable = false, example = "123456")]
    pub code: Option<Credential>,
}

/// Body of `POST /v1/auth/verify-email`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct VerifyEmail {
    /// Token of the mail.
    #[schema(value_type = String, example = "stm_…")]
    pub token: Credential,
}

/// Body of `POST /v1/auth/forgot-password`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct ForgotPassword {
    /// Email address of the person.
    #[schema(max_length = 254, example = "ann@example.com")]
    pub email: String,
}

/// Body of `POST /v1/auth/reset-password`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct ResetPassword {
    /// Token of the mail.
    #[schema(value_type = String, example = "stm_…")]
    pub token: Credential,
    /// New password: 12 to 72 bytes, hard to guess.
    #[schema(value_type = String, format = Password, min_length = 12, max_length = 72, example = "seventeen purple elephants")]
    pub new_password: Credential,
}

/// Body of `PUT /v1/me/password`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct ChangePassword {
    /// Password that the account has now. An account without one needs a sign-in of the last ten minutes instead.
    #[schema(value_type = Option<String>, nullable = false, format = Password, example = "correct horse battery staple")]
    pub current_password: Option<Credential>,
    /// New password: 12 to 72 bytes, hard to guess.
    #[schema(value_type = String, format = Password, min_length = 12, max_length = 72, example = "seventeen purple elephants")]
    pub new_password: Credential,
}

/// Body of `PATCH /v1/auth/me`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct UpdateUser {
    /// Name that others see. 1 to 100 characters after trimming, without control and invisible characters.
    #[schema(min_length = 1, max_length = 100, example = "Ann")]
    pub name: String,
}

/// Body of `DELETE /v1/auth/me`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct DeleteUser {
    /// Password of the account. An account without one needs a sign-in of the last ten minutes instead.
    #[schema(value_type = Option<String>, nullable = false, format = Password, example = "correct horse battery staple")]
    pub password: Option<Credential>,
}

/// Body of `POST /v1/auth/me/second-factor`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct EnrolSecondFactor {
    /// Password of the account. An account without one needs a sign-in of the last ten minutes instead.
    #[schema(value_type = Option<String>, nullable = false, format = Password, example = "correct horse battery staple")]
    pub password: Option<Credential>,
}

/// Body of `POST /v1/auth/me/second-factor/confirm`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct ConfirmSecondFactor {
    /// Current code of the authenticator: six digits.
    #[schema(value_type = String, example = "123456")]
    pub code: Credential,
}

/// Body of `DELETE /v1/auth/me/second-factor`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct RemoveSecondFactor {
    /// Password of the account. An account without one needs a sign-in of the last ten minutes instead.
    #[schema(value_type = Option<String>, nullable = false, format = Password, example = "correct horse battery staple")]
    pub password: Option<Credential>,
    /// Current code of the authenticator, or a recovery code.
    #[schema(value_type = String, example = "123456")]
    pub code: Credential,
}
