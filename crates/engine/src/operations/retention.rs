//! The retention job: deletes expired runs with everything that belongs to them, and expired occurrences of schedules.
//!
//! The usage of a run is counted before the run is deleted. Every node runs the job, at its start and then each hour, in small
//! transactions with other writes in between. Nodes do not coordinate: concurrent jobs share the work safely, and the next job
//! continues one that was interrupted. A failure with one organization, schedule or run does not hold up the others.
//!
//! A wrong clock would delete everything. A pass therefore deletes nothing if the node's clock differs from the database's, or if
//! the last pass was longer ago than the retention. In the second case an operator must check the clock first.

use std::time::Duration;

use sortie_api::{Refusal, Timestamp, usage::Day};
use sortie_store::{
    Store,
    runs::{Batch, Expiry, OpenCallbacks, Undeletable},
};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::{files::contents::GRACE, kit::units::Units, operations::usage};
use sortie_base::Clock;

/// Interval between two passes of the job.
const INTERVAL: Duration = Duration::from_hours(1);

/// Maximum number of rows that one transaction deletes. On SQLite every other write waits for it, a few milliseconds.
pub(super) const BATCH: Batch = Batch {
    runs: 25,
    events: 500,
};

/// Most occurrences of a schedule that one transaction deletes.
const FIRES: u32 = 1_000;

/// Organizations, or schedules, in one query.
const PAGE: u32 = 100;

/// The job, with its settings.
pub(crate) struct RetentionJob {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    /// Time for which finished runs are kept.
    pub(crate) retention: Duration,
    /// Day on which the operator has compared the node's clock with another one.
    pub(crate) clock_checked: Option<Day>,
}

impl RetentionJob {
    /// Deletes expired runs and occurrences every [`INTERVAL`], until the node stops.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = stop.cancelled() => return,
            }
            tokio::select! {
                deleted = self.pass() => match deleted {
                    Ok(Expired { runs: 0, fires: 0 }) => {}
                    Ok(Expired { runs, fires }) => {
                        tracing::info!(runs, occurrences = fires, "deleted expired runs and schedule occurrences");
                    }
                    Err(error) => tracing::error!(%error, "deleting expired runs and schedule occurrences failed"),
                },
                () = stop.cancelled() => return,
            }
        }
    }

    /// Deletes expired runs and occurrences, if the clock can be trusted.
    async fn pass(&self) -> Result<Expired, Refusal> {
        let now = self.clock.now();
        if self.clock.fault().is_some() || !self.is_plausible(now).await? {
            return Ok(Expired { runs: 0, fires: 0 });
        }
        self.store.record_retention(now).await?;
        delete_expired(&self.store, &self.clock, self.retention).await
    }

    /// Whether the engine has worked within the retention before `now`, or the operator has checked the clock.
    async fn is_plausible(&self, now: Timestamp) -> Result<bool, Refusal> {
        let last = self.store.last_retention().await?.unwrap_or(now);
        let days = [-1, 0, 1].map(|distance| self.clock_checked.map(|day| day.plus(distance)));
        if now.since(last) <= self.retention || days.contains(&Some(Day::of(now))) {
            return Ok(true);
        }
        tracing::error!(
            %last,
            %now,
            "nothing expired is deleted: by the clock, the engine was stopped for longer than `retention_days`. Compare the \
             clock with another one. If it is right, set `retention_clock_checked` to the date of today and start again"
        );
        Ok(false)
    }
}

/// Numbers of deleted rows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expired {
    pub(crate) runs: u64,
    /// Occurrences of schedules.
    pub(crate) fires: u64,
}

/// Deletes runs and occurrences that finished longer than `retention` ago.
pub(crate) async fn delete_expired(
    store: &Store,
    clock: &Clock,
    retention: Duration,
) -> Result<Expired, Refusal> {
    let retained = i64::try_from(retention.as_micros()).unwrap_or(i64::MAX);
    let before = Timestamp::from_micros(clock.now().as_micros().saturating_sub(retained));
    Ok(Expired {
        runs: delete_runs(store, clock, before).await?,
        fires: delete_fires(store, before).await?,
    })
}

