//! Administration of an engine: checks, usage, budgets and the license, and the deletion of expired runs and of deleted organizations.

mod budgets;
pub(crate) mod checks;
pub(crate) mod erasure;
pub(crate) mod license;
pub(crate) mod retention;
pub(crate) mod usage;
pub(crate) mod watched;
