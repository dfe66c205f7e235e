//! Schedules: saved workflows started on a timetable.
//!
//! The request of a run is checked when the schedule is saved and again at each occurrence. The outcome of an
//! occurrence is stored with its run, in one transaction that also advances the schedule ([`sortie_store::schedules::Fires`]).
//! Exactly one node therefore processes an occurrence, once.

mod fire;
mod form;
mod plan;
#[cfg(test)]
mod tests;
mod timer;
mod timetable;

use sortie_api::{
    ErrorCode, Fire, OrgId, Refusal, Run, RunRequest, Schedule, ScheduleId, Timestamp, limits,
    request::Callback,
    schedule::{CallbackTarget, CreateSchedule, FireTrigger, NextFire, UpdateSchedule},
};
use sortie_store::{
    access::Caller,
    schedules::{
        FireRow, NextOccurrence, SaveSchedule, ScheduleFireRow, ScheduleRow, ScheduleSpec, ScheduleState,
        SealedCallback,
    },
};

use self::{
    form::{Wanted, checked, only_stops, runs_differ},
    plan::next_occurrence,
};
use crate::{
    Engine,
    kit::{metrics::Trigger, random::random},
};
use sortie_base::SealContext;

pub(crate) use timer::run as run_timer;

/// Maximum number of attempts to change a schedule that others change at the same time.
const UPDATE_TRIES: u32 = 10;

impl Engine {
    /// Creates a schedule. `InvalidRequest` names the field and the rule. `Conflict` if the organization has reached its limit
    /// of schedules.
    pub async fn create_schedule(
        &self,
        caller: &Caller,
        request: CreateSchedule,
    ) -> Result<Schedule, Refusal> {
        let clock = &self.0.options.clock;
        let wanted = checked(Wanted::from(request))?;
        let now = clock.now();
        let id = ScheduleId::new(now, random()?);
        let mut spec = wanted.spec;
        self.check_run(caller, (id, &spec), wanted.callback.as_ref())
            .await?;
        spec.callback = self.sealed_callback((caller.org, id), wanted.callback).await?;
        let state = ScheduleState {
            enabled: wanted.enabled,
            next: next_occurrence(&wanted.timetable, (id, &spec), now).filter(|_| wanted.enabled),
            handled: now,
            waiting: None,
            failures_since: now,
            last_run_at: None,
            last_run: None,
            last_error: None,
        };
        let new = SaveSchedule {
            id,
            org: caller.org,
            spec,
            state,
            at: now,
        };
        let audit = caller.audit((clock.now(), random()?), "schedule.create", id.to_string());
        self.store()
            .create_schedule(new, limits::SCHEDULES, audit)
            .await?;
        self.0.work.timer.ring();
        self.get_schedule(caller.org, id).await
    }

    /// Changes a schedule. Absent fields stay. Due occurrences are processed first, with the old fields. The run is
    /// checked if it changes or if the schedule becomes enabled. A change that only disables or pauses a schedule takes
    /// place even if its due occurrences cannot be processed.
    pub async fn update_schedule(
        &self,
        caller: &Caller,
        id: ScheduleId,
        patch: UpdateSchedule,
    ) -> Result<Schedule, Refusal> {
        let (node, clock) = (&self.0, &self.0.options.clock);
        for _ in 0..UPDATE_TRIES {
            if let Err(error) = self.deal_with(caller.org, id).await {
                if !only_stops(&patch) {
                    return Err(error);
                }
                tracing::warn!(schedule = %id, %error, "cannot process the due occurrences of a schedule that is stopped");
            }
            let old = node.stores.database.get_schedule(caller.org, id).await?;
            let revision = old.revision;
            let wanted = checked(Wanted::patched(&old, patch.clone()))?;
            let mut spec = wanted.spec;
            let is_another = runs_differ(&old.spec, &spec) || wanted.callback.is_some();
            if is_another || (wanted.enabled && !old.state.enabled) {
                let callback = match patch.callback {
                    Some(_) => wanted.callback.clone(),
                    None => self.opened_callback(&old)?,
                };
                self.check_run(caller, (id, &spec), callback.as_ref()).await?;
            }
            spec.callback = match patch.callback {
                Some(_) => self.sealed_callback((caller.org, id), wanted.callback).await?,
                None => old.spec.callback.clone(),
            };
            let now = clock.now();
            let next = next_occurrence(&wanted.timetable, (id, &spec), now.max(old.state.handled));
            let new = SaveSchedule {
                id,
                org: caller.org,
                state: changed_state(&old, (&spec, wanted.enabled), next, now),
                spec,
                at: now,
            };
            let audit = caller.audit((clock.now(), random()?), "schedule.update", id.to_string());
            if node.stores.database.update_schedule(new, revision, audit).await? {
                node.work.timer.ring();
                return self.get_schedule(caller.org, id).await;
            }
        }
        Err(ErrorCode::Conflict
            .because("the schedule is being changed by others at the same time; try again"))
    }

