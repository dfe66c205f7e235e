//! Writes of a worker that holds a run. Every write carries its [`Fence`]. If the fence does not match the
//! run, nothing is written.

use std::sync::Arc;

use sortie_api::{Micros, RunStatus, RunUsage};

use super::{SURCHARGE, WITH_SURCHARGE, insert_events, journal::insert_entries, moves, usage_params};
use crate::{
    Error, Result, Store,
    db::{Stmt, Tx, filled, vals},
    runs::{Append, Fence, NewEvent},
};

impl Store {
    /// Worker: moves a run from `starting` to `running`, with the events of this change.
    pub async fn start_run(&self, fence: Fence, events: Vec<NewEvent>) -> Result<()> {
        let bytes = events.iter().map(|event| event.data.len()).sum();
        match self
            .db
            .write_own(bytes, move |tx| start(tx, fence, &events))
            .await
        {
            Err(Error::Fenced) => Err(self.refusal(fence, RunStatus::Running).await?),
            outcome => outcome,
        }
    }

    /// Worker: appends events and journal entries, and records the current cost. Existing entries are not
    /// changed. An append without events does not move the run's position, so it may be repeated.
    pub async fn append(&self, fence: Fence, new: impl Into<Arc<Append>>) -> Result<()> {
        let new = new.into();
        let events: usize = new.events.iter().map(|event| event.data.len()).sum();
        let entries: usize = new.journal.data.iter().map(String::len).sum();
        self.db
            .write_own(events.saturating_add(entries), move |tx| append(tx, fence, &new))
            .await
    }
}

/// Statement that makes a run `running` and counts `events` more. It fails with `Fenced` if the fence does
/// not match the run.
pub(super) fn running(fence: Fence, events: i64) -> Result<Stmt<'static>> {
    let mut params = vals![
        fence.run,
        fence.attempt,
        fence.last_event,
        RunStatus::Running,
        events
    ];
    params.extend(moves::sources(RunStatus::Running)?);
    let update = Stmt::new(
        "UPDATE run SET status = $4, last_event = last_event + $5 \
         WHERE id = $1 AND attempt = $2 AND last_event = $3 AND status IN ($6, $7, $8, $9)",
        params,
    );
    Ok(update.exactly(1, Error::Fenced))
}

/// Statement that counts `events` more of a run and records its cost and usage so far. It fails with `Fenced`
/// if the fence does not match the run.
pub(super) fn progressed(fence: Fence, events: i64, cost: Micros, usage: &RunUsage) -> Result<Stmt<'static>> {
    let mut params = vals![fence.run, fence.attempt, fence.last_event, events, cost];
    params.extend(moves::held()?);
    params.extend(usage_params(usage));
    let update = Stmt::new(
        constcat::concat!(
            "UPDATE run SET cost_micros = ",
            filled!(WITH_SURCHARGE, "@cost" = "CAST($5 AS BIGINT)"),
            ", surcharge_micros = ",
            filled!(SURCHARGE, "@cost" = "CAST($5 AS BIGINT)"),
            ", last_event = last_event + $4, \
             input_tokens = $10, output_tokens = $11, cache_read_tokens = $12, cache_write_tokens = $13, \
             model_calls = $14, tool_calls = $15 \
             WHERE id = $1 AND attempt = $2 AND last_event = $3 AND status IN ($6, $7, $8, $9)"
        ),
        params,
    );
    Ok(update.exactly(1, Error::Fenced))
}

fn start(tx: &mut dyn Tx, fence: Fence, events: &[NewEvent]) -> Result<()> {
    let mut statements = Vec::with_capacity(1 + events.len());
    statements.push(running(fence, count(events))?);
    insert_events(&mut statements, fence, events);
    tx.batch(&statements).map(drop)
}

// Everything is one batch: the worker knows the numbers of the events and the entries.
fn append(tx: &mut dyn Tx, fence: Fence, new: &Append) -> Result<()> {
    let mut statements = Vec::with_capacity(1 + new.events.len() + new.journal.data.len());
    statements.push(progressed(fence, count(&new.events), new.cost, &new.usage)?);
    insert_events(&mut statements, fence, &new.events);
    insert_entries(&mut statements, fence.run, &new.journal);
    tx.batch(&statements).map(drop)
}

/// Number of events.
pub(super) fn count(events: &[NewEvent]) -> i64 {
    i64::try_from(events.len()).unwrap_or(i64::MAX)
}
