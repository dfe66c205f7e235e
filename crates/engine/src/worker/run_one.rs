//! One run from its claim to its end: where the store and the agent meet.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use sortie_agent::{
    BudgetSpec, Model, Outcome, Redactor, Remains, RunSpec, Shell, Whose, Workspace, schema::Schema,
};
use sortie_api::{Micros, RunId, RunRequest, RunStatus, RunUsage, event::EventType};
use sortie_connect::Opened;
use sortie_sandbox::Backend;
use sortie_store::{Brought, Claim, Error as StoreError, Fence, Finish, NewEvent, Origin, Retention};
use tokio::time::Instant;

use super::{
    files,
    finish::{Ended, final_events},
    outputs::{Collecting, Outputs, collect},
    pictures::pictures,
    programs::Programs,
    recorder::{Opening, Recorder, numbered},
    resume::{Files, Ground, Resumption, hand_over_mark, pick_up},
    spent::Spent,
    web::{self, RunWeb},
    writes::{until_settled, until_stored},
};
use crate::{
    callbacks::Hints,
    cluster::news::TimerBell,
    connections::{Connections, InlineSecrets},
    files::contents::Contents,
    kit::{clock::Clock, metrics::Metrics, models::Models, options::Options, traces, web::NodeWeb},
    runs::{
        active::{Active, Place, StopReason},
        hub::Hub,
        run_log::{Records, RunLog},
    },
};

/// What every run on this node needs.
pub(crate) struct Worker {
    pub(crate) records: Records,
    pub(crate) hub: Hub,
    pub(crate) clock: Clock,
    pub(crate) models: Arc<Models>,
    pub(crate) connections: Connections,
    /// Told of runs that end and have a callback.
    pub(crate) callbacks: Hints,
    pub(crate) contents: Contents,
    /// The turns of runs that have artifacts to keep.
    pub(crate) collecting: Collecting,
    pub(crate) sandbox: Arc<dyn Backend>,
    pub(crate) programs: Programs,
    pub(crate) web: NodeWeb,
    pub(crate) metrics: Arc<Metrics>,
    /// Wakes the timer of the schedules.
    pub(crate) schedules: TimerBell,
    pub(crate) active: Active,
    pub(crate) options: Arc<Options>,
}

/// A claimed run at work.
struct Attempt<'a> {
    worker: &'a Worker,
    claim: &'a Claim,
    log: RunLog,
    recorder: Recorder,
    place: Place,
    started: Instant,
    deadline: Instant,
    /// What the run has spent on models and priced tools before this attempt.
    spent: Micros,
    /// Whether it brought credentials, as far as its definition was read.
    brought: Brought,
    /// The event that it was resumed, until it is written.
    resumed: Option<NewEvent>,
    /// The stopped workspace. It is deleted once the store says that the run is settled.
    remains: Option<Remains>,
}

/// What the agent is started with.
struct Start {
    spec: RunSpec,
    model: Arc<dyn Model>,
    brought: Brought,
    /// The run's connections: their sessions live as long as this.
    opened: Option<Opened>,
}

impl Worker {
    /// Works on a claimed run until it is final or no longer this worker's.
    pub(crate) async fn run(self: Arc<Self>, claim: Claim, place: Place) {
        let run = claim.fence.run;
        let (now, claimed) = self.clock.moment();
        // This node has just made a first claim, by its own clock: the commit of the claim is part of the run's time, as it is of
        // the time that is shown.
        let elapsed = match claim.origin {
            Origin::Queue(_) => now.since(claim.started_at),
            Origin::Lost { .. } => claim.elapsed,
        };
        let started = claimed.checked_sub(elapsed).unwrap_or(claimed);
        place.alone().await;
        let log = RunLog::new(self.records.clone(), run, claim.retention());
        if let Origin::Queue(event) = &claim.origin {
            self.metrics.dispatched(claim.created_at, self.clock.now());
            log.written(std::slice::from_ref(event));
            self.hub.publish(run, std::slice::from_ref(event));
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
            place,
            started,
            deadline: started + Duration::from_secs(u64::from(claim.timeout_seconds)),
            spent: Micros::ZERO,
            brought: Brought::Credentials,
            resumed: None,
            remains: None,
        };
        let worked = AssertUnwindSafe(attempt.work()).catch_unwind().await;
        let ended = match worked {
            Ok(Err(StoreError::Fenced)) => attempt.settle().await,
            Ok(ended) => ended,
            Err(_panic) => Err(StoreError::Corrupt("the run's task panicked".to_owned())),
        };
        attempt.clean_up(&ended).await;
        match log.close().await {
            Ok(true) => self.hub.ended(run),
            Ok(false) => {}
            // The keeper of such runs finds it at its next look.
            Err(error) => tracing::warn!(%error, "the end of a run could not be looked up"),
        }
        match ended {
            Ok(()) => {}
            Err(StoreError::Fenced) => tracing::debug!("the run was taken from this worker"),
            // It stays held in the store until the node's next looks find that it has no task.
            Err(error) => tracing::error!(%error, "the run could not be recorded to its end"),
        }
    }

