//! Feeds of the list of runs: each change of status and each settlement of the runs of an organization.
//!
//! Each organization with readers has one [`Follower`]. It finds the changes and writes them to a bounded log that all readers of
//! the organization share. A signal makes it read the store at once; without one it reads after the pause of a poll. It
//! compares the states in the store with those it knows, so a lost signal only delays a change. A reader that is too slow, or
//! that comes with an unknown position, gets a `reset`: it has to load the list again.

mod follower;
mod log;
mod reader;

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use futures_util::stream::{self, BoxStream, StreamExt as _};
use parking_lot::{Mutex, MutexGuard};
use sortie_api::{OrgId, Refusal};
use sortie_base::{Clock, spawn_lasting};
use sortie_store::{Store, runs::RunFilter};
use tokio::sync::{Notify, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{follower::Follower, log::ChangeLog, reader::Reader};
use crate::{
    kit::{options::Polls, random::random},
    runs::hub::Batch,
};

/// Feeds of this node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Feeds(Arc<Inner>);

struct Inner {
    store: Store,
    polls: Polls,
    clock: Clock,
    tracker: TaskTracker,
    stop: CancellationToken,
    followed: Mutex<BTreeMap<OrgId, Weak<Followed>>>,
}

/// Organization with readers on this node.
struct Followed {
    org: OrgId,
    log: Mutex<ChangeLog>,
    /// Wakes the readers. Its receivers are counted to find out whether there are any.
    changed: watch::Sender<()>,
    /// Wakes the follower.
    signal: Notify,
}

impl Followed {
    fn log(&self) -> MutexGuard<'_, ChangeLog> {
        self.log.lock()
    }
}

impl Feeds {
    /// Creates the feeds of a node. Their tasks are counted by `tracker` and end with `stop`.
    pub(crate) fn new(
        store: &Store,
        (polls, clock): (Polls, &Clock),
        (tracker, stop): (&TaskTracker, &CancellationToken),
    ) -> Self {
        Self(Arc::new(Inner {
            store: store.clone(),
            polls,
            clock: clock.clone(),
            tracker: tracker.clone(),
            stop: stop.clone(),
            followed: Mutex::default(),
        }))
    }

    /// Signals that a run of the organization may have changed. Costs nothing if the organization has no reader.
    pub(crate) fn signal(&self, org: OrgId) {
        let followed = self.0.followed.lock().get(&org).and_then(Weak::upgrade);
        if let Some(followed) = followed {
            followed.signal.notify_one();
        }
    }

    /// Signals that runs of any organization may have changed.
    pub(crate) fn signal_all(&self) {
        for followed in self.0.followed.lock().values().filter_map(Weak::upgrade) {
            followed.signal.notify_one();
        }
    }

    /// Streams the changes of the runs that the filter admits, from the position `after` on. Begins with a `reset` if this node
    /// does not know the position. Ends when the node stops.
    pub(crate) fn follow(
        &self,
        org: OrgId,
        filter: RunFilter,
        after: Option<&str>,
    ) -> Result<BoxStream<'static, Result<Arc<Batch>, Refusal>>, Refusal> {
        let followed = self.followed(org)?;
        let position = after.and_then(|position| followed.log().number_of(position));
        let changed = followed.changed.subscribe();
        let reader = Reader {
            store: self.0.store.clone(),
            stop: self.0.stop.clone(),
            followed,
            changed,
            filter,
            position,
            ready: Vec::new().into_iter(),
        };
        Ok(stream::unfold(reader, Reader::next).boxed())
    }

    /// Returns the organization with its readers. Starts its follower for the first of them.
    fn followed(&self, org: OrgId) -> Result<Arc<Followed>, Refusal> {
        let mut all = self.0.followed.lock();
        if let Some(followed) = all.get(&org).and_then(Weak::upgrade) {
            return Ok(followed);
        }
        let followed = Arc::new(Followed {
            org,
            log: Mutex::new(ChangeLog::new(random()?)),
            changed: watch::Sender::new(()),
            signal: Notify::new(),
        });
        all.insert(org, Arc::downgrade(&followed));
        let work = Follower::new(self.clone(), Arc::clone(&followed)).run();
        spawn_lasting(&self.0.tracker, "feed", work);
        Ok(followed)
    }

    /// Forgets an organization that has no reader. Returns false if it has one.
    fn forget(&self, followed: &Followed) -> bool {
        // A new reader subscribes after it got the organization under this lock, so the owners are counted, not the receivers.
        let mut all = self.0.followed.lock();
        let is_idle = all
            .get(&followed.org)
            .is_none_or(|known| known.strong_count() <= 1);
        if is_idle {
            all.remove(&followed.org);
        }
        is_idle
    }
}
