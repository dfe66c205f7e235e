//! Budgets: what runs may cost in a day or a month. No number of runs that come together gets over a limit.
//!
//! A run that is created holds its whole `max_cost` in the window of every budget that applies to it, in the transaction
//! that makes it: one conditional update for each, so that the last one that fits decides under the lock of the row. Its
//! holds say which windows they were taken from. The transaction that settles the run gives them back there and adds what
//! it cost, also when the period is over by then, or the budget has been changed or deleted.
//!
//! Windows are what many runs of an organization meet at, so they come last in each transaction, in the order of their
//! keys. Runs without a budget only look for one, at their creation.

use std::collections::BTreeMap;

use sortie_api::{Budget, BudgetPeriod, BudgetScope, Micros, OrgId, PutBudget, RunId, Timestamp};

use crate::{
    Store,
    audit::{self, Audit},
    db::{Row, Stmt, Tx, batch, vals},
    types::{Error, NewRun, OverBudget, Result},
};

impl Store {
    /// Sets a budget, or changes the one of this scope; whether it is new. Where the period changes, the windows of the
    /// new one count from now on. `Conflict` where the organization has `most` of them.
    pub async fn put_budget(
        &self,
        scope: BudgetScope,
        put: PutBudget,
        most: u32,
        audit: Audit,
    ) -> Result<(Budget, bool)> {
        self.db
            .write(move |tx| self::put(tx, &scope, put, most, &audit))
            .await
    }

    /// A budget with its window at `at`.
    pub async fn get_budget(&self, org: OrgId, scope: BudgetScope, at: Timestamp) -> Result<Budget> {
        self.db.read(move |tx| get(tx, org, &scope, at)).await
    }

    /// The organization's budgets with their windows at `at`, by scope.
    pub async fn list_budgets(&self, org: OrgId, at: Timestamp) -> Result<Vec<Budget>> {
        self.db
            .read(move |tx| {
                tx.query_all(
                    concat!(select_budgets!(), "b.org_id = $1 ORDER BY b.org_id, b.scope"),
                    vals![
                        org,
                        starts(BudgetPeriod::Day, at)?,
                        starts(BudgetPeriod::Month, at)?
                    ],
                )?
                .iter()
                .map(|row| budget_from(row, at))
                .collect()
            })
            .await
    }

    /// Deletes a budget. Runs that hold something of it are settled as they would be otherwise.
    pub async fn delete_budget(&self, scope: BudgetScope, audit: Audit) -> Result<()> {
        self.db.write(move |tx| delete(tx, &scope, &audit)).await
    }
}

/// The start of a query for budgets, each with its window: `$2` is the beginning of the day, `$3` that of the month.
macro_rules! select_budgets {
    () => {
        "SELECT b.scope, b.limit_micros, b.period, b.created_at, b.updated_at, \
         (SELECT w.held_micros FROM budget_window w WHERE w.org_id = b.org_id AND w.scope = b.scope \
           AND w.since = b.since AND w.starts_at = CASE b.period WHEN 'day' THEN CAST($2 AS BIGINT) ELSE CAST($3 AS BIGINT) END), \
         (SELECT w.spent_micros FROM budget_window w WHERE w.org_id = b.org_id AND w.scope = b.scope \
           AND w.since = b.since AND w.starts_at = CASE b.period WHEN 'day' THEN CAST($2 AS BIGINT) ELSE CAST($3 AS BIGINT) END) \
         FROM budget b WHERE "
    };
}
use select_budgets;

fn get(tx: &mut dyn Tx, org: OrgId, scope: &BudgetScope, at: Timestamp) -> Result<Budget> {
    let row = tx.query_one(
        concat!(select_budgets!(), "b.org_id = $1 AND b.scope = $4"),
        vals![
            org,
            starts(BudgetPeriod::Day, at)?,
            starts(BudgetPeriod::Month, at)?,
            scope.to_string()
        ],
    )?;
    budget_from(&row, at)
}

