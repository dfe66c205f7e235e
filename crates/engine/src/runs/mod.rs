//! Runs: their creation and cancellation, their record, and the readers of it.

pub(crate) mod active;
pub(crate) mod content;
pub(crate) mod create;
pub(crate) mod feed;
pub(crate) mod hub;
pub(crate) mod intake;
mod left;
pub(crate) mod run_log;
pub(crate) mod unretained;
pub(crate) mod workflows;
