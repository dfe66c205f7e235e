//! Registry of the active runs of this node, through which each can be stopped.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use sortie_api::RunId;
use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Reason to stop an active run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The run was cancelled or taken over by another worker. Nothing more is stored.
    NotOurs,
    /// The node was declared lost. Nothing more is stored. The working directory stays, because this node may resume the run.
    Lost,
    /// The content of a run without retention exceeds the memory limit. The run fails.
    TooLarge,
    /// The node stops and its grace period has passed. The run ends as interrupted.
    Shutdown,
    /// The node stops and its grace period has passed. Everything is stored, and another node resumes the run.
    HandOver,
}

/// Registry of the active runs.
#[derive(Clone, Default)]
pub(crate) struct Active(Arc<Inner>);

#[derive(Default)]
struct Inner {
    runs: Mutex<BTreeMap<RunId, Entry>>,
    /// Number of the next entry.
    next: AtomicU64,
    /// Notified when a run has left, and when a run has freed its slot.
    left: Notify,
    /// The only permit to start runs.
    starting: tokio::sync::Mutex<()>,
}

/// Permit to start runs.
pub(crate) type Starting<'a> = tokio::sync::MutexGuard<'a, ()>;

/// State of a run's slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SlotUse {
    /// The run has a slot.
    Held,
    /// The run has freed its slot, because it waits for the storage.
    GivenBack,
    /// The run wants a slot again.
    Wanted,
}

struct Entry {
    number: u64,
    slot: SlotUse,
    stop: watch::Sender<Option<StopReason>>,
    /// Cancelled when the run leaves the registry.
    gone: CancellationToken,
}

/// A run's entry in the registry. Dropping it removes the entry.
pub(crate) struct ActiveRun {
    slot: RunSlot,
    stop: watch::Receiver<Option<StopReason>>,
    /// Entry of an earlier attempt at the run that is still stopping on this node.
    before: Option<CancellationToken>,
    _gone: DropGuard,
}

impl Active {
    fn runs(&self) -> MutexGuard<'_, BTreeMap<RunId, Entry>> {
        self.0.runs.lock()
    }

    /// Adds a run. If an earlier attempt at it is still active, stops that one.
    pub(crate) fn enter(&self, run: RunId) -> ActiveRun {
        let (sender, stop) = watch::channel(None);
        let gone = CancellationToken::new();
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let entry = Entry {
            number,
            slot: SlotUse::Held,
            stop: sender,
            gone: gone.clone(),
        };
        let before = self.runs().insert(run, entry).map(|earlier| {
            earlier.stop.send_replace(Some(StopReason::Lost));
            earlier.gone
        });
        let slot = RunSlot {
            active: self.clone(),
            run,
            number,
        };
        ActiveRun {
            slot,
            stop,
            before,
            _gone: gone.drop_guard(),
        }
    }

    /// Returns the number of active runs.
    pub(crate) fn count(&self) -> usize {
        self.runs().len()
    }

    /// Returns the number of runs that wait for the storage.
    pub(crate) fn waiting(&self) -> usize {
        self.with(SlotUse::GivenBack)
    }

    /// Returns the runs that wait for the storage and are not stopped yet.
    pub(crate) fn waiting_runs(&self) -> Vec<RunId> {
        let runs = self.runs();
        let waiting = runs
            .iter()
            .filter(|(_, entry)| entry.slot == SlotUse::GivenBack && entry.stop.borrow().is_none());
        waiting.map(|(run, _)| *run).collect()
    }

    /// Returns the number of slots that are not available to further runs. Up to `excused` waiting runs do not count.
    pub(crate) fn taken_slots(&self, excused: usize) -> usize {
        let runs = self.runs();
        let waiting = runs
            .values()
            .filter(|entry| entry.slot == SlotUse::GivenBack)
            .count();
        runs.len() - waiting.min(excused)
    }

    fn with(&self, slot: SlotUse) -> usize {
        self.runs().values().filter(|entry| entry.slot == slot).count()
    }

    /// Waits for the permit to start runs on this node. No other task starts runs until it is dropped.
    pub(crate) async fn starting(&self) -> Starting<'_> {
        self.0.starting.lock().await
    }

    /// Returns the active runs.
    pub(crate) fn all(&self) -> Vec<RunId> {
        self.runs().keys().copied().collect()
    }

    /// Whether a run is active.
    pub(crate) fn contains(&self, run: RunId) -> bool {
        self.runs().contains_key(&run)
    }

    /// Stops a run, if it is active here.
    pub(crate) fn stop(&self, run: RunId, reason: StopReason) {
        if let Some(entry) = self.runs().get(&run) {
            entry.stop.send_replace(Some(reason));
        }
    }

    /// Stops every run.
    pub(crate) fn stop_all(&self, reason: StopReason) {
        for entry in self.runs().values() {
            entry.stop.send_replace(Some(reason));
        }
    }

    fn tell_left(&self) {
        self.0.left.notify_waiters();
        self.0.left.notify_one();
    }

    /// Waits until a run leaves the registry or frees its slot, counted from this call.
    pub(crate) fn left(&self) -> impl Future<Output = ()> {
        self.0.left.notified()
    }

    /// Waits until no run is active.
    pub(crate) async fn drained(&self) {
        loop {
            let left = self.left();
            if self.count() == 0 {
                return;
            }
            left.await;
        }
    }
}

