//! System: recovery of runs that lost their worker. `sweep` handles runs of lost nodes, `retake_held` handles runs that a
//! node holds but does not process. Such runs are taken over, and the node resumes them, up to [`MAX_TAKEOVERS`] times;
//! then they end as `interrupted`. Cancelled runs are settled. Runs without stored content end at once.

use std::time::Duration;

use sortie_api::{Micros, OrgId, RunId, RunStatus, Timestamp, event::EventType};

use super::{
    BUDGET_WITHOUT_SURCHARGE, SURCHARGE, WITH_SURCHARGE, json_ids,
    lost::{LostRun, NONE, json, lost_runs},
    moves::sources,
    price::{PRICE, UNTIL_CANCELLED, rate_params},
    status_event, stored,
    takeover::{MAX_TAKEOVERS, take_over},
};
use crate::{
    Error, Result, Store,
    db::{IfReadable, ReadRow, Row, Stmt, Tx, Val, batch, filled, readable, row, select, vals},
    money::settle::{OwnedRun, SETTLES, SettledAt, SettledRun, settle},
    nodes::{LOCK, NodeId, SeenLease},
    outbox::deliveries::deliveries_are_due,
    runs::{Claim, NewEvent},
};

/// A run that a node holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The run.
    pub run: RunId,
    /// Status of the run. The worker of a `cancelled` run has not reported its cost yet. `None` if it cannot be read.
    pub status: Option<RunStatus>,
}

/// Limits and conditions of a sweep.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The node that sweeps. It never declares itself lost, and no other node while its own lease has expired.
    pub node: NodeId,
    /// Time of the sweep, for its events.
    pub at: Timestamp,
    /// Maximum number of runs to end.
    pub limit: u32,
    /// Maximum number of runs to take over: the free slots of the node.
    pub places: u32,
    /// Leases without a heartbeat for as long as a lease lasts. The sweep declares their nodes lost if the lease is
    /// unchanged and has expired by the database's clock too.
    pub overdue: Vec<SeenLease>,
    /// Duration of a lease. A lease that ends more than two durations from now was given before the clock was set back.
    pub lease: Duration,
    /// Price of a second of a run.
    pub compute_micros_per_second: Micros,
}

/// Result of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// Runs that ended as `interrupted` because they were resumed too often. Cancelled runs are settled and not listed.
    pub ended: Vec<(OrgId, RunId)>,
    /// Runs that the node holds now and has to resume, the oldest first.
    pub taken: Vec<Claim>,
}

/// `error` of a run that was resumed too often.
const REASON: &str = "the worker that ran it was lost, and it had been resumed 3 times";

/// `error` of a run without stored content.
const UNRETAINED_REASON: &str = "the node that had its content was lost";

/// Maximum number of runs that one sweep skips because it can neither end them nor take them over. Later runs wait for
/// the next sweep.
const MAX_SKIPPED: usize = 1_000;

/// Cost of a run after `@elapsed` microseconds, without the surcharge. It is the recorded cost, or the price
/// of the seconds so far if that is more, but at most the budget.
const COST_AFTER: &str = constcat::concat!(
    "{LEAST}(",
    BUDGET_WITHOUT_SURCHARGE,
    ", {GREATEST}(cost_micros - surcharge_micros, ",
    PRICE,
    "))"
);

/// Sets the cost of a run after `@elapsed` microseconds, with the surcharge, which is rounded up and always
/// fits the budget.
const SET_COST: &str = constcat::concat!(
    "cost_micros = ",
    filled!(WITH_SURCHARGE, "@cost" = COST_AFTER),
    ", surcharge_micros = ",
    filled!(SURCHARGE, "@cost" = COST_AFTER)
);

/// Time in microseconds from the first claim of a run to now, which is `$3` on the clock of the node.
const UNTIL_NOW: &str = "COALESCE(COALESCE({NOW}, $3) - clock_started_at, $3 - started_at, 0)";

row! {
    struct HeldRow {
        run: RunId = "q.run_id",
        status: IfReadable<RunStatus> = "(SELECT r.status FROM run r WHERE r.id = q.run_id)",
    }
}

/// Events and price for runs that end here.
#[derive(Clone)]
pub(crate) struct Ending {
    lost: NewEvent,
    ended: NewEvent,
    compute_micros_per_second: Micros,
}

