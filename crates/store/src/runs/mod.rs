//! Runs: one file per command, and the code that they share.
//!
//! A command takes locks in the order dispatch, node, queue, run, event, journal, so that no two commands
//! wait for each other.

pub(crate) mod artifacts;
mod cancel;
mod claim;
mod claim_named;
mod create;
mod finish;
mod journal;
pub(crate) mod large;
mod list;
mod lost;
mod moves;
mod named;
mod new_run;
mod position;
mod price;
mod progress;
mod read;
pub(crate) mod retention;
pub(crate) mod sweep;
mod takeover;
mod unretained;
mod work;

pub use artifacts::{KeptArtifact, NewArtifacts, RunArtifacts};
pub use cancel::{Cancelled, FinalCost, Settled};
pub use claim::{Claim, Origin};
pub use create::Created;
pub use finish::{Finish, Journal, Receiver, StoredCredentials};
pub use large::{LargeText, ListedEvent, ListedRun};
pub use list::RunFilter;
pub use new_run::{Definition, InlineCredentials, Labels, NewCallback, NewRun, Retention, Unretained};
pub use position::{Position, Watched};
pub use progress::{Append, EventRow, Fence, NewEntries, NewEvent};
pub use read::{Followed, Progress, StoredDefinition};
pub use retention::{Batch, Deleted, Expiry, OpenCallbacks, Undeletable};
pub use sweep::{Held, Sweep, Swept};
pub use unretained::{ContentHolder, Counted, PlainError, UnretainedFinish};

pub(crate) use claim::trace_from;
pub(crate) use create::create_new;
use sortie_api::{Run, RunStatus, RunUsage, Timestamp, event::EventType};

pub(crate) use unretained::{adopt_content, forget_answers_of_earlier};

use crate::{
    Error, Result,
    db::{Row, Stmt, Val, vals},
};

/// Columns that [`run_from`] reads, in this order. A macro, because statements are literals.
macro_rules! run_columns {
    () => {
        "id, status, error, created_at, started_at, finished_at, max_cost_micros, \
         cost_micros, billing_pending, schedule_id, workflow, tags, zero_data_retention, input_tokens, output_tokens, \
         cache_read_tokens, cache_write_tokens, model_calls, tool_calls, surcharge_percent, surcharge_micros, \
         output_expires_at, output_read_at"
    };
}
use run_columns;

/// Column of the output in [`select_runs`]: behind the columns of [`run_columns`].
const OUTPUT: usize = 23;

/// Surcharge on a cost: its percentage, rounded up. No step overflows if the percentage is 0.
macro_rules! surcharge {
    ($($cost:tt)+) => {
        concat!(
            "((", $($cost)+, ") / 100 * surcharge_percent + ((", $($cost)+,
            ") % 100 * surcharge_percent + 99) / 100)"
        )
    };
}
use surcharge;

/// Part of a run's budget that is left for the cost without the surcharge, rounded down. Cost and surcharge
/// always fit the budget together.
macro_rules! budget_without_surcharge {
    () => {
        "(max_cost_micros / (100 + surcharge_percent) * 100 \
         + max_cost_micros % (100 + surcharge_percent) * 100 / (100 + surcharge_percent))"
    };
}
use budget_without_surcharge;

/// `queue.node_id` of a run that waits for the one node that has its content. No id of a node is negative.
pub(crate) const OF_ITS_NODE: i64 = -1;

/// `queue.node_id` of a waiting run whose organization is suspended.
pub(crate) const PARKED: i64 = -2;

/// Start of a query for runs with their outputs and artifacts. The output is looked up run by run: a planner
/// that met an empty table of outputs would otherwise keep reading the whole of it.
macro_rules! select_runs {
    () => {
        concat!(
            "SELECT ",
            run_columns!(),
            ", (SELECT o.output FROM run_output o WHERE o.run_id = r.id), ",
            $crate::runs::artifacts::artifacts_column!(),
            " FROM run r WHERE "
        )
    };
}
use select_runs;

/// Start of a query for runs of a list, for [`listed_run`]. A large output is left out.
macro_rules! select_listed_runs {
    () => {
        concat!(
            "SELECT ",
            run_columns!(),
            ", (SELECT ",
            $crate::runs::large::short!("o.output"),
            " FROM run_output o WHERE o.run_id = r.id), ",
            $crate::runs::artifacts::artifacts_column!(),
            ", (SELECT octet_length(o.output) FROM run_output o WHERE o.run_id = r.id) FROM run r WHERE "
        )
    };
}
use select_listed_runs;

/// Parses the run in a row of [`select_listed_runs`].
fn listed_run(row: &Row) -> Result<ListedRun> {
    let run = run_with_output(row)?;
    let has_output = row.opt_int(OUTPUT + 2)?.is_some();
    Ok(ListedRun {
        has_large_output: has_output && run.output.is_none(),
        run,
    })
}

/// Parses the run in a row of [`select_runs`].
fn run_with_output(row: &Row) -> Result<Run> {
    let output = row.opt_text(OUTPUT)?.map(str::to_owned);
    Ok(Run {
        artifacts: artifacts::parsed(row, OUTPUT + 1)?,
        ..run_from(row, output)?
    })
}

