//! Registry of the runs at work on this node, through which each can be stopped.

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

/// Reason to stop a run at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The run was cancelled or taken over by another worker. Nothing more is stored.
    NotOurs,
    /// The node was declared lost. Nothing more is stored. The working directory stays, because the run may come back.
    Lost,
    /// The content of a run without retention exceeds the memory limit. The run fails.
    TooLarge,
    /// The node stops and its grace period has passed. The run ends as interrupted.
    Shutdown,
    /// The node stops and its grace period has passed. Everything is stored, and another node resumes the run.
    HandOver,
}

/// Registry of the runs at work.
#[derive(Clone, Default)]
pub(crate) struct Active(Arc<Inner>);

#[derive(Default)]
struct Inner {
    runs: Mutex<BTreeMap<RunId, Entry>>,
    /// Number of the next entry.
    next: AtomicU64,
    left: Notify,
}

struct Entry {
    number: u64,
    stop: watch::Sender<Option<StopReason>>,
    /// Cancelled when the run leaves the registry.
    gone: CancellationToken,
}

/// A run's entry in the registry. Dropping it removes the entry.
pub(crate) struct ActiveRun {
    active: Active,
    run: RunId,
    number: u64,
    stop: watch::Receiver<Option<StopReason>>,
    /// Entry of an earlier attempt at the run that is still stopping on this node.
    before: Option<CancellationToken>,
    _gone: DropGuard,
}

impl Active {
    fn runs(&self) -> MutexGuard<'_, BTreeMap<RunId, Entry>> {
        self.0.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a run. An earlier attempt at it that is still at work is stopped.
    pub(crate) fn enter(&self, run: RunId) -> ActiveRun {
        let (sender, stop) = watch::channel(None);
        let gone = CancellationToken::new();
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let entry = Entry {
            number,
            stop: sender,
            gone: gone.clone(),
        };
        let before = self.runs().insert(run, entry).map(|earlier| {
            earlier.stop.send_replace(Some(StopReason::Lost));
            earlier.gone
        });
        ActiveRun {
            active: self.clone(),
            run,
            number,
            stop,
            before,
            _gone: gone.drop_guard(),
        }
    }

    /// Returns the number of runs at work.
    pub(crate) fn count(&self) -> usize {
        self.runs().len()
    }

    /// Returns the runs at work.
    pub(crate) fn all(&self) -> Vec<RunId> {
        self.runs().keys().copied().collect()
    }

    /// Whether a run is at work.
    pub(crate) fn contains(&self, run: RunId) -> bool {
        self.runs().contains_key(&run)
    }

    /// Stops a run, if it is at work here.
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

    /// Waits until a run has left the registry.
    pub(crate) async fn left(&self) {
        self.0.left.notified().await;
    }

    /// Waits until no run is at work.
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

impl ActiveRun {
    /// Waits until the run is to stop, and returns the reason.
    pub(crate) async fn stopped(&mut self) -> StopReason {
        match self.stop.wait_for(Option::is_some).await.map(|reason| *reason) {
            Ok(Some(reason)) => reason,
            // Only a later attempt removes the sender, and it sends a reason before.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Returns the reason to stop, or `None` while the run may go on.
    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        *self.stop.borrow()
    }

    /// Waits until no earlier attempt at the run is at work on this node.
    pub(crate) async fn alone(&self) {
        if let Some(before) = &self.before {
            before.cancelled().await;
        }
    }
}

impl Drop for ActiveRun {
    fn drop(&mut self) {
        {
            let mut runs = self.active.runs();
            if runs
                .get(&self.run)
                .is_some_and(|entry| entry.number == self.number)
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
