//! Counts runs into `usage_day` and `usage_month`, in parts: those of an hour once it has passed and its runs are settled, and
//! before that if they are many.
//!
//! `organization.usage_until` is the boundary. Every run counts exactly once, and a run before the boundary may be deleted
//! without being missed. Nothing is written for this when a run is created or ends, except that a run which is created with a
//! time before the boundary is noted in `late_run`.
//!
//! A run that is not settled long after its hour does not hold the boundary back: it is left out of the hour and noted in
//! `late_run`. Its usage is read from the run itself until it is settled. Then it is counted separately.

use std::time::Duration;

use sortie_api::{OrgId, RunId, Timestamp, usage::Day};

use super::usage::SUM;
use crate::{
    Error, Found, Result, Store,
    db::{Answer, ReadRow, Row, Stmt, Turn, Tx, batch, filled, insert, row, select, vals},
    error::unless,
    found::page_by_id,
    runs::NewRun,
};

/// Period that is counted as a whole, or in parts.
const HOUR: Duration = Duration::from_hours(1);

/// Addition to `@column` of `@table` that stops at the largest integer.
const ADD: &str = "@column = CASE WHEN @table.@column > 9223372036854775807 - excluded.@column THEN 9223372036854775807 \
    ELSE @table.@column + excluded.@column END";

/// Adds the runs of `@from`, aliased as `made`, to the sums of a period. `@of` is the period of a run.
const INSERT_SUMS: &str = constcat::concat!(
    "INSERT INTO @table (org_id, @period, workflow, model, key_id, runs, succeeded, cost_micros, input_tokens, \
     output_tokens, cache_read_tokens, cache_write_tokens, model_calls, tool_calls) \
     SELECT made.org_id, @of, COALESCE(made.workflow, ''), COALESCE(made.model, ''), \
     COALESCE(made.key_id, ''), COUNT(*), COUNT(CASE WHEN made.outcome = 'succeeded' THEN 1 END), ",
    filled!(SUM, "@column" = "made.cost_micros"),
    ", ",
    filled!(SUM, "@column" = "made.input_tokens"),
    ", ",
    filled!(SUM, "@column" = "made.output_tokens"),
    ", ",
    filled!(SUM, "@column" = "made.cache_read_tokens"),
    ", ",
    filled!(SUM, "@column" = "made.cache_write_tokens"),
    ", ",
    filled!(SUM, "@column" = "made.model_calls"),
    ", ",
    filled!(SUM, "@column" = "made.tool_calls"),
    " FROM @from GROUP BY made.org_id, @of, COALESCE(made.workflow, ''), COALESCE(made.model, ''), \
     COALESCE(made.key_id, '') ON CONFLICT (org_id, @period, workflow, model, key_id) DO UPDATE SET ",
    filled!(ADD, "@column" = "runs"),
    ", ",
    filled!(ADD, "@column" = "succeeded"),
    ", ",
    filled!(ADD, "@column" = "cost_micros"),
    ", ",
    filled!(ADD, "@column" = "input_tokens"),
    ", ",
    filled!(ADD, "@column" = "output_tokens"),
    ", ",
    filled!(ADD, "@column" = "cache_read_tokens"),
    ", ",
    filled!(ADD, "@column" = "cache_write_tokens"),
    ", ",
    filled!(ADD, "@column" = "model_calls"),
    ", ",
    filled!(ADD, "@column" = "tool_calls"),
);

/// Adds the runs of `@from` to the sums of their days.
const INSERT_DAY: &str = filled!(
    INSERT_SUMS,
    "@table" = "usage_day",
    "@period" = "day",
    "@of" = "made.created_at / 86400000000"
);

/// Adds the runs of `@from`, of the one month `@month`, to its sums.
const INSERT_MONTH: &str = filled!(
    INSERT_SUMS,
    "@table" = "usage_month",
    "@period" = "month",
    "@of" = "CAST(@month AS BIGINT)"
);

/// Error if a part of an hour is not counted.
const NOT_NOW: Error = Error::Conflict("the usage cannot be counted now");

/// Runs of an organization that are to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageDue {
    /// Organization of the runs.
    pub org: OrgId,
    /// Time before which runs are counted.
    pub counted_until: Timestamp,
    /// Creation time of the first run after that.
    pub next_run: Timestamp,
    /// Whether there are more than [`MANY`] of these runs.
    pub are_many: bool,
}