/// Parses the run in a row of [`run_columns`], with an output from elsewhere and without artifacts.
fn run_from(row: &Row, output: Option<String>) -> Result<Run> {
    let status: RunStatus = row.parse(1)?;
    let tags = row.opt_text(11)?.map_or(Ok(Vec::new()), serde_json::from_str);
    let zero_data_retention = row.int(12)? != 0;
    let surcharge_percent = u32::try_from(row.int(19)?).ok();
    let output_expires_at = row.opt_time(21)?;
    Ok(Run {
        id: row.parse(0)?,
        status,
        output,
        error: row.opt_text(2)?.map(str::to_owned),
        created_at: row.time(3)?,
        started_at: row.opt_time(4)?,
        finished_at: row.opt_time(5)?,
        max_cost_micros: row.micros(6)?,
        cost_micros: row.micros(7)?,
        billing_pending: row.int(8)? != 0,
        schedule_id: row.opt_parse(9)?,
        workflow: row.opt_text(10)?.map(str::to_owned),
        tags: tags.map_err(|error| Error::Corrupt(error.to_string()))?,
        zero_data_retention,
        usage: status.is_final().then(|| usage_from(row, 13)).transpose()?,
        surcharge_percent: surcharge_percent.filter(|percent| zero_data_retention && *percent > 0),
        surcharge_micros: row.micros(20)?,
        output_available: zero_data_retention.then_some(output_expires_at.is_some()),
        output_expires_at,
        output_read_at: row.opt_time(22)?,
        artifacts: Vec::new(),
    })
}

/// Parses the usage of a run in the columns from `first` on, in the order of [`run_columns`].
fn usage_from(row: &Row, first: usize) -> Result<RunUsage> {
    Ok(RunUsage {
        input_tokens: row.int(first)?,
        output_tokens: row.int(first + 1)?,
        cache_read_tokens: row.int(first + 2)?,
        cache_write_tokens: row.int(first + 3)?,
        model_calls: row.int(first + 4)?,
        tool_calls: row.int(first + 5)?,
    })
}

/// Parameters with the usage of a run, in the order of [`run_columns`].
fn usage_params(usage: &RunUsage) -> [Val<'static>; 6] {
    [
        usage.input_tokens.into(),
        usage.output_tokens.into(),
        usage.cache_read_tokens.into(),
        usage.cache_write_tokens.into(),
        usage.model_calls.into(),
        usage.tool_calls.into(),
    ]
}

macro_rules! insert_events {
    ($rows:literal) => {
        concat!(
            "INSERT INTO event (run_id, seq, kind, data, created_at) {GUARDED}VALUES \
             (CAST($1 AS TEXT), CAST($4 AS BIGINT), CAST($5 AS TEXT), CAST($6 AS TEXT), CAST($7 AS BIGINT))",
            $rows,
            "{BY_FENCE}"
        )
    };
}

/// Statements that insert one, two, three and four events. A statement for each event would cost more than
/// its row.
const INSERT_EVENTS: [&str; 4] = [
    insert_events!(""),
    insert_events!(", ($1, $8, $9, $10, $11)"),
    insert_events!(", ($1, $8, $9, $10, $11), ($1, $12, $13, $14, $15)"),
    insert_events!(", ($1, $8, $9, $10, $11), ($1, $12, $13, $14, $15), ($1, $16, $17, $18, $19)"),
];

/// Position of the last event once `events` are recorded after those of the fence.
fn last_after(fence: Fence, events: &[NewEvent]) -> i64 {
    fence.last_event.saturating_add(work::count(events))
}

/// Adds the statements that record `events` after those of the fence. The statement of the fence has to precede them.
fn insert_events<'a>(statements: &mut Vec<Stmt<'a>>, fence: Fence, events: &'a [NewEvent]) {
    let mut seq = fence.last_event;
    for chunk in events.chunks(INSERT_EVENTS.len()) {
        let mut params = vals![fence.run, fence.attempt, last_after(fence, events)];
        for event in chunk {
            seq = seq.saturating_add(1);
            params.extend(vals![seq, event.kind, event.data.as_str(), event.at]);
        }
        let sql = INSERT_EVENTS.get(chunk.len() - 1);
        let rows = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        statements.extend(sql.map(|sql| Stmt::new(sql, params).exactly(rows, Error::Fenced)));
    }
}

/// Event of a change to `status`.
fn status_event(status: RunStatus, error: Option<&str>, at: Timestamp) -> Result<NewEvent> {
    let event = EventType::Status {
        status,
        error: error.map(str::to_owned),
    };
    stored(&event, at)
}

/// Stored form of an event that the store itself adds.
fn stored(event: &EventType, at: Timestamp) -> Result<NewEvent> {
    NewEvent::new(event, at).map_err(|error| Error::Corrupt(error.to_string()))
}

/// Identifiers in the first column, as a JSON array for `{JSON_EACH}`.
pub(crate) fn json_ids<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Result<String> {
    let ids = rows
        .into_iter()
        .map(|row| row.text(0))
        .collect::<Result<Vec<_>>>()?;
    serde_json::to_string(&ids).map_err(|error| Error::Corrupt(error.to_string()))
}
