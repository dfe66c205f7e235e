//! Hints between the nodes of one database: names of data that other nodes may want to read again from the store.
//!
//! A task that has written something for other nodes adds a hint to the [`HintSender`] after the commit. The [exchange]
//! sends the gathered hints as one batch, at once after a silence and then at most every [`PERIOD`]. A batch names runs
//! and topics and holds no content. A batch may be lost, so every node also polls for everything that a hint could
//! name. A node that has received nothing from another lately gathers no hints.

mod exchange;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use sortie_api::{OrgId, RunId};
use sortie_store::nodes::LONGEST_HINT;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

pub(crate) use self::exchange::{Channel, exchange};
use crate::kit::options::Serves;

/// Minimum time between two batches.
const PERIOD: Duration = Duration::from_millis(20);

/// Most runs and organizations that one batch names. A batch about more of them names none and has [`Topic::Runs`].
const RUNS: usize = 200;

/// Sender of hints to other nodes. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct HintSender(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// Whether a batch of another node was received lately.
    has_peers: AtomicBool,
    last_received: Mutex<Option<Instant>>,
    /// Whether schedules and callbacks are left to other nodes.
    leaves_jobs: AtomicBool,
    next: Mutex<HintBatch>,
    added: Notify,
}

/// Notifications that wake this node's tasks for hints of other nodes.
#[derive(Clone, Default)]
pub(crate) struct Wake {
    /// Wakes the dispatcher: another node has waiting runs and no free slot.
    pub(crate) work: Arc<Notify>,
    /// Wakes the watch over the runs that are followed or active on this node.
    pub(crate) watch: Arc<Notify>,
    /// Wakes the sweeper: a node has left runs to take over.
    pub(crate) nodes: Arc<Notify>,
    /// Changes when a workflow of any organization was saved or deleted, here or on another node.
    pub(crate) workflows: watch::Sender<()>,
}

/// Wakes the timer of the schedules on this node, or on other nodes once this node has none.
#[derive(Clone, Default)]
pub(crate) struct TimerBell {
    here: Arc<Notify>,
    hints: HintSender,
}

/// Hints that are sent together. A node ignores fields of a later version that it does not know.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct HintBatch {
    /// Runs with new events, each with the number of its last event.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    events: BTreeMap<RunId, i64>,
    /// Runs that were ended by something other than their worker.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    ended: BTreeSet<RunId>,
    /// Organizations with runs that were created, changed their status or were settled.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    changed: BTreeSet<OrgId>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    topics: BTreeSet<Topic>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Topic {
    /// Presence of a node. Sent with each heartbeat.
    Here,
    /// A node has begun to listen. Other nodes answer with [`Self::Here`].
    Joined,
    /// Runs wait in the queue.
    Work,
    /// Callbacks are due.
    Callbacks,
    /// Schedules were changed, or a run has ended for which a schedule waits.
    Schedules,
    /// A node has signed off and left runs to take over.
    Nodes,
    /// Workflows were saved or deleted.
    Workflows,
    /// Many runs have new events, or were ended by something other than their worker: too many to name in one batch.
    Runs,
    /// Hints of any kind may have been lost.
    Everything,
    #[serde(other)]
    Later,
}

impl HintBatch {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.ended.is_empty() && self.changed.is_empty() && self.topics.is_empty()
    }

    /// Replaces the names of runs and organizations by a topic.
    fn generalize(&mut self, topic: Topic) {
        self.events.clear();
        self.ended.clear();
        self.changed.clear();
        self.topics.insert(topic);
    }

    fn names_all(&self) -> bool {
        !self.topics.contains(&Topic::Runs) && !self.topics.contains(&Topic::Everything)
    }

    /// Returns the batch in the form that is sent.
    fn text(mut self) -> Result<String, serde_json::Error> {
        let text = serde_json::to_string(&self)?;
        if text.len() <= LONGEST_HINT {
            return Ok(text);
        }
        self.generalize(Topic::Runs);
        serde_json::to_string(&self)
    }
}

impl HintSender {
    /// Creates the sender of a node that serves these runs.
    pub(crate) fn of(serves: Serves) -> Self {
        let hints = Self::default();
        if serves != Serves::Everyone {
            hints.leave_jobs();
        }
        hints
    }