impl Ending {
    pub(crate) fn new(at: Timestamp, compute_micros_per_second: Micros) -> Result<Self> {
        let lost = EventType::Interrupted {
            reason: "worker_lost",
            step: 0,
            tool: None,
            id: None,
        };
        Ok(Self {
            lost: stored(&lost, at)?,
            ended: status_event(RunStatus::Interrupted, Some(REASON), at)?,
            compute_micros_per_second,
        })
    }

    /// Last two parameters of [`PRICE`].
    fn price(&self) -> [Val<'static>; 2] {
        rate_params(self.compute_micros_per_second)
    }
}

impl Store {
    /// System: takes over at most `places` runs of lost nodes for the node that sweeps, and ends at most `limit` runs
    /// that were resumed too often. Cancelled runs are settled too and not counted. Fewer than `limit` ended runs mean
    /// that all such runs have ended. Fewer than `places` taken runs mean that all others are taken over. `Fenced` if
    /// there are runs to take over and the node itself was declared lost.
    pub async fn sweep(&self, sweep: Sweep) -> Result<Swept> {
        let ending = Ending::new(sweep.at, sweep.compute_micros_per_second)?;
        let limit = usize::try_from(sweep.limit).unwrap_or(usize::MAX);
        let mut all = Swept::default();
        // Each step is a separate transaction, so the size of a transaction does not grow with the number of cancelled
        // runs.
        loop {
            let (left, ending) = (limit.saturating_sub(all.ended.len()), ending.clone());
            let taken = u32::try_from(all.taken.len()).unwrap_or(u32::MAX);
            let sweep = Sweep {
                places: sweep.places.saturating_sub(taken),
                ..sweep.clone()
            };
            let stepped = {
                let (sweep, ending) = (sweep.clone(), ending.clone());
                self.db.write(move |tx| step(tx, &sweep, left, &ending)).await
            };
            let (found, swept) = match stepped {
                Err(error) if error.is_of_data() => {
                    // A bad run must not block the others. The next sweep handles the remaining ones.
                    (0, self.sweep_one_by_one(&sweep, left, &ending).await?)
                }
                stepped => stepped?,
            };
            all.ended.extend(swept.ended);
            all.taken.extend(swept.taken);
            if found < limit || all.ended.len() >= limit {
                return Ok(all);
            }
        }
    }

    /// Ends and takes over runs of lost nodes, each in a separate transaction. Failed ones are logged and left in the
    /// queue.
    async fn sweep_one_by_one(&self, sweep: &Sweep, left: usize, ending: &Ending) -> Result<Swept> {
        // A run that cannot be taken over does not use up a slot.
        let wide = Sweep {
            places: if sweep.places == 0 {
                0
            } else {
                sweep.places.saturating_add(sweep.limit)
            },
            ..sweep.clone()
        };
        let mut swept = Swept::default();
        let mut skipped: Vec<String> = Vec::new();
        // A page may consist of unhandleable runs only. The next page leaves these out.
        loop {
            let known = json(&skipped)?;
            let found = {
                let (wide, known) = (wide.clone(), known.clone());
                self.db.write(move |tx| lost_runs(tx, &wide, &known)).await?
            };
            let before = skipped.len();
            for run in texts(found.iter().flatten().flatten())? {
                let taken = u32::try_from(swept.taken.len()).unwrap_or(u32::MAX);
                let room = (
                    left.saturating_sub(swept.ended.len()),
                    sweep.places.saturating_sub(taken),
                );
                let done = {
                    let (wide, ending, known, run) =
                        (wide.clone(), ending.clone(), known.clone(), run.clone());
                    self.db
                        .write(move |tx| step_of(tx, &wide, &known, room, &run, &ending))
                        .await
                };
                match done {
                    Ok(done) => {
                        swept.ended.extend(done.ended);
                        swept.taken.extend(done.taken);
                    }
                    Err(error) if error.is_of_data() => {
                        tracing::error!(run, %error, "cannot end or take over a run of a lost node; continuing with the others");
                        skipped.push(run);
                    }
                    Err(error) => return Err(error),
                }
            }
            if skipped.len() == before || skipped.len() >= MAX_SKIPPED {
                return Ok(swept);
            }
        }
    }

