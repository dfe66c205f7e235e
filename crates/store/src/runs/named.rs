//! System: unattended runs, by name. `unattended` finds them, `take_named` takes one over. An engine that serves one
//! command leaves them if it dies, and other nodes do not look for them.

use sortie_api::{RunId, RunStatus, Timestamp};

use super::{
    json_ids,
    takeover::{MAX_TAKEOVERS, take_over},
};
use crate::{
    Error, Result, Store,
    db::{Row, vals},
    nodes::{LOCK, NodeId},
    runs::Claim,
};

/// Condition for a run in the queue that a lost node holds. The COALESCE keeps the planner from the index of held
/// runs, which it would walk.
const HOLDER_IS_LOST: &str = "COALESCE(q.node_id, -1) >= 0 \
    AND (SELECT n.id FROM node n WHERE n.id = q.node_id AND n.ended_at IS NULL) IS NULL";

impl Store {
    /// System: takes over `run` for `node` if a lost node holds it and it may be resumed. [`sweep`](Self::sweep) ends
    /// runs that were resumed too often. `Fenced` if `node` was declared lost.
    pub async fn take_named(&self, node: NodeId, run: RunId, at: Timestamp) -> Result<Option<Claim>> {
        self.db
            .write(move |tx| {
                // Claims take this lock too, so only one node gets the run.
                tx.exec(LOCK, vals![])?;
                let lost = tx.query_all(
                    constcat::concat!(
                        "SELECT q.run_id FROM queue q WHERE q.run_id = $1 AND ",
                        HOLDER_IS_LOST,
                        " AND (SELECT r.id FROM run r WHERE r.id = q.run_id AND r.zero_data_retention = 0 \
                          AND r.status <> $2 AND r.resumes < $3) IS NOT NULL"
                    ),
                    vals![run, RunStatus::Cancelled, MAX_TAKEOVERS],
                )?;
                if lost.is_empty() {
                    return Ok(None);
                }
                Ok(take_over(tx, node, &json_ids(&lost)?, at)?.pop())
            })
            .await
    }

    /// System: returns those of `runs` that a lost node holds. Includes waiting runs if no other node is alive: `node`
    /// itself serves only named runs.
    pub async fn unattended(&self, node: NodeId, runs: Vec<RunId>) -> Result<Vec<RunId>> {
        let ids = serde_json::to_string(&runs).map_err(|error| Error::Corrupt(error.to_string()))?;
        let rows = self
            .db
            .read(move |tx| {
                // Every id of a node is positive. The condition repeats that, so that the planner can use the index.
                tx.query_all(
                    constcat::concat!(
                        "SELECT q.run_id FROM queue q WHERE q.run_id {IN}SELECT value FROM {JSON_EACH}($1){END} AND ((",
                        HOLDER_IS_LOST,
                        ") OR (q.node_id IS NULL AND (SELECT o.id FROM node o WHERE o.id >= 0 AND o.id <> $2 \
                          AND o.ended_at IS NULL LIMIT 1) IS NULL))"
                    ),
                    vals![ids.as_str(), node],
                )
            })
            .await?;
        rows.iter().map(Row::only).collect()
    }
}
