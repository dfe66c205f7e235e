//! Saved files, the artifacts of runs, and the content of both.

mod artifacts;
pub(crate) mod contents;
pub(crate) mod saved;
pub(crate) mod uploads;
