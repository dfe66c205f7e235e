//! One run from its claim to its end: where the store and the agent meet.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use sortie_agent::{BudgetSpec, Egress, Model, Outcome, RunSpec, Shell, Workspace, schema::Schema};
use sortie_api::{Micros, RunRequest, RunStatus, event::EventType};
use sortie_sandbox::{Backend, RelPath};
use sortie_store::{Claim, Error as StoreError, Fence, NewEvent, Store};
use tokio::time::Instant;

use super::{
    active::{Active, Place, StopReason},
    finish::{Ended, final_events},
    recorder::{Recorder, numbered},
    writes::until_stored,
};
use crate::{Clock, Options, hub::Hub, models::Models};

/// What every run on this node needs.
pub(crate) struct Worker {
    pub(crate) store: Store,
    pub(crate) hub: Hub,
    pub(crate) clock: Clock,
    pub(crate) models: Arc<Models>,
    pub(crate) sandbox: Arc<dyn Backend>,
    pub(crate) active: Active,
    pub(crate) options: Arc<Options>,
}

/// A claimed run at work.
struct Attempt<'a> {
    worker: &'a Worker,
    claim: &'a Claim,
    recorder: Recorder,
    place: Place,
    started: Instant,
    deadline: Instant,
}

impl Worker {
    /// Works on a claimed run until it is final or no longer this worker's.
    pub(crate) async fn run(self: Arc<Self>, claim: Claim, place: Place) {
        let run = claim.fence.run;
        self.hub.publish(run, std::slice::from_ref(&claim.event));
        let elapsed = self.clock.now().since(claim.started_at);
        let started = Instant::now().checked_sub(elapsed).unwrap_or_else(Instant::now);
        let mut attempt = Attempt {
            worker: &self,
            claim: &claim,
            recorder: Recorder::new(self.store.clone(), self.hub.clone(), self.clock.clone()),
            place,
            started,
            deadline: started + Duration::from_secs(u64::from(claim.timeout_seconds)),
        };
        let worked = AssertUnwindSafe(attempt.work()).catch_unwind().await;
        let ended = match worked {
            Ok(Err(StoreError::Fenced)) => attempt.settle().await,
            Ok(ended) => ended,
            Err(_panic) => Err(StoreError::Corrupt("the run's task panicked".to_owned())),
        };
        match ended {
            Ok(()) => {}
            Err(StoreError::Fenced) => tracing::debug!(%run, "the run was taken from this worker"),
            // It stays held in the store until the node's next looks find that it has no task.
            Err(error) => tracing::error!(%run, %error, "the run could not be recorded to its end"),
        }
    }
}

