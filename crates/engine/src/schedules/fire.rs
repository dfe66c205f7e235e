//! Processing of the due occurrences of one schedule.
//!
//! Each decision is made on one revision of the schedule, and recorded only while that revision is the newest. While a
//! dependency is unavailable, the occurrence stays due. Any other refusal is recorded as the outcome of the occurrence, so
//! that it does not block later ones.

use futures_util::{StreamExt as _, stream};
use sortie_api::{
    ErrorCode, OrgId, Refusal, RunId, RunStatus, ScheduleId, Timestamp,
    schedule::{FireOutcome, Overlap},
};
use sortie_store::{
    Error as StoreError,
    access::{Actor, By, Caller},
    runs::NewRun,
    schedules::{FireRow, Fires, ScheduleRow},
};

use super::{
    form,
    plan::{Plan, plan, skipped},
    request_of,
    timer::{AT_ONCE, PAGE},
};
use crate::{Engine, kit::metrics::Trigger, kit::random::random};

/// Decision about an occurrence that may start a run.
enum Verdict {
    Start(Box<NewRun>),
    /// The occurrence waits until the earlier runs have ended.
    Wait,
    Skip(Skip),
}

/// Decision that an occurrence starts no run.
struct Skip {
    /// Reason, for the history of the schedule.
    reason: String,
    /// New `last_error` of the schedule, or `None` if nothing failed.
    error: Option<String>,
    /// Whether the schedule is disabled too.
    disables: bool,
}

impl Skip {
    /// Skips an occurrence although nothing failed.
    fn quietly(reason: &str) -> Self {
        Self {
            reason: reason.to_owned(),
            error: None,
            disables: false,
        }
    }
}

impl Engine {
    /// Processes the due occurrences of a schedule until none is left. Other nodes may do the same at the same time.
    pub(super) async fn deal_with(&self, org: OrgId, id: ScheduleId) -> Result<(), Refusal> {
        loop {
            let row = match self.store().get_schedule(org, id).await {
                Err(StoreError::NotFound) => return Ok(()),
                row => row?,
            };
            let timetable = form::timetable(&row.spec)?;
            let now = self.0.options.clock.now();
            let fires = if let Some(released) = self.released(&row, now).await? {
                released
            } else if let Some(plan) = plan(&row, &timetable, now) {
                self.fires(&row, plan, now).await?
            } else {
                return Ok(());
            };
            self.record(&row, fires).await?;
        }
    }

