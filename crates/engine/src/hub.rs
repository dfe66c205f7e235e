//! The run hub: live events of runs, serialized once and fanned out to every reader on this node.
//!
//! The store is the truth. A worker hands over what it has just committed; a reader that is in step takes it from
//! here, any other reads the store at its own pace. What a run keeps here is bounded in bytes, so a slow reader
//! costs queries, never memory, and holds up nobody.

use std::{
    collections::{HashMap, VecDeque},
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use sortie_api::{OrgId, Run, RunId, RunStatus, event::kind};
use sortie_store::{EventRow, Store};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::Error;

/// Serialized events kept per followed run, in bytes.
const TAIL_BYTES: usize = 256 * 1024;

/// Events read from the store at once.
const PAGE: u32 = 256;

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
}

/// The newest events of a run, serialized.
#[derive(Default)]
struct Tail {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    done: Option<Done>,
    /// The last event that readers here have been told of, by whatever way.
    known: i64,
}

/// Events that were committed together.
#[derive(Clone)]
struct Chunk {
    first: i64,
    last: i64,
    frames: Bytes,
}

#[derive(Clone)]
struct Done {
    last: i64,
    frame: Bytes,
}

/// What the tail has for a reader.
enum Next {
    Events {
        last: i64,
        frames: Bytes,
    },
    Done(Bytes),
    /// The reader has everything that is known here.
    InStep,
    /// The reader's position is not in the tail: the store knows.
    Unknown,
}

impl Tail {
    fn push(&mut self, chunk: Chunk) {
        // A gap means that another writer came between: what is older is of no use to a reader in step.
        if self
            .chunks
            .back()
            .is_some_and(|newest| newest.last + 1 != chunk.first)
        {
            self.chunks.clear();
            self.bytes = 0;
        }
        self.known = self.known.max(chunk.last);
        self.bytes += chunk.frames.len();
        self.chunks.push_back(chunk);
        while self.bytes > TAIL_BYTES {
            let Some(oldest) = self.chunks.pop_front() else {
                break;
            };
            self.bytes -= oldest.frames.len();
        }
    }

    fn after(&self, position: i64) -> Next {
        let start = self.chunks.partition_point(|chunk| chunk.first <= position);
        let mut ready = self.chunks.iter().skip(start);
        match ready.next() {
            Some(chunk) if chunk.first == position + 1 => {
                let rest: Vec<&Chunk> = ready.collect();
                let Some(newest) = rest.last() else {
                    return Next::Events {
                        last: chunk.last,
                        frames: chunk.frames.clone(),
                    };
                };
                let mut joined = Vec::with_capacity(self.bytes);
                joined.extend_from_slice(&chunk.frames);
                for later in &rest {
                    joined.extend_from_slice(&later.frames);
                }
                Next::Events {
                    last: newest.last,
                    frames: joined.into(),
                }
            }
            Some(_) => Next::Unknown,
            None => match (&self.done, self.chunks.back()) {
                (Some(done), _) if done.last == position => Next::Done(done.frame.clone()),
                (None, Some(newest)) if newest.last == position => Next::InStep,
                _ => Next::Unknown,
            },
        }
    }
}

impl Live {
    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
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
        let (Some(live), Some(first), Some(last)) = (self.followed(run), events.first(), events.last())
        else {
            return;
        };
        let frames = event_frames(events);
        live.tail().push(Chunk {
            first: first.seq,
            last: last.seq,
            frames,
        });
        live.changed.send_replace(());
    }

    /// Hands over the end of a run: its last events and the final run.
    pub(crate) fn publish_final(&self, run: &Run, events: &[EventRow]) -> Result<(), Error> {
        let (Some(live), Some(first), Some(last)) = (self.followed(run.id), events.first(), events.last())
        else {
            return Ok(());
        };
        let frame = done_frame(run)?;
        let frames = event_frames(events);
        let mut tail = live.tail();
        tail.push(Chunk {
            first: first.seq,
            last: last.seq,
            frames,
        });
        tail.done = Some(Done {
            last: last.seq,
            frame,
        });
        drop(tail);
        live.changed.send_replace(());
        Ok(())
    }

    /// Tells readers that the store has events of a run up to `last`, written by another node.
    pub(crate) fn hint(&self, run: RunId, last: i64) {
        let Some(live) = self.followed(run) else { return };
        let mut tail = live.tail();
        if tail.known >= last {
            return;
        }
        tail.known = last;
        tail.chunks.clear();
        tail.bytes = 0;
        drop(tail);
        live.changed.send_replace(());
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
        });
        runs.insert(run, Arc::downgrade(&live));
        live
    }

    pub(crate) async fn follow(
        &self,
        org: OrgId,
        run: RunId,
        after: i64,
    ) -> Result<BoxStream<'static, Result<Frame, Error>>, Error> {
        // Registered before the first query, so that nothing committed after the query goes unseen.
        let live = self.subscribe(run);
        let changed = live.changed.subscribe();
        let first = self.store.events_after(org, run, after, PAGE).await?;
        let reader = Reader {
            hub: self.clone(),
            org,
            run,
            position: after,
            live,
            changed,
            state: State::Read(first),
        };
        Ok(stream::unfold(reader, Reader::next).boxed())
    }
}