    /// A working directory that is still to be made: in memory where nothing of the run is to be stored.
    pub(crate) fn workspace(&self, run: RunId, retention: Retention) -> Workspace {
        let root = match retention {
            Retention::Full => self.options.work_dir(),
            Retention::None => self.options.memory_dir(),
        };
        Workspace::new(
            root,
            run.to_string(),
            Arc::clone(&self.sandbox),
            self.options.sandbox_limits,
        )
    }
}

impl Attempt<'_> {
    async fn work(&mut self) -> Result<(), StoreError> {
        let run = self.claim.fence.run;
        let mut ground = match self.claim.origin {
            Origin::Queue(_) => Ground {
                workspace: self.worker.workspace(run, self.claim.retention()),
                files: Files::ToLay,
                journal: None,
            },
            Origin::Lost { cost, usage, .. } => match self.pick_up(cost, usage).await? {
                Ok(ground) => ground,
                Err(ended) => return self.finish(ended, Outputs::default(), self.claim.fence).await,
            },
        };
        let budget = self.budget();
        let prepared = tokio::select! {
            biased;
            prepared = prepare(self.worker, self.claim, (budget, self.deadline), &mut ground) => prepared.map_err(Ended::Failed),
            reason = self.place.stopped() => Err(Ended::Stopped(reason)),
            () = tokio::time::sleep_until(self.deadline) => Err(Ended::TimedOut),
        };
        let (mut ended, kept, remains) = match prepared {
            Ok(start) => {
                self.brought = start.brought;
                self.supervise(start, ground.workspace).await?
            }
            Err(ended) => (ended, Ok(self.claim.fence), self.stop(ground.workspace).await),
        };
        if self.claim.retention() == Retention::None {
            ended = ended.for_good();
        }
        let (ended, outputs) = self.collect(ended, &remains).await;
        let goes_on = matches!(ended, Ended::Stopped(StopReason::HandOver));
        let finished = match kept {
            Ok(fence) => self.finish(ended, outputs, fence).await,
            Err(error) => Err(error),
        };
        // A run that is handed over may need its directory again.
        if !(goes_on && finished.is_ok()) {
            self.remains = Some(remains);
        }
        finished
    }

    /// Takes the run up from where its lost worker has left it, `recorded` and `used` being what this one has told.
    async fn pick_up(
        &mut self,
        recorded: Micros,
        used: RunUsage,
    ) -> Result<Result<Ground, Ended>, StoreError> {
        self.charge(recorded, Micros::ZERO);
        self.recorder.used(used);
        let picked = tokio::select! {
            biased;
            picked = pick_up(self.worker, self.claim) => picked?.map_err(Ended::Interrupted),
            reason = self.place.stopped() => Err(Ended::Stopped(reason)),
            () = tokio::time::sleep_until(self.deadline) => Err(Ended::TimedOut),
        };
        let Resumption {
            journal,
            stored,
            workspace,
            files,
        } = match picked {
            Ok(picked) => picked,
            Err(ended) => return Ok(Err(ended)),
        };
        self.spent = self.charge(recorded, journal.spent());
        let resumed = EventType::Resumed {
            step: journal.last_step(),
            attempt: u32::try_from(self.claim.fence.attempt).unwrap_or(u32::MAX),
        };
        self.resumed = Some(self.event(&resumed)?);
        self.worker.metrics.happened(&resumed);
        self.recorder.go_on(stored);
        Ok(Ok(Ground {
            workspace,
            files,
            journal: Some(journal),
        }))
    }

    /// Tells the recorder what the run has cost before this attempt: what the journal or the recorded cost knows of, and
    /// its time. The part that is not time.
    fn charge(&self, recorded: Micros, journaled: Micros) -> Micros {
        let (now, budget) = (Instant::now(), self.budget());
        let compute = budget.compute(now);
        let spent = journaled.max(recorded.saturating_sub(compute));
        let cost = spent
            .checked_add(compute)
            .unwrap_or(budget.max_cost)
            .min(budget.max_cost);
        self.recorder.charge(Spent::told(cost, now));
        spent
    }

    /// Before a run is final nothing of it is left alive.
    async fn stop(&self, workspace: Workspace) -> Remains {
        let (remains, stopped) = workspace.stop().await;
        if let Err(error) = stopped {
            tracing::error!(%error, "a run's processes did not end in order");
        }
        remains
    }

    /// Keeps what the run has left under `outputs/`, where it came to an end of its own. How it ends then: it may be told
    /// to stop meanwhile.
    async fn collect(&mut self, ended: Ended, remains: &Remains) -> (Ended, Outputs) {
        if !ended.leaves_artifacts() || self.claim.retention() == Retention::None {
            return (ended, Outputs::default());
        }
        tokio::select! {
            biased;
            outputs = collect(self.worker, self.claim.org, remains) => (ended, outputs),
            reason = self.place.stopped() => (Ended::Stopped(reason), Outputs::default()),
        }
    }

    /// Deletes the working directory of a run that this attempt has finished or settled. A fenced attempt does not know
    /// whether the next one runs on this very node and needs the directory: that one is left to the clean-up of settled
    /// runs. A run without retention has no next attempt.
    async fn clean_up(&mut self, ended: &Result<(), StoreError>) {
        let is_settled = match ended {
            Ok(()) => true,
            Err(StoreError::Fenced) => self.claim.retention() == Retention::None,
            // The run stays held and goes on.
            Err(_) => false,
        };
        let Some(remains) = self.remains.take().filter(|_| is_settled) else {
            return;
        };
        if let Err(error) = remains.delete().await {
            tracing::error!(%error, "a working directory could not be removed");
        }
    }

    /// Runs the agent beside the recorder, until the first of: its outcome, a stop, the time limit, the loss of the run.
    async fn supervise(
        &mut self,
        start: Start,
        mut workspace: Workspace,
    ) -> Result<(Ended, Result<Fence, StoreError>, Remains), StoreError> {
        let Start {
            spec,
            model,
            opened,
            brought: _,
        } = start;
        let is_resumed = self.resumed.is_some();
        let opening = self.opening(spec.shell)?;
        let mut keep = self.recorder.keep(self.claim.fence, opening).boxed();
        let (ended, kept) = {
            let mut agent = async {
                if is_resumed {
                    // The next worker has to know that this one put its process at risk.
                    self.recorder.opened().await;
                }
                sortie_agent::run(spec, &*model, &mut workspace, &self.recorder).await
            }
            .boxed();
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
        // Servers are told in the background: a slow one does not hold up the end of the run.
        drop(opened);
        if let Some(kept) = kept {
            // Taken over by this very node, it may need its directory again.
            let ended = self.place.told().map_or(ended, Ended::Stopped);
            return Ok((ended, kept, self.stop(workspace).await));
        }
        // Side by side: a database that is away does not keep the run's processes alive.
        let (kept, remains) = futures_util::join!(keep, self.stop(workspace));
        Ok((ended, kept, remains))
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
        Ok(Opening { status, events })
    }

    fn event(&self, event: &EventType) -> Result<NewEvent, StoreError> {
        NewEvent::new(event, self.worker.clock.now()).map_err(|error| StoreError::Corrupt(error.to_string()))
    }

    /// Reports what a run that was cancelled under its worker has cost. A run that was lost in another way refuses it.
    async fn settle(&self) -> Result<(), StoreError> {
        let Fence { run, attempt, .. } = self.claim.fence;
        let rest = self.recorder.rest();
        let cost = rest.spent.until(Instant::now(), &self.budget());
        until_settled(|| self.log.store().settle_run(run, attempt, cost, rest.new.usage))
            .await
            .inspect(|()| {
                traces::ended(RunStatus::Cancelled);
                // Who has cancelled it has counted its end.
                let metrics = &self.worker.metrics;
                metrics.settled(RunStatus::Cancelled, self.started.elapsed(), cost);
            })
    }

    fn budget(&self) -> BudgetSpec {
        BudgetSpec {
            max_cost: self.claim.max_cost,
            compute_micros_per_second: self.worker.options.compute_micros_per_second,
            started: self.started,
            spent: self.spent,
        }
    }

    async fn finish(&mut self, ended: Ended, outputs: Outputs, fence: Fence) -> Result<(), StoreError> {
        let mut rest = self.recorder.rest();
        if matches!(ended, Ended::Stopped(StopReason::HandOver)) {
            rest.new.cost = rest.spent.until(Instant::now(), &self.budget());
            // One that did not even begin has nothing to add to how the attempt before it ended.
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
        // What is charged ends when the run does.
        let (now, end) = self.worker.clock.moment();
        let cost = rest.spent.until(end, &self.budget());
        let finish = Finish {
            artifacts: outputs.artifacts,
            ..final_events(ended, self.claim, self.brought, rest, cost, now)
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
                    tracing::error!(%error, "the end of a run could not be told to its readers");
                }
                if run.schedule_id.is_some() {
                    self.worker.schedules.ring();
                }
            }
            // The answer to the commit was lost: readers find the end in the store, and the timer whether it concerns a schedule.
            Ok(None) => {
                self.worker.hub.ended(fence.run);
                self.worker.schedules.ring();
            }
            Err(error) => return Err(error),
        }
        if let Some(host) = &self.claim.callback_host {
            self.worker.callbacks.due(self.claim.org, host);
        }
        Ok(())
    }
}

