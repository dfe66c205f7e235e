//! Holds: the maximum cost of runs, reserved in the windows of their budgets until the runs are settled.
//!
//! The transaction that creates a run holds its whole `max_cost` in the window of every budget that applies.
//! A hold names its window. The transaction that settles the run gives it back there, even if the period has
//! ended or the budget was changed or deleted.
//!
//! The row of the run has its holds, in `run.holds`. If a statement costs no round trip, the budgets are read before that
//! row is added. Otherwise the statement that adds it reads them.

use serde::Deserialize;
use sortie_api::{BudgetPeriod, BudgetScope, Timestamp};

use super::{allowance, credit, windows::over_budget};
use crate::{
    Error, Result,
    db::{
        Json, ReadRow, Row, Tx, Val, filled,
        known_budgets::KnownBudget,
        row, select,
        tail::{Room, Tail, WindowChange, WindowKey},
        vals,
    },
    runs::NewRun,
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

/// Number of the [`params`].
pub(crate) const PARAMS: u8 = 7;

/// First parameters of the statements that find the budgets of a run: the organization, the beginning of the day, that of
/// the month, and the four scopes. The scope of the organization fills the missing ones.
pub(crate) fn params(run: &NewRun) -> Result<Vec<Val<'_>>> {
    let mut params = vals![
        run.org,
        start(BudgetPeriod::Day, run.created_at)?,
        start(BudgetPeriod::Month, run.created_at)?
    ];
    let texts = scopes(run).map(|scope| scope.unwrap_or(BudgetScope::Organization).to_string());
    params.extend(texts.map(Val::from));
    Ok(params)
}

/// Budgets `b` that apply to the run of [`params`].
const OF_RUN: &str = " FROM budget b WHERE b.org_id = $1 AND b.scope IN ($4, $5, $6, $7)";

/// Start of the window of a budget `b` at a time: `$2` is the beginning of its day, `$3` that of its month.
const START: &str = "CASE b.period WHEN 'day' THEN CAST($2 AS BIGINT) ELSE CAST($3 AS BIGINT) END";

/// `@column` of that window `w`. NULL if the window does not exist.
pub(super) const OF_WINDOW: &str = constcat::concat!(
    "(SELECT @column FROM budget_window w WHERE w.org_id = b.org_id AND w.scope = b.scope AND w.since = b.since \
     AND w.starts_at = ",
    START,
    ")"
);

row! {
    /// Budget `b` that applies to a run, with a column of its window.
    #[derive(Deserialize)]
    struct FoundBudget {
        scope: String = "b.scope",
        since: i64 = "b.since",
        limit: i64 = "b.limit_micros",
        period: BudgetPeriod = "b.period",
        of_window: Option<i64> = OF_WINDOW,
    }
}

/// Query for the budgets of a run, with `@column` of their windows.
const SELECT_BUDGETS: &str = select!(FoundBudget, OF_RUN);

/// Hold of a new run: the window that it counts in, and the limit there.
pub(crate) struct Hold {
    window: WindowKey,
    room: Room,
}

/// Finds the holds of a new run if no other process writes: from cached budgets, or from budgets read now.
pub(crate) fn find(tx: &mut dyn Tx, run: &NewRun) -> Result<Vec<Hold>> {
    let known = tx
        .known_budgets()
        .and_then(|known| known.find(run.org, scopes(run).into_iter().flatten(), run.created_at));
    if let Some(known) = known {
        return Ok(known.into_iter().map(Hold::from).collect());
    }
    let found: Vec<FoundBudget> =
        tx.read_all(filled!(SELECT_BUDGETS, "@column" = "w.starts_at"), params(run)?)?;
    let holds: Vec<Hold> = found
        .into_iter()
        .map(|found| found.hold(run))
        .collect::<Result<_>>()?;
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
            Some(hold) => match hold.known() {
                Some(budget) => known.insert(run.org, scope, Some(budget)),
                None => known.remove(run.org, scope),
            },
        }
    }
}

impl Hold {
    /// The budget, if its window exists.
    fn known(&self) -> Option<KnownBudget> {
        self.room.begins_after.is_none().then(|| KnownBudget {
            limit: self.room.limit,
            window: self.window.clone(),
            resets_at: self.room.resets_at,
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

/// Text of `run.holds` for these holds. `None` without holds.
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

/// Query for a JSON array with an array of `@columns` of every budget of a run, NULL without such budgets (an empty array
/// on `SQLite`).
const AS_JSON: &str = constcat::concat!(
    "(SELECT CAST({JSON_ROWS}({JSON_ROW}(@columns)) AS TEXT)",
    OF_RUN,
    ")"
);

/// Value of `run.holds` in the statement that adds the run of [`params`].
pub(crate) const SELECT_HOLDS: &str = filled!(
    AS_JSON,
    "@columns" = constcat::concat!("b.scope, b.since, ", START)
);

/// Column that this statement returns, for [`read_added`].
pub(crate) const SELECT_ADDED: &str = filled!(
    AS_JSON,
    "@columns" = FoundBudget::COLUMNS,
    "@column" = "w.starts_at"
);

/// Reads the holds of a run from the row that the statement which has added it returned.
pub(crate) fn read_added(row: &Row, run: &NewRun) -> Result<Vec<Hold>> {
    let budgets: Option<Json<Vec<FoundBudget>>> = row.only()?;
    let budgets = budgets.unwrap_or_default().0;
    budgets.into_iter().map(|found| found.hold(run)).collect()
}

impl FoundBudget {
    fn hold(self, run: &NewRun) -> Result<Hold> {
        let (period, exists) = (self.period, self.of_window.is_some());
        let mut hold = self.in_window(run)?;
        if !exists {
            hold.room.begins_after = Some(previous(period, hold.window.starts_at)?);
        }
        Ok(hold)
    }

    /// The hold of a run, if its window exists.
    fn in_window(self, run: &NewRun) -> Result<Hold> {
        let (starts_at, resets_at) = window(self.period, run.created_at)?;
        Ok(Hold {
            window: WindowKey {
                org: run.org,
                scope: self.scope,
                since: self.since,
                starts_at,
            },
            room: Room {
                limit: self.limit,
                begins_after: None,
                resets_at,
            },
        })
    }
}

/// Reserves the amount of a run in the windows of its holds, at the end of the transaction.
pub(crate) fn take(tx: &mut dyn Tx, run: &NewRun, holds: Vec<Hold>) {
    for Hold { window, room } in holds {
        tx.tail(Tail::Window(window, WindowChange::hold(run.max_cost.get(), room)));
    }
}

/// Reads the current amounts and refuses a run that does not fit in its budgets, that its license does not allow, or that
/// the credits do not cover. A run with an existing idempotency key is not refused.
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
    let budgets: Vec<FoundBudget> = tx.read_all(
        filled!(SELECT_BUDGETS, "@column" = "w.held_micros + w.spent_micros"),
        params(run)?,
    )?;
    let mut refused = Vec::new();
    for budget in budgets {
        let used = budget.of_window.unwrap_or(0);
        if used.saturating_add(run.max_cost.get()) > budget.limit {
            refused.push((budget.in_window(run)?, used));
        }
    }
    refused.sort_by(|(hold, _), (other, _)| hold.window.cmp(&other.window));
    refused
        .first()
        .map(|(hold, used)| over_budget(&hold.window, run.max_cost.get(), *used, hold.room))
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
