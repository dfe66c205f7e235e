//! The count of one client in one window: pure.

use sortie_store::nodes::GrantedBlock;

/// The first block of a client is one of so many parts of its quota: most clients need no more, and what waits on a
/// node that hardly hears of a client is of no use to the others.
const FIRST_BLOCK_PARTS: u32 = 64;

/// Counter of a client's requests in a window.
#[derive(Debug)]
pub(super) struct Counter {
    used: u32,
    /// Requests that this node may let through.
    granted: u32,
    /// Rest of the quota for any node, by the last answer of the store.
    rest: u32,
    /// The counter requests more if at most this much of its grant is left.
    refill_at: u32,
    /// Requests that found the grant exhausted since the last answer.
    waiting: u32,
    /// More was asked for and there is no answer yet.
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

    /// Counts one more. `share` is what this node may let through of the quota without a lease, where the store is
    /// silent.
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

    /// Returns the number of requests that this node can still let through, as far as it knows.
    pub(super) fn remaining(&self, share: Option<u32>) -> u32 {
        let most = match share {
            Some(share) => self.granted.max(share),
            None => self.granted.saturating_add(self.rest),
        };
        most.saturating_sub(self.used)
    }

    /// Whether more is to be asked for now; if so, it counts as asked.
    pub(super) fn asks(&mut self) -> bool {
        let asks = !self.asked && self.rest > 0 && self.granted.saturating_sub(self.used) <= self.refill_at;
        self.asked |= asks;
        asks
    }

    /// Returns the number of requests to lease up to. A client that is busy here doubles its block at each lease.
    pub(super) fn target(&self, quota: u32) -> u32 {
        self.used
            .saturating_add(self.waiting)
            .max(quota.div_ceil(FIRST_BLOCK_PARTS))
    }

    /// Returns the unused part of the grant; below zero after more went through on the share than was granted.
    pub(super) fn unused(&self) -> i64 {
        i64::from(self.granted) - i64::from(self.used)
    }

    /// The store has answered.
    pub(super) fn grant(&mut self, block: GrantedBlock) {
        self.granted = self.granted.saturating_add(block.requests);
        self.rest = block.rest;
        self.refill_at = self.granted.saturating_sub(self.used) / 2;
        self.failed();
    }

    /// Records that the store could not be asked: the next request asks again.
    pub(super) fn failed(&mut self) {
        self.waiting = 0;
        self.asked = false;
    }
}
