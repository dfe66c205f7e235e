//! The recorder of a run's events and journal. It gathers a batch, appends it in one transaction and notifies the hub.
//!
//! The agent waits for the database only if it is far ahead, or if it asks for its entries to be durable. A batch that
//! is still pending when the run ends goes into the finishing transaction, so that a run without tools needs no append.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use sortie_agent::{BudgetSpec, Sink, Stopped, journal::Entry};
use sortie_api::{
    Micros, OrgId, RunId, RunStatus, RunUsage,
    event::EventType,
    live::{MessageDelta, MessageStart, ToolOutput},
};
use sortie_store::{
    Error,
    runs::{Append, EventRow, Fence, Journal, NewEntries, NewEvent},
};
use tokio::{sync::Notify, time::Instant};

use super::{spent::Spent, writes::until_stored};
use crate::{
    kit::metrics::Metrics,
    runs::{
        hub::{Delta, Hub},
        run_log::RunLog,
    },
};
use sortie_base::Clock;

/// Time that the first event of a batch waits for others.
const GATHER: Duration = Duration::from_millis(15);

/// Size of a batch that is appended at once.
const BATCH: usize = 32;

/// Limits of the pending events and entries, and of the bytes of their data. Beyond them the agent waits.
const AHEAD: usize = 256;
const AHEAD_BYTES: usize = 4 << 20;

pub(crate) struct Recorder {
    run: RunId,
    log: RunLog,
    hub: Hub,
    clock: Clock,
    metrics: Arc<Metrics>,
    pending: Mutex<Pending>,
    /// Notified of something to append, or of the end.
    arrived: Notify,
    /// Notified when pending data was taken or became durable, and when the attempt is opened.
    drained: Notify,
}

#[derive(Default)]
struct Pending {
    events: Vec<NewEvent>,
    entries: Vec<String>,
    bytes: usize,
    /// Number of the last entry of the journal before `entries`.
    last_entry: i64,
    /// Number of accepted events and entries, and of the durable ones among them.
    accepted: u64,
    durable: u64,
    /// Whether a caller waits for durability.
    urgent: bool,
    spent: Spent,
    /// Cost of the calls of models and priced tools, as the events of the run show it.
    calls: Micros,
    /// Events of such calls that were accepted and that the store may not have.
    unstored_calls: VecDeque<NewEvent>,
    /// Usage of the run, including everything accepted.
    usage: RunUsage,
    /// Current turn of the agent.
    step: u32,
    /// Tool call that was started last.
    call: String,
    /// Whether the first write of the attempt is stored.
    is_opened: bool,
    state: State,
}

impl Pending {
    fn len(&self) -> usize {
        self.events.len() + self.entries.len()
    }

    fn has_room(&self) -> bool {
        self.len() < AHEAD && self.bytes < AHEAD_BYTES
    }

    /// Adds an event or an entry. An event of a call and its cost are added together, so the stored cost of a run always matches
    /// its events. The events of a cancelled run's calls are recorded with its cost.
    fn push(&mut self, item: Item) {
        self.bytes += item.bytes();
        self.accepted += 1;
        match item {
            Item::Event(event, totals) => {
                if totals.is_call() {
                    self.unstored_calls.push_back(event.clone());
                }
                self.events.push(event);
                self.calls = self.calls.checked_add(totals.cost).unwrap_or(self.calls);
                self.step = totals.step.unwrap_or(self.step);
                self.usage = self.usage.saturating_add(totals.usage);
                self.spent = self.spent.and(totals.cost);
            }
            Item::Entry(entry) => self.entries.push(entry),
        }
    }

    /// Forgets calls after their events were stored. These are the oldest calls.
    fn stored(&mut self, events: &[NewEvent]) {
        for event in events {
            if self.unstored_calls.front() == Some(event) {
                self.unstored_calls.pop_front();
            }
        }
    }

    /// Takes everything that is pending.
    fn take(&mut self) -> Append {
        self.bytes = 0;
        self.urgent = false;
        let after = self.last_entry;
        let data = std::mem::take(&mut self.entries);
        self.last_entry += i64::try_from(data.len()).unwrap_or(i64::MAX);
        Append {
            events: std::mem::take(&mut self.events),
            journal: NewEntries { after, data },
            cost: self.spent.cost,
            usage: self.usage,
        }
    }
}