/// Deletes the expired occurrences of every schedule. Returns their number.
async fn delete_fires(store: &Store, before: Timestamp) -> Result<u64, Refusal> {
    let (mut fires, mut after) = (0_u64, None);
    let mut units = Units::new("deleting expired occurrences of a schedule");
    loop {
        let schedules = store.schedules_with_fires(after, before, PAGE).await?;
        for schedule in &schedules.items {
            loop {
                let deleted = store.delete_expired_fires(*schedule, before, FIRES).await;
                let deleted = units.done(schedule, deleted)?.unwrap_or_default();
                fires = fires.saturating_add(deleted);
                if deleted == 0 {
                    break;
                }
            }
        }
        after = schedules.stopped_at;
        if after.is_none() {
            return Ok(fires);
        }
    }
}

/// Deletes expired runs of every organization. Returns their number.
async fn delete_runs(store: &Store, clock: &Clock, finished_before: Timestamp) -> Result<u64, Refusal> {
    // The usage of a run is kept after the run is deleted. Runs that are not counted yet are not deleted.
    if let Err(error) = usage::count(store, clock.now()).await {
        tracing::error!(%error, "counting usage before the deletion of expired runs failed");
    }
    let (mut runs, mut after) = (0_u64, None);
    let mut units = Units::new("deleting expired runs of an organization");
    loop {
        let organizations = store.organizations(after, PAGE).await?;
        for (org, counted_until) in &organizations.items {
            let expiry = Expiry {
                org: *org,
                finished_before,
                created_before: finished_before.min(*counted_until),
                check_at: clock.now() + GRACE,
                open_callbacks: OpenCallbacks::Wait,
            };
            let mut undeletable = Undeletable::default();
            loop {
                let deleted = store.delete_expired_runs(expiry, BATCH, &mut undeletable).await;
                let Some(deleted) = units.done(org, deleted)? else {
                    break;
                };
                runs = runs.saturating_add(deleted.runs);
                if !deleted.more {
                    break;
                }
            }
        }
        after = organizations.stopped_at;
        if after.is_none() {
            return Ok(runs);
        }
    }
}

#[cfg(test)]
mod tests {
    use sortie_api::{Micros, RunId, RunStatus};
    use sortie_store::runs::{Finish, Journal, NewEvent, StoredCredentials};

    use super::*;
    use crate::testing::{Held, held};

    const DAY: Duration = Duration::from_hours(24);

    /// A finished run, and the time of its end.
    async fn finished() -> (Held, RunId, Timestamp) {
        let held = held().await;
        let (fence, at) = (held.claim.fence, Clock::system().now());
        let status = sortie_api::event::EventType::status(RunStatus::Failed);
        let finish = Finish {
            status: RunStatus::Failed,
            output: None,
            error: None,
            cost: Micros::ZERO,
            usage: sortie_api::RunUsage::default(),
            events: vec![NewEvent::new(&status, at).unwrap()],
            journal: Journal::Empty,
            stored_credentials: StoredCredentials::Absent,
            receiver: sortie_store::runs::Receiver::Nobody,
            artifacts: None,
            at,
        };
        held.store.finish_run(fence, finish).await.unwrap();
        (held, fence.run, at)
    }

    #[tokio::test]
    async fn a_run_goes_when_its_retention_is_over_and_not_before() {
        let (held, run, end) = finished().await;
        let clock = Clock::manual(end + DAY);
        assert_eq!(delete_expired(&held.store, &clock, DAY).await.unwrap().runs, 0);
        held.store.get_run(held.claim.org, run).await.unwrap();
        clock.set(end + DAY + Duration::from_millis(1));
        assert_eq!(delete_expired(&held.store, &clock, DAY).await.unwrap().runs, 1);
        let gone = held.store.get_run(held.claim.org, run).await;
        assert_eq!(gone.unwrap_err(), sortie_store::Error::NotFound);
    }

    #[tokio::test]
    async fn the_job_looks_at_its_start_and_ends_with_the_node() {
        let (held, found, end) = finished().await;
        let (clock, stop) = (Clock::manual(end + DAY * 2), CancellationToken::new());
        let job = RetentionJob {
            store: held.store.clone(),
            clock_checked: Some(Day::of(clock.now())),
            clock,
            retention: DAY,
        };
        let stops_it = async {
            while held.store.get_run(held.claim.org, found).await.is_ok() {
                tokio::task::yield_now().await;
            }
            stop.cancel();
        };
        futures_util::join!(job.run(stop.clone()), stops_it);
    }