/// Reads the definition and lays what the run brings. An error is the run's, in words for people.
async fn prepare(
    worker: &Worker,
    claim: &Claim,
    (budget, deadline): (BudgetSpec, Instant),
    ground: &mut Ground,
) -> Result<Start, String> {
    let (request, secrets) = request(worker, claim)?;
    let brought = brought(&request);
    let id = request
        .model
        .unwrap_or_else(|| worker.models.catalog().default_model.clone());
    let model = model_of(worker, &id)?;
    let fallback = request
        .fallback_model
        .map(|id| model_of(worker, &id))
        .transpose()?;
    traces::uses_model(model.info());
    let output_schema = match &request.output_schema {
        Some(schema) => {
            Some(Schema::compile(schema.get()).map_err(|error| format!("output_schema: {error}"))?)
        }
        None => None,
    };
    let files = request.files.unwrap_or_default();
    let media = pictures(worker, claim.org, &files, &*model).await?;
    let files = files::lay(worker, claim.org, files, ground).await?;
    let redactor = Arc::new(Redactor::default());
    let opened = match &request.connections {
        Some(wanted) if !wanted.is_empty() => {
            let run = (claim.org, claim.fence.run);
            let opened = worker
                .connections
                .open_for_run(run, wanted, secrets, &redactor)
                .await?;
            for note in &opened.notes {
                tracing::warn!(note, "a tool of a connection was left out");
            }
            Some(opened)
        }
        Some(_) | None => None,
    };
    let shell = if request.shell.unwrap_or(true) {
        Shell::Allowed
    } else {
        Shell::Denied
    };
    let RunWeb { mut tools, egress } = web::set_up(
        worker,
        claim.fence.run,
        request.web.as_ref(),
        shell,
        &mut ground.workspace,
    )?;
    tools.extend(opened.iter().flat_map(|opened| opened.tools.iter().cloned()));
    #[cfg(test)]
    tools.extend(crate::simulation::tools(claim.fence));
    let spec = RunSpec {
        whose: Whose {
            run: claim.fence.run,
            org: claim.org,
        },
        prompt: request.prompt.unwrap_or_default(),
        input: request.input,
        output_schema: output_schema.map(Arc::new),
        shell,
        egress,
        budget,
        deadline: Some(deadline),
        effort: request.effort,
        fallback,
        files,
        environment: worker.programs.environment(worker, claim, &*model, shell).await,
        media,
        command_timeout: Duration::from_secs(u64::from(claim.timeout_seconds)),
        tools,
        redactor,
        resume: ground.journal.take(),
    };
    Ok(Start {
        spec,
        model,
        brought,
        opened,
    })
}

fn model_of(worker: &Worker, id: &str) -> Result<Arc<dyn Model>, String> {
    let model = worker.models.get(id);
    model
        .cloned()
        .ok_or_else(|| format!("model {id:?} is no longer available"))
}

/// What the run is to do, and where the credentials are that it brought.
fn request(worker: &Worker, claim: &Claim) -> Result<(RunRequest, InlineSecrets), String> {
    let log = RunLog::new(worker.records.clone(), claim.fence.run, claim.retention());
    let (definition, secrets) = log
        .request(claim.definition.as_deref())
        .ok_or("what it is to do is gone")?;
    let request = serde_json::from_str(&definition)
        .map_err(|error| format!("the stored definition cannot be read: {error}"))?;
    Ok((request, secrets))
}

fn brought(request: &RunRequest) -> Brought {
    let mut connections = request.connections.iter().flatten();
    if connections.any(|(_, wants)| wants.reference.is_none()) {
        Brought::Credentials
    } else {
        Brought::Nothing
    }
}
