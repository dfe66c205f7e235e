//! Budgets: limits on the cost of runs in a day or a month. Concurrent runs cannot exceed a limit.
//!
//! The commands here set, read and delete budgets. [`holds`](super::holds) describes how a run uses its budgets.

use sortie_api::{Budget, BudgetPeriod, BudgetScope, Micros, OrgId, PutBudget, Timestamp};

use super::holds::{OF_WINDOW, start, window};
use crate::{
    Error, Result, Store,
    access::audit::{self, Audit},
    db::{Stmt, Tx, batch, filled, row, select, vals},
    organizations::lock,
};

impl Store {
    /// Sets the budget of a scope, or changes it. Returns the budget, and whether it is new. If the period
    /// changes, the windows of the new period count from now on. `Conflict` if the organization has `most`
    /// budgets already.
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

    /// Returns a budget with its window at `at`.
    pub async fn get_budget(&self, org: OrgId, scope: BudgetScope, at: Timestamp) -> Result<Budget> {
        self.db.read(move |tx| get(tx, org, &scope, at)).await
    }

    /// Returns at most `limit` of the organization's budgets with scopes after `after` (an empty text: all), ordered
    /// by scope, with their windows at `at`.
    pub async fn list_budgets(
        &self,
        org: OrgId,
        at: Timestamp,
        (after, limit): (String, u32),
    ) -> Result<Vec<Budget>> {
        self.db
            .read(move |tx| {
                let rows: Vec<BudgetRow> = tx.read_all(
                    constcat::concat!(
                        SELECT_BUDGETS,
                        "b.org_id = $1 AND b.scope > $4 ORDER BY b.org_id, b.scope LIMIT $5"
                    ),
                    vals![
                        org,
                        start(BudgetPeriod::Day, at)?,
                        start(BudgetPeriod::Month, at)?,
                        after.as_str(),
                        limit
                    ],
                )?;
                rows.into_iter().map(|row| row.budget(at)).collect()
            })
            .await
    }

    /// Deletes a budget. Runs that hold money in it are settled as usual.
    pub async fn delete_budget(&self, scope: BudgetScope, audit: Audit) -> Result<()> {
        self.db.write(move |tx| delete(tx, &scope, &audit)).await
    }
}

row! {
    /// Budget `b` with its window.
    struct BudgetRow {
        scope: BudgetScope = "b.scope",
        limit: Micros = "b.limit_micros",
        period: BudgetPeriod = "b.period",
        created_at: Timestamp = "b.created_at",
        updated_at: Timestamp = "b.updated_at",
        held: Option<Micros> = filled!(OF_WINDOW, "@column" = "w.held_micros"),
        spent: Option<Micros> = filled!(OF_WINDOW, "@column" = "w.spent_micros"),
    }
}

/// Start of a query for [`BudgetRow`]. `$2` is the beginning of the day, `$3` that of the month.
const SELECT_BUDGETS: &str = select!(BudgetRow, " FROM budget b WHERE ");

fn get(tx: &mut dyn Tx, org: OrgId, scope: &BudgetScope, at: Timestamp) -> Result<Budget> {
    let row: BudgetRow = tx.read_one(
        constcat::concat!(SELECT_BUDGETS, "b.org_id = $1 AND b.scope = $4"),
        vals![
            org,
            start(BudgetPeriod::Day, at)?,
            start(BudgetPeriod::Month, at)?,
            scope.to_string()
        ],
    )?;
    row.budget(at)
}

fn put(
    tx: &mut dyn Tx,
    scope: &BudgetScope,
    put: PutBudget,
    most: u32,
    audit: &Audit,
) -> Result<(Budget, bool)> {
    let (org, at) = (audit.org, audit.at);
    forget_known(tx);
    let [_, before, _, _] = batch(
        tx,
        &[
            // The lock makes the limit exact.
            lock(org),
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
            .exactly(1, Error::Conflict("the organization has reached its limit of budgets")),
            audit::record(audit),
        ],
    )?;
    Ok((get(tx, org, scope, at)?, before.rows.is_empty()))
}

/// Discards cached budgets. Every transaction that changes a budget calls it.
pub(crate) fn forget_known(tx: &mut dyn Tx) {
    if let Some(known) = tx.known_budgets() {
        known.clear();
    }
}

fn delete(tx: &mut dyn Tx, scope: &BudgetScope, audit: &Audit) -> Result<()> {
    forget_known(tx);
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

impl BudgetRow {
    fn budget(self, at: Timestamp) -> Result<Budget> {
        let (held, spent) = (
            self.held.unwrap_or(Micros::ZERO),
            self.spent.unwrap_or(Micros::ZERO),
        );
        Ok(Budget {
            scope: self.scope,
            limit_micros: self.limit,
            period: self.period,
            spent_micros: spent,
            held_micros: held,
            available_micros: self.limit.saturating_sub(held).saturating_sub(spent),
            resets_at: window(self.period, at)?.1,
            created_at: self.created_at,
            updated_at: self.updated_at,
        })
    }
}
