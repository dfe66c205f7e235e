//! Reads of schedules and their histories, and the search for schedules that are due.

use sortie_api::{OrgId, RunId, RunStatus, ScheduleId, Timestamp};

use super::{FireRow, ListedSchedule, ScheduleFireRow, ScheduleRow, StoredSchedule};
use crate::{
    Error, Found, Result, Store,
    db::{ReadRow, Row, Stmt, Tx, batch, filled, readable, row, select, vals},
    runs::large::SHORT,
};

row! {
    /// Schedule `s` with an occurrence to process.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Due {
        /// Time at which the occurrence was due; for a waiting occurrence, its scheduled time.
        pub since: Timestamp = "@since",
        /// Id of the schedule.
        pub schedule: ScheduleId = "s.id",
        /// Organization that owns the schedule.
        pub org: OrgId = "s.org_id",
    }
}

row! {
    /// Start of [`Due`], including rows with an unparsable id.
    struct DuePosition {
        since: Timestamp = "@since",
        id: String = "s.id",
    }
}

row! {
    struct ListedScheduleRow {
        schedule: StoredSchedule,
        input_length: Option<i64> = "octet_length(s.input)",
    }
}

impl From<ListedScheduleRow> for ListedSchedule {
    fn from(listed: ListedScheduleRow) -> Self {
        Self {
            has_large_input: listed.input_length.is_some() && listed.schedule.input.is_none(),
            schedule: listed.schedule.into(),
        }
    }
}

impl Store {
    /// Returns a schedule.
    pub async fn get_schedule(&self, org: OrgId, id: ScheduleId) -> Result<ScheduleRow> {
        self.db
            .read(move |tx| {
                let sql = filled!(
                    select!(
                        StoredSchedule,
                        " FROM schedule s WHERE s.id = $2 AND s.org_id = $1"
                    ),
                    "@input" = "s.input"
                );
                tx.read_one::<StoredSchedule>(sql, vals![org, id]).map(Into::into)
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
                let schedules: Vec<ListedScheduleRow> = tx.read_all(
                    filled!(
                        select!(
                            ListedScheduleRow,
                            " FROM schedule s WHERE s.org_id = $1 AND s.created_at >= 0 \
                             AND (s.created_at, s.id) < ($2, $3) ORDER BY s.created_at DESC, s.id DESC LIMIT $4"
                        ),
                        "@input" = filled!(SHORT, "@column" = "s.input")
                    ),
                    vals![org, at, id, limit],
                )?;
                Ok(schedules.into_iter().map(Into::into).collect())
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

    /// Returns at most `limit` outcomes of the occurrences of all schedules of an organization, from `since` on and before a
    /// position, latest first. A position is a scheduled time, a schedule and an occasion.
    pub async fn list_all_fires(
        &self,
        org: OrgId,
        since: Timestamp,
        before: (Timestamp, String, String),
        limit: u32,
    ) -> Result<Vec<ScheduleFireRow>> {
        let (at, schedule, occasion) = before;
        let rows = self
            .db
            .read(move |tx| {
                tx.query_all(
                    select!(
                        ScheduleFireRow,
                        " FROM fire WHERE org_id = $1 AND instant >= $2 \
                         AND (instant, schedule_id, occasion) < ($3, $4, $5) \
                         ORDER BY instant DESC, schedule_id DESC, occasion DESC LIMIT $6"
                    ),
                    vals![org, since, at, schedule.as_str(), occasion.as_str(), limit],
                )
            })
            .await?;
        rows.iter().map(ScheduleFireRow::read).collect()
    }

    /// System: returns at most `limit` schedules of all organizations with a next occurrence that is due at `at`, after a
    /// position. Unreadable schedules are left out, and the next page continues after them.
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
                    filled!(
                        select!(
                            Due,
                            " FROM schedule s WHERE s.due_at <= $1 \
                             AND (s.due_at, s.id) > ($2, $3) ORDER BY s.due_at, s.id LIMIT $4"
                        ),
                        "@since" = "s.due_at"
                    ),
                    vals![at, since, id.as_str(), limit],
                )?;
                due_of(&due, limit)
            })
            .await
    }

    /// System: returns at most `limit` schedules of all organizations with a waiting occurrence and only final earlier
    /// runs, after a position. Unreadable schedules are left out, and the next page continues after them.
    pub async fn released_schedules(
        &self,
        after: Option<(Timestamp, String)>,
        limit: u32,
    ) -> Result<Found<Due, (Timestamp, String)>> {
        let (since, id) = after.unwrap_or((Timestamp::from_micros(i64::MIN), String::new()));
        self.db
            .read(move |tx| {
                let due = tx.query_all(
                    filled!(
                        select!(
                            Due,
                            " FROM schedule s \
                             WHERE s.waiting_instant IS NOT NULL AND s.waiting_instant >= $1 \
                             AND (s.waiting_instant, s.id) > ($1, $3) AND (SELECT r.id FROM run r \
                             WHERE r.schedule_id = s.id AND r.outcome IS NULL \
                             ORDER BY r.outcome DESC, r.created_at DESC, r.id DESC LIMIT 1) IS NULL \
                             ORDER BY s.waiting_instant, s.id LIMIT $2"
                        ),
                        "@since" = "s.waiting_instant"
                    ),
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
                first.map(|row| row.only()).transpose()
            })
            .await
    }

    /// Returns at most `limit` runs of a schedule that are not final, newest first. Returns no runs if the schedule has
    /// another revision than `revision`, which excludes runs that were started after the caller has read the schedule.
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
                .map(Row::only)
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
                .map(Row::only)
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
                select!(
                    FireRow,
                    " FROM fire WHERE schedule_id = $1 AND (instant, occasion) < ($2, $3) \
                     ORDER BY instant DESC, occasion DESC LIMIT $4"
                ),
                vals![id, at, occasion, limit],
            ),
        ],
    )?;
    fires.rows.iter().map(FireRow::read).collect()
}

/// Schedules in rows of [`Due`], and the position of the last row of a full page.
fn due_of(rows: &[Row], limit: u32) -> Result<Found<Due, (Timestamp, String)>> {
    let is_full = rows.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    let last = rows.last().filter(|_| is_full);
    let stopped_at = last
        .map(|row| DuePosition::read(row).map(|position| (position.since, position.id)))
        .transpose()?;
    Ok(Found {
        items: readable(rows, "due schedule", Due::read),
        stopped_at,
    })
}
