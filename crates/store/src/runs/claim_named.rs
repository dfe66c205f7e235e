//! System: `claim_named` claims runs that other nodes must not take. These are the runs of an engine that
//! serves one command, and runs with content that only this node has.

use sortie_api::{RunId, RunStatus, Timestamp};

use super::{claim::begin_runs, json_ids, status_event};
use crate::{
    Error, Result, Store,
    db::{Stmt, batch, vals},
    nodes::NodeId,
    runs::Claim,
};

impl Store {
    /// System: claims those of `runs` that wait, for `node`. It works like [`claim_runs`](Self::claim_runs),
    /// but does not serve organizations in turn. `per_organization` is exact if `runs` has at most one run of
    /// each organization. `Fenced` if the node was declared lost. If `node` has claimed a run without
    /// retention but not begun it, the run is returned again: the answer to the first claim was lost, and
    /// only this node has the content.
    pub async fn claim_named(
        &self,
        node: NodeId,
        runs: Vec<RunId>,
        per_organization: Option<u32>,
        at: Timestamp,
    ) -> Result<Vec<Claim>> {
        let event = status_event(RunStatus::Starting, None, at)?;
        let ids = serde_json::to_string(&runs).map_err(|error| Error::Corrupt(error.to_string()))?;
        self.db
            .write(move |tx| {
                let [_, _, claimed, taken] = batch(
                    tx,
                    &[
                        // The lock of claims: no node claims while it is declared lost. Only a statement
                        // after this one sees the changes of the previous holder of the lock.
                        Stmt::new("UPDATE dispatch SET turn = turn + 1 WHERE id = 1", vals![]),
                        Stmt::new(
                            "SELECT 1 FROM node WHERE id = $1 AND ended_at IS NULL",
                            vals![node],
                        )
                        .exactly(1, Error::Fenced),
                        Stmt::new(
                            "SELECT q.run_id FROM queue q WHERE q.run_id {IN}SELECT value FROM {JSON_EACH}($1){END} \
                             AND COALESCE(q.node_id, -1) = $2 AND (SELECT r.id FROM run r WHERE r.id = q.run_id \
                               AND r.zero_data_retention = 1 AND r.status = $3) IS NOT NULL",
                            vals![ids.as_str(), node, RunStatus::Starting],
                        ),
                        // The COALESCE keeps the planner from walking the index of waiting runs.
                        Stmt::new(
                            "UPDATE queue SET node_id = $2 WHERE COALESCE(node_id, -1) = -1 \
                             AND (SELECT o.suspended_at FROM organization o WHERE o.id = queue.org_id) IS NULL \
                             AND run_id {IN}SELECT value FROM {JSON_EACH}($1){END} \
                             AND (CAST($3 AS BIGINT) = 0 OR (SELECT COUNT(*) FROM (SELECT 1 FROM queue c \
                               WHERE c.org_id = queue.org_id AND c.node_id IS NOT NULL \
                               AND COALESCE(c.node_id, -1) >= 0 LIMIT $3) AS counted) < $3) \
                             RETURNING run_id",
                            vals![ids.as_str(), node, per_organization.unwrap_or(0)],
                        ),
                    ],
                )?;
                begin_runs(tx, &json_ids(claimed.rows.iter().chain(&taken.rows))?, &event)
            })
            .await
    }
}
