//! The runs at work on this node, and how each is told to stop.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use sortie_api::RunId;
use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Why a run at work is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The store says it is no longer this worker's: cancelled or taken over. Nothing more is written.
    NotOurs,
    /// The node was declared lost. Nothing more is written; the working directory stays, for the run may come back.
    Lost,
    /// Nothing of it is stored, and it says more than the node may hold in memory: it fails.
    TooLarge,
    /// The node stops and its grace is over: the run ends as interrupted.
    Shutdown,
    /// The node stops and its grace is over: everything is written down, and whoever comes next goes on.
    HandOver,
}

/// Registry of the runs at work.
#[derive(Clone, Default)]
pub(crate) struct Active(Arc<Inner>);

#[derive(Default)]
struct Inner {
    runs: Mutex<BTreeMap<RunId, Entry>>,
    /// The number of the next place.
    next: AtomicU64,
    left: Notify,
}

struct Entry {
    place: u64,
    stop: watch::Sender<Option<StopReason>>,
    /// Cancelled when the place is given back.
    gone: CancellationToken,
}

/// A run's place in the registry; dropping it gives the place back.
pub(crate) struct Place {
    active: Active,
    run: RunId,
    number: u64,
    stop: watch::Receiver<Option<StopReason>>,
    /// The place of an earlier attempt at the run that is still winding up on this node.
    before: Option<CancellationToken>,
    _gone: DropGuard,
}

impl Active {
    fn runs(&self) -> MutexGuard<'_, BTreeMap<RunId, Entry>> {
        self.0.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a run. An earlier attempt that is still there is told to stop.
    pub(crate) fn enter(&self, run: RunId) -> Place {
        let (sender, stop) = watch::channel(None);
        let gone = CancellationToken::new();
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let entry = Entry {
            place: number,
            stop: sender,
            gone: gone.clone(),
        };
        let before = self.runs().insert(run, entry).map(|earlier| {
            earlier.stop.send_replace(Some(StopReason::Lost));
            earlier.gone
        });
        Place {
            active: self.clone(),
            run,
            number,
            stop,
            before,
            _gone: gone.drop_guard(),
        }
    }

    /// How many runs are at work.
    pub(crate) fn count(&self) -> usize {
        self.runs().len()
    }

    /// The runs at work.
    pub(crate) fn all(&self) -> Vec<RunId> {
        self.runs().keys().copied().collect()
    }

    /// Whether a run is at work.
    pub(crate) fn contains(&self, run: RunId) -> bool {
        self.runs().contains_key(&run)
    }

    /// Tells a run to stop; nothing happens when it is not at work here.
    pub(crate) fn stop(&self, run: RunId, reason: StopReason) {
        if let Some(entry) = self.runs().get(&run) {
            entry.stop.send_replace(Some(reason));
        }
    }

    /// Tells every run to stop.
    pub(crate) fn stop_all(&self, reason: StopReason) {
        for entry in self.runs().values() {
            entry.stop.send_replace(Some(reason));
        }
    }

    /// Waits until a place may have become free.
    pub(crate) async fn left(&self) {
        self.0.left.notified().await;
    }

    /// Returns when nothing is at work.
    pub(crate) async fn drained(&self) {
        loop {
            let left = self.0.left.notified();
            if self.count() == 0 {
                return;
            }
            left.await;
        }
    }
}

impl Place {
    /// Returns when the run is told to stop.
    pub(crate) async fn stopped(&mut self) -> StopReason {
        match self.stop.wait_for(Option::is_some).await.map(|reason| *reason) {
            Ok(Some(reason)) => reason,
            // Only a later attempt takes the sender away, and it says so before.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// What the run was told so far.
    pub(crate) fn told(&self) -> Option<StopReason> {
        *self.stop.borrow()
    }

    /// Returns when no earlier attempt at the run works on this node any more.
    pub(crate) async fn alone(&self) {
        if let Some(before) = &self.before {
            before.cancelled().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        {
            let mut runs = self.active.runs();
            if runs
                .get(&self.run)
                .is_some_and(|entry| entry.place == self.number)
            {
                runs.remove(&self.run);
            }
        }
        self.active.0.left.notify_waiters();
        self.active.0.left.notify_one();
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
        let mut place = active.enter(run(1));
        active.stop(run(2), StopReason::Shutdown);
        active.stop(run(1), StopReason::NotOurs);
        assert_eq!(place.stopped().await, StopReason::NotOurs);
    }

    #[tokio::test]
    async fn drained_returns_when_the_last_place_is_given_back() {
        let active = Active::default();
        let place = active.enter(run(1));
        assert_eq!(active.count(), 1);
        let waiting = active.drained();
        tokio::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(place);
        waiting.await;
        assert_eq!(active.count(), 0);
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
        assert!(active.contains(run(1)), "the place is the later attempt's");
        active.stop(run(1), StopReason::NotOurs);
        assert_eq!(later.stopped().await, StopReason::NotOurs);
    }
}
