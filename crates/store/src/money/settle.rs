//! Settlement: the cost of a run becomes final, and its holds are given back.
//!
//! `run.billing_pending` is 1 until the run is settled. Every statement that clears it takes its assignment from here and
//! goes through [`settle`], so no run is settled and keeps a hold.

use sortie_api::{OrgId, RunId};

use crate::{
    db::{
        Answer, Row, Stmt, Tx,
        tail::{Tail, WindowChange, WindowKey},
        vals,
    },
    types::Result,
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

/// Runs the statements that settle these runs, and releases their holds in the same batch. The tail of the transaction gives
/// back what was held and adds what the runs cost. Returns the answers to the statements.
pub(crate) fn settle<'a>(
    tx: &mut dyn Tx,
    runs: Settled<'a>,
    mut statements: Vec<Stmt<'a>>,
) -> Result<Vec<Answer>> {
    let released = statements.len();
    statements.push(runs.release());
    let mut answers = tx.batch(&statements)?;
    for answer in answers.drain(released..) {
        give_back(tx, &answer.rows)?;
    }
    Ok(answers)
}

/// Runs the statements that settle one run, and releases its holds. `has_holds` tells from the answers
/// whether the run has any. A run without holds is settled in one batch that does not look for them.
pub(crate) fn settle_one(
    tx: &mut dyn Tx,
    run: RunId,
    statements: &[Stmt<'_>],
    has_holds: impl FnOnce(&[Answer]) -> Result<bool>,
) -> Result<Vec<Answer>> {
    let answers = tx.batch(statements)?;
    if has_holds(&answers)? {
        settle(tx, Settled::One(run), Vec::new())?;
    }
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
