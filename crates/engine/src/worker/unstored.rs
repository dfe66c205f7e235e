//! Ends of runs with outputs that are not stored yet, because the storage is unavailable.
//!
//! Such a run stays `running` and keeps its working directory. A mark in its journal holds its end. The next attempt, in any
//! process, finds the mark, does not start the agent, makes no call again, and stores the outputs.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sortie_api::{Timestamp, event::EventType};

use super::{ended::Ended, outputs::Outputs};

/// Error of a run with outputs on another node, or in a directory that was deleted.
pub(super) const DIRECTORY_GONE: &str = "cannot store the files under `outputs/`: their node was lost while the file storage was unavailable, and they are \
     lost";

/// Mark in the journal of a run: its agent has ended.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    unstored: UnstoredEnd,
}

/// End of a run with outputs that are not stored yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnstoredEnd {
    end: End,
    /// Time at which the run began to wait for the storage.
    pub(super) since: Timestamp,
    /// Last turn of the agent.
    pub(super) step: u32,
}

/// End of a run that leaves artifacts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    Succeeded(String),
    Failed(String),
    TimedOut,
}

impl UnstoredEnd {
    /// Creates the record of an end. `None` for an end that leaves no artifacts.
    pub(super) fn new(ended: &Ended, since: Timestamp, step: u32) -> Option<Self> {
        let end = match ended {
            Ended::Succeeded(output) => End::Succeeded(output.clone()),
            Ended::Failed(reason) => End::Failed(reason.clone()),
            Ended::TimedOut => End::TimedOut,
            Ended::Stopped(_) | Ended::Interrupted(_) => return None,
        };
        Some(Self { end, since, step })
    }

    /// Returns the mark for the journal.
    pub(super) fn mark(self) -> Result<String, serde_json::Error> {
        serde_json::to_string(&Mark { unstored: self })
    }

    /// Returns the end that an entry of a journal marks.
    pub(super) fn marked(entry: &str) -> Option<Self> {
        serde_json::from_str(entry).ok().map(|Mark { unstored }| unstored)
    }

    /// Returns the end as the agent left it.
    pub(super) fn ended(self) -> Ended {
        match self.end {
            End::Succeeded(output) => Ended::Succeeded(output),
            End::Failed(reason) => Ended::Failed(reason),
            End::TimedOut => Ended::TimedOut,
        }
    }
}

/// Returns the error for outputs that the storage did not accept in this time.
pub(super) fn not_taken(within: Duration) -> String {
    format!(
        "cannot store the files under `outputs/`: the file storage was unavailable for {} s, and they are lost",
        within.as_secs()
    )
}

/// Returns the end of a run that has lost its outputs for this reason. The run does not succeed.
pub(super) fn lost(ended: Ended, reason: &str) -> (Ended, Outputs) {
    let skipped = EventType::ArtifactSkipped {
        path: ".".to_owned(),
        reason: reason.to_owned(),
    };
    let ended = match ended {
        Ended::Succeeded(_) => Ended::Failed(reason.to_owned()),
        Ended::Failed(error) => Ended::Failed(format!("{error}; {reason}")),
        Ended::TimedOut | Ended::Stopped(_) | Ended::Interrupted(_) => ended,
    };
    let outputs = Outputs {
        events: vec![skipped],
        artifacts: None,
    };
    (ended, outputs)
}

#[cfg(test)]
mod tests {
    use sortie_agent::journal::Entry;

    use super::*;
    use crate::runs::active::StopReason;

    #[test]
    fn a_mark_keeps_the_end_of_a_run_and_is_no_entry() {
        let since = Timestamp::from_micros(7_000_000);
        for ended in [
            Ended::Succeeded("the answer".to_owned()),
            Ended::Failed("why".to_owned()),
            Ended::TimedOut,
        ] {
            let mark = UnstoredEnd::new(&ended, since, 3).unwrap().mark().unwrap();
            assert!(serde_json::from_str::<Entry>(&mark).is_err());
            let read = UnstoredEnd::marked(&mark).unwrap();
            assert_eq!((read.since, read.step), (since, 3));
            assert_eq!(read.ended(), ended);
        }
        assert_eq!(UnstoredEnd::marked(r#"{"handed_over":3}"#), None);
        let stopped = Ended::Stopped(StopReason::NotOurs);
        assert_eq!(UnstoredEnd::new(&stopped, since, 3), None);
    }

    #[test]
    fn a_run_that_lost_its_outputs_has_not_succeeded() {
        let end = |ended| lost(ended, "lost").0;
        assert_eq!(
            end(Ended::Succeeded("x".to_owned())),
            Ended::Failed("lost".to_owned())
        );
        assert_eq!(
            end(Ended::Failed("x".to_owned())),
            Ended::Failed("x; lost".to_owned())
        );
        assert_eq!(end(Ended::TimedOut), Ended::TimedOut);
    }
}
