//! The hub: live events of runs, shared by every reader on this node.
//!
//! The store is the truth. A worker publishes the events that it has just committed. A reader that is up to date takes them from
//! the hub. Any other reader reads the store at its own pace; at the newest events of a run, one reader at a time does so and
//! publishes them for the others. The events of a run in memory are bounded in bytes, and so is a batch. A batch leaves large
//! texts out, and each reader reads them from the store. A slow reader therefore costs queries, never memory, and delays no other
//! reader.

mod batch;
mod reader;
mod tail;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use futures_util::stream::{self, BoxStream, StreamExt};
use parking_lot::{Mutex, MutexGuard};
use sortie_api::{OrgId, Refusal, Run, RunId};
use sortie_store::runs::{EventRow, ListedEvent, ListedRun};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

pub use self::batch::{Batch, Delta, LargeEvent, LargeMessage, Message, Passed, PassedEnd, RunChange};
use self::{
    batch::INLINE_BYTES,
    reader::Reader,
    tail::{Chunk, Tail},
};
use crate::{
    cluster::hints::HintSender,
    kit::metrics::Metrics,
    runs::{feed::Feeds, run_log::Records},
};
use sortie_base::Clock;

/// Live messages in a reader's stream, in addition to the recorded events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deltas {
    /// The begin of each model call, the text that the model writes and the output of commands come as messages without an id,
    /// from the node that works on the run.
    Live,
    /// The stream has recorded events alone.
    Off,
}

#[derive(Clone)]
pub(crate) struct Hub {
    records: Records,
    hints: HintSender,
    live: Arc<Mutex<BTreeMap<RunId, Weak<Live>>>>,
    stop: CancellationToken,
    metrics: Arc<Metrics>,
    clock: Clock,
    feeds: Feeds,
}

/// A run with a reader on this node.
struct Live {
    tail: Mutex<Tail>,
    changed: watch::Sender<()>,
    /// Locked by the reader that reads the newest events from the store.
    reading: tokio::sync::Mutex<()>,
    /// Live messages. The channel has room for [`DELTAS`] of them and takes 8 KiB. It is created for the first reader
    /// with [`Deltas::Live`], because most runs have no such reader.
    deltas: OnceLock<broadcast::Sender<Arc<Batch>>>,
}

/// Number of live messages that a reader may lag. It misses older ones. The longest ones have 4 KiB.
const DELTAS: usize = 256;

impl Live {
    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock()
    }

    /// Begins to read live text.
    fn deltas(&self) -> broadcast::Receiver<Arc<Batch>> {
        let sender = self.deltas.get_or_init(|| broadcast::Sender::new(DELTAS));
        sender.subscribe()
    }

    /// Adds committed events to the tail and wakes the readers, unless the tail had them already.
    fn add(&self, chunk: Chunk) {
        if self.tail().push(chunk) {
            self.changed.send_replace(());
        }
    }
}

/// Copies events for followers, without large data.
fn shared(events: &[EventRow]) -> impl Iterator<Item = ListedEvent> {
    events.iter().map(|event| ListedEvent::of(event, INLINE_BYTES))
}

impl Hub {
    /// Creates a hub with the clock `clock`. Its readers are counted in `metrics`. Each reader ends once `stop` is cancelled and
    /// [`Self::stopped`] called.
    pub(crate) fn measured(
        records: &Records,
        hints: &HintSender,
        stop: &CancellationToken,
        (metrics, clock): (&Arc<Metrics>, &Clock),
        feeds: Feeds,
    ) -> Self {
        Self {
            records: records.clone(),
            hints: hints.clone(),
            live: Arc::default(),
            stop: stop.clone(),
            metrics: Arc::clone(metrics),
            clock: clock.clone(),
            feeds,
        }
    }

    /// Creates a hub with unused metrics.
    #[cfg(test)]
    pub(crate) fn new(records: Records, hints: HintSender, stop: CancellationToken) -> Self {
        let tracker = tokio_util::task::TaskTracker::new();
        let polls = (crate::kit::options::Polls::default(), &Clock::system());
        Self {
            feeds: Feeds::new(&records.store, polls, (&tracker, &stop)),
            records,
            hints,
            live: Arc::default(),
            stop,
            metrics: Arc::default(),
            clock: Clock::system(),
        }
    }

    /// Returns the feeds of the lists of runs.
    pub(crate) fn feeds(&self) -> &Feeds {
        &self.feeds
    }

    /// Signals to the feeds of every node that a run of the organization has changed its status or was settled.
    pub(crate) fn listed(&self, org: OrgId) {
        self.hints.changed(org);
        self.feeds.signal(org);
    }

