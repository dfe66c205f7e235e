//! An attempt at a run, from its claim to its end. This is where the store and the agent meet: [`prepare`] reads the definition,
//! [`Attempt::supervise`] runs the agent and the recorder, and [`Attempt::finish`] records the end.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use sortie_agent::{BudgetSpec, StoppedWorkspace, Workspace, journal::Journal};
use sortie_api::{Micros, RunUsage, event::EventType};
use sortie_connect::LeftTasks;
use sortie_store::{
    Error as StoreError,
    runs::{Claim, Fence, NewEvent, Origin, Retention, StoredCredentials},
};
use tokio::time::Instant;

use super::{
    Worker,
    ended::{Ended, Supervised},
    obstacle::Obstacle,
    outputs::Outputs,
    recorder::Recorder,
    resume::{AttemptState, Decision, Files, Resumption, decide, journal_texts, unstored},
    spent::{Spent, charged_calls},
    unstored::{DIRECTORY_GONE, UnstoredEnd, lost},
};
use crate::runs::{
    active::{ActiveRun, StopReason},
    run_log::RunLog,
};

/// An attempt at a claimed run.
pub(super) struct Attempt<'a> {
    pub(super) worker: &'a Worker,
    pub(super) claim: &'a Claim,
    pub(super) log: RunLog,
    pub(super) recorder: Recorder,
    pub(super) active_run: ActiveRun,
    pub(super) started: Instant,
    pub(super) deadline: Instant,
    /// Cost of models and priced tools before this attempt.
    pub(super) spent: Micros,
    /// Presence of inline credentials. Assumed until the definition was read.
    pub(super) stored_credentials: StoredCredentials,
    /// The event `resumed`, until it is stored.
    pub(super) resumed: Option<NewEvent>,
    /// End of the time that is charged, if the run waits for the storage after it.
    pub(super) charged_until: Option<Instant>,
    /// The stopped workspace. It is deleted once the run is settled in the store.
    pub(super) workspace: Option<StoppedWorkspace>,
    /// Tasks of calls that were under way when the agent ended. They are cancelled once the run is settled in the store.
    pub(super) left_tasks: Option<LeftTasks>,
}

/// State in which the work on a run begins.
enum Begun {
    /// The agent starts with this state.
    At(AttemptState),
    /// The run ends without an agent.
    Ended(Ended),
    /// An earlier attempt has ended the run. Its outputs are in the directory, if that still exists.
    Unstored(UnstoredEnd, Option<Workspace>),
}

impl Worker {
    /// Works on a claimed run until its status is terminal or the run belongs to another worker.
    pub(crate) async fn run(self: Arc<Self>, claim: Claim, active_run: ActiveRun) {
        let run = claim.fence.run;
        let (now, claimed) = self.clock.moment();
        // A first claim has a time by the clock of this node. The commit of the claim is part of the run's time, as it
        // is of the displayed time.
        let elapsed = match claim.origin {
            Origin::Queue(_) => now.since(claim.started_at),
            Origin::Lost { .. } => claim.elapsed,
        };
        let started = claimed.checked_sub(elapsed).unwrap_or(claimed);
        active_run.alone().await;
        let log = RunLog::new(self.records.clone(), run, claim.retention());
        if let Origin::Queue(event) = &claim.origin {
            self.metrics.dispatched(claim.created_at, self.clock.now());
            log.written(std::slice::from_ref(event));
            self.hub.publish(run, std::slice::from_ref(event));
            self.hub.listed(claim.org);
        }
        let mut attempt = Attempt {
            worker: &self,
            claim: &claim,
            recorder: Recorder::new(
                run,
                log.clone(),
                self.hub.clone(),
                self.clock.clone(),
                Arc::clone(&self.metrics),
            ),
            log: log.clone(),
            active_run,
            started,
            deadline: started + Duration::from_secs(u64::from(claim.timeout_seconds)),
            spent: Micros::ZERO,
            stored_credentials: StoredCredentials::Possible,
            resumed: None,
            charged_until: None,
            workspace: None,
            left_tasks: None,
        };
        let worked = AssertUnwindSafe(attempt.work()).catch_unwind().await;
        let ended = match worked {
            Ok(Err(StoreError::Fenced)) => Box::pin(attempt.settle()).await,
            Ok(ended) => ended,
            Err(_panic) => Err(StoreError::Corrupt("the run's task panicked".to_owned())),
        };
        attempt.clean_up(&ended).await;
        match log.close().await {
            Ok(true) => self.hub.ended(run),
            Ok(false) => {}
            // The keeper of runs without retention finds the end in its next pass.
            Err(error) => tracing::warn!(%error, "reading the end of a run failed"),
        }
        if attempt.is_settled(&ended)
            && let Some(left) = attempt.left_tasks.take()
        {
            left.cancel().await;
        }
        match ended {
            Ok(()) => {}
            Err(StoreError::Fenced) => tracing::debug!("the run was taken from this worker"),
            // The run stays held in the store until the reconciler finds that it has no task.
            Err(error) => tracing::error!(%error, "recording the end of the run failed"),
        }
    }
}

