//! Licenses: entitlements and deployments of organizations on a hosted deployment, and the license of a self-hosted engine.

pub(crate) mod deployments;
pub(crate) mod entitlements;
pub(crate) mod installed;
pub(crate) mod subscriptions;

pub use deployments::{DeploymentRow, NewDeployment};
pub use entitlements::{EntitlementRow, PutEntitlement};
pub use installed::{InstalledLicense, LicenseUse};
pub use subscriptions::{ReadSubscription, RecordedSubscription, SubscribedPlan, SubscriptionRow};

use sortie_api::Timestamp;

/// Allowance of a run's license.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// The license allows this number of runs in the month.
    Monthly(MonthlyRuns),
    /// The license expired at this time, and its grace has ended.
    Ended(Timestamp),
}

/// Runs that a license allows in a calendar month, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonthlyRuns {
    /// Start of the month.
    pub month: Timestamp,
    /// Start of the next month.
    pub resets_at: Timestamp,
    /// Maximum number of runs.
    pub most: i64,
}

/// Reason why a license does not allow something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LicenseRefusal {
    /// Every run of the month is used.
    #[error("license: all {} runs of this month are used, the next month begins at {}", .0.most, .0.resets_at)]
    Used(MonthlyRuns),
    /// The license of the engine has ended.
    #[error("license: it expired at {0}, and its grace has ended; install a new license, or delete this one")]
    Expired(Timestamp),
    /// The organization is not entitled to licenses.
    #[error("license: the organization has no active entitlement")]
    NotEntitled,
    /// The organization has used its deployments.
    #[error("license: all {0} deployments of the organization are in use; delete one first")]
    Deployments(i64),
}
