//! Licenses of an organization: its entitlement, and the self-hosted installations that it has licensed
//! (`docs/LICENSES.md`).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    id::{DeploymentId, UserId},
    object::objects,
    time::Timestamp,
};

/// Origin of an entitlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntitlementSource {
    /// Granted by the operator.
    Operator,
    /// Bought as a subscription.
    Stripe,
}

/// State of an entitlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntitlementState {
    /// Deployments can be added.
    Active,
    /// A payment is late. Deployments can still be added, until `period_end`.
    PastDue,
    /// No deployment can be added.
    Ended,
}

/// A text that is no name of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a name of an entitlement's source or state")]
pub struct UnknownEntitlementName;

impl EntitlementSource {
    /// The name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Stripe => "stripe",
        }
    }
}

impl EntitlementState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Active, Self::PastDue, Self::Ended];

    /// The name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::PastDue => "past_due",
            Self::Ended => "ended",
        }
    }
}

impl fmt::Display for EntitlementState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for EntitlementSource {
    type Err = UnknownEntitlementName;

    fn from_str(text: &str) -> Result<Self, UnknownEntitlementName> {
        [Self::Operator, Self::Stripe]
            .into_iter()
            .find(|source| source.as_str() == text)
            .ok_or(UnknownEntitlementName)
    }
}

impl FromStr for EntitlementState {
    type Err = UnknownEntitlementName;

    fn from_str(text: &str) -> Result<Self, UnknownEntitlementName> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(UnknownEntitlementName)
    }
}

/// Entitlement of an organization to licenses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Entitlement {
    /// Name of the plan; absent for a grant of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub plan: Option<String>,
    /// Origin of the entitlement.
    pub source: EntitlementSource,
    /// Runs in a calendar month, in UTC, for each deployment.
    #[schema(minimum = 0)]
    pub monthly_runs: i64,
    /// Maximum number of deployments.
    #[schema(minimum = 0)]
    pub deployments: i64,
    /// Deployments in use.
    #[schema(minimum = 0)]
    pub deployments_used: i64,
    /// State of the entitlement.
    pub state: EntitlementState,
    /// End of the licenses that are issued. From then on no deployment can be added.
    pub period_end: Timestamp,
}

/// Answer of `GET /v1/organizations/{id}/license`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OrganizationLicense {
    /// The entitlement; null where the organization has none.
    #[schema(required = true)]
    pub entitlement: Option<Entitlement>,
    /// Plans that can be bought with `POST /v1/organizations/{id}/license/checkout`. Absent where none can.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable = false)]
    pub plans: Vec<LicensePlan>,
}

/// Plan of licenses that can be bought as a subscription. Its price is on the page of the payment provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LicensePlan {
    /// Name of the plan.
    #[schema(example = "team")]
    pub name: String,
    /// Runs in a calendar month, in UTC, for each deployment.
    #[schema(minimum = 0)]
    pub monthly_runs: i64,
    /// Maximum number of deployments.
    #[schema(minimum = 1)]
    pub deployments: i64,
}

/// Self-hosted installation that an organization has licensed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deployment {
    /// ID of the deployment.
    pub id: DeploymentId,
    /// Name of the deployment, for people.
    #[schema(example = "factory north")]
    pub name: String,
    /// ID of the installation, which alone accepts the license.
    #[schema(pattern = "^[0-9a-f]{32}$", example = "6d0f5b1a8f1c4f0e9b7a3c2d1e0f9a8b")]
    pub machine_id: String,
    /// Runs in a calendar month, in UTC.
    #[schema(minimum = 0)]
    pub monthly_runs: i64,
    /// Person who added the deployment.
    pub created_by: UserId,
    /// Time of the creation.
    pub created_at: Timestamp,
    /// End of the license.
    pub expires_at: Timestamp,
    /// Time at which the deployment was deleted. Its license works until `expires_at`. Absent for one in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ended_at: Option<Timestamp>,
}

objects!(CreateDeployment CreateLicenseCheckout GrantLicense);

/// Body of `POST /v1/organizations/{id}/deployments`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct CreateDeployment {
    /// Name of the deployment, for people. 1 to 200 characters after trimming, without control and invisible characters.
    #[schema(
        min_length = 1,
        max_length = 200,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$",
        example = "factory north"
    )]
    pub name: String,
    /// ID of the installation, as `sortie license` shows it there. Default: a new one, which the installation then needs
    /// as `license.machine_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        nullable = false,
        pattern = "^[0-9a-f]{32}$",
        example = "6d0f5b1a8f1c4f0e9b7a3c2d1e0f9a8b"
    )]
    pub machine_id: Option<String>,
}

/// Answer of `POST /v1/organizations/{id}/deployments`: the only time the license token is shown.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct CreatedDeployment {
    /// ID of the deployment.
    pub id: DeploymentId,
    /// Name of the deployment, for people.
    pub name: String,
    /// ID of the installation, which alone accepts the license.
    #[schema(pattern = "^[0-9a-f]{32}$")]
    pub machine_id: String,
    /// License token, for `PUT /v1/admin/license` of the installation.
    #[schema(example = "v4.public.…")]
    pub token: String,
    /// Runs in a calendar month, in UTC.
    #[schema(minimum = 0)]
    pub monthly_runs: i64,
    /// Time of the creation.
    pub created_at: Timestamp,
    /// End of the license.
    pub expires_at: Timestamp,
}

/// Body of `POST /v1/organizations/{id}/license/checkout`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct CreateLicenseCheckout {
    /// Name of the plan, as `GET /v1/organizations/{id}/license` lists it.
    #[schema(example = "team")]
    pub plan: String,
}

/// Body of `PUT /v1/operator/organizations/{id}/license`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct GrantLicense {
    /// Runs in a calendar month, in UTC, for each deployment: 0 to 1000000000000.
    #[schema(minimum = 0, maximum = 1_000_000_000_000_i64, example = 10_000)]
    pub monthly_runs: i64,
    /// Maximum number of deployments: 0 to 1000.
    #[schema(minimum = 0, maximum = 1_000, example = 3)]
    pub deployments: i64,
    /// End of the licenses that are issued; must be in the future. Default: in 365 days.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub expires_at: Option<Timestamp>,
}

/// Answer of `GET /v1/operator/license-key`: the key that verifies the licenses of this deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LicenseKey {
    /// ID of the key, as the footer of a token names it.
    #[schema(pattern = "^[0-9a-f]{16}$", example = "5b1a8f1c4f0e9b7a")]
    pub id: String,
    /// Public key, for `license.public_keys` of self-hosted engines.
    #[schema(example = "k4.public.Hrnbu7wEfAP9cGBOAHHwmH4Wsot1ciXBHwBBXQ4gsaI")]
    pub public_key: String,
}
