//! The courier: the task of a node that claims deliveries as they become due and sends them.
//!
//! A run that ends here wakes it with its host. What other nodes left, and what is to be tried again, it finds in a look
//! every few seconds, which also tells it what is due soon. At its start it gives back what an earlier start of the node
//! had claimed; at its end what it could not finish.

use std::{collections::HashMap, sync::Arc, time::Duration};

use sortie_api::{OrgId, Timestamp};
use sortie_store::{ClaimedDelivery, Error as StoreError};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    Callbacks, Hinted, Hints,
    attempt::Sender,
    lanes::{Health, Lanes, Place},
};
use crate::{
    cluster::identity::Identity,
    kit::{metrics::Metrics, options::Options},
    runs::run_log::Records,
};

/// Lease on a claimed delivery: twice the attempt timeout. Leases and due times are on the clock that all nodes share.
const LEASE: Duration = Duration::from_secs(30);

/// How often it looks for what nobody has told, at least; and how far ahead it looks.
const LOOK: Duration = Duration::from_secs(5);

/// How much longer it may take, so that nodes that started together drift apart.
const LOOK_JITTER_MS: i64 = 500;

/// Hosts found in one look. Where there are more, the next look is soon, behind the last of these.
const HOSTS: u32 = 1_000;
const SOON: Duration = Duration::from_millis(500);

/// Pause after the database has failed.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// How long attempts under way may go on when the node stops.
const GRACE: Duration = Duration::from_secs(5);

/// The task that delivers callbacks.
pub(crate) struct Courier {
    records: Records,
    /// Whose content this node has.
    identity: Identity,
    /// Under which it claims: the same at each start of the node.
    node: String,
    hints: Hints,
    sender: Arc<Sender>,
    stop: CancellationToken,
}

/// What it does just now.
#[derive(Default)]
struct Round {
    lanes: Lanes,
    attempts: JoinSet<(Place, Health)>,
    /// Behind which host the next look begins.
    after: String,
}

impl Courier {
    /// A courier that stops with `stop`.
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
        let mut look_at = Instant::now();
        loop {
            let Hinted { hosts, mut look } = self.hints.take();
            let now = self.now();
            for (host, org) in hosts {
                round.lanes.wait(host, org, now);
            }
            look |= look_at <= Instant::now();
            let done = if look {
                self.look(&mut round, now).await.map(|pause| {
                    look_at = Instant::now() + pause;
                })
            } else {
                Ok(())
            };
            let claimed = match done {
                Ok(()) => self.claim(&mut round).await,
                Err(error) => Err(error),
            };
            let pause = match claimed {
                Ok(()) => self.until_next(&round, look_at),
                Err(error) => {
                    tracing::error!(%error, "callbacks that are due cannot be claimed");
                    AFTER_FAILURE
                }
            };
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = self.hints.given() => {}
                Some(ended) = round.attempts.join_next() => round.ended(ended),
                () = tokio::time::sleep(pause) => {}
            }
            // All that have ended meanwhile make room for the next claim together.
            while let Some(ended) = round.attempts.try_join_next() {
                round.ended(ended);
            }
        }
        self.wind_up(round.attempts).await;
    }

    /// The time by the clock that all nodes share.
    fn now(&self) -> Timestamp {
        self.identity.leases.now()
    }

    /// Until something that is known becomes due, or the next look.
    fn until_next(&self, round: &Round, look_at: Instant) -> Duration {
        let look = look_at.saturating_duration_since(Instant::now());
        match round.lanes.next_due() {
            Some(due_at) => due_at.since(self.now()).min(look),
            None => look,
        }
    }

    /// Finds hosts with something due. How long until the next look.
    async fn look(&self, round: &mut Round, now: Timestamp) -> Result<Duration, StoreError> {
        let after = std::mem::take(&mut round.after);
        let found = self.records.store.due_hosts(after, now + LOOK, HOSTS).await?;
        let is_all = found.len() < HOSTS as usize;
        if !is_all && let Some(last) = found.last() {
            round.after.clone_from(&last.host);
        }
        for due in found {
            round.lanes.wait(due.host, due.org, due.due_at);
        }
        let jitter = Duration::from_millis(now.as_micros().rem_euclid(LOOK_JITTER_MS).unsigned_abs());
        Ok(if is_all { LOOK + jitter } else { SOON })
    }

    /// Claims what is due and has a place, and sends it.
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
            for delivery in claimed {
                by_host.entry(delivery.host.clone()).or_default().push(delivery);
            }
            for order in &orders {
                let of_host = by_host.remove(&order.host).unwrap_or_default();
                let orgs: Vec<OrgId> = of_host.iter().map(|delivery| delivery.org).collect();
                let places = round.lanes.claimed(order, &orgs);
                for (delivery, place) in of_host.into_iter().zip(places) {
                    let attempt = Arc::clone(&self.sender).deliver(delivery, lease_ends);
                    round.attempts.spawn(async move { (place, attempt.await) });
                }
            }
        }
    }

    /// Lets attempts under way end within the grace, and gives the others back.
    async fn wind_up(&self, mut attempts: JoinSet<(Place, Health)>) {
        let all_ended = async { while attempts.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, all_ended).await.is_err() {
            tracing::info!(left = attempts.len(), "callbacks under way are given back");
            attempts.shutdown().await;
            self.release().await;
        }
    }

    /// Makes due what was claimed under this node's name. Where that fails, its lease runs out.
    async fn release(&self) {
        let released = self
            .records
            .store
            .release_deliveries(self.node.clone(), self.now())
            .await;
        if let Err(error) = released {
            tracing::warn!(%error, "claimed callbacks could not be given back; their lease will run out");
        }
    }
}

impl Round {
    fn ended(&mut self, ended: Result<(Place, Health), tokio::task::JoinError>) {
        // `deliver` catches the panics of an attempt, and nobody aborts one before the end.
        if let Ok((place, health)) = ended {
            self.lanes.ended(&place, health);
        }
    }
}
