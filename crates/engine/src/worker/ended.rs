//! Results of the work on a run.

use sortie_agent::StoppedWorkspace;
use sortie_store::{Error as StoreError, runs::Fence};
use tokio::time::Instant;

use super::obstacle::Obstacle;
use crate::runs::active::StopReason;

/// End of the work on a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The agent returned the final answer.
    Succeeded(String),
    /// The run failed, for this reason.
    Failed(String),
    /// The run reached its time limit.
    TimedOut,
    /// The run was stopped from outside.
    Stopped(StopReason),
    /// The worker of the run was lost, and the run cannot be resumed.
    Interrupted(Obstacle),
}

impl Ended {
    /// Converts a hand-over into an interruption: no other node can resume the run, so it ends here.
    pub(crate) fn for_good(self) -> Self {
        if self == Self::Stopped(StopReason::HandOver) {
            Self::Stopped(StopReason::Shutdown)
        } else {
            self
        }
    }

    /// Returns the end of a preparation or an agent that ended now. At the deadline this is the time limit, regardless of the
    /// result.
    pub(super) fn unless_late(self, deadline: Instant) -> Self {
        if Instant::now() >= deadline {
            Self::TimedOut
        } else {
            self
        }
    }

    /// Whether the files under `outputs/` are stored: yes, unless the run was stopped or its worker was lost.
    pub(crate) fn leaves_artifacts(&self) -> bool {
        matches!(self, Self::Succeeded(_) | Self::Failed(_) | Self::TimedOut)
    }
}

/// The result of the work on a run.
pub(super) struct Supervised {
    pub(super) ended: Ended,
    /// Fence after the last write of the recorder, or the reason why it could not write.
    pub(super) kept: Result<Fence, StoreError>,
    pub(super) workspace: StoppedWorkspace,
}
