//! Usage of organizations, and the job that counts it. The job adds runs up by day and month; afterwards they may be deleted. It
//! counts the runs of completed hours, and earlier if there are many.

use std::{collections::HashMap, sync::Arc, time::Duration};

use sortie_api::{
    ErrorCode, OrgId, Refusal, Timestamp, limits,
    usage::{Day, UsageDimension, UsageFigures, UsageRow},
};
use sortie_store::{
    Store,
    money::{CountedPart, Unsettled, UsageDue, UsagePart, UsagePosition, UsageQuery},
};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::{
    Engine,
    kit::{metrics::Metrics, units::Units},
};
use sortie_base::Clock;

/// Interval between two passes of the job.
const COUNT: Duration = Duration::from_secs(15);

/// Time between the end of an hour and its count. Most of its runs are settled then.
const MARGIN: Duration = Duration::from_hours(1);

/// Time between the creation of a run and its count, if there are many runs. A create that is committed after the count marks its
/// run as left out, regardless of its node's clock. The exception is a create that is under way on another node during the count,
/// and that one may be as old as this margin.
const SHORT_MARGIN: Duration = Duration::from_mins(2);

/// Margin for a database with a single node: its transactions do not overlap.
const SHORT_MARGIN_ALONE: Duration = Duration::from_secs(5);

/// Time after which an hour is counted without its unsettled runs. Those are counted one by one later. No run takes that long.
const LATE: Duration = Duration::from_hours(6);

/// Part of an hour that waits for its runs. Counting 500 runs takes a few milliseconds.
pub(crate) const PART: UsagePart = UsagePart {
    runs: 500,
    late: 0,
    leaves: Unsettled::All,
};

/// Part of an hour that is [`LATE`]: it does not wait for unsettled runs.
const LATE_PART: UsagePart = UsagePart { late: 500, ..PART };

/// Part of many runs. It leaves out the active runs, which are few. It ends before a run that waits, because the runs after that
/// wait as well.
const PART_OF_MANY: UsagePart = UsagePart {
    leaves: Unsettled::Held,
    ..LATE_PART
};

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
    /// Checks a question for the usage of some days, by default the last `USAGE_DAYS_DEFAULT`. `InvalidRequest` names the
    /// parameter and the rule.
    pub fn asked_usage(
        &self,
        (from, to): (Option<Day>, Option<Day>),
        by: Vec<UsageDimension>,
    ) -> Result<AskedUsage, Refusal> {
        let to = to.unwrap_or_else(|| Day::of(self.0.options.clock.now()));
        let from = from.unwrap_or_else(|| to.plus(1 - limits::USAGE_DAYS_DEFAULT));
        if from > to {
            return Err(ErrorCode::InvalidRequest.because("from: must not be after to"));
        }
        if to.number() - from.number() >= limits::USAGE_DAYS {
            return Err(ErrorCode::InvalidRequest.because(format!(
                "from: must be at most {} days before to",
                limits::USAGE_DAYS - 1
            )));
        }
        Ok(AskedUsage { from, to, by })
    }

    /// Returns rows of the usage of an organization after `after`, in order, at most `limit`. `InvalidRequest` if there are more
    /// than `USAGE_ROWS` rows in all.
    pub async fn usage_rows(
        &self,
        org: OrgId,
        asked: &AskedUsage,
        after: Option<&UsageRow>,
        limit: u32,
    ) -> Result<Vec<UsageRow>, Refusal> {
        let query = UsageQuery {
            // No row after `after` has an earlier day.
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
            return Err(ErrorCode::InvalidRequest.because(format!(
                "by: must not make more than {} rows; request fewer days or dimensions",
                limits::USAGE_ROWS
            )));
        }
        Ok(rows)
    }

    /// Returns the sums over the runs of the last `USAGE_DAYS_DEFAULT` days, today included, by the name of their workflow.
    pub async fn usage_of_workflows(&self, org: OrgId) -> Result<HashMap<String, UsageFigures>, Refusal> {
        let asked = self.asked_usage((None, None), vec![UsageDimension::Workflow])?;
        let (mut figures, mut after) = (HashMap::new(), None);
        loop {
            let query = UsageQuery {
                from: asked.from,
                to: asked.to,
                by: asked.by.clone(),
                after: after.as_ref().map(UsagePosition::from),
                limit: PAGE,
            };
            let rows = self.store().usage(org, query).await?;
            let is_full = rows.len() >= PAGE as usize;
            after = rows.last().cloned();
            let named = rows
                .into_iter()
                .filter_map(|row| Some((row.workflow.clone()?, row.figures())));
            figures.extend(named);
            if !is_full {
                return Ok(figures);
            }
        }
    }

    /// Returns the sums over all runs of an organization that were created on these days.
    pub(crate) async fn usage_totals(&self, org: OrgId, from: Day, to: Day) -> Result<UsageFigures, Refusal> {
        let by = Vec::new();
        let asked = AskedUsage { from, to, by };
        let rows = self.usage_rows(org, &asked, None, 2).await?;
        Ok(rows.first().map(UsageRow::figures).unwrap_or_default())
    }
}

