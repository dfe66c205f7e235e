//! Rate limits (`docs/API.md#rate-limits`): a fixed window of one minute that restarts at the top of each minute.
//!
//! A request with a valid credential is counted by its subject, such as its API key, every other request by the client's network.
//! In one window all nodes together admit at most the quota of each subject and of each network: if several nodes may share the
//! database, a node leases blocks of the quota from it ([`leasing`]) and counts against them in memory ([`windows`]). A single
//! node has the whole quota as its block. Memory is bounded: counters live for one window, and networks beyond [`NETWORKS`] in a
//! window share one counter. The time is an argument, so that tests can set it.

mod counter;
mod leasing;
#[cfg(test)]
mod tests;
mod windows;

use std::{net::IpAddr, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue};
use sortie_store::access::By;

use self::leasing::Cluster;
pub(super) use self::windows::Windows;

/// Length of a window, in seconds.
pub(crate) const WINDOW_SECONDS: u64 = 60;

/// Number of client networks with a separate counter in a window; further networks share one counter.
pub(super) const NETWORKS: usize = 65_536;

pub(super) const SHARDS: usize = 16;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Quota of a window, with its headers, generated once.
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

/// Creates a header value. Visible ASCII is always valid.
fn header(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Standing of a client after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Requests left in the window: the rest of this node's grant, and the rest for all nodes at its last query.
    pub(crate) remaining: u32,
    /// Seconds to the next window, 1 to 60.
    pub(crate) reset: u64,
    /// Whether this request is within the quota.
    pub(crate) admitted: bool,
}

impl Standing {
    /// Writes the five headers of `docs/API.md#rate-limits`.
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

/// Party that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// This is the only node.
    Alone,
    /// Several nodes share quotas by leases.
    Together {
        /// Time for which a request waits for a lease, and after which the store counts as unavailable.
        patience: Duration,
    },
}

/// The counters of one node.
#[derive(Debug)]
pub(crate) struct RateLimits {
    /// Of requests with a valid credential.
    pub(crate) with_credential: Quota,
    /// Of all others.
    pub(crate) anonymous: Quota,
    subjects: Windows<By>,
    networks: Windows<IpAddr>,
    /// `None` for a node that counts alone.
    cluster: Option<Arc<Cluster>>,
}

impl RateLimits {
    /// Creates the counters. If several nodes share quotas, [`keep_leased`](Self::keep_leased) has to run.
    pub(crate) fn new(with_credential: Quota, anonymous: Quota, counting: Counting) -> Self {
        let cluster = match counting {
            Counting::Alone => None,
            Counting::Together { patience } => Some(Arc::new(Cluster::new(patience))),
        };
        // Only existing subjects are counted, so their number is the bound.
        let subjects = Windows::new(usize::MAX, with_credential.requests, cluster.clone());
        let networks = Windows::new(NETWORKS / SHARDS, anonymous.requests, cluster.clone());
        Self {
            with_credential,
            anonymous,
            subjects,
            networks,
            cluster,
        }
    }

    /// Counts a request with a valid credential. Waits, at most for the patience, only if this node has used up its grant and has
    /// to request more.
    pub(crate) async fn count_subject(&self, by: By, clock: &(impl Fn() -> u64 + Sync)) -> Standing {
        self.subjects.count(by, clock).await
    }

    /// Counts a request without a credential; `network` is [`network`](super::network) of the client's address.
    pub(crate) async fn count_network(&self, network: IpAddr, clock: &(impl Fn() -> u64 + Sync)) -> Standing {
        self.networks.count(network, clock).await
    }

    /// Returns the standing of a network without counting.
    pub(crate) fn peek_network(&self, network: IpAddr, now_seconds: u64) -> Standing {
        self.networks.peek(&network, now_seconds)
    }
}
