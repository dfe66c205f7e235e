//! The reconciler: compares the runs that the store says this node holds with the runs that it works on.

use std::collections::BTreeSet;

use sortie_api::RunId;
use sortie_store::{Held, NodeId};
use tokio_util::sync::CancellationToken;

use super::Takeover;
use crate::{error::Error, runs::active::StopReason};

pub(crate) struct Reconciler(pub(crate) Takeover);

/// Differences between the store and this node at the last look.
#[derive(Default)]
pub(super) struct Suspects {
    /// Identity of the node at that look.
    node: Option<NodeId>,
    /// Runs that the store says are held here, without a task here.
    without_task: BTreeSet<RunId>,
    /// Runs at work here that the store does not say are held here.
    without_row: BTreeSet<RunId>,
}

impl Reconciler {
    /// Compares until the node has stopped, with the pause of a heartbeat after each time. A comparison that had to wait is
    /// not followed by the next at once: what was under way meanwhile gets the time to come to its end.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let pause = self.0.places.worker().options.heartbeat;
        let mut suspects = Suspects::default();
        while !stop.is_cancelled() {
            if let Err(error) = self.compare(&mut suspects).await {
                tracing::warn!(%error, "cannot compare the runs at work with the store");
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Finds runs that were cancelled on another node, and those that the store and this node do not agree on. A run that
    /// is just beginning or ending looks like that as well: only one that does so twice in a row is dealt with.
    pub(super) async fn compare(&self, suspects: &mut Suspects) -> Result<(), Error> {
        let Takeover {
            store,
            places,
            identity,
        } = &self.0;
        let node = identity.get();
        // Before the query: a run that begins after it is not missed in the store.
        let at_work = places.active().all();
        let held = store.held_runs(node).await?;
        let mut found = Suspects {
            node: Some(node),
            ..Suspects::default()
        };
        let mut rows = BTreeSet::new();
        for Held { run, status } in held {
            rows.insert(run);
            if !places.active().contains(run) {
                found.without_task.insert(run);
            } else if status.is_final() {
                places.active().stop(run, StopReason::NotOurs);
                places.worker().hub.ended_elsewhere(run);
            }
        }
        found
            .without_row
            .extend(at_work.into_iter().filter(|run| !rows.contains(run)));
        // Another identity holds other runs.
        if suspects.node == found.node {
            for run in found.without_row.intersection(&suspects.without_row) {
                places.active().stop(*run, StopReason::NotOurs);
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
    async fn retake(&self, node: NodeId, runs: Vec<RunId>) -> Result<(), Error> {
        let turn = self.0.places.turn().await;
        if turn.is_closing() {
            // They are handed over with the others.
            return Ok(());
        }
        // The dispatcher, whose turn it was before, may have claimed one of them again.
        let is_idle = |run: &RunId| !self.0.places.active().contains(*run);
        let runs: Vec<RunId> = runs.into_iter().filter(is_idle).collect();
        if runs.is_empty() {
            return Ok(());
        }
        let options = &self.0.places.worker().options;
        let (at, price) = (options.clock.now(), options.compute_micros_per_second);
        let swept = self.0.store.retake_held(node, runs, at, price).await?;
        self.0.tell_ended(&swept.ended);
        self.0.go_on(&turn, swept.taken);
        Ok(())
    }
}
