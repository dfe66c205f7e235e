//! Cancelling a run, and the final report of its worker. A cancelled run is final at once: later writes of its worker
//! are fenced. `settle_run` records the cost that the worker reports. After the cancellation event it appends those
//! events of the run that the worker had not stored before the cancellation. The cost is then the sum of the cost in the
//! events, of the time until the cancellation and of the surcharge.

use sortie_api::{Micros, OrgId, Run, RunId, RunStatus, RunUsage, Timestamp};

use super::{
    BUDGET_WITHOUT_SURCHARGE, ListedRunRow, SELECT_LISTED_RUNS, SURCHARGE, WITH_SURCHARGE,
    finish::leave_queue,
    journal::delete_journal,
    moves::{held, sources},
    price::{PRICE, UNTIL_CANCELLED, rate_params},
    status_event, usage_params,
    work::count,
};
use crate::{
    Error, Result, Store,
    db::{ReadRow, Stmt, Tx, filled, row, vals},
    installation::sealed::delete_run_secrets,
    money::settle::{SETTLES, SETTLES_UNLESS, SettledAt, SettledRun, WITHIN_RESERVED, settle},
    outbox::deliveries::delivery_of_org_is_due,
    runs::{ListedRun, NewEvent},
};

/// Result of `cancel_run`.
#[derive(Clone, Debug)]
pub enum Cancelled {
    /// The command cancelled the run.
    Now(Run),
    /// The run had a terminal status already and is unchanged. A large output is left out.
    AlreadyFinal(ListedRun),
}

/// Cost that a worker reports, without the surcharge: the cost of the calls `$4`, and that of the time `$5`. Time after
/// the cancellation is free.
const REPORTED_COST: &str = constcat::concat!(
    "CAST($4 AS BIGINT) + {LEAST}(CAST($5 AS BIGINT), ",
    filled!(
        PRICE,
        "@elapsed" = UNTIL_CANCELLED,
        "@rate" = "$12",
        "@seconds" = "$13"
    ),
    ")"
);

/// Part of [`REPORTED_COST`] that is within the budget.
const COST_WITHIN_BUDGET: &str =
    constcat::concat!("{LEAST}(", BUDGET_WITHOUT_SURCHARGE, ", ", REPORTED_COST, ")");

/// Final cost of a cancelled run, as its worker reports it. Without the surcharge.
#[derive(Clone, Copy, Debug, Default)]
pub struct FinalCost {
    /// Cost of the calls of models and of priced tools, as the events of the run show it.
    pub calls: Micros,
    /// Cost of the compute time so far, on the clock of the worker. Not more counts than the time until the cancellation
    /// costs.
    pub compute: Micros,
    /// Price of a second of compute time.
    pub compute_micros_per_second: Micros,
    /// Usage of the run.
    pub usage: RunUsage,
}

row! {
    /// Settlement of a cancelled run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Settled {
        /// Number of the last event of the run.
        pub last_event: i64 = "last_event",
        /// Final cost of the run, without the surcharge.
        pub cost: Micros = "cost_micros - surcharge_micros",
    }
}

impl Store {
    /// Cancels a run that is not final, with its last event. Returns a final run unchanged, without a large output. A run
    /// that a worker holds stays in the queue, with its billing pending, until the worker has reported its cost or is lost.
    pub async fn cancel_run(&self, org: OrgId, id: RunId, at: Timestamp) -> Result<Cancelled> {
        let event = status_event(RunStatus::Cancelled, None, at)?;
        self.db.write(move |tx| cancel(tx, (org, id), &event)).await
    }

    /// Worker: reports the final cost of a cancelled run, and appends `events`: those with a cost that came too late for
    /// the cancellation. The run leaves the queue. `Fenced` if the run is not cancelled, is settled already, or is in
    /// another attempt.
    pub async fn settle_run(
        &self,
        run: RunId,
        attempt: i64,
        cost: FinalCost,
        events: Vec<NewEvent>,
    ) -> Result<Settled> {
        let bytes = events.iter().map(|event| event.data.len()).sum();
        self.db
            .write_own(bytes, move |tx| {
                report(tx, (run, attempt), &cost, Late::Recorded(&events))
            })
            .await
    }

    /// Worker: works like [`settle_run`](Self::settle_run) for a run without stored events. Adds this number to its
    /// count of events.
    pub async fn settle_unretained(
        &self,
        run: RunId,
        attempt: i64,
        cost: FinalCost,
        events: i64,
    ) -> Result<Settled> {
        self.db
            .write(move |tx| report(tx, (run, attempt), &cost, Late::Counted(events)))
            .await
    }
}

/// Events after the cancellation event.
#[derive(Clone, Copy)]
enum Late<'a> {
    Recorded(&'a [NewEvent]),
    Counted(i64),
}

