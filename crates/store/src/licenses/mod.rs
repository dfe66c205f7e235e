//! Licenses: entitlements and deployments of organizations on a hosted deployment, and the license of a self-hosted engine.

pub(crate) mod deployments;
pub(crate) mod entitlements;
pub(crate) mod installed;
pub(crate) mod subscriptions;

pub use deployments::{DeploymentRow, NewDeployment};
pub use entitlements::{EntitlementRow, PutEntitlement};
pub use installed::{InstalledLicense, LicenseUse};
pub use subscriptions::{ReadSubscription, RecordedSubscription, SubscribedPlan, SubscriptionRow};

pub use crate::error::{LicenseRefusal, MonthlyRuns};

use sortie_api::Timestamp;

/// Allowance of a run's license.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// The license allows this number of runs in the month.
    Monthly(MonthlyRuns),
    /// The license expired at this time, and its grace has ended.
    Ended(Timestamp),
}