    fn runs(&self) -> MutexGuard<'_, BTreeMap<RunId, Weak<Live>>> {
        self.live.lock()
    }

    fn followed(&self, run: RunId) -> Option<Arc<Live>> {
        self.runs().get(&run).and_then(Weak::upgrade)
    }

    /// Publishes events that have just been committed, and sends a hint to other nodes. Costs nothing if the run has no
    /// reader and there is no other node.
    pub(crate) fn publish(&self, run: RunId, events: &[EventRow]) {
        self.send_hint(run, events);
        if let Some(live) = self.followed(run) {
            for chunk in Chunk::split(run, shared(events)) {
                live.add(chunk);
            }
        }
    }

    /// Publishes the end of a run: its last events and the run in its terminal status.
    pub(crate) fn publish_final(&self, run: &Run, events: &[EventRow]) -> Result<(), Refusal> {
        self.send_hint(run.id, events);
        let Some(live) = self.followed(run.id) else {
            return Ok(());
        };
        let mut chunks = Chunk::split(run.id, shared(events));
        let Some(chunk) = chunks.pop() else {
            return Ok(());
        };
        let done = Arc::new(Batch::of_final(ListedRun {
            run: run.clone(),
            has_large_output: false,
        })?);
        let (last, chunk) = (chunk.last, chunk.with_done(&done));
        live.tail().finish(last, done);
        for chunk in chunks.into_iter().chain([chunk]) {
            live.add(chunk);
        }
        Ok(())
    }

    /// Publishes a live message about a run. Costs nothing if no reader wants it.
    pub(crate) fn delta(&self, run: RunId, make: impl FnOnce() -> Delta) {
        if let Some(live) = self.followed(run)
            && let Some(deltas) = live.deltas.get()
            && deltas.receiver_count() > 0
        {
            // An error means that the last reader has just gone.
            let _nobody = deltas.send(Arc::new(Batch::new(vec![Message::Delta(make())])));
        }
    }

    /// Whether a reader on this node wants live messages about the run.
    pub(crate) fn wants_deltas(&self, run: RunId) -> bool {
        let live = self.followed(run);
        live.is_some_and(|live| {
            live.deltas
                .get()
                .is_some_and(|deltas| deltas.receiver_count() > 0)
        })
    }

    /// Notifies readers that the store has events of a run up to `last`, written by another node.
    pub(crate) fn hint(&self, run: RunId, last: i64) {
        if let Some(live) = self.followed(run)
            && live.tail().learn(last)
        {
            live.changed.send_replace(());
        }
    }

    fn send_hint(&self, run: RunId, events: &[EventRow]) {
        if let Some(last) = events.last() {
            self.hints.events(run, last.seq);
        }
    }

    /// Notifies readers on every node that a run was ended here by something other than its worker.
    pub(crate) fn ended(&self, run: RunId) {
        self.hints.ended(run);
        self.ended_elsewhere(run);
    }

    /// Notifies readers on this node that a run was ended by something other than its worker. The events after the tail are in
    /// the store.
    pub(crate) fn ended_elsewhere(&self, run: RunId) {
        if let Some(live) = self.followed(run) {
            live.tail().end_elsewhere();
            live.changed.send_replace(());
        }
    }

    /// Notifies every reader that the node stops. To be called after the hub's token was cancelled.
    pub(crate) fn stopped(&self) {
        for live in self.runs().values().filter_map(Weak::upgrade) {
            live.changed.send_replace(());
        }
    }

    /// Returns the runs with a reader on this node.
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
            deltas: OnceLock::new(),
        });
        runs.insert(run, Arc::downgrade(&live));
        live
    }

    /// Waits until the run has a terminal status, but at most for `limit` or until the node stops.
    pub(crate) async fn until_final(&self, org: OrgId, run: RunId, limit: Duration) -> Result<(), Refusal> {
        // Registered before the first query, so that no later change is missed.
        let live = self.subscribe(run);
        let mut changed = live.changed.subscribe();
        let over = tokio::time::sleep(limit);
        tokio::pin!(over);
        loop {
            if self.records.progress(org, run).await?.status.is_final() {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Ok(()),
                () = &mut over => return Ok(()),
                // The sender lives as long as `live`.
                _ = changed.changed() => {}
            }
        }
    }

    /// Streams the run's events after `after`, then new ones, then `done`. A position beyond the last event counts as
    /// the last.
    pub(crate) async fn follow(
        &self,
        org: OrgId,
        run: RunId,
        after: i64,
        deltas: Deltas,
    ) -> Result<BoxStream<'static, Result<Arc<Batch>, Refusal>>, Refusal> {
        // Registered before the first query, so that no event committed after the query is missed.
        let live = self.subscribe(run);
        let reader = Reader::begin(self.clone(), live, (org, run), after, deltas).await?;
        Ok(stream::unfold(reader, Reader::next).boxed())
    }
}

#[cfg(test)]
mod tests {
    use sortie_api::{Micros, RunId, Timestamp, live::MessageDelta};
    use sortie_store::runs::{Created, FinalCost, NewEvent, NewRun};

