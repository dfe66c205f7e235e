//! Runs: their creation and cancellation, their record, and the readers of it.

pub(crate) mod active;
mod content;
mod create;
pub(crate) mod hub;
pub(crate) mod intake;
mod left;
pub(crate) mod run_log;
pub(crate) mod unretained;
mod workflows;
