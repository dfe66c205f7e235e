//! Dealing with what is due of one schedule.
//!
//! Everything is decided on one revision of the schedule and recorded only where that is still the newest. A dependency that is
//! away leaves the instant due; any other refusal is what became of it, so that nothing holds up what comes next.

use futures_util::{StreamExt as _, stream};
use sortie_api::{
    OrgId, RunId, RunStatus, ScheduleId, Timestamp,
    schedule::{FireOutcome, Overlap},
};
use sortie_store::{Actor, By, Error as StoreError, FireRow, Fires, NewRun, ScheduleRow};

use super::{
    form,
    plan::{Plan, plan, skipped},
    request_of,
    timer::{AT_ONCE, PAGE},
};
use crate::{
    Engine,
    error::Error,
    kit::{caller::Caller, metrics::Trigger},
};

/// What is to become of an instant that may start a run.
enum Verdict {
    Start(Box<NewRun>),
    /// Until the earlier runs have ended.
    Wait,
    Skip(Skip),
}

/// Why an instant starts no run.
struct Skip {
    /// In the history.
    reason: String,
    /// What the schedule shows as its error; none where nothing went wrong.
    error: Option<String>,
    /// Whether the schedule is switched off.
    switches_off: bool,
}

impl Skip {
    fn quietly(reason: &str) -> Self {
        Self {
            reason: reason.to_owned(),
            error: None,
            switches_off: false,
        }
    }
}

impl Engine {
    /// Deals with everything that is due of a schedule, as far as no other node does.
    pub(super) async fn deal_with(&self, org: OrgId, id: ScheduleId) -> Result<(), Error> {
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

    /// Records what became of instants, unless somebody else has written to the schedule since it was read.
    async fn record(&self, row: &ScheduleRow, fires: Fires) -> Result<(), Error> {
        let refused = match self.store().record_fires(fires.clone()).await {
            Ok(run) => {
                if run.is_some() {
                    self.0.metrics.accepted(Trigger::Schedule);
                    self.wake_dispatchers();
                }
                return Ok(());
            }
            Err(StoreError::Fenced) => return Ok(()),
            Err(error) => error,
        };
        // Only a run can be refused, by what it may cost.
        let Some(run) = fires.run.as_ref().map(|run| run.id) else {
            return Err(refused.into());
        };
        let skip = refusal(refused.clone().into())?;
        match self
            .store()
            .record_fires(without_run(row, fires, run, skip))
            .await
        {
            Ok(_) => {
                self.0.metrics.refused(&refused);
                Ok(())
            }
            // Another node was refused the same, and has counted it.
            Err(StoreError::Fenced) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The instant that waited, where it waits no longer.
    async fn released(&self, row: &ScheduleRow, now: Timestamp) -> Result<Option<Fires>, Error> {
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
        self.settle(&mut fires, (instant, verdict), now)?;
        Ok(Some(fires))
    }

    /// Outcome of the occurrences that are due.
    async fn fires(&self, row: &ScheduleRow, plan: Plan, now: Timestamp) -> Result<Fires, Error> {
        let mut fires = unchanged(row);
        fires.replaces = row.spec.overlap == Overlap::CancelOther;
        fires.rows = plan.skipped;
        fires.state.handled = plan.handled;
        fires.state.next = plan.next;
        if let Some(instant) = plan.start {
            let verdict = self.verdict(row).await?;
            self.settle(&mut fires, (instant, verdict), now)?;
        }
        Ok(fires)
    }

    /// Whether an instant starts a run, by what the schedule says of the runs before it.
    async fn verdict(&self, row: &ScheduleRow) -> Result<Verdict, Error> {
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

    /// Cancels the runs that schedules have replaced, whichever node has recorded them. An error is one of those that were
    /// met: its run is still to be cancelled.
    pub(super) async fn cancel_replaced(&self) -> Result<(), Error> {
        let (mut outcome, mut after) = (Ok(()), None);
        loop {
            let replaced = self.store().replaced_runs(after, PAGE).await?;
            let Some(last) = replaced.last() else {
                return outcome;
            };
            after = Some(last.run);
            let cancelled = stream::iter(replaced)
                .map(
                    async |replaced| match self.cancel_run(replaced.org, replaced.run).await {
                        Ok(_) | Err(Error::NotFound) => Ok(replaced.run),
                        Err(error) => Err(error),
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
            self.store().forget_replaced(&over).await?;
        }
    }

    /// Whether too many runs in a row did not succeed.
    async fn failures(&self, row: &ScheduleRow) -> Result<Option<Skip>, Error> {
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
            switches_off: true,
        }))
    }

    /// The run that the schedule starts, or why it would be refused.
    async fn run_of(&self, row: &ScheduleRow) -> Result<Verdict, Error> {
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
            // Workflows and schedules keep what they start: nothing of it is in memory alone.
            Ok((run, _)) => Ok(Verdict::Start(Box::new(run))),
            Err(error) => refusal(error).map(Verdict::Skip),
        }
    }

    /// Writes a verdict down.
    fn settle(
        &self,
        fires: &mut Fires,
        (instant, verdict): (Timestamp, Verdict),
        now: Timestamp,
    ) -> Result<(), Error> {
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
                if skip.switches_off {
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
                    fires.audit = Some(schedule.audit(&self.0.options.clock, "schedule.pause", target)?);
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

/// A schedule that stays as it is.
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

/// The same instants where the run of one was refused when it was to be recorded.
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

/// What a refused run means for its instant; the error itself where another try can help.
fn refusal(error: Error) -> Result<Skip, Error> {
    let (reason, error) = match error {
        Error::Unavailable(_) => return Err(error),
        Error::Invalid(rule) | Error::Conflict(rule) | Error::Gone(rule) => {
            (format!("invalid: {rule}"), rule)
        }
        Error::PaymentRequired(rule) => ("budget".to_owned(), rule),
        Error::NotFound => ("invalid: not found".to_owned(), "not found".to_owned()),
        Error::Unretained | Error::Internal(_) => {
            tracing::error!(%error, "a run of a schedule could not be made");
            let told = "internal error: its cause is in the engine's log".to_owned();
            (format!("invalid: {told}"), told)
        }
    };
    Ok(Skip {
        reason,
        error: Some(error),
        switches_off: false,
    })
}
