//! Holds: the maximum cost of runs, kept free in the windows of their budgets until the runs are settled.
//!
//! The transaction that creates a run holds its whole `max_cost` in the window of every budget that applies.
//! A hold names its window. The transaction that settles the run gives it back there, even if the period has
//! ended or the budget was changed or deleted.
//!
//! On `SQLite` the row of the run has its holds, in `run.holds`. On PostgreSQL they are rows of `budget_hold`: a node of the
//! version before, which knows only these, may settle the run.

use sortie_api::{BudgetPeriod, BudgetScope, RunId, Timestamp};

use super::{allowance, credit, windows::over_budget};
use crate::{
    db::{
        Row, Stmt, Tx,
        known_budgets::KnownBudget,
        tail::{Room, Tail, WindowChange, WindowKey},
        vals,
    },
    types::{Error, NewRun, Result},
};

/// Scopes of the budgets that may apply to a run.
pub(crate) fn scopes(run: &NewRun) -> [Option<BudgetScope>; 4] {
    let labels = &run.labels;
    [
        Some(BudgetScope::Organization),
        labels.workflow.clone().map(BudgetScope::Workflow),
        labels.schedule.map(BudgetScope::Schedule),
        labels.key().map(BudgetScope::Key),
    ]
}

/// Texts of the scopes, always four: the scope of the organization fills the missing ones.
fn scope_texts(run: &NewRun) -> [String; 4] {
    scopes(run).map(|scope| scope.unwrap_or(BudgetScope::Organization).to_string())
}

/// Query for the budget of a scope, with the window that a new run counts in. `$1` is the organization, `$2` the
/// beginning of the day, `$3` that of the month. A scope that is NULL finds nothing.
macro_rules! select_window {
    ($scope:literal) => {
        concat!(
            "SELECT b.scope, b.since, b.limit_micros, b.period, \
             (SELECT w.starts_at FROM budget_window w WHERE w.org_id = b.org_id AND w.scope = b.scope \
               AND w.since = b.since AND w.starts_at = CASE b.period WHEN 'day' THEN CAST($2 AS BIGINT) ELSE CAST($3 AS BIGINT) END) \
             FROM budget b WHERE b.org_id = $1 AND b.scope = ",
            $scope
        )
    };
}

/// Hold of a new run: the window that it counts in, and the limit there.
pub(crate) struct Hold {
    window: WindowKey,
    room: Room,
}

/// Holds of a new run where no other process writes: of budgets that are known, or read now.
pub(crate) fn find(tx: &mut dyn Tx, run: &NewRun) -> Result<Vec<Hold>> {
    let known = tx
        .known_budgets()
        .and_then(|known| known.find(run.org, scopes(run).into_iter().flatten(), run.created_at));
    if let Some(known) = known {
        return Ok(known.into_iter().map(Hold::from).collect());
    }
    let (day, month) = (
        start(BudgetPeriod::Day, run.created_at)?,
        start(BudgetPeriod::Month, run.created_at)?,
    );
    let [all, workflow, schedule, key] = scopes(run).map(|scope| scope.map(|scope| scope.to_string()));
    let rows = tx.query_all(
        concat!(
            select_window!("$4"),
            " UNION ALL ",
            select_window!("$5"),
            " UNION ALL ",
            select_window!("$6"),
            " UNION ALL ",
            select_window!("$7")
        ),
        vals![run.org, day, month, all, workflow, schedule, key],
    )?;
    let holds = read(&rows, run)?;
    remember(tx, run, &holds);
    Ok(holds)
}

/// Remembers the budgets of a run. A window that does not exist yet is read again by the next run.
fn remember(tx: &mut dyn Tx, run: &NewRun, holds: &[Hold]) {
    let Some(known) = tx.known_budgets() else {
        return;
    };
    for scope in scopes(run).into_iter().flatten() {
        let text = scope.to_string();
        match holds.iter().find(|hold| hold.window.scope == text) {
            None => known.insert(run.org, scope, None),
            Some(hold) => match KnownBudget::of(hold) {
                Some(budget) => known.insert(run.org, scope, Some(budget)),
                None => known.remove(run.org, scope),
            },
        }
    }
}