fn put(
    tx: &mut dyn Tx,
    scope: &BudgetScope,
    put: PutBudget,
    most: u32,
    audit: &Audit,
) -> Result<(Budget, bool)> {
    let (org, at) = (audit.org, audit.at);
    let [_, before, _, _] = batch(
        tx,
        &[
            // A lock on the organization, so that the limit is exact.
            Stmt::new("UPDATE organization SET name = name WHERE id = $1", vals![org])
                .exactly(1, Error::NotFound),
            Stmt::new(
                "SELECT 1 FROM budget WHERE org_id = $1 AND scope = $2",
                vals![org, scope.to_string()],
            ),
            Stmt::new(
                "INSERT INTO budget (org_id, scope, limit_micros, period, since, created_at, updated_at) \
                 SELECT id, $2, CAST($3 AS BIGINT), $4, CAST($5 AS BIGINT), CAST($5 AS BIGINT), CAST($5 AS BIGINT) \
                 FROM organization WHERE id = $1 \
                 AND ((SELECT b.scope FROM budget b WHERE b.org_id = $1 AND b.scope = $2) IS NOT NULL \
                   OR (SELECT COUNT(*) FROM (SELECT 1 FROM budget b WHERE b.org_id = $1 LIMIT $6) AS counted) < $6) \
                 ON CONFLICT (org_id, scope) DO UPDATE SET limit_micros = excluded.limit_micros, \
                 since = CASE WHEN budget.period = excluded.period THEN budget.since \
                   ELSE {GREATEST}(excluded.since, budget.since + 1) END, \
                 period = excluded.period, updated_at = excluded.updated_at",
                vals![org, scope.to_string(), put.limit_micros, put.period, at, most],
            )
            .exactly(1, Error::Conflict("the organization has as many budgets as it may")),
            audit::record(audit),
        ],
    )?;
    Ok((get(tx, org, scope, at)?, before.rows.is_empty()))
}

fn delete(tx: &mut dyn Tx, scope: &BudgetScope, audit: &Audit) -> Result<()> {
    tx.batch(&[
        Stmt::new(
            "DELETE FROM budget WHERE org_id = $1 AND scope = $2",
            vals![audit.org, scope.to_string()],
        )
        .exactly(1, Error::NotFound),
        Stmt::new(
            "DELETE FROM budget_window WHERE org_id = $1 AND scope = $2 AND held_micros = 0",
            vals![audit.org, scope.to_string()],
        ),
        audit::record(audit),
    ])
    .map(drop)
}

/// A limit that applies to a run.
struct Limit {
    scope: BudgetScope,
    micros: Micros,
    period: BudgetPeriod,
    since: i64,
    /// The window that the run is in, and when the next one begins.
    window: (Timestamp, Timestamp),
}

/// Finds the budgets that apply to a run, for [`hold`].
pub(crate) fn applying(run: &NewRun) -> Stmt<'_> {
    let labels = &run.labels;
    let everyone = BudgetScope::Organization.to_string();
    let of = |scope: Option<BudgetScope>| scope.map_or_else(|| everyone.clone(), |scope| scope.to_string());
    Stmt::new(
        "SELECT scope, limit_micros, period, since FROM budget WHERE org_id = $1 AND scope IN ($2, $3, $4, $5)",
        vals![
            run.org,
            everyone.clone(),
            of(labels.workflow.clone().map(BudgetScope::Workflow)),
            of(labels.schedule.map(BudgetScope::Schedule)),
            of(labels.key.map(BudgetScope::Key))
        ],
    )
}

