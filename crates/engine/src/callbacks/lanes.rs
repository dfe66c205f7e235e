//! Limits on concurrent deliveries, per host and in all, so that no receiver holds up another.
//!
//! A failing host is one that did not accept the last attempt. It gets as many concurrent attempts as any other host, so that
//! each of its deliveries is retried when it is due. Failing hosts together get at most half of the slots, so that dead receivers
//! leave slots to the others. An organization gets its [share](Shares) of all slots, and of the slots for failing hosts. A host
//! is skipped while every organization known to wait for it has used its share. Hosts are served round-robin. No I/O, no clock.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use sortie_api::{OrgId, Timestamp};
use sortie_store::outbox::Order;

use super::shares::Shares;

/// Maximum concurrent attempts to one host.
const PER_HOST: u32 = 16;

/// Maximum concurrent attempts in all.
const OVERALL: u32 = 512;

/// Maximum concurrent attempts to failing hosts together.
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

/// Organizations known to have a delivery that waits for a host, with the due time of the first. Never empty.
type Waiting = BTreeMap<OrgId, Timestamp>;

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
        let waiting = self.waiting.entry(host).or_default();
        let first = waiting.entry(org).or_insert(due_at);
        *first = due_at.min(*first);
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

    /// Returns the organizations to leave out of the next claim for a host, and the due time of the first delivery of
    /// the others. `None` if no other organization is known to wait for it.
    fn without<'a>(
        &self,
        host: &str,
        waiting: &Waiting,
        left_out: &'a LeftOut,
    ) -> Option<(&'a [OrgId], Timestamp)> {
        let without = if self.is_failing(host) {
            &left_out.at_failing
        } else {
            &left_out.everywhere
        };
        let others = waiting.iter().filter(|(org, _)| !without.contains(org));
        let due_at = others.map(|(_, due_at)| *due_at).min()?;
        Some((without, due_at))
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
        for (host, waiting) in in_turn {
            let Some((without, due_at)) = self.without(host, waiting, &left_out) else {
                continue;
            };
            if due_at > now {
                continue;
            }
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
    /// ordered, only organizations that were left out may still have deliveries that are due. The caller then adds the
    /// next delivery of the host with [`wait`](Self::wait), if there is one.
    pub(super) fn claimed(&mut self, order: &Order, orgs: &[OrgId]) -> Vec<Slot> {
        let claimed = u32::try_from(orgs.len()).unwrap_or(u32::MAX);
        if claimed < order.limit {
            let first = self
                .waiting
                .remove(&order.host)
                .and_then(|waiting| waiting.into_values().min());
            if let Some(due_at) = first
                && !order.without.is_empty()
            {
                let left_out = order.without.iter().map(|org| (*org, due_at));
                self.waiting.insert(order.host.clone(), left_out.collect());
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
        let with_slot = self.waiting.iter().filter(|(host, _)| self.free(host) > 0);
        let due = with_slot.filter_map(|(host, waiting)| self.without(host, waiting, &left_out));
        due.map(|(_, due_at)| due_at).min()
    }
}
