//! Usage of runs. An hour is counted into `usage_day` once it has passed and its runs are settled. Usage
//! after that is summed from the runs themselves.
//!
//! `organization.usage_until` is the boundary between the two. Every run counts exactly once, and a run
//! before the boundary may be deleted without being missed. Nothing is written for this when a run is created
//! or ends.
//!
//! A run that is not settled long after its hour does not keep the boundary: it is left out of the hour and noted in
//! `late_run`. Its usage is read from the run itself until it is settled. Then it is counted by itself.

use std::time::Duration;

use sortie_api::{
    OrgId, RunId, RunUsage, Timestamp,
    usage::{Day, UsageDimension, UsageRow},
};

use crate::{
    Found, Store,
    db::{Answer, Row, Stmt, Tx, Val, batch, vals},
    found::page_by_id,
    types::{Error, Result, unless},
};

/// Period that is counted as a whole, or in parts.
const HOUR: Duration = Duration::from_hours(1);

/// Sum of a column that stops at the largest integer. `SUM` itself would fail there, on both databases: the halves of the
/// values are summed, and no number of rows makes these overflow.
macro_rules! sum {
    ($column:literal) => {
        concat!(
            "CASE WHEN CAST(SUM(",
            $column,
            " / 4294967296) AS BIGINT) + CAST(SUM(",
            $column,
            " % 4294967296) AS BIGINT) / 4294967296 > 2147483647 THEN 9223372036854775807 \
             ELSE CAST(SUM(",
            $column,
            " / 4294967296) AS BIGINT) * 4294967296 + CAST(SUM(",
            $column,
            " % 4294967296) AS BIGINT) END"
        )
    };
}

/// Addition to a column of a day that stops at the largest integer.
macro_rules! add {
    ($column:literal) => {
        concat!(
            $column,
            " = CASE WHEN usage_day.",
            $column,
            " > 9223372036854775807 - excluded.",
            $column,
            " THEN 9223372036854775807 ELSE usage_day.",
            $column,
            " + excluded.",
            $column,
            " END"
        )
    };
}

/// Adds the runs of `$from`, which are called `made`, to the sums of their days.
macro_rules! insert_day {
    ($from:literal) => {
        concat!(
            "INSERT INTO usage_day (org_id, day, workflow, model, key_id, runs, succeeded, cost_micros, input_tokens, \
             output_tokens, cache_read_tokens, cache_write_tokens, model_calls, tool_calls) \
             SELECT made.org_id, made.created_at / 86400000000, COALESCE(made.workflow, ''), COALESCE(made.model, ''), \
             COALESCE(made.key_id, ''), COUNT(*), COUNT(CASE WHEN made.outcome = 'succeeded' THEN 1 END), ",
            sum!("made.cost_micros"),
            ", ",
            sum!("made.input_tokens"),
            ", ",
            sum!("made.output_tokens"),
            ", ",
            sum!("made.cache_read_tokens"),
            ", ",
            sum!("made.cache_write_tokens"),
            ", ",
            sum!("made.model_calls"),
            ", ",
            sum!("made.tool_calls"),
            " FROM ",
            $from,
            " GROUP BY made.org_id, made.created_at / 86400000000, COALESCE(made.workflow, ''), COALESCE(made.model, ''), \
             COALESCE(made.key_id, '') ON CONFLICT (org_id, day, workflow, model, key_id) DO UPDATE SET ",
            add!("runs"),
            ", ",
            add!("succeeded"),
            ", ",
            add!("cost_micros"),
            ", ",
            add!("input_tokens"),
            ", ",
            add!("output_tokens"),
            ", ",
            add!("cache_read_tokens"),
            ", ",
            add!("cache_write_tokens"),
            ", ",
            add!("model_calls"),
            ", ",
            add!("tool_calls"),
        )
    };
}

/// Error if a part of an hour is not counted.
const NOT_NOW: Error = Error::Conflict("the usage cannot be counted now");

