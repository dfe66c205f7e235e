//! Runs of lost nodes, for the sweep that ends and resumes them.

use sortie_api::RunStatus;

use super::takeover::MAX_TAKEOVERS;
use crate::{
    Error, Result,
    db::{Row, Stmt, Tx, batch, filled, row, select, vals},
    nodes::{LOCK, micros},
    runs::Sweep,
};

row! {
    /// Run that a lost node holds. Neither its id nor its status is parsed: one that is damaged is found as well.
    pub(super) struct LostRun {
        pub(super) run: String = "q.run_id",
        pub(super) status: Option<String> = "(SELECT r.status FROM run r WHERE r.id = q.run_id)",
    }
}

/// Query for runs `r` that satisfy `@which` and are held by a node that was declared lost or deregistered. The nodes are
/// found by jumping through the index of held runs. Ids of nodes are never negative. The runs are in the order of that
/// index: otherwise PostgreSQL walks all held runs if the table was small when it was last analyzed.
const LOST_RUNS: &str = constcat::concat!(
    "WITH RECURSIVE holder (node_id) AS (\
       SELECT (SELECT q.node_id FROM queue q WHERE q.node_id >= 0 ORDER BY q.node_id, q.run_id LIMIT 1) \
       UNION ALL \
       SELECT (SELECT q.node_id FROM queue q WHERE q.node_id > h.node_id \
         ORDER BY q.node_id, q.run_id LIMIT 1) FROM holder h WHERE h.node_id IS NOT NULL) ",
    select!(LostRun, " FROM queue q "),
    "WHERE q.node_id {IN}SELECT h.node_id FROM holder h WHERE h.node_id IS NOT NULL \
       AND (SELECT n.id FROM node n WHERE n.id = h.node_id AND n.ended_at IS NULL) IS NULL{END} \
     AND (SELECT r.id FROM run r WHERE r.id = q.run_id AND @which) IS NOT NULL \
     AND NOT q.run_id {IN}SELECT value FROM {JSON_EACH}($4){END} ORDER BY q.node_id, q.run_id LIMIT $1"
);

/// Runs to end or to settle. A run without retention usually ends with its content, see [`GONE`]. It is found
/// here only if its content was forgotten before.
const TO_END: &str = filled!(
    LOST_RUNS,
    "@which" = "CASE WHEN r.zero_data_retention = 0 THEN r.status = $2 OR r.resumes >= $3 \
     ELSE (SELECT u.run_id FROM unretained u WHERE u.run_id = r.id) IS NULL END"
);

/// Runs to resume.
const TO_TAKE: &str = filled!(
    LOST_RUNS,
    "@which" = "r.zero_data_retention = 0 AND r.status <> $2 AND r.resumes < $3"
);

/// Runs without retention that a lost node leaves and that hold no answer: they run, they wait, or they have ended without
/// an answer. A held answer stays with the node until it expires, because the process of the node may still be alive.
const GONE: &str = "WITH RECURSIVE holder (node_id) AS (\
   SELECT (SELECT u.node_id FROM unretained u WHERE u.node_id >= 0 ORDER BY u.node_id, u.run_id LIMIT 1) \
   UNION ALL \
   SELECT (SELECT u.node_id FROM unretained u WHERE u.node_id > h.node_id \
     ORDER BY u.node_id, u.run_id LIMIT 1) FROM holder h WHERE h.node_id IS NOT NULL) \
 SELECT u.run_id FROM unretained u \
 WHERE u.node_id {IN}SELECT h.node_id FROM holder h WHERE h.node_id IS NOT NULL \
   AND (SELECT n.id FROM node n WHERE n.id = h.node_id AND n.ended_at IS NULL) IS NULL{END} \
   AND (SELECT r.id FROM run r WHERE r.id = u.run_id \
     AND (r.output_expires_at IS NULL OR r.output_expires_at <= $2)) IS NOT NULL \
   AND NOT u.run_id {IN}SELECT value FROM {JSON_EACH}($3){END} \
 ORDER BY u.node_id, u.run_id LIMIT $1";

