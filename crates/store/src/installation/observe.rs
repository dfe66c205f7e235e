//! System: figures of the whole database for operators, in one query of bounded cost. It reads the small rows
//! of waiting and held runs through their indexes, and never scans a table that grows with the number of
//! runs.

use std::time::Duration;

use sortie_api::{RunStatus, Timestamp};

use crate::{
    Error, Result, Store,
    db::{Answer, ReadRow, Row, Stmt, Tx, batch, row, select, vals},
};

/// Number at which counts stop.
pub const MOST_COUNTED: u32 = 100_000;

/// Maximum number of organizations for which the oldest waiting run is read.
const ORGANIZATIONS: u32 = 1_000;

/// Current figures of the database. Counts stop at [`MOST_COUNTED`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Number of runs that wait for a worker.
    pub queued: i64,
    /// Time at which the longest waiting run was queued, among the first 1,000 organizations with waiting
    /// runs.
    pub oldest_queued_at: Option<Timestamp>,
    /// Number of runs that a node has claimed but not begun yet.
    pub starting: i64,
    /// Number of runs that a node works on.
    pub running: i64,
    /// Number of cancelled runs for which the worker has not reported the cost yet.
    pub settling: i64,
    /// Time at which the first of these runs was cancelled.
    pub oldest_settling_at: Option<Timestamp>,
    /// Number of callbacks of final runs that are neither delivered nor abandoned.
    pub callbacks_waiting: i64,
    /// Number of these callbacks with an attempt that is due, or that has exceeded its lease. Counts at most
    /// [`MOST_COUNTED`] waiting callbacks.
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
    /// Age of the oldest transaction that keeps dead rows from being cleaned, as far as the user of the database can see
    /// transactions.
    pub oldest_snapshot: Duration,
}

impl Store {
    /// System: returns the numbers of waiting and held runs, and of the nodes, at `at`.
    pub async fn observe(&self, at: Timestamp) -> Result<Observed> {
        self.db.read(move |tx| observe(tx, at)).await
    }

    /// System: returns the dead rows of the database. `None` on `SQLite`, which has none.
    pub async fn dead_rows(&self) -> Result<Option<DeadRows>> {
        let row: Option<DeadRowsRow> = self.db.read(|tx| tx.read_opt("{DEAD_ROWS}", vals![])).await?;
        Ok(row.map(|row| {
            let micros = u64::try_from(row.oldest_snapshot.unwrap_or_default());
            DeadRows {
                queue: row.queue.unwrap_or_default(),
                event: row.event.unwrap_or_default(),
                oldest_snapshot: Duration::from_micros(micros.unwrap_or_default()),
            }
        }))
    }
}

fn observe(tx: &mut dyn Tx, at: Timestamp) -> Result<Observed> {
    let [waiting, oldest, held, callbacks, nodes, late] = batch(tx, &queries(at))?;
    let waiting = WaitingRow::read(only(&waiting)?)?;
    let oldest: Option<Timestamp> = only(&oldest)?.only()?;
    let held = HeldRow::read(only(&held)?)?;
    let callbacks = CallbacksRow::read(only(&callbacks)?)?;
    let nodes = NodesRow::read(only(&nodes)?)?;
    let late = LateRow::read(only(&late)?)?;
    Ok(Observed {
        queued: waiting.queued.min(MOST_COUNTED.into()),
        oldest_queued_at: waiting.oldest_at.into_iter().chain(oldest).min(),
        starting: held.starting,
        running: held.running,
        settling: held.settling,
        oldest_settling_at: held.oldest_settling_at,
        callbacks_waiting: callbacks.waiting,
        callbacks_due: callbacks.due,
        oldest_callback_due_at: callbacks.oldest_due_at.filter(|due| *due <= at),
        nodes: nodes.live,
        lost_nodes: nodes.lost,
        first_lease_until: nodes.first_lease_until,
        late_runs: late.runs,
        oldest_late_run_at: late.oldest_at,
    })
}

/// The one row of an answer.
fn only(answer: &Answer) -> Result<&Row> {
    answer.rows.first().ok_or(Error::NotFound)
}

row! {
    struct DeadRowsRow {
        queue: Option<i64> = "queue",
        event: Option<i64> = "event",
        oldest_snapshot: Option<i64> = "snapshot",
    }
}

row! {
    struct WaitingRow {
        // Runs without retention wait for the one node that has their content, under the node id -1.
        queued: i64 = "(SELECT COUNT(*) FROM (SELECT 1 FROM queue q WHERE q.node_id IS NULL AND q.org_id > '' LIMIT $1) AS counted) \
            + (SELECT COUNT(*) FROM (SELECT 1 FROM queue q WHERE q.node_id = -1 LIMIT $1) AS counted)",
        oldest_at: Option<Timestamp> = "(SELECT q.enqueued_at FROM queue q WHERE q.node_id = -1 ORDER BY q.run_id LIMIT 1)",
    }
}

row! {
    struct HeldRow {
        starting: i64 = "COUNT(CASE WHEN status = $2 THEN 1 END)",
        running: i64 = "COUNT(CASE WHEN status = $3 THEN 1 END)",
        settling: i64 = "COUNT(CASE WHEN status = $4 THEN 1 END)",
        oldest_settling_at: Option<Timestamp> =
            "MIN(CASE WHEN status = $4 THEN (SELECT r.finished_at FROM run r WHERE r.id = counted.run_id) END)",
    }
}

row! {
    struct CallbacksRow {
        waiting: i64 = "COUNT(*)",
        due: i64 = "COUNT(CASE WHEN due_at <= $2 THEN 1 END)",
        oldest_due_at: Option<Timestamp> = "MIN(due_at)",
    }
}

row! {
    struct NodesRow {
        live: i64 = "COUNT(CASE WHEN ended_at IS NULL THEN 1 END)",
        lost: i64 = "COUNT(CASE WHEN ended_at IS NOT NULL \
            AND (SELECT q.run_id FROM queue q WHERE q.node_id = node.id LIMIT 1) IS NOT NULL THEN 1 END)",
        first_lease_until: Option<Timestamp> = "MIN(CASE WHEN ended_at IS NULL THEN lease_until END)",
    }
}

row! {
    struct LateRow {
        runs: i64 = "COUNT(*)",
        oldest_at: Option<Timestamp> = "MIN(created_at)",
    }
}

/// Returns the queries of [`observe`], each of which answers one row.
fn queries(at: Timestamp) -> [Stmt<'static>; 6] {
    [
        Stmt::new(select!(WaitingRow, ""), vals![MOST_COUNTED]),
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
            select!(
                HeldRow,
                " FROM (SELECT q.run_id, (SELECT r.status FROM run r WHERE r.id = q.run_id) AS status \
                 FROM queue q WHERE q.node_id >= 0 LIMIT $1) AS counted"
            ),
            vals![
                MOST_COUNTED,
                RunStatus::Starting,
                RunStatus::Running,
                RunStatus::Cancelled
            ],
        ),
        Stmt::new(
            select!(
                CallbacksRow,
                " FROM (SELECT d.due_at FROM delivery d WHERE d.due_at >= 0 AND d.host > '' LIMIT $1) AS counted"
            ),
            vals![MOST_COUNTED, at],
        ),
        Stmt::new(select!(NodesRow, " FROM node"), vals![]),
        Stmt::new(
            select!(
                LateRow,
                " FROM (SELECT l.created_at FROM late_run l WHERE l.org_id > '' AND l.created_at >= 0 LIMIT $1) AS counted"
            ),
            vals![MOST_COUNTED],
        ),
    ]
}
