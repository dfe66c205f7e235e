//! Administration of an engine: checks, usage, budgets, the license and the check of the ledger, and the deletion of expired runs
//! and of deleted organizations.

mod budgets;
pub(crate) mod checks;
pub(crate) mod erasure;
pub(crate) mod ledger;
pub(crate) mod license;
pub(crate) mod retention;
pub(crate) mod usage;
pub(crate) mod watched;