fn cancel(tx: &mut dyn Tx, (org, id): (OrgId, RunId), event: &NewEvent) -> Result<Cancelled> {
    let [a, b, c, d] = sources(RunStatus::Cancelled)?;
    let mut change = vals![org, id, RunStatus::Cancelled, event.at];
    change.extend([a, b, c, d]);
    change.extend(held()?);
    let answers = settle(
        tx,
        &[
            // Deletes the row of a run that no node holds. No node can claim the run after this statement, so it stays held
            // or free. The COALESCE keeps the planner from the index of waiting runs, because that scan would visit all runs
            // of the organization.
            Stmt::new(
                "DELETE FROM queue WHERE run_id = $2 AND org_id = $1 AND COALESCE(node_id, -1) < 0",
                vals![org, id],
            ),
            // Marks a run that a worker holds. The watch of its node finds the mark.
            Stmt::new(
                "UPDATE queue SET stopping = 1 WHERE run_id = $2 AND org_id = $1 AND COALESCE(node_id, -1) >= 0",
                vals![org, id],
            ),
            Stmt::new(
                constcat::concat!(
                    "UPDATE run SET status = $3, outcome = $3, finished_at = $4, \
                     clock_cancelled_at = COALESCE({NOW}, $4), ",
                    filled!(SETTLES_UNLESS, "@held" = "$9, $10, $11, $12"),
                    ", last_event = last_event + 1 \
                     WHERE id = $2 AND org_id = $1 AND status IN ($5, $6, $7, $8) RETURNING ",
                    filled!(SettledRun::COLUMNS, "@cost" = "cost_micros")
                ),
                change,
            ),
            // Only the update above leaves a run that lacks the row of its last event.
            Stmt::new(
                "INSERT INTO event (run_id, seq, kind, data, created_at) \
                 SELECT r.id, r.last_event, $3, $4, CAST($5 AS BIGINT) FROM run r WHERE r.id = $2 AND r.org_id = $1 \
                 AND r.zero_data_retention = 0 \
                 AND (SELECT e.seq FROM event e WHERE e.run_id = r.id AND e.seq = r.last_event) IS NULL",
                vals![org, id, event.kind, event.data.as_str(), event.at],
            ),
            // A worker that holds the run may need its credentials until the run is settled.
            Stmt::new(
                "DELETE FROM run_secret WHERE run_id = $2 \
                 AND (SELECT r.id FROM run r WHERE r.id = $2 AND r.org_id = $1) IS NOT NULL \
                 AND (SELECT q.run_id FROM queue q WHERE q.run_id = $2) IS NULL",
                vals![org, id],
            ),
            delivery_of_org_is_due(org, id, event.at),
            Stmt::new(
                constcat::concat!(SELECT_LISTED_RUNS, "r.id = $2 AND r.org_id = $1"),
                vals![org, id],
            )
            .exactly(1, Error::NotFound),
        ],
        &[SettledAt {
            statement: 2,
            column: 0,
        }],
    )?;
    let row = answers.last().and_then(|found| found.rows.first());
    let listed: ListedRun = ListedRunRow::read(row.ok_or(Error::NotFound)?)?.into();
    Ok(if answers.get(2).is_some_and(|changed| changed.affected == 1) {
        Cancelled::Now(listed.run)
    } else {
        Cancelled::AlreadyFinal(listed)
    })
}

/// Writes the report of a worker.
fn report(
    tx: &mut dyn Tx,
    (run, attempt): (RunId, i64),
    cost: &FinalCost,
    late: Late<'_>,
) -> Result<Settled> {
    let (count, events) = match late {
        Late::Recorded(events) => (count(events), events),
        Late::Counted(count) => (count, &[][..]),
    };
    let mut change = vals![run, attempt, RunStatus::Cancelled, cost.calls, cost.compute];
    change.extend(usage_params(&cost.usage));
    change.extend(rate_params(cost.compute_micros_per_second));
    change.push(count.into());
    let mut statements = vec![
        leave_queue(run),
        Stmt::new(
            constcat::concat!(
                "UPDATE run SET cost_micros = ",
                filled!(
                    WITHIN_RESERVED,
                    "@cost" = filled!(WITH_SURCHARGE, "@cost" = COST_WITHIN_BUDGET)
                ),
                ", surcharge_micros = ",
                filled!(
                    WITHIN_RESERVED,
                    "@cost" = filled!(SURCHARGE, "@cost" = COST_WITHIN_BUDGET)
                ),
                ", ",
                SETTLES,
                ", last_event = last_event + $14, input_tokens = $6, output_tokens = $7, \
                 cache_read_tokens = $8, cache_write_tokens = $9, model_calls = $10, tool_calls = $11 \
                 WHERE id = $1 AND attempt = $2 AND status = $3 AND billing_pending = 1 RETURNING ",
                filled!(
                    SettledRun::COLUMNS,
                    "@cost" = filled!(WITH_SURCHARGE, "@cost" = REPORTED_COST)
                ),
                ", ",
                Settled::COLUMNS
            ),
            change,
        )
        .exactly(1, Error::Fenced),
    ];
    for (event, behind) in events.iter().zip((0..count).rev()) {
        statements.push(Stmt::new(
            "INSERT INTO event (run_id, seq, kind, data, created_at) \
             SELECT r.id, r.last_event - CAST($2 AS BIGINT), $3, $4, CAST($5 AS BIGINT) FROM run r \
             WHERE r.id = $1 AND r.zero_data_retention = 0 \
             AND (SELECT e.seq FROM event e WHERE e.run_id = r.id AND e.seq = r.last_event) IS NULL",
            vals![run, behind, event.kind, event.data.as_str(), event.at],
        ));
    }
    statements.extend([delete_journal(run), delete_run_secrets(run)]);
    let answers = settle(
        tx,
        &statements,
        &[SettledAt {
            statement: 1,
            column: 0,
        }],
    )?;
    let settled = answers.get(1).and_then(|answer| answer.rows.first());
    Settled::read_from(settled.ok_or(Error::Fenced)?, SettledRun::WIDTH)
}
