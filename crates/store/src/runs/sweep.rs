//! System: the end of runs whose worker is gone. `interrupt_lost` for those of lost nodes, `interrupt_held` for those
//! that a node holds and does not work on.

use sortie_api::{Micros, OrgId, RunId, RunStatus, Timestamp, event::EventType};

use super::{json_ids, moves::held, status_event, stored};
use crate::{
    Store,
    db::{Row, Stmt, Tx, Val, batch, vals},
    types::{Error, Expired, Held, NewEvent, NodeId, Result, Sweep},
};

/// What a client reads in `error`.
const REASON: &str = "the worker that ran it was lost";

/// The highest price of a second that is reckoned with: a product of it and a fraction of a second in microseconds fits.
const MAX_RATE: i64 = 4_000_000_000_000;

/// What a run has cost at `$end`: what was recorded, or its seconds so far where they cost more; never more than its
/// budget. No step can overflow: `$rate` is at most [`MAX_RATE`], and `$seconds` is as many as can be multiplied by it.
macro_rules! cost_at {
    ($end:literal, $rate:literal, $seconds:literal) => {
        concat!(
            "{LEAST}(max_cost_micros, {GREATEST}(cost_micros, ",
            $rate,
            " * {LEAST}(",
            $seconds,
            ", {GREATEST}(0, ",
            $end,
            " - COALESCE(started_at, ",
            $end,
            ")) / 1000000) + (",
            $rate,
            " * ({GREATEST}(0, ",
            $end,
            " - COALESCE(started_at, ",
            $end,
            ")) % 1000000) + 999999) / 1000000))"
        )
    };
}

// The runs that nodes hold which are declared lost or not known any more. The nodes are found by jumping through the
// index of held runs; no id of a node is negative.
const LOST_RUNS: &str = "WITH RECURSIVE holder (node_id) AS (\
       SELECT (SELECT q.node_id FROM queue q WHERE q.node_id >= 0 ORDER BY q.node_id, q.run_id LIMIT 1) \
       UNION ALL \
       SELECT (SELECT q.node_id FROM queue q WHERE q.node_id > h.node_id \
         ORDER BY q.node_id, q.run_id LIMIT 1) FROM holder h WHERE h.node_id IS NOT NULL) \
     SELECT q.run_id, (SELECT r.status FROM run r WHERE r.id = q.run_id) FROM queue q \
     WHERE q.node_id {IN}SELECT h.node_id FROM holder h WHERE h.node_id IS NOT NULL \
       AND (SELECT n.id FROM node n WHERE n.id = h.node_id AND n.ended_at IS NULL) IS NULL{END} LIMIT $1";

/// How runs end here.
#[derive(Clone)]
struct Ending {
    lost: NewEvent,
    ended: NewEvent,
    rate: i64,
}

impl Ending {
    fn new(at: Timestamp, compute_micros_per_second: Micros) -> Result<Self> {
        let lost = EventType::Interrupted {
            reason: "worker_lost",
            step: 0,
            tool: None,
            id: None,
        };
        Ok(Self {
            lost: stored(&lost, at)?,
            ended: status_event(RunStatus::Interrupted, Some(REASON), at)?,
            rate: compute_micros_per_second.get().min(MAX_RATE),
        })
    }

    /// The last two parameters of [`cost_at`].
    fn price(&self) -> [Val<'static>; 2] {
        let seconds = (i64::MAX / 2).checked_div(self.rate).unwrap_or(i64::MAX);
        [self.rate.into(), seconds.into()]
    }
}

impl Store {
    /// System: ends the runs of lost nodes as `interrupted`, at most `limit`; the organizations and ids of those ended.
    /// Fewer than `limit` means that none is left. Those that were cancelled are settled on the way and not counted.
    pub async fn interrupt_lost(&self, sweep: Sweep) -> Result<Vec<(OrgId, RunId)>> {
        let ending = Ending::new(sweep.at, sweep.compute_micros_per_second)?;
        let limit = usize::try_from(sweep.limit).unwrap_or(usize::MAX);
        let mut all = Vec::new();
        // Each step is a transaction of its own, so that none grows with the number of runs that were cancelled.
        loop {
            let (left, ending) = (limit.saturating_sub(all.len()), ending.clone());
            let (found, ended) = self.db.write(move |tx| step(tx, sweep, left, &ending)).await?;
            all.extend(ended);
            if found < limit || all.len() >= limit {
                return Ok(all);
            }
        }
    }

    /// System: ends those of `runs` that `node` still holds as `interrupted`: it has no task for them. The organizations
    /// and ids of those ended; those that were cancelled are only settled.
    pub async fn interrupt_held(
        &self,
        node: NodeId,
        runs: Vec<RunId>,
        at: Timestamp,
        compute_micros_per_second: Micros,
    ) -> Result<Vec<(OrgId, RunId)>> {
        let ending = Ending::new(at, compute_micros_per_second)?;
        let ids = serde_json::to_string(&runs).map_err(|error| Error::Corrupt(error.to_string()))?;
        self.db
            .write(move |tx| {
                let taken = Stmt::new(
                    "DELETE FROM queue WHERE run_id {IN}SELECT value FROM {JSON_EACH}($1){END} AND node_id = $2 \
                     RETURNING run_id",
                    vals![ids.as_str(), node],
                );
                end(tx, taken, &ending)
            })
            .await
    }