/// One reader of one run.
struct Reader {
    hub: Hub,
    org: OrgId,
    run: RunId,
    position: i64,
    live: Arc<Live>,
    changed: watch::Receiver<()>,
    state: State,
}

enum State {
    /// Events from the store, not yet handed out.
    Read(Vec<EventRow>),
    /// In step as far as known.
    InStep,
    /// The last event was handed out; `done` is due.
    Final,
    Ended,
}

impl Drop for Reader {
    fn drop(&mut self) {
        // The reader's own handle is the last one: nobody else can find the entry any more.
        let mut runs = self.hub.runs();
        if Arc::strong_count(&self.live) == 1 {
            runs.remove(&self.run);
        }
    }
}

impl Reader {
    async fn next(mut self) -> Option<(Result<Frame, Error>, Self)> {
        match self.advance().await {
            Ok(Some(frame)) => Some((Ok(frame), self)),
            Ok(None) => None,
            Err(error) => {
                self.state = State::Ended;
                Some((Err(error), self))
            }
        }
    }

    async fn advance(&mut self) -> Result<Option<Frame>, Error> {
        loop {
            match std::mem::replace(&mut self.state, State::InStep) {
                State::Ended => {
                    self.state = State::Ended;
                    return Ok(None);
                }
                State::Final => {
                    self.state = State::Ended;
                    let run = self.hub.store.get_run(self.org, self.run).await?;
                    return Ok(Some(Frame::Done(done_frame(&run)?)));
                }
                State::Read(rows) => {
                    if let Some(frame) = self.hand_out(&rows) {
                        return Ok(Some(frame));
                    }
                    if self.is_over().await? {
                        continue;
                    }
                    if !self.wait().await {
                        return Ok(None);
                    }
                }
                State::InStep => {
                    let next = self.live.tail().after(self.position);
                    match next {
                        Next::Events { last, frames } => {
                            self.position = last;
                            return Ok(Some(Frame::Events(frames)));
                        }
                        Next::Done(frame) => {
                            self.state = State::Ended;
                            return Ok(Some(Frame::Done(frame)));
                        }
                        Next::InStep => {
                            if !self.wait().await {
                                return Ok(None);
                            }
                        }
                        Next::Unknown => self.state = State::Read(self.read().await?),
                    }
                }
            }
        }
    }

    async fn read(&self) -> Result<Vec<EventRow>, Error> {
        Ok(self
            .hub
            .store
            .events_after(self.org, self.run, self.position, PAGE)
            .await?)
    }

    fn hand_out(&mut self, rows: &[EventRow]) -> Option<Frame> {
        let last = rows.last()?;
        self.position = last.seq;
        let mut tail = self.live.tail();
        tail.known = tail.known.max(last.seq);
        drop(tail);
        if is_final(last) {
            self.state = State::Final;
        }
        Some(Frame::Events(event_frames(rows)))
    }

    /// With nothing more to read: whether that is because the run is final. The status is read before the events
    /// are read again, so that the last events can't slip in between.
    async fn is_over(&mut self) -> Result<bool, Error> {
        if !self
            .hub
            .store
            .get_run(self.org, self.run)
            .await?
            .status
            .is_final()
        {
            return Ok(false);
        }
        let rest = self.read().await?;
        self.state = if rest.is_empty() {
            State::Final
        } else {
            State::Read(rest)
        };
        Ok(true)
    }

