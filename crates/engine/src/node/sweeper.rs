//! The sweeper: declares nodes without a renewed lease lost, and takes their runs over.

use sortie_api::Refusal;
use sortie_store::runs::Sweep;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::Takeover;
use crate::{cluster::hints::Wake, kit::options::Serves};

/// Maximum number of lost runs that one transaction ends or takes over. On SQLite everything else that writes waits for it, a
/// few milliseconds.
pub(super) const LIMIT: u32 = 25;

pub(crate) struct Sweeper {
    pub(crate) node: Takeover,
    pub(crate) wake: Wake,
}

impl Sweeper {
    /// Sweeps when a lease becomes overdue, when another node has signed off, and once for each heartbeat, until the
    /// node has stopped.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(self.node.slots.worker().options.heartbeat);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let overdue = self.node.identity.seen.next_overdue();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
                () = self.wake.nodes.notified() => {}
                () = tokio::time::sleep_until(overdue.unwrap_or_else(Instant::now)), if overdue.is_some() => {}
            }
            // A node without a valid lease may itself be declared lost at any moment, so it takes over nothing.
            if !self.node.identity.seen.is_held() {
                continue;
            }
            self.sweep_or_warn().await;
        }
    }

    /// Sweeps. A failure is logged.
    pub(crate) async fn sweep_or_warn(&self) {
        if let Err(error) = self.sweep().await {
            tracing::warn!(%error, "cannot take over runs of lost nodes; the next sweep tries again");
        }
    }

    /// Takes over runs of lost nodes, as many as there are free slots, and ends those that were resumed too often.
    pub(crate) async fn sweep(&self) -> Result<(), Refusal> {
        while self.sweep_some().await? {}
        Ok(())
    }

    /// Takes over and ends a bounded number of runs. Returns whether there may be more.
    pub(super) async fn sweep_some(&self) -> Result<bool, Refusal> {
        let Takeover {
            store,
            slots,
            identity,
        } = &self.node;
        let options = &slots.worker().options;
        let permit = slots.permit().await;
        let places = match options.serves {
            Serves::Everyone => permit.free().min(LIMIT),
            // Only an ordinary node takes over runs of other nodes.
            Serves::OwnRuns | Serves::Nothing => 0,
        };
        let sweep = Sweep {
            node: identity.get(),
            at: options.clock.now(),
            limit: LIMIT,
            places,
            overdue: identity.seen.overdue(),
            lease: options.lease,
            compute_micros_per_second: options.compute_micros_per_second,
        };
        let swept = store.sweep(sweep).await?;
        let all_ended = swept.ended.len() < LIMIT as usize;
        let all_taken = places == 0 || swept.taken.len() < places as usize;
        self.node.announce_ended(&swept.ended);
        self.node.start(&permit, swept.taken);
        Ok(!(all_ended && all_taken))
    }
}