/// Query for sums of usage.
#[derive(Clone, Debug)]
pub struct UsageQuery {
    /// First day.
    pub from: Day,
    /// Last day, which is included.
    pub to: Day,
    /// Dimensions that the sums are grouped by.
    pub by: Vec<UsageDimension>,
    /// Position behind which the rows are. None for all.
    pub after: Option<UsagePosition>,
    /// Maximum number of rows.
    pub limit: u32,
}

/// Position of a row among the sums of a query.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsagePosition {
    day: i64,
    workflow: String,
    model: String,
    key: String,
}

impl UsagePosition {
    /// Position before the first row.
    const START: Self = Self {
        day: i64::MIN,
        workflow: String::new(),
        model: String::new(),
        key: String::new(),
    };
}

impl From<&UsageRow> for UsagePosition {
    fn from(row: &UsageRow) -> Self {
        Self {
            day: row.day.map_or(0, Day::number),
            workflow: row.workflow.clone().unwrap_or_default(),
            model: row.model.clone().unwrap_or_default(),
            key: row.key_id.map(|key| key.to_string()).unwrap_or_default(),
        }
    }
}

/// Runs of an organization that are to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageDue {
    /// Organization of the runs.
    pub org: OrgId,
    /// Time before which runs are counted.
    pub counted_until: Timestamp,
    /// Creation time of the first run after that.
    pub next_run: Timestamp,
}

/// Part of an hour that one transaction counts. Other writes wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsagePart {
    /// Maximum number of runs. Runs of the same moment are not parted.
    pub runs: u32,
    /// Maximum number of runs that are not settled and are left out. With 0 the part waits for its runs.
    pub late: u32,
}

/// Result of a count of a part of an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedPart {
    /// The part is counted. So many of its runs were left out.
    Counted(u64),
    /// Too many runs of the part are not settled.
    Waits,
    /// Another task or node has counted meanwhile, or the organization is gone.
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

/// Organizations with the time before which their runs are counted, and the creation of their first run after that and
/// before `$1`.
macro_rules! due {
    () => {
        "SELECT o.id, o.usage_until, (SELECT r.created_at FROM run r WHERE r.org_id = o.id \
         AND r.created_at >= o.usage_until AND r.created_at >= 0 AND r.created_at < $1 ORDER BY r.created_at, r.id LIMIT 1) \
         FROM organization o "
    };
}

impl Store {
    /// Returns sums over the runs that were created on these days, in the order of their positions.
    pub async fn usage(&self, org: OrgId, query: UsageQuery) -> Result<Vec<UsageRow>> {
        self.db.walk(move |tx| usage(tx, org, &query)).await
    }

    /// Returns the number of rows of [`usage`](Self::usage). It stops at the limit.
    pub async fn usage_rows(&self, org: OrgId, query: UsageQuery) -> Result<u32> {
        self.db.walk(move |tx| usage_rows(tx, org, &query)).await
    }

    /// System: returns at most `limit` organizations behind `after`, in the order of their ids. Each comes
    /// with its runs that were created before `before` and are not counted yet, if there are any. Organizations that cannot
    /// be read are left out.
    pub async fn usage_due(
        &self,
        before: Timestamp,
        after: Option<String>,
        limit: u32,
    ) -> Result<Found<(OrgId, Option<UsageDue>), String>> {
        let after = after.unwrap_or_default();
        let rows = self.db.read(move |tx| {
            tx.query_all(
                concat!(due!(), "WHERE o.id > $2 ORDER BY o.id LIMIT $3"),
                vals![before, after.as_str(), limit],
            )
        });
        let read = |row: &Row| Ok((row.parse(0)?, due_from(row)?));
        Ok(page_by_id(&rows.await?, limit, "organization", read))
    }

    /// System: returns the runs of an organization that were created before `before` and are not counted yet, if there are
    /// any.
    pub async fn usage_due_of(&self, org: OrgId, before: Timestamp) -> Result<Option<UsageDue>> {
        let row = self
            .db
            .read(move |tx| tx.query_opt(concat!(due!(), "WHERE o.id = $2"), vals![before, org]));
        row.await?.map_or(Ok(None), |row| due_from(&row))
    }

