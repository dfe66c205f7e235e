//! The timer of schedules: sleeps until the next occurrence of any schedule is due, then processes the due ones.
//!
//! The timer wakes when schedules change on this node and when their runs end here. Changes on other nodes are found by
//! the next tick, which follows within a heartbeat. Every node has a timer, and the first one processes an occurrence.
//! Nodes begin at random positions of the list of due schedules, so that they rarely compete.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use sortie_api::{Refusal, Timestamp};
use sortie_store::schedules::Due;
use tokio_util::sync::CancellationToken;

use crate::{Engine, kit::random::random};

/// Schedules in one query.
pub(super) const PAGE: u32 = 256;

/// Schedules that are processed concurrently: their writes share commits.
pub(super) const AT_ONCE: usize = 32;

/// Runs the timer until the node stops.
pub(crate) async fn run(engine: Engine, stop: CancellationToken) {
    loop {
        let wait = engine.timer_tick().await;
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = engine.0.work.timer.rung() => {}
            () = stop.cancelled() => return,
        }
    }
}

impl Engine {
    /// Processes due schedules, unless the node's clock is wrong. Returns the pause before the next tick.
    async fn timer_tick(&self) -> Duration {
        let node = &self.0;
        if node.options.clock.fault().is_some() {
            return node.options.heartbeat;
        }
        let now = node.options.clock.now();
        let fired = self.fire_due(now).await;
        // A schedule that fails is tried again in the next tick, and does not delay the others.
        let next = node.stores.database.next_due(now).await.map_err(Refusal::from);
        if let Some(error) = fired.err().as_ref().or(next.as_ref().err()) {
            tracing::error!(%error, "schedule timer tick failed");
        }
        let most = node.options.heartbeat;
        let due = next.ok().flatten();
        due.map_or(most, |due| due.since(node.options.clock.now()).min(most))
    }

    /// Processes every schedule with an occurrence due at `now`, and cancels replaced runs. Returns one of the errors,
    /// if there were any. Schedules that failed are still due.
    pub(super) async fn fire_due(&self, now: Timestamp) -> Result<(), Refusal> {
        let node = &self.0;
        let store = &node.stores.database;
        let (mut outcome, mut after) = (Ok(()), None);
        loop {
            let released = store.released_schedules(after, PAGE).await?;
            outcome = self.process_all(released.items).await.and(outcome);
            after = released.stopped_at;
            if after.is_none() {
                break;
            }
        }
        loop {
            let due = store.due_schedules(now, after, PAGE).await?;
            outcome = self.process_all(due.items).await.and(outcome);
            after = due.stopped_at;
            if after.is_none() {
                break;
            }
        }
        self.cancel_replaced().await.and(outcome)
    }

    async fn process_all(&self, mut due: Vec<Due>) -> Result<(), Refusal> {
        let start = usize::from(u16::from_be_bytes(random()?));
        if !due.is_empty() {
            let start = start % due.len();
            due.rotate_left(start);
        }
        stream::iter(due)
            .map(|due| self.deal_with(due.org, due.schedule))
            .buffer_unordered(AT_ONCE)
            .fold(Ok(()), async |all, one| one.and(all))
            .await
    }
}