impl ActiveRun {
    /// Waits until the run is to stop, and returns the reason.
    pub(crate) async fn stopped(&mut self) -> StopReason {
        match self.stop.wait_for(Option::is_some).await.map(|reason| *reason) {
            Ok(Some(reason)) => reason,
            // Only a later attempt removes the sender, and it sends a reason before that.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Returns the reason to stop, or `None` while the run may continue.
    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        *self.stop.borrow()
    }

    /// Returns the slot of the run.
    pub(crate) fn slot(&self) -> RunSlot {
        self.slot.clone()
    }

    /// Waits until every earlier attempt at the run on this node has ended.
    pub(crate) async fn alone(&self) {
        if let Some(before) = &self.before {
            before.cancelled().await;
        }
    }
}

/// The slot of an active run.
#[derive(Clone)]
pub(crate) struct RunSlot {
    active: Active,
    run: RunId,
    number: u64,
}

impl RunSlot {
    /// Frees the slot for other runs, while this run waits for the storage.
    pub(crate) fn give_back(&self) {
        self.set(SlotUse::GivenBack);
        self.active.tell_left();
    }

    /// Takes a slot again, once one of `slots` is free. Runs that wait in the queue come after this one.
    pub(crate) async fn take(&self, slots: usize) {
        self.set(SlotUse::Wanted);
        loop {
            let left = self.active.0.left.notified();
            tokio::pin!(left);
            // Listens before it checks, so that a slot that becomes free in between is not missed.
            left.as_mut().enable();
            {
                let _starting = self.active.starting().await;
                if self.active.with(SlotUse::Held) < slots {
                    self.set(SlotUse::Held);
                    return;
                }
            }
            left.await;
        }
    }

    fn set(&self, slot: SlotUse) {
        let mut runs = self.active.runs();
        // A later attempt has another entry, which stays as it is.
        if let Some(entry) = runs.get_mut(&self.run)
            && entry.number == self.number
        {
            entry.slot = slot;
        }
    }
}

impl Drop for ActiveRun {
    fn drop(&mut self) {
        let RunSlot { active, run, number } = &self.slot;
        {
            let mut runs = active.runs();
            if runs.get(run).is_some_and(|entry| entry.number == *number) {
                runs.remove(run);
            }
        }
        active.tell_left();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(last: u8) -> RunId {
        RunId::new(
            sortie_api::Timestamp::from_micros(0),
            [0, 0, 0, 0, 0, 0, 0, 0, 0, last],
        )
    }

    #[tokio::test]
    async fn a_stop_reaches_the_run_also_when_it_comes_before_the_wait() {
        let active = Active::default();
        let mut entry = active.enter(run(1));
        active.stop(run(2), StopReason::Shutdown);
        active.stop(run(1), StopReason::NotOurs);
        assert_eq!(entry.stopped().await, StopReason::NotOurs);
    }

    #[tokio::test]
    async fn drained_returns_when_the_last_run_has_left() {
        let active = Active::default();
        let entry = active.enter(run(1));
        assert_eq!(active.count(), 1);
        let waiting = active.drained();
        tokio::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(entry);
        waiting.await;
        assert_eq!(active.count(), 0);
    }

    #[tokio::test]
    async fn a_run_that_waits_for_the_storage_gives_its_slot_to_others_and_takes_the_next_free_one() {
        let active = Active::default();
        let waits = active.enter(run(1));
        assert_eq!(active.taken_slots(9), 1);
        waits.slot().give_back();
        active.left().await;
        assert_eq!((active.taken_slots(9), active.taken_slots(0)), (0, 1));
        assert_eq!((active.count(), active.waiting()), (1, 1));
        let other = active.enter(run(2));
        let slot = waits.slot();
        let again = slot.take(1);
        tokio::pin!(again);
        assert!(futures_util::poll!(&mut again).is_pending());
        // The next free slot is reserved for the run that wants its slot again.
        drop(other);
        assert_eq!(active.taken_slots(9), 1);
        again.await;
        assert_eq!((active.taken_slots(9), active.waiting()), (1, 0));
    }

    #[tokio::test]
    async fn a_later_attempt_stops_the_earlier_one_and_waits_for_its_end() {
        let active = Active::default();
        let mut earlier = active.enter(run(1));
        let mut later = active.enter(run(1));
        assert_eq!(earlier.stopped().await, StopReason::Lost);
        {
            let alone = later.alone();
            tokio::pin!(alone);
            assert!(futures_util::poll!(&mut alone).is_pending());
            drop(earlier);
            alone.await;
        }
        assert!(active.contains(run(1)), "the entry is the later attempt's");
        active.stop(run(1), StopReason::NotOurs);
        assert_eq!(later.stopped().await, StopReason::NotOurs);
    }
}
