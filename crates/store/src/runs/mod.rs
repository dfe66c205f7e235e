//! Runs: one file per command, and what they share.
//!
//! Locks are always taken in the order dispatch, node, queue, run, event, so that two commands never wait for
//! each other.

mod cancel;
mod claim;
mod create;
mod finish;
mod moves;
mod position;
mod read;
mod sweep;
mod work;

use sortie_api::{Run, RunId, RunStatus, Timestamp, event::EventType};

use crate::{
    db::{Row, Stmt, vals},
    types::{Error, NewEvent, Result},
};

/// The columns that [`run_from`] reads, in its order. A macro, because statements are literals.
macro_rules! run_columns {
    () => {
        "id, status, error, created_at, started_at, finished_at, max_cost_micros, \
         cost_micros, billing_pending, schedule_id"
    };
}
use run_columns;

/// How many columns [`run_columns`] names: the next one is the caller's.
const RUN_COLUMNS: usize = 10;

/// The run in a row of [`run_columns`], with its output read elsewhere.
fn run_from(row: &Row, output: Option<String>) -> Result<Run> {
    Ok(Run {
        id: row.parse(0)?,
        status: row.parse(1)?,
        output,
        error: row.opt_text(2)?.map(str::to_owned),
        created_at: row.time(3)?,
        started_at: row.opt_time(4)?,
        finished_at: row.opt_time(5)?,
        max_cost_micros: row.micros(6)?,
        cost_micros: row.micros(7)?,
        billing_pending: row.int(8)? != 0,
        schedule_id: row.opt_parse(9)?,
        zero_data_retention: false,
    })
}

/// The statement that records `event` as the `seq`-th of `run`.
fn insert_event(run: RunId, seq: i64, event: &NewEvent) -> Stmt<'_> {
    Stmt::new(
        "INSERT INTO event (run_id, seq, kind, data, created_at) VALUES ($1, $2, $3, $4, $5)",
        vals![run, seq, event.kind, event.data.as_str(), event.at],
    )
    .exactly(1, Error::Fenced)
}

/// The event of a move to `status`.
fn status_event(status: RunStatus, error: Option<&str>, at: Timestamp) -> Result<NewEvent> {
    let event = EventType::Status {
        status,
        error: error.map(str::to_owned),
    };
    stored(&event, at)
}

/// The stored form of an event of the store's own.
fn stored(event: &EventType, at: Timestamp) -> Result<NewEvent> {
    NewEvent::new(event, at).map_err(|error| Error::Corrupt(error.to_string()))
}

/// The identifiers in the first column, as a JSON array for `{JSON_EACH}`.
fn json_ids<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Result<String> {
    let ids = rows
        .into_iter()
        .map(|row| row.text(0))
        .collect::<Result<Vec<_>>>()?;
    serde_json::to_string(&ids).map_err(|error| Error::Corrupt(error.to_string()))
}