/// Holds the whole budget of a new run in each of the budgets that [`applying`] has found. [`Error::OverBudget`] where
/// one of them has too little left.
pub(crate) fn hold(tx: &mut dyn Tx, run: &NewRun, found: &[Row]) -> Result<()> {
    if found.is_empty() {
        return Ok(());
    }
    tx.contend();
    let mut limits = found
        .iter()
        .map(|row| limit_from(row, run.created_at))
        .collect::<Result<Vec<_>>>()?;
    limits.sort_by_key(|limit| limit.scope.to_string());
    let mut statements = vec![Stmt::new(
        "UPDATE run SET budgeted = 1 WHERE id = $1",
        vals![run.id],
    )];
    statements.extend(limits.iter().map(|limit| note(run, limit)));
    let notes = statements.len();
    statements.extend(limits.iter().map(|limit| take(run, limit)));
    let answers = tx.batch(&statements)?;
    let mut begun = Vec::new();
    for (limit, taken) in limits.iter().zip(answers.iter().skip(notes)) {
        match taken.rows.first() {
            None => return Err(refusal(tx, run, limit)?),
            // The first run of a window.
            Some(row) if row.micros(0)? == run.max_cost && row.int(1)? == 0 => {
                begun.push(forget(run, limit)?);
            }
            Some(_) => {}
        }
    }
    if !begun.is_empty() {
        tx.batch(&begun)?;
    }
    Ok(())
}

fn note<'a>(run: &NewRun, limit: &Limit) -> Stmt<'a> {
    Stmt::new(
        "INSERT INTO budget_hold (run_id, org_id, scope, since, starts_at, held_micros) VALUES ($1, $2, $3, $4, $5, $6)",
        vals![
            run.id,
            run.org,
            limit.scope.to_string(),
            limit.since,
            limit.window.0,
            run.max_cost
        ],
    )
}

/// Takes what the run may cost from a window, if it fits.
fn take<'a>(run: &NewRun, limit: &Limit) -> Stmt<'a> {
    Stmt::new(
        "INSERT INTO budget_window (org_id, scope, since, starts_at, held_micros, spent_micros) \
         SELECT $1, $2, CAST($3 AS BIGINT), CAST($4 AS BIGINT), CAST($5 AS BIGINT), 0 \
         WHERE CAST($5 AS BIGINT) <= CAST($6 AS BIGINT) \
         ON CONFLICT (org_id, scope, since, starts_at) DO UPDATE \
         SET held_micros = budget_window.held_micros + excluded.held_micros \
         WHERE budget_window.held_micros + budget_window.spent_micros + excluded.held_micros <= CAST($6 AS BIGINT) \
         RETURNING held_micros, spent_micros",
        vals![
            run.org,
            limit.scope.to_string(),
            limit.since,
            limit.window.0,
            run.max_cost,
            limit.micros
        ],
    )
}

/// Forgets what is before the window before this one: a node whose clock is behind may still count in that one.
fn forget<'a>(run: &NewRun, limit: &Limit) -> Result<Stmt<'a>> {
    // By the calendar: months are of different lengths.
    let end = Timestamp::from_micros(limit.window.0.as_micros().saturating_sub(1));
    let before = starts(limit.period, end)?;
    Ok(Stmt::new(
        "DELETE FROM budget_window WHERE org_id = $1 AND scope = $2 AND since = $3 AND starts_at < $4 \
         AND held_micros = 0",
        vals![run.org, limit.scope.to_string(), limit.since, before],
    ))
}

/// What a run hears that does not fit.
fn refusal(tx: &mut dyn Tx, run: &NewRun, limit: &Limit) -> Result<Error> {
    let used = tx.query_opt(
        "SELECT held_micros + spent_micros FROM budget_window \
         WHERE org_id = $1 AND scope = $2 AND since = $3 AND starts_at = $4",
        vals![run.org, limit.scope.to_string(), limit.since, limit.window.0],
    )?;
    let used = used.map_or(Ok(Micros::ZERO), |row| row.micros(0))?;
    Ok(Error::OverBudget(Box::new(OverBudget {
        scope: limit.scope.clone(),
        max_cost: run.max_cost,
        available: limit.micros.saturating_sub(used),
        resets_at: limit.window.1,
    })))
}

