//! Saved files, the artifacts of runs, and the content of both.

mod artifacts;
pub(crate) mod contents;
pub(crate) mod saved;
mod standing;
pub(crate) mod uploads;

pub(crate) use self::standing::{LatestStanding, Standing};
