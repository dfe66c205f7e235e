//! The watch over runs that are followed or at work on this node: finds what other nodes have written to them.

use std::{sync::Arc, time::Duration};

use sortie_store::Store;
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::{hints::Wake, identity::Identity},
    error::Error,
    kit::options::Options,
    runs::{
        active::{Active, StopReason},
        hub::Hub,
    },
};

/// Interval between polls, and the most that is added to it in milliseconds. The poll is the fallback for lost hints.
/// It is short enough for a run that was cancelled on another node to stop within a second. Nodes that started together
/// drift apart by the addition.
const WATCH: Duration = Duration::from_millis(500);
const WATCH_JITTER_MS: i64 = 250;

/// Minimum time between two polls, regardless of the number of hints.
const WATCH_APART: Duration = Duration::from_millis(100);

/// Finds changes by other nodes to runs that are followed or at work on this node.
pub(crate) struct Watch {
    pub(crate) store: Store,
    pub(crate) options: Arc<Options>,
    pub(crate) hub: Hub,
    pub(crate) active: Active,
    pub(crate) identity: Identity,
    pub(crate) wake: Wake,
}

impl Watch {
    /// Polls until the node has stopped, with one query for every run.
    pub(crate) async fn run(self, stop: CancellationToken) {
        loop {
            let jitter = self.options.clock.now().as_micros().rem_euclid(WATCH_JITTER_MS);
            let pause = WATCH + Duration::from_millis(jitter.unsigned_abs());
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                () = self.wake.watch.notified() => {}
            }
            if let Err(error) = self.poll().await {
                tracing::warn!(%error, "polling runs that are followed or at work failed");
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(WATCH_APART) => {}
            }
        }
    }

    async fn poll(&self) -> Result<(), Error> {
        let followed = self.hub.watched();
        if followed.is_empty() && self.active.count() == 0 {
            return Ok(());
        }
        let found = self.store.watch(self.identity.get(), followed).await?;
        for (run, last) in found.positions {
            self.hub.hint(run, last);
        }
        for run in found.cancelled {
            self.active.stop(run, StopReason::NotOurs);
            self.hub.ended_elsewhere(run);
        }
        Ok(())
    }
}
