//! What a worker writes while it holds a run. Every write shows its [`Fence`]; where that hits nothing, nothing
//! is written.

use std::sync::Arc;

use sortie_api::RunStatus;

use super::{insert_events, journal::insert_entries, moves, usage_params};
use crate::{
    Store,
    db::{Stmt, Tx, vals},
    types::{Append, Error, Fence, NewEvent, Result},
};

impl Store {
    /// Worker: `starting` to `running`, with the events that go with it.
    pub async fn start_run(&self, fence: Fence, events: Vec<NewEvent>) -> Result<()> {
        match self.db.write(move |tx| start(tx, fence, &events)).await {
            Err(Error::Fenced) => Err(self.refusal(fence, RunStatus::Running).await?),
            outcome => outcome,
        }
    }

    /// Worker: appends events and entries of the journal, and records the cost so far. Entries that are there already
    /// stay as they are: an append without events, which does not move the run's position, may be repeated.
    pub async fn append(&self, fence: Fence, new: impl Into<Arc<Append>>) -> Result<()> {
        let new = new.into();
        let events: usize = new.events.iter().map(|event| event.data.len()).sum();
        let entries: usize = new.journal.data.iter().map(String::len).sum();
        self.db
            .write_of(events.saturating_add(entries), move |tx| append(tx, fence, &new))
            .await
    }
}

fn start(tx: &mut dyn Tx, fence: Fence, events: &[NewEvent]) -> Result<()> {
    let mut params = vals![
        fence.run,
        fence.attempt,
        fence.last_event,
        RunStatus::Running,
        count(events)
    ];
    params.extend(moves::sources(RunStatus::Running)?);
    let update = Stmt::new(
        "UPDATE run SET status = $4, last_event = last_event + $5 \
         WHERE id = $1 AND attempt = $2 AND last_event = $3 AND status IN ($6, $7, $8, $9)",
        params,
    );
    let mut statements = Vec::with_capacity(1 + events.len());
    statements.push(update.exactly(1, Error::Fenced));
    insert_events(&mut statements, fence, events);
    tx.batch(&statements).map(drop)
}

// In one batch: the worker knows the numbers of the events and the entries.
fn append(tx: &mut dyn Tx, fence: Fence, new: &Append) -> Result<()> {
    let mut params = vals![
        fence.run,
        fence.attempt,
        fence.last_event,
        count(&new.events),
        new.cost
    ];
    params.extend(moves::held()?);
    params.extend(usage_params(&new.usage));
    let update = Stmt::new(
        "UPDATE run SET cost_micros = $5, last_event = last_event + $4, \
         input_tokens = $10, output_tokens = $11, cache_read_tokens = $12, cache_write_tokens = $13, \
         model_calls = $14, tool_calls = $15 \
         WHERE id = $1 AND attempt = $2 AND last_event = $3 AND status IN ($6, $7, $8, $9)",
        params,
    );
    let mut statements = Vec::with_capacity(1 + new.events.len() + new.journal.data.len());
    statements.push(update.exactly(1, Error::Fenced));
    insert_events(&mut statements, fence, &new.events);
    insert_entries(&mut statements, fence.run, &new.journal);
    tx.batch(&statements).map(drop)
}

/// How many events these are.
pub(super) fn count(events: &[NewEvent]) -> i64 {
    i64::try_from(events.len()).unwrap_or(i64::MAX)
}
