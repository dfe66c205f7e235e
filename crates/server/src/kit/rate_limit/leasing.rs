//! Blocks of quotas, leased from the store for all clients that currently need one.
//!
//! A counter requests a block while half of its last block is left, so a request waits only for the first block of a window and
//! for the last few requests of a quota, when blocks have size one. Only one statement is in flight at a time; requests that
//! arrive during it go into the next one. If the store does not answer, a node admits its share of each quota: the quota divided
//! by the last known number of live nodes, which it queries at its start and once a minute. Clients are still served then, and
//! all nodes together admit at most twice the quota (each its share, which is at least one request, or its leased blocks if they
//! are more) unless nodes have joined since the query. Requests admitted on the share are deducted from the quota once the store
//! answers.

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

/// Pause between two statements, which batches requests for blocks.
const GATHER: Duration = Duration::from_millis(2);

/// Pause after a failed statement.
const RETRY: Duration = Duration::from_secs(1);

/// Maximum number of blocks in one statement, for subjects and for networks each.
pub(super) const AT_ONCE: usize = 500;

/// Number of past windows that the store keeps. A node with a smaller clock error deletes no window that other nodes still
/// use.
const KEPT_WINDOWS: u64 = 5;

/// State of the cluster, and the signals between requests and leases.
#[derive(Debug)]
pub(in crate::kit) struct Cluster {
    /// Time for which a request waits for a block, and after which the store counts as unavailable.
    pub(super) patience: Duration,
    /// Nodes that were alive at the last answer.
    nodes: AtomicU32,
    /// Whether the store did not answer the last statement.
    silent: AtomicBool,
    /// A counter asks for a block.
    pub(super) asked: Notify,
    /// Counters have changed other than by a request.
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

    /// Returns this node's share of a quota without the store: at least one request.
    pub(super) fn part(&self, quota: u32) -> u32 {
        (quota / self.nodes.load(Ordering::Relaxed).max(1)).max(quota.min(1))
    }

    /// Returns [`part`](Self::part) while the store does not answer.
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
    /// Leases blocks for counters, and deletes expired windows from the store, until the future is dropped. Does nothing on a
    /// node that counts alone.
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

    /// Leases blocks for all waiting counters in one statement, and returns the pause after it.
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
            // Callers that waited in an expired window have to ask again.
            cluster.answered.notify_waiters();
            return GATHER;
        }
        let nodes = cluster.nodes.load(Ordering::Relaxed);
        let mut leased = pin!(lessor.lease(wanted, nodes));
        let outcome = match tokio::time::timeout(cluster.patience, leased.as_mut()).await {
            Ok(outcome) => outcome,
            Err(elapsed) => {
                cluster.is_silent_for(&elapsed);
                // The store may still grant the blocks, and they must not be lost.
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

/// Queries the number of nodes at the start and once in each window: a node without requests would otherwise not know its share
/// when the store stops answering.
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

/// Deletes old windows from the store, once in each window.
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
