//! Blocks of quotas, leased from the store for all clients that need some at the moment.
//!
//! A counter asks while half of its last block is still there, so a request waits only for the first block of a window
//! and for the last few requests of a quota, when blocks are single ones. One statement is under way at a time; what is
//! asked for meanwhile goes with the next. Where the store is silent, a node lets through its share of each quota,
//! which is the quota over the number of nodes it last knew to be alive, which it asks at its start and once a minute:
//! clients are served, and all nodes together let through at most twice the quota (each its share, which is one request
//! at least, or what it had leased where that is more) unless nodes have come since they asked. What went through on
//! the share is taken out of the quota once the store answers.

#[cfg(test)]
mod tests;

use std::{
    future::Future,
    pin::pin,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::Duration,
};

use sortie_engine::Engine;
use sortie_store::{
    Error as StoreError,
    nodes::{Leased, WantedBlock},
};
use tokio::sync::Notify;

use super::{RateLimits, WINDOW_SECONDS};

/// Pause between two statements, in which needs gather.
const GATHER: Duration = Duration::from_millis(2);

/// Pause after a statement that failed.
const RETRY: Duration = Duration::from_secs(1);

/// Blocks in one statement at most, of subjects and of networks each.
pub(super) const AT_ONCE: usize = 500;

/// Number of past windows that the store keeps. A node whose clock is off by less deletes nothing that others still
/// count by.
const KEPT_WINDOWS: u64 = 5;

/// Knowledge of the other nodes, and the signals between requests and leases.
#[derive(Debug)]
pub(in crate::kit) struct Cluster {
    /// Time for which a request waits for a block, and after which the store counts as silent.
    pub(super) patience: Duration,
    /// Nodes that were alive at the last answer.
    nodes: AtomicU32,
    /// True after the store left the last question unanswered.
    silent: AtomicBool,
    /// A counter asks for a block.
    pub(super) asked: Notify,
    /// Counters have changed otherwise than by a request.
    pub(super) answered: Notify,
}

impl Cluster {
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            patience,
            nodes: AtomicU32::new(1),
            silent: AtomicBool::new(false),
            asked: Notify::new(),
            answered: Notify::new(),
        }
    }

    /// Returns this node's part of a quota without the store: at least one request.
    pub(super) fn part(&self, quota: u32) -> u32 {
        (quota / self.nodes.load(Ordering::Relaxed).max(1)).max(quota.min(1))
    }

    /// Returns [`part`](Self::part) while the store is silent.
    pub(super) fn share(&self, quota: u32) -> Option<u32> {
        self.silent.load(Ordering::Relaxed).then(|| self.part(quota))
    }

    fn is_silent_for(&self, reason: &dyn std::fmt::Display) {
        if !self.silent.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %reason,
                "the database does not answer: rate limits fall back to this node's share of each quota"
            );
        }
        self.answered.notify_waiters();
    }

    fn has_answered(&self, nodes: u32) {
        self.nodes.store(nodes.max(1), Ordering::Relaxed);
        if self.silent.swap(false, Ordering::Relaxed) {
            tracing::info!("the database answers again: rate limits are shared");
        }
    }
}

/// Grantor of blocks.
pub(crate) trait Lessor: Sync {
    /// See [`Engine::lease_rates`].
    fn lease(
        &self,
        wanted: Vec<WantedBlock>,
        nodes: u32,
    ) -> impl Future<Output = Result<Leased, StoreError>> + Send;

    /// See [`Store::forget_rates`](sortie_store::Store::forget_rates).
    fn forget(&self, before_minute: i64) -> impl Future<Output = Result<u64, StoreError>> + Send;
}

impl Lessor for Engine {
    async fn lease(&self, wanted: Vec<WantedBlock>, nodes: u32) -> Result<Leased, StoreError> {
        self.lease_rates(wanted, nodes).await
    }

    async fn forget(&self, before_minute: i64) -> Result<u64, StoreError> {
        self.store().forget_rates(before_minute).await
    }
}

