//! Licenses: entitlements and deployments of organizations on a hosted deployment, and the license of a self-hosted engine.

pub(crate) mod deployments;
pub(crate) mod entitlements;
pub(crate) mod installed;
