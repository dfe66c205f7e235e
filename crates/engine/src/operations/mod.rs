//! Administration of an engine: checks, usage and budgets, and the deletion of expired runs.

mod budgets;
pub(crate) mod checks;
pub(crate) mod retention;
pub(crate) mod usage;
pub(crate) mod watched;
