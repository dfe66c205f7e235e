//! Ends of the work on a run.

use sortie_agent::Remains;
use sortie_store::{Error as StoreError, Fence};

use super::resume::Obstacle;
use crate::runs::active::StopReason;

/// The way in which the work on a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With the final answer.
    Succeeded(String),
    /// In failure, for the reason given.
    Failed(String),
    /// At the time limit.
    TimedOut,
    /// From outside.
    Stopped(StopReason),
    /// Its worker was lost, and it cannot go on.
    Interrupted(Obstacle),
}

impl Ended {
    /// The end of a run that no other node can resume: a run that would be handed over ends here.
    pub(crate) fn for_good(self) -> Self {
        if self == Self::Stopped(StopReason::HandOver) {
            Self::Stopped(StopReason::Shutdown)
        } else {
            self
        }
    }

    /// Whether the files under `outputs/` are stored. They are where the run came to an end of its own.
    pub(crate) fn leaves_artifacts(&self) -> bool {
        matches!(self, Self::Succeeded(_) | Self::Failed(_) | Self::TimedOut)
    }
}

/// The result of the work on a run.
pub(super) struct Supervised {
    pub(super) ended: Ended,
    /// The fence behind the last write of the recorder, or the reason why it could not write.
    pub(super) kept: Result<Fence, StoreError>,
    pub(super) remains: Remains,
}
