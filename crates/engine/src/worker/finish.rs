//! The end of a run: its final write, and the removal of its directory.

use sortie_agent::journal::OpenCall;
use sortie_api::{Micros, RunStatus, Timestamp, event::EventType, limits};
use sortie_store::{
    Error as StoreError,
    runs::{
        Claim, Fence, FinalCost, Finish, Journal, NewEvent, Origin, Receiver, Retention, StoredCredentials,
    },
};
use tokio::time::Instant;

use super::{
    attempt::Attempt,
    ended::Ended,
    obstacle::Obstacle,
    outputs::Outputs,
    recorder::{Rest, numbered},
    resume::hand_over_mark,
    writes::{until_settled, until_stored},
};
use crate::{
    kit::{retry::until_read, traces},
    runs::active::StopReason,
};

impl Attempt<'_> {
    /// Records the end of the run, or hands the run over.
    pub(super) async fn finish(
        &mut self,
        ended: Ended,
        outputs: Outputs,
        fence: Fence,
    ) -> Result<(), StoreError> {
        let mut rest = self.recorder.rest();
        if matches!(ended, Ended::Stopped(StopReason::HandOver)) {
            rest.new.cost = self.cost(rest.spent, Instant::now());
            // If this attempt did not begin, it keeps the mark of the previous attempt.
            if fence != self.claim.fence {
                let mark =
                    hand_over_mark(fence.attempt).map_err(|error| StoreError::Corrupt(error.to_string()))?;
                rest.new.journal.data.push(mark);
            }
            return self.recorder.append(fence, rest.new).await.map(drop);
        }
        rest.new.events.splice(0..0, self.resumed.take());
        for event in &outputs.events {
            rest.new.events.push(self.event(event)?);
        }
        // The charged time ends with the run.
        let (now, end) = self.worker.clock.moment();
        let cost = self.cost(rest.spent, end);
        let finish = Finish {
            artifacts: outputs.artifacts,
            ..final_events(ended, self.claim, self.stored_credentials, rest, cost, now)
                .map_err(|error| StoreError::Corrupt(error.to_string()))?
                .ok_or(StoreError::Fenced)?
        };
        traces::ended(finish.status);
        let rows = numbered(&fence, &finish.events);
        let finished = until_stored(self.log.store(), fence, (rows.len(), finish.status), || {
            self.log.finish(fence, finish.clone(), self.claim.timeout_seconds)
        })
        .await;
        if finished.is_ok() {
            let metrics = &self.worker.metrics;
            metrics.published(&rows, self.worker.clock.now());
            metrics.finished(finish.status, self.started.elapsed(), finish.cost);
            self.log.finished(&rows, finish.error);
        }
        match finished {
            Ok(Some(run)) => {
                if let Err(error) = self.worker.hub.publish_final(&run, &rows) {
                    tracing::error!(%error, "notifying the readers of a run of its end failed");
                }
                if run.schedule_id.is_some() {
                    self.worker.schedules.ring();
                }
            }
            // The answer to the commit was lost. Readers find the end in the store, and the timer checks whether a schedule waits
            // for it.
            Ok(None) => {
                self.worker.hub.ended(fence.run);
                self.worker.schedules.ring();
            }
            Err(error) => return Err(error),
        }
        self.worker.hub.listed(self.claim.org);
        if let Some(host) = &self.claim.callback_host {
            self.worker.callbacks.due(self.claim.org, host);
        }
        Ok(())
    }

    /// Reports the cost of a run that was cancelled during this attempt, with the events of its calls that the store does not
    /// have. The store refuses the report of a run that was taken over.
    pub(super) async fn settle(&self) -> Result<(), StoreError> {
        let Fence { run, attempt, .. } = self.claim.fence;
        let rest = self.recorder.cancelled_rest();
        let spent = self.cost(rest.spent, Instant::now());
        let calls = rest.calls.min(self.claim.max_cost);
        let cost = FinalCost {
            calls,
            compute: spent.saturating_sub(calls),
            compute_micros_per_second: self.worker.options.compute_micros_per_second,
            usage: rest.usage,
        };
        let is_unretained = self.claim.retention() == Retention::None;
        if is_unretained {
            self.keep_cancelled(&rest.events).await?;
        }
        let settled = until_settled(|| self.log.settle((run, attempt), cost, &rest.events)).await;
        if is_unretained {
            self.worker.hub.ended(run);
        }
        let settled = settled?;
        self.worker.hub.listed(self.claim.org);
        traces::ended(RunStatus::Cancelled);
        // The end was counted when the run was cancelled.
        let metrics = &self.worker.metrics;
        let charged = settled.map_or(spent, |settled| settled.cost);
        metrics.settled(RunStatus::Cancelled, self.started.elapsed(), charged);
        metrics.published(
            &numbered(&self.claim.fence, &rest.events),
            self.worker.clock.now(),
        );
        Ok(())
    }

    /// Adds the end of a cancelled run to the memory of this node; `events` follow the cancellation. This happens before the
    /// report, so that a client that finds the run settled can read all of its events.
    async fn keep_cancelled(&self, events: &[NewEvent]) -> Result<(), StoreError> {
        let Fence { run, attempt, .. } = self.claim.fence;
        let position = match until_read(|| self.log.store().position(run)).await {
            // The run was deleted, so it is settled.
            Err(StoreError::NotFound) => return Err(StoreError::Fenced),
            read => read?,
        };
        let is_ours = position.attempt == attempt && position.is_billing_pending;
        if !is_ours || position.status != RunStatus::Cancelled {
            return Err(StoreError::Fenced);
        }
        // No event follows a cancellation before the report.
        let fence = Fence {
            last_event: position.last_event,
            ..self.claim.fence
        };
        self.log
            .cancelled(&numbered(&fence, events))
            .map_err(|error| StoreError::Corrupt(error.to_string()))
    }

    /// Whether the run has ended or was handed over: what this attempt still holds is needed by no other attempt.
    pub(super) fn is_settled(&self, ended: &Result<(), StoreError>) -> bool {
        match ended {
            Ok(()) => true,
            // A run without retention has no next attempt.
            Err(StoreError::Fenced) => self.claim.retention() == Retention::None,
            // The node still holds the run and resumes it.
            Err(_) => false,
        }
    }

    /// Deletes the working directory of a run that this attempt has finished or settled. A fenced attempt leaves it to the
    /// clean-up of settled runs, because the next attempt may be on the same node and need the directory.
    pub(super) async fn clean_up(&mut self, ended: &Result<(), StoreError>) {
        let is_settled = self.is_settled(ended);
        let Some(workspace) = self.workspace.take().filter(|_| is_settled) else {
            return;
        };
        if let Err(error) = workspace.delete().await {
            tracing::error!(%error, "removing a working directory failed");
        }
    }
}

