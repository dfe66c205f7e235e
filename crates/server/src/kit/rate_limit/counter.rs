//! Counter of one client in one window: pure logic.

use sortie_store::nodes::GrantedBlock;

/// The first block of a client is its quota divided by this number: most clients need no more, and unused requests on a node that
/// rarely sees the client are lost for the other nodes.
const FIRST_BLOCK_PARTS: u32 = 64;

/// Counter of a client's requests in a window.
#[derive(Debug)]
pub(super) struct Counter {
    used: u32,
    /// Requests that this node may admit.
    granted: u32,
    /// Rest of the quota for all nodes, from the last answer of the store.
    rest: u32,
    /// The counter requests more if at most this much of its grant is left.
    refill_at: u32,
    /// Requests that found the grant exhausted since the last answer.
    waiting: u32,
    /// A request for more is pending.
    asked: bool,
}

/// Verdict on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Admitted,
    Refused,
    /// The request is counted again after the next answer of the store.
    Waits,
}

impl Counter {
    /// Counter of a client that has its whole quota on this node.
    pub(super) const fn whole(quota: u32) -> Self {
        Self {
            used: 0,
            granted: quota,
            rest: 0,
            refill_at: 0,
            waiting: 0,
            asked: false,
        }
    }

    /// Counter of a client that leases its quota in blocks.
    pub(super) const fn leased(quota: u32) -> Self {
        Self {
            granted: 0,
            rest: quota,
            ..Self::whole(0)
        }
    }

    /// Counts a request. `share` is the number of requests that this node may admit without a lease while the store does not
    /// answer.
    pub(super) fn take(&mut self, share: Option<u32>) -> Taken {
        if self.used < self.granted.max(share.unwrap_or(0)) {
            self.used += 1;
            Taken::Admitted
        } else if self.rest == 0 || share.is_some() {
            Taken::Refused
        } else {
            self.waiting = self.waiting.saturating_add(1);
            Taken::Waits
        }
    }

    /// Returns the number of requests that this node can still admit, as far as it knows.
    pub(super) fn remaining(&self, share: Option<u32>) -> u32 {
        let most = match share {
            Some(share) => self.granted.max(share),
            None => self.granted.saturating_add(self.rest),
        };
        most.saturating_sub(self.used)
    }

    /// Whether the counter has to request more now. If so, the request counts as pending.
    pub(super) fn asks(&mut self) -> bool {
        let asks = !self.asked && self.rest > 0 && self.granted.saturating_sub(self.used) <= self.refill_at;
        self.asked |= asks;
        asks
    }

    /// Returns the target number of leased requests. A client that is busy on this node doubles its block with each lease.
    pub(super) fn target(&self, quota: u32) -> u32 {
        self.used
            .saturating_add(self.waiting)
            .max(quota.div_ceil(FIRST_BLOCK_PARTS))
    }

    /// Returns the unused part of the grant. It is negative after the share admitted more than the grant.
    pub(super) fn unused(&self) -> i64 {
        i64::from(self.granted) - i64::from(self.used)
    }

    /// Applies an answer of the store.
    pub(super) fn grant(&mut self, block: GrantedBlock) {
        self.granted = self.granted.saturating_add(block.requests);
        self.rest = block.rest;
        self.refill_at = self.granted.saturating_sub(self.used) / 2;
        self.failed();
    }

    /// Records that the store did not answer: the next request asks again.
    pub(super) fn failed(&mut self) {
        self.waiting = 0;
        self.asked = false;
    }
}
