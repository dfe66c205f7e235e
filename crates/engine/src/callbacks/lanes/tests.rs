//! Concurrent deliveries: shares of hosts and organizations, and hosts that are checked again when a delivery is due.

use std::time::Duration;

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

/// Claims everything that is ordered, as if there were always enough due deliveries.
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
    lanes.wait("a".to_owned(), org(1), NOW + Duration::from_secs(1));
    assert!(lanes.orders(NOW).is_empty());
    assert_eq!(lanes.next_due(), Some(NOW + Duration::from_secs(1)));
}

/// `docs/CALLBACKS.md#when`: a retry is claimed when it is due, even if a new delivery to its host was claimed just before.
#[test]
fn a_delivery_that_is_due_soon_is_waited_for_after_another_of_its_host() {
    let mut lanes = Lanes::default();
    let soon = NOW + Duration::from_millis(400);
    lanes.wait("a".to_owned(), org(1), soon);
    assert!(lanes.orders(NOW).is_empty());
    lanes.wait("a".to_owned(), org(1), NOW);
    let orders = lanes.orders(NOW);
    lanes.claimed(&orders[0], &of(1, 1));
    lanes.wait("a".to_owned(), org(1), soon);
    assert!(lanes.orders(NOW).is_empty());
    assert_eq!(lanes.next_due(), Some(soon));
    assert_eq!(lanes.orders(soon).len(), 1);
}

#[test]
fn a_delivery_that_is_due_soon_is_waited_for_while_others_of_its_host_are_left_out() {
    let mut lanes = Lanes::default();
    for number in 0..1_000 {
        lanes.wait(format!("hole-{number:04}"), org(1), NOW);
    }
    fill(&mut lanes, 1);
    lanes.wait("hole-0999".to_owned(), org(2), NOW);
    let orders = lanes.orders(NOW);
    assert_eq!(orders[0].without, [org(1)]);
    lanes.claimed(&orders[0], &[]);
    let soon = NOW + Duration::from_millis(400);
    lanes.wait("hole-0999".to_owned(), org(2), soon);
    // No claim is ordered before the delivery is due.
    assert!(lanes.orders(NOW).is_empty());
    assert_eq!(lanes.next_due(), Some(soon));
    assert_eq!(lanes.orders(soon)[0].without, [org(1)]);
}

#[test]
fn dead_hosts_leave_half_of_the_places_to_the_others() {
    let (mut lanes, mut due) = (Lanes::default(), Due::default());
    for number in 0..2 * OVERALL {
        // One delivery for each of many organizations, so that no organization exceeds its share.
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

/// Claims for one organization until there are no more orders, and returns its slots.
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
    // A poll finds all of the hosts again, but a claim is ordered only if the organization has a free slot.
    for number in 0..1_000 {
        lanes.wait(format!("hole-{number:04}"), org(1), NOW);
    }
    lanes.waiting.remove("live");
    assert!(lanes.orders(NOW).is_empty());
    assert_eq!(lanes.next_due(), None);
    // Another organization has a delivery to this host: a single claim is ordered.
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
    // The organizations that were left out are served once slots are free again.
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
        // The worker polls once in each round.
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

/// Claims the due deliveries of each order, until there are no more orders.
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

/// Number of organizations in the random steps.
const ORGANIZATIONS: u8 = 3;

/// Compares the counters with the running attempts.
fn check(lanes: &Lanes, under_way: &[Slot]) {
    assert_eq!(lanes.under_way as usize, under_way.len());
    assert!(lanes.under_way <= OVERALL);
    let counted = |counts: fn(&Slot) -> bool| -> Shares {
        let of = |org| {
            let slots = under_way.iter().filter(|slot| slot.org == org && counts(slot));
            (org, slots.map(|_| 1).sum())
        };
        (0..ORGANIZATIONS).map(org).map(of).collect()
    };
    assert_eq!(lanes.shares, counted(|_| true));
    assert_eq!(lanes.failing_shares, counted(|slot| slot.failing));
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
                    due.entry(host.clone()).or_default().extend(of(number % ORGANIZATIONS, u32::from(number)));
                    lanes.wait(host, org(number % ORGANIZATIONS), NOW);
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
        // Each time every running attempt has ended, at least one new attempt gets a slot, until no delivery is left.
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
