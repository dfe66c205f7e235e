//! Payment for a run.

use sortie_api::RunStatus;

/// Payment for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payment {
    /// Self-hosted: runs are free.
    Free,
    /// Hosted: the maximum cost is reserved from the organization's credits, and the cost is charged.
    Credit,
}

impl Payment {
    /// Statuses that a new run passes immediately. The last one is its status. Each is an event.
    pub const fn first_statuses(self) -> &'static [RunStatus] {
        match self {
            Self::Free => &[RunStatus::Queued],
            Self::Credit => &[RunStatus::Reserving, RunStatus::Queued],
        }
    }
}