    use super::*;

    /// A hub over a fresh store with one queued run.
    async fn with_run(dir: &tempfile::TempDir) -> (Hub, OrgId, RunId) {
        let store = crate::testing::store_in(dir).await;
        let now = Timestamp::from_micros(1_700_000_000_000_000);
        let org = OrgId::new(now, [1; 10]);
        crate::testing::organization(&store, org, now).await;
        let run = NewRun {
            id: RunId::new(now, [2; 10]),
            org,
            idempotency_key: None,
            definition: r#"{"prompt":"x"}"#.into(),
            inline: None,
            callback: None,
            max_cost: Micros::new(1).unwrap(),
            payment: sortie_store::money::Payment::Free,
            timeout_seconds: 60,
            labels: sortie_store::runs::Labels::default(),
            created_at: now,
            trace: None,
            allowance: None,
        };
        let Created::New(run) = store.create_run(run).await.unwrap() else {
            panic!("the run is new")
        };
        (
            Hub::new(
                crate::testing::records(&store),
                HintSender::default(),
                CancellationToken::new(),
            ),
            org,
            run.id,
        )
    }

    fn text(step: u32, text: &str) -> Delta {
        Delta::Text(MessageDelta {
            text: text.to_owned(),
            step,
        })
    }

    /// The first message of a batch: the kind of an event, or the text and the step of a piece of text.
    fn seen(batch: Option<Result<Arc<Batch>, Refusal>>) -> String {
        match batch.unwrap().unwrap().messages().first() {
            Some(Message::Event(event)) => event.kind.clone(),
            Some(Message::Delta(Delta::Text(delta))) => format!("{:?} in step {}", delta.text, delta.step),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn pieces_of_text_come_live_to_who_wants_them() {
        let dir = tempfile::tempdir().unwrap();
        let (hub, org, run) = with_run(&dir).await;
        hub.delta(run, || text(1, "nobody reads this"));
        let mut plain = hub.follow(org, run, 0, Deltas::Off).await.unwrap();
        hub.delta(run, || text(1, "nobody wants this"));
        let live = hub.followed(run).unwrap();
        assert!(
            live.deltas.get().is_none(),
            "no room is made for what nobody wants"
        );
        let mut wanting = hub.follow(org, run, 0, Deltas::Live).await.unwrap();
        for stream in [&mut wanting, &mut plain] {
            assert_eq!(seen(stream.next().await), "status");
        }
        hub.delta(run, || text(2, "line\nfeed"));
        assert_eq!(seen(wanting.next().await), r#""line\nfeed" in step 2"#);
        assert!(futures_util::poll!(plain.next()).is_pending());
    }

    #[tokio::test]
    async fn the_stop_of_the_node_ends_who_waits_and_who_would_wait() {
        let dir = tempfile::tempdir().unwrap();
        let (hub, org, run) = with_run(&dir).await;
        let follow = |deltas| hub.follow(org, run, 0, deltas);
        let mut waiting = [
            follow(Deltas::Off).await.unwrap(),
            follow(Deltas::Live).await.unwrap(),
        ];
        for stream in &mut waiting {
            assert_eq!(seen(stream.next().await), "status");
            assert!(futures_util::poll!(stream.next()).is_pending());
        }
        let mut late = follow(Deltas::Off).await.unwrap();
        hub.stop.cancel();
        hub.stopped();
        for mut stream in waiting {
            assert!(stream.next().await.is_none());
        }
        assert_eq!(seen(late.next().await), "status");
        assert!(late.next().await.is_none());
    }

    /// A run that a worker holds, with this number of events, and a hub that the worker does not notify.
    async fn at_work(events: usize) -> (crate::testing::Held, Hub) {
        let held = crate::testing::held().await;
        let fence = held.claim.fence;
        let have = usize::try_from(fence.last_event).unwrap();
        let messages = vec![event("message"); events - have];
        let new = sortie_store::runs::Append {
            events: messages,
            ..sortie_store::runs::Append::default()
        };
        held.store.append(fence, new).await.unwrap();
        let hub = Hub::new(held.records(), HintSender::default(), CancellationToken::new());
        (held, hub)
    }

    fn event(kind: &'static str) -> NewEvent {
        NewEvent {
            kind,
            data: "{}".to_owned(),
            at: Timestamp::from_micros(1),
        }
    }

    async fn cancel(held: &crate::testing::Held) {
        let (org, run) = (held.claim.org, held.claim.fence.run);
        held.store
            .cancel_run(org, run, Timestamp::from_micros(2))
            .await
            .unwrap();
    }

    async fn settle(held: &crate::testing::Held, events: usize) {
        let late = vec![event("model_call"); events];
        let settled = held
            .store
            .settle_run(held.claim.fence.run, 1, FinalCost::default(), late);
        settled.await.unwrap();
    }

    /// Reads a stream to its end. Returns the number of events, the kind of the last one, and whether the run of `done` is
    /// settled.
    async fn to_done(stream: BoxStream<'static, Result<Arc<Batch>, Refusal>>) -> (usize, String, bool) {
        let batches: Vec<_> = stream.map(Result::unwrap).collect().await;
        let (mut count, mut last, mut is_settled) = (0, String::new(), None);
        for message in batches.iter().flat_map(|batch| batch.messages()) {
            assert!(is_settled.is_none(), "{message:?} comes behind done");
            match message {
                Message::Event(event) => {
                    count += 1;
                    assert_eq!(event.seq, i64::try_from(count).unwrap());
                    last.clone_from(&event.kind);
                }
                Message::Done(run) => is_settled = Some(run.get().contains(r#""billing_pending":false"#)),
                Message::Delta(_) | Message::Large(_) | Message::Passed(_) | Message::Change(_) => {
                    panic!("{message:?}")
                }
            }
        }
        (count, last, is_settled.unwrap())
    }

    #[tokio::test]
    async fn events_behind_a_cancel_come_before_done_wherever_a_page_ends() {
        for (before, behind) in [(2, 1), (62, 3), (63, 1), (63, 80), (64, 1), (127, 2)] {
            let (held, hub) = at_work(before).await;
            cancel(&held).await;
            settle(&held, behind).await;
            let (org, run) = (held.claim.org, held.claim.fence.run);
            for _ in 0..2 {
                let stream = hub.follow(org, run, 0, Deltas::Off).await.unwrap();
                let read = to_done(stream).await;
                assert_eq!(read, (before + 1 + behind, "model_call".to_owned(), true));
            }
        }
    }

    #[tokio::test]
    async fn a_stream_ends_with_the_cancel_and_a_later_one_has_what_comes_behind_it() {
        for before in [2, 63, 64] {
            let (held, hub) = at_work(before).await;
            let (org, run) = (held.claim.org, held.claim.fence.run);
            let follow = async || hub.follow(org, run, 0, Deltas::Off).await.unwrap();
            let open = follow().await;
            cancel(&held).await;
            hub.ended(run);
            let mut other = follow().await;
            assert_eq!(to_done(open).await, (before + 1, "status".to_owned(), false));
            settle(&held, 1).await;
            // While `other` is open, the tail still has the events that the first stream has read.
            let later = follow().await;
            let all = (before + 2, "model_call".to_owned(), true);
            assert_eq!(to_done(later).await, all);
            assert!(other.next().await.is_some());
        }
    }

    #[tokio::test]
    async fn a_run_that_is_settled_before_done_is_read_has_its_last_events_before_done() {
        for (before, behind) in [(2, 1), (2, 70), (63, 1), (64, 2)] {
            let (held, hub) = at_work(before).await;
            let (org, run) = (held.claim.org, held.claim.fence.run);
            let mut open = hub.follow(org, run, 0, Deltas::Off).await.unwrap();
            cancel(&held).await;
            hub.ended(run);
            let mut read = Vec::new();
            let mut count = 0;
            while count <= before {
                let batch = open.next().await.unwrap();
                count += batch.as_ref().unwrap().messages().len();
                read.push(batch);
            }
            settle(&held, behind).await;
            let whole = stream::iter(read).chain(open).boxed();
            let all = (before + 1 + behind, "model_call".to_owned(), true);
            assert_eq!(to_done(whole).await, all);
        }
    }

    #[tokio::test]
    async fn a_provisional_cost_is_not_kept_for_the_readers_after_the_settlement() {
        let (held, hub) = at_work(2).await;
        let (org, run) = (held.claim.org, held.claim.fence.run);
        let follow = async || hub.follow(org, run, 0, Deltas::Off).await.unwrap();
        cancel(&held).await;
        // The entry of the run in the hub stays as long as this stream.
        let mut other = follow().await;
        let end = |is_settled| (3, "status".to_owned(), is_settled);
        assert_eq!(to_done(follow().await).await, end(false));
        settle(&held, 0).await;
        assert_eq!(to_done(follow().await).await, end(true));
        assert!(other.next().await.is_some());
        assert_eq!(to_done(follow().await).await, end(true));
    }

    #[tokio::test]
    async fn a_reader_that_is_too_slow_misses_pieces_and_holds_up_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let (hub, org, run) = with_run(&dir).await;
        let mut slow = hub.follow(org, run, 1, Deltas::Live).await.unwrap();
        for at in 0..DELTAS + 10 {
            hub.delta(run, || text(1, &at.to_string()));
        }
        // The first receive only reports that this reader was too slow.
        let _missed = futures_util::poll!(slow.next());
        assert!(seen(slow.next().await).ends_with("in step 1"));
    }
}