    /// System: counts the hour of the next run that is not counted, or its first part where it has more runs than a part,
    /// or more that are not settled than the part may leave out. No further run may be created in that hour.
    pub async fn count_usage(&self, due: UsageDue, part: UsagePart) -> Result<CountedPart> {
        let end = self.db.read(move |tx| end_of_part(tx, due, part)).await?;
        match self.db.write(move |tx| count(tx, (due, end), part.late)).await {
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
        let until = row.await?.map(|row| row.time(0)).transpose()?;
        Ok(if until == Some(due.counted_until) {
            CountedPart::Waits
        } else {
            CountedPart::Elsewhere
        })
    }

    /// System: returns at most `limit` runs behind `after`, in the order of their ids, that were left out of the usage of their
    /// hour. Each comes with whether it is settled now. Runs that cannot be read are left out.
    pub async fn late_runs(&self, after: Option<String>, limit: u32) -> Result<Found<(RunId, bool), String>> {
        let after = after.unwrap_or_default();
        let rows = self
            .db
            .read(move |tx| {
                tx.query_all(
                    "SELECT l.run_id, CASE WHEN (SELECT q.run_id FROM queue q WHERE q.run_id = l.run_id) IS NULL \
                     THEN 1 ELSE 0 END FROM late_run l WHERE l.run_id > $1 ORDER BY l.run_id LIMIT $2",
                    vals![after.as_str(), limit],
                )
            })
            .await?;
        let read = |row: &Row| Ok((row.parse(0)?, row.int(1)? != 0));
        Ok(page_by_id(&rows, limit, "run of the usage", read))
    }

    /// System: counts a run that was left out of the usage of its hour. Returns false if it is not settled, or was counted.
    pub async fn count_late_run(&self, run: RunId) -> Result<bool> {
        let counted = self.db.write(move |tx| {
            tx.batch(&[
                Stmt::new(
                    "DELETE FROM late_run WHERE run_id = $1 \
                     AND (SELECT q.run_id FROM queue q WHERE q.run_id = late_run.run_id) IS NULL",
                    vals![run],
                )
                .exactly(1, NOT_NOW),
                Stmt::new(insert_day!("run made WHERE made.id = $1"), vals![run]),
            ])
            .map(drop)
        });
        unless(&NOT_NOW, counted.await)
    }
}

/// Rows of the runs of `$from`, which are called `made`, behind those of the days.
macro_rules! of_runs {
    ($from:literal) => {
        concat!(
            " UNION ALL \
             SELECT CASE WHEN CAST($6 AS BIGINT) = 1 THEN made.created_at / 86400000000 ELSE 0 END, \
             CASE WHEN CAST($7 AS BIGINT) = 1 THEN COALESCE(made.workflow, '') ELSE '' END, \
             CASE WHEN CAST($8 AS BIGINT) = 1 THEN COALESCE(made.model, '') ELSE '' END, \
             CASE WHEN CAST($9 AS BIGINT) = 1 THEN COALESCE(made.key_id, '') ELSE '' END, 1, \
             CASE WHEN made.outcome = 'succeeded' THEN 1 ELSE 0 END, made.cost_micros, made.input_tokens, made.output_tokens, \
             made.cache_read_tokens, made.cache_write_tokens, made.model_calls, made.tool_calls FROM ",
            $from
        )
    };
}

/// Everything that was used, with its dimensions as they were asked for, behind a position. One statement, so that both halves
/// have the same boundary. The order of the runs binds the planner to their list.
macro_rules! used {
    () => {
        concat!(
            " FROM (\
         SELECT CASE WHEN CAST($6 AS BIGINT) = 1 THEN d.day ELSE 0 END AS day, \
         CASE WHEN CAST($7 AS BIGINT) = 1 THEN d.workflow ELSE '' END AS workflow, \
         CASE WHEN CAST($8 AS BIGINT) = 1 THEN d.model ELSE '' END AS model, \
         CASE WHEN CAST($9 AS BIGINT) = 1 THEN d.key_id ELSE '' END AS key_id, d.runs, d.succeeded, d.cost_micros, \
         d.input_tokens, d.output_tokens, d.cache_read_tokens, d.cache_write_tokens, d.model_calls, d.tool_calls \
         FROM usage_day d WHERE d.org_id = $1 AND d.day >= $2 AND d.day <= $3 \
         ",
            of_runs!(
                "(SELECT r.* FROM run r WHERE r.org_id = $1 \
                 AND r.created_at >= {GREATEST}(CAST($4 AS BIGINT), (SELECT o.usage_until FROM organization o WHERE o.id = $1)) \
                 AND r.created_at >= 0 AND r.created_at < $5 ORDER BY r.created_at, r.id) AS made"
            ),
            of_runs!(
                "run made WHERE made.id {IN}SELECT l.run_id FROM late_run l WHERE l.org_id = $1 \
                 AND l.created_at >= $4 AND l.created_at >= 0 AND l.created_at < $5{END}"
            ),
            ") AS used WHERE (day, workflow, model, key_id) > (CAST($11 AS BIGINT), $12, $13, $14) \
             GROUP BY day, workflow, model, key_id"
        )
    };
}

fn usage(tx: &mut dyn Tx, org: OrgId, query: &UsageQuery) -> Result<Vec<UsageRow>> {
    tx.query_all(
        concat!(
            "SELECT day, workflow, model, key_id, ",
            sum!("runs"),
            ", ",
            sum!("succeeded"),
            ", ",
            sum!("cost_micros"),
            ", ",
            sum!("input_tokens"),
            ", ",
            sum!("output_tokens"),
            ", ",
            sum!("cache_read_tokens"),
            ", ",
            sum!("cache_write_tokens"),
            ", ",
            sum!("model_calls"),
            ", ",
            sum!("tool_calls"),
            used!(),
            " ORDER BY day, workflow, model, key_id LIMIT $10"
        ),
        params(org, query),
    )?
    .iter()
    .map(|row| row_from(row, &query.by))
    .collect()
}

/// Reads what is due of the organization in a row of [`due`].
fn due_from(row: &Row) -> Result<Option<UsageDue>> {
    let (org, counted_until) = (row.parse(0)?, row.time(1)?);
    Ok(row.opt_time(2)?.map(|next_run| UsageDue {
        org,
        counted_until,
        next_run,
    }))
}

fn usage_rows(tx: &mut dyn Tx, org: OrgId, query: &UsageQuery) -> Result<u32> {
    let row = tx.query_one(
        concat!(
            "SELECT COUNT(*) FROM (SELECT day",
            used!(),
            " LIMIT $10) AS counted"
        ),
        params(org, query),
    )?;
    Ok(u32::try_from(row.int(0)?).unwrap_or(u32::MAX))
}

fn params(org: OrgId, query: &UsageQuery) -> Vec<Val<'_>> {
    const START: &UsagePosition = &UsagePosition::START;
    let asked = |dimension| i64::from(query.by.contains(&dimension));
    let after = query.after.as_ref().unwrap_or(START);
    vals![
        org,
        query.from.number(),
        query.to.number(),
        query.from.start(),
        query.to.end(),
        asked(UsageDimension::Day),
        asked(UsageDimension::Workflow),
        asked(UsageDimension::Model),
        asked(UsageDimension::Key),
        query.limit,
        after.day,
        after.workflow.as_str(),
        after.model.as_str(),
        after.key.as_str()
    ]
}

