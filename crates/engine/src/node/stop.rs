//! Readiness of a node, and its orderly stop.

use std::time::Duration;

use crate::{Engine, files::Standing, runs::active::StopReason};
use sortie_api::{ErrorCode, Refusal};

/// Timeout for storing that this node is draining.
const DRAIN_WRITE: Duration = Duration::from_secs(2);

/// Time that a stopping node waits for its last hints to other nodes to be sent.
const GOODBYE: Duration = Duration::from_secs(1);

/// Time that a stopping node waits for its last writes to the database.
const LAST_WRITES: Duration = Duration::from_secs(10);

fn stopping() -> Refusal {
    ErrorCode::Unavailable.because("this node is stopping, retry on another or later")
}

impl Engine {
    /// Checks that the node accepts runs: the database answers, the node is not stopping, and its clock agrees with the
    /// database's. An unavailable storage is no reason to refuse runs: see [`Self::degraded`].
    pub async fn ready(&self) -> Result<(), Refusal> {
        self.check_node()?;
        Ok(self.store().ping().await?)
    }

    /// Fails if the node is not ready: it is draining or stopping, or its clock differs from the database's.
    pub(crate) fn check_node(&self) -> Result<(), Refusal> {
        if self.is_draining() {
            return Err(stopping());
        }
        match self.0.options.clock.fault() {
            Some(fault) => Err(ErrorCode::Unavailable.because(fault.to_string())),
            None => Ok(()),
        }
    }