/// State of the recorder for the finishing write.
pub(crate) struct Rest {
    /// Pending events and entries.
    pub(crate) new: Append,
    /// State of the journal in the store.
    pub(crate) journal: Journal,
    pub(crate) spent: Spent,
    pub(crate) step: u32,
}

/// State of the recorder for the report on a cancelled run.
pub(crate) struct CancelledRest {
    pub(crate) spent: Spent,
    /// Cost of the calls of models and priced tools, as the events of the run show it.
    pub(crate) calls: Micros,
    pub(crate) usage: RunUsage,
    /// Events of such calls that the store does not have.
    pub(crate) events: Vec<NewEvent>,
}

/// The first write of an attempt.
pub(crate) struct Opening {
    /// Organization of the run.
    pub(crate) org: OrgId,
    /// Status of the run before this write. A run that is `starting` becomes `running`.
    pub(crate) status: RunStatus,
    pub(crate) events: Vec<NewEvent>,
}

/// An accepted event or entry.
enum Item {
    /// An event, and its part in the run's totals.
    Event(NewEvent, Totals),
    /// An entry of the journal.
    Entry(String),
}

/// Part of an event in the totals of the run.
#[derive(Clone, Copy, Default)]
struct Totals {
    /// Turn of the event.
    step: Option<u32>,
    /// Usage that the event reports.
    usage: RunUsage,
    /// Cost of the call of a model or a priced tool that the event reports.
    cost: Micros,
}

impl Totals {
    fn of(event: &EventType) -> Self {
        if let EventType::ModelCall(call) = event {
            let count = |tokens| i64::try_from(tokens).unwrap_or(i64::MAX);
            Self {
                step: Some(call.step),
                usage: RunUsage {
                    input_tokens: count(call.input_tokens),
                    output_tokens: count(call.output_tokens),
                    cache_read_tokens: count(call.cache_read_tokens),
                    cache_write_tokens: count(call.cache_write_tokens),
                    model_calls: 1,
                    tool_calls: 0,
                },
                cost: call.cost_micros,
            }
        } else if let EventType::Message { step, .. } | EventType::ThinkingSummary { step, .. } = event {
            Self {
                step: Some(*step),
                ..Self::default()
            }
        } else if let EventType::ToolEnd(end) = event {
            Self {
                usage: RunUsage {
                    tool_calls: 1,
                    ..RunUsage::default()
                },
                cost: end.cost_micros,
                ..Self::default()
            }
        } else {
            Self::default()
        }
    }

    /// Whether the event is of a model call, or of another call with a cost.
    fn is_call(&self) -> bool {
        self.usage.model_calls > 0 || !self.cost.is_zero()
    }
}

