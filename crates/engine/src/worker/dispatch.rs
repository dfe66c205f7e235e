//! Dispatch: claims as many waiting runs as there are free places, as soon as there are any.
//!
//! A hint wakes it (a run was created, a place became free, another node has no place for what waits). The slow,
//! jittered look is the safety net for hints of other nodes that were lost. A run that was created here stays here
//! while there is a place: other nodes are told only where there is none, so that they do not all reach for each run.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sortie_api::RunId;
use sortie_store::{Claim, Store};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::places::Places;
use crate::{
    cluster::{
        identity::Identity,
        news::{News, Wake},
    },
    kit::options::Options,
    runs::unretained::{Share, Unretained},
};

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
    /// Runs whose content only this node has.
    pub(crate) unretained: Unretained,
    pub(crate) identity: Identity,
    pub(crate) work: Arc<Notify>,
    pub(crate) wake: Wake,
    pub(crate) news: News,
    pub(crate) stop: CancellationToken,
}

impl Dispatcher {
    /// Runs until the node stops taking runs.
    pub(crate) async fn run(self) {
        let mut first = First::Unretained;
        // Whether runs may have come through this node since it last had no place.
        let mut has_own = false;
        while !self.stop.is_cancelled() {
            first = first.next();
            // Listening before claiming, so that a run created in between is not missed.
            let work = self.work.notified();
            tokio::pin!(work);
            // A hint that came since the last pass is used up by this.
            has_own |= work.as_mut().enable();
            let claimed = self.claim(first).await;
            if matches!(claimed, Ok(Claimed::Full)) && has_own {
                has_own = false;
                self.leave_to_others();
            }
            let (pause, is_full) = match claimed {
                Ok(Claimed::More) => continue,
                Ok(Claimed::All) => (self.look(), false),
                Ok(Claimed::Full) => (self.look(), true),
                // The heartbeat says so, and makes the node known anew.
                Err(sortie_store::Error::Fenced) => {
                    tracing::debug!("no runs are claimed: this node was declared lost");
                    (AFTER_FAILURE, false)
                }
                Err(error) => {
                    tracing::error!(%error, "runs cannot be claimed");
                    (AFTER_FAILURE, false)
                }
            };
            tokio::select! {
                biased;
                () = work => has_own = true,
                () = self.wake.work.notified() => {}
                () = self.places.active().left(), if is_full || self.options.organization_concurrency.is_some() => {}
                () = tokio::time::sleep(pause) => {}
                () = self.stop.cancelled() => {}
            }
        }
        self.leave_to_others();
    }

    /// Tells other nodes of runs that wait and that any node may work on.
    fn leave_to_others(&self) {
        if matches!(self.source, Source::Queue) {
            self.news.work();
        }
    }

    fn look(&self) -> Duration {
        let jitter = self.options.clock.now().as_micros().rem_euclid(JITTER_MS);
        LOOK + Duration::from_millis(jitter.unsigned_abs())
    }

    /// Runs that any node may work on, or those of this engine.
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
                let claims = store.claim_named(node, runs.clone(), None, now).await;
                if claims.is_err() {
                    for run in runs {
                        own.add(run);
                    }
                }
                claims
            }
        }
    }

    /// Runs whose content only this node has. Those that the store does not hand out, for the limit of their
    /// organization or because they have ended, wait on; who keeps such runs takes the ended ones out.
    async fn take_unretained(&self, limit: u32) -> Result<Vec<Claim>, sortie_store::Error> {
        let per_organization = self.options.organization_concurrency;
        let share = match per_organization {
            Some(_) => Share::OneOfEach,
            None => Share::All,
        };
        let runs = self.unretained.take_waiting(limit, share);
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let (node, now) = (self.identity.get(), self.options.clock.now());
        let claims = self
            .store
            .claim_named(node, runs.clone(), per_organization, now)
            .await;
        let claimed = claims.as_deref().unwrap_or_default();
        let is_claimed = |run: &RunId| claimed.iter().any(|claim| claim.fence.run == *run);
        self.unretained
            .put_back(runs.into_iter().filter(|run| !is_claimed(run)));
        claims
    }

    async fn claim(&self, first: First) -> Result<Claimed, sortie_store::Error> {
        let turn = self.places.turn().await;
        let limit = turn.free();
        if limit == 0 {
            return Ok(Claimed::Full);
        }
        let mut left = limit;
        let mut is_behind = false;
        for kind in match first {
            First::Unretained => [First::Unretained, First::Others],
            First::Others => [First::Others, First::Unretained],
        } {
            let claims = match kind {
                First::Unretained if left > 0 => self.take_unretained(left).await?,
                First::Others if left > 0 => self.take(left).await?,
                First::Unretained | First::Others => Vec::new(),
            };
            left = left.saturating_sub(u32::try_from(claims.len()).unwrap_or(u32::MAX));
            // At most one of each organization was asked for. A pass that gets none is the last.
            is_behind |= matches!(kind, First::Unretained)
                && self.options.organization_concurrency.is_some()
                && !claims.is_empty()
                && self.unretained.has_waiting();
            for claim in claims {
                turn.start(claim);
            }
        }
        Ok(if left == 0 || is_behind {
            Claimed::More
        } else {
            Claimed::All
        })
    }
}

