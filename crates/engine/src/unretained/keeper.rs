//! What becomes of content without anybody asking: answers and events go at their time, runs that were ended elsewhere
//! are closed here.
//!
//! Idempotent and timed. A node that has no such content pays for none of it.

use std::{collections::HashSet, time::Duration};

use sortie_api::RunId;
use sortie_store::Store;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::{EVENTS_FOR, Stage, Unretained};
use crate::{Error, hub::Hub};

/// How often it looks.
const LOOK: Duration = Duration::from_millis(500);

/// The job.
pub(crate) struct Keeper {
    unretained: Unretained,
    store: Store,
    hub: Hub,
    /// Answers that are gone here, and still held as far as the store knows.
    untold_outputs: Vec<RunId>,
    /// The same of whole contents.
    untold_contents: Vec<RunId>,
    /// Runs that the store did not know at the last look.
    unknown: HashSet<RunId>,
}

impl Keeper {
    pub(crate) fn new(unretained: Unretained, store: Store, hub: Hub) -> Self {
        Self {
            unretained,
            store,
            hub,
            untold_outputs: Vec::new(),
            untold_contents: Vec::new(),
            unknown: HashSet::new(),
        }
    }

    /// Looks now and again until the node stops.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(LOOK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = stop.cancelled() => return,
            }
            if let Err(error) = self.look().await {
                tracing::warn!(%error, "zero-data-retention runs could not be looked after");
            }
        }
    }

    /// One look.
    pub(crate) async fn look(&mut self) -> Result<(), Error> {
        // From memory first: a database that is away keeps nothing alive.
        self.untold_outputs
            .extend(self.unretained.delete_expired_outputs());
        self.untold_contents.extend(self.unretained.delete_forgotten());
        if !self.untold_outputs.is_empty() {
            self.store.forget_outputs(self.untold_outputs.clone()).await?;
            self.untold_outputs.clear();
        }
        if !self.untold_contents.is_empty() {
            self.store.forget_content(self.untold_contents.clone()).await?;
            self.untold_contents.clear();
        }
        self.close_ended().await
    }

    /// Closes those that were ended by somebody else and have no worker here, and forgets those that were never recorded.
    async fn close_ended(&mut self) -> Result<(), Error> {
        let idle = self.unretained.idle();
        if idle.is_empty() {
            self.unknown.clear();
            return Ok(());
        }
        let statuses = self.store.statuses(idle.clone()).await?;
        let known: HashSet<RunId> = statuses.iter().map(|(run, _)| *run).collect();
        for (run, status) in statuses {
            if status.is_final() && self.unretained.is_idle(run) {
                self.unretained.close(run, status)?;
                self.hub.ended(run);
            }
        }
        let unknown: HashSet<RunId> = idle.into_iter().filter(|run| !known.contains(run)).collect();
        for run in unknown.intersection(&self.unknown) {
            self.unretained.runs().remove(*run);
        }
        self.unknown = unknown;
        Ok(())
    }
}

impl Unretained {
    /// Runs that are not final and that no worker has.
    fn idle(&self) -> Vec<RunId> {
        let runs = self.runs();
        let open = runs
            .by_id
            .iter()
            .filter(|(_, content)| content.stage == Stage::Open);
        let open: Vec<RunId> = open.map(|(run, _)| *run).collect();
        drop(runs);
        open.into_iter()
            .filter(|run| !self.0.active.contains(*run))
            .collect()
    }

    fn is_idle(&self, run: RunId) -> bool {
        !self.0.active.contains(run)
    }

    /// Contents of which nothing is left to be asked for; they are deleted here. Events alone go at their time.
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
