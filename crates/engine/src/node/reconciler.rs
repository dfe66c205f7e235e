//! The reconciler: compares the runs that this node holds in the store with the runs that it works on.

use std::collections::BTreeSet;

use sortie_api::{Refusal, RunId, RunStatus};
use sortie_store::{nodes::NodeId, runs::Held};
use tokio_util::sync::CancellationToken;

use super::{Takeover, sweeper::LIMIT};
use crate::runs::active::StopReason;

pub(crate) struct Reconciler(pub(crate) Takeover);

/// Differences between the store and this node in the last comparison.
#[derive(Default)]
pub(super) struct Suspects {
    /// Identity of the node in that comparison.
    node: Option<NodeId>,
    /// Runs that are held by this node in the store, without a task here.
    without_task: BTreeSet<RunId>,
    /// Active runs that the store does not assign to this node.
    without_row: BTreeSet<RunId>,
}

impl Reconciler {
    /// Compares until the node has stopped, with the pause of a heartbeat after each comparison. The pause also follows
    /// a comparison that had to wait, so that operations under way have time to end.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let pause = self.0.slots.worker().options.heartbeat;
        let mut suspects = Suspects::default();
        while !stop.is_cancelled() {
            if let Err(error) = self.compare(&mut suspects).await {
                tracing::warn!(%error, "cannot compare the active runs with the store");
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Finds runs that were cancelled on another node, and runs on which the store and this node differ. A run that is just
    /// beginning or ending differs as well, so only a difference in two consecutive comparisons is resolved.
    pub(super) async fn compare(&self, suspects: &mut Suspects) -> Result<(), Refusal> {
        let Takeover {
            store,
            slots,
            identity,
        } = &self.0;
        let node = identity.get();
        // Read before the query, so that a run that begins after the query is not taken for one without a row.
        let at_work = slots.active().all();
        let held = store.held_runs(node).await?;
        let mut found = Suspects {
            node: Some(node),
            ..Suspects::default()
        };
        let mut rows = BTreeSet::new();
        for Held { run, status } in held {
            rows.insert(run);
            if !slots.active().contains(run) {
                found.without_task.insert(run);
            } else if status.is_some_and(RunStatus::is_final) {
                slots.active().stop(run, StopReason::NotOurs);
                slots.worker().hub.ended_elsewhere(run);
            }
        }
        found
            .without_row
            .extend(at_work.into_iter().filter(|run| !rows.contains(run)));
        // After a new registration the earlier differences are void: the new identity holds other runs.
        if suspects.node == found.node {
            for run in found.without_row.intersection(&suspects.without_row) {
                slots.active().stop(*run, StopReason::NotOurs);
            }
            let lost = found.without_task.intersection(&suspects.without_task);
            let lost: Vec<RunId> = lost.copied().collect();
            if !lost.is_empty() {
                self.retake(node, lost).await?;
            }
        }
        *suspects = found;
        Ok(())
    }

    /// Resumes runs that this node holds and has no task for.
    async fn retake(&self, node: NodeId, runs: Vec<RunId>) -> Result<(), Refusal> {
        let permit = self.0.slots.permit().await;
        if permit.is_closing() {
            // These runs are handed over with the others.
            return Ok(());
        }
        // The dispatcher, which had the permit before, may have claimed one of these runs again. If the content of a run waits
        // here, the dispatcher will claim it once a slot is free: the answer to its first claim was lost.
        let (active, unretained) = (self.0.slots.active(), &self.0.slots.worker().records.unretained);
        let is_idle = |run: &RunId| !active.contains(*run) && !unretained.is_waiting(*run);
        let runs: Vec<RunId> = runs.into_iter().filter(is_idle).collect();
        if runs.is_empty() {
            return Ok(());
        }
        let options = &self.0.slots.worker().options;
        let (at, price) = (options.clock.now(), options.compute_micros_per_second);
        for runs in runs.chunks(LIMIT as usize) {
            let swept = self.0.store.retake_held(node, runs.to_vec(), at, price).await?;
            self.0.announce_ended(&swept.ended);
            self.0.start(&permit, swept.taken);
        }
        Ok(())
    }
}
