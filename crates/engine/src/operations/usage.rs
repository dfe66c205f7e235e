//! Usage of organizations, and the job that counts it. Completed hours become sums by day, after which their runs may
//! be deleted.

use std::time::Duration;

use sortie_api::{
    OrgId, Timestamp, limits,
    usage::{Day, UsageDimension, UsageFigures, UsageRow},
};
use sortie_store::{Store, UsageDue, UsagePosition, UsageQuery};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::{Engine, error::Error, kit::units::Units};
use sortie_base::Clock;

/// Interval between two passes of the job.
const COUNT: Duration = Duration::from_mins(10);

/// Time between the end of an hour and its count. A run gets its time from the clock of the node that accepts it, and
/// is stored a moment later. Clocks of nodes may differ by up to this without a loss.
const MARGIN: Duration = Duration::from_hours(1);

/// Time after which an hour waits for its runs no longer. Those that are not settled then are counted by themselves. No run
/// works for as long.
const LATE: Duration = Duration::from_hours(6);

/// Maximum number of runs of an hour that are counted by themselves. While an organization has more that are not settled, as
/// where nothing works on its runs, the hour waits for them.
const LATE_RUNS: u32 = 1_000;

/// Organizations, or runs, in one query.
const PAGE: u32 = 500;

/// Days and dimensions of usage that was asked for.
#[derive(Clone, Debug)]
pub struct AskedUsage {
    /// First day.
    pub from: Day,
    /// Last day, which is included.
    pub to: Day,
    /// Dimensions by which the rows are grouped.
    pub by: Vec<UsageDimension>,
}

impl Engine {
    /// Checks a question for the usage of some days, by default the last `USAGE_DAYS_DEFAULT`. `Invalid` names the parameter and
    /// the rule.
    pub fn asked_usage(
        &self,
        (from, to): (Option<Day>, Option<Day>),
        by: Vec<UsageDimension>,
    ) -> Result<AskedUsage, Error> {
        let to = to.unwrap_or_else(|| Day::of(self.0.options.clock.now()));
        let from = from.unwrap_or_else(|| to.plus(1 - limits::USAGE_DAYS_DEFAULT));
        if from > to {
            return Err(Error::Invalid("from: must not be after to".to_owned()));
        }
        if to.number() - from.number() >= limits::USAGE_DAYS {
            return Err(Error::Invalid(format!(
                "from: must be at most {} days before to",
                limits::USAGE_DAYS - 1
            )));
        }
        Ok(AskedUsage { from, to, by })
    }

    /// Returns rows of the usage of an organization behind `after`, in order, at most `limit`. `Invalid` where all of them
    /// would be more than `USAGE_ROWS`.
    pub async fn usage_rows(
        &self,
        org: OrgId,
        asked: &AskedUsage,
        after: Option<&UsageRow>,
        limit: u32,
    ) -> Result<Vec<UsageRow>, Error> {
        let query = UsageQuery {
            // No row of an earlier day is behind `after`.
            from: after.and_then(|row| row.day).unwrap_or(asked.from),
            to: asked.to,
            by: asked.by.clone(),
            after: after.map(UsagePosition::from),
            limit,
        };
        let is_first = query.after.is_none();
        let all = UsageQuery {
            limit: limits::USAGE_ROWS + 1,
            ..query.clone()
        };
        let rows = self.store().usage(org, query).await?;
        if is_first
            && rows.len() >= limit as usize
            && self.store().usage_rows(org, all).await? > limits::USAGE_ROWS
        {
            return Err(Error::Invalid(format!(
                "by: makes more than {} rows, ask for fewer days or dimensions",
                limits::USAGE_ROWS
            )));
        }
        Ok(rows)
    }

    /// Returns the sums over all runs of an organization that were created on these days.
    pub(crate) async fn usage_totals(&self, org: OrgId, from: Day, to: Day) -> Result<UsageFigures, Error> {
        let by = Vec::new();
        let asked = AskedUsage { from, to, by };
        let rows = self.usage_rows(org, &asked, None, 2).await?;
        Ok(rows.first().map(UsageRow::figures).unwrap_or_default())
    }
}

/// Counts completed hours, at the start and then every [`COUNT`], until the node stops. Every node runs the job; an
/// hour is counted by the first of them.
pub(crate) async fn keep_counting(store: Store, clock: Clock, stop: CancellationToken) {
    let mut tick = tokio::time::interval(COUNT);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = stop.cancelled() => return,
        }
        tokio::select! {
            counted = count(&store, clock.now()) => match counted {
                Ok(0) => {}
                Ok(hours) => tracing::debug!(hours, "counted usage"),
                Err(error) => tracing::error!(%error, "counting usage failed"),
            },
            () = stop.cancelled() => return,
        }
    }
}

/// Counts every completed hour of every organization and returns their number. An hour with unsettled runs waits, and so do
/// the hours after it, until it is [`LATE`]: it is then counted without these runs. A failure with one organization does not
/// hold up the others.
pub(crate) async fn count(store: &Store, now: Timestamp) -> Result<u64, Error> {
    let before = Timestamp::from_micros(
        now.as_micros()
            .saturating_sub(i64::try_from(MARGIN.as_micros()).unwrap_or(i64::MAX)),
    );
    let mut hours = 0;
    let mut after = None;
    let mut units = Units::new("counting the usage of an organization");
    loop {
        let found = store.usage_due(before, after, PAGE).await?;
        let Some((last, _)) = found.last() else {
            count_late(store).await?;
            return Ok(hours);
        };
        let mut behind = after;
        after = Some(*last);
        for (org, mut due) in found {
            while let Some(next) = due.filter(|due| due.hour_end() <= before) {
                let counted = count_next(store, next, now, (before, behind)).await;
                let Some(Some(further)) = units.done(org, counted)? else {
                    break;
                };
                hours += 1;
                due = further;
            }
            behind = Some(org);
        }
    }
}

