//! What a worker writes while it holds a run. Every write shows its [`Fence`]; where that hits nothing, nothing
//! is written.

use sortie_api::{Micros, RunStatus};

use super::{insert_events, moves};
use crate::{
    Store,
    db::{Stmt, Tx, vals},
    types::{Error, Fence, NewEvent, Result},
};

impl Store {
    /// Worker: `starting` to `running`, with the events that go with it.
    pub async fn start_run(&self, fence: Fence, events: Vec<NewEvent>) -> Result<()> {
        match self.db.write(move |tx| start(tx, fence, &events)).await {
            Err(Error::Fenced) => Err(self.refusal(fence, RunStatus::Running).await?),
            outcome => outcome,
        }
    }

    /// Worker: appends events and records the cost so far.
    pub async fn append_events(&self, fence: Fence, events: Vec<NewEvent>, cost: Micros) -> Result<()> {
        let bytes = events.iter().map(|event| event.data.len()).sum();
        self.db
            .write_of(bytes, move |tx| append(tx, fence, &events, cost))
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
    write(tx, fence, update, events)
}

fn append(tx: &mut dyn Tx, fence: Fence, events: &[NewEvent], cost: Micros) -> Result<()> {
    let mut params = vals![fence.run, fence.attempt, fence.last_event, count(events), cost];
    params.extend(moves::held()?);
    let update = Stmt::new(
        "UPDATE run SET cost_micros = $5, last_event = last_event + $4 \
         WHERE id = $1 AND attempt = $2 AND last_event = $3 AND status IN ($6, $7, $8, $9)",
        params,
    );
    write(tx, fence, update, events)
}

/// The fenced update and the events after it, in one batch: the worker knows their numbers.
fn write(tx: &mut dyn Tx, fence: Fence, update: Stmt<'_>, events: &[NewEvent]) -> Result<()> {
    let mut statements = Vec::with_capacity(1 + events.len());
    statements.push(update.exactly(1, Error::Fenced));
    insert_events(&mut statements, fence, events);
    tx.batch(&statements).map(drop)
}

/// How many events these are.
pub(super) fn count(events: &[NewEvent]) -> i64 {
    i64::try_from(events.len()).unwrap_or(i64::MAX)
}
