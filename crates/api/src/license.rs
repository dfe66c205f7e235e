//! The license of a self-hosted engine.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    id::{DeploymentId, OrgId},
    object::objects,
    time::Timestamp,
};

/// Answer of `GET` and `PUT /v1/admin/license`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct License {
    /// Whether the engine has a license. Without one it has no monthly allowance to use up.
    pub licensed: bool,
    /// Organization that has the license, on the deployment that issued it; absent without a license.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub organization: Option<OrgId>,
    /// Deployment that the license is for; absent without a license.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub deployment_id: Option<DeploymentId>,
    /// Name of the deployment; absent without a license.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "factory north")]
    pub name: Option<String>,
    /// ID of the installation that a license is issued for, the same on every node of one database.
    #[schema(pattern = "^[0-9a-f]{32}$", example = "6d0f5b1a8f1c4f0e9b7a3c2d1e0f9a8b")]
    pub machine_id: String,
    /// Runs that the license allows in a calendar month, in UTC; absent without a license.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0)]
    pub monthly_runs: Option<i64>,
    /// Runs that were created in this month, in UTC; with a license, those that were created under one.
    #[schema(minimum = 0)]
    pub runs_used: i64,
    /// Time at which the next month begins and `runs_used` starts from zero.
    pub resets_at: Timestamp,
    /// End of the license; absent without a license.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub expires_at: Option<Timestamp>,
    /// Time from which on an expired license allows no runs, 14 days after `expires_at`; absent without a license.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub grace_until: Option<Timestamp>,
}

objects!(PutLicense);

/// Body of `PUT /v1/admin/license`.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct PutLicense {
    /// License token. An organization gets one when it creates a deployment.
    #[schema(max_length = 4_096, example = "v4.public.…")]
    pub token: String,
}