    fn next(&self) -> MutexGuard<'_, HintBatch> {
        self.0.next.lock()
    }

    fn add(&self, put: impl FnOnce(&mut HintBatch)) {
        if !self.0.has_peers.load(Ordering::Relaxed) {
            return;
        }
        {
            let mut next = self.next();
            put(&mut next);
            if next.events.len() + next.ended.len() + next.changed.len() > RUNS {
                next.generalize(Topic::Runs);
            }
        }
        self.0.added.notify_one();
    }

    fn topic(&self, topic: Topic) {
        self.add(|next| {
            next.topics.insert(topic);
        });
    }

    /// Hints that a run has events up to `last`.
    pub(crate) fn events(&self, run: RunId, last: i64) {
        self.add(|next| {
            if next.names_all() {
                let known = next.events.entry(run).or_default();
                *known = last.max(*known);
            }
        });
    }

    /// Hints that a run was ended by something other than its worker.
    pub(crate) fn ended(&self, run: RunId) {
        self.add(|next| {
            if next.names_all() {
                next.ended.insert(run);
            }
        });
    }

    /// Hints that the list of an organization's runs has changed.
    pub(crate) fn changed(&self, org: OrgId) {
        self.add(|next| {
            if next.names_all() {
                next.changed.insert(org);
            }
        });
    }

    /// Hints that runs wait and this node has no free slot.
    pub(crate) fn work(&self) {
        self.topic(Topic::Work);
    }

    /// Hints that callbacks are due which another node must deliver.
    pub(crate) fn callbacks(&self) {
        self.topic(Topic::Callbacks);
    }

    /// Hints that a workflow was saved or deleted.
    pub(crate) fn workflows(&self) {
        self.topic(Topic::Workflows);
    }

    /// Hints that this node has signed off. Sent even if no other node is known: one may just have begun to listen.
    pub(crate) fn nodes(&self) {
        self.next().topics.insert(Topic::Nodes);
        self.0.added.notify_one();
    }

    /// Leaves schedules and callbacks to other nodes from now on.
    pub(crate) fn leave_jobs(&self) {
        self.0.leaves_jobs.store(true, Ordering::Relaxed);
    }

    /// Whether schedules and callbacks are left to other nodes.
    pub(crate) fn leaves_jobs(&self) -> bool {
        self.0.leaves_jobs.load(Ordering::Relaxed)
    }

    /// Announces this node. Forgets the others if nothing was received from any of them for the time of a lease.
    fn announce(&self, lease: Duration) {
        let last = *self.last_received();
        if last.is_none_or(|last| last.elapsed() > lease) {
            self.0.has_peers.store(false, Ordering::Relaxed);
        }
        self.next().topics.insert(Topic::Here);
    }

    /// Announces that this node has begun to listen, and that its earlier hints may be lost.
    fn announce_join(&self) {
        self.next().topics.extend([Topic::Joined, Topic::Everything]);
        self.0.added.notify_one();
    }

    /// Records that a batch of another node was received.
    fn record_peer(&self) {
        *self.last_received() = Some(Instant::now());
        self.0.has_peers.store(true, Ordering::Relaxed);
    }

    fn last_received(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.last_received.lock()
    }

    /// Takes the gathered hints, if there are any.
    fn take(&self) -> Option<HintBatch> {
        let batch = std::mem::take(&mut *self.next());
        (!batch.is_empty()).then_some(batch)
    }

    /// Records that a batch was lost: the next one has [`Topic::Everything`].
    fn mark_lost(&self) {
        self.next().generalize(Topic::Everything);
    }

    async fn added(&self) {
        self.0.added.notified().await;
    }
}

impl TimerBell {
    pub(crate) fn new(hints: HintSender) -> Self {
        Self {
            here: Arc::default(),
            hints,
        }
    }

    /// Wakes the timer after a change of schedules, or after the end of a run for which a schedule may wait.
    pub(crate) fn ring(&self) {
        self.here.notify_one();
        if self.hints.leaves_jobs() {
            self.hints.topic(Topic::Schedules);
        }
    }

    /// Wakes the timer of this node after a hint of another node.
    fn ring_here(&self) {
        self.here.notify_one();
    }

    /// Waits until the timer is to wake.
    pub(crate) async fn rung(&self) {
        self.here.notified().await;
    }
}
