//! The leases of all nodes as this node has read them, with times of its own monotonic clock.
//!
//! A node is declared lost once its lease has not changed for the duration of a lease. A node that renews its lease is therefore
//! never declared lost because of a clock step or a wait in a queue.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use sortie_api::Timestamp;
use sortie_store::nodes::{NodeId, SeenLease};
use tokio::time::Instant;

#[derive(Clone)]
pub(crate) struct Leases {
    /// Duration of a lease.
    lease: Duration,
    table: Arc<Mutex<LeaseTable>>,
}

/// Leases at the last renewal.
struct LeaseTable {
    /// The time at which the last successful renewal of this node's own lease was sent.
    renewed_at: Instant,
    /// Leases of the other nodes, each with the time since which it has not changed.
    others: BTreeMap<NodeId, (Timestamp, Instant)>,
}

impl Leases {
    /// Creates the leases of a node that was granted its own lease by a request sent at `sent_at`.
    pub(crate) fn new(lease: Duration, sent_at: Instant) -> Self {
        let table = LeaseTable {
            renewed_at: sent_at,
            others: BTreeMap::new(),
        };
        Self {
            lease,
            table: Arc::new(Mutex::new(table)),
        }
    }

    fn table(&self) -> MutexGuard<'_, LeaseTable> {
        self.table.lock()
    }

    /// Records a renewal of the node's own lease by a request sent at `sent_at`, and the other leases in its answer.
    pub(crate) fn renewed(&self, sent_at: Instant, others: &[SeenLease]) {
        let now = Instant::now();
        let mut table = self.table();
        // If this node itself paused for that long, it cannot know whether the others paused as well.
        if sent_at.saturating_duration_since(table.renewed_at) >= self.lease {
            table.others.clear();
        }
        table.renewed_at = sent_at;
        let mut before = std::mem::take(&mut table.others);
        for other in others {
            let unchanged = before
                .remove(&other.node)
                .filter(|(lease_until, _)| *lease_until == other.lease_until);
            let since = unchanged.map_or(now, |(_, since)| since);
            table.others.insert(other.node, (other.lease_until, since));
        }
    }

    /// Forgets the leases of the others after an outage of the database, during which they could not renew either.
    pub(crate) fn forget(&self) {
        self.table().others.clear();
    }

    /// Whether this node's own lease is valid.
    pub(crate) fn is_held(&self) -> bool {
        self.table().renewed_at.elapsed() < self.lease
    }

    /// Returns the leases that have not changed for the duration of a lease.
    pub(crate) fn overdue(&self) -> Vec<SeenLease> {
        self.table()
            .others
            .iter()
            .filter(|(_, (_, since))| since.elapsed() >= self.lease)
            .map(|(node, (lease_until, _))| SeenLease {
                node: *node,
                lease_until: *lease_until,
            })
            .collect()
    }

    /// Returns the time at which the next lease becomes overdue unless it is renewed.
    pub(crate) fn next_overdue(&self) -> Option<Instant> {
        let now = Instant::now();
        let seen = self.table();
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
        // The other lease was renewed nine seconds after the first was seen.
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
