//! System: what operators watch of the whole database, in one query of bounded cost: it reads the thin rows of what waits or
//! is held, through their indexes, and never a table that grows with the number of runs.

use sortie_api::{RunStatus, Timestamp};

use crate::{
    Store,
    db::{Stmt, Tx, batch, vals},
    types::Result,
};

/// Counts stop here.
pub const MOST_COUNTED: u32 = 100_000;

/// Organizations whose oldest waiting run is looked at.
const ORGANIZATIONS: u32 = 1_000;

/// What is in the database now. Counts stop at [`MOST_COUNTED`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Runs that wait for a worker.
    pub queued: i64,
    /// When the one that waits longest was queued: of the first 1,000 organizations that have some waiting.
    pub oldest_queued_at: Option<Timestamp>,
    /// Runs that a node has claimed and not begun yet.
    pub starting: i64,
    /// Runs that a node works on.
    pub running: i64,
    /// Runs that were cancelled under their worker, which has not told their cost yet.
    pub settling: i64,
    /// Callbacks of final runs that are not delivered and not given up.
    pub callbacks_waiting: i64,
    /// Those of them whose next attempt is due, or under way beyond its lease: of any [`MOST_COUNTED`] that wait.
    pub callbacks_due: i64,
    /// When the attempt was due that is due for longest: of those same ones.
    pub oldest_callback_due_at: Option<Timestamp>,
    /// Nodes whose lease was not declared over.
    pub nodes: i64,
    /// Nodes that were declared lost and still hold runs.
    pub lost_nodes: i64,
    /// When the first lease of a node ends that is not declared lost.
    pub first_lease_until: Option<Timestamp>,
}

impl Store {
    /// System: what waits, what is held and by how many nodes, at `at`.
    pub async fn observe(&self, at: Timestamp) -> Result<Observed> {
        self.db.read(move |tx| observe(tx, at)).await
    }
}

fn observe(tx: &mut dyn Tx, at: Timestamp) -> Result<Observed> {
    let [waiting, oldest, held, callbacks, nodes] = batch(
        tx,
        &[
            // Runs without retention wait for the one node that has their content, under the node id -1.
            Stmt::new(
                "SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM queue q WHERE q.node_id IS NULL AND q.org_id > '' LIMIT $1) AS counted) \
                 + (SELECT COUNT(*) FROM (SELECT 1 FROM queue q WHERE q.node_id = -1 LIMIT $1) AS counted), \
                 (SELECT q.enqueued_at FROM queue q WHERE q.node_id = -1 ORDER BY q.run_id LIMIT 1)",
                vals![MOST_COUNTED],
            ),
            // From organization to organization through the index of waiting runs.
            Stmt::new(
                "WITH RECURSIVE waiting (org_id, number) AS (\
                   SELECT (SELECT q.org_id FROM queue q WHERE q.node_id IS NULL AND q.org_id > '' \
                     ORDER BY q.org_id LIMIT 1), 1 \
                   UNION ALL \
                   SELECT (SELECT q.org_id FROM queue q WHERE q.node_id IS NULL AND q.org_id > w.org_id \
                     ORDER BY q.org_id LIMIT 1), w.number + 1 \
                   FROM waiting w WHERE w.org_id IS NOT NULL AND w.number < $1) \
                 SELECT MIN(oldest) FROM (\
                   SELECT (SELECT q.enqueued_at FROM queue q WHERE q.node_id IS NULL AND q.org_id = w.org_id \
                     ORDER BY q.org_id, q.enqueued_at, q.run_id LIMIT 1) AS oldest \
                   FROM waiting w WHERE w.org_id IS NOT NULL) AS found",
                vals![ORGANIZATIONS],
            ),
            Stmt::new(
                "SELECT COUNT(CASE WHEN status = $2 THEN 1 END), COUNT(CASE WHEN status = $3 THEN 1 END), \
                 COUNT(CASE WHEN status = $4 THEN 1 END) FROM (\
                   SELECT (SELECT r.status FROM run r WHERE r.id = q.run_id) AS status \
                   FROM queue q WHERE q.node_id >= 0 LIMIT $1) AS counted",
                vals![
                    MOST_COUNTED,
                    RunStatus::Starting,
                    RunStatus::Running,
                    RunStatus::Cancelled
                ],
            ),
            Stmt::new(
                "SELECT COUNT(*), COUNT(CASE WHEN due_at <= $2 THEN 1 END), MIN(due_at) FROM (\
                   SELECT d.due_at FROM delivery d WHERE d.due_at >= 0 AND d.host > '' LIMIT $1) AS counted",
                vals![MOST_COUNTED, at],
            ),
            Stmt::new(
                "SELECT COUNT(CASE WHEN ended_at IS NULL THEN 1 END), COUNT(CASE WHEN ended_at IS NOT NULL \
                   AND (SELECT q.run_id FROM queue q WHERE q.node_id = node.id LIMIT 1) IS NOT NULL THEN 1 END), \
                 MIN(CASE WHEN ended_at IS NULL THEN lease_until END) FROM node",
                vals![],
            ),
        ],
    )?;
    let mut observed = Observed::default();
    if let [row] = &waiting.rows[..] {
        observed.queued = row.int(0)?.min(MOST_COUNTED.into());
        observed.oldest_queued_at = row.opt_time(1)?;
    }
    if let [row] = &oldest.rows[..] {
        let others = row.opt_time(0)?;
        observed.oldest_queued_at = observed.oldest_queued_at.into_iter().chain(others).min();
    }
    if let [row] = &held.rows[..] {
        observed.starting = row.int(0)?;
        observed.running = row.int(1)?;
        observed.settling = row.int(2)?;
    }
    if let [row] = &callbacks.rows[..] {
        observed.callbacks_waiting = row.int(0)?;
        observed.callbacks_due = row.int(1)?;
        observed.oldest_callback_due_at = row.opt_time(2)?.filter(|due| *due <= at);
    }
    if let [row] = &nodes.rows[..] {
        observed.nodes = row.int(0)?;
        observed.lost_nodes = row.int(1)?;
        observed.first_lease_until = row.opt_time(2)?;
    }
    Ok(observed)
}
