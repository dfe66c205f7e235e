//! Storage work of an attempt: its files at the beginning, its outputs at the end. The storage may be unavailable.
//!
//! Both are retried for `Options::storage_retry`. Then the run waits for the storage: it frees its slot and its compute clock
//! stops. After `Options::storage_wait` it fails. Nothing is copied for that wait: the outputs stay in the working directory,
//! which has a size limit and survives the process.

use std::{pin::Pin, time::Duration};

use sortie_agent::StoppedWorkspace;
use sortie_api::{Micros, event::EventType};
use sortie_store::{
    Error as StoreError,
    runs::{Fence, Retention},
};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::{
    attempt::Attempt,
    ended::Ended,
    outputs::{Outputs, collect},
    prepare::{Start, prepare},
    resume::AttemptState,
    spent::Spent,
    unstored::{UnstoredEnd, lost, not_taken},
};
use crate::{files::saved::Unprepared, kit::retry::Pauses, runs::active::StopReason};

/// End of a wait for the storage.
pub(super) enum Waited {
    /// The storage may answer again.
    Again,
    /// The run ends.
    Ended(Ended),
}

impl Attempt<'_> {
    /// Stores the files under `outputs/` of a run that was not stopped. Returns the end of the run, because it may be stopped
    /// while it waits, or lose its outputs.
    pub(super) async fn collect(
        &mut self,
        ended: Ended,
        workspace: &StoppedWorkspace,
        fence: &mut Fence,
    ) -> Result<(Ended, Outputs), StoreError> {
        if !ended.leaves_artifacts() || self.claim.retention() == Retention::None {
            return Ok((ended, Outputs::default()));
        }
        let worker = self.worker;
        let options = &worker.options;
        let storing = collect(worker, self.claim.org, workspace);
        tokio::pin!(storing);
        // An attempt that did not begin has not stored its first write, so it cannot write a mark.
        let is_opened = *fence != self.claim.fence;
        tokio::select! {
            biased;
            outputs = &mut storing => return Ok((ended, outputs)),
            reason = self.active_run.stopped() => {
                if reason == StopReason::HandOver && is_opened {
                    self.mark_unstored(&ended, fence).await?;
                }
                return Ok((Ended::Stopped(reason), Outputs::default()));
            }
            () = sleep(options.storage_retry) => {}
        }
        if !is_opened {
            return Ok(lost(ended, &not_taken(options.storage_retry)));
        }
        self.mark_unstored(&ended, fence).await?;
        Ok(self.wait_to_store(ended, storing, options.storage_wait).await)
    }

    /// Stores the outputs of a run that an earlier attempt ended without storing them.
    pub(super) async fn collect_again(
        &mut self,
        unstored: UnstoredEnd,
        workspace: &StoppedWorkspace,
    ) -> (Ended, Outputs) {
        let waited = self.worker.clock.now().since(unstored.since);
        let options = &self.worker.options;
        // If the node was down for longer than the wait, the storage is still tried for at least as long as after the end of an
        // agent.
        let left = options
            .storage_wait
            .saturating_sub(waited)
            .max(options.storage_retry);
        let storing = collect(self.worker, self.claim.org, workspace);
        tokio::pin!(storing);
        self.wait_to_store(unstored.ended(), storing, left).await
    }

    /// Waits, without a slot, until the outputs are stored.
    async fn wait_to_store(
        &mut self,
        ended: Ended,
        storing: Pin<&mut impl Future<Output = Outputs>>,
        left: Duration,
    ) -> (Ended, Outputs) {
        self.active_run.slot().give_back();
        let worker = self.worker;
        let options = &worker.options;
        tokio::select! {
            biased;
            outputs = storing => (ended, outputs),
            reason = self.active_run.stopped() => (Ended::Stopped(reason), Outputs::default()),
            () = sleep(left) => lost(ended, &not_taken(options.storage_retry + options.storage_wait)),
        }
    }

    /// Stops the compute clock, and makes all pending records of the agent and its end durable.
    async fn mark_unstored(&mut self, ended: &Ended, fence: &mut Fence) -> Result<(), StoreError> {
        let mut rest = self.recorder.rest();
        let since = self.worker.clock.now();
        self.charged_until = Some(Instant::now());
        let Some(unstored) = UnstoredEnd::new(ended, since, rest.step) else {
            return Ok(());
        };
        tracing::warn!("a run waits to store its outputs in the file storage");
        rest.new.cost = self.cost(rest.spent, Instant::now());
        rest.new.events.splice(0..0, self.resumed.take());
        rest.new.events.push(self.event(&EventType::Retry {
            what: "outputs".to_owned(),
            attempt: 2,
            delay_ms: 0,
            reason: format!(
                "the file storage is unavailable; the run waits for it for up to {} s",
                self.worker.options.storage_wait.as_secs()
            ),
        })?);
        let mark = unstored
            .mark()
            .map_err(|error| StoreError::Corrupt(error.to_string()))?;
        rest.new.journal.data.push(mark);
        *fence = self.recorder.append(*fence, rest.new).await?;
        Ok(())
    }

    /// Prepares the run. If its files cannot be read because the storage is unavailable, the run waits for the storage. The error
    /// is the end of the run.
    pub(super) async fn prepare(&mut self, state: &mut AttemptState) -> Result<Start, Ended> {
        let mut pauses = Pauses::default();
        let mut away: Option<Instant> = None;
        loop {
            let (budget, deadline) = (self.budget(), self.deadline);
            let prepared = tokio::select! {
                biased;
                prepared = prepare(self.worker, self.claim, (budget, deadline), state) => prepared,
                reason = self.active_run.stopped() => return Err(Ended::Stopped(reason)),
                () = sleep_until(deadline) => return Err(Ended::TimedOut),
            };
            let reason = match prepared {
                Ok(start) => return Ok(start),
                Err(Unprepared::Failed(reason)) => {
                    return Err(Ended::Failed(reason).unless_late(self.deadline));
                }
                Err(Unprepared::Away(reason)) => reason,
            };
            let since = *away.get_or_insert_with(Instant::now);
            match self.wait_for_files(since, pauses.longer(), reason).await {
                Waited::Again => {}
                Waited::Ended(ended) => return Err(ended),
            }
        }
    }

    /// Waits before the next try to read the run's files, which the storage has refused `since`.
    pub(super) async fn wait_for_files(&mut self, since: Instant, pause: Duration, reason: String) -> Waited {
        let worker = self.worker;
        let (options, standing) = (&worker.options, worker.contents.standing());
        // Part of the run's time must be left when the storage is available again.
        let half = self.deadline.saturating_duration_since(since) / 2;
        let retry_until = since + options.storage_retry.min(half);
        if Instant::now() < retry_until {
            tokio::select! {
                biased;
                reason = self.active_run.stopped() => return Waited::Ended(Ended::Stopped(reason)),
                () = async { sleep(pause).await; standing.up().await } => {}
                () = sleep_until(retry_until) => {}
            }
            return Waited::Again;
        }
        let begun = Instant::now();
        let cost = self.recorder.cost_until(begun, &self.budget());
        tracing::warn!("a run waits for its files from the file storage");
        let (slot, slots) = (self.active_run.slot(), options.slots());
        slot.give_back();
        let over = since + options.storage_retry + options.storage_wait;
        let again = async {
            let up = async {
                sleep(pause).await;
                standing.up().await;
            };
            let is_up = timeout_at(over, up).await.is_ok();
            if is_up {
                slot.take(slots).await;
            }
            is_up
        };
        let waited = tokio::select! {
            biased;
            reason = self.active_run.stopped() => Waited::Ended(Ended::Stopped(reason)),
            is_up = again => if is_up { Waited::Again } else { Waited::Ended(Ended::Failed(reason)) },
        };
        self.skip_time(begun, cost);
        waited
    }

    /// Excludes the time since `begun` from the run's time and its cost. `cost` is the cost at `begun`.
    fn skip_time(&mut self, begun: Instant, cost: Micros) {
        let now = Instant::now();
        let waited = now.saturating_duration_since(begun);
        self.started += waited;
        self.deadline += waited;
        self.recorder.charge(Spent::reported(cost, now));
    }
}