impl Attempt<'_> {
    /// Works on the run until its end is recorded. Everything except the work of the agent is boxed, so that a run does not hold
    /// memory for its beginning and its end while the agent works.
    async fn work(&mut self) -> Result<(), StoreError> {
        let run = self.claim.fence.run;
        let begun = match self.claim.origin {
            Origin::Queue(_) => Begun::At(AttemptState {
                workspace: self.worker.workspace(run, self.claim.retention()),
                files: Files::NotStaged,
                journal: None,
            }),
            Origin::Lost { cost, usage, .. } => Box::pin(self.resume(cost, usage)).await?,
        };
        let mut state = match begun {
            Begun::At(state) => state,
            Begun::Ended(ended) => {
                return Box::pin(self.finish(ended, Outputs::default(), self.claim.fence)).await;
            }
            Begun::Unstored(unstored, left) => return Box::pin(self.store_left(unstored, left)).await,
        };
        let prepared = Box::pin(self.prepare(&mut state)).await;
        let Supervised {
            mut ended,
            kept,
            workspace,
        } = match prepared {
            Ok(start) => {
                self.stored_credentials = start.stored_credentials;
                self.supervise(start, state.workspace).await?
            }
            Err(ended) => Supervised {
                ended: doubted(ended, state.journal.as_ref()),
                kept: Ok(self.claim.fence),
                workspace: self.stop(state.workspace).await,
            },
        };
        if self.claim.retention() == Retention::None {
            ended = ended.for_good();
        }
        let stored = match kept {
            Ok(mut fence) => {
                let collected = Box::pin(self.collect(ended, &workspace, &mut fence)).await;
                collected.map(|(ended, outputs)| (ended, outputs, fence))
            }
            Err(error) => Err(error),
        };
        Box::pin(self.finish_with(stored, workspace)).await
    }

    /// Stores the outputs of a run that an earlier attempt has ended, and finishes it.
    async fn store_left(&mut self, unstored: UnstoredEnd, left: Option<Workspace>) -> Result<(), StoreError> {
        let Some(left) = left else {
            let (ended, outputs) = lost(unstored.ended(), DIRECTORY_GONE);
            return self.finish(ended, outputs, self.claim.fence).await;
        };
        let workspace = self.stop(left).await;
        let (ended, outputs) = self.collect_again(unstored, &workspace).await;
        self.finish_with(Ok((ended, outputs, self.claim.fence)), workspace)
            .await
    }

    /// Finishes the run, and deletes its directory with [`Self::clean_up`] unless the run is handed over.
    async fn finish_with(
        &mut self,
        stored: Result<(Ended, Outputs, Fence), StoreError>,
        workspace: StoppedWorkspace,
    ) -> Result<(), StoreError> {
        let goes_on = matches!(stored, Ok((Ended::Stopped(StopReason::HandOver), ..)));
        let finished = match stored {
            Ok((ended, outputs, fence)) => self.finish(ended, outputs, fence).await,
            Err(error) => Err(error),
        };
        // The next attempt at a run that is handed over may need the directory, and waits for the tasks.
        if goes_on && finished.is_ok() {
            self.left_tasks = None;
        } else {
            self.workspace = Some(workspace);
        }
        finished
    }

    /// Resumes the run of a lost worker. `recorded` and `used` are the cost and the usage that the lost worker has
    /// reported.
    async fn resume(&mut self, recorded: Micros, used: RunUsage) -> Result<Begun, StoreError> {
        // The events show the charged costs, even if the time of the last report is unknown.
        let shown = charged_calls(self.log.store(), self.claim.org, self.claim.fence.run).await?;
        self.charge(recorded, shown);
        self.recorder.used(used, shown);
        let texts = tokio::select! {
            biased;
            texts = journal_texts(self.worker, self.claim) => texts?,
            reason = self.active_run.stopped() => return Ok(Begun::Ended(Ended::Stopped(reason))),
        };
        // The time limit does not apply to a run that has ended.
        if let Some((unstored, left)) = unstored(self.worker, self.claim, &texts).await? {
            // The compute clock stopped when the end was marked.
            let now = Instant::now();
            self.recorder.charge(Spent::reported(recorded.max(shown), now));
            self.charged_until = Some(now);
            self.resumes_at(unstored.step)?;
            self.recorder.continue_journal(texts.len());
            return Ok(Begun::Unstored(unstored, left));
        }
        let decision = tokio::select! {
            biased;
            decision = decide(self.worker, self.claim, &texts) => decision?,
            reason = self.active_run.stopped() => return Ok(Begun::Ended(Ended::Stopped(reason))),
            () = tokio::time::sleep_until(self.deadline) => return Ok(Begun::Ended(Ended::TimedOut)),
        };
        let Resumption {
            journal,
            stored,
            workspace,
            files,
        } = match decision {
            Decision::Resume(resumption) => resumption,
            Decision::End(obstacle) => return Ok(Begun::Ended(Ended::Interrupted(obstacle))),
        };
        self.spent = self.charge(recorded, journal.spent().max(shown));
        self.resumes_at(journal.last_step())?;
        self.recorder.continue_journal(stored);
        Ok(Begun::At(AttemptState {
            workspace,
            files,
            journal: Some(journal),
        }))
    }

    /// Makes the event which says that this attempt continues after `step`.
    fn resumes_at(&mut self, step: u32) -> Result<(), StoreError> {
        let resumed = EventType::Resumed {
            step,
            attempt: u32::try_from(self.claim.fence.attempt).unwrap_or(u32::MAX),
        };
        self.resumed = Some(self.event(&resumed)?);
        self.worker.metrics.happened(&resumed);
        Ok(())
    }

    /// Reports to the recorder the cost before this attempt: the larger of the journaled and the recorded cost, and the compute
    /// time. `journaled` includes no compute time. Returns the cost without compute time.
    fn charge(&self, recorded: Micros, journaled: Micros) -> Micros {
        let (now, budget) = (Instant::now(), self.budget());
        let compute = budget.compute(now);
        let spent = journaled.max(recorded.saturating_sub(compute));
        let cost = spent
            .checked_add(compute)
            .unwrap_or(budget.max_cost)
            .min(budget.max_cost);
        self.recorder.charge(Spent::reported(cost, now));
        spent
    }

    pub(super) fn event(&self, event: &EventType) -> Result<NewEvent, StoreError> {
        NewEvent::new(event, self.worker.clock.now()).map_err(|error| StoreError::Corrupt(error.to_string()))
    }

    /// Returns the cost of the run at `end`. The time in which it waited for the storage at its end costs nothing.
    pub(super) fn cost(&self, spent: Spent, end: Instant) -> Micros {
        let end = self.charged_until.map_or(end, |until| until.min(end));
        spent.until(end, &self.budget())
    }

    pub(super) fn budget(&self) -> BudgetSpec {
        BudgetSpec {
            max_cost: self.claim.max_cost,
            compute_micros_per_second: self.worker.options.compute_micros_per_second,
            started: self.started,
            spent: self.spent,
        }
    }
}

/// Returns the end of an attempt that could not be prepared. If that leaves a call with a task, the call is
/// in doubt.
fn doubted(ended: Ended, journal: Option<&Journal>) -> Ended {
    match (ended, journal.and_then(Journal::call_with_task)) {
        (Ended::Failed(_), Some(call)) => Ended::Interrupted(Obstacle::UncertainCall(call)),
        (ended, _) => ended,
    }
}