impl RateLimits {
    /// Leases what counters ask for, and has the store forget what is over, until it is dropped. A node that counts
    /// alone does nothing.
    pub(crate) async fn keep_leased(&self, lessor: &impl Lessor, clock: &(impl Fn() -> u64 + Sync)) {
        let Some(cluster) = &self.cluster else {
            return std::future::pending().await;
        };
        let leasing = async {
            loop {
                cluster.asked.notified().await;
                let pause = self.lease_once(cluster, lessor, clock()).await;
                tokio::time::sleep(pause).await;
            }
        };
        tokio::join!(
            leasing,
            count_nodes(cluster, lessor),
            forget_windows(lessor, clock)
        );
    }

    /// Leases blocks for all askers in one statement, and returns the pause after it.
    pub(super) async fn lease_once(
        &self,
        cluster: &Cluster,
        lessor: &impl Lessor,
        now_seconds: u64,
    ) -> Duration {
        let subjects = self.subjects.asking(now_seconds, AT_ONCE);
        let networks = self.networks.asking(now_seconds, AT_ONCE);
        if subjects.len() == AT_ONCE || networks.len() == AT_ONCE {
            cluster.asked.notify_one();
        }
        let wanted: Vec<WantedBlock> = subjects
            .iter()
            .map(|asking| asking.wanted.clone())
            .chain(networks.iter().map(|asking| asking.wanted.clone()))
            .collect();
        if wanted.is_empty() {
            // Who asked in a window that is over asks again.
            cluster.answered.notify_waiters();
            return GATHER;
        }
        let nodes = cluster.nodes.load(Ordering::Relaxed);
        let mut leased = pin!(lessor.lease(wanted, nodes));
        let outcome = match tokio::time::timeout(cluster.patience, leased.as_mut()).await {
            Ok(outcome) => outcome,
            Err(elapsed) => {
                cluster.is_silent_for(&elapsed);
                // It may be granted all the same, and must not be lost.
                leased.await
            }
        };
        let (blocks, pause) = match outcome {
            Ok(leased) => {
                cluster.has_answered(leased.nodes);
                (leased.blocks, GATHER)
            }
            Err(error) => {
                cluster.is_silent_for(&error);
                (Vec::new(), RETRY)
            }
        };
        let mut blocks = blocks.into_iter();
        for asking in &subjects {
            self.subjects.answered(asking, blocks.next());
        }
        for asking in &networks {
            self.networks.answered(asking, blocks.next());
        }
        cluster.answered.notify_waiters();
        pause
    }
}

/// At the start and once in each window, asks how many nodes there are: one that has no requests would not know its
/// share, should the store fall silent.
async fn count_nodes(cluster: &Cluster, lessor: &impl Lessor) {
    loop {
        let pause = count_once(cluster, lessor).await;
        tokio::time::sleep(pause).await;
    }
}

async fn count_once(cluster: &Cluster, lessor: &impl Lessor) -> Duration {
    let nodes = cluster.nodes.load(Ordering::Relaxed);
    match lessor.lease(Vec::new(), nodes).await {
        Ok(leased) => {
            cluster.nodes.store(leased.nodes.max(1), Ordering::Relaxed);
            Duration::from_secs(WINDOW_SECONDS)
        }
        Err(error) => {
            tracing::debug!(%error, "how many nodes there are could not be asked");
            RETRY
        }
    }
}

/// Once in each window, has the store forget those that are over for long enough.
async fn forget_windows(lessor: &impl Lessor, clock: &(impl Fn() -> u64 + Sync)) {
    loop {
        let window = clock() / WINDOW_SECONDS;
        let before = i64::try_from(window.saturating_sub(KEPT_WINDOWS)).unwrap_or(i64::MAX);
        loop {
            match lessor.forget(before).await {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot delete expired rate limit windows");
                    break;
                }
            }
        }
        tokio::time::sleep(Duration::from_secs(WINDOW_SECONDS)).await;
    }
}
