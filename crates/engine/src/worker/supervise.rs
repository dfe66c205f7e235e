//! Supervision of the agent, which runs concurrently with the recorder of the run.

use futures_util::FutureExt;
use sortie_agent::{Outcome, Shell, StoppedWorkspace, Workspace};
use sortie_api::{RunStatus, event::EventType};
use sortie_connect::Opened;
use sortie_store::{
    Error as StoreError,
    runs::{NewEvent, Origin},
};

use super::{
    attempt::Attempt,
    ended::{Ended, Supervised},
    obstacle::Obstacle,
    prepare::Start,
    recorder::Opening,
};
use crate::runs::active::StopReason;

impl Attempt<'_> {
    /// Runs the agent and the recorder, until the first of: its outcome, a stop, the time limit, the loss of the run.
    pub(super) async fn supervise(
        &mut self,
        start: Start,
        mut workspace: Workspace,
    ) -> Result<Supervised, StoreError> {
        let Start {
            spec,
            model,
            opened,
            stored_credentials: _,
        } = start;
        let is_resumed = self.resumed.is_some();
        let opening = self.opening(spec.shell)?;
        let mut keep = self.recorder.keep(self.claim.fence, opening).boxed();
        let (ended, kept) = {
            let mut agent = async {
                if is_resumed {
                    // The next worker must be able to see that this attempt put its process at risk.
                    self.recorder.opened().await;
                }
                sortie_agent::run(spec, &*model, &mut workspace, &self.recorder).await
            }
            .boxed();
            tokio::select! {
                biased;
                // The recorder is polled first, so that the start of the run is stored while the agent begins.
                kept = &mut keep => (Ended::Stopped(StopReason::NotOurs), Some(kept)),
                outcome = &mut agent => (ended(outcome).unless_late(self.deadline), None),
                reason = self.active_run.stopped() => (Ended::Stopped(reason), None),
                () = tokio::time::sleep_until(self.deadline) => (Ended::TimedOut, None),
            }
        };
        self.recorder.end();
        // Servers are disconnected in the background: a slow one does not delay the end of the run. Those with tasks follow once
        // it is known whether another attempt waits for the tasks.
        self.left_tasks = opened.and_then(Opened::into_left_tasks);
        if let Some(kept) = kept {
            // If this node has taken the run over again, the next attempt may need its directory.
            let ended = self.active_run.stop_reason().map_or(ended, Ended::Stopped);
            let workspace = self.stop(workspace).await;
            return Ok(Supervised {
                ended,
                kept,
                workspace,
            });
        }
        // Concurrent, so that an unavailable database does not keep the run's processes alive.
        let (kept, workspace) = futures_util::join!(keep, self.stop(workspace));
        Ok(Supervised {
            ended,
            kept,
            workspace,
        })
    }

    /// The first write of the attempt.
    fn opening(&mut self, shell: Shell) -> Result<Opening, StoreError> {
        let status = match self.claim.origin {
            Origin::Queue(_) => RunStatus::Starting,
            Origin::Lost { status, .. } => status,
        };
        let mut events: Vec<NewEvent> = self.resumed.take().into_iter().collect();
        if status == RunStatus::Starting {
            events.push(self.event(&EventType::status(RunStatus::Running))?);
        }
        events.push(self.event(&EventType::WorkerStarted {
            runtime: self.worker.sandbox.capabilities().level.as_str(),
            mode: self.worker.options.mode,
            shell: shell == Shell::Allowed,
        })?);
        let org = self.claim.org;
        Ok(Opening { org, status, events })
    }

    /// Stops every process of the run. Its status becomes terminal after that.
    pub(super) async fn stop(&self, workspace: Workspace) -> StoppedWorkspace {
        let (workspace, stopped) = workspace.stop().await;
        if let Err(error) = stopped {
            tracing::error!(%error, "stopping the processes of a run failed");
        }
        workspace
    }
}

fn ended(outcome: Outcome) -> Ended {
    match outcome {
        Outcome::Succeeded(output) => Ended::Succeeded(output),
        Outcome::Failed(reason) => Ended::Failed(reason),
        Outcome::Uncertain(call) => Ended::Interrupted(Obstacle::UncertainCall(call)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_outcome_at_the_deadline_is_the_time_limit() {
        let deadline = Instant::now() + Duration::from_secs(1);
        let outcomes = || {
            [
                Outcome::Succeeded("x".to_owned()),
                Outcome::Failed("y".to_owned()),
            ]
        };
        tokio::time::advance(Duration::from_millis(999)).await;
        let before = outcomes().map(|outcome| ended(outcome).unless_late(deadline));
        assert_eq!(
            before,
            [Ended::Succeeded("x".to_owned()), Ended::Failed("y".to_owned())]
        );
        tokio::time::advance(Duration::from_millis(1)).await;
        for outcome in outcomes() {
            assert_eq!(ended(outcome).unless_late(deadline), Ended::TimedOut);
        }
    }
}
