//! Reads of schedules and their histories, and the search for schedules that are due.

use sortie_api::{OrgId, RunId, RunStatus, ScheduleId, Timestamp};

use super::{FireRow, ListedSchedule, ScheduleRow, fire_from, schedule_columns, schedule_from};
use crate::{
    Error, Found, Result, Store,
    db::{Row, Stmt, Tx, batch, readable, vals},
    runs::large::short,
};

/// Schedule with an occurrence to process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Time at which the occurrence was due; for a waiting occurrence, its scheduled time.
    pub since: Timestamp,
    /// Id of the schedule.
    pub schedule: ScheduleId,
    /// Organization that owns the schedule.
    pub org: OrgId,
}

impl Store {
    /// Returns a schedule.
    pub async fn get_schedule(&self, org: OrgId, id: ScheduleId) -> Result<ScheduleRow> {
        self.db
            .read(move |tx| {
                let row = tx.query_one(
                    concat!(
                        "SELECT ",
                        schedule_columns!(),
                        " FROM schedule s WHERE s.id = $2 AND s.org_id = $1"
                    ),
                    vals![org, id],
                )?;
                schedule_from(&row)
            })
            .await
    }

    /// Returns at most `limit` schedules of the organization before a position, newest first. Large inputs are left out.
    pub async fn list_schedules(
        &self,
        org: OrgId,
        before: Option<(Timestamp, ScheduleId)>,
        limit: u32,
    ) -> Result<Vec<ListedSchedule>> {
        self.db
            .read(move |tx| {
                // `~` sorts after every character of an id.
                let (at, id) = before
                    .map_or((Timestamp::from_micros(i64::MAX), "~".to_owned()), |(at, id)| {
                        (at, id.to_string())
                    });
                tx.query_all(
                    concat!(
                        "SELECT ",
                        schedule_columns!(short!("s.input")),
                        ", octet_length(s.input) FROM schedule s WHERE s.org_id = $1 AND s.created_at >= 0 \
                         AND (s.created_at, s.id) < ($2, $3) ORDER BY s.created_at DESC, s.id DESC LIMIT $4"
                    ),
                    vals![org, at, id, limit],
                )?
                .iter()
                .map(listed_schedule)
                .collect()
            })
            .await
    }

    /// Returns at most `limit` outcomes of a schedule's occurrences before a position, latest first. A
    /// position is a scheduled time and its occasion.
    pub async fn list_fires(
        &self,
        org: OrgId,
        id: ScheduleId,
        before: Option<(Timestamp, String)>,
        limit: u32,
    ) -> Result<Vec<FireRow>> {
        self.db
            .read(move |tx| fires(tx, (org, id), before.as_ref(), limit))
            .await
    }

    /// System: returns at most `limit` schedules of all organizations whose next occurrence is due at `at`,
    /// behind a position. Schedules that cannot be read are left out, and the next page goes on behind them.
    pub async fn due_schedules(
        &self,
        at: Timestamp,
        after: Option<(Timestamp, String)>,
        limit: u32,
    ) -> Result<Found<Due, (Timestamp, String)>> {
        let (since, id) = after.unwrap_or((Timestamp::from_micros(i64::MIN), String::new()));
        self.db
            .read(move |tx| {
                let due = tx.query_all(
                    "SELECT s.due_at, s.id, s.org_id FROM schedule s WHERE s.due_at <= $1 \
                     AND (s.due_at, s.id) > ($2, $3) ORDER BY s.due_at, s.id LIMIT $4",
                    vals![at, since, id.as_str(), limit],
                )?;
                due_of(&due, limit)
            })
            .await
    }

    /// System: returns at most `limit` schedules of all organizations with a waiting occurrence whose earlier
    /// runs are final now, behind a position. Schedules that cannot be read are left out, and the next page goes on behind
    /// them.
    pub async fn released_schedules(
        &self,
        after: Option<(Timestamp, String)>,
        limit: u32,
    ) -> Result<Found<Due, (Timestamp, String)>> {
        let (since, id) = after.unwrap_or((Timestamp::from_micros(i64::MIN), String::new()));
        self.db
            .read(move |tx| {
                let due = tx.query_all(
                    "SELECT s.waiting_instant, s.id, s.org_id FROM schedule s \
                     WHERE s.waiting_instant IS NOT NULL AND s.waiting_instant >= $1 \
                     AND (s.waiting_instant, s.id) > ($1, $3) AND (SELECT r.id FROM run r \
                     WHERE r.schedule_id = s.id AND r.outcome IS NULL \
                     ORDER BY r.outcome DESC, r.created_at DESC, r.id DESC LIMIT 1) IS NULL \
                     ORDER BY s.waiting_instant, s.id LIMIT $2",
                    vals![since, limit, id.as_str()],
                )?;
                due_of(&due, limit)
            })
            .await
    }

