//! Creation of runs, from a client's request to the queue, and their cancellation.

use std::collections::BTreeMap;

use sortie_api::{
    CancelledRuns, ErrorCode, OrgId, Refusal, RunId, RunRequest, RunStatus, ScheduleId, Timestamp,
    TraceContext, model::ModelCatalog,
};
use sortie_base::spawn_short;
use sortie_store::{
    access::Caller,
    runs::{
        Cancelled, Created, Definition, InlineCredentials, Labels, ListedRun, NewRun, Retention, RunFilter,
    },
};
use tracing::Instrument as _;

use crate::{
    Engine,
    connections::secrets::Secrets,
    kit::{metrics::Trigger, options::Serves, random::random, rules::idempotency_key},
    runs::{
        active::StopReason,
        intake::Intake,
        unretained::{Admission, Output, Reader, Request},
    },
};

/// Effect of [`Engine::cancel_runs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelMode {
    /// Cancels the runs.
    Cancel,
    /// Counts them.
    DryRun,
}

impl Engine {
    /// Checks a request against every rule, records the run and notifies the dispatcher. With an idempotency key that a run of
    /// the organization already has, returns that run. An engine that serves one command also resumes that run if no node works
    /// on it.
    pub async fn create_run(
        &self,
        caller: &Caller,
        request: RunRequest,
        idempotency: Option<String>,
    ) -> Result<Created, Refusal> {
        let created = self.create_or_find(caller, request, idempotency).await?;
        match &created {
            // The content of a run without retention is in the memory of one engine: no other one can resume it.
            Created::Existing(run)
                if !run.zero_data_retention && self.0.options.serves == Serves::OwnRuns =>
            {
                self.resume([run.id]);
            }
            Created::Existing(_) | Created::New(_) => {}
        }
        Ok(created)
    }

    async fn create_or_find(
        &self,
        caller: &Caller,
        request: RunRequest,
        idempotency: Option<String>,
    ) -> Result<Created, Refusal> {
        let node = &self.0;
        self.check_open()?;
        if let Some(key) = &idempotency {
            idempotency_key(key)?;
        }
        let (run, admission) = match (self.new_run(caller, None, request).await, &idempotency) {
            (Err(refused), Some(key)) if refused.code == ErrorCode::InvalidRequest => {
                // The idempotency key alone decides: a request with the key of an existing run gets that run, whatever its body.
                return match node.stores.database.find_idempotent(caller.org, key).await? {
                    Some(run) => Ok(Created::Existing(run)),
                    None => Err(refused),
                };
            }
            (admitted, _) => {
                let (run, admission) = admitted?;
                let run = NewRun {
                    idempotency_key: idempotency,
                    ..run
                };
                (run, admission)
            }
        };
        let Some(admission) = admission else {
            let created = self.record_run(run).await?;
            if let Created::New(run) = &created {
                self.notify_dispatcher(run.id);
            }
            return Ok(created);
        };
        // A task of the node records the run, because the content in memory must be kept or dropped even if the client has
        // gone.
        let engine = self.clone();
        let recording = async move { recorded(admission, engine.record_run(run).await) };
        let recording = spawn_short(&node.tasks.tracker, recording.in_current_span());
        recording
            .await
            .map_err(|error| Refusal::internal(format!("cannot record a run: {error}")))?
    }

    /// Records a run, and counts it in the metrics.
    async fn record_run(&self, run: NewRun) -> Result<Created, sortie_store::Error> {
        let (node, org) = (&self.0, run.org);
        let created = node.stores.database.create_run(run).await;
        match &created {
            Ok(Created::New(_)) => {
                node.metrics.accepted(Trigger::Api);
                node.work.hub.listed(org);
            }
            Ok(Created::Existing(_)) => {}
            Err(error) => node.metrics.refused(error),
        }
        created
    }

    /// Notifies the dispatcher of a recorded run.
    pub(crate) fn notify_dispatcher(&self, run: RunId) {
        let node = &self.0;
        if node.options.serves == Serves::OwnRuns {
            node.work.own.add(run);
            node.work.waiting.notify_one();
        } else {
            self.wake_dispatchers();
        }
    }

