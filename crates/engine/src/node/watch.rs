//! The watch over runs that are followed, or at work, here: other nodes write to them.

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

/// Longest pause between two looks of the watch: other nodes tell what is new, so this is for what was not heard. With
/// the jitter, with which nodes that started together drift apart, it is short enough for a run that was cancelled
/// through another node to stop within a second all the same.
const WATCH: Duration = Duration::from_millis(500);
const WATCH_JITTER_MS: i64 = 250;

/// Two looks of the watch are at least so far apart, however much other nodes tell.
const WATCH_APART: Duration = Duration::from_millis(100);

/// The watch over what other nodes do to runs that are followed, or at work, here.
pub(crate) struct Watch {
    pub(crate) store: Store,
    pub(crate) options: Arc<Options>,
    pub(crate) hub: Hub,
    pub(crate) active: Active,
    pub(crate) identity: Identity,
    pub(crate) wake: Wake,
}

impl Watch {
    /// Looks until the node has stopped: one query for all runs.
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
            if let Err(error) = self.look().await {
                tracing::warn!(%error, "runs that are followed or at work could not be looked up");
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(WATCH_APART) => {}
            }
        }
    }

    async fn look(&self) -> Result<(), Error> {
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