/// Number of runs that wait for any node, or are bound to one, and were created in the part that is counted. It stops at one
/// more than `$4`.
macro_rules! unsettled {
    ($node:literal) => {
        concat!(
            "(SELECT COUNT(*) FROM (SELECT 1 FROM queue w WHERE w.org_id = $1 AND w.enqueued_at >= $2 \
             AND w.enqueued_at < $3 AND w.node_id IS ",
            $node,
            " ORDER BY w.enqueued_at, w.run_id LIMIT CAST($4 AS BIGINT) + 1) AS counted)"
        )
    };
}

/// Runs of the part that wait for any node, or are bound to one. The order binds the planner to the index.
macro_rules! of_the_part {
    ($node:literal) => {
        concat!(
            "SELECT w.run_id, w.org_id, w.enqueued_at FROM (SELECT q.run_id, q.org_id, q.enqueued_at FROM queue q \
             WHERE q.org_id = $1 AND q.enqueued_at >= $2 AND q.enqueued_at < $3 AND q.node_id IS ",
            $node,
            " ORDER BY q.enqueued_at, q.run_id) AS w"
        )
    };
}

/// Notes the runs of the part that are not settled. One statement, because a run may be claimed or given back meanwhile.
const NOTE_UNSETTLED: &str = concat!(
    "INSERT INTO late_run (run_id, org_id, created_at) ",
    of_the_part!("NULL"),
    " UNION ALL ",
    of_the_part!("NOT NULL")
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
    if part.late > 0 {
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
    let times = |answers: &[Answer]| -> Result<Vec<Timestamp>> {
        let rows = answers.iter().flat_map(|answer| &answer.rows);
        rows.map(|row| row.time(0)).collect()
    };
    let (runs, unsettled) = found.split_at(1);
    // Runs of the moment at which the part begins belong to it, however many they are.
    let begins = due.next_run + Duration::from_micros(1);
    let mut end = due.hour_end();
    if let Some(at) = times(runs)?.first() {
        end = end.min((*at).max(begins));
    }
    // More than `late` runs of one moment cannot be parted: the part waits for them.
    let mut unsettled = times(unsettled)?;
    unsettled.sort_unstable();
    let first_too_many = unsettled.get(usize::try_from(part.late).unwrap_or(usize::MAX));
    if let Some(at) = first_too_many.filter(|at| **at > due.counted_until) {
        end = end.min(*at);
    }
    Ok(end)
}

fn count(tx: &mut dyn Tx, (due, end): (UsageDue, Timestamp), late: u32) -> Result<u64> {
    let part = || vals![due.org, due.counted_until, end];
    let mut moved = part();
    moved.push(late.into());
    let [_, left_out, _] = batch(
        tx,
        &[
            // Every run that is not settled has its row in the queue.
            Stmt::new(
                concat!(
                    "UPDATE organization SET usage_until = $3 WHERE id = $1 AND usage_until = $2 AND ",
                    unsettled!("NULL"),
                    " + ",
                    unsettled!("NOT NULL"),
                    " <= CAST($4 AS BIGINT)"
                ),
                moved,
            )
            .exactly(1, NOT_NOW),
            Stmt::new(NOTE_UNSETTLED, part()),
            Stmt::new(
                insert_day!(
                    "(SELECT r.* FROM run r WHERE r.org_id = $1 AND r.created_at >= $2 AND r.created_at >= 0 \
                     AND r.created_at < $3 ORDER BY r.created_at, r.id) AS made \
                     WHERE (SELECT l.run_id FROM late_run l WHERE l.run_id = made.id) IS NULL"
                ),
                part(),
            ),
        ],
    )?;
    Ok(left_out.affected)
}

fn row_from(row: &Row, by: &[UsageDimension]) -> Result<UsageRow> {
    let day = if by.contains(&UsageDimension::Day) {
        let day = Day::from_number(row.int(0)?).map_err(|error| Error::Corrupt(error.to_string()))?;
        Some(day)
    } else {
        None
    };
    let named = |column| {
        row.text(column)
            .map(|text| Some(text).filter(|text| !text.is_empty()))
    };
    let key_id = named(3)?.map(str::parse).transpose();
    Ok(UsageRow {
        day,
        workflow: named(1)?.map(str::to_owned),
        model: named(2)?.map(str::to_owned),
        key_id: key_id.map_err(|_| Error::Corrupt("usage has an invalid key id".to_owned()))?,
        runs: row.int(4)?,
        succeeded: row.int(5)?,
        cost_micros: row.micros(6)?,
        usage: RunUsage {
            input_tokens: row.int(7)?,
            output_tokens: row.int(8)?,
            cache_read_tokens: row.int(9)?,
            cache_write_tokens: row.int(10)?,
            model_calls: row.int(11)?,
            tool_calls: row.int(12)?,
        },
    })
}