    /// System: every run that `node` holds.
    pub async fn held_runs(&self, node: NodeId) -> Result<Vec<Held>> {
        let rows = self
            .db
            .read(move |tx| {
                tx.query_all(
                    "SELECT q.run_id, (SELECT r.status FROM run r WHERE r.id = q.run_id) FROM queue q \
                     WHERE q.node_id = $1 ORDER BY q.node_id, q.run_id",
                    vals![node],
                )
            })
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Held {
                    run: row.parse(0)?,
                    status: row.parse(1)?,
                })
            })
            .collect()
    }
}

/// One step of a sweep: looks at `sweep.limit` runs and ends at most `left` of them. How many it found, and those it ended.
fn step(tx: &mut dyn Tx, sweep: Sweep, left: usize, ending: &Ending) -> Result<(usize, Vec<(OrgId, RunId)>)> {
    let found = lost_runs(tx, sweep)?;
    let mut open = 0;
    let mut ids = Vec::with_capacity(found.len());
    for row in &found {
        let counts = row.opt_text(1)? != Some(RunStatus::Cancelled.as_str());
        open += usize::from(counts);
        if !counts || open <= left {
            ids.push(row.text(0)?);
        }
    }
    if ids.is_empty() {
        return Ok((found.len(), Vec::new()));
    }
    let ids = serde_json::to_string(&ids).map_err(|error| Error::Corrupt(error.to_string()))?;
    // A worker that was only slow may have ended its run meanwhile: what is deleted here was still held.
    let taken = Stmt::new(
        "DELETE FROM queue WHERE run_id {IN}SELECT value FROM {JSON_EACH}($1){END} RETURNING run_id",
        vals![ids.as_str()],
    );
    Ok((found.len(), end(tx, taken, ending)?))
}

/// Declares nodes lost, forgets those that hold nothing any more, and finds runs of the others.
fn lost_runs(tx: &mut dyn Tx, sweep: Sweep) -> Result<Vec<Row>> {
    let leases_before = match sweep.expired {
        Expired::Declare => sweep.at,
        Expired::Leave => Timestamp::from_micros(i64::MIN),
    };
    let find = || Stmt::new(LOST_RUNS, vals![sweep.limit]);
    let [locked, found] = batch(
        tx,
        &[
            // The lock of all that hands out runs, so that no node claims while it is declared lost. It is not
            // taken where no node is lost.
            Stmt::new(
                "UPDATE dispatch SET turn = turn + 1 WHERE id = 1 AND EXISTS \
                 (SELECT 1 FROM node WHERE ended_at IS NOT NULL OR (lease_until < $1 AND id <> $2))",
                vals![leases_before, sweep.node],
            ),
            find(),
        ],
    )?;
    if locked.affected == 0 {
        return Ok(found.rows);
    }
    let [_, _, found] = batch(
        tx,
        &[
            Stmt::new(
                "UPDATE node SET ended_at = $3 WHERE ended_at IS NULL AND lease_until < $1 AND id <> $2",
                vals![leases_before, sweep.node, sweep.at],
            ),
            Stmt::new(
                "DELETE FROM node WHERE ended_at IS NOT NULL \
                 AND (SELECT q.run_id FROM queue q WHERE q.node_id = node.id LIMIT 1) IS NULL",
                vals![],
            ),
            find(),
        ],
    )?;
    Ok(found.rows)
}

/// Ends the runs that the statement `taken` takes out of the queue, or settles them where they were cancelled.
fn end(tx: &mut dyn Tx, taken: Stmt<'_>, ending: &Ending) -> Result<Vec<(OrgId, RunId)>> {
    let [taken] = batch(tx, &[taken])?;
    if taken.rows.is_empty() {
        return Ok(Vec::new());
    }
    let ids = json_ids(&taken.rows)?;
    let at = ending.ended.at;
    let mut change = vals![ids.as_str(), RunStatus::Interrupted, at, REASON];
    change.extend(held()?);
    change.extend(ending.price());
    let mut settle = vals![ids.as_str(), RunStatus::Cancelled];
    settle.extend(ending.price());
    let [changed, _, _, _] = batch(
        tx,
        &[
            Stmt::new(
                concat!(
                    "UPDATE run SET status = $2, outcome = $2, finished_at = $3, error = $4, billing_pending = 0, \
                     last_event = last_event + 2, cost_micros = ",
                    cost_at!("$3", "$9", "$10"),
                    " WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END} AND status IN ($5, $6, $7, $8) \
                     RETURNING org_id, id"
                ),
                change,
            ),
            // After the one above: a run that is cancelled between the two is met here, the other way round by neither.
            Stmt::new(
                concat!(
                    "UPDATE run SET billing_pending = 0, cost_micros = ",
                    cost_at!("finished_at", "$3", "$4"),
                    " WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END} AND status = $2 AND billing_pending = 1"
                ),
                settle,
            ),
            record(&ids, -1, &ending.lost),
            record(&ids, 0, &ending.ended),
        ],
    )?;
    changed.rows.iter().map(ended_from).collect()
}

/// Records an event of those of the runs `ids` that were interrupted: just now, for they were in the queue.
fn record<'a>(ids: &'a str, seq_from_last: i64, event: &'a NewEvent) -> Stmt<'a> {
    Stmt::new(
        "INSERT INTO event (run_id, seq, kind, data, created_at) \
         SELECT id, last_event + CAST($2 AS BIGINT), $3, $4, CAST($5 AS BIGINT) FROM run \
         WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END} AND status = $6",
        vals![
            ids,
            seq_from_last,
            event.kind,
            event.data.as_str(),
            event.at,
            RunStatus::Interrupted
        ],
    )
}

fn ended_from(row: &Row) -> Result<(OrgId, RunId)> {
    Ok((row.parse(0)?, row.parse(1)?))
}
