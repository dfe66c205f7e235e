//! Limits on concurrent deliveries, per host and in all, so that no receiver holds up another.
//!
//! A host whose last attempt failed gets as many attempts at a time as any other, so that each of its deliveries is tried
//! again when it is due. Failing hosts together get at most half of the slots, so that dead receivers leave slots to the
//! others. An organization gets its [share](Shares) of all slots, and of those for failing hosts. A host is skipped while
//! every organization known to wait for it has used its share. Hosts are served round-robin. No I/O, no clock.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sortie_api::{OrgId, Timestamp};
use sortie_store::Order;

use super::shares::Shares;

/// Maximum concurrent attempts to one host.
const PER_HOST: u32 = 16;

/// Maximum concurrent attempts in all.
const OVERALL: u32 = 512;

/// Maximum concurrent attempts to hosts whose last attempt failed.
const FAILING: u32 = OVERALL / 2;

/// Deliveries claimed in one transaction.
const BATCH: u32 = 64;

/// Maximum number of hosts remembered as failing while no attempt to them runs. Beyond it, all of them are forgotten.
const REMEMBERED: usize = 10_000;

/// Health of a receiver, as an attempt has shown it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// The receiver accepted the callback.
    Good,
    /// The receiver did not accept the callback.
    Bad,
    /// The attempt did not reach the receiver, or its outcome is not known.
    Unknown,
}

/// The slot of a running attempt.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) host: String,
    org: OrgId,
    /// Whether the host was failing when the slot was taken.
    failing: bool,
}

#[derive(Default)]
struct Lane {
    under_way: u32,
    failing: bool,
}

/// Deliveries that wait for a host.
struct Waiting {
    /// Due time of the first delivery.
    due_at: Timestamp,
    /// Organizations known to have a delivery for the host. Never empty.
    orgs: BTreeSet<OrgId>,
}

/// Organizations that have used their share.
struct LeftOut {
    /// Their share of all slots.
    everywhere: Vec<OrgId>,
    /// Their share of the slots for failing hosts, or of all slots.
    at_failing: Vec<OrgId>,
}

/// Running attempts by host, and hosts with waiting deliveries.
#[derive(Default)]
pub(super) struct Lanes {
    by_host: HashMap<String, Lane>,
    /// Hosts with deliveries that are due now or soon.
    waiting: BTreeMap<String, Waiting>,
    under_way: u32,
    /// Running attempts to failing hosts.
    failing: u32,
    /// The host that was served last.
    last: String,
    /// Slots of each organization, and those of them at hosts that were failing.
    shares: Shares,
    failing_shares: Shares,
}

impl Lanes {
    /// Adds a delivery of `org` to `host` that is due at `due_at`.
    pub(super) fn wait(&mut self, host: String, org: OrgId, due_at: Timestamp) {
        let waiting = self.waiting.entry(host).or_insert_with(|| Waiting {
            due_at,
            orgs: BTreeSet::new(),
        });
        waiting.due_at = due_at.min(waiting.due_at);
        waiting.orgs.insert(org);
    }

    fn is_failing(&self, host: &str) -> bool {
        self.by_host.get(host).is_some_and(|lane| lane.failing)
    }

    fn left_out(&self) -> LeftOut {
        let (free, failing_free) = (
            OVERALL.saturating_sub(self.under_way),
            FAILING.saturating_sub(self.failing),
        );
        let everywhere: Vec<OrgId> = self.shares.exhausted(free).collect();
        let mut at_failing: Vec<OrgId> = self.failing_shares.exhausted(failing_free).collect();
        at_failing.extend(&everywhere);
        LeftOut {
            everywhere,
            at_failing,
        }
    }

