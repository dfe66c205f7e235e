//! The node's timer: sleeps until the next instant of any schedule is due, then deals with all that are.
//!
//! It is woken when schedules change on this node and when their runs end here; what happens on other nodes it sees at its next
//! look, which is never later than a heartbeat away. Every node has one: whoever is first deals with an instant. Nodes begin
//! at different places of what is due, so that they seldom meet.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use sortie_api::Timestamp;
use sortie_store::Due;
use tokio_util::sync::CancellationToken;

use crate::{Engine, error::Error, kit::clock::random};

/// Schedules that are looked up at once.
pub(super) const PAGE: u32 = 256;

/// Schedules that are dealt with at once: their writes share commits.
pub(super) const AT_ONCE: usize = 32;

/// Works until the node stops.
pub(crate) async fn run(engine: Engine, stop: CancellationToken) {
    loop {
        let wait = engine.look().await;
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = engine.0.work.timer.rung() => {}
            () = stop.cancelled() => return,
        }
    }
}

impl Engine {
    /// Deals with what is due; how long nothing is.
    async fn look(&self) -> Duration {
        let node = &self.0;
        let now = node.options.clock.now();
        let fired = self.fire_due(now).await;
        // What could not be dealt with now is tried again at the next look, and does not hold up the rest.
        let next = node.stores.database.next_due(now).await.map_err(Error::from);
        if let Some(error) = fired.err().as_ref().or(next.as_ref().err()) {
            tracing::error!(%error, "schedules could not be looked after");
        }
        let most = node.options.heartbeat;
        let due = next.ok().flatten();
        due.map_or(most, |due| due.since(node.options.clock.now()).min(most))
    }

    /// Deals with every schedule that something is due of at `now`, and cancels the runs that were replaced. An error is one of those that were met: what it left is
    /// still due.
    pub(super) async fn fire_due(&self, now: Timestamp) -> Result<(), Error> {
        let node = &self.0;
        let released = node.stores.database.released_schedules(PAGE).await?;
        let mut outcome = self.deal_with_all(released).await;
        let mut after = None;
        loop {
            let due = node.stores.database.due_schedules(now, after, PAGE).await?;
            after = due.last().map(|last| (last.since, last.schedule));
            let is_last = due.len() < PAGE as usize;
            outcome = self.deal_with_all(due).await.and(outcome);
            if is_last {
                break;
            }
        }
        self.cancel_replaced().await.and(outcome)
    }

    async fn deal_with_all(&self, mut due: Vec<Due>) -> Result<(), Error> {
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