impl KnownBudget {
    fn of(hold: &Hold) -> Option<Self> {
        hold.room.begins_after.is_none().then(|| Self {
            limit: hold.room.limit,
            window: hold.window.clone(),
            resets_at: hold.room.resets_at,
        })
    }
}

impl From<KnownBudget> for Hold {
    fn from(known: KnownBudget) -> Self {
        Self {
            window: known.window,
            room: Room {
                limit: known.limit,
                begins_after: None,
                resets_at: known.resets_at,
            },
        }
    }
}

/// Text of `run.holds` for these holds. `None` if there are none.
pub(crate) fn text(holds: &[Hold]) -> Result<Option<String>> {
    let rows: Vec<_> = holds
        .iter()
        .map(|Hold { window, .. }| (window.scope.as_str(), window.since, window.starts_at.as_micros()))
        .collect();
    (!rows.is_empty())
        .then(|| serde_json::to_string(&rows))
        .transpose()
        .map_err(|error| Error::Corrupt(error.to_string()))
}

/// Adds a hold for every budget that applies to a new run. [`read`] takes the rows. Goes before the run, whose row says whether
/// it has holds.
pub(crate) fn insert(run: &NewRun) -> Result<Stmt<'_>> {
    let [all, workflow, schedule, key] = scope_texts(run);
    Ok(Stmt::new(
        "INSERT INTO budget_hold (run_id, org_id, scope, since, starts_at, held_micros) \
         SELECT $1, b.org_id, b.scope, b.since, \
         CASE b.period WHEN 'day' THEN CAST($3 AS BIGINT) ELSE CAST($4 AS BIGINT) END, CAST($5 AS BIGINT) \
         FROM budget b WHERE b.org_id = $2 AND b.scope IN ($6, $7, $8, $9) \
         RETURNING scope, since, \
         (SELECT b.limit_micros FROM budget b WHERE b.org_id = budget_hold.org_id AND b.scope = budget_hold.scope), \
         (SELECT b.period FROM budget b WHERE b.org_id = budget_hold.org_id AND b.scope = budget_hold.scope), \
         (SELECT w.starts_at FROM budget_window w WHERE w.org_id = budget_hold.org_id AND w.scope = budget_hold.scope \
           AND w.since = budget_hold.since AND w.starts_at = budget_hold.starts_at)",
        vals![
            run.id,
            run.org,
            start(BudgetPeriod::Day, run.created_at)?,
            start(BudgetPeriod::Month, run.created_at)?,
            run.max_cost,
            all,
            workflow,
            schedule,
            key
        ],
    ))
}

/// Reads the rows of [`find`] or [`insert`].
pub(crate) fn read(rows: &[Row], run: &NewRun) -> Result<Vec<Hold>> {
    let holds = rows.iter().map(|row| {
        let (window, mut room) = window_of(row, run)?;
        if row.opt_time(4)?.is_none() {
            room.begins_after = Some(previous(row.parse(3)?, window.starts_at)?);
        }
        Ok(Hold { window, room })
    });
    holds.collect()
}

/// Takes the amount of a run from the windows of its holds, at the end of the transaction.
pub(crate) fn take(tx: &mut dyn Tx, run: &NewRun, holds: Vec<Hold>) {
    for Hold { window, room } in holds {
        tx.tail(Tail::Window(window, WindowChange::hold(run.max_cost.get(), room)));
    }
}

/// Removes the holds of a run that was not created.
pub(crate) fn forget(run: RunId) -> Stmt<'static> {
    Stmt::new("DELETE FROM budget_hold WHERE run_id = $1", vals![run])
}

/// Deletes the holds of the runs `ids`, a JSON array. Their amounts are given back by the same transaction.
pub(super) fn delete(ids: &str) -> Stmt<'_> {
    Stmt::new(
        "DELETE FROM budget_hold WHERE run_id {IN}SELECT value FROM {JSON_EACH}($1){END}",
        vals![ids],
    )
}

