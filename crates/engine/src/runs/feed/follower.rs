//! The task that finds the changes of an organization's runs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use sortie_api::{Refusal, RunId};
use sortie_store::runs::{RunState, RunStates};
use tokio::time::Instant;

use super::{Feeds, Followed};
use crate::kit::options::{Polls, poll_pause};

/// Minimum time between two reads. A run is in each of them at most once, so a feed has at most four changes of it in a second.
const APART: Duration = Duration::from_millis(255);

/// A list is wrong for at most a second, even if every signal is lost: this leaves time for the read.
const _: () = assert!(Polls::RUNS.as_millis() * 3 / 2 <= 800);

/// Time for which an organization without readers is still followed, so that a client can reconnect at its position.
const LINGER: Duration = Duration::from_mins(1);

/// Number of the newest runs that are compared.
const NEWEST: u32 = 200;

/// Number of runs that are compared among those that wait, and among those that are claimed.
const OPEN: u32 = 2_000;

/// Most changes that one read may find. Readers have to load the list again after more of them. The log has room for this
/// many runs of a usual size, so a reader that keeps up misses none.
const CHANGES: usize = 100;

/// Minimum time between two resets, so that the readers of a very busy organization do not load lists all the time.
const RESETS_APART: Duration = Duration::from_millis(600);

pub(super) struct Follower {
    feeds: Feeds,
    followed: Arc<Followed>,
    /// The newest runs and the open runs, as of the last read. `None` before the first one.
    known: Option<BTreeMap<RunId, RunState>>,
    /// Whether changes were missed since the last reset.
    has_missed: bool,
    last_reset: Option<Instant>,
}

impl Follower {
    pub(super) fn new(feeds: Feeds, followed: Arc<Followed>) -> Self {
        Self {
            feeds,
            followed,
            known: None,
            has_missed: false,
            last_reset: None,
        }
    }

    /// Finds changes until the node stops or the organization has had no reader for a while.
    pub(super) async fn run(mut self) {
        let (stop, clock) = (self.feeds.0.stop.clone(), self.feeds.0.clock.clone());
        let mut last_reader = Instant::now();
        loop {
            let begun = Instant::now();
            match self.read().await {
                Ok(()) => {}
                Err(error) => tracing::warn!(%error, "reading changes for the feed of runs failed"),
            }
            if self.followed.changed.receiver_count() > 0 {
                last_reader = Instant::now();
            } else if last_reader.elapsed() >= LINGER && self.feeds.forget(&self.followed) {
                return;
            }
            let mut next = begun + poll_pause(self.feeds.0.polls.runs, clock.now());
            // Nothing may signal again after the change that was missed.
            if self.has_missed
                && let Some(last) = self.last_reset
            {
                next = next.min(last + RESETS_APART);
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.followed.signal.notified() => {}
                () = tokio::time::sleep_until(next) => {}
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep_until(begun + APART) => {}
            }
        }
    }

    /// Reads the states of the runs once, and adds the changes to the log.
    async fn read(&mut self) -> Result<(), Refusal> {
        let (store, org) = (&self.feeds.0.store, self.followed.org);
        let states = store.run_states(org, NEWEST, OPEN).await?;
        let Some(known) = &self.known else {
            self.known = Some(by_run(states));
            self.followed.log().begin();
            self.followed.changed.send_replace(());
            return Ok(());
        };
        // More open runs than are compared may change unseen. Without a run that was known among the newest ones, there may be
        // others between them and the earlier ones.
        let is_seen = |states: &[RunState]| states.iter().any(|state| known.contains_key(&state.run));
        self.has_missed |= is_full(&states.waiting, OPEN)
            || is_full(&states.claimed, OPEN)
            || is_full(&states.newest, NEWEST) && !is_seen(&states.newest);
        let mut current = by_run(states);
        let differ = current
            .values()
            .filter(|state| known.get(&state.run) != Some(*state));
        let left = known
            .values()
            .filter(|state| state.is_open() && !current.contains_key(&state.run));
        let changed: Vec<RunId> = differ.chain(left).map(|state| state.run).collect();
        self.has_missed |= changed.len() > CHANGES;
        if self.has_missed && self.last_reset.is_none_or(|last| last.elapsed() >= RESETS_APART) {
            self.last_reset = Some(Instant::now());
            self.has_missed = false;
            self.followed.log().reset();
        } else if changed.is_empty() {
            return Ok(());
        } else if changed.len() <= CHANGES {
            let runs = store.runs_of_feed(org, changed).await?;
            let mut log = self.followed.log();
            for run in runs {
                let state = RunState::of(&run);
                // It may have changed again since the states were read.
                current.insert(run.id, state);
                if known.get(&run.id) != Some(&state) {
                    log.push(run)?;
                }
            }
        }
        self.known = Some(current);
        self.followed.changed.send_replace(());
        Ok(())
    }
}

fn by_run(states: RunStates) -> BTreeMap<RunId, RunState> {
    let all = states
        .newest
        .into_iter()
        .chain(states.waiting)
        .chain(states.claimed);
    all.map(|state| (state.run, state)).collect()
}

/// Whether there may be more of these than were read.
fn is_full(states: &[RunState], limit: u32) -> bool {
    u32::try_from(states.len()).is_ok_and(|found| found >= limit)
}
