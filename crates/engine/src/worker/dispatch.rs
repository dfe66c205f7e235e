//! Dispatch: claims as many waiting runs as there are free places, as soon as there are any.
//!
//! A hint wakes it (a run was created, a place became free). The slow, jittered look is the safety net for hints
//! that another node could not give.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sortie_api::RunId;
use sortie_store::{Claim, Store};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::places::Places;
use crate::{Options, node::Identity};

/// The safety net: at least so often, and up to half as long again, so that nodes that started together drift apart.
const LOOK: Duration = Duration::from_secs(1);
const JITTER_MS: i64 = 500;

/// Pause after a failed claim.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// Where a dispatcher takes runs from.
pub(crate) enum Source {
    /// The queue, in turn.
    Queue,
    /// These, in order: an engine's own.
    Named(Own),
}

/// Runs that were created through this engine and are not yet claimed.
#[derive(Clone, Default)]
pub(crate) struct Own(Arc<Mutex<Vec<RunId>>>);

impl Own {
    pub(crate) fn add(&self, run: RunId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(run);
    }

    fn take(&self, limit: usize) -> Vec<RunId> {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = limit.min(runs.len());
        runs.drain(..taken).collect()
    }
}

pub(crate) struct Dispatcher {
    pub(crate) store: Store,
    pub(crate) options: Arc<Options>,
    pub(crate) places: Places,
    pub(crate) source: Source,
    pub(crate) identity: Identity,
    pub(crate) work: Arc<Notify>,
    pub(crate) stop: CancellationToken,
}

impl Dispatcher {
    /// Runs until the node stops taking runs.
    pub(crate) async fn run(self) {
        while !self.stop.is_cancelled() {
            // Listening before claiming, so that a run created in between is not missed.
            let work = self.work.notified();
            tokio::pin!(work);
            work.as_mut().enable();
            let (pause, is_full) = match self.claim().await {
                Ok(Claimed::More) => continue,
                Ok(Claimed::All) => (self.look(), false),
                Ok(Claimed::Full) => (self.look(), true),
                Err(error) => {
                    tracing::error!(%error, "runs cannot be claimed");
                    (AFTER_FAILURE, false)
                }
            };
            tokio::select! {
                () = work => {}
                () = self.places.active().left(), if is_full || self.options.organization_concurrency.is_some() => {}
                () = tokio::time::sleep(pause) => {}
                () = self.stop.cancelled() => {}
            }
        }
    }

    fn look(&self) -> Duration {
        let jitter = self.options.clock.now().as_micros().rem_euclid(JITTER_MS);
        LOOK + Duration::from_millis(jitter.unsigned_abs())
    }

    async fn take(&self, limit: u32) -> Result<Vec<Claim>, sortie_store::Error> {
        let (store, node, now) = (&self.store, self.identity.get(), self.options.clock.now());
        match &self.source {
            Source::Queue => {
                store
                    .claim_runs(node, limit, self.options.organization_concurrency, now)
                    .await
            }
            Source::Named(own) => {
                let runs = own.take(limit as usize);
                if runs.is_empty() {
                    return Ok(Vec::new());
                }
                let claims = store.claim_named(node, runs.clone(), now).await;
                if claims.is_err() {
                    for run in runs {
                        own.add(run);
                    }
                }
                claims
            }
        }
    }

    async fn claim(&self) -> Result<Claimed, sortie_store::Error> {
        let turn = self.places.turn().await;
        let limit = turn.free();
        if limit == 0 {
            return Ok(Claimed::Full);
        }
        let claims = self.take(limit).await?;
        let claimed = if claims.len() < limit as usize {
            Claimed::All
        } else {
            Claimed::More
        };
        for claim in claims {
            turn.start(claim);
        }
        Ok(claimed)
    }
}

enum Claimed {
    /// The batch was full: there may be more.
    More,
    /// Nothing waits any more.
    All,
    /// No place is free.
    Full,
}