    #[tokio::test]
    async fn a_clock_that_has_jumped_deletes_nothing_until_somebody_has_checked_it() {
        let (held, run, end) = finished().await;
        held.store.installation_seed([1; 32]).await.unwrap();
        let clock = Clock::manual(end);
        let mut job = RetentionJob {
            store: held.store.clone(),
            clock: clock.clone(),
            retention: DAY,
            clock_checked: None,
        };
        let nothing = Expired { runs: 0, fires: 0 };
        // Before the first pass, the newest run shows when the engine was last active.
        clock.set(end + DAY * 40);
        assert_eq!(job.pass().await.unwrap(), nothing);
        clock.set(end);
        assert_eq!(job.pass().await.unwrap(), nothing);
        clock.set(end + DAY * 40);
        // Runs created by the wrong clock change nothing, and neither does a day other than today.
        held.batch(&format!(
            "UPDATE run SET created_at = {} WHERE id = '{run}'",
            clock.now().as_micros()
        ));
        for checked in [None, Some(Day::of(end))] {
            job.clock_checked = checked;
            assert_eq!(job.pass().await.unwrap(), nothing);
        }
        held.batch(&format!(
            "UPDATE run SET created_at = {} WHERE id = '{run}'",
            end.as_micros()
        ));
        job.clock_checked = Some(Day::of(clock.now()));
        assert_eq!(job.pass().await.unwrap().runs, 1);
        // The pass is recorded, so the setting is needed only once.
        job.clock_checked = None;
        clock.set(end + DAY * 40 + DAY / 2);
        assert!(job.is_plausible(clock.now()).await.unwrap());
    }

    #[tokio::test]
    async fn retention_deletes_all_that_has_expired_while_another_task_counts() {
        let (held, run, end) = finished().await;
        // One run in each of the preceding hours.
        for hours in 1..40_u8 {
            let copy = RunId::new(held.claim.created_at, [hours; 10]);
            held.batch(&format!(
                "CREATE TEMP TABLE r AS SELECT * FROM run WHERE id = '{run}'; \
                 UPDATE r SET id = '{copy}', created_at = created_at - {hours} * 3600000000; \
                 INSERT INTO run SELECT * FROM r"
            ));
        }
        let clock = Clock::manual(end + DAY * 2);
        let (counted, deleted) = futures_util::join!(
            usage::count(&held.store, clock.now()),
            delete_expired(&held.store, &clock, DAY)
        );
        assert_eq!(counted.unwrap().uncounted_since, None);
        assert_eq!(deleted.unwrap().runs, 40);
    }

    #[tokio::test]
    async fn organizations_that_cannot_be_counted_do_not_keep_the_others() {
        let (held, run, end) = finished().await;
        let (org, clock) = (held.claim.org, Clock::manual(end + DAY * 2));
        held.between_others();
        held.fail(&format!("BEFORE UPDATE ON organization WHEN OLD.id <> '{org}'"));
        assert_eq!(usage::count(&held.store, clock.now()).await.unwrap().parts, 1);
        assert_eq!(delete_expired(&held.store, &clock, DAY).await.unwrap().runs, 1);
        let gone = held.store.get_run(org, run).await;
        assert_eq!(gone.unwrap_err(), sortie_store::Error::NotFound);
    }

    #[tokio::test]
    async fn organizations_whose_runs_cannot_be_deleted_do_not_keep_the_others() {
        let (held, run, end) = finished().await;
        let (org, clock) = (held.claim.org, Clock::manual(end + DAY * 2));
        held.between_others();
        held.fail(&format!("BEFORE DELETE ON run WHEN OLD.org_id <> '{org}'"));
        assert_eq!(delete_expired(&held.store, &clock, DAY).await.unwrap().runs, 1);
        let gone = held.store.get_run(org, run).await;
        assert_eq!(gone.unwrap_err(), sortie_store::Error::NotFound);
    }
}
