//! The keeper of content in memory: deletes expired outputs and events, closes runs that were not ended by a worker of this node,
//! and compares the contents in memory with those that the store expects here.
//!
//! The keeper runs at intervals, and each pass is idempotent.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use sortie_api::{OrgId, Refusal, RunId, RunStatus, Timestamp};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::{EVENTS_FOR, Stage, Unretained};
use crate::Engine;

/// Pause between two passes.
const PERIOD: Duration = Duration::from_millis(500);

/// Time for which the content of a run is kept although the store does not know the run. The answer to its creation was lost, and
/// the commit may still take place: a commit that waits for a standby becomes visible only once the standby has it.
const LATE_COMMIT: Duration = Duration::from_mins(1);

/// Number of passes from one comparison with the store to the next.
const COMPARE_EVERY: u32 = 10;

/// The job.
pub(crate) struct Keeper {
    engine: Engine,
    /// Outputs that were deleted here and that the store has not been notified of. Each has the time of its delivery, or `None`
    /// if it expired.
    untold_outputs: Vec<(RunId, Option<Timestamp>)>,
    /// Contents that were deleted here and that the store has not been notified of.
    untold_contents: Vec<RunId>,
    /// Runs that the store does not know, each with the time at which the keeper found that out.
    unknown: BTreeMap<RunId, Instant>,
    /// Passes until the next comparison.
    until_compare: u32,
}

impl Keeper {
    pub(crate) fn new(engine: Engine) -> Self {
        Self {
            engine,
            untold_outputs: Vec::new(),
            untold_contents: Vec::new(),
            unknown: BTreeMap::new(),
            until_compare: COMPARE_EVERY,
        }
    }

    /// Runs a pass every [`PERIOD`] until the node stops.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(PERIOD);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            if let Err(error) = self.pass().await {
                tracing::warn!(%error, "cannot process zero-data-retention runs");
            }
        }
    }

    fn unretained(&self) -> &Unretained {
        &self.engine.0.stores.records.unretained
    }

    /// Runs one pass.
    async fn pass(&mut self) -> Result<(), Refusal> {
        let node = &self.engine.0;
        let (store, unretained) = (&node.stores.database, &node.stores.records.unretained);
        // Memory first: content must expire even if the database is unavailable.
        let expired = unretained.delete_expired_outputs();
        self.untold_outputs
            .extend(expired.into_iter().map(|run| (run, None)));
        let delivered = unretained.take_delivered().into_iter();
        self.untold_outputs
            .extend(delivered.map(|(run, at)| (run, Some(at))));
        self.untold_contents.extend(unretained.delete_forgotten());
        if !self.untold_outputs.is_empty() {
            store.forget_outputs(self.untold_outputs.clone()).await?;
            self.untold_outputs.clear();
        }
        if !self.untold_contents.is_empty() {
            store.forget_content(self.untold_contents.clone()).await?;
            self.untold_contents.clear();
        }
        self.close_ended().await?;
        self.until_compare = self.until_compare.saturating_sub(1);
        if self.until_compare == 0 {
            self.compare().await?;
            self.until_compare = COMPARE_EVERY;
        }
        Ok(())
    }

    /// Closes ended runs that have no worker here, and removes runs that were never stored. Runs that are being stored are left
    /// out.
    async fn close_ended(&mut self) -> Result<(), Refusal> {
        let idle = self.unretained().idle();
        if idle.is_empty() {
            self.unknown.clear();
            return Ok(());
        }
        let statuses = self.engine.store().statuses(idle.clone()).await?;
        let known: BTreeSet<RunId> = statuses.iter().map(|(run, _)| *run).collect();
        for (run, status) in statuses {
            if status.is_final() && self.unretained().is_idle(run) {
                self.unretained().close(run, status)?;
                self.engine.0.work.hub.ended(run);
            } else {
                self.unretained().is_recorded(run);
            }
        }
        let now = Instant::now();
        let before = std::mem::take(&mut self.unknown);
        for run in idle.into_iter().filter(|run| !known.contains(run)) {
            let since = before.get(&run).copied().unwrap_or(now);
            if now.saturating_duration_since(since) >= LATE_COMMIT {
                self.unretained().runs().remove(run);
            } else {
                self.unknown.insert(run, since);
            }
        }
        Ok(())
    }

    /// Compares the contents in memory with those that the store expects on this node. If a row names an earlier identity of the
    /// node, its content is adopted: the run was stored or ended while the node registered again. A run without content is
    /// abandoned: its commit took place long after its answer was lost, and the content was removed.
    async fn compare(&self) -> Result<(), Refusal> {
        let node = &self.engine.0;
        let holder = node.cluster.identity.get();
        // Content is in memory before its run is in the store: a content that is missing now is gone.
        let recorded: BTreeSet<RunId> = node
            .stores
            .database
            .content_of(holder)
            .await?
            .into_iter()
            .collect();
        let strays = self.unretained().recorded();
        let strays: Vec<RunId> = strays.into_iter().filter(|run| !recorded.contains(run)).collect();
        if !strays.is_empty() {
            node.stores.database.adopt_contents(holder, strays).await?;
        }
        let missing: Vec<RunId> = recorded
            .into_iter()
            .filter(|run| !self.unretained().holds(*run))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let (at, price) = (node.options.clock.now(), node.options.compute_micros_per_second);
        let ended = node
            .stores
            .database
            .abandon_missing(holder, missing, at, price)
            .await?;
        self.engine.announce_abandoned(&ended);
        node.work.due.look();
        Ok(())
    }
}

