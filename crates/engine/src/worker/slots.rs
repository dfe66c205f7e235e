//! The slots of a node, which limit its concurrent runs. A task holds the permit while it starts runs (claimed, taken over or
//! resumed). There are therefore never more runs than slots, and no run starts once the node is closing.
//!
//! A run that waits for the storage frees its slot, so that an outage of the storage does not stop runs that do not use it. At
//! most as many runs wait this way as there are slots, and no run does while the disk is short of space.

use std::sync::Arc;

use sortie_base::spawn_short;
use sortie_sandbox::Capabilities;
use sortie_store::runs::Claim;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::Worker;
use crate::{
    kit::{disk, metrics::Metrics},
    runs::active::{Active, Starting},
};

/// Maximum number of runs that one transaction may claim.
const BATCH: u32 = 64;

/// Slots of a node, in which claimed runs become tasks.
#[derive(Clone)]
pub(crate) struct Slots(Arc<Inner>);

struct Inner {
    worker: Arc<Worker>,
    tracker: TaskTracker,
    closing: CancellationToken,
}

/// The only permit to start runs on this node.
pub(crate) struct StartPermit<'a> {
    inner: &'a Inner,
    _permit: Starting<'a>,
}

impl Slots {
    /// Creates the slots for tasks of `worker`. None is free once `closing` is cancelled.
    pub(crate) fn new(worker: Arc<Worker>, tracker: TaskTracker, closing: CancellationToken) -> Self {
        Self(Arc::new(Inner {
            worker,
            tracker,
            closing,
        }))
    }

    /// Returns the worker, with the parts that runs of this node share.
    pub(crate) fn worker(&self) -> &Worker {
        &self.0.worker
    }

    /// Returns the registry of active runs.
    pub(crate) fn active(&self) -> &Active {
        &self.0.worker.active
    }

    /// Returns the metrics of the node.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.worker.metrics
    }

    /// Returns the capabilities of the sandbox for commands.
    pub(crate) fn sandbox(&self) -> &Capabilities {
        self.0.worker.sandbox.capabilities()
    }

    /// Closes the node for new runs: no slot is free from now on.
    pub(crate) fn close(&self) {
        self.0.closing.cancel();
    }

    /// Waits for the permit to start runs. No other task starts runs until it is dropped.
    pub(crate) async fn permit(&self) -> StartPermit<'_> {
        StartPermit {
            inner: &self.0,
            _permit: self.0.worker.active.starting().await,
        }
    }
}

impl StartPermit<'_> {
    /// Returns the number of runs that may be claimed in one transaction now.
    pub(crate) fn free(&self) -> u32 {
        if self.is_closing() {
            return 0;
        }
        let Worker { active, options, .. } = &*self.inner.worker;
        // Runs that wait for the storage keep their directories, so they need disk space instead of a slot.
        let excused = if active.waiting() > 0 && disk::is_short(&options.data_dir) {
            0
        } else {
            options.slots()
        };
        let taken = u32::try_from(active.taken_slots(excused)).unwrap_or(u32::MAX);
        options.concurrency.saturating_sub(taken).min(BATCH)
    }

    /// Whether the node is closed for new runs.
    pub(crate) fn is_closing(&self) -> bool {
        self.inner.closing.is_cancelled()
    }

    /// Starts the task of a run that this node holds.
    pub(crate) fn start(&self, claim: Claim) {
        // Registered before the task is spawned, so that a cancel finds the run from here on.
        let active_run = self.inner.worker.active.enter(claim.fence.run);
        let worker = Arc::clone(&self.inner.worker);
        let spans = worker.options.traces.execute(&claim);
        spawn_short(&self.inner.tracker, spans.around(worker.run(claim, active_run)));
    }
}