    /// Returns a schedule.
    pub async fn get_schedule(&self, org: OrgId, id: ScheduleId) -> Result<Schedule, Refusal> {
        record(self.store().get_schedule(org, id).await?)
    }

    /// Returns the organization's schedules before a position, newest first, at most `limit`. Large inputs are left out.
    pub async fn list_schedules(
        &self,
        org: OrgId,
        before: Option<(Timestamp, ScheduleId)>,
        limit: u32,
    ) -> Result<Vec<ListedSchedule>, Refusal> {
        let rows = self.store().list_schedules(org, before, limit).await?;
        let listed = rows.into_iter().map(|row| {
            Ok(ListedSchedule {
                schedule: record(row.schedule)?,
                has_large_input: row.has_large_input,
            })
        });
        listed.collect()
    }

    /// Deletes a schedule with its history. Its runs stay, and continue.
    pub async fn delete_schedule(&self, caller: &Caller, id: ScheduleId) -> Result<(), Refusal> {
        let node = &self.0;
        let audit = caller.audit(
            (node.options.clock.now(), random()?),
            "schedule.delete",
            id.to_string(),
        );
        Ok(node
            .stores
            .database
            .delete_schedule(caller.org, id, audit)
            .await?)
    }

    /// Starts a run of a schedule now, regardless of its timetable, its pause and its other runs.
    pub async fn trigger_schedule(&self, caller: &Caller, id: ScheduleId) -> Result<Run, Refusal> {
        self.check_open()?;
        let row = self.store().get_schedule(caller.org, id).await?;
        let callback = self.opened_callback(&row)?;
        let request = request_of(&row.spec, callback)?;
        let (run, _) = self.new_run(caller, Some(id), request).await?;
        let run = self.store().trigger_schedule(id, run).await;
        let run = run.inspect_err(|error| self.0.metrics.refused(error))?;
        self.0.metrics.accepted(Trigger::Schedule);
        self.0.work.hub.listed(caller.org);
        self.notify_dispatcher(run.id);
        Ok(run)
    }

    /// Returns the outcomes of a schedule's occurrences before a position, the latest first, at most `limit`.
    pub async fn list_fires(
        &self,
        org: OrgId,
        id: ScheduleId,
        before: Option<(Timestamp, String)>,
        limit: u32,
    ) -> Result<Vec<Fire>, Refusal> {
        let rows = self.store().list_fires(org, id, before, limit).await?;
        Ok(rows.into_iter().map(fire).collect())
    }

    /// Returns the outcomes of the occurrences of all schedules of an organization, from `since` on and before a position, the
    /// latest first, at most `limit`. A position is a scheduled time, a schedule and an occasion.
    pub async fn list_all_fires(
        &self,
        org: OrgId,
        since: Timestamp,
        before: (Timestamp, String, String),
        limit: u32,
    ) -> Result<Vec<Fire>, Refusal> {
        let rows = self.store().list_all_fires(org, since, before, limit).await?;
        let of = |row: ScheduleFireRow| Fire {
            schedule_id: Some(row.schedule),
            ..fire(row.fire)
        };
        Ok(rows.into_iter().map(of).collect())
    }

    /// Returns the next `count` occurrences of a schedule's timetable, even while it is paused or disabled.
    pub async fn next_fires(
        &self,
        org: OrgId,
        id: ScheduleId,
        count: usize,
    ) -> Result<Vec<NextFire>, Refusal> {
        let row = self.store().get_schedule(org, id).await?;
        let timetable = form::timetable(&row.spec)?;
        let first = row.state.next.map(|next| next.instant);
        let mut after = self.0.options.clock.now().max(row.state.handled);
        if let Some(first) = first.filter(|first| *first <= after) {
            // The first occurrence may be due and not processed yet.
            after = Timestamp::from_micros(first.as_micros().saturating_sub(1));
        }
        let mut next = Vec::with_capacity(count);
        while next.len() < count
            && let Some(NextOccurrence { instant, due_at }) =
                next_occurrence(&timetable, (id, &row.spec), after)
        {
            next.push(NextFire {
                instant,
                run_at: due_at,
            });
            after = instant;
        }
        Ok(next)
    }

    /// Checks that a run of the schedule would be accepted now. Nothing is stored.
    async fn check_run(
        &self,
        caller: &Caller,
        (id, spec): (ScheduleId, &ScheduleSpec),
        callback: Option<&Callback>,
    ) -> Result<(), Refusal> {
        let request = request_of(spec, callback.cloned())?;
        self.new_run(caller, Some(id), request).await.map(drop)
    }

