//! How a run's end is written down: status, answer, error and last events.

use sortie_agent::journal::OpenCall;
use sortie_api::{Micros, RunStatus, Timestamp, event::EventType, limits};
use sortie_store::{Brought, Claim, Finish, Journal, NewEvent, Origin, Receiver};

use super::recorder::Rest;
use crate::runs::active::StopReason;

/// How the work on a run ended.
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
    /// The same for a run that nobody can go on with: what would be handed over ends here.
    pub(crate) fn for_good(self) -> Self {
        if self == Self::Stopped(StopReason::HandOver) {
            Self::Stopped(StopReason::Shutdown)
        } else {
            self
        }
    }

    /// Whether what lies under `outputs/` is kept: where the run came to an end of its own, whatever came of it.
    pub(crate) fn leaves_artifacts(&self) -> bool {
        matches!(self, Self::Succeeded(_) | Self::Failed(_) | Self::TimedOut)
    }
}

/// Why a run whose worker was lost does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// A call was under way that may have had its effect outside of the run.
    UncertainCall(OpenCall),
    /// What it needs is gone, in words for people; the last turn it had completed.
    Gone(&'static str, u32),
    /// Two workers in a row were lost in this step.
    LostTwice(u32),
}

/// The finishing write: what was gathered before, then the answer and the final status. `None` where the run is no
/// longer this worker's to finish.
pub(crate) fn final_events(
    ended: Ended,
    claim: &Claim,
    brought: Brought,
    rest: Rest,
    cost: Micros,
    at: Timestamp,
) -> Result<Option<Finish>, serde_json::Error> {
    let mut finish = Finish {
        status: RunStatus::Failed,
        output: None,
        error: None,
        cost,
        usage: rest.new.usage,
        events: rest.new.events,
        journal: match claim.origin {
            Origin::Queue(_) => rest.journal,
            Origin::Lost { .. } => Journal::Written,
        },
        brought,
        receiver: match claim.callback_host {
            Some(_) => Receiver::Waits,
            None => Receiver::Nobody,
        },
        artifacts: None,
        at,
    };
    let mut add = |event: &EventType| NewEvent::new(event, at).map(|event| finish.events.push(event));
    match ended {
        Ended::Succeeded(whole) => {
            finish.status = RunStatus::Succeeded;
            let (output, output_bytes) = cut(whole);
            add(&EventType::Result {
                output: output.clone(),
            })?;
            if output_bytes > output.len() {
                add(&EventType::OutputTruncated {
                    limit_bytes: limits::OUTPUT_BYTES as u64,
                    output_bytes: output_bytes as u64,
                })?;
            }
            finish.output = Some(output);
        }
        Ended::Failed(reason) => finish.error = Some(reason),
        Ended::TimedOut => {
            finish.status = RunStatus::TimedOut;
            finish.error = Some(format!("timed out after {} s", claim.timeout_seconds));
        }
        Ended::Stopped(StopReason::NotOurs | StopReason::Lost | StopReason::HandOver) => return Ok(None),
        Ended::Stopped(StopReason::TooLarge) => {
            finish.error = Some(
                "its events take more memory than the node gives a run with zero data retention".to_owned(),
            );
        }
        Ended::Stopped(StopReason::Shutdown) => {
            finish.status = RunStatus::Interrupted;
            finish.error = Some("the node that ran it was stopped".to_owned());
            add(&EventType::Interrupted {
                reason: "shutdown",
                step: rest.step,
                tool: None,
                id: None,
            })?;
        }
        Ended::Interrupted(obstacle) => {
            finish.status = RunStatus::Interrupted;
            let (error, event) = obstacle.told();
            finish.error = Some(error);
            add(&event)?;
        }
    }
    let status = EventType::Status {
        status: finish.status,
        error: finish.error.clone(),
    };
    finish.events.push(NewEvent::new(&status, at)?);
    Ok(Some(finish))
}

impl Obstacle {
    /// The run's `error`, and the event.
    fn told(self) -> (String, EventType) {
        match self {
            Self::UncertainCall(OpenCall { step, id, tool }) => (
                format!(
                    "the worker that ran it was lost during the call {id} of {tool:?}, which may have had its effect"
                ),
                EventType::Interrupted {
                    reason: "uncertain_call",
                    step,
                    tool: Some(tool),
                    id: Some(id),
                },
            ),
            Self::Gone(what, step) => (
                format!("the worker that ran it was lost, and {what}"),
                worker_lost(step),
            ),
            Self::LostTwice(step) => (
                format!(
                    "two workers in a row were lost while they ran its step {step}; a third one is not put at risk"
                ),
                worker_lost(step),
            ),
        }
    }
}

fn worker_lost(step: u32) -> EventType {
    EventType::Interrupted {
        reason: "worker_lost",
        step,
        tool: None,
        id: None,
    }
}

/// The output within its limit, cut at a character, and the length of the whole.
fn cut(mut output: String) -> (String, usize) {
    let whole = output.len();
    if whole > limits::OUTPUT_BYTES {
        output.truncate(output.floor_char_boundary(limits::OUTPUT_BYTES));
    }
    (output, whole)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use proptest::prelude::*;
    use sortie_agent::{BudgetSpec, Sink as _};
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        cluster::news::News,
        kit::clock::Clock,
        runs::{hub::Hub, run_log::RunLog},
        testing::held,
        worker::recorder::Recorder,
    };

    proptest! {
        #[test]
        fn a_long_output_is_cut_at_a_character_just_below_the_limit(extra in 0_usize..20, lead in 0_usize..4) {
            let text = format!("{}{}", "a".repeat(lead), "ü".repeat(limits::OUTPUT_BYTES / 2 + extra));
            let (output, whole) = cut(text.clone());
            prop_assert_eq!(whole, text.len());
            prop_assert!(output.len() <= limits::OUTPUT_BYTES);
            prop_assert!(text.starts_with(&output));
            prop_assert!(output.len() == text.len() || output.len() + 2 > limits::OUTPUT_BYTES);
        }
    }

    #[tokio::test]
    async fn time_that_passes_before_a_cost_is_kept_is_charged_as_well() {
        let held = held().await;
        let (run, log) = (
            held.claim.fence.run,
            RunLog::new(held.records(), held.claim.fence.run, held.claim.retention()),
        );
        let hub = Hub::new(held.records(), News::default(), CancellationToken::new());
        let recorder = Recorder::new(run, log, hub, Clock::system(), Arc::default());
        let micros = |amount: u32| Micros::new(u64::from(amount)).unwrap();
        let started = Instant::now();
        let budget = BudgetSpec {
            max_cost: micros(1_000_000),
            compute_micros_per_second: micros(1_000),
            started,
            spent: Micros::ZERO,
        };
        // Looked at after a second, kept who knows when, and over after three.
        let at = |seconds| started + Duration::from_secs(seconds);
        recorder.spent(micros(1_000 + 7), at(1));
        assert_eq!(recorder.rest().spent.until(at(3), &budget), micros(3_000 + 7));
    }
}
