//! Sums of usage. Runs before `organization.usage_until` are in the sums of their days and months
//! ([`usage_counts`](super::usage_counts)). Later ones are read from the runs themselves, and so are those that were left out.

use sortie_api::{
    OrgId, RunUsage,
    usage::{Day, UsageDimension, UsageRow},
};

use crate::{
    Error, Result, Store,
    db::{Row, Turn, Tx, Val, vals},
};

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

pub(super) use sum;

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

impl Store {
    /// Returns sums over the runs that were created on these days, in the order of their positions.
    pub async fn usage(&self, org: OrgId, query: UsageQuery) -> Result<Vec<UsageRow>> {
        self.db
            .scan(Turn::Organization(org), move |tx| usage(tx, org, &query))
            .await
    }

    /// Returns the number of rows of [`usage`](Self::usage). It stops at the limit.
    pub async fn usage_rows(&self, org: OrgId, query: UsageQuery) -> Result<u32> {
        self.db
            .scan(Turn::Organization(org), move |tx| usage_rows(tx, org, &query))
            .await
    }
}

/// Sums of a period, with the dimensions that were asked for.
macro_rules! of_sums {
    ($day:literal, $table:literal, $bounds:literal) => {
        concat!(
            "SELECT ",
            $day,
            " AS day, CASE WHEN CAST($7 AS BIGINT) = 1 THEN d.workflow ELSE '' END AS workflow, \
             CASE WHEN CAST($8 AS BIGINT) = 1 THEN d.model ELSE '' END AS model, \
             CASE WHEN CAST($9 AS BIGINT) = 1 THEN d.key_id ELSE '' END AS key_id, d.runs, d.succeeded, d.cost_micros, \
             d.input_tokens, d.output_tokens, d.cache_read_tokens, d.cache_write_tokens, d.model_calls, d.tool_calls \
             FROM ",
            $table,
            " d WHERE d.org_id = $1 AND ",
            $bounds
        )
    };
}

/// Sums of the days that `$bounds` names.
macro_rules! of_days {
    ($bounds:literal) => {
        of_sums!(
            "CASE WHEN CAST($6 AS BIGINT) = 1 THEN d.day ELSE 0 END",
            "usage_day",
            $bounds
        )
    };
}

/// Rows of the runs of `$from`, which are called `made`, behind those of the sums.
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
            " FROM (",
            // The last month is read as a whole if nothing behind the asked days is counted.
            of_days!("d.day >= $2 AND d.day < $15"),
            " UNION ALL ",
            of_sums!(
                "0",
                "usage_month",
                "d.month >= $15 AND d.month < CASE WHEN (SELECT o.usage_until FROM organization o WHERE o.id = $1) <= $5 \
                 THEN CAST($17 AS BIGINT) ELSE CAST($16 AS BIGINT) END"
            ),
            " UNION ALL ",
            of_days!(
                "d.day >= CASE WHEN (SELECT o.usage_until FROM organization o WHERE o.id = $1) <= $5 \
                 THEN CAST($17 AS BIGINT) ELSE CAST($16 AS BIGINT) END AND d.day <= $3"
            ),
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
    let [first, end, end_of_all] = months(query);
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
        after.key.as_str(),
        first.number(),
        end.number(),
        end_of_all.number()
    ]
}

/// Months whose sums answer a query: the first one, the one behind the last one that lies within its days, and the one behind
/// its last day. There are none if the sums of days are asked for.
fn months(query: &UsageQuery) -> [Day; 3] {
    if query.by.contains(&UsageDimension::Day) {
        return [query.from; 3];
    }
    let (begins, ends) = (query.from.month(), query.to.next_month());
    let first = if begins == query.from {
        begins
    } else {
        query.from.next_month()
    };
    if first > query.to {
        return [query.from; 3];
    }
    let end = if query.to.plus(1) == ends {
        ends
    } else {
        query.to.month()
    };
    [first, end, ends]
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
