//! Writes of tails: the windows of budgets and the allowances of licenses, which are rows that many runs share, and the
//! holds that are released with them.

use sortie_api::{Micros, Timestamp};

use super::{allowance, holds};
use crate::{
    db::{
        Stmt, Tx,
        tail::{Room, SharedRow, Sums, Tail, WindowChange, WindowKey},
        vals,
    },
    types::{Error, OverBudget, Result},
};

/// Writes the sums of a transaction's tails, in one batch and in the order of locks. Returns the rows where a
/// limit is reached or the row is missing: the transaction must then be rolled back.
pub(crate) fn write(tx: &mut dyn Tx, sums: &Sums) -> Result<Vec<SharedRow>> {
    let changes = sums.windows();
    let released =
        serde_json::to_string(sums.released()).map_err(|error| Error::Corrupt(error.to_string()))?;
    let deletes = (!sums.released().is_empty()).then(|| holds::delete(&released));
    let updates = changes.iter().map(|(key, change)| statement(key, change));
    let earlier = changes
        .iter()
        .filter_map(|(key, change)| Some(delete_earlier(key, change.room?.begins_after?)));
    let allowances = sums.allowances().values().map(allowance::statement);
    let statements: Vec<Stmt<'_>> = deletes
        .into_iter()
        .chain(updates)
        .chain(earlier)
        .chain(allowances)
        .collect();
    if statements.is_empty() {
        return Ok(Vec::new());
    }
    let answers = tx.batch(&statements)?;
    let missed = (0..).zip(&answers).filter(|(_, answer)| answer.affected == 0);
    Ok(missed.filter_map(|(at, _)| row_after(at, sums)).collect())
}

/// The shared row that the statement after `answered` statements of [`write`] is about. None for every other statement.
pub(crate) fn row_after(answered: usize, sums: &Sums) -> Option<SharedRow> {
    let at = answered.checked_sub(usize::from(!sums.released().is_empty()))?;
    if let Some(key) = sums.windows().keys().nth(at) {
        return Some(SharedRow::Window(key.clone()));
    }
    let begins = |change: &&WindowChange| change.room.is_some_and(|room| room.begins_after.is_some());
    let before = sums.windows().len() + sums.windows().values().filter(begins).count();
    let month = sums.allowances().keys().nth(at.checked_sub(before)?)?;
    Some(SharedRow::Allowance(*month))
}

/// Writes the tails of one command, whose transaction ends with them. [`Error::OverBudget`] or
/// [`Error::Unlicensed`] with figures if a limit is reached.
pub(crate) fn write_of_one(tx: &mut dyn Tx, tails: &[Tail]) -> Result<()> {
    let sums = Sums::of(tails);
    match write(tx, &sums)?.first() {
        None => Ok(()),
        Some(SharedRow::Window(missed)) => Err(refusal(tx, missed, &sums)?),
        Some(SharedRow::Allowance(month)) => Err(allowance::refusal(sums.allowances().get(month))),
    }
}

/// The update of one window. It affects no row if the window has no room or is missing. A hold begins the window if the
/// amount is within the limit.
fn statement<'a>(key: &'a WindowKey, change: &WindowChange) -> Stmt<'a> {
    let mut params = vals![
        key.org,
        key.scope.as_str(),
        key.since,
        key.starts_at,
        change.held,
        change.spent
    ];
    let sql = match (change.room, change.gives_back) {
        (None, _) => {
            "UPDATE budget_window SET held_micros = held_micros + $5, spent_micros = spent_micros + $6 \
             WHERE org_id = $1 AND scope = $2 AND since = $3 AND starts_at = $4"
        }
        (Some(room), gives_back) if gives_back || change.held > room.limit => {
            "UPDATE budget_window SET held_micros = held_micros + $5, spent_micros = spent_micros + $6 \
             WHERE org_id = $1 AND scope = $2 AND since = $3 AND starts_at = $4 \
             AND held_micros + spent_micros + CAST($5 AS BIGINT) + CAST($6 AS BIGINT) <= CAST($7 AS BIGINT)"
        }
        (Some(_), _) => {
            "INSERT INTO budget_window (org_id, scope, since, starts_at, held_micros, spent_micros) \
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (org_id, scope, since, starts_at) DO UPDATE \
             SET held_micros = budget_window.held_micros + excluded.held_micros \
             WHERE budget_window.held_micros + budget_window.spent_micros + excluded.held_micros <= CAST($7 AS BIGINT)"
        }
    };
    params.extend(change.room.map(|room| room.limit.into()));
    Stmt::new(sql, params)
}

/// Deletes windows before the one that starts at `previous`. A node whose clock is behind may still count in that one.
fn delete_earlier(key: &WindowKey, previous: Timestamp) -> Stmt<'_> {
    Stmt::new(
        "DELETE FROM budget_window WHERE org_id = $1 AND scope = $2 AND since = $3 AND starts_at < $4 \
         AND held_micros = 0",
        vals![key.org, key.scope.as_str(), key.since, previous],
    )
}

/// The error of a command whose change of this window was refused.
fn refusal(tx: &mut dyn Tx, key: &WindowKey, sums: &Sums) -> Result<Error> {
    let change = sums.windows().get(key);
    let Some((change, room)) = change.and_then(|change| Some((change, change.room?))) else {
        return Ok(Error::Corrupt("the window of a hold is gone".to_owned()));
    };
    let used = tx.query_opt(
        "SELECT held_micros + spent_micros FROM budget_window \
         WHERE org_id = $1 AND scope = $2 AND since = $3 AND starts_at = $4",
        vals![key.org, key.scope.as_str(), key.since, key.starts_at],
    )?;
    let used = used.map_or(Ok(0), |row| row.int(0))?;
    over_budget(key, change.held, used, room)
}

/// Refusal of a run that does not fit in a window of which `used` micros are used.
pub(super) fn over_budget(key: &WindowKey, wanted: i64, used: i64, room: Room) -> Result<Error> {
    let micros = |amount: i64| {
        u64::try_from(amount.max(0))
            .ok()
            .and_then(|amount| Micros::new(amount).ok())
            .ok_or_else(|| Error::Corrupt(format!("{amount} micros")))
    };
    Ok(Error::OverBudget(Box::new(OverBudget {
        scope: key
            .scope
            .parse()
            .map_err(|_| Error::Corrupt(format!("{:?} is not the scope of a budget", key.scope)))?,
        max_cost: micros(wanted)?,
        available: micros(room.limit.saturating_sub(used))?,
        resets_at: room.resets_at,
    })))
}
