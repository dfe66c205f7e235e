//! The dispatcher: claims as many waiting runs as there are free slots, as soon as there are any.
//!
//! A hint wakes it: a run was created, a slot became free, or another node has waiting runs and no free slot. A slow,
//! jittered poll is the fallback for lost hints of other nodes. A run stays on the node that created it while that node
//! has a free slot: only without one are other nodes notified, so that they do not all try to claim each run.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use sortie_api::RunId;
use sortie_store::{Store, runs::Claim};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::slots::Slots;
use crate::{
    cluster::{
        hints::{HintSender, Wake},
        identity::Identity,
    },
    kit::options::{Options, poll_pause},
    runs::unretained::{Share, Unretained},
};

/// Pause after a failed claim.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// Source of the runs of a dispatcher.
pub(crate) enum Source {
    /// The queue of the database.
    Queue,
    /// Runs of this engine alone, in their order.
    Named(OwnRuns),
}

/// Runs of an engine that serves one command: those that were created through it, and those that it was asked to resume.
#[derive(Clone, Default)]
pub(crate) struct OwnRuns(Arc<Mutex<Lists>>);

#[derive(Default)]
struct Lists {
    /// Runs that are not yet claimed.
    waiting: Vec<RunId>,
    /// Runs that end with the engine. The other runs are left for another engine.
    tied: BTreeSet<RunId>,
}

impl OwnRuns {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.0.lock()
    }

    pub(crate) fn add(&self, run: RunId) {
        self.lists().waiting.push(run);
    }

    /// Ends a run with the engine.
    pub(crate) fn tie(&self, run: RunId) {
        self.lists().tied.insert(run);
    }

    /// Whether a run ends with the engine.
    pub(crate) fn is_tied(&self, run: RunId) -> bool {
        self.lists().tied.contains(&run)
    }

    fn take(&self, limit: usize) -> Vec<RunId> {
        let waiting = &mut self.lists().waiting;
        let taken = limit.min(waiting.len());
        waiting.drain(..taken).collect()
    }
}

pub(crate) struct Dispatcher {
    pub(crate) store: Store,
    pub(crate) options: Arc<Options>,
    pub(crate) slots: Slots,
    pub(crate) source: Source,
    /// Runs with content that only this node has.
    pub(crate) unretained: Unretained,
    pub(crate) identity: Identity,
    pub(crate) work: Arc<Notify>,
    pub(crate) wake: Wake,
    pub(crate) hints: HintSender,
    pub(crate) stop: CancellationToken,
}

impl Dispatcher {
    /// Claims runs until the node is closed for new runs.
    pub(crate) async fn run(self) {
        let mut first = First::Unretained;
        // Whether a run may have been created on this node since it last had no free slot.
        let mut has_own = false;
        while !self.stop.is_cancelled() {
            first = first.next();
            // Listens before it claims, so that a run created in between is not missed.
            let work = self.work.notified();
            tokio::pin!(work);
            // Consumes a hint that arrived since the last pass.
            has_own |= work.as_mut().enable();
            let claimed = self.claim(first).await;
            if matches!(claimed, Ok(Claimed::Full)) && has_own {
                has_own = false;
                self.leave_to_others();
            }
            let (pause, is_full) = match claimed {
                Ok(Claimed::More) => continue,
                Ok(Claimed::All) => (self.poll_pause(), false),
                Ok(Claimed::Full) => (self.poll_pause(), true),
                // The heartbeat detects the loss and registers the node again.
                Err(sortie_store::Error::Fenced) => {
                    tracing::debug!("cannot claim runs: this node was declared lost");
                    (AFTER_FAILURE, false)
                }
                Err(error) => {
                    tracing::error!(%error, "claiming runs failed");
                    (AFTER_FAILURE, false)
                }
            };
            tokio::select! {
                biased;
                () = work => has_own = true,
                () = self.wake.work.notified() => {}
                () = self.slots.active().left(), if is_full || self.options.organization_concurrency.is_some() => {}
                () = tokio::time::sleep(pause) => {}
                () = self.stop.cancelled() => {}
            }
        }
        self.leave_to_others();
    }

    /// Sends other nodes a hint about waiting runs that any node may work on.
    fn leave_to_others(&self) {
        if matches!(self.source, Source::Queue) {
            self.hints.work();
        }
    }

    fn poll_pause(&self) -> Duration {
        poll_pause(self.options.polls.queue, self.options.clock.now())
    }