impl Item {
    fn bytes(&self) -> usize {
        match self {
            Self::Event(event, _) => event.data.len(),
            Self::Entry(entry) => entry.len(),
        }
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// The run ends: pending data stays for the finishing transaction.
    Ending,
    /// The run belongs to another worker.
    Lost,
}

impl Recorder {
    pub(crate) fn new(run: RunId, log: RunLog, hub: Hub, clock: Clock, metrics: Arc<Metrics>) -> Self {
        Self {
            run,
            log,
            hub,
            clock,
            metrics,
            pending: Mutex::default(),
            arrived: Notify::new(),
            drained: Notify::new(),
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock()
    }

    /// Continues a journal that has this many entries.
    pub(crate) fn continue_journal(&self, entries: usize) {
        self.pending().last_entry = i64::try_from(entries).unwrap_or(i64::MAX);
    }

    /// Sets the cost of the run so far.
    pub(crate) fn charge(&self, spent: Spent) {
        self.pending().spent = spent;
    }

    /// Returns the cost of the run at `end`.
    pub(crate) fn cost_until(&self, end: Instant, budget: &BudgetSpec) -> Micros {
        let spent = self.pending().spent;
        spent.until(end, budget)
    }

    /// Sets the usage of earlier attempts, and the cost of their calls as their events show it.
    pub(crate) fn used(&self, usage: RunUsage, calls: Micros) {
        let mut pending = self.pending();
        pending.usage = usage;
        pending.calls = calls;
    }

    /// Opens the attempt in the store, then appends until [`end`](Self::end) is called. An error means that the run
    /// must stop: nothing more can be recorded.
    pub(crate) async fn keep(&self, fence: Fence, opening: Opening) -> Result<Fence, Error> {
        let kept = self.open_and_append(fence, opening).await;
        kept.inspect_err(|_| {
            self.pending().state = State::Lost;
            self.drained.notify_waiters();
        })
    }

    /// Waits until the first write of the attempt is stored. If that fails, this waits for ever and
    /// [`keep`](Self::keep) returns the error.
    pub(crate) async fn opened(&self) {
        loop {
            let notified = self.drained.notified();
            if self.pending().is_opened {
                return;
            }
            notified.await;
        }
    }

    async fn open_and_append(&self, mut fence: Fence, opening: Opening) -> Result<Fence, Error> {
        fence = self.open(fence, opening).await?;
        self.pending().is_opened = true;
        self.drained.notify_waiters();
        loop {
            self.arrived.notified().await;
            let gathers = {
                let pending = self.pending();
                pending.state == State::Open && !pending.urgent && pending.len() < BATCH
            };
            if gathers {
                // The wait ends after [`GATHER`], or earlier with a full batch, a caller that waits, or the end of the run.
                let _elapsed_or_full = tokio::time::timeout(GATHER, self.arrived.notified()).await;
            }
            let (new, accepted) = {
                let mut pending = self.pending();
                if pending.state == State::Ending {
                    return Ok(fence);
                }
                (pending.take(), pending.accepted)
            };
            self.drained.notify_waiters();
            if new.events.is_empty() && new.journal.data.is_empty() {
                continue;
            }
            fence = self.append(fence, new).await?;
            self.pending().durable = accepted;
            self.drained.notify_waiters();
        }
    }

    async fn open(&self, fence: Fence, opening: Opening) -> Result<Fence, Error> {
        if opening.status != RunStatus::Starting {
            let (cost, usage) = {
                let pending = self.pending();
                (pending.spent.cost, pending.usage)
            };
            let new = Append {
                events: opening.events,
                journal: NewEntries::default(),
                cost,
                usage,
            };
            return self.append(fence, new).await;
        }
        let rows = numbered(&fence, &opening.events);
        let start = || self.log.start(fence, opening.events.clone());
        until_stored(self.log.store(), fence, (rows.len(), RunStatus::Running), start).await?;
        self.hub.listed(opening.org);
        Ok(self.published(fence, &rows))
    }

    /// Appends events and entries, and notifies the hub.
    pub(crate) async fn append(&self, fence: Fence, new: Append) -> Result<Fence, Error> {
        let new = Arc::new(new);
        let append = || self.log.append(fence, Arc::clone(&new));
        self.append_by(fence, &new, append).await
    }

    /// Appends `new` with `write`.
    async fn append_by<F, W>(&self, fence: Fence, new: &Append, write: W) -> Result<Fence, Error>
    where
        F: Future<Output = Result<(), Error>>,
        W: Fn() -> F,
    {
        let rows = numbered(&fence, &new.events);
        until_stored(self.log.store(), fence, (rows.len(), RunStatus::Running), write).await?;
        self.pending().stored(&new.events);
        Ok(self.published(fence, &rows))
    }

    /// Publishes stored events to the hub. Returns the next fence.
    fn published(&self, fence: Fence, rows: &[EventRow]) -> Fence {
        self.log.written(rows);
        self.hub.publish(fence.run, rows);
        self.metrics.published(rows, self.clock.now());
        Fence {
            last_event: fence.last_event + i64::try_from(rows.len()).unwrap_or(i64::MAX),
            ..fence
        }
    }

    /// Makes [`keep`](Self::keep) return once its current append is stored.
    pub(crate) fn end(&self) {
        self.pending().state = State::Ending;
        self.arrived.notify_one();
        self.drained.notify_waiters();
    }

    /// Takes the pending events and entries, with the cost and the turn of the agent.
    pub(crate) fn rest(&self) -> Rest {
        let mut pending = self.pending();
        let journal = if pending.last_entry == 0 {
            Journal::Empty
        } else {
            Journal::Written
        };
        Rest {
            new: pending.take(),
            journal,
            spent: pending.spent,
            step: pending.step,
        }
    }

    /// Takes the data for the report on a cancelled run.
    pub(crate) fn cancelled_rest(&self) -> CancelledRest {
        let mut pending = self.pending();
        CancelledRest {
            spent: pending.spent,
            calls: pending.calls,
            usage: pending.usage,
            events: std::mem::take(&mut pending.unstored_calls).into(),
        }
    }

    async fn record_event(&self, event: EventType) -> Result<(), Stopped> {
        let totals = Totals::of(&event);
        self.metrics.happened(&event);
        if let EventType::ToolStart { id, .. } = &event {
            self.pending().call.clone_from(id);
        }
        let event = NewEvent::new(&event, self.clock.now()).map_err(|_| Stopped)?;
        let item = Item::Event(event, totals);
        if !totals.is_call() {
            return self.accept(item).await;
        }
        // The call is charged already: a run that ends while this waits for room must still have its event.
        let gathered = {
            let mut pending = self.pending();
            pending.push(item);
            pending.len()
        };
        self.wake_at(gathered);
        self.wait(|pending| pending.has_room().then_some(())).await
    }

    /// Records an event without waiting for it to be stored. If the run is lost, the report on a cancelled run may include it.
    fn record_now(&self, event: &EventType) {
        let totals = Totals::of(event);
        self.metrics.happened(event);
        let event = match NewEvent::new(event, self.clock.now()) {
            Ok(event) => event,
            Err(error) => {
                tracing::error!(%error, "cannot record an event");
                return;
            }
        };
        self.pending().push(Item::Event(event, totals));
        self.arrived.notify_one();
    }

    async fn record_entry(&self, entry: Entry) -> Result<(), Stopped> {
        let entry = serde_json::to_string(&entry).map_err(|_| Stopped)?;
        self.accept(Item::Entry(entry)).await
    }

    /// Waits until `is_due` returns a value. Fails once the recorder has stopped accepting events.
    async fn wait<T>(&self, mut is_due: impl FnMut(&mut Pending) -> Option<T>) -> Result<T, Stopped> {
        loop {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            // Listens before it checks, so that a change in between is not missed.
            drained.as_mut().enable();
            {
                let mut pending = self.pending();
                if pending.state != State::Open {
                    return Err(Stopped);
                }
                if let Some(due) = is_due(&mut pending) {
                    return Ok(due);
                }
            }
            drained.await;
        }
    }

    async fn accept(&self, item: Item) -> Result<(), Stopped> {
        let mut item = Some(item);
        let gathered = self
            .wait(|pending| {
                if !pending.has_room() {
                    return None;
                }
                let item = item.take()?;
                pending.push(item);
                Some(pending.len())
            })
            .await?;
        self.wake_at(gathered);
        Ok(())
    }

    /// Wakes the writer for the first item of a batch, and for a full batch.
    fn wake_at(&self, gathered: usize) {
        if gathered == 1 || gathered == BATCH {
            self.arrived.notify_one();
        }
    }

    async fn all_durable(&self) -> Result<(), Stopped> {
        let target = {
            let mut pending = self.pending();
            pending.urgent |= pending.durable < pending.accepted;
            pending.accepted
        };
        // The batch that is being appended is not durable yet. This wakes the recorder for another pass, which may find nothing
        // to append.
        self.arrived.notify_one();
        self.wait(|pending| (pending.durable >= target).then_some(()))
            .await
    }
}

impl Sink for Recorder {
    fn record(&self, event: EventType) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(self.record_event(event))
    }

    fn journal(&self, entry: Entry) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(self.record_entry(entry))
    }

    fn durable(&self) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(self.all_durable())
    }

    fn charged(&self, call: EventType) {
        self.record_now(&call);
    }

    fn usage_clamped(&self, model: &str) {
        self.metrics.models.clamped(model);
    }

    fn message_delta(&self, step: u32, text: &str) {
        self.hub.delta(self.run, || {
            Delta::Text(MessageDelta {
                text: text.to_owned(),
                step,
            })
        });
    }

    fn model_started(&self, step: u32, model: &str) {
        self.hub.delta(self.run, || {
            Delta::ModelStart(MessageStart {
                model: model.to_owned(),
                step,
            })
        });
    }

    fn wants_output(&self) -> bool {
        self.hub.wants_deltas(self.run)
    }

    fn command_output(&self, text: &str) {
        self.hub.delta(self.run, || {
            Delta::Output(ToolOutput {
                id: self.pending().call.clone(),
                text: text.to_owned(),
            })
        });
    }

    fn spent(&self, cost: Micros, at: Instant) {
        self.charge(Spent::reported(cost, at));
    }
}

/// Returns the rows as the store has them after the write.
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

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