    /// System: takes over again those of `runs` that `node` holds without a task. Otherwise it works like
    /// [`sweep`](Self::sweep).
    pub async fn retake_held(
        &self,
        node: NodeId,
        runs: Vec<RunId>,
        at: Timestamp,
        compute_micros_per_second: Micros,
    ) -> Result<Swept> {
        let ending = Ending::new(at, compute_micros_per_second)?;
        let retake_all = async |runs: &[RunId]| {
            let ids = serde_json::to_string(runs).map_err(|error| Error::Corrupt(error.to_string()))?;
            let ending = ending.clone();
            self.db.write(move |tx| retake(tx, node, &ids, &ending)).await
        };
        match retake_all(&runs).await {
            Err(error) if error.is_of_data() && runs.len() > 1 => {}
            retaken => return retaken,
        }
        let mut all = Swept::default();
        for run in runs {
            match retake_all(&[run]).await {
                Ok(swept) => {
                    all.ended.extend(swept.ended);
                    all.taken.extend(swept.taken);
                }
                Err(error) if error.is_of_data() => {
                    tracing::error!(%run, %error, "cannot resume a run without a task; continuing with the others");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// System: returns every run that `node` holds. Runs with an unreadable id are left out.
    pub async fn held_runs(&self, node: NodeId) -> Result<Vec<Held>> {
        let rows = self
            .db
            .read(move |tx| {
                tx.query_all(
                    select!(
                        HeldRow,
                        " FROM queue q WHERE q.node_id = $1 ORDER BY q.node_id, q.run_id"
                    ),
                    vals![node],
                )
            })
            .await?;
        Ok(readable(&rows, "held run", |row| {
            let held = HeldRow::read(row)?;
            Ok(Held {
                run: held.run,
                status: held.status.0,
            })
        }))
    }
}

/// Runs one step of a sweep: ends at most `left` runs and takes over as many as there are slots for. Returns the number
/// of found runs that must end.
fn step(tx: &mut dyn Tx, sweep: &Sweep, left: usize, ending: &Ending) -> Result<(usize, Swept)> {
    let Some(found) = lost_runs(tx, sweep, NONE)? else {
        return Ok((0, Swept::default()));
    };
    let [to_end, _, gone] = &found;
    let count = to_end.len().max(gone.len());
    Ok((count, handle(tx, sweep, left, found, ending)?))
}

/// Runs one step of a sweep for a single run, under the same lock: another node may have it by now.
fn step_of(
    tx: &mut dyn Tx,
    sweep: &Sweep,
    skipped: &str,
    (left, places): (usize, u32),
    run: &str,
    ending: &Ending,
) -> Result<Swept> {
    let Some(mut found) = lost_runs(tx, sweep, skipped)? else {
        return Ok(Swept::default());
    };
    for rows in &mut found {
        rows.retain(|row| row.only().is_ok_and(|id: &str| id == run));
    }
    let [_, to_take, _] = &mut found;
    if places == 0 {
        to_take.clear();
    }
    handle(tx, sweep, left, found, ending)
}

/// Ends, abandons and takes over the runs that were found, at most `left` of those that end.
fn handle(
    tx: &mut dyn Tx,
    sweep: &Sweep,
    left: usize,
    [to_end, to_take, gone]: [Vec<Row>; 3],
    ending: &Ending,
) -> Result<Swept> {
    let mut open = 0;
    let mut ids = Vec::with_capacity(to_end.len());
    for row in &to_end {
        let lost = LostRun::read(row)?;
        let counts = lost.status.as_deref() != Some(RunStatus::Cancelled.as_str());
        open += usize::from(counts);
        if !counts || open <= left {
            ids.push(lost.run);
        }
    }
    let mut swept = Swept::default();
    if !ids.is_empty() {
        let ids = serde_json::to_string(&ids).map_err(|error| Error::Corrupt(error.to_string()))?;
        // A slow worker may have ended its run since the search. The runs that this statement deletes were still held.
        let taken = Stmt::new(
            "DELETE FROM queue WHERE run_id {IN}SELECT value FROM {JSON_EACH}($1){END} RETURNING run_id",
            vals![ids.as_str()],
        );
        swept.ended = end(tx, taken, ending)?;
    }
    if !gone.is_empty() {
        swept
            .ended
            .extend(give_up(tx, &json_ids(&gone)?, Answers::Expired, ending)?);
    }
    if !to_take.is_empty() {
        swept.taken = take_over(tx, sweep.node, &json_ids(&to_take)?, sweep.at)?;
    }
    Ok(swept)
}

/// Takes over again, settles or ends those of the runs `ids` that a node holds.
fn retake(tx: &mut dyn Tx, node: NodeId, ids: &str, ending: &Ending) -> Result<Swept> {
    let taken = Stmt::new(
        "DELETE FROM queue WHERE node_id = $4 AND run_id {IN}SELECT value FROM {JSON_EACH}($1){END} \
         AND (SELECT r.id FROM run r WHERE r.id = queue.run_id AND (r.status = $2 OR r.resumes >= $3 OR r.zero_data_retention = 1)) IS NOT NULL \
         RETURNING run_id",
        vals![ids, RunStatus::Cancelled, MAX_TAKEOVERS, node],
    );
    tx.exec(LOCK, vals![])?;
    let ended = end(tx, taken, ending)?;
    let left = tx.query_all(
        "SELECT q.run_id FROM queue q WHERE q.node_id = $2 \
         AND q.run_id {IN}SELECT value FROM {JSON_EACH}($1){END}",
        vals![ids, node],
    )?;
    let taken = if left.is_empty() {
        Vec::new()
    } else {
        take_over(tx, node, &json_ids(&left)?, ending.ended.at)?
    };
    Ok(Swept { ended, taken })
}

/// Held answers to give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// Every answer. The process that held them gives them up itself.
    All,
    /// Answers that have expired. The process that holds the others may be alive, and may have stored the end
    /// of a run while this command waited for the row of that run.
    Expired,
}

/// Abandons the runs `ids` after the loss of their content. Runs that are not final end, and `answers` are released.
pub(crate) fn give_up(
    tx: &mut dyn Tx,
    ids: &str,
    answers: Answers,
    ending: &Ending,
) -> Result<Vec<(OrgId, RunId)>> {
    let taken = Stmt::new(
        "DELETE FROM queue WHERE run_id {IN}SELECT value FROM {JSON_EACH}($1){END} RETURNING run_id",
        vals![ids],
    );
    let ended = end(tx, taken, ending)?;
    let until = match answers {
        Answers::All => Timestamp::from_micros(i64::MAX),
        Answers::Expired => ending.ended.at,
    };
    tx.batch(&[
        Stmt::new(
            "UPDATE run SET output_expires_at = NULL \
             WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END} AND output_expires_at <= $2",
            vals![ids, until],
        ),
        Stmt::new(
            "DELETE FROM unretained WHERE run_id {IN}SELECT value FROM {JSON_EACH}($1){END} \
             AND (SELECT r.output_expires_at FROM run r WHERE r.id = unretained.run_id) IS NULL",
            vals![ids],
        ),
    ])?;
    Ok(ended)
}

/// Ends the runs that the statement `taken` removes from the queue. Cancelled runs are settled.
fn end(tx: &mut dyn Tx, taken: Stmt<'_>, ending: &Ending) -> Result<Vec<(OrgId, RunId)>> {
    let [taken] = batch(tx, &[taken])?;
    if taken.rows.is_empty() {
        return Ok(Vec::new());
    }
    let ids = json_ids(&taken.rows)?;
    let at = ending.ended.at;
    let mut change = vals![ids.as_str(), RunStatus::Interrupted, at, REASON];
    change.extend(sources(RunStatus::Interrupted)?);
    change.extend(ending.price());
    change.push(UNRETAINED_REASON.into());
    let mut cancelled = vals![ids.as_str(), RunStatus::Cancelled];
    cancelled.extend(ending.price());
    let answers = settle(
        tx,
        &[
            lock(&ids),
            charge_calls(&ids, ending),
            Stmt::new(
                constcat::concat!(
                    "UPDATE run SET status = $2, outcome = $2, finished_at = $3, ",
                    SETTLES,
                    ", error = CASE WHEN zero_data_retention = 1 THEN $11 ELSE $4 END, \
                     last_event = last_event + 2, ",
                    filled!(
                        SET_COST,
                        "@elapsed" = UNTIL_NOW,
                        "@rate" = "$9",
                        "@seconds" = "$10"
                    ),
                    " WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END} AND status IN ($5, $6, $7, $8) RETURNING ",
                    filled!(SettledRun::COLUMNS, "@cost" = "cost_micros")
                ),
                change,
            ),
            // Comes after the update above, so that it finds a run that is cancelled between the two. In the other order
            // neither would find it.
            Stmt::new(
                constcat::concat!(
                    "UPDATE run SET ",
                    SETTLES,
                    ", ",
                    filled!(
                        SET_COST,
                        "@elapsed" = UNTIL_CANCELLED,
                        "@rate" = "$3",
                        "@seconds" = "$4"
                    ),
                    " WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END} AND status = $2 AND billing_pending = 1 RETURNING ",
                    filled!(SettledRun::COLUMNS, "@cost" = "cost_micros")
                ),
                cancelled,
            ),
            record(&ids, -1, &ending.lost),
            record(&ids, 0, &ending.ended),
            Stmt::new(
                "DELETE FROM journal WHERE run_id {IN}SELECT value FROM {JSON_EACH}($1){END}",
                vals![ids.as_str()],
            ),
            Stmt::new(
                "DELETE FROM run_secret WHERE run_id {IN}SELECT value FROM {JSON_EACH}($1){END}",
                vals![ids.as_str()],
            ),
            deliveries_are_due(&ids, at),
        ],
        // The budget of a run bounds these costs.
        &[2, 3].map(|statement| SettledAt { statement, column: 0 }),
    )?;
    let changed = answers.get(2).map_or(&[][..], |changed| &changed.rows);
    let ended = |row| OwnedRun::read(row).map(|run| (run.org, run.id));
    changed.iter().map(ended).collect()
}

/// Locks the runs `ids`. A slow worker may be appending an event to one of them. On PostgreSQL a statement that waits for
/// the row of a run does not see events that are committed during the wait. The next statement sees them.
fn lock(ids: &str) -> Stmt<'_> {
    Stmt::new(
        "UPDATE run SET last_event = last_event \
         WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END} AND billing_pending = 1",
        vals![ids],
    )
}

/// Raises the recorded cost of the runs `ids` to the cost of the calls in their events plus that of their time, until the
/// end or the cancellation. Runs without stored events are left out.
fn charge_calls<'a>(ids: &'a str, ending: &Ending) -> Stmt<'a> {
    let mut params = vals![ids, RunStatus::Cancelled, ending.ended.at];
    params.extend(ending.price());
    Stmt::new(
        constcat::concat!(
            "UPDATE run SET cost_micros = {GREATEST}(cost_micros, {LEAST}(max_cost_micros, \
             COALESCE((SELECT CAST(SUM({COST_OF_EVENT}) AS BIGINT) FROM event e \
               WHERE e.run_id = run.id AND e.kind IN ('model_call', 'tool_end')), 0) + CASE WHEN status = $2 THEN ",
            filled!(
                PRICE,
                "@elapsed" = UNTIL_CANCELLED,
                "@rate" = "$4",
                "@seconds" = "$5"
            ),
            " ELSE ",
            filled!(PRICE, "@elapsed" = UNTIL_NOW, "@rate" = "$4", "@seconds" = "$5"),
            " END)) WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END} \
             AND billing_pending = 1 AND zero_data_retention = 0"
        ),
        params,
    )
}

/// Records an event of the runs among `ids` that were interrupted. This has just happened, because they were
/// in the queue.
fn record<'a>(ids: &'a str, seq_from_last: i64, event: &'a NewEvent) -> Stmt<'a> {
    Stmt::new(
        "INSERT INTO event (run_id, seq, kind, data, created_at) \
         SELECT id, last_event + CAST($2 AS BIGINT), $3, $4, CAST($5 AS BIGINT) FROM run \
         WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END} AND status = $6 AND zero_data_retention = 0",
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

/// Ids in the first column of `rows`.
fn texts<'a>(rows: impl Iterator<Item = &'a Row>) -> Result<Vec<String>> {
    rows.map(Row::only).collect()
}
