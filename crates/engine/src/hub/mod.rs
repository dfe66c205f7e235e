//! The run hub: live events of runs, serialized once and fanned out to every reader on this node.
//!
//! The store is the truth. A worker hands over what it has just committed; a reader that is in step takes it from
//! here, any other reads the store at its own pace, one at a time at the head of a run, and hands over what it read.
//! What a run keeps here is bounded in bytes, so a slow reader costs queries, never memory, and holds up nobody.

mod frames;
mod reader;
mod tail;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use sortie_api::{OrgId, Run, RunId};
use sortie_store::{EventRow, Store};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::{
    reader::Reader,
    tail::{Chunk, Tail},
};
use crate::Error;

/// One message of a run's stream, serialized once for all its readers.
#[derive(Clone, Debug)]
pub enum Frame {
    /// One or more recorded events, ready to send (`id:`, `event:`, `data:` and the blank line of each).
    Events(Bytes),
    /// The `done` message; the stream ends after it.
    Done(Bytes),
}

#[derive(Clone)]
pub(crate) struct Hub {
    store: Store,
    live: Arc<Mutex<HashMap<RunId, Weak<Live>>>>,
    stop: CancellationToken,
}

/// A run that somebody follows on this node.
struct Live {
    tail: Mutex<Tail>,
    changed: watch::Sender<()>,
    /// Held by the one reader that reads the head of the run from the store.
    reading: tokio::sync::Mutex<()>,
}

impl Live {
    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds committed events to the tail and wakes the readers, unless all of it was there.
    fn add(&self, chunk: Chunk) {
        if self.tail().push(chunk) {
            self.changed.send_replace(());
        }
    }
}

impl Hub {
    pub(crate) fn new(store: Store, stop: CancellationToken) -> Self {
        Self {
            store,
            live: Arc::default(),
            stop,
        }
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Weak<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn followed(&self, run: RunId) -> Option<Arc<Live>> {
        self.runs().get(&run).and_then(Weak::upgrade)
    }

    /// Hands over events that have just been committed. Costs nothing when nobody follows the run.
    pub(crate) fn publish(&self, run: RunId, events: &[EventRow]) {
        if let Some(live) = self.followed(run)
            && let Some(chunk) = Chunk::of(events)
        {
            live.add(chunk);
        }
    }

    /// Hands over the end of a run: its last events and the final run.
    pub(crate) fn publish_final(&self, run: &Run, events: &[EventRow]) -> Result<(), Error> {
        let Some(live) = self.followed(run.id) else {
            return Ok(());
        };
        let Some(chunk) = Chunk::of(events) else {
            return Ok(());
        };
        let done = frames::done(run)?;
        live.tail().finish(chunk.last, done);
        live.add(chunk);
        Ok(())
    }

    /// Tells readers that the store has events of a run up to `last`, written by another node.
    pub(crate) fn hint(&self, run: RunId, last: i64) {
        if let Some(live) = self.followed(run)
            && live.tail().learn(last)
        {
            live.changed.send_replace(());
        }
    }

    /// Tells readers that a run was ended by somebody else than its worker: what comes after the tail is in the store.
    pub(crate) fn ended(&self, run: RunId) {
        if let Some(live) = self.followed(run) {
            live.tail().end_elsewhere();
            live.changed.send_replace(());
        }
    }

    /// The runs that somebody follows here.
    pub(crate) fn watched(&self) -> Vec<RunId> {
        let mut runs = self.runs();
        runs.retain(|_, live| live.strong_count() > 0);
        runs.keys().copied().collect()
    }

    fn subscribe(&self, run: RunId) -> Arc<Live> {
        let mut runs = self.runs();
        if let Some(live) = runs.get(&run).and_then(Weak::upgrade) {
            return live;
        }
        let live = Arc::new(Live {
            tail: Mutex::default(),
            changed: watch::Sender::new(()),
            reading: tokio::sync::Mutex::default(),
        });
        runs.insert(run, Arc::downgrade(&live));
        live
    }

    /// The run's events after `after`, then new ones, then `done`. A position beyond the last event counts as the last.
    pub(crate) async fn follow(
        &self,
        org: OrgId,
        run: RunId,
        after: i64,
    ) -> Result<BoxStream<'static, Result<Frame, Error>>, Error> {
        // Registered before the first query, so that nothing committed after the query goes unseen.
        let live = self.subscribe(run);
        let reader = Reader::begin(self.clone(), live, org, run, after).await?;
        Ok(stream::unfold(reader, Reader::next).boxed())
    }
}
