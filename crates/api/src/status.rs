//! The status machine of a run: its statuses (`docs/RUNS.md#statuses`) and the only table of the moves between them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Recorded; the budget is not yet held (hosted only).
    Reserving,
    /// Waiting for a worker.
    Queued,
    /// Claimed by a worker that prepares the working directory.
    Starting,
    /// The agent works.
    Running,
    /// Final: the agent answered.
    Succeeded,
    /// Final: `error` says why.
    Failed,
    /// Final: a client cancelled it.
    Cancelled,
    /// Final: `timeout_seconds` passed.
    TimedOut,
    /// Final: the worker was lost and the run could not go on safely.
    Interrupted,
}

/// A text that is not a run status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be one of reserving, queued, starting, running, succeeded, failed, cancelled, timed_out, interrupted"
)]
pub struct UnknownStatus;

impl RunStatus {
    /// Every status, in the order of a run's life.
    pub const ALL: [Self; 9] = [
        Self::Reserving,
        Self::Queued,
        Self::Starting,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::TimedOut,
        Self::Interrupted,
    ];

    /// The name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reserving => "reserving",
            Self::Queued => "queued",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::Interrupted => "interrupted",
        }
    }

    /// Whether the status is one of the five in which a run never changes.
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            Self::Succeeded | Self::Failed | Self::Cancelled | Self::TimedOut | Self::Interrupted
        )
    }

    /// Whether a run may go from this status to `next` (`docs/RUNS.md#statuses`). Every other move is a bug.
    pub const fn may_become(self, next: Self) -> bool {
        match self {
            Self::Reserving => matches!(next, Self::Queued | Self::Failed | Self::Cancelled),
            // Interrupted: only a run without stored data on a node that is gone.
            Self::Queued => matches!(next, Self::Starting | Self::Cancelled | Self::Interrupted),
            Self::Starting => matches!(
                next,
                Self::Running | Self::Failed | Self::TimedOut | Self::Cancelled | Self::Interrupted
            ),
            Self::Running => next.is_final(),
            Self::Succeeded | Self::Failed | Self::Cancelled | Self::TimedOut | Self::Interrupted => false,
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for RunStatus {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        Self::ALL
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or(UnknownStatus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_of_moves_is_the_decided_one() {
        use RunStatus::{
            Cancelled, Failed, Interrupted, Queued, Reserving, Running, Starting, Succeeded, TimedOut,
        };
        let moves = [
            (Reserving, vec![Queued, Failed, Cancelled]),
            (Queued, vec![Starting, Cancelled, Interrupted]),
            (Starting, vec![Running, Failed, Cancelled, TimedOut, Interrupted]),
            (Running, vec![Succeeded, Failed, Cancelled, TimedOut, Interrupted]),
        ];
        for from in RunStatus::ALL {
            let allowed = moves
                .iter()
                .find(|(status, _)| *status == from)
                .map_or(&[][..], |(_, to)| to);
            for to in RunStatus::ALL {
                assert_eq!(from.may_become(to), allowed.contains(&to), "{from} to {to}");
            }
        }
    }

    #[test]
    fn nothing_leaves_a_final_status() {
        for from in RunStatus::ALL.into_iter().filter(|status| status.is_final()) {
            assert!(
                RunStatus::ALL.into_iter().all(|to| !from.may_become(to)),
                "{from}"
            );
        }
    }

    #[test]
    fn the_name_is_the_same_in_json_and_in_the_store() {
        for status in RunStatus::ALL {
            assert_eq!(serde_json::to_value(status).ok(), Some(status.as_str().into()));
            assert_eq!(status.as_str().parse(), Ok(status));
        }
    }
}
