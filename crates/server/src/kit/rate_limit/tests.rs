use std::collections::HashMap;

use proptest::prelude::*;
use sortie_api::{KeyId, Timestamp};

use super::*;

fn limits(quota: u32) -> RateLimits {
    RateLimits::new(
        Quota::per_minute(quota),
        Quota::per_minute(quota),
        Counting::Alone,
    )
}

pub(super) fn key(number: u8) -> By {
    By::Key(KeyId::new(Timestamp::from_micros(0), [number; 10]))
}

/// Counts a request that does not have to wait.
fn count_subject(limits: &RateLimits, by: By, now: u64) -> Standing {
    limits
        .subjects
        .take(by, now, None)
        .expect("the quota is this node's")
}

fn count_network(limits: &RateLimits, network: IpAddr, now: u64) -> Standing {
    limits
        .networks
        .take(network, now, None)
        .expect("the quota is this node's")
}

fn headers(standing: Standing) -> Vec<(String, String)> {
    let mut headers = HeaderMap::new();
    standing.write(&Quota::per_minute(600), &mut headers);
    headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect()
}

#[test]
fn the_headers_have_the_form_of_contract_part_8() {
    let standing = Standing {
        remaining: 599,
        reset: 31,
        admitted: true,
    };
    let mut shown = headers(standing);
    shown.sort();
    let expected = [
        ("ratelimit", "\"default\";r=599;t=31"),
        ("ratelimit-policy", "\"default\";q=600;w=60"),
        ("x-ratelimit-limit", "600"),
        ("x-ratelimit-remaining", "599"),
        ("x-ratelimit-reset", "31"),
    ];
    assert_eq!(
        shown,
        expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
}

#[test]
fn the_window_restarts_at_the_top_of_the_minute() {
    let limits = limits(2);
    let seen: Vec<_> = [119, 119, 119, 120]
        .into_iter()
        .map(|now| count_subject(&limits, key(1), now))
        .map(|standing| (standing.admitted, standing.remaining, standing.reset))
        .collect();
    assert_eq!(seen, [(true, 1, 1), (true, 0, 1), (false, 0, 1), (true, 1, 60)]);
}

#[test]
fn keys_and_networks_are_counted_apart() {
    let limits = limits(1);
    let network = IpAddr::from([192, 0, 2, 1]);
    assert!(count_subject(&limits, key(1), 0).admitted);
    assert!(count_subject(&limits, key(2), 0).admitted);
    assert!(count_network(&limits, network, 0).admitted);
    assert!(!count_network(&limits, network, 0).admitted);
}

#[test]
fn a_look_does_not_count() {
    let limits = limits(5);
    let network = IpAddr::from([192, 0, 2, 1]);
    count_network(&limits, network, 0);
    assert_eq!(limits.peek_network(network, 0).remaining, 4);
    assert_eq!(limits.peek_network(network, 0).remaining, 4);
}

#[test]
fn a_flood_of_networks_takes_bounded_memory_and_shares_what_is_left() {
    for cluster in [
        None,
        Some(Arc::new(Cluster::new(std::time::Duration::from_secs(1)))),
    ] {
        let windows = Windows::<u32>::new(10, 3, cluster.clone());
        // With leased blocks, a client with a separate counter has no grant yet.
        let admitted = (0..10_000)
            .filter_map(|number| windows.take(number, 0, None))
            .filter(|standing| standing.admitted)
            .count();
        let held = windows.held();
        assert!(held <= 10 * SHARDS, "{held}");
        let alone = if cluster.is_none() { held } else { 0 };
        assert_eq!(
            admitted,
            alone + 3 * SHARDS,
            "each shard lets its overflow through as one more client"
        );
    }
}

proptest! {
    #[test]
    fn a_client_never_gets_more_than_its_quota_in_a_window(
        quota in 0_u32..20,
        mut times in prop::collection::vec((0_u64..300, 0_u8..3), 1..400),
    ) {
        times.sort_unstable();
        let limits = limits(quota);
        let mut seen: HashMap<(u64, u8), Vec<Standing>> = HashMap::new();
        for (now, client) in times {
            let standing = count_subject(&limits, key(client), now);
            prop_assert!((1..=60).contains(&standing.reset));
            prop_assert_eq!((now + standing.reset) % 60, 0);
            seen.entry((now / 60, client)).or_default().push(standing);
        }
        for standings in seen.values() {
            let admitted = standings.iter().filter(|standing| standing.admitted).count();
            prop_assert_eq!(admitted, standings.len().min(quota as usize));
            for (nth, standing) in (1_u32..).zip(standings) {
                prop_assert_eq!(standing.remaining, quota.saturating_sub(nth));
            }
        }
    }

    #[test]
    fn a_clock_set_back_gives_nothing_away(times in prop::collection::vec(0_u64..180, 1..200)) {
        let limits = limits(3);
        let admitted = times.iter().filter(|now| count_subject(&limits, key(1), **now).admitted).count();
        prop_assert!(admitted <= 9, "three windows of three");
    }
}
