//! `cancel_run`: final at once, whatever the worker does; the worker meets its fence.

use sortie_api::{OrgId, RunId, RunStatus, Timestamp};

use super::{moves::sources, run_columns, run_with_output, select_runs, status_event};
use crate::{
    Store,
    db::{Stmt, Tx, batch, vals},
    types::{Cancelled, Error, NewEvent, Result},
};

impl Store {
    /// Cancels a run that is not final, with its last event; a final one is returned unchanged.
    pub async fn cancel_run(&self, org: OrgId, id: RunId, at: Timestamp) -> Result<Cancelled> {
        let event = status_event(RunStatus::Cancelled, None, at)?;
        self.db.write(move |tx| cancel(tx, (org, id), &event)).await
    }
}

fn cancel(tx: &mut dyn Tx, (org, id): (OrgId, RunId), event: &NewEvent) -> Result<Cancelled> {
    let [a, b, c, d] = sources(RunStatus::Cancelled)?;
    let mut change = vals![org, id, RunStatus::Cancelled, event.at];
    change.extend([a, b, c, d]);
    let [_, changed, _, found] = batch(
        tx,
        &[
            Stmt::new(
                "DELETE FROM queue WHERE run_id = $2 AND org_id = $1",
                vals![org, id],
            ),
            Stmt::new(
                "UPDATE run SET status = $3, outcome = $3, finished_at = $4, billing_pending = 0, \
                 last_event = last_event + 1 \
                 WHERE id = $2 AND org_id = $1 AND status IN ($5, $6, $7, $8)",
                change,
            ),
            // Only the update above leaves a run whose last event is not recorded.
            Stmt::new(
                "INSERT INTO event (run_id, seq, kind, data, created_at) \
                 SELECT r.id, r.last_event, $3, $4, CAST($5 AS BIGINT) FROM run r WHERE r.id = $2 AND r.org_id = $1 \
                 AND (SELECT e.seq FROM event e WHERE e.run_id = r.id AND e.seq = r.last_event) IS NULL",
                vals![org, id, event.kind, event.data.as_str(), event.at],
            ),
            Stmt::new(
                concat!(select_runs!(), "r.id = $2 AND r.org_id = $1"),
                vals![org, id],
            )
            .exactly(1, Error::NotFound),
        ],
    )?;
    let row = found.rows.first().ok_or(Error::NotFound)?;
    let run = run_with_output(row)?;
    Ok(if changed.affected == 1 {
        Cancelled::Now(run)
    } else {
        Cancelled::AlreadyFinal(run)
    })
}