    /// Returns the organizations to leave out of the next claim for a host. `None` if no other organization is known to
    /// wait for it.
    fn without<'a>(&self, host: &str, waiting: &Waiting, left_out: &'a LeftOut) -> Option<&'a [OrgId]> {
        let without = if self.is_failing(host) {
            &left_out.at_failing
        } else {
            &left_out.everywhere
        };
        let others = waiting.orgs.iter().any(|org| !without.contains(org));
        others.then_some(without)
    }

    /// Returns the number of further attempts that a host may get, regardless of the other hosts.
    fn free(&self, host: &str) -> u32 {
        match self.by_host.get(host) {
            None => PER_HOST,
            Some(lane) if lane.failing => {
                let left = FAILING.saturating_sub(self.failing);
                PER_HOST.saturating_sub(lane.under_way).min(left)
            }
            Some(lane) => PER_HOST.saturating_sub(lane.under_way),
        }
    }

    /// Returns the claims to make at `now`.
    pub(super) fn orders(&mut self, now: Timestamp) -> Vec<Order> {
        let mut left = BATCH.min(OVERALL.saturating_sub(self.under_way));
        let mut failing_left = FAILING.saturating_sub(self.failing);
        let left_out = self.left_out();
        let mut orders = Vec::new();
        let behind = (
            std::ops::Bound::Excluded(self.last.as_str()),
            std::ops::Bound::Unbounded,
        );
        let before = (
            std::ops::Bound::Unbounded,
            std::ops::Bound::Included(self.last.as_str()),
        );
        let in_turn = self
            .waiting
            .range::<str, _>(behind)
            .chain(self.waiting.range::<str, _>(before));
        for (host, waiting) in in_turn.filter(|(_, waiting)| waiting.due_at <= now) {
            let Some(without) = self.without(host, waiting, &left_out) else {
                continue;
            };
            let mut limit = self.free(host).min(left);
            if !without.is_empty() {
                // The number of deliveries of other organizations is unknown: they must not use up the batch.
                limit = limit.min(1);
            }
            if self.is_failing(host) {
                limit = limit.min(failing_left);
                failing_left -= limit;
            }
            left -= limit;
            if limit > 0 {
                orders.push(Order {
                    host: host.clone(),
                    limit,
                    without: without.to_vec(),
                });
            }
            if left == 0 {
                break;
            }
        }
        if let Some(order) = orders.last() {
            self.last.clone_from(&order.host);
        }
        orders
    }

    /// Takes a slot for each delivery that an order has claimed, named by its organization. If there are fewer than
    /// ordered, only organizations that were left out may still have deliveries waiting.
    pub(super) fn claimed(&mut self, order: &Order, orgs: &[OrgId]) -> Vec<Slot> {
        let claimed = u32::try_from(orgs.len()).unwrap_or(u32::MAX);
        if claimed < order.limit {
            if order.without.is_empty() {
                self.waiting.remove(&order.host);
            } else if let Some(waiting) = self.waiting.get_mut(&order.host) {
                waiting.orgs = order.without.iter().copied().collect();
            }
        }
        if claimed == 0 {
            return Vec::new();
        }
        let lane = self.by_host.entry(order.host.clone()).or_default();
        lane.under_way += claimed;
        self.under_way += claimed;
        let failing = lane.failing;
        self.failing += if failing { claimed } else { 0 };
        for org in orgs {
            self.shares.take(*org);
            if failing {
                self.failing_shares.take(*org);
            }
        }
        let slot = |org: &OrgId| Slot {
            host: order.host.clone(),
            org: *org,
            failing,
        };
        orgs.iter().map(slot).collect()
    }

    /// Frees the slot of an attempt that has ended, and records the health of its host.
    pub(super) fn ended(&mut self, slot: &Slot, health: Health) {
        let host = slot.host.as_str();
        let Some(lane) = self.by_host.get_mut(host) else {
            return;
        };
        self.shares.give_back(slot.org);
        if slot.failing {
            self.failing_shares.give_back(slot.org);
        }
        self.under_way = self.under_way.saturating_sub(1);
        if lane.failing {
            self.failing = self.failing.saturating_sub(lane.under_way);
        }
        lane.under_way = lane.under_way.saturating_sub(1);
        match health {
            Health::Good => lane.failing = false,
            Health::Bad => lane.failing = true,
            Health::Unknown => {}
        }
        if lane.failing {
            self.failing += lane.under_way;
        } else if lane.under_way == 0 {
            self.by_host.remove(host);
        }
        if self.by_host.len() > REMEMBERED {
            self.by_host.retain(|_, lane| lane.under_way > 0);
        }
    }

    /// Returns the due time of the next possible claim, if known. `None` while no waiting delivery has a slot.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        if self.under_way >= OVERALL {
            return None;
        }
        let left_out = self.left_out();
        let with_slot = self.waiting.iter().filter(|(host, waiting)| {
            self.free(host) > 0 && self.without(host, waiting, &left_out).is_some()
        });
        with_slot.map(|(_, waiting)| waiting.due_at).min()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000);

    fn org(number: u8) -> OrgId {
        OrgId::new(NOW, [number; 10])
    }

    /// A number of deliveries of one organization.
    fn of(number: u8, count: u32) -> Vec<OrgId> {
        vec![org(number); count as usize]
    }

    /// A slot at a healthy host.
    fn at(host: &str, number: u8) -> Slot {
        Slot {
            host: host.to_owned(),
            org: org(number),
            failing: false,
        }
    }

    fn lanes(hosts: &[&str]) -> Lanes {
        let mut lanes = Lanes::default();
        for host in hosts {
            lanes.wait((*host).to_owned(), org(1), NOW);
        }
        lanes
    }

    /// Claims everything that is ordered, as if there were always enough.
    fn claim(lanes: &mut Lanes) -> Vec<(String, u32)> {
        let orders = lanes.orders(NOW);
        for order in &orders {
            lanes.claimed(order, &of(1, order.limit));
        }
        orders
            .into_iter()
            .map(|order| (order.host, order.limit))
            .collect()
    }

    #[test]
    fn one_host_gets_its_share_and_the_others_theirs() {
        let mut lanes = lanes(&["a", "b"]);
        assert_eq!(
            claim(&mut lanes),
            [("a".to_owned(), PER_HOST), ("b".to_owned(), PER_HOST)]
        );
        assert!(claim(&mut lanes).is_empty());
        assert_eq!(lanes.next_due(), None);
        lanes.ended(&at("a", 1), Health::Good);
        assert_eq!(lanes.next_due(), Some(NOW));
        assert_eq!(claim(&mut lanes), [("a".to_owned(), 1)]);
    }

    #[test]
    fn a_host_that_fails_gets_as_many_at_a_time_as_any_other() {
        let mut lanes = lanes(&["a"]);
        claim(&mut lanes);
        for _ in 0..PER_HOST {
            assert!(claim(&mut lanes).is_empty());
            lanes.ended(&at("a", 1), Health::Bad);
            assert_eq!(claim(&mut lanes), [("a".to_owned(), 1)]);
        }
        for _ in 0..PER_HOST {
            lanes.ended(&at("a", 1), Health::Bad);
        }
        assert_eq!(claim(&mut lanes), [("a".to_owned(), PER_HOST)]);
    }

    #[test]
    fn a_host_without_anything_left_is_not_asked_again() {
        let mut lanes = lanes(&["a"]);
        let orders = lanes.orders(NOW);
        lanes.claimed(&orders[0], &of(1, 3));
        assert!(lanes.orders(NOW).is_empty());
        lanes.wait("a".to_owned(), org(1), NOW + std::time::Duration::from_secs(1));
        assert!(lanes.orders(NOW).is_empty());
        assert_eq!(lanes.next_due(), Some(NOW + std::time::Duration::from_secs(1)));
    }

    #[test]
    fn dead_hosts_leave_half_of_the_places_to_the_others() {
        let (mut lanes, mut due) = (Lanes::default(), Due::default());
        for number in 0..2 * OVERALL {
            // Each of another organization: none has more than its share.
            let mut random = [0; 10];
            random[..4].copy_from_slice(&number.to_be_bytes());
            let (host, org) = (format!("dead-{number:04}"), OrgId::new(NOW, random));
            let dead = Lane {
                under_way: 0,
                failing: true,
            };
            lanes.by_host.insert(host.clone(), dead);
            due.insert(host.clone(), vec![org]);
            lanes.wait(host, org, NOW);
        }
        assert_eq!(serve(&mut lanes, &mut due).len(), FAILING as usize);
        lanes.wait("live".to_owned(), org(1), NOW);
        assert_eq!(claim(&mut lanes), [("live".to_owned(), PER_HOST)]);
    }

    /// Claims for one organization until nothing is ordered, and returns its slots.
    fn fill(lanes: &mut Lanes, number: u8) -> Vec<Slot> {
        let mut slots = Vec::new();
        loop {
            let orders = lanes.orders(NOW);
            if orders.is_empty() {
                return slots;
            }
            for order in orders {
                let is_left_out = order.without.contains(&org(number));
                let claimed = if is_left_out { 0 } else { order.limit };
                slots.extend(lanes.claimed(&order, &of(number, claimed)));
            }
        }
    }

    #[test]
    fn an_organization_with_any_number_of_black_holes_leaves_places_to_the_others() {
        let mut lanes = Lanes::default();
        for number in 0..1_000 {
            lanes.wait(format!("hole-{number:04}"), org(1), NOW);
        }
        let holes = fill(&mut lanes, 1);
        let most = OVERALL / 4 * 3 + BATCH;
        assert!(
            (OVERALL / 2..=most).contains(&lanes.under_way),
            "{}",
            lanes.under_way
        );
        lanes.wait("live".to_owned(), org(2), NOW);
        let of_others = fill(&mut lanes, 2);
        assert_eq!(of_others.len(), PER_HOST as usize);
        // A poll finds all of them again, but only a free slot of the organization causes a claim.
        for number in 0..1_000 {
            lanes.wait(format!("hole-{number:04}"), org(1), NOW);
        }
        lanes.waiting.remove("live");
        assert!(lanes.orders(NOW).is_empty());
        assert_eq!(lanes.next_due(), None);
        // Another organization has a delivery there: one is asked for, once.
        lanes.wait("hole-0999".to_owned(), org(2), NOW);
        assert_eq!(lanes.next_due(), Some(NOW));
        let orders = lanes.orders(NOW);
        let shared = Order {
            host: "hole-0999".to_owned(),
            limit: 1,
            without: vec![org(1)],
        };
        assert_eq!(orders, [shared]);
        lanes.claimed(&orders[0], &[]);
        assert!(lanes.orders(NOW).is_empty());
        // What was left out comes when there are slots again.
        for slot in &of_others {
            lanes.ended(slot, Health::Good);
        }
        for slot in &holes[..200] {
            lanes.ended(slot, Health::Unknown);
        }
        assert!(fill(&mut lanes, 1).len() >= 64);
    }

    #[test]
    fn an_organization_that_is_alone_is_never_asked_for_in_vain() {
        let mut lanes = Lanes::default();
        for number in 0..1_000 {
            lanes.wait(format!("slow-{number:04}"), org(1), NOW);
        }
        let mut under_way = fill(&mut lanes, 1);
        let mut orders_given = 0;
        for _ in 0..2_000 {
            let slot = under_way.swap_remove(0);
            lanes.ended(&slot, Health::Good);
            // Each round has a poll.
            lanes.wait(slot.host, org(1), NOW);
            let orders = lanes.orders(NOW);
            orders_given += orders.len();
            for order in orders {
                assert_eq!(order.without, []);
                under_way.extend(lanes.claimed(&order, &of(1, order.limit)));
            }
        }
        assert!((1..=2_000).contains(&orders_given), "{orders_given}");
    }

    #[test]
    fn failing_hosts_of_one_organization_leave_those_of_the_others_their_turn() {
        let mut lanes = Lanes::default();
        for number in 0..1_000 {
            let dead = Lane {
                under_way: 0,
                failing: true,
            };
            lanes.by_host.insert(format!("dead-{number:04}"), dead);
            lanes.wait(format!("dead-{number:04}"), org(1), NOW);
        }
        let dead = fill(&mut lanes, 1).len();
        assert!(dead < FAILING as usize && dead >= FAILING as usize / 2, "{dead}");
        assert_eq!(lanes.next_due(), None);
        let dead = Lane {
            under_way: 0,
            failing: true,
        };
        lanes.by_host.insert("limps".to_owned(), dead);
        lanes.wait("limps".to_owned(), org(2), NOW);
        assert_eq!(fill(&mut lanes, 2).len(), PER_HOST as usize);
    }

    /// Due deliveries of each host, by organization, in order.
    type Due = BTreeMap<String, Vec<OrgId>>;

    /// Claims what is ordered and is due, until nothing more is ordered.
    fn serve(lanes: &mut Lanes, due: &mut Due) -> Vec<Slot> {
        let mut slots = Vec::new();
        loop {
            let orders = lanes.orders(NOW);
            assert_eq!(orders.is_empty(), lanes.next_due().is_none());
            if orders.is_empty() {
                return slots;
            }
            for order in orders {
                let of_host = due.entry(order.host.clone()).or_default();
                let mut claimed = Vec::new();
                of_host.retain(|org| {
                    let takes = claimed.len() < order.limit as usize && !order.without.contains(org);
                    if takes {
                        claimed.push(*org);
                    }
                    !takes
                });
                slots.extend(lanes.claimed(&order, &claimed));
            }
        }
    }

    /// Holds the counts against what is under way.
    fn check(lanes: &Lanes, under_way: &[Slot]) {
        assert_eq!(lanes.under_way as usize, under_way.len());
        assert!(lanes.under_way <= OVERALL);
        let (mut shares, mut failing_shares) = (Shares::default(), Shares::default());
        for slot in under_way {
            shares.take(slot.org);
            if slot.failing {
                failing_shares.take(slot.org);
            }
        }
        assert_eq!((&lanes.shares, &lanes.failing_shares), (&shares, &failing_shares));
        let failing = lanes.by_host.values().filter(|lane| lane.failing);
        assert_eq!(lanes.failing, failing.map(|lane| lane.under_way).sum::<u32>());
        assert!(lanes.by_host.values().all(|lane| lane.under_way <= PER_HOST));
    }

    proptest! {
        #[test]
        fn the_bounds_hold_the_counts_add_up_and_all_is_served(steps in prop::collection::vec((0_u8..60, 0_u8..4), 1..400)) {
            let mut lanes = Lanes::default();
            let mut under_way: Vec<Slot> = Vec::new();
            let mut due = Due::default();
            for (number, what) in steps {
                match what {
                    0 => {
                        let host = format!("host-{number}");
                        due.entry(host.clone()).or_default().extend(of(number % 3, u32::from(number)));
                        lanes.wait(host, org(number % 3), NOW);
                    }
                    1 => under_way.extend(serve(&mut lanes, &mut due)),
                    _ if under_way.is_empty() => {}
                    end => {
                        let slot = under_way.swap_remove(usize::from(number) % under_way.len());
                        lanes.ended(&slot, if end == 2 { Health::Good } else { Health::Bad });
                    }
                }
                check(&lanes, &under_way);
            }
            // Each time all that is under way has ended something gets a slot, until nothing is left.
            loop {
                for slot in under_way.drain(..) {
                    lanes.ended(&slot, Health::Good);
                }
                under_way = serve(&mut lanes, &mut due);
                check(&lanes, &under_way);
                if under_way.is_empty() {
                    break;
                }
            }
            prop_assert!(due.values().all(Vec::is_empty), "{due:?}");
            prop_assert!(lanes.waiting.is_empty());
        }

        #[test]
        fn every_host_that_waits_is_served_in_turn(hosts in 1_usize..300) {
            let names: Vec<String> = (0..hosts).map(|number| format!("host-{number:03}")).collect();
            let mut lanes = Lanes::default();
            for host in &names {
                lanes.wait(host.clone(), org(1), NOW);
            }
            let mut served = std::collections::BTreeSet::new();
            for _ in 0..hosts {
                for (host, count) in claim(&mut lanes) {
                    for _ in 0..count {
                        lanes.ended(&at(&host, 1), Health::Good);
                    }
                    served.insert(host);
                }
            }
            prop_assert_eq!(served.len(), hosts);
        }
    }
}