/// Refuses a run that does not fit in its budgets, that its license does not allow, or that the credits do not cover, by
/// reading the current amounts. A run whose idempotency key exists is not refused.
pub(crate) fn look(tx: &mut dyn Tx, run: &NewRun) -> Result<()> {
    let refused = match budget_refusal(tx, run)? {
        Some(error) => Some(error),
        None => match allowance::look(tx, run)? {
            Some(error) => Some(error),
            None => credit::look(tx, run)?,
        },
    };
    match refused {
        Some(error) if !has_run(tx, run)? => Err(error),
        Some(_) | None => Ok(()),
    }
}

/// Whether a run with the idempotency key of this one exists.
fn has_run(tx: &mut dyn Tx, run: &NewRun) -> Result<bool> {
    let Some(name) = run.idempotency_key.as_deref() else {
        return Ok(false);
    };
    let sql = "SELECT 1 FROM run WHERE org_id = $1 AND idempotency_key = $2";
    Ok(tx.query_opt(sql, vals![run.org, name])?.is_some())
}

/// The refusal of a run that does not fit in its budgets.
fn budget_refusal(tx: &mut dyn Tx, run: &NewRun) -> Result<Option<Error>> {
    let [all, workflow, schedule, key] = scope_texts(run);
    let rows = tx.query_all(
        "SELECT b.scope, b.since, b.limit_micros, b.period, \
         COALESCE((SELECT w.held_micros + w.spent_micros FROM budget_window w \
           WHERE w.org_id = b.org_id AND w.scope = b.scope AND w.since = b.since AND w.starts_at = \
           CASE b.period WHEN 'day' THEN CAST($2 AS BIGINT) ELSE CAST($3 AS BIGINT) END), 0) \
         FROM budget b WHERE b.org_id = $1 AND b.scope IN ($4, $5, $6, $7)",
        vals![
            run.org,
            start(BudgetPeriod::Day, run.created_at)?,
            start(BudgetPeriod::Month, run.created_at)?,
            all,
            workflow,
            schedule,
            key
        ],
    )?;
    let mut refused = Vec::new();
    for row in &rows {
        let ((key, room), used) = (window_of(row, run)?, row.int(4)?);
        if used.saturating_add(run.max_cost.get()) > room.limit {
            refused.push((key, room, used));
        }
    }
    refused.sort_by(|(key, ..), (other, ..)| key.cmp(other));
    refused
        .first()
        .map(|(key, room, used)| over_budget(key, run.max_cost.get(), *used, *room))
        .transpose()
}

/// Start of the window before the one that starts at `starts_at`.
fn previous(period: BudgetPeriod, starts_at: Timestamp) -> Result<Timestamp> {
    // By the calendar: months are of different lengths.
    start(
        period,
        Timestamp::from_micros(starts_at.as_micros().saturating_sub(1)),
    )
}

/// The window of a budget in which a run counts, and its limit.
fn window_of(row: &Row, run: &NewRun) -> Result<(WindowKey, Room)> {
    let period = row.parse(3)?;
    let (starts_at, resets_at) = window(period, run.created_at)?;
    let room = Room {
        limit: row.int(2)?,
        begins_after: None,
        resets_at,
    };
    let key = WindowKey {
        org: run.org,
        scope: row.text(0)?.to_owned(),
        since: row.int(1)?,
        starts_at,
    };
    Ok((key, room))
}

/// The window of a period that contains `at`.
pub(crate) fn window(period: BudgetPeriod, at: Timestamp) -> Result<(Timestamp, Timestamp)> {
    period
        .window(at)
        .ok_or_else(|| Error::Corrupt("a time that is in no calendar".to_owned()))
}

/// Start of the window of a period that contains `at`.
pub(crate) fn start(period: BudgetPeriod, at: Timestamp) -> Result<Timestamp> {
    window(period, at).map(|(start, _)| start)
}