    /// Waits for a hint; false when the node stops.
    async fn wait(&mut self) -> bool {
        tokio::select! {
            biased;
            hint = self.changed.changed() => hint.is_ok(),
            () = self.hub.stop.cancelled() => {
                self.state = State::Ended;
                false
            }
        }
    }
}

/// The final `status` event is always a run's last one.
fn is_final(event: &EventRow) -> bool {
    #[derive(serde::Deserialize)]
    struct Data {
        status: RunStatus,
    }
    event.kind == kind::STATUS
        && serde_json::from_str::<Data>(&event.data).is_ok_and(|data| data.status.is_final())
}

fn event_frames(events: &[EventRow]) -> Bytes {
    let size = events.iter().map(|event| event.data.len() + 160).sum();
    let mut out = String::with_capacity(size);
    for event in events {
        // Writing to a `String` cannot fail.
        let _infallible = write!(
            out,
            "id: {seq}\nevent: {kind}\ndata: {{\"id\":{seq},\"type\":\"{kind}\",\"data\":{data},\"created_at\":\"{at}\"}}\n\n",
            seq = event.seq,
            kind = event.kind,
            data = event.data,
            at = event.created_at,
        );
    }
    out.into()
}

fn done_frame(run: &Run) -> Result<Bytes, Error> {
    let run = sortie_api::json::to_line(run)
        .map_err(|error| Error::Internal(format!("a run cannot be serialized: {error}")))?;
    Ok(format!("event: done\ndata: {run}\n\n").into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chunk(first: i64, last: i64) -> Chunk {
        let text: Vec<String> = (first..=last).map(|seq| format!("{seq};")).collect();
        Chunk {
            first,
            last,
            frames: text.concat().into(),
        }
    }

    fn seen(tail: &Tail, position: i64) -> Option<(i64, String)> {
        match tail.after(position) {
            Next::Events { last, frames } => Some((last, String::from_utf8_lossy(&frames).into_owned())),
            Next::Done(_) | Next::InStep | Next::Unknown => None,
        }
    }

    #[test]
    fn a_reader_in_step_takes_everything_newer_at_once() {
        let mut tail = Tail::default();
        tail.push(chunk(1, 2));
        tail.push(chunk(3, 3));
        assert_eq!(seen(&tail, 0), Some((3, "1;2;3;".to_owned())));
        assert_eq!(seen(&tail, 2), Some((3, "3;".to_owned())));
    }

    #[test]
    fn a_reader_inside_a_chunk_or_behind_the_tail_reads_the_store() {
        let mut tail = Tail::default();
        tail.push(chunk(5, 8));
        assert_eq!(seen(&tail, 6), None);
        assert_eq!(seen(&tail, 2), None);
    }

    #[test]
    fn a_gap_forgets_what_came_before_it() {
        let mut tail = Tail::default();
        tail.push(chunk(1, 2));
        tail.push(chunk(4, 4));
        assert_eq!(seen(&tail, 0), None);
        assert_eq!(seen(&tail, 3), Some((4, "4;".to_owned())));
    }

    #[test]
    fn done_comes_after_the_last_event_only() {
        let mut tail = Tail::default();
        tail.push(chunk(1, 2));
        tail.done = Some(Done {
            last: 2,
            frame: Bytes::from_static(b"done"),
        });
        assert!(matches!(tail.after(0), Next::Events { .. }));
        assert!(matches!(tail.after(2), Next::Done(_)));
        assert!(matches!(tail.after(1), Next::Unknown));
    }

    #[test]
    fn a_reader_at_the_newest_event_waits_instead_of_asking_the_store() {
        let mut tail = Tail::default();
        assert!(matches!(tail.after(0), Next::Unknown));
        tail.push(chunk(1, 2));
        assert!(matches!(tail.after(2), Next::InStep));
        assert!(matches!(tail.after(9), Next::Unknown));
    }

    proptest! {
        #[test]
        fn the_tail_stays_within_its_bytes(sizes in prop::collection::vec(1_usize..90_000, 1..40)) {
            let mut tail = Tail::default();
            for (at, size) in (1_i64..).zip(&sizes) {
                tail.push(Chunk { first: at, last: at, frames: vec![b'x'; *size].into() });
                prop_assert!(tail.bytes <= TAIL_BYTES);
                prop_assert_eq!(tail.bytes, tail.chunks.iter().map(|c| c.frames.len()).sum::<usize>());
            }
        }
    }
}