/// Number of runs that are counted before their hour has passed. A read of the usage examines each uncounted run.
pub(crate) const MANY: u32 = 500;

/// Part of an hour that one transaction counts. Other writes wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsagePart {
    /// Maximum number of runs. Runs of the same moment are not parted.
    pub runs: u32,
    /// Maximum number of unsettled runs that are left out. With 0 the part waits for its runs.
    pub late: u32,
    /// Runs that are left out.
    pub leaves: Unsettled,
}

/// Runs that are not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsettled {
    /// Runs that a node works on. A part ends before the first run that waits.
    Held,
    /// Runs that a node works on, and runs that wait.
    All,
}

impl UsagePart {
    /// Maximum number of waiting runs that are left out.
    const fn waiting(self) -> u32 {
        match self.leaves {
            Unsettled::Held => 0,
            Unsettled::All => self.late,
        }
    }
}

/// Result of a count of a part of an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedPart {
    /// The part is counted, without this number of its runs.
    Counted(u64),
    /// Too many runs of the part are not settled.
    Waits,
    /// Another task or node has counted the part, or the organization is gone.
    Elsewhere,
}

impl UsageDue {
    /// End of the hour that is counted next.
    pub fn hour_end(&self) -> Timestamp {
        self.hour() + HOUR
    }

    fn hour(&self) -> Timestamp {
        let at = self.next_run.as_micros();
        let hour = i64::try_from(HOUR.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(at - at.rem_euclid(hour))
    }
}

row! {
    /// Organization `o` with the time before which its runs are counted, and the creation of its first run after that and
    /// before `$1`.
    struct DueRow {
        org: OrgId = "o.id",
        counted_until: Timestamp = "o.usage_until",
        next_run: Option<Timestamp> = "(SELECT r.created_at FROM run r WHERE r.org_id = o.id \
            AND r.created_at >= o.usage_until AND r.created_at >= 0 AND r.created_at < $1 ORDER BY r.created_at, r.id LIMIT 1)",
        one_too_many: Option<i64> = "(SELECT 1 FROM run r WHERE r.org_id = o.id AND r.created_at >= o.usage_until \
            AND r.created_at >= 0 AND r.created_at < $1 ORDER BY r.created_at, r.id LIMIT 1 OFFSET CAST($2 AS BIGINT))",
    }
}

impl DueRow {
    fn due(self) -> Option<UsageDue> {
        self.next_run.map(|next_run| UsageDue {
            org: self.org,
            counted_until: self.counted_until,
            next_run,
            are_many: self.one_too_many.is_some(),
        })
    }
}

row! {
    /// Run that was left out of the usage of its hour.
    struct LateRun {
        run: RunId = "l.run_id",
        is_settled: bool =
            "CASE WHEN (SELECT q.run_id FROM queue q WHERE q.run_id = l.run_id) IS NULL THEN 1 ELSE 0 END",
    }
}

impl Store {
    /// System: returns at most `limit` organizations after `after`, in the order of their ids. Each comes with its uncounted
    /// runs that were created before `before`, if it has any. Unreadable organizations are left out.
    pub async fn usage_due(
        &self,
        before: Timestamp,
        after: Option<String>,
        limit: u32,
    ) -> Result<Found<(OrgId, Option<UsageDue>), String>> {
        let after = after.unwrap_or_default();
        let rows = self.db.scan(Turn::System, move |tx| {
            tx.query_all(
                select!(
                    DueRow,
                    " FROM organization o WHERE o.id > $3 ORDER BY o.id LIMIT $4"
                ),
                vals![before, MANY, after.as_str(), limit],
            )
        });
        let read = |row: &Row| DueRow::read(row).map(|found| (found.org, found.due()));
        Ok(page_by_id(&rows.await?, limit, "organization", read))
    }

    /// System: returns the uncounted runs of an organization that were created before `before`, if any.
    pub async fn usage_due_of(&self, org: OrgId, before: Timestamp) -> Result<Option<UsageDue>> {
        let sql = select!(DueRow, " FROM organization o WHERE o.id = $3");
        let found: Option<DueRow> = self
            .db
            .read(move |tx| tx.read_opt(sql, vals![before, MANY, org]))
            .await?;
        Ok(found.and_then(DueRow::due))
    }