/// Makes the finishing write: the pending events and entries, then the answer and the terminal status. `None` if the run belongs
/// to another worker by now.
pub(crate) fn final_events(
    ended: Ended,
    claim: &Claim,
    stored_credentials: StoredCredentials,
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
        stored_credentials,
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
    /// Returns the `error` of the run, and its event.
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

/// Returns the output cut to its limit at a character boundary, and the length of the whole output.
fn cut(mut output: String) -> (String, usize) {
    let whole = output.len();
    if whole > limits::OUTPUT_BYTES {
        output.truncate(output.floor_char_boundary(limits::OUTPUT_BYTES));
    }
    (output, whole)
}

#[cfg(test)]
mod tests {
    use sortie_base::Clock;
    use std::{collections::BTreeMap, sync::Arc, time::Duration};

    use proptest::prelude::*;
    use sortie_agent::{BudgetSpec, Sink as _};
    use sortie_store::money::Payment;
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        cluster::hints::HintSender,
        runs::{
            hub::Hub,
            run_log::RunLog,
            unretained::{Output, Reader, Request},
        },
        testing::{called, held},
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
    async fn the_last_events_of_a_cancelled_run_are_in_memory_before_it_is_settled() {
        let mut held = held().await;
        held.sql("UPDATE run SET zero_data_retention = 1");
        held.claim.definition = None;
        let (org, fence, now) = (held.claim.org, held.claim.fence, Clock::system().now());
        let worker = held.worker().await;
        let unretained = &worker.records.unretained;
        let request = Request {
            definition: "{}".into(),
            inline: BTreeMap::new(),
        };
        let output = Output::of(Reader::Get);
        let admitted = unretained.admit((org, fence.run), request, output, (Payment::Free, now));
        drop(admitted.unwrap());
        let log = RunLog::new(worker.records.clone(), fence.run, held.claim.retention());
        let Origin::Queue(claimed) = &held.claim.origin else {
            panic!("it is a first attempt")
        };
        log.written(std::slice::from_ref(claimed));
        let (hub, clock) = (worker.hub.clone(), worker.clock.clone());
        let attempt = Attempt {
            worker: &worker,
            claim: &held.claim,
            recorder: Recorder::new(fence.run, log.clone(), hub, clock, Arc::default()),
            log,
            active_run: worker.active.enter(fence.run),
            started: Instant::now(),
            deadline: Instant::now(),
            spent: Micros::ZERO,
            stored_credentials: StoredCredentials::Possible,
            resumed: None,
            charged_until: None,
            workspace: None,
            left_tasks: None,
        };
        attempt.recorder.charged(called(3));
        held.store.cancel_run(org, fence.run, now).await.unwrap();
        held.fail("BEFORE UPDATE OF billing_pending ON run");
        attempt.settle().await.unwrap_err();
        assert!(held.store.get_run(org, fence.run).await.unwrap().billing_pending);
        let events = worker
            .records
            .list_events(org, fence.run, &sortie_store::runs::EventSelection::after(0), 100)
            .await
            .unwrap();
        let events: Vec<_> = events
            .iter()
            .map(|event| (event.seq, event.kind.as_str()))
            .collect();
        assert_eq!(
            events,
            [(1, "status"), (2, "status"), (3, "status"), (4, "model_call")]
        );
    }

    #[tokio::test]
    async fn time_that_passes_before_a_cost_is_kept_is_charged_as_well() {
        let held = held().await;
        let (run, log) = (
            held.claim.fence.run,
            RunLog::new(held.records(), held.claim.fence.run, held.claim.retention()),
        );
        let hub = Hub::new(held.records(), HintSender::default(), CancellationToken::new());
        let recorder = Recorder::new(run, log, hub, Clock::system(), Arc::default());
        let micros = |amount: u32| Micros::new(u64::from(amount)).unwrap();
        let started = Instant::now();
        let budget = BudgetSpec {
            max_cost: micros(1_000_000),
            compute_micros_per_second: micros(1_000),
            started,
            spent: Micros::ZERO,
        };
        // The order of the times in this test: checked after one second, stored at any time, ended after three.
        let at = |seconds| started + Duration::from_secs(seconds);
        recorder.spent(micros(1_000 + 7), at(1));
        assert_eq!(recorder.rest().spent.until(at(3), &budget), micros(3_000 + 7));
    }
}
