//! The runs at work on this node, and how each is told to stop.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sortie_api::RunId;
use tokio::sync::{Notify, watch};

/// Why a run at work is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The store says it is no longer this worker's: cancelled or taken over. Nothing more is written.
    NotOurs,
    /// The node stops and its grace is over.
    Shutdown,
}

/// Registry of the runs at work.
#[derive(Clone, Default)]
pub(crate) struct Active(Arc<Inner>);

#[derive(Default)]
struct Inner {
    runs: Mutex<HashMap<RunId, watch::Sender<Option<StopReason>>>>,
    left: Notify,
}

/// A run's place in the registry; dropping it gives the place back.
pub(crate) struct Place {
    active: Active,
    run: RunId,
    stop: watch::Receiver<Option<StopReason>>,
}

impl Active {
    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, watch::Sender<Option<StopReason>>>> {
        self.0.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a run.
    pub(crate) fn enter(&self, run: RunId) -> Place {
        let (sender, stop) = watch::channel(None);
        self.runs().insert(run, sender);
        Place {
            active: self.clone(),
            run,
            stop,
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
        if let Some(sender) = self.runs().get(&run) {
            sender.send_replace(Some(reason));
        }
    }

    /// Tells every run to stop.
    pub(crate) fn stop_all(&self, reason: StopReason) {
        for sender in self.runs().values() {
            sender.send_replace(Some(reason));
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
            // The sender lives in the registry for as long as this place does.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.active.runs().remove(&self.run);
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
}