    /// Records the outcomes of occurrences, unless the schedule was written since it was read.
    async fn record(&self, row: &ScheduleRow, fires: Fires) -> Result<(), Refusal> {
        let refused = match self.store().record_fires(fires.clone()).await {
            Ok(run) => {
                if run.is_some() {
                    self.0.metrics.accepted(Trigger::Schedule);
                    self.0.work.hub.listed(row.org);
                    self.wake_dispatchers();
                }
                return Ok(());
            }
            Err(StoreError::Fenced) => return Ok(()),
            Err(error) => error,
        };
        // Only a run can be refused: its maximum cost does not fit in a budget or is not covered by credits, the allowance of
        // the license is used up, or the organization is suspended.
        let Some(run) = fires.run.as_ref().map(|run| run.id) else {
            return Err(refused.into());
        };
        let mut skip = refusal(refused.clone().into())?;
        if let StoreError::Unlicensed(_) = &refused {
            "license".clone_into(&mut skip.reason);
        } else if let StoreError::InsufficientCredit(_) = &refused {
            "credits".clone_into(&mut skip.reason);
        }
        match self
            .store()
            .record_fires(without_run(row, fires, run, skip))
            .await
        {
            Ok(_) => {
                self.0.metrics.refused(&refused);
                Ok(())
            }
            // Another node has recorded the occurrence, and counted a refusal.
            Err(StoreError::Fenced) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Decides about the waiting occurrence, once the earlier runs have ended. `None` if no occurrence waits, or if it must wait
    /// longer.
    async fn released(&self, row: &ScheduleRow, now: Timestamp) -> Result<Option<Fires>, Refusal> {
        let Some(instant) = row.state.waiting else {
            return Ok(None);
        };
        let open = self.store().open_runs(row.org, (row.id, row.revision), 1);
        if !open.await?.is_empty() {
            return Ok(None);
        }
        let verdict = if !row.state.enabled {
            Verdict::Skip(Skip::quietly("disabled"))
        } else if row.spec.paused_until.is_some_and(|until| now < until) {
            Verdict::Skip(Skip::quietly("paused"))
        } else if let Some(skip) = self.failures(row).await? {
            Verdict::Skip(skip)
        } else {
            self.run_of(row).await?
        };
        let mut fires = Fires {
            released: Some(instant),
            ..unchanged(row)
        };
        fires.state.waiting = None;
        self.apply(&mut fires, (instant, verdict), now)?;
        Ok(Some(fires))
    }

    /// Decides about the due occurrences of a plan.
    async fn fires(&self, row: &ScheduleRow, plan: Plan, now: Timestamp) -> Result<Fires, Refusal> {
        let mut fires = unchanged(row);
        fires.replaces = row.spec.overlap == Overlap::CancelOther;
        fires.rows = plan.skipped;
        fires.state.handled = plan.handled;
        fires.state.next = plan.next;
        if let Some(instant) = plan.start {
            let verdict = self.verdict(row).await?;
            self.apply(&mut fires, (instant, verdict), now)?;
        }
        Ok(fires)
    }

    /// Decides whether an occurrence starts a run, by the failures and the open runs of the schedule.
    async fn verdict(&self, row: &ScheduleRow) -> Result<Verdict, Refusal> {
        if let Some(skip) = self.failures(row).await? {
            return Ok(Verdict::Skip(skip));
        }
        let seen = (row.id, row.revision);
        let open = match row.spec.overlap {
            Overlap::Allow | Overlap::CancelOther => Vec::new(),
            Overlap::Skip | Overlap::QueueOne => self.store().open_runs(row.org, seen, 1).await?,
        };
        let is_waiting = row.state.waiting.is_some();
        match row.spec.overlap {
            Overlap::Skip if !open.is_empty() => Ok(Verdict::Skip(Skip::quietly("overlap"))),
            Overlap::QueueOne if is_waiting => Ok(Verdict::Skip(Skip::quietly("overlap"))),
            Overlap::QueueOne if !open.is_empty() => Ok(Verdict::Wait),
            Overlap::Allow | Overlap::Skip | Overlap::QueueOne | Overlap::CancelOther => {
                self.run_of(row).await
            }
        }
    }

    /// Cancels the runs that the schedules of all nodes have replaced. If some runs cannot be cancelled, returns one of the
    /// errors. A later call retries these runs.
    pub(super) async fn cancel_replaced(&self) -> Result<(), Refusal> {
        let (mut outcome, mut after) = (Ok(()), None);
        loop {
            let replaced = self.store().replaced_runs(after, PAGE).await?;
            after = replaced.stopped_at;
            let cancelled = stream::iter(replaced.items)
                .map(
                    async |replaced| match self.cancel_run(replaced.org, replaced.run).await {
                        Err(error) if error.code != ErrorCode::NotFound => Err(error),
                        Ok(_) | Err(_) => Ok(replaced.run),
                    },
                )
                .buffer_unordered(AT_ONCE)
                .collect::<Vec<_>>()
                .await;
            let mut over = Vec::with_capacity(cancelled.len());
            for cancelled in cancelled {
                match cancelled {
                    Ok(run) => over.push(run),
                    Err(error) => outcome = Err(error),
                }
            }
            if !over.is_empty() {
                self.store().forget_replaced(&over).await?;
            }
            if after.is_none() {
                return outcome;
            }
        }
    }

    /// Disables the schedule if too many consecutive runs did not succeed.
    async fn failures(&self, row: &ScheduleRow) -> Result<Option<Skip>, Refusal> {
        let Some(most) = row.spec.max_consecutive_failures else {
            return Ok(None);
        };
        let since = (row.state.failures_since, most);
        let outcomes = self.store().recent_outcomes(row.org, row.id, since).await?;
        let failed = outcomes
            .iter()
            .take_while(|status| **status != RunStatus::Succeeded)
            .count();
        Ok((i64::try_from(failed).unwrap_or(i64::MAX) >= most).then(|| Skip {
            reason: "failures".to_owned(),
            error: Some(format!(
                "switched off: {failed} runs in a row did not succeed, which is max_consecutive_failures"
            )),
            disables: true,
        }))
    }

    /// Makes the run that the schedule starts. A run that would be refused becomes a skip.
    async fn run_of(&self, row: &ScheduleRow) -> Result<Verdict, Refusal> {
        let caller = Caller {
            org: row.org,
            actor: Actor {
                by: Some(By::Schedule(row.id)),
                trace: self.0.options.traces.fire(row.id, row.org),
                ..Actor::default()
            },
        };
        let run = match self.opened_callback(row) {
            Ok(callback) => {
                let request = request_of(&row.spec, callback)?;
                self.new_run(&caller, Some(row.id), request).await
            }
            Err(error) => Err(error),
        };
        match run {
            // A saved workflow cannot ask for zero data retention, so its run has no admission.
            Ok((run, _)) => Ok(Verdict::Start(Box::new(run))),
            Err(error) => refusal(error).map(Verdict::Skip),
        }
    }

    /// Adds a decision to the outcomes that are recorded.
    fn apply(
        &self,
        fires: &mut Fires,
        (instant, verdict): (Timestamp, Verdict),
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let row = skipped(instant, "", now);
        match verdict {
            Verdict::Start(run) => {
                fires.rows.push(FireRow {
                    outcome: FireOutcome::Started,
                    reason: None,
                    run: Some(run.id),
                    ..row
                });
                fires.state.last_run_at = Some(run.created_at);
                fires.state.last_run = Some(run.id);
                fires.state.last_error = None;
                fires.run = Some(*run);
            }
            Verdict::Wait => {
                fires.rows.push(FireRow {
                    outcome: FireOutcome::Waiting,
                    reason: None,
                    ..row
                });
                fires.state.waiting = Some(instant);
            }
            Verdict::Skip(skip) => {
                if skip.disables {
                    fires.state.enabled = false;
                    fires.state.next = None;
                    let schedule = Caller {
                        org: fires.org,
                        actor: Actor {
                            by: Some(By::Schedule(fires.schedule)),
                            ..Actor::default()
                        },
                    };
                    let target = fires.schedule.to_string();
                    fires.audit = Some(schedule.audit(
                        (self.0.options.clock.now(), random()?),
                        "schedule.pause",
                        target,
                    ));
                }
                fires.state.last_error = skip.error.or(fires.state.last_error.take());
                fires.rows.push(FireRow {
                    reason: Some(skip.reason),
                    ..row
                });
            }
        }
        Ok(())
    }
}

/// Makes a record that changes nothing of the schedule.
fn unchanged(row: &ScheduleRow) -> Fires {
    Fires {
        org: row.org,
        schedule: row.id,
        revision: row.revision,
        state: row.state.clone(),
        rows: Vec::new(),
        released: None,
        run: None,
        replaces: false,
        audit: None,
    }
}

/// Removes a refused run from a record: its occurrence is recorded as skipped.
fn without_run(row: &ScheduleRow, mut fires: Fires, run: RunId, skip: Skip) -> Fires {
    fires.run = None;
    fires.state.last_run_at = row.state.last_run_at;
    fires.state.last_run = row.state.last_run;
    fires.state.last_error = skip.error;
    for fire in fires.rows.iter_mut().filter(|fire| fire.run == Some(run)) {
        fire.outcome = FireOutcome::Skipped;
        fire.reason = Some(skip.reason.clone());
        fire.run = None;
    }
    fires
}

/// Turns the error of a run into a skip of its occurrence. Returns the error if a retry can succeed.
fn refusal(error: Refusal) -> Result<Skip, Refusal> {
    if error.code == ErrorCode::Unavailable {
        return Err(error);
    }
    let mut text = error.text.to_string();
    if error.code == ErrorCode::Internal {
        tracing::error!(%error, "cannot create the run of a schedule");
        "internal error: its cause is in the engine's log".clone_into(&mut text);
    }
    let reason = if error.code == ErrorCode::PaymentRequired {
        "budget".to_owned()
    } else if error.code == ErrorCode::Forbidden {
        "suspended".to_owned()
    } else {
        format!("invalid: {text}")
    };
    Ok(Skip {
        reason,
        error: Some(text),
        disables: false,
    })
}
