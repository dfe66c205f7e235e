//! System: figures of the whole database for operators, in one query of bounded cost. It reads the small rows
//! of waiting and held runs through their indexes, and never scans a table that grows with the number of
//! runs.

use std::time::Duration;

use sortie_api::{RunStatus, Timestamp};

use crate::{
    Result, Store,
    db::{Stmt, Tx, batch, vals},
};

/// Number at which counts stop.
pub const MOST_COUNTED: u32 = 100_000;

/// Number of organizations whose oldest waiting run is looked at.
const ORGANIZATIONS: u32 = 1_000;

/// Current figures of the database. Counts stop at [`MOST_COUNTED`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Number of runs that wait for a worker.
    pub queued: i64,
    /// Time at which the longest waiting run was queued, among the first 1,000 organizations with waiting
    /// runs.
    pub oldest_queued_at: Option<Timestamp>,
    /// Number of runs that a node has claimed and not begun yet.
    pub starting: i64,
    /// Number of runs that a node works on.
    pub running: i64,
    /// Number of cancelled runs whose worker has not reported their cost yet.
    pub settling: i64,
    /// Time at which the first of these runs was cancelled.
    pub oldest_settling_at: Option<Timestamp>,
    /// Number of callbacks of final runs that are neither delivered nor abandoned.
    pub callbacks_waiting: i64,
    /// Number of these callbacks whose next attempt is due, or under way beyond its lease. At most
    /// [`MOST_COUNTED`] waiting callbacks are looked at.
    pub callbacks_due: i64,
    /// Due time of the attempt that is due for longest, among these callbacks.
    pub oldest_callback_due_at: Option<Timestamp>,
    /// Number of nodes that were not declared lost.
    pub nodes: i64,
    /// Number of nodes that were declared lost and still hold runs.
    pub lost_nodes: i64,
    /// Earliest end of the lease of a node that was not declared lost.
    pub first_lease_until: Option<Timestamp>,
    /// Number of runs that were left out of the usage of their hour and are not counted yet.
    pub late_runs: i64,
    /// Creation time of the oldest of these runs, among the first [`MOST_COUNTED`].
    pub oldest_late_run_at: Option<Timestamp>,
}

/// Dead rows of the database, which a vacuum cleans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadRows {
    /// Number of dead rows of `queue`.
    pub queue: i64,
    /// Number of dead rows of `event`.
    pub event: i64,
    /// Age of the oldest transaction that keeps dead rows from being cleaned, among those that the user of the database can
    /// see.
    pub oldest_snapshot: Duration,
}

impl Store {
    /// System: returns what waits at `at`, what is held, and by how many nodes.
    pub async fn observe(&self, at: Timestamp) -> Result<Observed> {
        self.db.read(move |tx| observe(tx, at)).await
    }

    /// System: returns the dead rows of the database. `None` on `SQLite`, which has none.
    pub async fn dead_rows(&self) -> Result<Option<DeadRows>> {
        let row = self.db.read(|tx| tx.query_opt("{DEAD_ROWS}", vals![])).await?;
        row.map(|row| {
            let micros = u64::try_from(row.opt_int(2)?.unwrap_or_default()).unwrap_or_default();
            Ok(DeadRows {
                queue: row.opt_int(0)?.unwrap_or_default(),
                event: row.opt_int(1)?.unwrap_or_default(),
                oldest_snapshot: Duration::from_micros(micros),
            })
        })
        .transpose()
    }
}

fn observe(tx: &mut dyn Tx, at: Timestamp) -> Result<Observed> {
    let [waiting, oldest, held, callbacks, nodes, late] = batch(tx, &queries(at))?;
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
        observed.oldest_settling_at = row.opt_time(3)?;
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
    if let [row] = &late.rows[..] {
        observed.late_runs = row.int(0)?;
        observed.oldest_late_run_at = row.opt_time(1)?;
    }
    Ok(observed)
}

/// Returns the queries of [`observe`], each of which answers one row.
fn queries(at: Timestamp) -> [Stmt<'static>; 6] {
    [
        // Runs without retention wait for the one node that has their content, under the node id -1.
        Stmt::new(
            "SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM queue q WHERE q.node_id IS NULL AND q.org_id > '' LIMIT $1) AS counted) \
             + (SELECT COUNT(*) FROM (SELECT 1 FROM queue q WHERE q.node_id = -1 LIMIT $1) AS counted), \
             (SELECT q.enqueued_at FROM queue q WHERE q.node_id = -1 ORDER BY q.run_id LIMIT 1)",
            vals![MOST_COUNTED],
        ),
        // Jumps from organization to organization through the index of waiting runs.
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
             COUNT(CASE WHEN status = $4 THEN 1 END), \
             MIN(CASE WHEN status = $4 THEN (SELECT r.finished_at FROM run r WHERE r.id = counted.run_id) END) FROM (\
               SELECT q.run_id, (SELECT r.status FROM run r WHERE r.id = q.run_id) AS status \
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
        Stmt::new(
            "SELECT COUNT(*), MIN(created_at) FROM (\
               SELECT l.created_at FROM late_run l WHERE l.org_id > '' AND l.created_at >= 0 LIMIT $1) AS counted",
            vals![MOST_COUNTED],
        ),
    ]
}
