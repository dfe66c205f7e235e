//! Settlement: the cost of a run becomes final, its holds are given back, and it is charged to the credits of its
//! organization where they were reserved.
//!
//! `run.billing_pending` is 1 until the run is settled. Every statement that clears it takes its assignment from here and
//! goes through [`settle`] or [`settle_one`], so no run is settled and keeps a hold or a part of the credits.

use sortie_api::{OrgId, RunId, Timestamp};

use crate::{
    db::{
        Answer, Row, Stmt, Tx,
        tail::{Charge, CreditChange, Tail, WindowChange, WindowKey},
        vals,
    },
    types::{Error, Result},
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
macro_rules! settled_columns {
    ($($cost:tt)+) => {
        concat!(
            "org_id, id, reserved_micros, cost_micros, billing_pending, ",
            $($cost)+,
            " - cost_micros"
        )
    };
}
pub(crate) use settled_columns;

/// Runs that a transaction settles.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Settled<'a> {
    One(RunId),
    /// A run of the organization, if it has left the queue: a worker may still hold it.
    Unqueued(OrgId, RunId),
    /// Runs as a JSON array of their ids.
    All(&'a str),
}

/// Deletes holds. Returns their windows and amounts, and the cost of their runs, which is final by then.
macro_rules! release {
    ($which:literal) => {
        concat!(
            "DELETE FROM budget_hold WHERE ",
            $which,
            " RETURNING org_id, scope, since, starts_at, held_micros, \
             (SELECT r.cost_micros FROM run r WHERE r.id = budget_hold.run_id)"
        )
    };
}

impl<'a> Settled<'a> {
    fn release(self) -> Stmt<'a> {
        match self {
            Self::One(run) => Stmt::new(release!("run_id = $1"), vals![run]),
            Self::Unqueued(org, run) => Stmt::new(
                release!(
                    "run_id = $2 AND org_id = $1 AND (SELECT q.run_id FROM queue q WHERE q.run_id = $2) IS NULL"
                ),
                vals![org, run],
            ),
            Self::All(ids) => Stmt::new(
                release!("run_id {IN}SELECT value FROM {JSON_EACH}($1){END}"),
                vals![ids],
            ),
        }
    }
}

/// Runs the statements that settle these runs, and releases their holds in the same batch. The statements at the places
/// `settling` return [`settled_columns`]. The tail of the transaction gives back what was held and adds what the runs cost.
/// Returns the answers to the statements.
pub(crate) fn settle<'a>(
    tx: &mut dyn Tx,
    runs: Settled<'a>,
    mut statements: Vec<Stmt<'a>>,
    settling: &[usize],
) -> Result<Vec<Answer>> {
    let released = statements.len();
    statements.push(runs.release());
    let mut answers = tx.batch(&statements)?;
    for answer in answers.drain(released..) {
        give_back(tx, &answer.rows)?;
    }
    for row in settling
        .iter()
        .filter_map(|at| answers.get(*at))
        .flat_map(|answer| &answer.rows)
    {
        let is_settled = row.int(4)? == 0;
        if let (Some(reserved), true) = (row.opt_int(2)?, is_settled) {
            let cost = Cost {
                org: row.parse(0)?,
                reserved,
                charged: row.int(3)?,
                excess: row.int(5)?,
            };
            cost.charge_to(tx, row.parse(1)?);
        }
    }
    Ok(answers)
}

/// Final cost of a run for which credits were reserved.
pub(crate) struct Cost {
    pub(crate) org: OrgId,
    /// Micros that were reserved.
    pub(crate) reserved: i64,
    /// Cost in micros, at most what was reserved.
    pub(crate) charged: i64,
    /// Micros by which the cost exceeded what was reserved.
    pub(crate) excess: i64,
}

impl Cost {
    /// Releases what was reserved for the run and charges its cost, in the tail of the transaction.
    fn charge_to(&self, tx: &mut dyn Tx, run: RunId) {
        tx.tail(Tail::Credit(
            self.org,
            CreditChange::settle(self.reserved, self.charged),
        ));
        if self.charged > 0 {
            tx.tail(Tail::Charge(Charge {
                run,
                amount: self.charged,
                excess: self.excess,
            }));
        }
    }
}

/// Column with the holds of a run as JSON, for a statement on `run`. NULL if the run was created without holds.
macro_rules! holds_column {
    () => {
        "CASE WHEN budgeted = 1 THEN (SELECT CAST({JSON_ROWS}({JSON_ROW}(h.org_id, h.scope, h.since, h.starts_at, \
         h.held_micros)) AS TEXT) FROM budget_hold h WHERE h.run_id = run.id) END"
    };
}
pub(crate) use holds_column;

/// Final cost of a run, with the holds that it still has.
pub(crate) struct Held<'a> {
    /// Cost in micros.
    pub(crate) cost: i64,
    /// Text of [`holds_column`].
    pub(crate) holds: Option<&'a str>,
    /// Cost for the credits of the organization, if some were reserved.
    pub(crate) credit: Option<Cost>,
}

/// Runs the statements that settle one run. `held` reads the cost and the holds of the run from the answers.
/// The tail of the transaction deletes the holds, gives their amounts back, adds the cost and charges it. A run without
/// holds and without reserved credits has no tail.
pub(crate) fn settle_one(
    tx: &mut dyn Tx,
    run: RunId,
    statements: &[Stmt<'_>],
    held: impl FnOnce(&[Answer]) -> Result<Held<'_>>,
) -> Result<Vec<Answer>> {
    let answers = tx.batch(statements)?;
    let Held { cost, holds, credit } = held(&answers)?;
    if let Some(credit) = credit {
        credit.charge_to(tx, run);
    }
    let Some(holds) = holds else {
        return Ok(answers);
    };
    let holds: Vec<(OrgId, String, i64, i64, i64)> =
        serde_json::from_str(holds).map_err(|error| Error::Corrupt(error.to_string()))?;
    for (org, scope, since, starts_at, held) in holds {
        let key = WindowKey {
            org,
            scope,
            since,
            starts_at: Timestamp::from_micros(starts_at),
        };
        tx.tail(Tail::Window(key, WindowChange::settle(held, cost)));
    }
    tx.tail(Tail::Release(run));
    Ok(answers)
}

fn give_back(tx: &mut dyn Tx, released: &[Row]) -> Result<()> {
    for row in released {
        let key = WindowKey {
            org: row.parse(0)?,
            scope: row.text(1)?.to_owned(),
            since: row.int(2)?,
            starts_at: row.time(3)?,
        };
        tx.tail(Tail::Window(key, WindowChange::settle(row.int(4)?, row.int(5)?)));
    }
    Ok(())
}