    /// Notifies the dispatcher of this node of a run that any node may execute. If this node does not execute such runs, notifies
    /// the other nodes.
    pub(crate) fn wake_dispatchers(&self) {
        let node = &self.0;
        node.work.waiting.notify_one();
        if node.options.serves != Serves::Everyone {
            node.cluster.hints.work();
        }
    }

    /// Checks a request against every rule and makes its run, which is not stored yet. `schedule` is the schedule that starts
    /// the run. The content of a run without retention is in memory from then on, and the admission decides about it.
    pub(crate) async fn new_run(
        &self,
        caller: &Caller,
        schedule: Option<ScheduleId>,
        request: RunRequest,
    ) -> Result<(NewRun, Option<Admission>), Refusal> {
        let node = &self.0;
        let org = caller.org;
        let reader = match request.callback {
            Some(_) => Reader::Callback,
            None => Reader::Get,
        };
        let accepted = self.intake(org).accept(request).await?;
        let now = node.options.clock.now();
        let id = RunId::new(now, random()?);
        let callback = match accepted.callback {
            Some(callback) => Some(node.work.callbacks.seal((org, id), callback).await?),
            None => None,
        };
        let (definition, inline, admission) = match accepted.retention {
            Retention::Full => {
                let inline = self
                    .sealed((org, id), &accepted.inline, &accepted.definition)
                    .await?;
                (accepted.definition.into(), inline, None)
            }
            Retention::None => {
                let request = Request {
                    definition: accepted.definition,
                    inline: accepted.inline,
                };
                let admission = self.admit((org, id), request, reader, now)?;
                (Definition::Unretained(self.unretained()), None, Some(admission))
            }
        };
        let run = NewRun {
            id,
            org,
            idempotency_key: None,
            definition,
            inline,
            callback,
            max_cost: accepted.max_cost,
            payment: node.options.payment(),
            timeout_seconds: accepted.timeout_seconds,
            labels: Labels {
                by: caller.actor.by,
                session_key: caller.actor.session_key,
                workflow: accepted.workflow,
                schedule,
                model: Some(accepted.model),
                tags: accepted.tags,
                metadata: accepted.metadata,
                title: accepted.texts.title,
                search_text: accepted.texts.search,
                replay_of: accepted.replay_of,
            },
            created_at: now,
            // The trace state is the client's own text. It is not stored for a run without retention.
            trace: match accepted.retention {
                Retention::Full => caller.actor.trace.clone(),
                Retention::None => caller.actor.trace.clone().map(TraceContext::without_state),
            },
            allowance: node.stores.licensing.allowance(now),
        };
        Ok((run, admission))
    }

    /// Puts the content of a run without retention into memory. Refuses the run if this node cannot execute it.
    fn admit(
        &self,
        run: (OrgId, RunId),
        request: Request,
        reader: Reader,
        now: Timestamp,
    ) -> Result<Admission, Refusal> {
        let node = &self.0;
        if node.options.serves == Serves::Nothing {
            return Err(ErrorCode::Unavailable.because("this engine works on no runs"));
        }
        node.stores.memory_dir.prepare().map_err(|reason| {
            ErrorCode::InvalidRequest.because(format!(
                "zero_data_retention: not available on this engine: {reason}"
            ))
        })?;
        node.stores
            .records
            .unretained
            .admit(run, request, Output::of(reader), (node.options.payment(), now))
    }

    /// Returns the facts to store about a run with content on this node.
    pub(crate) fn unretained(&self) -> sortie_store::runs::Unretained {
        sortie_store::runs::Unretained {
            node: self.0.cluster.identity.get(),
            surcharge_percent: self.0.options.surcharge_percent,
        }
    }

    /// Returns the models that runs can use.
    pub fn models(&self) -> &ModelCatalog {
        self.0.work.models.catalog()
    }

