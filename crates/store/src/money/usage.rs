//! Sums of usage. Runs before `organization.usage_until` are in the sums of their days and months
//! ([`usage_counts`](super::usage_counts)). Later ones are read from the runs themselves, and so are those that were left out.

use sortie_api::{
    Micros, OrgId, RunUsage,
    usage::{Day, UsageDimension, UsageRow},
};

use crate::{
    Error, Result, Store,
    db::{Turn, Tx, Val, filled, row, select, vals},
};

/// Sum of `@column` that stops at the largest integer. `SUM` itself would fail there, on both databases: the halves of the
/// values are summed, and no number of rows makes these overflow.
pub(super) const SUM: &str = "CASE WHEN CAST(SUM(@column / 4294967296) AS BIGINT) + CAST(SUM(@column % 4294967296) AS BIGINT) / 4294967296 \
     > 2147483647 THEN 9223372036854775807 \
     ELSE CAST(SUM(@column / 4294967296) AS BIGINT) * 4294967296 + CAST(SUM(@column % 4294967296) AS BIGINT) END";

/// Query for sums of usage.
#[derive(Clone, Debug)]
pub struct UsageQuery {
    /// First day.
    pub from: Day,
    /// Last day, which is included.
    pub to: Day,
    /// Dimensions that the sums are grouped by.
    pub by: Vec<UsageDimension>,
    /// Returns the rows after this position. `None` for all.
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

row! {
    /// Sums of usage, with their dimensions. A dimension that the query does not ask for is empty.
    struct SumsRow {
        day: i64 = "day",
        workflow: String = "workflow",
        model: String = "model",
        key: String = "key_id",
        runs: i64 = filled!(SUM, "@column" = "runs"),
        succeeded: i64 = filled!(SUM, "@column" = "succeeded"),
        cost: Micros = filled!(SUM, "@column" = "cost_micros"),
        input_tokens: i64 = filled!(SUM, "@column" = "input_tokens"),
        output_tokens: i64 = filled!(SUM, "@column" = "output_tokens"),
        cache_read_tokens: i64 = filled!(SUM, "@column" = "cache_read_tokens"),
        cache_write_tokens: i64 = filled!(SUM, "@column" = "cache_write_tokens"),
        model_calls: i64 = filled!(SUM, "@column" = "model_calls"),
        tool_calls: i64 = filled!(SUM, "@column" = "tool_calls"),
    }
}

/// Sums of the periods in `@table` that `@bounds` names, with the dimensions that were asked for.
const OF_SUMS: &str = "SELECT @day AS day, CASE WHEN CAST($7 AS BIGINT) = 1 THEN d.workflow ELSE '' END AS workflow, \
    CASE WHEN CAST($8 AS BIGINT) = 1 THEN d.model ELSE '' END AS model, \
    CASE WHEN CAST($9 AS BIGINT) = 1 THEN d.key_id ELSE '' END AS key_id, d.runs, d.succeeded, d.cost_micros, \
    d.input_tokens, d.output_tokens, d.cache_read_tokens, d.cache_write_tokens, d.model_calls, d.tool_calls \
    FROM @table d WHERE d.org_id = $1 AND @bounds";

/// Sums of the days that `@bounds` names.
const OF_DAYS: &str = filled!(
    OF_SUMS,
    "@day" = "CASE WHEN CAST($6 AS BIGINT) = 1 THEN d.day ELSE 0 END",
    "@table" = "usage_day"
);

/// Rows of the runs of `@from`, aliased as `made`, appended to the rows of the sums.
const OF_RUNS: &str = " UNION ALL \
    SELECT CASE WHEN CAST($6 AS BIGINT) = 1 THEN made.created_at / 86400000000 ELSE 0 END, \
    CASE WHEN CAST($7 AS BIGINT) = 1 THEN COALESCE(made.workflow, '') ELSE '' END, \
    CASE WHEN CAST($8 AS BIGINT) = 1 THEN COALESCE(made.model, '') ELSE '' END, \
    CASE WHEN CAST($9 AS BIGINT) = 1 THEN COALESCE(made.key_id, '') ELSE '' END, 1, \
    CASE WHEN made.outcome = 'succeeded' THEN 1 ELSE 0 END, made.cost_micros, made.input_tokens, made.output_tokens, \
    made.cache_read_tokens, made.cache_write_tokens, made.model_calls, made.tool_calls FROM @from";

/// First day after the months that are read as sums. The last month is read as a whole if no day after the requested ones is
/// counted.
const END_OF_MONTHS: &str = "CASE WHEN (SELECT o.usage_until FROM organization o WHERE o.id = $1) <= $5 \
    THEN CAST($17 AS BIGINT) ELSE CAST($16 AS BIGINT) END";

/// Usage after a position, with the requested dimensions. One statement, so both halves have the same boundary. The
/// order of the runs binds the planner to their list.
const USED: &str = constcat::concat!(
    " FROM (",
    filled!(OF_DAYS, "@bounds" = "d.day >= $2 AND d.day < $15"),
    " UNION ALL ",
    filled!(
        OF_SUMS,
        "@day" = "0",
        "@table" = "usage_month",
        "@bounds" = constcat::concat!("d.month >= $15 AND d.month < ", END_OF_MONTHS)
    ),
    " UNION ALL ",
    filled!(
        OF_DAYS,
        "@bounds" = constcat::concat!("d.day >= ", END_OF_MONTHS, " AND d.day <= $3")
    ),
    filled!(
        OF_RUNS,
        "@from" = "(SELECT r.* FROM run r WHERE r.org_id = $1 \
            AND r.created_at >= {GREATEST}(CAST($4 AS BIGINT), (SELECT o.usage_until FROM organization o WHERE o.id = $1)) \
            AND r.created_at >= 0 AND r.created_at < $5 ORDER BY r.created_at, r.id) AS made"
    ),
    filled!(
        OF_RUNS,
        "@from" = "run made WHERE made.id {IN}SELECT l.run_id FROM late_run l WHERE l.org_id = $1 \
            AND l.created_at >= $4 AND l.created_at >= 0 AND l.created_at < $5{END}"
    ),
    ") AS used WHERE (day, workflow, model, key_id) > (CAST($11 AS BIGINT), $12, $13, $14) \
     GROUP BY day, workflow, model, key_id"
);

fn usage(tx: &mut dyn Tx, org: OrgId, query: &UsageQuery) -> Result<Vec<UsageRow>> {
    let rows: Vec<SumsRow> = tx.read_all(
        select!(SumsRow, USED, " ORDER BY day, workflow, model, key_id LIMIT $10"),
        params(org, query),
    )?;
    rows.into_iter().map(|row| row.usage(&query.by)).collect()
}

fn usage_rows(tx: &mut dyn Tx, org: OrgId, query: &UsageQuery) -> Result<u32> {
    let row = tx.query_one(
        constcat::concat!("SELECT COUNT(*) FROM (SELECT day", USED, " LIMIT $10) AS counted"),
        params(org, query),
    )?;
    row.only()
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

/// Months with sums that answer a query: the first one, the one after the last one that lies within the query's days, and
/// the one after its last day. The range is empty if the query asks for sums of days.
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

impl SumsRow {
    fn usage(self, by: &[UsageDimension]) -> Result<UsageRow> {
        let day = by
            .contains(&UsageDimension::Day)
            .then(|| Day::from_number(self.day));
        let named = |text: String| Some(text).filter(|text| !text.is_empty());
        let key = named(self.key).map(|key| key.parse()).transpose();
        Ok(UsageRow {
            day: day
                .transpose()
                .map_err(|error| Error::Corrupt(error.to_string()))?,
            workflow: named(self.workflow),
            model: named(self.model),
            key_id: key.map_err(|_| Error::Corrupt("usage has an invalid key id".to_owned()))?,
            runs: self.runs,
            succeeded: self.succeeded,
            cost_micros: self.cost,
            usage: RunUsage {
                input_tokens: self.input_tokens,
                output_tokens: self.output_tokens,
                cache_read_tokens: self.cache_read_tokens,
                cache_write_tokens: self.cache_write_tokens,
                model_calls: self.model_calls,
                tool_calls: self.tool_calls,
            },
        })
    }
}