    /// System: counts the hour of the next uncounted run. Counts only the first part of the hour if it has more runs than a
    /// part, or more unsettled runs than the part may leave out. A run that is created later with a time in the part is left
    /// out as well. On PostgreSQL its command has to begin after this one.
    pub async fn count_usage(&self, due: UsageDue, part: UsagePart) -> Result<CountedPart> {
        let end = self.db.read(move |tx| end_of_part(tx, due, part)).await?;
        match self.db.write(move |tx| count(tx, (due, end), part)).await {
            Ok(left_out) => return Ok(CountedPart::Counted(left_out)),
            Err(error) if error == NOT_NOW => {}
            Err(error) => return Err(error),
        }
        let row = self.db.read(move |tx| {
            tx.query_opt(
                "SELECT usage_until FROM organization WHERE id = $1",
                vals![due.org],
            )
        });
        let until = row.await?.map(|row| row.only()).transpose()?;
        Ok(if until == Some(due.counted_until) {
            CountedPart::Waits
        } else {
            CountedPart::Elsewhere
        })
    }

    /// System: returns at most `limit` runs after `after`, in the order of their ids, that were left out of the usage of
    /// their hour, and whether each is settled now. Unreadable runs are left out.
    pub async fn late_runs(&self, after: Option<String>, limit: u32) -> Result<Found<(RunId, bool), String>> {
        let after = after.unwrap_or_default();
        let rows = self
            .db
            .read(move |tx| {
                tx.query_all(
                    select!(
                        LateRun,
                        " FROM late_run l WHERE l.run_id > $1 ORDER BY l.run_id LIMIT $2"
                    ),
                    vals![after.as_str(), limit],
                )
            })
            .await?;
        let read = |row: &Row| LateRun::read(row).map(|late| (late.run, late.is_settled));
        Ok(page_by_id(&rows, limit, "run of the usage", read))
    }

    /// System: counts a run that was left out of the usage of its hour. Returns false if it is not settled, or was counted.
    pub async fn count_late_run(&self, run: RunId) -> Result<bool> {
        let counted = self.db.write(move |tx| {
            let deleted = tx.query_opt(
                "DELETE FROM late_run WHERE run_id = $1 \
                 AND (SELECT q.run_id FROM queue q WHERE q.run_id = late_run.run_id) IS NULL RETURNING created_at",
                vals![run],
            )?;
            let month = month(deleted.ok_or(NOT_NOW)?.only()?);
            tx.batch(&[
                Stmt::new(filled!(INSERT_DAY, "@from" = "run made WHERE made.id = $1"), vals![run]),
                Stmt::new(
                    filled!(INSERT_MONTH, "@month" = "$2", "@from" = "run made WHERE made.id = $1"),
                    vals![run, month],
                ),
            ])
            .map(drop)
        });
        unless(&NOT_NOW, counted.await)
    }
}

/// Statement that notes a new run as one that its part of the usage has left out.
pub(crate) fn leave_out(run: &NewRun) -> Stmt<'_> {
    insert!("late_run", { "run_id": run.id, "org_id": run.org, "created_at": run.created_at })
}

/// Number of the first day of the month of `at`.
fn month(at: Timestamp) -> i64 {
    Day::of(at).month().number()
}

/// Number of runs that wait for any node (`@node` is `NULL`), or are bound to one (`NOT NULL`), and were created in the part
/// that is counted. It stops at one more than `$4`.
const UNSETTLED: &str = "(SELECT COUNT(*) FROM (SELECT 1 FROM queue w WHERE w.org_id = $1 AND w.enqueued_at >= $2 \
    AND w.enqueued_at < $3 AND w.node_id IS @node ORDER BY w.enqueued_at, w.run_id \
    LIMIT CAST($4 AS BIGINT) + 1) AS counted)";

/// These runs. The order binds the planner to the index.
const OF_THE_PART: &str = "SELECT w.run_id, w.org_id, w.enqueued_at FROM (\
    SELECT q.run_id, q.org_id, q.enqueued_at FROM queue q WHERE q.org_id = $1 AND q.enqueued_at >= $2 \
    AND q.enqueued_at < $3 AND q.node_id IS @node ORDER BY q.enqueued_at, q.run_id) AS w";

/// Notes the unsettled runs of the part. One statement, because a run may be claimed or returned to the queue between two.
const NOTE_UNSETTLED: &str = constcat::concat!(
    "INSERT INTO late_run (run_id, org_id, created_at) ",
    filled!(OF_THE_PART, "@node" = "NULL"),
    " UNION ALL ",
    filled!(OF_THE_PART, "@node" = "NOT NULL")
);