/// What [`settle`] needs of a hold, and what its run cost, which is final by then.
macro_rules! released {
    ($which:literal) => {
        concat!(
            "DELETE FROM budget_hold WHERE ",
            $which,
            " RETURNING org_id, scope, since, starts_at, held_micros, \
             (SELECT r.cost_micros FROM run r WHERE r.id = budget_hold.run_id)"
        )
    };
}

/// Releases the holds of a run that is settled in this transaction, for [`settle`].
pub(crate) fn release(run: RunId) -> Stmt<'static> {
    Stmt::new(released!("run_id = $1"), vals![run])
}

/// The same for a run of the organization that has left the queue, if it has.
pub(crate) fn release_unqueued(org: OrgId, run: RunId) -> Stmt<'static> {
    Stmt::new(
        released!(
            "run_id = $2 AND org_id = $1 AND (SELECT q.run_id FROM queue q WHERE q.run_id = $2) IS NULL"
        ),
        vals![org, run],
    )
}

/// The same for the runs `ids`.
pub(crate) fn release_all(ids: &str) -> Stmt<'_> {
    Stmt::new(
        released!("run_id {IN}SELECT value FROM {JSON_EACH}($1){END}"),
        vals![ids],
    )
}

/// Gives back what was held to the windows it was taken from, and adds what the runs have cost: the last write of the
/// transaction that settles them.
pub(crate) fn settle(tx: &mut dyn Tx, released: &[Row]) -> Result<()> {
    let mut windows: BTreeMap<(&str, &str, i64, i64), (i64, i64)> = BTreeMap::new();
    for row in released {
        let key = (row.text(0)?, row.text(1)?, row.int(2)?, row.int(3)?);
        let (held, cost) = windows.entry(key).or_default();
        *held = held.saturating_add(row.int(4)?);
        *cost = cost.saturating_add(row.int(5)?);
    }
    if windows.is_empty() {
        return Ok(());
    }
    let statements: Vec<Stmt<'_>> = windows
        .into_iter()
        .map(|((org, scope, since, starts_at), (held, cost))| {
            Stmt::new(
                "UPDATE budget_window SET held_micros = held_micros - $5, spent_micros = spent_micros + $6 \
                 WHERE org_id = $1 AND scope = $2 AND since = $3 AND starts_at = $4",
                vals![org, scope, since, starts_at, held, cost],
            )
            .exactly(1, Error::Corrupt("the window of a hold is gone".to_owned()))
        })
        .collect();
    tx.batch(&statements).map(drop)
}

/// The window of a period that `at` is in.
fn window(period: BudgetPeriod, at: Timestamp) -> Result<(Timestamp, Timestamp)> {
    period
        .window(at)
        .ok_or_else(|| Error::Corrupt("a time that is in no calendar".to_owned()))
}

fn starts(period: BudgetPeriod, at: Timestamp) -> Result<Timestamp> {
    window(period, at).map(|(start, _)| start)
}

fn limit_from(row: &Row, at: Timestamp) -> Result<Limit> {
    let period = row.parse(2)?;
    Ok(Limit {
        scope: row.parse(0)?,
        micros: row.micros(1)?,
        period,
        since: row.int(3)?,
        window: window(period, at)?,
    })
}

fn budget_from(row: &Row, at: Timestamp) -> Result<Budget> {
    let (limit, period) = (row.micros(1)?, row.parse(2)?);
    let amount = |column| match row.opt_int(column)? {
        Some(_) => row.micros(column),
        None => Ok(Micros::ZERO),
    };
    let (held, spent) = (amount(5)?, amount(6)?);
    Ok(Budget {
        scope: row.parse(0)?,
        limit_micros: limit,
        period,
        spent_micros: spent,
        held_micros: held,
        available_micros: limit.saturating_sub(held).saturating_sub(spent),
        resets_at: window(period, at)?.1,
        created_at: row.time(3)?,
        updated_at: row.time(4)?,
    })
}