    /// Claims runs that any node may work on, or those of this engine.
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
                match store.claim_named(node, runs.clone(), None, now).await {
                    Ok(mut claims) => {
                        let is_left = |run: &RunId| !claims.iter().any(|claim| claim.fence.run == *run);
                        let left = runs.into_iter().filter(is_left).collect();
                        claims.extend(self.take_lost(own, left).await);
                        Ok(claims)
                    }
                    Err(error) => {
                        for run in runs {
                            own.add(run);
                        }
                        Err(error)
                    }
                }
            }
        }
    }

    /// Takes over those of `runs` that a lost node holds. Leaves out the runs that another node holds, and those that have ended.
    async fn take_lost(&self, own: &OwnRuns, runs: Vec<RunId>) -> Vec<Claim> {
        let mut taken = Vec::new();
        for run in runs {
            let (node, now) = (self.identity.get(), self.options.clock.now());
            match self.store.take_named(node, run, now).await {
                Ok(Some(claim)) => {
                    tracing::warn!(run.id = %run, "took over a run of a lost worker");
                    self.slots.metrics().took_over();
                    taken.push(claim);
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(run.id = %run, %error, "cannot take over a run of a lost worker");
                    if !error.is_of_data() {
                        own.add(run);
                    }
                }
            }
        }
        taken
    }

    /// Claims runs with content that only this node has. Runs that cannot be claimed, because of the limit of their organization
    /// or because they have ended, keep waiting. The keeper removes the ended ones.
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
        let permit = self.slots.permit().await;
        let limit = permit.free();
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
            // The claim was limited to one run of each organization, so more may wait. The first pass that claims nothing is the
            // last.
            is_behind |= matches!(kind, First::Unretained)
                && self.options.organization_concurrency.is_some()
                && !claims.is_empty()
                && self.unretained.has_waiting();
            for claim in claims {
                permit.start(claim);
            }
        }
        Ok(if left == 0 || is_behind {
            Claimed::More
        } else {
            Claimed::All
        })
    }
}

/// The kind of runs that is claimed first. The kinds alternate, so that neither waits for the other if slots are few.
#[derive(Clone, Copy)]
enum First {
    /// Runs with content that only this node has.
    Unretained,
    /// Other runs.
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
    /// More runs may wait: the batch was full, or limited to one run of each organization.
    More,
    /// No more runs wait.
    All,
    /// No slot is free.
    Full,
}

#[cfg(test)]
mod tests {
    use sortie_api::{
        Role,
        secret::{SELF_HOSTED_KEY, Secret},
    };
    use sortie_store::{
        access::{Actor, Caller},
        runs::Created,
    };

    use super::*;
    use crate::{Engine, Polls};

    const RUNS: usize = 16;

    #[tokio::test(flavor = "multi_thread")]
    async fn under_a_limit_of_the_organization_all_that_fit_start_without_a_poll() {
        let dir = tempfile::tempdir().unwrap();
        let memory = tempfile::Builder::new()
            .prefix("sortie-test-")
            .tempdir_in("/dev/shm")
            .unwrap();
        let options = Options {
            data_dir: dir.path().to_owned(),
            memory_dir: Some(memory.path().join("work")),
            concurrency: 2 * u32::try_from(RUNS).unwrap(),
            organization_concurrency: Some(u32::try_from(RUNS).unwrap()),
            polls: Polls {
                queue: Duration::from_hours(1),
                ..Polls::default()
            },
            ..Options::default()
        };
        let sandbox = Err("this test has none.".to_owned());
        let engine = Engine::start(options, crate::testing::store_in(&dir).await, sandbox)
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
        // While the test holds the permit, the dispatcher waits for it, and the hints of all runs merge into one.
        let permit = engine.0.work.slots.permit().await;
        for _ in 0..=RUNS {
            let request = serde_json::json!({
                "prompt": "```wait 600000\n```", "shell": false, "zero_data_retention": true
            });
            let request = serde_json::from_value(request).unwrap();
            let created = engine.create_run(&caller, request, None).await.unwrap();
            assert!(matches!(created, Created::New(_)));
        }
        drop(permit);
        let all_at_work = async {
            while engine.0.work.active.count() < RUNS {
                tokio::task::yield_now().await;
            }
        };
        let patience = Duration::from_secs(20);
        tokio::time::timeout(patience, all_at_work).await.unwrap();
    }
}