/// Counts completed hours, at the start and then every [`COUNT`], until the node stops. Every node runs the job; an
/// hour is counted by the first of them.
pub(crate) async fn keep_counting(
    store: Store,
    clock: Clock,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) {
    let mut tick = tokio::time::interval(COUNT);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = stop.cancelled() => return,
        }
        if clock.fault().is_some() {
            continue;
        }
        let now = clock.now();
        tokio::select! {
            pass = count(&store, now) => match pass {
                Ok(pass) => {
                    metrics.counted_usage(pass.uncounted_since.map(|since| now.since(since)));
                    if pass.parts > 0 {
                        tracing::debug!(parts = pass.parts, "counted usage");
                    }
                }
                Err(error) => tracing::error!(%error, "counting usage failed"),
            },
            () = stop.cancelled() => return,
        }
    }
}

/// Result of a pass that counts usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pass {
    /// Number of parts of hours that were counted.
    pub(crate) parts: u64,
    /// End of the oldest completed hour that is not counted. `None` if all are.
    pub(crate) uncounted_since: Option<Timestamp>,
}

/// Kind of the next part of an organization.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PartKind {
    /// A completed hour.
    Hour,
    /// An hour that was completed more than [`LATE`] ago.
    LateHour,
    /// A part of an hour with many runs.
    Many,
}

impl PartKind {
    /// The kind of a part that can be counted at `now`.
    fn of(due: &UsageDue, now: Timestamp) -> Option<Self> {
        if due.hour_end() + LATE <= now {
            Some(Self::LateHour)
        } else if due.are_many {
            Some(Self::Many)
        } else {
            (due.hour_end() + MARGIN <= now).then_some(Self::Hour)
        }
    }

    const fn part(self) -> UsagePart {
        match self {
            Self::Hour => PART,
            Self::LateHour => LATE_PART,
            Self::Many => PART_OF_MANY,
        }
    }
}