    async fn sealed_callback(
        &self,
        (org, id): (OrgId, ScheduleId),
        callback: Option<Callback>,
    ) -> Result<Option<SealedCallback>, Refusal> {
        let Some(Callback { url, secret }) = callback else {
            return Ok(None);
        };
        let row = id.to_string();
        let secret = self
            .0
            .stores
            .connections
            .seal(secret_at(&row, org), &secret)
            .await?;
        Ok(Some(SealedCallback { url, secret }))
    }

    fn opened_callback(&self, row: &ScheduleRow) -> Result<Option<Callback>, Refusal> {
        let Some(SealedCallback { url, secret }) = &row.spec.callback else {
            return Ok(None);
        };
        let id = row.id.to_string();
        Ok(Some(Callback {
            url: url.clone(),
            secret: self.0.stores.connections.open(secret_at(&id, row.org), secret)?,
        }))
    }
}

fn secret_at(row: &str, org: OrgId) -> SealContext<'_> {
    SealContext {
        table: "schedule",
        column: "callback_secret",
        row,
        org: Some(org),
    }
}

/// Returns the state of a changed schedule. An enabled schedule keeps its next occurrence unless its timetable or jitter
/// has changed.
fn changed_state(
    old: &ScheduleRow,
    (spec, enabled): (&ScheduleSpec, bool),
    next: Option<NextOccurrence>,
    now: Timestamp,
) -> ScheduleState {
    let times = |spec: &ScheduleSpec| (spec.cron.clone(), spec.timezone.clone(), spec.jitter_seconds);
    let goes_on = old.state.enabled && times(&old.spec) == times(spec);
    let mut state = old.state.clone();
    state.enabled = enabled;
    state.next = if goes_on { state.next } else { next }.filter(|_| enabled);
    if enabled && !old.state.enabled {
        state.failures_since = now;
        state.last_error = None;
    }
    state
}

/// Returns the request of a run of a schedule.
fn request_of(spec: &ScheduleSpec, callback: Option<Callback>) -> Result<RunRequest, Refusal> {
    let input = spec
        .input
        .clone()
        .map(serde_json::value::RawValue::from_string)
        .transpose()
        .map_err(|error| Refusal::internal(format!("the input of a schedule cannot be read: {error}")))?;
    Ok(RunRequest {
        workflow: Some(spec.workflow.clone()),
        input,
        max_cost_micros: spec.max_cost.map(sortie_api::Micros::get),
        callback,
        ..RunRequest::default()
    })
}

/// A schedule as an element of a list.
#[derive(Clone, Debug)]
pub struct ListedSchedule {
    /// The schedule.
    pub schedule: Schedule,
    /// Whether the schedule has an input that is left out here.
    pub has_large_input: bool,
}

/// Converts a row into the schedule that clients receive.
fn record(row: ScheduleRow) -> Result<Schedule, Refusal> {
    let ScheduleRow { spec, state, .. } = row;
    let input = spec
        .input
        .map(serde_json::value::RawValue::from_string)
        .transpose()
        .map_err(|error| Refusal::internal(format!("the input of a schedule cannot be read: {error}")))?;
    Ok(Schedule {
        id: row.id,
        name: spec.name,
        workflow: spec.workflow,
        cron: spec.cron,
        timezone: spec.timezone,
        input,
        enabled: state.enabled,
        overlap: spec.overlap,
        catch_up_window_seconds: spec.catch_up_window_seconds,
        jitter_seconds: spec.jitter_seconds,
        paused_until: spec.paused_until,
        max_consecutive_failures: spec.max_consecutive_failures,
        max_cost_micros: spec.max_cost,
        callback: spec.callback.map(|callback| CallbackTarget { url: callback.url }),
        next_run_at: state.next.map(|next| next.due_at),
        last_run_at: state.last_run_at,
        last_run_id: state.last_run,
        last_error: state.last_error.or(row.last_run_error),
        created_at: row.created_at,
        updated_at: row.updated_at,
    })
}

fn fire(row: FireRow) -> Fire {
    let is_one = row.instants == 1;
    Fire {
        schedule_id: None,
        instant: row.instant,
        trigger: if row.occasion.is_empty() {
            FireTrigger::Timetable
        } else {
            FireTrigger::Manual
        },
        outcome: row.outcome,
        reason: row.reason,
        run_id: row.run,
        instants: (!is_one).then_some(row.instants),
        last_instant: (!is_one).then_some(row.last_instant),
        recorded_at: row.recorded_at,
    }
}
