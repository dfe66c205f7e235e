//! Fields of a run.

use serde::Deserialize;
use sortie_api::{RunId, RunStatus, Timestamp};

/// A run with only the fields that are measured: the same program measures engines of earlier commits, and their runs lack newer
/// fields.
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