/// Which of the two kinds of runs is served first: in turn, so that with few places neither waits for the other's end.
#[derive(Clone, Copy)]
enum First {
    /// Those whose content only this node has.
    Unretained,
    /// All others.
    Others,
}

impl First {
    fn next(self) -> Self {
        match self {
            Self::Unretained => Self::Others,
            Self::Others => Self::Unretained,
        }
    }
}

enum Claimed {
    /// The batch was full, or held one of each organization only: there may be more.
    More,
    /// Nothing waits any more.
    All,
    /// No place is free.
    Full,
}

#[cfg(test)]
mod tests {
    use sortie_api::{
        Role,
        secret::{SELF_HOSTED_KEY, Secret},
    };
    use sortie_store::{Actor, Created};

    use super::*;
    use crate::{Engine, kit::caller::Caller};

    const RUNS: usize = 16;

    #[tokio::test(flavor = "multi_thread")]
    async fn under_a_limit_of_the_organization_all_that_fit_start_without_a_look_for_each() {
        let dir = tempfile::tempdir().unwrap();
        let memory = tempfile::Builder::new()
            .prefix("sortie-test-")
            .tempdir_in("/dev/shm")
            .unwrap();
        // In memory: what is told by the clock here waits for no disk.
        let url = format!("sqlite:{}", memory.path().join("test.db").display());
        let options = Options {
            data_dir: dir.path().to_owned(),
            memory_dir: Some(memory.path().join("work")),
            concurrency: 2 * u32::try_from(RUNS).unwrap(),
            organization_concurrency: Some(u32::try_from(RUNS).unwrap()),
            ..Options::default()
        };
        let sandbox = Err("this test has none.".to_owned());
        let engine = Engine::start(options, Store::open(&url).await.unwrap(), sandbox)
            .await
            .unwrap();
        let key = Secret::new(SELF_HOSTED_KEY, [7; 32]);
        assert!(engine.bootstrap(&key).await.unwrap());
        let key = engine.authenticate(key.expose()).await.unwrap().unwrap();
        assert_eq!(key.role, Role::Admin);
        let caller = Caller {
            org: key.org,
            actor: Actor::default(),
        };
        // The dispatcher waits for its turn meanwhile, so that the hints of all of them are one.
        let turn = engine.0.work.places.turn().await;
        for _ in 0..=RUNS {
            let request = serde_json::json!({
                "prompt": "```wait 600000\n```", "shell": false, "zero_data_retention": true
            });
            let request = serde_json::from_value(request).unwrap();
            let created = engine.create_run(&caller, request, None).await.unwrap();
            assert!(matches!(created, Created::New(_)));
        }
        drop(turn);
        let all_at_work = async {
            while engine.0.work.active.count() < RUNS {
                tokio::task::yield_now().await;
            }
        };
        // A look for each takes twice as long.
        let half = LOOK * u32::try_from(RUNS / 2).unwrap();
        tokio::time::timeout(half, all_at_work).await.unwrap();
    }
}
