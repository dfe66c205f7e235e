//! Records a run's events: gathers what comes together, appends it in one transaction, then tells the hub.
//!
//! The agent never waits for the database unless it is far ahead of it. What is still gathered when the run ends goes
//! into the finishing transaction, so that a run without tools costs no append at all.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use sortie_agent::{BudgetSpec, Sink, Stopped, journal::Entry};
use sortie_api::{Micros, event::EventType};
use sortie_store::{EventRow, Fence, NewEvent, Store};
use tokio::{sync::Notify, time::Instant};

use super::writes::until_stored;
use crate::{Clock, hub::Hub};

/// How long the first event of a batch waits for company.
const GATHER: Duration = Duration::from_millis(15);

/// A batch this large is appended at once.
const BATCH: usize = 32;

/// More than this waits for the database: events, and bytes of their data.
const AHEAD: usize = 256;
const AHEAD_BYTES: usize = 4 << 20;

pub(crate) struct Recorder {
    store: Store,
    hub: Hub,
    clock: Clock,
    pending: Mutex<Pending>,
    /// Something to append, or the end.
    arrived: Notify,
    /// Room again.
    drained: Notify,
}

#[derive(Default)]
struct Pending {
    events: Vec<NewEvent>,
    bytes: usize,
    spent: Spent,
    /// The turn the agent is in.
    step: u32,
    state: State,
}

/// What the agent has spent, compute included, as last told.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spent {
    cost: Micros,
    at: Option<Instant>,
}

impl Spent {
    /// The cost at `end`: what was told, and the compute time since. Never above the budget.
    pub(crate) fn until(self, end: Instant, budget: &BudgetSpec) -> Micros {
        let told = self.at.map_or(Micros::ZERO, |at| budget.compute(at));
        let since = budget.compute(end).saturating_sub(told);
        self.cost
            .checked_add(since)
            .unwrap_or(budget.max_cost)
            .min(budget.max_cost)
    }
}

/// What the recorder leaves to the end of the run.
pub(crate) struct Rest {
    pub(crate) events: Vec<NewEvent>,
    pub(crate) spent: Spent,
    pub(crate) step: u32,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// The run ends: what is gathered stays for the finishing transaction.
    Ending,
    /// The run is no longer this worker's.
    Lost,
}

impl Recorder {
    pub(crate) fn new(store: Store, hub: Hub, clock: Clock) -> Self {
        Self {
            store,
            hub,
            clock,
            pending: Mutex::default(),
            arrived: Notify::new(),
            drained: Notify::new(),
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the run in the store with `first`, then appends events as they come, until [`end`](Self::end) is called.
    /// An error means that the run must stop: nothing more can be recorded.
    pub(crate) async fn keep(
        &self,
        mut fence: Fence,
        first: Vec<NewEvent>,
    ) -> Result<Fence, sortie_store::Error> {
        let rows = numbered(&fence, &first);
        let start = || self.store.start_run(fence, first.clone());
        until_stored(&self.store, fence, rows.len(), start)
            .await
            .inspect_err(|_| self.lose())?;
        fence.last_event += count(&rows);
        self.hub.publish(fence.run, &rows);
        loop {
            self.arrived.notified().await;
            if self.pending().state == State::Open && self.pending().events.len() < BATCH {
                // Either the time is over, or a full batch or the end is there.
                let _elapsed_or_full = tokio::time::timeout(GATHER, self.arrived.notified()).await;
            }
            let (events, spent) = {
                let mut pending = self.pending();
                if pending.state == State::Ending {
                    return Ok(fence);
                }
                pending.bytes = 0;
                (std::mem::take(&mut pending.events), pending.spent)
            };
            self.drained.notify_waiters();
            if events.is_empty() {
                continue;
            }
            let rows = numbered(&fence, &events);
            let append = || self.store.append_events(fence, events.clone(), spent.cost);
            until_stored(&self.store, fence, rows.len(), append)
                .await
                .inspect_err(|_| self.lose())?;
            fence.last_event += count(&rows);
            self.hub.publish(fence.run, &rows);
        }
    }

    /// Makes [`keep`](Self::keep) return once what it is appending is through.
    pub(crate) fn end(&self) {
        self.pending().state = State::Ending;
        self.arrived.notify_one();
    }

    /// What was gathered and not appended, what the agent has spent, and the turn it was in.
    pub(crate) fn rest(&self) -> Rest {
        let mut pending = self.pending();
        Rest {
            events: std::mem::take(&mut pending.events),
            spent: pending.spent,
            step: pending.step,
        }
    }

    fn lose(&self) {
        self.pending().state = State::Lost;
        self.drained.notify_waiters();
    }

    async fn accept(&self, event: EventType) -> Result<(), Stopped> {
        let step = if let EventType::ModelCall(call) = &event {
            Some(call.step)
        } else if let EventType::Message { step, .. } = &event {
            Some(*step)
        } else {
            None
        };
        let event = NewEvent::new(&event, self.clock.now()).map_err(|_| Stopped)?;
        loop {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            // Listening before looking, so that room made in between is not missed.
            drained.as_mut().enable();
            {
                let mut pending = self.pending();
                if pending.state != State::Open {
                    return Err(Stopped);
                }
                if pending.events.len() < AHEAD && pending.bytes < AHEAD_BYTES {
                    pending.bytes += event.data.len();
                    pending.events.push(event);
                    pending.step = step.unwrap_or(pending.step);
                    let gathered = pending.events.len();
                    drop(pending);
                    if gathered == 1 || gathered == BATCH {
                        self.arrived.notify_one();
                    }
                    return Ok(());
                }
            }
            drained.await;
        }
    }
}

impl Sink for Recorder {
    fn record(&self, event: EventType) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(self.accept(event))
    }

    fn journal(&self, _entry: Entry) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async { Ok(()) })
    }

    fn durable(&self) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async { Ok(()) })
    }

    fn spent(&self, cost: Micros) {
        self.pending().spent = Spent {
            cost,
            at: Some(Instant::now()),
        };
    }
}

fn count(rows: &[EventRow]) -> i64 {
    i64::try_from(rows.len()).unwrap_or(i64::MAX)
}

/// The rows as the store will have them once the write is through.
pub(crate) fn numbered(fence: &Fence, events: &[NewEvent]) -> Vec<EventRow> {
    (fence.last_event + 1..)
        .zip(events)
        .map(|(seq, event)| EventRow {
            seq,
            kind: event.kind.to_owned(),
            data: event.data.clone(),
            created_at: event.at,
        })
        .collect()
}