impl Attempt<'_> {
    async fn work(&mut self) -> Result<(), StoreError> {
        let options = &self.worker.options;
        let mut workspace = Workspace::new(
            options.work_dir(),
            self.claim.fence.run.to_string(),
            Arc::clone(&self.worker.sandbox),
            options.sandbox_limits,
        );
        let prepared = tokio::select! {
            biased;
            prepared = prepare(self.worker, self.claim, self.budget(), &mut workspace) => prepared.map_err(Ended::Failed),
            reason = self.place.stopped() => Err(Ended::Stopped(reason)),
            () = tokio::time::sleep_until(self.deadline) => Err(Ended::TimedOut),
        };
        let (ended, fence) = match prepared {
            Ok((spec, model)) => self.supervise(spec, &*model, workspace).await?,
            Err(ended) => {
                self.close(workspace).await;
                (ended, self.claim.fence)
            }
        };
        self.finish(ended, fence).await
    }

    /// Before a run is final nothing of it is left alive.
    async fn close(&self, workspace: Workspace) {
        if let Err(error) = workspace.close().await {
            tracing::error!(run = %self.claim.fence.run, %error, "a working directory could not be removed");
        }
    }

    /// Runs the agent beside the recorder, until the first of: its outcome, a stop, the time limit, the loss of the run.
    async fn supervise(
        &mut self,
        spec: RunSpec,
        model: &dyn Model,
        mut workspace: Workspace,
    ) -> Result<(Ended, Fence), StoreError> {
        let first = self.running_events(spec.shell)?;
        let mut keep = self.recorder.keep(self.claim.fence, first).boxed();
        let (ended, kept) = {
            let mut agent = sortie_agent::run(spec, model, &mut workspace, &self.recorder).boxed();
            tokio::select! {
                biased;
                // First, so that the start of the run is on its way to the store while the agent begins.
                kept = &mut keep => (Ended::Stopped(StopReason::NotOurs), Some(kept)),
                outcome = &mut agent => match outcome {
                    Outcome::Succeeded(output) => (Ended::Succeeded(output), None),
                    Outcome::Failed(reason) => (Ended::Failed(reason), None),
                },
                reason = self.place.stopped() => (Ended::Stopped(reason), None),
                () = tokio::time::sleep_until(self.deadline) => (Ended::TimedOut, None),
            }
        };
        self.recorder.end();
        if let Some(kept) = kept {
            self.close(workspace).await;
            return kept.map(|fence| (ended, fence));
        }
        // Side by side: a database that is away does not keep the run's processes alive.
        let (fence, ()) = futures_util::join!(keep, self.close(workspace));
        Ok((ended, fence?))
    }

    fn running_events(&self, shell: Shell) -> Result<Vec<NewEvent>, StoreError> {
        let now = self.worker.clock.now();
        [
            EventType::status(RunStatus::Running),
            EventType::WorkerStarted {
                runtime: self.worker.sandbox.capabilities().level.as_str(),
                mode: self.worker.options.mode,
                shell: shell == Shell::Allowed,
            },
        ]
        .iter()
        .map(|event| NewEvent::new(event, now).map_err(|error| StoreError::Corrupt(error.to_string())))
        .collect()
    }

    /// Reports what a run that was cancelled under its worker has cost. A run that was lost in another way refuses it.
    async fn settle(&self) -> Result<(), StoreError> {
        let Fence { run, attempt, .. } = self.claim.fence;
        let cost = self.recorder.rest().spent.until(Instant::now(), &self.budget());
        self.worker.store.settle_run(run, attempt, cost).await
    }

    fn budget(&self) -> BudgetSpec {
        BudgetSpec {
            max_cost: self.claim.max_cost,
            compute_micros_per_second: self.worker.options.compute_micros_per_second,
            started: self.started,
            spent: Micros::ZERO,
        }
    }

    async fn finish(&self, ended: Ended, fence: Fence) -> Result<(), StoreError> {
        let rest = self.recorder.rest();
        let now = self.worker.clock.now();
        let cost = rest.spent.until(Instant::now(), &self.budget());
        let finish = final_events(ended, self.claim, rest, cost, now)
            .map_err(|error| StoreError::Corrupt(error.to_string()))?
            .ok_or(StoreError::Fenced)?;
        let rows = numbered(&fence, &finish.events);
        let store = &self.worker.store;
        let finished = until_stored(store, fence, rows.len(), || {
            store.finish_run(fence, finish.clone())
        })
        .await;
        match finished {
            Ok(Some(run)) => {
                if let Err(error) = self.worker.hub.publish_final(&run, &rows) {
                    tracing::error!(run = %run.id, %error, "the end of a run could not be told to its readers");
                }
            }
            // Stored, and the answer lost: readers find it in the store.
            Ok(None) => self.worker.hub.ended(fence.run),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Reads the definition and lays what the run brings. An error is the run's, in words for people.
async fn prepare(
    worker: &Worker,
    claim: &Claim,
    budget: BudgetSpec,
    workspace: &mut Workspace,
) -> Result<(RunSpec, Arc<dyn Model>), String> {
    let request: RunRequest = serde_json::from_str(&claim.definition)
        .map_err(|error| format!("the stored definition cannot be read: {error}"))?;
    let id = request
        .model
        .unwrap_or_else(|| worker.models.catalog().default_model.clone());
    let model = worker
        .models
        .get(&id)
        .ok_or_else(|| format!("model {id:?} is no longer available"))?;
    let output_schema = match &request.output_schema {
        Some(schema) => {
            Some(Schema::compile(schema.get()).map_err(|error| format!("output_schema: {error}"))?)
        }
        None => None,
    };
    let mut files = Vec::new();
    for file in request.files.unwrap_or_default() {
        let path = RelPath::new(&file.path).map_err(|error| format!("files: {:?}: {error}", file.path))?;
        files.push((path, file.content.unwrap_or_default().into_bytes()));
    }
    if !files.is_empty() {
        workspace
            .lay(files)
            .await
            .map_err(|error| format!("the run's files cannot be laid: {error}"))?;
    }
    let shell = if request.shell.unwrap_or(true) {
        Shell::Allowed
    } else {
        Shell::Denied
    };
    let spec = RunSpec {
        prompt: request.prompt.unwrap_or_default(),
        input: request.input,
        output_schema: output_schema.map(Arc::new),
        shell,
        egress: Egress::Closed,
        budget,
        command_timeout: Duration::from_secs(u64::from(claim.timeout_seconds)),
        tools: Vec::new(),
        redactor: Arc::default(),
        resume: None,
    };
    Ok((spec, Arc::clone(model)))
}