/// Counts an hour of an organization, the first one behind `behind`. Returns what is due next, if anything. `None` if the hour
/// has to wait.
async fn count_next(
    store: &Store,
    next: UsageDue,
    now: Timestamp,
    (before, behind): (Timestamp, Option<OrgId>),
) -> Result<Option<Option<UsageDue>>, Error> {
    let is_late = next.hour_end() + LATE <= now;
    match store
        .count_usage(next, if is_late { LATE_RUNS } else { 0 })
        .await?
    {
        None if is_late => {
            tracing::warn!(
                organization = %next.org,
                hour_end = %next.hour_end(),
                "the usage of an hour is not counted: more than {LATE_RUNS} of its runs are not settled, or another node counts it"
            );
            return Ok(None);
        }
        None => return Ok(None),
        Some(0) => {}
        Some(runs) => tracing::warn!(
            organization = %next.org,
            hour_end = %next.hour_end(),
            runs,
            "counted the usage of an hour without runs that are not settled; each is counted once it is"
        ),
    }
    let again = store.usage_due(before, behind, 1).await?;
    let of_org = again.first().filter(|(of, _)| *of == next.org);
    Ok(Some(of_org.and_then(|(_, due)| *due)))
}

/// Counts runs that were left out of their hour and are settled now. A failure with one does not hold up the others.
async fn count_late(store: &Store) -> Result<(), Error> {
    let mut after = None;
    let mut units = Units::new("counting the usage of a run");
    loop {
        let runs = store.late_runs(after, PAGE).await?;
        for (run, _) in runs.iter().filter(|(_, is_settled)| *is_settled) {
            units.done(run, store.count_late_run(*run).await)?;
        }
        if runs.len() < PAGE as usize {
            return Ok(());
        }
        after = runs.last().map(|(run, _)| *run);
    }
}

#[cfg(test)]
mod tests {
    use sortie_api::Micros;
    use sortie_store::{Finish, Journal, NewEvent, StoredCredentials};

    use super::*;
    use crate::testing::{Held, held};

    const HOUR: Duration = Duration::from_hours(1);

    #[tokio::test]
    async fn a_run_that_stays_unsettled_does_not_keep_the_hours_behind_it() {
        let held = held().await;
        let (store, org, fence) = (&held.store, held.claim.org, held.claim.fence);
        let made = store.get_run(org, fence.run).await.unwrap().created_at;
        let hour = made.as_micros() - made.as_micros().rem_euclid(3_600_000_000);
        let over = Timestamp::from_micros(hour) + HOUR;
        assert_eq!(
            count(store, over + LATE - Duration::from_micros(1))
                .await
                .unwrap(),
            0
        );
        assert_eq!(count(store, over + LATE).await.unwrap(), 1);
        assert_eq!(count(store, over + LATE + HOUR).await.unwrap(), 0, "once");
        assert_eq!(store.late_runs(None, 10).await.unwrap(), [(fence.run, false)]);
        // It is still in the sums, and once it is settled it is counted.
        store.cancel_run(org, fence.run, made).await.unwrap();
        let settled = store.settle_run(
            fence.run,
            fence.attempt,
            Micros::ZERO,
            sortie_api::RunUsage::default(),
        );
        settled.await.unwrap();
        assert_eq!(count(store, over + LATE + HOUR).await.unwrap(), 0);
        assert_eq!(store.late_runs(None, 10).await.unwrap(), []);
    }

    #[tokio::test]
    async fn an_hour_is_counted_once_it_has_been_over_for_an_hour_and_its_runs_are_settled() {
        let Held {
            store,
            claim,
            dir: _dir,
            ..
        } = held().await;
        let org = claim.org;
        let made = store.get_run(org, claim.fence.run).await.unwrap().created_at;
        let hour = made.as_micros() - made.as_micros().rem_euclid(3_600_000_000);
        let over = Timestamp::from_micros(hour) + HOUR;
        assert_eq!(
            count(&store, over + MARGIN).await.unwrap(),
            0,
            "it is still at work"
        );

        let ended = sortie_api::RunStatus::Failed;
        let finish = Finish {
            receiver: sortie_store::Receiver::Nobody,
            artifacts: None,
            status: ended,
            output: None,
            error: None,
            cost: Micros::ZERO,
            usage: sortie_api::RunUsage::default(),
            events: vec![NewEvent::new(&sortie_api::EventType::status(ended), made).unwrap()],
            journal: Journal::Empty,
            stored_credentials: StoredCredentials::Absent,
            at: made,
        };
        store.finish_run(claim.fence, finish).await.unwrap();
        let just_before = Timestamp::from_micros((over + MARGIN).as_micros() - 1);
        assert_eq!(count(&store, just_before).await.unwrap(), 0, "others may be late");
        assert_eq!(count(&store, over + MARGIN).await.unwrap(), 1);
        assert_eq!(count(&store, over + MARGIN + HOUR).await.unwrap(), 0, "once");
        let due = store.usage_due(over + MARGIN, None, 10).await.unwrap();
        assert_eq!(due, [(org, None)]);
    }
}