impl Engine {
    /// Notifies readers and counts runs that ended because their content is gone.
    pub(crate) fn announce_abandoned(&self, ended: &[(OrgId, RunId)]) {
        let node = &self.0;
        for (org, run) in ended {
            tracing::warn!(run.id = %run, "ended a run with zero data retention as interrupted");
            if let Err(error) = node.stores.records.unretained.close(*run, RunStatus::Interrupted) {
                tracing::error!(run.id = %run, %error, "notifying the readers of a run of its end failed");
            }
            node.metrics.ended(RunStatus::Interrupted);
            node.work.hub.ended(*run);
            node.work.hub.listed(*org);
        }
    }
}

impl Unretained {
    /// Returns runs without a terminal status that no worker has.
    fn idle(&self) -> Vec<RunId> {
        let runs = self.runs();
        let open = runs
            .by_id
            .iter()
            .filter(|(_, content)| matches!(content.stage, Stage::InDoubt | Stage::Open));
        let open: Vec<RunId> = open.map(|(run, _)| *run).collect();
        drop(runs);
        open.into_iter()
            .filter(|run| !self.0.active.contains(*run))
            .collect()
    }

    fn is_idle(&self, run: RunId) -> bool {
        !self.0.active.contains(run)
    }

    /// Deletes expired events, and returns the contents that were deleted because no output is left either.
    fn delete_forgotten(&self) -> Vec<RunId> {
        let now = self.0.clock.now();
        let mut runs = self.runs();
        let is_over = |stage| matches!(stage, Stage::Final(at) if now >= at + EVENTS_FOR);
        let over: Vec<RunId> = runs
            .by_id
            .iter()
            .filter(|(_, content)| is_over(content.stage))
            .map(|(run, _)| *run)
            .collect();
        let mut forgotten = Vec::new();
        for run in over {
            let has_output = runs.change(run, |content| {
                content.events = Vec::new();
                content.error = None;
                let held = content.output.as_ref().and_then(|output| output.text());
                content.bytes = held.map_or(0, str::len);
                held.is_some()
            });
            if has_output == Some(false) {
                runs.remove(run);
                forgotten.push(run);
            }
        }
        forgotten
    }
}
