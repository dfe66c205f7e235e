//! Settlement: the cost of a run becomes final, its holds are released, and it is charged to the credits of its organization
//! if they were reserved.
//!
//! `run.billing_pending` is 1 until the run is settled. Every statement that clears it uses the assignment from here and
//! goes through [`settle`], so every settled run has released its holds and its credits.

use sortie_api::{OrgId, RunId, Timestamp};

use crate::{
    Error, Result,
    db::{
        Answer, ReadRow, Stmt, Tx, row,
        tail::{Charge, CreditChange, Tail, WindowChange, WindowKey},
    },
};

/// The assignment that settles a run.
pub(crate) const SETTLES: &str = "billing_pending = 0";

/// The assignment that settles a run unless its status is one of `@held`: a worker holds it then, and reports its cost later.
pub(crate) const SETTLES_UNLESS: &str = "billing_pending = CASE WHEN status IN (@held) THEN 1 ELSE 0 END";

/// `@cost`, limited to the amount reserved for the run. Every final cost that a worker reports is written with it.
pub(crate) const WITHIN_RESERVED: &str = "{LEAST}(@cost, COALESCE(reserved_micros, 9223372036854775807))";

row! {
    /// Run with its organization.
    pub(crate) struct OwnedRun {
        pub(crate) org: OrgId = "org_id",
        pub(crate) id: RunId = "id",
    }
}

row! {
    /// Columns that [`settle`] reads from a statement on `run` that settles. `@cost` is the cost before it was cut.
    pub(crate) struct SettledRun {
        run: OwnedRun,
        is_pending: bool = "billing_pending",
        /// Micros that the run held in each of its budgets.
        max_cost: i64 = "max_cost_micros",
        /// Micros that were reserved from the credits of the organization, if it pays with them.
        reserved: Option<i64> = "reserved_micros",
        /// Final cost in micros, at most the reserved amount.
        cost: i64 = "cost_micros",
        /// Excess of the cost over the reserved amount, in micros.
        excess: i64 = "@cost - cost_micros",
        /// JSON of the scope, `since` and start of each window in which the run held its maximum cost.
        holds: Option<String> = "holds",
    }
}

/// Place of the columns of [`SettledRun`] in the answers to a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SettledAt {
    /// Number of the statement.
    pub(crate) statement: usize,
    /// Number of the first of the columns.
    pub(crate) column: usize,
}

/// Runs the statements that settle runs. The tail of the transaction releases the amounts the runs held, adds their costs
/// and charges them. Returns the answers to the statements.
pub(crate) fn settle(
    tx: &mut dyn Tx,
    statements: &[Stmt<'_>],
    settling: &[SettledAt],
) -> Result<Vec<Answer>> {
    let answers = tx.batch(statements)?;
    for at in settling {
        for row in answers.get(at.statement).map_or(&[][..], |answer| &answer.rows) {
            let run = SettledRun::read_from(row, at.column)?;
            if !run.is_pending {
                run.add_tails(tx)?;
            }
        }
    }
    Ok(answers)
}

impl SettledRun {
    fn add_tails(self, tx: &mut dyn Tx) -> Result<()> {
        let OwnedRun { org, id } = self.run;
        if let Some(reserved) = self.reserved {
            tx.tail(Tail::Credit(org, CreditChange::settle(reserved, self.cost)));
            if self.cost > 0 {
                tx.tail(Tail::Charge(Charge {
                    run: id,
                    amount: self.cost,
                    excess: self.excess,
                }));
            }
        }
        let holds: Vec<(String, i64, i64)> = match &self.holds {
            Some(text) => {
                serde_json::from_str(text).map_err(|error| Error::Corrupt(format!("holds: {error}")))?
            }
            None => Vec::new(),
        };
        for (scope, since, starts_at) in holds {
            let key = WindowKey {
                org,
                scope,
                since,
                starts_at: Timestamp::from_micros(starts_at),
            };
            tx.tail(Tail::Window(key, WindowChange::settle(self.max_cost, self.cost)));
        }
        Ok(())
    }
}
