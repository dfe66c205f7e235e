//! Settlement: the cost of a run becomes final, its holds are given back, and it is charged to the credits of its
//! organization where they were reserved.
//!
//! `run.billing_pending` is 1 until the run is settled. Every statement that clears it takes its assignment from here and
//! goes through [`settle`], so no run is settled and keeps a hold or a part of the credits.

use sortie_api::{OrgId, RunId, Timestamp};

use crate::{
    Error, Result,
    db::{
        Answer, Row, Stmt, Tx,
        tail::{Charge, CreditChange, Tail, WindowChange, WindowKey},
    },
};

/// The assignment that settles a run.
macro_rules! settled {
    () => {
        "billing_pending = 0"
    };
}
pub(crate) use settled;

/// The assignment that settles a run unless its status is one of these: a worker holds it then, and reports its cost later.
macro_rules! settled_unless {
    ($statuses:literal) => {
        concat!(
            "billing_pending = CASE WHEN status IN (",
            $statuses,
            ") THEN 1 ELSE 0 END"
        )
    };
}
pub(crate) use settled_unless;

/// A cost, cut to what was reserved for the run. Every final cost that a worker reports is written with it.
macro_rules! within_reserved {
    ($($cost:tt)+) => {
        concat!(
            "{LEAST}(",
            $($cost)+,
            ", COALESCE(reserved_micros, 9223372036854775807))"
        )
    };
}
pub(crate) use within_reserved;

/// Columns that [`settle`] reads from a statement on `run` that settles. `$cost` is the cost before it was cut.
///
/// The last one has the holds of the run, a JSON array of `[scope, since, starts_at]`. NULL if no budget applies to it.
macro_rules! settled_columns {
    ($($cost:tt)+) => {
        concat!(
            "org_id, id, billing_pending, max_cost_micros, reserved_micros, cost_micros, ",
            $($cost)+,
            " - cost_micros, holds"
        )
    };
}
pub(crate) use settled_columns;

/// Number of [`settled_columns`].
pub(crate) const SETTLED_COLUMNS: usize = 8;

/// Place of the [`settled_columns`] in the answers to a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SettledAt {
    /// Number of the statement.
    pub(crate) statement: usize,
    /// Number of the first of the columns.
    pub(crate) column: usize,
}

/// Runs the statements that settle runs. The tail of the transaction gives back what the runs held, adds what they cost and
/// charges it. Returns the answers to the statements.
pub(crate) fn settle(
    tx: &mut dyn Tx,
    statements: &[Stmt<'_>],
    settling: &[SettledAt],
) -> Result<Vec<Answer>> {
    let answers = tx.batch(statements)?;
    for at in settling {
        for row in answers.get(at.statement).map_or(&[][..], |answer| &answer.rows) {
            if row.int(at.column + 2)? == 0 {
                SettledRun::read(row, at.column)?.add_tails(tx)?;
            }
        }
    }
    Ok(answers)
}

/// Run that was settled.
struct SettledRun<'a> {
    org: OrgId,
    id: RunId,
    /// Micros that the run held in each of its budgets.
    max_cost: i64,
    /// Micros that were reserved from the credits of the organization, if it pays with them.
    reserved: Option<i64>,
    /// Final cost in micros, at most what was reserved.
    cost: i64,
    /// Micros by which the cost exceeded what was reserved.
    excess: i64,
    /// Windows of the budgets in which the run held its maximum cost, as JSON.
    holds: Option<&'a str>,
}

impl<'a> SettledRun<'a> {
    fn read(row: &'a Row, column: usize) -> Result<Self> {
        Ok(Self {
            org: row.parse(column)?,
            id: row.parse(column + 1)?,
            max_cost: row.int(column + 3)?,
            reserved: row.opt_int(column + 4)?,
            cost: row.int(column + 5)?,
            excess: row.int(column + 6)?,
            holds: row.opt_text(column + 7)?,
        })
    }

    fn add_tails(&self, tx: &mut dyn Tx) -> Result<()> {
        if let Some(reserved) = self.reserved {
            tx.tail(Tail::Credit(self.org, CreditChange::settle(reserved, self.cost)));
            if self.cost > 0 {
                tx.tail(Tail::Charge(Charge {
                    run: self.id,
                    amount: self.cost,
                    excess: self.excess,
                }));
            }
        }
        let Some(holds) = self.holds else {
            return Ok(());
        };
        let holds: Vec<(String, i64, i64)> =
            serde_json::from_str(holds).map_err(|error| Error::Corrupt(error.to_string()))?;
        for (scope, since, starts_at) in holds {
            let key = WindowKey {
                org: self.org,
                scope,
                since,
                starts_at: Timestamp::from_micros(starts_at),
            };
            tx.tail(Tail::Window(key, WindowChange::settle(self.max_cost, self.cost)));
        }
        Ok(())
    }
}
