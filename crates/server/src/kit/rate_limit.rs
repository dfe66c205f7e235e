//! Rate limits (contract part 8): a fixed window of one minute that restarts at the top of each minute.
//!
//! A valid credential is counted by its key, everything else by the client's network. In one window no key and no
//! network is let through more often than its quota. Memory is bounded: counters live for one window, and networks
//! beyond [`NETWORKS`] in a window share one counter. The time is an argument, so that tests move it.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, RandomState},
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use http::{HeaderMap, HeaderName, HeaderValue};
use sortie_api::KeyId;

/// Length of a window, in seconds.
pub(crate) const WINDOW_SECONDS: u64 = 60;

/// Client networks counted one by one in a window; above that they share one counter.
pub(super) const NETWORKS: usize = 65_536;

pub(super) const SHARDS: usize = 16;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// How often in a window, and the headers that say so, made once.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    requests: u32,
    policy: HeaderValue,
    limit: HeaderValue,
}

impl Quota {
    /// `requests` in each window.
    pub(crate) fn per_minute(requests: u32) -> Self {
        Self {
            requests,
            policy: header(format!("\"default\";q={requests};w={WINDOW_SECONDS}")),
            limit: HeaderValue::from(requests),
        }
    }
}

/// Visible ASCII is always a valid header value.
fn header(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Where a client stands after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Requests left in the window.
    pub(crate) remaining: u32,
    /// Seconds to the next window, 1 to 60.
    pub(crate) reset: u64,
    /// Whether this request is within the quota.
    pub(crate) admitted: bool,
}

impl Standing {
    /// Writes the five headers of contract part 8.
    pub(crate) fn write(self, quota: &Quota, headers: &mut HeaderMap) {
        headers.insert(POLICY, quota.policy.clone());
        headers.insert(
            LIMIT,
            header(format!("\"default\";r={};t={}", self.remaining, self.reset)),
        );
        headers.insert(X_LIMIT, quota.limit.clone());
        headers.insert(X_REMAINING, HeaderValue::from(self.remaining));
        headers.insert(X_RESET, HeaderValue::from(self.reset));
    }
}

/// The counters of one node.
#[derive(Debug)]
pub(crate) struct RateLimits {
    /// Of requests with a valid credential.
    pub(crate) with_credential: Quota,
    /// Of all others.
    pub(crate) anonymous: Quota,
    keys: Windows<KeyId>,
    networks: Windows<IpAddr>,
}

impl RateLimits {
    /// Fresh counters.
    pub(crate) fn new(with_credential: Quota, anonymous: Quota) -> Self {
        Self {
            with_credential,
            anonymous,
            // Only keys that exist are counted: their number is the bound.
            keys: Windows::new(usize::MAX),
            networks: Windows::new(NETWORKS / SHARDS),
        }
    }

    /// Counts a request with a valid credential.
    pub(crate) fn count_key(&self, key: KeyId, now_seconds: u64) -> Standing {
        self.keys.count(key, self.with_credential.requests, now_seconds)
    }

    /// Counts a request without one; `network` is [`network`](super::network) of the client's address.
    pub(crate) fn count_network(&self, network: IpAddr, now_seconds: u64) -> Standing {
        self.networks.count(network, self.anonymous.requests, now_seconds)
    }

    /// Where the network stands, without counting.
    pub(crate) fn peek_network(&self, network: IpAddr, now_seconds: u64) -> Standing {
        self.networks.peek(&network, self.anonymous.requests, now_seconds)
    }
}

/// Counters by `K`, split into shards so that two cores seldom wait for each other.
#[derive(Debug)]
pub(super) struct Windows<K> {
    shards: [Mutex<Shard<K>>; SHARDS],
    hasher: RandomState,
    capacity: usize,
}

#[derive(Debug)]
struct Shard<K> {
    window: u64,
    counts: HashMap<K, u32>,
    /// Of all keys that found no room.
    overflow: u32,
}

impl<K> Default for Shard<K> {
    fn default() -> Self {
        Self {
            window: 0,
            counts: HashMap::new(),
            overflow: 0,
        }
    }
}

