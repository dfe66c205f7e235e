//! The callback worker: the task of a node that claims deliveries when they become due and sends them.
//!
//! A run that ends on this node wakes the worker with the host of its callback. A poll every few seconds finds retries,
//! deliveries that other nodes left, and deliveries that are due soon. Each claim also returns the due time of the host's next
//! delivery. When the worker starts, it releases the claims of an earlier process of the node. When it stops, it releases its own
//! unfinished claims.

use std::{collections::HashMap, sync::Arc, time::Duration};

use sortie_api::{OrgId, Timestamp};
use sortie_store::{Error as StoreError, outbox::ClaimedDelivery};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    Callbacks, DeliveryHints, Hinted,
    attempt::Sender,
    lanes::{Health, Lanes, Slot},
};
use crate::{
    cluster::identity::Identity,
    kit::{metrics::Metrics, options::Options},
    runs::run_log::Records,
};

/// Lease on a claimed delivery: twice the attempt timeout. Leases and due times are on the clock that all nodes share.
const LEASE: Duration = Duration::from_secs(30);

/// Interval between polls for due deliveries. A poll also finds those that become due within this time.
const POLL: Duration = Duration::from_secs(5);

/// Maximum addition to the interval, in milliseconds. Nodes that started together drift apart by it.
const POLL_JITTER_MS: i64 = 500;

/// Longest time until the next poll. The next poll finds deliveries that become due after that.
const FORESEEN: Duration = POLL.saturating_add(Duration::from_millis(POLL_JITTER_MS.unsigned_abs()));

/// Maximum number of hosts that one poll returns. If there are more, the next poll follows after [`SOON`] and continues after the
/// last host.
const HOSTS: u32 = 1_000;
const SOON: Duration = Duration::from_millis(500);

/// Pause after a failed query.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// Time that running attempts have to end when the node stops.
const GRACE: Duration = Duration::from_secs(5);

/// The task that delivers callbacks.
pub(crate) struct CallbackWorker {
    records: Records,
    /// The identity of this node: it alone may send a run's output that is in its memory.
    identity: Identity,
    /// Name of the node, under which deliveries are claimed. It stays the same when the node restarts.
    node: String,
    hints: DeliveryHints,
    sender: Arc<Sender>,
    stop: CancellationToken,
}

/// Progress of the worker's loop.
#[derive(Default)]
struct Round {
    lanes: Lanes,
    attempts: JoinSet<(Slot, Health)>,
    /// The next poll starts after this host.
    after: String,
}

