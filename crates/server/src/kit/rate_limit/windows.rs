//! Counters of all clients in the current window.

use std::{
    collections::HashMap,
    fmt::Display,
    hash::{BuildHasher, Hash, RandomState},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use sortie_store::nodes::{GrantedBlock, WantedBlock};

use super::{
    SHARDS, Standing, WINDOW_SECONDS,
    counter::{Counter, Taken},
    leasing::Cluster,
};

/// Counters by `K`, split into shards so that two cores seldom wait for each other.
#[derive(Debug)]
pub(in crate::kit) struct Windows<K> {
    shards: [Mutex<Shard<K>>; SHARDS],
    hasher: RandomState,
    capacity: usize,
    quota: u32,
    /// Cluster that leases blocks for the counters; absent if this node has the whole quota.
    cluster: Option<Arc<Cluster>>,
}

#[derive(Debug)]
struct Shard<K> {
    window: u64,
    counters: HashMap<K, Counter>,
    /// Shared counter of all keys above the capacity. It is local to this node, because other nodes group different keys.
    overflow: Counter,
    /// Keys with a pending request for a block that is not yet sent to the store.
    asking: Vec<K>,
}

/// A block to request from the store, and the key it is for.
pub(super) struct Asking<K> {
    key: K,
    window: u64,
    pub(super) wanted: WantedBlock,
}

impl<K: Hash + Eq + Copy + Display + Send + Sync> Windows<K> {
    /// Creates the counters. At most `capacity` keys in each shard have separate counters.
    pub(in crate::kit) fn new(capacity: usize, quota: u32, cluster: Option<Arc<Cluster>>) -> Self {
        let shard = || {
            Mutex::new(Shard {
                window: 0,
                counters: HashMap::new(),
                overflow: Counter::whole(quota),
                asking: Vec::new(),
            })
        };
        Self {
            shards: std::array::from_fn(|_| shard()),
            hasher: RandomState::new(),
            capacity,
            quota,
            cluster,
        }
    }

    /// Returns the shard of `key`. `None` is unreachable; callers refuse the request then.
    fn shard_of(&self, key: &K) -> Option<MutexGuard<'_, Shard<K>>> {
        let at = usize::try_from(self.hasher.hash_one(key)).unwrap_or(usize::MAX) % SHARDS;
        let shard = self.shards.get(at)?;
        Some(shard.lock())
    }

    /// Locks the shard of a key for this window, or a later one: a clock that is set back does not start a new window.
    fn shard_in(&self, key: &K, window: u64) -> Option<MutexGuard<'_, Shard<K>>> {
        let mut shard = self.shard_of(key)?;
        shard.enter(window, self.quota);
        Some(shard)
    }

    /// Counts a request of `key`, and waits for a block if the grant is used up and the store may have more.
    pub(super) async fn count(&self, key: K, clock: &(impl Fn() -> u64 + Sync)) -> Standing {
        let Some(cluster) = &self.cluster else {
            let now = clock();
            return self.take(key, now, None).unwrap_or(refused(now));
        };
        let counted = async {
            loop {
                // Register first, so that an answer in between is not missed.
                let answered = cluster.answered.notified();
                if let Some(standing) = self.take(key, clock(), cluster.share(self.quota)) {
                    return standing;
                }
                answered.await;
            }
        };
        match tokio::time::timeout(cluster.patience, counted).await {
            Ok(standing) => standing,
            Err(_elapsed) => {
                let now = clock();
                let share = Some(cluster.part(self.quota));
                self.take(key, now, share).unwrap_or(refused(now))
            }
        }
    }

    /// Counts a request of `key`. Returns `None` if it has to wait for a block, which never happens with a `share`.
    pub(in crate::kit) fn take(&self, key: K, now_seconds: u64, share: Option<u32>) -> Option<Standing> {
        let (window, reset) = window_at(now_seconds);
        let Some(mut guard) = self.shard_in(&key, window) else {
            return Some(refused(now_seconds));
        };
        let held = &mut *guard;
        let full = held.counters.len() >= self.capacity;
        let counter = match held.counters.get_mut(&key) {
            Some(counter) => counter,
            None if full => &mut held.overflow,
            None => held.counters.entry(key).or_insert_with(|| self.fresh()),
        };
        let taken = counter.take(share);
        if counter.asks() {
            held.asking.push(key);
            if let Some(cluster) = &self.cluster {
                cluster.asked.notify_one();
            }
        }
        (taken != Taken::Waits).then(|| Standing {
            remaining: counter.remaining(share),
            reset,
            admitted: taken == Taken::Admitted,
        })
    }

    fn fresh(&self) -> Counter {
        match self.cluster {
            Some(_) => Counter::leased(self.quota),
            None => Counter::whole(self.quota),
        }
    }

    /// Returns the standing of `key` without counting, as far as this node knows.
    pub(in crate::kit) fn peek(&self, key: &K, now_seconds: u64) -> Standing {
        let (window, reset) = window_at(now_seconds);
        let share = self
            .cluster
            .as_ref()
            .and_then(|cluster| cluster.share(self.quota));
        let remaining = self
            .shard_in(key, window)
            .map_or(0, |shard| match shard.counters.get(key) {
                Some(counter) => counter.remaining(share),
                None if shard.counters.len() >= self.capacity => shard.overflow.remaining(share),
                None => self.fresh().remaining(share),
            });
        Standing {
            remaining,
            reset,
            admitted: remaining > 0,
        }
    }

    /// Takes at most `limit` pending block requests of the current window. Each is returned only once.
    pub(super) fn asking(&self, now_seconds: u64, limit: usize) -> Vec<Asking<K>> {
        let (window, _) = window_at(now_seconds);
        let mut found = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.enter(window, self.quota);
            while found.len() < limit {
                let Some(key) = shard.asking.pop() else { break };
                if let Some(counter) = shard.counters.get(&key) {
                    found.push(Asking {
                        key,
                        window: shard.window,
                        wanted: WantedBlock {
                            minute: i64::try_from(shard.window).unwrap_or(i64::MAX),
                            subject: key.to_string(),
                            quota: self.quota,
                            target: counter.target(self.quota),
                            unused: counter.unused(),
                        },
                    });
                }
            }
        }
        found
    }

    /// Applies the answer of the store; `None` if the store did not answer. A block of an expired window is dropped.
    pub(super) fn answered(&self, asking: &Asking<K>, block: Option<GrantedBlock>) {
        let Some(mut shard) = self.shard_of(&asking.key) else {
            return;
        };
        if shard.window != asking.window {
            return;
        }
        if let Some(counter) = shard.counters.get_mut(&asking.key) {
            match block {
                Some(block) => counter.grant(block),
                None => counter.failed(),
            }
        }
    }

    /// Returns the number of clients with separate counters.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        let held = self.shards.iter().map(|shard| {
            let shard = shard.lock();
            shard.counters.len()
        });
        held.sum()
    }
}

impl<K: Hash + Eq> Shard<K> {
    fn enter(&mut self, window: u64, quota: u32) {
        if window <= self.window {
            return;
        }
        self.window = window;
        self.overflow = Counter::whole(quota);
        self.asking.clear();
        // Frees the memory of a table that grew in a burst.
        let used = self.counters.len();
        self.counters.clear();
        self.counters.shrink_to(used.saturating_mul(2).min(4_096));
    }
}

/// Returns the number of the window, and the seconds until the next one.
const fn window_at(now_seconds: u64) -> (u64, u64) {
    (
        now_seconds / WINDOW_SECONDS,
        WINDOW_SECONDS - now_seconds % WINDOW_SECONDS,
    )
}

const fn refused(now_seconds: u64) -> Standing {
    Standing {
        remaining: 0,
        reset: window_at(now_seconds).1,
        admitted: false,
    }
}
