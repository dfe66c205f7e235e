//! The places of a node: runs that it works on at once. Whoever brings runs (claimed, taken over, taken up again) does
//! so in turn, so that there are never more of them than places, and none comes once the node is closing.

use std::sync::Arc;

use sortie_sandbox::Capabilities;
use sortie_store::Claim;
use tokio::sync::{Mutex, MutexGuard};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::Worker;
use crate::{kit::metrics::Metrics, runs::active::Active};

/// Runs brought in one transaction.
const BATCH: u32 = 64;

/// Where claimed runs become tasks.
#[derive(Clone)]
pub(crate) struct Places(Arc<Inner>);

struct Inner {
    worker: Arc<Worker>,
    tracker: TaskTracker,
    closing: CancellationToken,
    turn: Mutex<()>,
}

/// The turn of one who brings runs.
pub(crate) struct Turn<'a> {
    inner: &'a Inner,
    _turn: MutexGuard<'a, ()>,
}

impl Places {
    /// Places for tasks of `worker`, none of them free once `closing` is cancelled.
    pub(crate) fn new(worker: Arc<Worker>, tracker: TaskTracker, closing: CancellationToken) -> Self {
        Self(Arc::new(Inner {
            worker,
            tracker,
            closing,
            turn: Mutex::default(),
        }))
    }

    /// The worker, with everything that runs on this node share.
    pub(crate) fn worker(&self) -> &Worker {
        &self.0.worker
    }

    /// The runs at work.
    pub(crate) fn active(&self) -> &Active {
        &self.0.worker.active
    }

    /// What the node measures.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.worker.metrics
    }

    /// What confines the commands of runs.
    pub(crate) fn sandbox(&self) -> &Capabilities {
        self.0.worker.sandbox.capabilities()
    }

    /// From here on no place is free.
    pub(crate) fn close(&self) {
        self.0.closing.cancel();
    }

    /// Waits for its turn to bring runs: until this is dropped nobody else does.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        Turn {
            inner: &self.0,
            _turn: self.0.turn.lock().await,
        }
    }
}

impl Turn<'_> {
    /// How many runs may be brought at once now.
    pub(crate) fn free(&self) -> u32 {
        if self.is_closing() {
            return 0;
        }
        let at_work = u32::try_from(self.inner.worker.active.count()).unwrap_or(u32::MAX);
        let free = self.inner.worker.options.concurrency.saturating_sub(at_work);
        free.min(BATCH)
    }

    /// Whether the node takes no more runs.
    pub(crate) fn is_closing(&self) -> bool {
        self.inner.closing.is_cancelled()
    }

    /// Works on a run that this node holds, in a task of its own.
    pub(crate) fn start(&self, claim: Claim) {
        // Entered before the task is spawned, so that a cancel finds it from here on.
        let place = self.inner.worker.active.enter(claim.fence.run);
        let worker = Arc::clone(&self.inner.worker);
        let spans = worker.options.traces.execute(&claim);
        self.inner.tracker.spawn(spans.around(worker.run(claim, place)));
    }
}
