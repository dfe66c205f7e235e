//! Windows of budgets, as the tail of a transaction writes them.

use sortie_api::{Micros, Timestamp};

use crate::{
    Error, Result,
    db::{
        Stmt, Tx, Writers,
        tail::{Room, WindowChange, WindowKey},
        vals,
    },
    money::OverBudget,
};

/// The update of one window. It affects no row if the window has no room or is missing. If the window may be missing, a
/// hold creates it for an amount within the limit.
pub(super) fn statement<'a>(key: &'a WindowKey, change: &WindowChange, writers: Writers) -> Stmt<'a> {
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
        (Some(room), gives_back)
            if gives_back
                || change.held > room.limit
                || (writers == Writers::One && room.begins_after.is_none()) =>
        {
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

/// Deletes windows before the one that starts at `previous`. A node with a slow clock may still count in that one.
pub(super) fn delete_earlier(key: &WindowKey, previous: Timestamp) -> Stmt<'_> {
    Stmt::new(
        "DELETE FROM budget_window WHERE org_id = $1 AND scope = $2 AND since = $3 AND starts_at < $4 \
         AND held_micros = 0",
        vals![key.org, key.scope.as_str(), key.since, previous],
    )
}

/// The error of a command that could not change this window.
pub(super) fn refusal(tx: &mut dyn Tx, key: &WindowKey, change: &WindowChange) -> Result<Error> {
    let Some(room) = change.room else {
        return Ok(Error::Corrupt("the window of a hold is gone".to_owned()));
    };
    let used = tx.query_opt(
        "SELECT held_micros + spent_micros FROM budget_window \
         WHERE org_id = $1 AND scope = $2 AND since = $3 AND starts_at = $4",
        vals![key.org, key.scope.as_str(), key.since, key.starts_at],
    )?;
    let used = used.map_or(Ok(0), |row| row.only())?;
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