impl<K: Hash + Eq> Windows<K> {
    /// At most `capacity` keys in each shard are counted one by one.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::new(Shard::default())),
            hasher: RandomState::new(),
            capacity,
        }
    }

    /// The shard of `key`, in the window. `None` cannot be met; callers refuse then.
    fn shard(&self, key: &K, window: u64) -> Option<MutexGuard<'_, Shard<K>>> {
        let at = usize::try_from(self.hasher.hash_one(key)).unwrap_or(usize::MAX) % SHARDS;
        let mut shard = self
            .shards
            .get(at)?
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // A clock that is set back does not open a new window.
        if window > shard.window {
            shard.window = window;
            shard.overflow = 0;
            // What a burst made the table grow to is given back.
            let used = shard.counts.len();
            shard.counts.clear();
            shard.counts.shrink_to(used.saturating_mul(2).min(4_096));
        }
        Some(shard)
    }

    /// Counts one more of `key`.
    pub(super) fn count(&self, key: K, quota: u32, now_seconds: u64) -> Standing {
        let (window, reset) = window_at(now_seconds);
        let before = self.shard(&key, window).map(|mut shard| {
            let shard = &mut *shard;
            let full = shard.counts.len() >= self.capacity;
            let count = match shard.counts.get_mut(&key) {
                Some(count) => count,
                None if full => &mut shard.overflow,
                None => shard.counts.entry(key).or_insert(0),
            };
            let before = *count;
            *count = before.saturating_add(1);
            before
        });
        standing(before.unwrap_or(u32::MAX), quota, reset)
    }

    /// Where `key` stands, and whether one more would be admitted.
    pub(super) fn peek(&self, key: &K, quota: u32, now_seconds: u64) -> Standing {
        let (window, reset) = window_at(now_seconds);
        let shard = self.shard(key, window);
        let count = shard.map_or(u32::MAX, |shard| match shard.counts.get(key) {
            Some(count) => *count,
            None if shard.counts.len() >= self.capacity => shard.overflow,
            None => 0,
        });
        Standing {
            remaining: quota.saturating_sub(count),
            reset,
            admitted: count < quota,
        }
    }
}

/// The number of the window, and the seconds until the next one.
const fn window_at(now_seconds: u64) -> (u64, u64) {
    (
        now_seconds / WINDOW_SECONDS,
        WINDOW_SECONDS - now_seconds % WINDOW_SECONDS,
    )
}

fn standing(before: u32, quota: u32, reset: u64) -> Standing {
    Standing {
        remaining: quota.saturating_sub(before.saturating_add(1)),
        reset,
        admitted: before < quota,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sortie_api::Timestamp;

    use super::*;

    fn limits(quota: u32) -> RateLimits {
        RateLimits::new(Quota::per_minute(quota), Quota::per_minute(quota))
    }

    fn key(number: u8) -> KeyId {
        KeyId::new(Timestamp::from_micros(0), [number; 10])
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
            .map(|now| limits.count_key(key(1), now))
            .map(|standing| (standing.admitted, standing.remaining, standing.reset))
            .collect();
        assert_eq!(seen, [(true, 1, 1), (true, 0, 1), (false, 0, 1), (true, 1, 60)]);
    }

    #[test]
    fn keys_and_networks_are_counted_apart() {
        let limits = limits(1);
        let network = IpAddr::from([192, 0, 2, 1]);
        assert!(limits.count_key(key(1), 0).admitted);
        assert!(limits.count_key(key(2), 0).admitted);
        assert!(limits.count_network(network, 0).admitted);
        assert!(!limits.count_network(network, 0).admitted);
    }

    #[test]
    fn a_look_does_not_count() {
        let limits = limits(5);
        let network = IpAddr::from([192, 0, 2, 1]);
        limits.count_network(network, 0);
        assert_eq!(limits.peek_network(network, 0).remaining, 4);
        assert_eq!(limits.peek_network(network, 0).remaining, 4);
    }

    #[test]
    fn a_flood_of_networks_takes_bounded_memory_and_shares_what_is_left() {
        let windows = Windows::<u32>::new(10);
        let admitted = (0..10_000)
            .filter(|number| windows.count(*number, 3, 0).admitted)
            .count();
        let held: usize = windows
            .shards
            .iter()
            .map(|shard| shard.lock().unwrap().counts.len())
            .sum();
        assert!(held <= 10 * SHARDS, "{held}");
        assert_eq!(
            admitted,
            held + 3 * SHARDS,
            "each shard lets its overflow through as one more client"
        );
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
                let standing = limits.count_key(key(client), now);
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
            let admitted = times.iter().filter(|now| limits.count_key(key(1), **now).admitted).count();
            prop_assert!(admitted <= 9, "three windows of three");
        }
    }
}