    /// System: returns the earliest time after `after` at which an occurrence of any schedule is due.
    pub async fn next_due(&self, after: Timestamp) -> Result<Option<Timestamp>> {
        self.db
            .read(move |tx| {
                let first = tx.query_opt(
                    "SELECT s.due_at FROM schedule s WHERE s.due_at > $1 ORDER BY s.due_at, s.id LIMIT 1",
                    vals![after],
                )?;
                first.map(|row| row.time(0)).transpose()
            })
            .await
    }

    /// Returns at most `limit` runs of a schedule that are not final, newest first. Returns none if the
    /// schedule is not at `revision` any more, so that no run is included that was started after the caller
    /// has read the schedule.
    pub async fn open_runs(
        &self,
        org: OrgId,
        (id, revision): (ScheduleId, i64),
        limit: u32,
    ) -> Result<Vec<RunId>> {
        self.db
            .read(move |tx| {
                tx.query_all(
                    "SELECT r.id FROM run r WHERE r.org_id = $1 AND r.schedule_id = $2 AND r.outcome IS NULL \
                     AND (SELECT s.revision FROM schedule s WHERE s.id = $2) = $3 \
                     ORDER BY r.outcome DESC, r.created_at DESC, r.id DESC LIMIT $4",
                    vals![org, id, revision, limit],
                )?
                .iter()
                .map(|row| row.parse(0))
                .collect()
            })
            .await
    }

    /// Returns the outcomes of at most `limit` runs of a schedule that were created at `since` or later and
    /// have ended, newest first. Cancelled runs are left out.
    pub async fn recent_outcomes(
        &self,
        org: OrgId,
        id: ScheduleId,
        (since, limit): (Timestamp, i64),
    ) -> Result<Vec<RunStatus>> {
        self.db
            .read(move |tx| {
                tx.query_all(
                    "SELECT r.outcome FROM run r WHERE r.org_id = $1 AND r.schedule_id = $2 AND r.created_at >= $3 \
                     AND r.outcome IS NOT NULL AND r.outcome <> $4 \
                     ORDER BY r.created_at DESC, r.id DESC LIMIT $5",
                    vals![org, id, since, RunStatus::Cancelled, limit],
                )?
                .iter()
                .map(|row| row.parse(0))
                .collect()
            })
            .await
    }
}

fn fires(
    tx: &mut dyn Tx,
    (org, id): (OrgId, ScheduleId),
    before: Option<&(Timestamp, String)>,
    limit: u32,
) -> Result<Vec<FireRow>> {
    let (at, occasion) = before.map_or((Timestamp::from_micros(i64::MAX), "~"), |(at, occasion)| {
        (*at, occasion.as_str())
    });
    let [_, fires] = batch(
        tx,
        &[
            Stmt::new(
                "SELECT 1 FROM schedule WHERE id = $2 AND org_id = $1",
                vals![org, id],
            )
            .exactly(1, Error::NotFound),
            Stmt::new(
                "SELECT instant, last_instant, instants, occasion, outcome, reason, run_id, recorded_at FROM fire \
                 WHERE schedule_id = $1 AND (instant, occasion) < ($2, $3) \
                 ORDER BY instant DESC, occasion DESC LIMIT $4",
                vals![id, at, occasion, limit],
            ),
        ],
    )?;
    fires.rows.iter().map(fire_from).collect()
}

/// Schedules in rows that begin with a time and an id, and the position of the last row of a full page.
fn due_of(rows: &[Row], limit: u32) -> Result<Found<Due, (Timestamp, String)>> {
    let is_full = rows.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    let last = rows.last().filter(|_| is_full);
    let stopped_at = last
        .map(|row| Ok((row.time(0)?, row.text(1)?.to_owned())))
        .transpose()?;
    Ok(Found {
        items: readable(rows, "due schedule", due_from),
        stopped_at,
    })
}

fn due_from(row: &Row) -> Result<Due> {
    Ok(Due {
        since: row.time(0)?,
        schedule: row.parse(1)?,
        org: row.parse(2)?,
    })
}

/// Column of the length of the input, behind those of a schedule.
const INPUT_LENGTH: usize = 28;

fn listed_schedule(row: &Row) -> Result<ListedSchedule> {
    let schedule = schedule_from(row)?;
    let has_input = row.opt_int(INPUT_LENGTH)?.is_some();
    Ok(ListedSchedule {
        has_large_input: has_input && schedule.spec.input.is_none(),
        schedule,
    })
}