/// Counts the runs of every organization that are many or belong to completed hours, part by part. A part with unsettled runs
/// waits, and so do all later parts, until its hour is [`LATE`]. It is then counted without these runs. A failure with one
/// organization does not hold up the others.
pub(crate) async fn count(store: &Store, now: Timestamp) -> Result<Pass, Refusal> {
    let margin = if store.is_shared() {
        SHORT_MARGIN
    } else {
        SHORT_MARGIN_ALONE
    };
    let margin = i64::try_from(margin.as_micros()).unwrap_or(i64::MAX);
    let before = Timestamp::from_micros(now.as_micros().saturating_sub(margin));
    let (mut pass, mut after) = (Pass::default(), None);
    let mut units = Units::new("counting the usage of an organization");
    loop {
        let found = store.usage_due(before, after, PAGE).await?;
        for (org, mut due) in found.items {
            while let Some((next, kind)) = due.and_then(|due| Some((due, PartKind::of(&due, now)?))) {
                let counted = units.done(org, count_next(store, next, kind).await)?;
                match counted {
                    Some(CountedPart::Counted(_)) => pass.parts += 1,
                    Some(CountedPart::Elsewhere) => {}
                    Some(CountedPart::Waits) | None if next.hour_end() + MARGIN > now => break,
                    Some(CountedPart::Waits) | None => {
                        let oldest = pass.uncounted_since.into_iter().chain([next.hour_end()]);
                        pass.uncounted_since = oldest.min();
                        break;
                    }
                }
                due = units
                    .done(org, store.usage_due_of(org, before).await)?
                    .unwrap_or_default();
            }
        }
        after = found.stopped_at;
        if after.is_none() {
            count_late(store).await?;
            return Ok(pass);
        }
    }
}

/// Counts a part of an hour of an organization.
async fn count_next(store: &Store, next: UsageDue, kind: PartKind) -> Result<CountedPart, Refusal> {
    let counted = store.count_usage(next, kind.part()).await?;
    match counted {
        CountedPart::Waits if kind == PartKind::LateHour => tracing::warn!(
            organization = %next.org,
            hour_end = %next.hour_end(),
            "the usage of an hour is not counted: more than {} of its runs have the same time and are not settled",
            LATE_PART.late
        ),
        CountedPart::Counted(runs) if runs > 0 && kind == PartKind::LateHour => tracing::warn!(
            organization = %next.org,
            hour_end = %next.hour_end(),
            runs,
            "counted the usage of an hour without its unsettled runs; each is counted when it is settled"
        ),
        CountedPart::Counted(_) | CountedPart::Waits | CountedPart::Elsewhere => {}
    }
    Ok(counted)
}

