//! The watch over runs that are followed or active on this node: finds changes that other nodes have written.

use std::{sync::Arc, time::Duration};

use sortie_api::Refusal;
use sortie_store::Store;
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::{hints::Wake, identity::Identity},
    kit::options::{Options, Polls, poll_pause},
    runs::{
        active::{Active, StopReason},
        hub::Hub,
    },
};

/// Minimum time between two polls, regardless of the number of hints.
const WATCH_APART: Duration = Duration::from_millis(100);

/// A run that was cancelled on another node stops within a second (`docs/RUNS.md#cancel`), even if the hint was lost: the longest
/// interval between two polls leaves time for the poll.
const _: () = assert!(WATCH_APART.as_millis() + Polls::RUNS.as_millis() * 3 / 2 <= 900);

/// Finds changes by other nodes to runs that are followed or active on this node.
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
            let pause = poll_pause(self.options.polls.runs, self.options.clock.now());
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                () = self.wake.watch.notified() => {}
            }
            if let Err(error) = self.poll().await {
                tracing::warn!(%error, "polling followed or active runs failed");
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(WATCH_APART) => {}
            }
        }
    }

    async fn poll(&self) -> Result<(), Refusal> {
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