    /// Makes the intake, which checks the requests of an organization.
    pub(crate) fn intake(&self, org: OrgId) -> Intake<'_> {
        let node = &self.0;
        Intake {
            options: &node.options,
            models: &node.work.models,
            web: &node.work.web,
            commands: node
                .work
                .commands
                .as_ref()
                .map(|level| *level)
                .map_err(String::as_str),
            connections: &node.stores.connections,
            callbacks: &node.work.callbacks,
            store: &node.stores.database,
            org,
        }
    }

    /// Seals the inline credentials of a run.
    async fn sealed(
        &self,
        run: (OrgId, RunId),
        inline: &BTreeMap<String, Secrets>,
        definition: &str,
    ) -> Result<Option<InlineCredentials>, Refusal> {
        if inline.is_empty() {
            return Ok(None);
        }
        let names: Vec<&String> = inline.keys().collect();
        let names = serde_json::to_string(&names).map_err(Refusal::internal)?;
        let sealed = self
            .0
            .stores
            .connections
            .seal_inline(run, inline, definition)
            .await?;
        Ok(Some(InlineCredentials { sealed, names }))
    }

    /// Cancels the open runs that match a filter, the newest first. Each cancellation is a transaction. Returns the position to
    /// continue at; none if every open run was looked at. A dry run only counts them.
    pub async fn cancel_runs(
        &self,
        org: OrgId,
        filter: RunFilter,
        mode: CancelMode,
    ) -> Result<(CancelledRuns, Option<(Timestamp, RunId)>), Refusal> {
        let limit = filter.limit as usize;
        let found = self.store().list_runs(org, filter).await?;
        let last = found.items.last().filter(|_| found.items.len() >= limit);
        let next = last
            .map(|last| (last.run.created_at, last.run.id))
            .or(found.stopped_at);
        let mut counts = CancelledRuns {
            matched: u32::try_from(found.items.len()).unwrap_or(u32::MAX),
            cancelled: 0,
            next_cursor: String::new(),
        };
        if mode == CancelMode::Cancel {
            for listed in found.items {
                let run = self.cancel_run(org, listed.run.id).await;
                // It may have ended and be deleted by now.
                let status = match run {
                    Ok(listed) => listed.run.status,
                    Err(refused) if refused.code == ErrorCode::NotFound => continue,
                    Err(error) => return Err(error),
                };
                counts.cancelled += u32::from(status == RunStatus::Cancelled);
            }
        }
        Ok((counts, next))
    }

    /// Cancels a run and stops its worker. A run with a terminal status stays as it is and is returned,
    /// without a large output.
    pub async fn cancel_run(&self, org: OrgId, id: RunId) -> Result<ListedRun, Refusal> {
        match self
            .store()
            .cancel_run(org, id, self.0.options.clock.now())
            .await?
        {
            Cancelled::Now(run) => {
                self.0.metrics.ended(run.status);
                self.0.work.active.stop(id, StopReason::NotOurs);
                if run.zero_data_retention && !self.0.work.active.contains(id) {
                    // A worker closes the content of its run itself, after the last events.
                    self.0.stores.records.unretained.close(id, run.status)?;
                }
                self.0.work.hub.ended(id);
                self.0.work.hub.listed(org);
                self.0.work.due.look();
                if run.zero_data_retention {
                    // The node that has the content sends the callback.
                    self.0.cluster.hints.callbacks();
                }
                if run.schedule_id.is_some() {
                    self.0.work.timer.ring();
                }
                Ok(ListedRun {
                    run,
                    has_large_output: false,
                })
            }
            Cancelled::AlreadyFinal(listed) => Ok(listed),
        }
    }
}

/// Keeps or drops the content of a run without retention, by the result of its creation in the store.
fn recorded(admission: Admission, created: Result<Created, sortie_store::Error>) -> Result<Created, Refusal> {
    match &created {
        Ok(Created::New(_)) => drop(admission),
        Err(sortie_store::Error::Unavailable(_)) => admission.leave_in_doubt(),
        Ok(Created::Existing(_)) | Err(_) => admission.refuse(),
    }
    Ok(created?)
}