    /// Returns the failed parts of a node that accepts runs without them. `storage`: uploads and downloads are refused, and runs
    /// with files or outputs wait.
    pub fn degraded(&self) -> Vec<&'static str> {
        match self.0.stores.contents.standing().get() {
            Standing::Up => Vec::new(),
            Standing::Away => vec!["storage"],
        }
    }

    /// Refuses new work on a node that is stopping.
    pub(crate) fn check_open(&self) -> Result<(), Refusal> {
        if self.0.tasks.closing.is_cancelled() {
            return Err(stopping());
        }
        Ok(())
    }

    /// Whether the node is draining or stopping.
    pub fn is_draining(&self) -> bool {
        self.0.tasks.draining.is_cancelled() || self.0.tasks.closing.is_cancelled()
    }

    /// Begins to drain: the node reports that it is not ready, so that load balancers send new clients elsewhere. Everything else
    /// works as before.
    pub async fn drain(&self) {
        let node = &self.0;
        node.tasks.draining.cancel();
        let told = node
            .cluster
            .identity
            .drain(&node.stores.database, node.options.clock.now());
        match tokio::time::timeout(DRAIN_WRITE, told).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "storing that this node is draining failed");
            }
            Err(_elapsed) => tracing::warn!("storing that this node is draining timed out"),
        }
    }

    /// Stops the node in order. Refuses new runs, lets active runs finish within the grace period, and hands the others over;
    /// runs that wait for the storage are handed over at once. Runs that [end with the engine](Self::end_with_engine) are
    /// interrupted, not handed over. Then ends every stream. Returns when everything is stored.
    pub async fn shutdown(&self) {
        self.shutdown_within(self.0.options.shutdown_grace).await;
    }

    /// Stops the node like [`Self::shutdown`], with another grace period.
    pub async fn shutdown_within(&self, grace: Duration) {
        let node = &self.0;
        node.cluster.hints.leave_jobs();
        node.work.slots.close();
        // Waits for the task that is just starting runs.
        drop(node.work.slots.permit().await);
        if tokio::time::timeout(grace, self.runs_left()).await.is_err() {
            self.stop_runs();
            if tokio::time::timeout(LAST_WRITES, node.work.active.drained())
                .await
                .is_err()
            {
                tracing::error!(
                    "the database does not answer: the remaining runs resume from their last stored state"
                );
            }
        }
        self.stop_delivering().await;
        self.abandon_content().await;
        self.close();
        node.tasks.tracker.close();
        if tokio::time::timeout(LAST_WRITES, node.tasks.tracker.wait())
            .await
            .is_err()
        {
            tracing::error!("the node's tasks did not end in time; abandoned them");
        }
        self.send_last_hints().await;
    }

    /// Ends the tasks of the node and every stream.
    pub(crate) fn close(&self) {
        self.0.tasks.closed.cancel();
        self.0.work.hub.stopped();
    }

    /// Waits until no run is active. Runs that wait for the storage are handed over as soon as they wait, because the next
    /// process can continue to store their outputs.
    async fn runs_left(&self) {
        let work = &self.0.work;
        loop {
            let left = work.active.left();
            for run in work.active.waiting_runs() {
                if !work.own.is_tied(run) {
                    work.active.stop(run, StopReason::HandOver);
                }
            }
            if work.active.count() == 0 {
                return;
            }
            left.await;
        }
    }

    /// Stops the active runs: hands them over, or ends those that end with the engine.
    fn stop_runs(&self) {
        let work = &self.0.work;
        let runs = work.active.all();
        let (tied, handed_over): (Vec<_>, Vec<_>) = runs.into_iter().partition(|run| work.own.is_tied(*run));
        tracing::warn!(
            handed_over = handed_over.len(),
            interrupted = tied.len(),
            "the grace period has expired: stopping active runs"
        );
        for run in handed_over {
            work.active.stop(run, StopReason::HandOver);
        }
        for run in tied {
            work.active.stop(run, StopReason::Shutdown);
        }
    }

    /// Waits for uploads to the storage that have lost their client or run. To be called after [`Self::shutdown`], when no
    /// request is processed. Parts of an upload that is not aborted stay in the storage.
    pub async fn settle_storage(&self) {
        if tokio::time::timeout(LAST_WRITES, self.0.stores.contents.settled())
            .await
            .is_err()
        {
            tracing::warn!(
                "uploads to the storage did not end in time: their parts stay until the bucket's rule removes them"
            );
        }
    }

    /// Sends the last hints to other nodes, so that they take over the runs of this node at once.
    async fn send_last_hints(&self) {
        let node = &self.0;
        node.cluster.hints.nodes();
        node.tasks.hints_done.cancel();
        node.tasks.exchanges.close();
        if tokio::time::timeout(GOODBYE, node.tasks.exchanges.wait())
            .await
            .is_err()
        {
            tracing::warn!(
                "sending the last hints to other nodes failed; they notice when the lease expires"
            );
        }
    }

    /// Waits for running callback attempts. While the store has this node as the holder of a run's content, no other node
    /// delivers the callback of that run without its output.
    async fn stop_delivering(&self) {
        let node = &self.0;
        node.tasks.delivered.cancel();
        node.tasks.callback_workers.close();
        if tokio::time::timeout(LAST_WRITES, node.tasks.callback_workers.wait())
            .await
            .is_err()
        {
            tracing::error!("active callbacks did not end in time; abandoned them");
        }
    }

    /// Abandons the content of runs without retention when the node stops. Runs without a terminal status end, and
    /// unread outputs are lost.
    pub(crate) async fn abandon_content(&self) {
        let node = &self.0;
        let (at, price) = (node.options.clock.now(), node.options.compute_micros_per_second);
        let given_up = node
            .stores
            .database
            .abandon_content(node.cluster.identity.get(), at, price);
        match tokio::time::timeout(LAST_WRITES, given_up).await {
            Ok(Ok(ended)) => self.announce_abandoned(&ended),
            Ok(Err(error)) => {
                tracing::error!(%error, "ending runs with zero data retention failed; the next sweep ends them");
            }
            Err(_elapsed) => {
                tracing::error!("ending runs with zero data retention timed out; the next sweep ends them");
            }
        }
        // From here on any node may deliver the callbacks that were reserved for this one.
        node.cluster.hints.callbacks();
        if let Err(error) = node.stores.memory_dir.remove().await {
            tracing::warn!(%error, "removing the folder of working directories in memory failed");
        }
    }
}