/// Counts runs that were left out of their hour and are settled now. A failure with one does not hold up the others.
async fn count_late(store: &Store) -> Result<(), Refusal> {
    let mut after = None;
    let mut units = Units::new("counting the usage of a run");
    loop {
        let runs = store.late_runs(after, PAGE).await?;
        for (run, _) in runs.items.iter().filter(|(_, is_settled)| *is_settled) {
            units.done(run, store.count_late_run(*run).await)?;
        }
        after = runs.stopped_at;
        if after.is_none() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use sortie_api::Micros;
    use sortie_store::runs::{Finish, Journal, NewEvent, StoredCredentials};

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
                .unwrap()
                .parts,
            0
        );
        assert_eq!(count(store, over + LATE).await.unwrap().parts, 1);
        assert_eq!(count(store, over + LATE + HOUR).await.unwrap().parts, 0, "once");
        assert_eq!(
            store.late_runs(None, 10).await.unwrap().items,
            [(fence.run, false)]
        );
        // The run is still in the sums, and it is counted once it is settled.
        store.cancel_run(org, fence.run, made).await.unwrap();
        let settled = store.settle_run(
            fence.run,
            fence.attempt,
            sortie_store::runs::FinalCost::default(),
            Vec::new(),
        );
        settled.await.unwrap();
        assert_eq!(count(store, over + LATE + HOUR).await.unwrap().parts, 0);
        assert_eq!(store.late_runs(None, 10).await.unwrap().items, []);
    }

    #[tokio::test]
    async fn many_runs_are_counted_soon_and_few_after_their_hour() {
        let held = held().await;
        let (org, fence) = (held.claim.org, held.claim.fence);
        let made = held.store.get_run(org, fence.run).await.unwrap().created_at;
        let soon = made + SHORT_MARGIN_ALONE + Duration::from_secs(1);
        let copies = |from: u32, to: u32| {
            held.batch(&format!(
                "CREATE TEMP TABLE r AS WITH RECURSIVE n (i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i < {to}) \
                 SELECT n.i, run.* FROM n, run WHERE run.id = '{}'; \
                 UPDATE r SET id = 'run_01hf7yat00e008000000' || (100000 + i), outcome = 'failed', status = 'failed', \
                 billing_pending = 0, created_at = created_at + i; \
                 ALTER TABLE r DROP COLUMN i; \
                 INSERT INTO run SELECT * FROM r; DROP TABLE r",
                fence.run
            ));
        };
        copies(1, 499);
        assert_eq!(count(&held.store, soon).await.unwrap().parts, 0, "they are few");
        copies(500, 1_100);
        // The active run is left out.
        assert_eq!(count(&held.store, soon).await.unwrap().parts, 2);
        assert_eq!(
            held.store.late_runs(None, 10).await.unwrap().items,
            [(fence.run, false)]
        );
        let due = held.store.usage_due_of(org, soon).await.unwrap().unwrap();
        assert!(!due.are_many);
    }

    #[tokio::test]
    async fn the_oldest_hour_that_is_not_counted_is_told() {
        let held = held().await;
        let made = held
            .store
            .get_run(held.claim.org, held.claim.fence.run)
            .await
            .unwrap()
            .created_at;
        let hour = made.as_micros() - made.as_micros().rem_euclid(3_600_000_000);
        let over = Timestamp::from_micros(hour) + HOUR;
        let early = count(&held.store, over).await.unwrap();
        assert_eq!(early.uncounted_since, None, "it is not complete for others");
        let waits = count(&held.store, over + 2 * HOUR).await.unwrap();
        assert_eq!(
            waits,
            Pass {
                parts: 0,
                uncounted_since: Some(over)
            }
        );

        let (clock, metrics) = (Clock::manual(over + 2 * HOUR), Arc::<Metrics>::default());
        let told = async |seconds: i64| {
            let stop = CancellationToken::new();
            let job = keep_counting(
                held.store.clone(),
                clock.clone(),
                Arc::clone(&metrics),
                stop.clone(),
            );
            let looks_on = async {
                while metrics.uncounted_usage() != seconds {
                    tokio::task::yield_now().await;
                }
                stop.cancel();
            };
            tokio::join!(job, looks_on);
        };
        told(7_200).await;
        clock.set(over + LATE);
        told(0).await;
    }

    #[tokio::test]
    async fn a_late_run_that_cannot_be_counted_does_not_keep_the_others() {
        let held = held().await;
        held.between_others();
        held.batch(
            "INSERT INTO late_run (run_id, org_id, created_at) SELECT id, org_id, created_at FROM run; \
             DELETE FROM queue",
        );
        let late = async || {
            let late = held.store.late_runs(None, 10).await.unwrap().items;
            late.into_iter().map(|(run, _)| run).collect::<Vec<_>>()
        };
        let all = late().await;
        assert_eq!(all.len(), 3);
        held.fail(&format!(
            "BEFORE DELETE ON late_run WHEN OLD.run_id = '{}'",
            all[0]
        ));
        count(&held.store, Clock::system().now()).await.unwrap();
        assert_eq!(late().await, all[..1]);
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
            count(&store, over + MARGIN).await.unwrap().parts,
            0,
            "it is still at work"
        );

        let ended = sortie_api::RunStatus::Failed;
        let finish = Finish {
            receiver: sortie_store::runs::Receiver::Nobody,
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
        assert_eq!(
            count(&store, just_before).await.unwrap().parts,
            0,
            "others may be late"
        );
        assert_eq!(count(&store, over + MARGIN).await.unwrap().parts, 1);
        assert_eq!(
            count(&store, over + MARGIN + HOUR).await.unwrap().parts,
            0,
            "once"
        );
        let due = store.usage_due(over + MARGIN, None, 10).await.unwrap();
        assert_eq!(due.items, [(org, None)]);
    }
}
