//! What the measurements read of a run.

use serde::Deserialize;
use sortie_api::{RunId, RunStatus, Timestamp};

/// The fields of a run that the measurements need, and no others: engines of earlier commits, whose runs lack newer fields, are
/// measured by the same program.
#[derive(Debug, Deserialize)]
pub(crate) struct Run {
    pub(crate) id: RunId,
    pub(crate) status: RunStatus,
    pub(crate) created_at: Timestamp,
    pub(crate) finished_at: Option<Timestamp>,
    pub(crate) billing_pending: bool,
}

/// A page of runs.
#[derive(Debug, Deserialize)]
pub(crate) struct RunPage {
    pub(crate) items: Vec<Run>,
}
