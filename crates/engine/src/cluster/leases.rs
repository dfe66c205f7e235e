//! The leases of all nodes, as this node has seen them on its own even clock.
//!
//! A node is declared lost after its lease was seen unchanged for as long as a lease lasts. No step of a clock and no wait
//! in a queue can make that true for a node that renews.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sortie_api::Timestamp;
use sortie_store::{NodeId, SeenLease};
use tokio::time::Instant;

#[derive(Clone)]
pub(crate) struct Leases {
    /// Duration of a lease.
    lease: Duration,
    seen: Arc<Mutex<Seen>>,
}

struct Seen {
    /// The time at which the last successful renewal of this node's own lease was sent.
    renewed_at: Instant,
    /// The leases of the others, each with the time since which it is known not to have changed.
    others: BTreeMap<NodeId, (Timestamp, Instant)>,
}

impl Leases {
    /// Of a node that has got a lease by a request sent at `sent_at`.
    pub(crate) fn new(lease: Duration, sent_at: Instant) -> Self {
        let seen = Seen {
            renewed_at: sent_at,
            others: BTreeMap::new(),
        };
        Self {
            lease,
            seen: Arc::new(Mutex::new(seen)),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node has renewed its lease by a request sent at `sent_at`, whose answer tells the leases of the others.
    pub(crate) fn renewed(&self, sent_at: Instant, others: &[SeenLease]) {
        let now = Instant::now();
        let mut seen = self.seen();
        // After a pause of its own for so long, the node cannot tell whether the others had one too.
        if sent_at.saturating_duration_since(seen.renewed_at) >= self.lease {
            seen.others.clear();
        }
        seen.renewed_at = sent_at;
        let mut before = std::mem::take(&mut seen.others);
        for other in others {
            let unchanged = before
                .remove(&other.node)
                .filter(|(lease_until, _)| *lease_until == other.lease_until);
            let since = unchanged.map_or(now, |(_, since)| since);
            seen.others.insert(other.node, (other.lease_until, since));
        }
    }

    /// The database was out of reach: the others may not have been able to renew their leases either.
    pub(crate) fn forget(&self) {
        self.seen().others.clear();
    }

    /// Whether this node's own lease lasts.
    pub(crate) fn is_held(&self) -> bool {
        self.seen().renewed_at.elapsed() < self.lease
    }

    /// The leases that were not renewed for as long as a lease lasts.
    pub(crate) fn overdue(&self) -> Vec<SeenLease> {
        self.seen()
            .others
            .iter()
            .filter(|(_, (_, since))| since.elapsed() >= self.lease)
            .map(|(node, (lease_until, _))| SeenLease {
                node: *node,
                lease_until: *lease_until,
            })
            .collect()
    }

    /// The time at which the next lease becomes overdue, unless it is renewed before.
    pub(crate) fn next_overdue(&self) -> Option<Instant> {
        let now = Instant::now();
        let seen = self.seen();
        let ends = seen.others.values().map(|(_, since)| *since + self.lease);
        ends.filter(|end| *end > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn lease(node: i64, until: i64) -> SeenLease {
        SeenLease {
            node: NodeId(node),
            lease_until: Timestamp::from_micros(until),
        }
    }

    async fn pass(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_overdue_when_it_was_not_renewed_for_as_long_as_it_lasts() {
        let leases = Leases::new(LEASE, Instant::now());
        for second in [0, 3, 6, 9] {
            leases.renewed(Instant::now(), &[lease(1, 7), lease(2, second)]);
            assert_eq!(leases.overdue(), []);
            pass(3).await;
        }
        assert_eq!(leases.overdue(), [lease(1, 7)]);
        // The other one was renewed nine seconds after the first was seen.
        assert_eq!(
            leases.next_overdue(),
            Some(Instant::now() + Duration::from_secs(7))
        );
        leases.renewed(Instant::now(), &[lease(1, 8), lease(2, 9)]);
        assert_eq!(leases.overdue(), []);
        leases.renewed(Instant::now(), &[]);
        pass(20).await;
        assert_eq!((leases.overdue(), leases.next_overdue()), (vec![], None));
    }

    #[tokio::test(start_paused = true)]
    async fn leases_are_watched_anew_after_an_outage_and_after_a_pause() {
        let leases = Leases::new(LEASE, Instant::now());
        leases.renewed(Instant::now(), &[lease(1, 7)]);
        pass(9).await;
        leases.forget();
        leases.renewed(Instant::now(), &[lease(1, 7)]);
        pass(9).await;
        assert_eq!(leases.overdue(), []);
        pass(1).await;
        assert!(!leases.is_held());
        // This node itself did not renew for the time of a lease.
        leases.renewed(Instant::now(), &[lease(1, 7)]);
        assert!(leases.is_held());
        assert_eq!(leases.overdue(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn the_own_lease_counts_from_when_its_renewal_was_sent() {
        let leases = Leases::new(LEASE, Instant::now());
        let sent_at = Instant::now();
        pass(2).await;
        leases.renewed(sent_at, &[]);
        pass(7).await;
        assert!(leases.is_held());
        pass(1).await;
        assert!(!leases.is_held());
    }
}
