//! System: `interrupt_lost`, the end of runs whose worker is gone.

use sortie_api::{OrgId, RunId, RunStatus, Timestamp, event::EventType};

use super::{json_ids, moves::held, status_event, stored};
use crate::{
    Store,
    db::{Row, Stmt, Tx, batch, vals},
    types::{NewEvent, Result},
};

/// What a client reads in `error`.
const REASON: &str = "the worker that ran it was lost";

impl Store {
    /// System: ends the runs of nodes whose lease is over as `interrupted`, at most `limit`; the organizations and ids of those ended.
    pub async fn interrupt_lost(&self, at: Timestamp, limit: u32) -> Result<Vec<(OrgId, RunId)>> {
        let lost = stored(
            &EventType::Interrupted {
                reason: "worker_lost",
                step: 0,
            },
            at,
        )?;
        let ended = status_event(RunStatus::Interrupted, Some(REASON), at)?;
        self.db.write(move |tx| interrupt(tx, limit, &lost, &ended)).await
    }
}

fn interrupt(tx: &mut dyn Tx, limit: u32, lost: &NewEvent, ended: &NewEvent) -> Result<Vec<(OrgId, RunId)>> {
    let at = ended.at;
    let [_, _, _, found] = batch(
        tx,
        &[
            // The lock of all that hands out runs, so that no node claims while it is declared lost. It is not
            // taken where no node is lost.
            Stmt::new(
                "UPDATE dispatch SET turn = turn + 1 WHERE id = 1 AND EXISTS \
                 (SELECT 1 FROM node WHERE ended_at IS NOT NULL OR lease_until < $1)",
                vals![at],
            ),
            Stmt::new(
                "UPDATE node SET ended_at = $1 WHERE ended_at IS NULL AND lease_until < $1",
                vals![at],
            ),
            Stmt::new(
                "DELETE FROM node WHERE ended_at IS NOT NULL \
                 AND (SELECT q.run_id FROM queue q WHERE q.node_id = node.id LIMIT 1) IS NULL",
                vals![],
            ),
            Stmt::new(
                "SELECT run_id FROM queue \
                 WHERE node_id {IN}SELECT id FROM node WHERE ended_at IS NOT NULL{END} LIMIT $1",
                vals![limit],
            ),
        ],
    )?;
    if found.rows.is_empty() {
        return Ok(Vec::new());
    }
    end(tx, &json_ids(&found.rows)?, lost, ended)
}

fn end(tx: &mut dyn Tx, ids: &str, lost: &NewEvent, ended: &NewEvent) -> Result<Vec<(OrgId, RunId)>> {
    // A worker that was only slow may have ended its run meanwhile: what is deleted here was still held.
    let deleted = tx.query_all(
        "DELETE FROM queue WHERE run_id {IN}SELECT value FROM {JSON_EACH}($1){END} RETURNING run_id",
        vals![ids],
    )?;
    let ids = json_ids(&deleted)?;
    let mut change = vals![ids.as_str(), RunStatus::Interrupted, ended.at, REASON];
    change.extend(held()?);
    let record = |seq_from_last: i64, event: &NewEvent| {
        Stmt::new(
            "INSERT INTO event (run_id, seq, kind, data, created_at) \
             SELECT id, last_event + CAST($2 AS BIGINT), $3, $4, CAST($5 AS BIGINT) FROM run \
             WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END}",
            vals![
                ids.as_str(),
                seq_from_last,
                event.kind,
                event.data.clone(),
                event.at
            ],
        )
    };
    let [changed, _, _] = batch(
        tx,
        &[
            Stmt::new(
                "UPDATE run SET status = $2, outcome = $2, finished_at = $3, error = $4, \
                 billing_pending = 0, last_event = last_event + 2 \
                 WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END} AND status IN ($5, $6, $7, $8) \
                 RETURNING org_id, id",
                change,
            ),
            record(-1, lost),
            record(0, ended),
        ],
    )?;
    changed.rows.iter().map(ended_from).collect()
}

fn ended_from(row: &Row) -> Result<(OrgId, RunId)> {
    Ok((row.parse(0)?, row.parse(1)?))
}