/// Returns the end of the next part of the hour.
fn end_of_part(tx: &mut dyn Tx, due: UsageDue, part: UsagePart) -> Result<Timestamp> {
    let behind = |sql, runs: u32| {
        let limit = i64::from(runs);
        Stmt::new(sql, vals![due.org, due.counted_until, due.hour_end(), limit])
    };
    let mut statements = vec![behind(
        "SELECT r.created_at FROM run r WHERE r.org_id = $1 AND r.created_at >= $2 AND r.created_at >= 0 \
         AND r.created_at < $3 ORDER BY r.created_at, r.id LIMIT 1 OFFSET $4",
        part.runs,
    )];
    if part.late > 0 || part.leaves == Unsettled::Held {
        let first_too_many = part.late.saturating_add(1);
        statements.push(behind(
            "SELECT q.enqueued_at FROM queue q WHERE q.org_id = $1 AND q.enqueued_at >= $2 AND q.enqueued_at < $3 \
             AND q.node_id IS NULL ORDER BY q.enqueued_at, q.run_id LIMIT $4",
            first_too_many,
        ));
        statements.push(behind(
            "SELECT q.enqueued_at FROM queue q WHERE q.org_id = $1 AND q.enqueued_at >= $2 AND q.enqueued_at < $3 \
             AND q.node_id IS NOT NULL ORDER BY q.enqueued_at, q.run_id LIMIT $4",
            first_too_many,
        ));
    }
    let found = tx.batch(&statements)?;
    let times = |answer: Option<&Answer>| -> Result<Vec<Timestamp>> {
        let rows = answer.map(|answer| &answer.rows);
        rows.into_iter().flatten().map(Row::only).collect()
    };
    // Runs at the first moment of the part belong to it, regardless of their number.
    let begins = due.next_run + Duration::from_micros(1);
    let mut end = due.hour_end();
    if let Some(at) = times(found.first())?.first() {
        end = end.min((*at).max(begins));
    }
    // More than `late` runs of one moment cannot be parted: the part waits for them.
    let mut unsettled = times(found.get(1))?;
    let first_waiting = unsettled.get(index(part.waiting())).copied();
    unsettled.extend(times(found.get(2))?);
    unsettled.sort_unstable();
    let first_too_many = unsettled.get(index(part.late)).copied();
    for at in [first_waiting, first_too_many].into_iter().flatten() {
        if at > due.counted_until {
            end = end.min(at);
        }
    }
    Ok(end)
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Runs of the part that are not left out.
const COUNTED: &str = "(SELECT r.* FROM run r WHERE r.org_id = $1 AND r.created_at >= $2 AND r.created_at >= 0 \
    AND r.created_at < $3 ORDER BY r.created_at, r.id) AS made \
    WHERE (SELECT l.run_id FROM late_run l WHERE l.run_id = made.id) IS NULL";

fn count(tx: &mut dyn Tx, (due, end): (UsageDue, Timestamp), limits: UsagePart) -> Result<u64> {
    let part = || vals![due.org, due.counted_until, end];
    let mut moved = part();
    moved.extend(vals![limits.late, limits.waiting()]);
    // A part lies within an hour, so all of its runs are of one month.
    let mut of_month = part();
    of_month.push(month(due.next_run).into());
    let [_, left_out, _, _] = batch(
        tx,
        &[
            // Every run that is not settled has its row in the queue.
            Stmt::new(
                constcat::concat!(
                    "UPDATE organization SET usage_until = $3 WHERE id = $1 AND usage_until = $2 AND ",
                    filled!(UNSETTLED, "@node" = "NULL"),
                    " + ",
                    filled!(UNSETTLED, "@node" = "NOT NULL"),
                    " <= CAST($4 AS BIGINT) AND ",
                    filled!(UNSETTLED, "@node" = "NULL"),
                    " <= CAST($5 AS BIGINT)"
                ),
                moved,
            )
            .exactly(1, NOT_NOW),
            Stmt::new(NOTE_UNSETTLED, part()),
            Stmt::new(filled!(INSERT_DAY, "@from" = COUNTED), part()),
            Stmt::new(
                filled!(INSERT_MONTH, "@month" = "$4", "@from" = COUNTED),
                of_month,
            ),
        ],
    )?;
    Ok(left_out.affected)
}
