//! Cancelling a run, and the final report of its worker. A cancelled run is final at once: later writes of
//! its worker are fenced. `settle_run` records the cost that the worker reports.

use sortie_api::{Micros, OrgId, RunId, RunStatus, RunUsage, Timestamp};

use super::{
    journal::delete_journal,
    listed_run,
    moves::{held, sources},
    run_columns, select_listed_runs, status_event, surcharge, usage_params,
};
use crate::{
    Store,
    db::{Stmt, Tx, vals},
    deliveries::delivery_of_org_is_due,
    money::settle::{SettledAt, settle, settled, settled_columns, settled_unless, within_reserved},
    sealed::delete_run_secrets,
    types::{Cancelled, Error, NewEvent, Result},
};

/// Cost that a worker reports, with the surcharge.
macro_rules! whole_cost {
    () => {
        concat!("CAST($4 AS BIGINT) + ", surcharge!("CAST($4 AS BIGINT)"))
    };
}

impl Store {
    /// Cancels a run that is not final, with its last event. Returns a final run unchanged, without a large
    /// output. A run that a worker holds stays in the queue, with its billing pending, until the worker has reported its cost or
    /// is lost.
    pub async fn cancel_run(&self, org: OrgId, id: RunId, at: Timestamp) -> Result<Cancelled> {
        let event = status_event(RunStatus::Cancelled, None, at)?;
        self.db.write(move |tx| cancel(tx, (org, id), &event)).await
    }

    /// Worker: reports the final cost and usage of a cancelled run. The run leaves the queue. `Fenced` if the
    /// run is not cancelled, is settled already, or is in another attempt.
    pub async fn settle_run(&self, run: RunId, attempt: i64, cost: Micros, usage: RunUsage) -> Result<()> {
        self.db
            .write(move |tx| report(tx, (run, attempt), cost, &usage))
            .await
    }
}

fn cancel(tx: &mut dyn Tx, (org, id): (OrgId, RunId), event: &NewEvent) -> Result<Cancelled> {
    let [a, b, c, d] = sources(RunStatus::Cancelled)?;
    let mut change = vals![org, id, RunStatus::Cancelled, event.at];
    change.extend([a, b, c, d]);
    change.extend(held()?);
    let answers = settle(
        tx,
        &[
            // Deletes the row of a run that no node holds. Nobody can claim the run after this statement, so
            // it stays held or free. The COALESCE keeps the planner from the index of waiting runs, where it
            // would walk all runs of the organization.
            Stmt::new(
                "DELETE FROM queue WHERE run_id = $2 AND org_id = $1 AND COALESCE(node_id, -1) < 0",
                vals![org, id],
            ),
            // Marks a run that a worker holds. The watch of its node finds the mark.
            Stmt::new(
                "UPDATE queue SET stopping = 1 WHERE run_id = $2 AND org_id = $1 AND COALESCE(node_id, -1) >= 0",
                vals![org, id],
            ),
            Stmt::new(
                concat!(
                    "UPDATE run SET status = $3, outcome = $3, finished_at = $4, \
                     clock_cancelled_at = COALESCE({NOW}, $4), ",
                    settled_unless!("$9, $10, $11, $12"),
                    ", last_event = last_event + 1 \
                     WHERE id = $2 AND org_id = $1 AND status IN ($5, $6, $7, $8) RETURNING ",
                    settled_columns!("cost_micros")
                ),
                change,
            ),
            // Only the update above leaves a run whose last event is not recorded.
            Stmt::new(
                "INSERT INTO event (run_id, seq, kind, data, created_at) \
                 SELECT r.id, r.last_event, $3, $4, CAST($5 AS BIGINT) FROM run r WHERE r.id = $2 AND r.org_id = $1 \
                 AND r.zero_data_retention = 0 \
                 AND (SELECT e.seq FROM event e WHERE e.run_id = r.id AND e.seq = r.last_event) IS NULL",
                vals![org, id, event.kind, event.data.as_str(), event.at],
            ),
            // A worker that holds the run may need its credentials until the run is settled.
            Stmt::new(
                "DELETE FROM run_secret WHERE run_id = $2 \
                 AND (SELECT r.id FROM run r WHERE r.id = $2 AND r.org_id = $1) IS NOT NULL \
                 AND (SELECT q.run_id FROM queue q WHERE q.run_id = $2) IS NULL",
                vals![org, id],
            ),
            delivery_of_org_is_due(org, id, event.at),
            Stmt::new(
                concat!(select_listed_runs!(), "r.id = $2 AND r.org_id = $1"),
                vals![org, id],
            )
            .exactly(1, Error::NotFound),
        ],
        &[SettledAt {
            statement: 2,
            column: 0,
        }],
    )?;
    let row = answers.last().and_then(|found| found.rows.first());
    let listed = listed_run(row.ok_or(Error::NotFound)?)?;
    Ok(if answers.get(2).is_some_and(|changed| changed.affected == 1) {
        Cancelled::Now(listed.run)
    } else {
        Cancelled::AlreadyFinal(listed)
    })
}

fn report(tx: &mut dyn Tx, (run, attempt): (RunId, i64), cost: Micros, usage: &RunUsage) -> Result<()> {
    let mut change = vals![run, attempt, RunStatus::Cancelled, cost];
    change.extend(usage_params(usage));
    settle(
        tx,
        &[
            Stmt::new("DELETE FROM queue WHERE run_id = $1", vals![run]),
            Stmt::new(
                concat!(
                    "UPDATE run SET cost_micros = ",
                    within_reserved!(whole_cost!()),
                    ", surcharge_micros = ",
                    within_reserved!(surcharge!("CAST($4 AS BIGINT)")),
                    ", ",
                    settled!(),
                    ", input_tokens = $5, output_tokens = $6, \
                     cache_read_tokens = $7, cache_write_tokens = $8, model_calls = $9, tool_calls = $10 \
                     WHERE id = $1 AND attempt = $2 AND status = $3 AND billing_pending = 1 RETURNING ",
                    settled_columns!(whole_cost!())
                ),
                change,
            )
            .exactly(1, Error::Fenced),
            delete_journal(run),
            delete_run_secrets(run),
        ],
        &[SettledAt {
            statement: 1,
            column: 0,
        }],
    )
    .map(drop)
}
