//! News between the nodes of one database: hints at what others may want to read again from the store.
//!
//! Whoever has written something that concerns other nodes puts it into [`News`] after the commit; the [exchange] sends
//! what has come together as one bulletin, at once after a silence and then at most every [`PERIOD`]. A bulletin names
//! runs and topics and holds no content. It may be lost: every node also looks by itself, now and again, for all that a
//! bulletin could tell. A node that has heard of no other lately gathers nothing.

mod exchange;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use sortie_api::RunId;
use sortie_store::LONGEST_SAID;
use tokio::{sync::Notify, time::Instant};

pub(crate) use self::exchange::{Channel, exchange};
use crate::kit::options::Serves;

/// At most one bulletin in this time.
const PERIOD: Duration = Duration::from_millis(20);

/// Runs that one bulletin names; where there are more it says so, and whoever follows any looks at those.
const RUNS: usize = 200;

/// What others are told, on its way out. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct News(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// Whether another node was heard lately.
    has_company: AtomicBool,
    last_heard: Mutex<Option<Instant>>,
    /// Nobody here looks after schedules and callbacks: what comes up is left to others.
    leaves_jobs: AtomicBool,
    next: Mutex<Bulletin>,
    arrived: Notify,
}

/// What wakes this node's tasks for what others have told.
#[derive(Clone, Default)]
pub(crate) struct Wake {
    /// The dispatcher: runs wait that another node has no place for.
    pub(crate) work: Arc<Notify>,
    /// The watch over runs that are followed here or at work.
    pub(crate) watch: Arc<Notify>,
    /// The sweep: a node has left runs behind.
    pub(crate) nodes: Arc<Notify>,
}

/// Wakes whoever looks after schedules: the timer of this node, or those of others where this one has none any more.
#[derive(Clone, Default)]
pub(crate) struct TimerBell {
    here: Arc<Notify>,
    news: News,
}

/// What is told at once. What a node does not know, from a later version, it ignores.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Bulletin {
    /// Runs with new events, and the number of the last one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    events: BTreeMap<RunId, i64>,
    /// Runs that somebody else than their worker has ended.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    ended: BTreeSet<RunId>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    topics: BTreeSet<Topic>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Topic {
    /// A node is there. Said with each heartbeat.
    Here,
    /// A node has begun to listen: whoever is there answers, so that it knows.
    Joined,
    /// Runs wait in the queue.
    Work,
    /// Callbacks are due.
    Callbacks,
    /// Schedules were changed, or what they wait for has happened.
    Schedules,
    /// A node has signed off and left runs behind.
    Nodes,
    /// More runs than can be named have new events, or were ended by somebody else than their worker.
    Runs,
    /// Anything may have been missed.
    Everything,
    #[serde(other)]
    Later,
}

impl Bulletin {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.ended.is_empty() && self.topics.is_empty()
    }

    /// Names no runs any more, but says this of them.
    fn generalize(&mut self, topic: Topic) {
        self.events.clear();
        self.ended.clear();
        self.topics.insert(topic);
    }

    fn names_all(&self) -> bool {
        !self.topics.contains(&Topic::Runs) && !self.topics.contains(&Topic::Everything)
    }

    /// As it is sent.
    fn text(mut self) -> Result<String, serde_json::Error> {
        let text = serde_json::to_string(&self)?;
        if text.len() <= LONGEST_SAID {
            return Ok(text);
        }
        self.generalize(Topic::Runs);
        serde_json::to_string(&self)
    }
}

impl News {
    /// The news of a node that serves these runs.
    pub(crate) fn of(serves: Serves) -> Self {
        let news = Self::default();
        if serves != Serves::Everyone {
            news.leave_jobs();
        }
        news
    }

    fn next(&self) -> MutexGuard<'_, Bulletin> {
        self.0.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, put: impl FnOnce(&mut Bulletin)) {
        if !self.0.has_company.load(Ordering::Relaxed) {
            return;
        }
        {
            let mut next = self.next();
            put(&mut next);
            if next.events.len() + next.ended.len() > RUNS {
                next.generalize(Topic::Runs);
            }
        }
        self.0.arrived.notify_one();
    }

    fn topic(&self, topic: Topic) {
        self.add(|next| {
            next.topics.insert(topic);
        });
    }

    /// A run has events up to `last`.
    pub(crate) fn events(&self, run: RunId, last: i64) {
        self.add(|next| {
            if next.names_all() {
                let known = next.events.entry(run).or_default();
                *known = last.max(*known);
            }
        });
    }

    /// Somebody else than its worker has ended a run.
    pub(crate) fn ended(&self, run: RunId) {
        self.add(|next| {
            if next.names_all() {
                next.ended.insert(run);
            }
        });
    }

    /// Runs wait that this node has no place for.
    pub(crate) fn work(&self) {
        self.topic(Topic::Work);
    }

    /// Callbacks are due that another node has to deliver.
    pub(crate) fn callbacks(&self) {
        self.topic(Topic::Callbacks);
    }

    /// This node has signed off. That is said to whoever listens: one that has just begun may not have been heard yet.
    pub(crate) fn nodes(&self) {
        self.next().topics.insert(Topic::Nodes);
        self.0.arrived.notify_one();
    }

    /// From here on schedules and callbacks are left to other nodes.
    pub(crate) fn leave_jobs(&self) {
        self.0.leaves_jobs.store(true, Ordering::Relaxed);
    }

    /// Whether schedules and callbacks are left to other nodes.
    pub(crate) fn leaves_jobs(&self) -> bool {
        self.0.leaves_jobs.load(Ordering::Relaxed)
    }

    /// Says that this node is there, and forgets the others where none of them was heard for the time of a lease.
    fn greet(&self, lease: Duration) {
        let last = *self.last_heard();
        if last.is_none_or(|last| last.elapsed() > lease) {
            self.0.has_company.store(false, Ordering::Relaxed);
        }
        self.next().topics.insert(Topic::Here);
    }

    /// Says that this node has begun to listen, and that what it said before may be lost.
    fn join(&self) {
        self.next().topics.extend([Topic::Joined, Topic::Everything]);
        self.0.arrived.notify_one();
    }

    /// Another node was heard.
    fn met(&self) {
        *self.last_heard() = Some(Instant::now());
        self.0.has_company.store(true, Ordering::Relaxed);
    }

    fn last_heard(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.last_heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has come together; none where nothing has.
    fn take(&self) -> Option<Bulletin> {
        let bulletin = std::mem::take(&mut *self.next());
        (!bulletin.is_empty()).then_some(bulletin)
    }

    /// What could not be told is missed.
    fn missed(&self) {
        self.next().generalize(Topic::Everything);
    }

    async fn arrived(&self) {
        self.0.arrived.notified().await;
    }
}

impl TimerBell {
    pub(crate) fn new(news: News) -> Self {
        Self {
            here: Arc::default(),
            news,
        }
    }

    /// Schedules were changed here, or a run has ended that one may wait for.
    pub(crate) fn ring(&self) {
        self.here.notify_one();
        if self.news.leaves_jobs() {
            self.news.topic(Topic::Schedules);
        }
    }

    /// Another node says so.
    fn ring_here(&self) {
        self.here.notify_one();
    }

    /// Returns once it was rung.
    pub(crate) async fn rung(&self) {
        self.here.notified().await;
    }
}