/// Condition for nodes to declare lost. Their lease is listed in `$1`, so it was not renewed since the
/// sweeping node has seen it. It has expired by the clock that leases are counted on, and the lease of the
/// sweeping node has not.
const OVERDUE: &str = "id >= 0 AND ended_at IS NULL AND id <> $4 \
    AND CAST(id AS TEXT) || ':' || CAST(lease_until AS TEXT) {IN}SELECT value FROM {JSON_EACH}($1){END} \
    AND (lease_until < COALESCE({CLOCK}, $2) OR lease_until > COALESCE({CLOCK}, $2) + CAST($3 AS BIGINT)) \
    AND (SELECT s.id FROM node s WHERE s.id = $4 AND s.ended_at IS NULL \
      AND s.lease_until >= COALESCE({CLOCK}, $2)) IS NOT NULL";

/// No runs, as a JSON array.
pub(super) const NONE: &str = "[]";

/// Declares nodes lost, deletes lost nodes that hold nothing, and finds runs of the others: runs to end, runs to take over
/// and runs with lost content. Those of `skipped`, a JSON array, are left out. `None` if there is nothing to do.
pub(super) fn lost_runs(tx: &mut dyn Tx, sweep: &Sweep, skipped: &str) -> Result<Option<[Vec<Row>; 3]>> {
    let overdue: Vec<String> = sweep
        .overdue
        .iter()
        .map(|seen| format!("{}:{}", seen.node.0, seen.lease_until.as_micros()))
        .collect();
    let overdue = json(&overdue)?;
    let declared = || {
        vals![
            overdue.as_str(),
            sweep.at,
            micros(sweep.lease.saturating_mul(2)),
            sweep.node
        ]
    };
    let find = |sql, limit| Stmt::new(sql, vals![limit, RunStatus::Cancelled, MAX_TAKEOVERS, skipped]);
    let gone = || Stmt::new(GONE, vals![sweep.limit, sweep.at, skipped]);
    let [locked, to_end, to_take, content] = batch(
        tx,
        &[
            // The lock of claims, so that no node claims while it is declared lost. It is taken only if a node is lost.
            Stmt::new(
                constcat::concat!(
                    "UPDATE dispatch SET turn = turn + 1 WHERE id = 1 AND EXISTS \
                     (SELECT 1 FROM node WHERE (ended_at IS NOT NULL \
                       AND (SELECT u.run_id FROM unretained u WHERE u.node_id = node.id LIMIT 1) IS NULL) OR (",
                    OVERDUE,
                    "))"
                ),
                declared(),
            ),
            find(TO_END, sweep.limit),
            find(TO_TAKE, sweep.places),
            gone(),
        ],
    )?;
    let found = [&to_end, &to_take, &content];
    if locked.affected == 0 && found.iter().all(|found| found.rows.is_empty()) {
        return Ok(None);
    }
    // Searches again under the lock. The first statement did not take it if the only runs found are those of an unregistered
    // node. Each run found now is given to one node only.
    let [_, _, _, to_end, to_take, content] = batch(
        tx,
        &[
            Stmt::new(LOCK, vals![]),
            Stmt::new(
                constcat::concat!("UPDATE node SET ended_at = $2 WHERE ", OVERDUE),
                declared(),
            ),
            Stmt::new(
                // A node with content stays: the next process of its name abandons the content that only this one had.
                "DELETE FROM node WHERE ended_at IS NOT NULL \
                 AND (SELECT q.run_id FROM queue q WHERE q.node_id = node.id LIMIT 1) IS NULL \
                 AND (SELECT u.run_id FROM unretained u WHERE u.node_id = node.id LIMIT 1) IS NULL",
                vals![],
            ),
            find(TO_END, sweep.limit),
            find(TO_TAKE, sweep.places),
            gone(),
        ],
    )?;
    Ok(Some([to_end.rows, to_take.rows, content.rows]))
}

/// A JSON array of texts.
pub(super) fn json(texts: &[String]) -> Result<String> {
    serde_json::to_string(texts).map_err(|error| Error::Corrupt(error.to_string()))
}
