//! Organization of a credential (`docs/API.md#organizations`).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    id::{KeyId, OrgId},
    money::Micros,
};

/// Deployment mode of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Installation for many organizations, which pay with credits.
    Hosted,
    /// Installation that an organization runs for itself.
    SelfHosted,
}

impl Mode {
    /// The name on the wire and in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hosted => "hosted",
            Self::SelfHosted => "self-hosted",
        }
    }
}

/// Role of a credential, ordered by power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Works with runs.
    Member,
    /// Also changes keys and connections.
    Admin,
    /// Also owns the organization.
    Owner,
}

/// Rule for new accounts of a hosted deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignUpRule {
    /// Everybody may sign up and is signed in at once.
    Open,
    /// Everybody may sign up. The address is verified before the first session.
    VerifyFirst,
    /// People with an invitation may sign up.
    Invited,
    /// Sign-up is disabled: the operator creates accounts.
    Closed,
}

impl SignUpRule {
    /// The name on the wire and in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::VerifyFirst => "verify_first",
            Self::Invited => "invited",
            Self::Closed => "closed",
        }
    }
}

/// A text that is not a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of member, admin, owner")]
pub struct UnknownRole;

impl Role {
    /// The name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Admin => "admin",
            Self::Owner => "owner",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        [Self::Member, Self::Admin, Self::Owner]
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or(UnknownRole)
    }
}

/// Answer of `GET /v1/me`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct OrganizationInfo {
    /// The organization of the credential.
    pub organization_id: OrgId,
    /// Name of the organization.
    #[schema(example = "default")]
    pub organization_name: String,
    /// The credential's role.
    pub role: Role,
    /// ID of the API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub key_id: Option<KeyId>,
    /// Name of the API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub key_name: Option<String>,
    /// Version of the engine.
    #[schema(example = "1.0.0")]
    pub version: String,
    /// The deployment mode.
    pub mode: Mode,
    /// Compute price per second of a run, in micros.
    pub compute_micros_per_second: Micros,
    /// Budget of a run that names none, in micros.
    pub default_max_cost_micros: Micros,
    /// Features of the deployment, as it is configured.
    pub features: Features,
}

/// Features of a deployment, as it is configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Features {
    /// Whether the web console is enabled, at `/console/`.
    pub console: bool,
    /// Whether organizations can buy credits.
    pub payments: bool,
    /// Whether the deployment sends mail, such as invitations.
    pub mail: bool,
    /// Rule for new accounts of people. Absent on a self-hosted engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub sign_up: Option<SignUpRule>,
    /// Address of a trace in the operator's tracing tool: replace `{trace_id}` by the `trace_id` of a run. Absent if none is
    /// configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "https://traces.example.com/trace/{trace_id}")]
    pub trace_url: Option<String>,
}