impl CallbackWorker {
    /// Creates a worker that ends when `stop` is cancelled.
    pub(crate) fn new(
        options: &Options,
        (records, identity): (Records, Identity),
        callbacks: Callbacks,
        metrics: Arc<Metrics>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            node: options.node_name.clone(),
            hints: callbacks.hints.clone(),
            sender: Arc::new(Sender::new(
                (options.clock.clone(), identity.leases.clone()),
                records.clone(),
                callbacks,
                metrics,
                options.traces.clone(),
            )),
            records,
            identity,
            stop,
        }
    }

    /// Delivers until the node has stopped.
    pub(crate) async fn run(self) {
        self.release().await;
        let mut round = Round::default();
        let mut poll_at = Instant::now();
        loop {
            let Hinted { hosts, mut poll } = self.hints.take();
            let now = self.now();
            for (host, org) in hosts {
                round.lanes.wait(host, org, now);
            }
            poll |= poll_at <= Instant::now();
            let done = if poll {
                self.poll(&mut round, now).await.map(|pause| {
                    poll_at = Instant::now() + pause;
                })
            } else {
                Ok(())
            };
            let claimed = match done {
                Ok(()) => self.claim(&mut round).await,
                Err(error) => Err(error),
            };
            let pause = match claimed {
                Ok(()) => self.until_next(&round, poll_at),
                Err(error) => {
                    tracing::error!(%error, "claiming due callbacks failed");
                    AFTER_FAILURE
                }
            };
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = self.hints.given() => {}
                Some(ended) = round.attempts.join_next() => round.ended(ended),
                () = tokio::time::sleep(pause) => {}
            }
            // Frees the slots of all attempts that have ended before the next claim.
            while let Some(ended) = round.attempts.try_join_next() {
                round.ended(ended);
            }
        }
        self.wind_up(round.attempts).await;
    }

    /// Returns the time of the clock that all nodes share.
    fn now(&self) -> Timestamp {
        self.identity.leases.now()
    }

    /// Returns the time until the next known delivery is due, or until the next poll.
    fn until_next(&self, round: &Round, poll_at: Instant) -> Duration {
        let poll = poll_at.saturating_duration_since(Instant::now());
        match round.lanes.next_due() {
            Some(due_at) => due_at.since(self.now()).min(poll),
            None => poll,
        }
    }

    /// Finds hosts with due deliveries. Returns the pause before the next poll.
    async fn poll(&self, round: &mut Round, now: Timestamp) -> Result<Duration, StoreError> {
        let after = std::mem::take(&mut round.after);
        let jitter = Duration::from_millis(now.as_micros().rem_euclid(POLL_JITTER_MS).unsigned_abs());
        let found = self
            .records
            .store
            .due_hosts(after, now + POLL + jitter, HOSTS)
            .await?;
        let is_all = found.len() < HOSTS as usize;
        if !is_all && let Some(last) = found.last() {
            round.after.clone_from(&last.host);
        }
        for due in found {
            round.lanes.wait(due.host, due.org, due.due_at);
        }
        Ok(if is_all { POLL + jitter } else { SOON })
    }

    /// Claims due deliveries that have a slot, and sends them. The worker then waits for the next delivery of each of
    /// these hosts, unless a poll finds it in time.
    async fn claim(&self, round: &mut Round) -> Result<(), StoreError> {
        loop {
            let (now, lease_ends) = (self.now(), Instant::now() + LEASE);
            let orders = round.lanes.orders(now);
            if orders.is_empty() {
                return Ok(());
            }
            let claimed = self
                .records
                .store
                .claim_deliveries(
                    (self.node.clone(), self.identity.get()),
                    orders.clone(),
                    now,
                    now + LEASE,
                )
                .await?;
            let mut by_host: HashMap<String, Vec<ClaimedDelivery>> = HashMap::new();
            for delivery in claimed.deliveries {
                by_host.entry(delivery.host.clone()).or_default().push(delivery);
            }
            for order in &orders {
                let of_host = by_host.remove(&order.host).unwrap_or_default();
                let orgs: Vec<OrgId> = of_host.iter().map(|delivery| delivery.org).collect();
                let slots = round.lanes.claimed(order, &orgs);
                for (delivery, slot) in of_host.into_iter().zip(slots) {
                    let attempt = Arc::clone(&self.sender).deliver(delivery, lease_ends);
                    round.attempts.spawn(async move { (slot, attempt.await) });
                }
            }
            for next in claimed.next {
                if next.due_at <= now + FORESEEN {
                    round.lanes.wait(next.host, next.org, next.due_at);
                }
            }
        }
    }

    /// Waits up to [`GRACE`] for running attempts to end, then aborts the others and releases their deliveries.
    async fn wind_up(&self, mut attempts: JoinSet<(Slot, Health)>) {
        let all_ended = async { while attempts.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, all_ended).await.is_err() {
            tracing::info!(left = attempts.len(), "releasing unfinished callbacks");
            attempts.shutdown().await;
            self.release().await;
        }
    }

    /// Makes every delivery due again that was claimed under this node's name. If that fails, their lease expires.
    async fn release(&self) {
        let released = self
            .records
            .store
            .release_deliveries(self.node.clone(), self.now())
            .await;
        if let Err(error) = released {
            tracing::warn!(%error, "releasing claimed callbacks failed; their lease will expire");
        }
    }
}

impl Round {
    fn ended(&mut self, ended: Result<(Slot, Health), tokio::task::JoinError>) {
        // The join cannot fail: `deliver` catches the panics of an attempt, and no attempt is aborted while the worker runs.
        if let Ok((slot, health)) = ended {
            self.lanes.ended(&slot, health);
        }
    }
}
