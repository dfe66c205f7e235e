//! The newest events of a followed run, and the number of the last event that is known to exist.

use std::{collections::VecDeque, sync::Arc};

use sortie_api::RunId;
use sortie_store::runs::ListedEvent;

use super::batch::{Batch, Message, is_final};

/// Memory for the newest events of a followed run, in bytes.
const TAIL_BYTES: usize = 256 * 1024;

/// Maximum size, in bytes, up to which the last events and `done` are joined.
const JOINED_BYTES: usize = 64 * 1024;

/// Events that readers take together.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) first: i64,
    pub(super) last: i64,
    batch: Arc<Batch>,
    end: End,
}

/// State of a run after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    GoesOn,
    /// The run has a terminal status; `done` follows its last event.
    Final,
    /// The batch ends with `done`.
    Done,
}

/// Result of a read from the tail.
#[derive(Debug)]
pub(super) enum Next {
    Events {
        last: i64,
        batch: Arc<Batch>,
        end: End,
    },
    /// The reader has everything that is known here.
    InStep,
    /// Only the store has the next events.
    Behind,
}

#[derive(Default)]
pub(super) struct Tail {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    done: Option<(i64, Arc<Batch>)>,
    /// The number of the last event known to exist, from any source.
    known: i64,
    /// Whether the run was ended by something other than its worker. In that case its last event is not published.
    ended_elsewhere: bool,
}

impl Chunk {
    /// Splits the events of a run into chunks of bounded size. A large event gets a chunk for itself. A cancelled run may have
    /// events after the terminal status.
    pub(super) fn split(run: RunId, events: impl IntoIterator<Item = ListedEvent>) -> Vec<Self> {
        let mut chunks: Vec<Self> = Vec::new();
        let mut end = End::GoesOn;
        for event in events {
            let seq = event.seq;
            if is_final(&event) {
                end = End::Final;
            }
            let message = Message::of(run, event);
            if !matches!(message, Message::Large(_))
                && let Some(chunk) = chunks.last_mut()
                && let Some(batch) = Arc::get_mut(&mut chunk.batch)
                && batch.has_room(message.content_bytes())
            {
                batch.push(message);
                (chunk.last, chunk.end) = (seq, end);
            } else {
                chunks.push(Self {
                    first: seq,
                    last: seq,
                    batch: Arc::new(Batch::new(vec![message])),
                    end,
                });
            }
        }
        chunks
    }

    /// Appends the `done` message to the last event of the run, so that a reader takes both at once. Large ones stay
    /// separate, because each holds the output.
    pub(super) fn with_done(mut self, done: &Batch) -> Self {
        let joined = self.batch.encoded_bytes() + done.encoded_bytes();
        if self.end == End::Final
            && self.batch.large().is_none()
            && done.large().is_none()
            && joined <= JOINED_BYTES
            && let Some(batch) = Arc::get_mut(&mut self.batch)
        {
            batch.extend(done);
            self.end = End::Done;
        }
        self
    }

    /// Marks the last event of a run that has a terminal status.
    pub(super) fn with_end(mut self) -> Self {
        self.end = End::Final;
        self
    }

    pub(super) fn into_next(self) -> Next {
        Next::Events {
            last: self.last,
            batch: self.batch,
            end: self.end,
        }
    }
}

impl Tail {
    /// Adds committed events. Returns false if the tail had them already.
    pub(super) fn push(&mut self, chunk: Chunk) -> bool {
        self.known = self.known.max(chunk.last);
        if let Some(newest) = self.chunks.back() {
            if chunk.last <= newest.last {
                return false;
            }
            // After a gap or an overlap, a reader that is up to date cannot use the older events.
            if chunk.first != newest.last + 1 {
                self.chunks.clear();
                self.bytes = 0;
            }
        }
        self.bytes += chunk.batch.memory_bytes();
        self.chunks.push_back(chunk);
        while self.bytes > TAIL_BYTES {
            let Some(oldest) = self.chunks.pop_front() else {
                break;
            };
            self.bytes -= oldest.batch.memory_bytes();
        }
        true
    }

    /// Stores the `done` message of a run that ends with the event `last`.
    pub(super) fn finish(&mut self, last: i64, done: Arc<Batch>) {
        self.done = Some((last, done));
    }

    /// Returns the `done` message for a reader that has the last event, with the number `position`.
    pub(super) fn done_after(&self, position: i64) -> Option<Arc<Batch>> {
        self.done
            .as_ref()
            .filter(|(last, _)| *last == position)
            .map(|(_, done)| Arc::clone(done))
    }

    /// Records that there are events up to `last`. Returns false if that was known.
    pub(super) fn learn(&mut self, last: i64) -> bool {
        let is_new = last > self.known;
        self.known = self.known.max(last);
        is_new
    }

    /// Whether this node knows no event after `position`.
    pub(super) fn is_last(&self, position: i64) -> bool {
        self.known <= position
    }

    pub(super) fn end_elsewhere(&mut self) {
        self.ended_elsewhere = true;
    }

    /// Whether a reader at `position` has nothing to catch up on before the newest events.
    pub(super) fn is_head(&self, position: i64) -> bool {
        self.chunks.back().is_none_or(|newest| newest.last <= position)
    }

    /// Returns the next batch for a reader that has the events up to `position`.
    pub(super) fn after(&self, position: i64) -> Next {
        let start = self.chunks.partition_point(|chunk| chunk.first <= position);
        match self.chunks.get(start) {
            Some(chunk) if chunk.first == position + 1 => chunk.clone().into_next(),
            Some(_) => Next::Behind,
            None if self.known > position || self.ended_elsewhere => Next::Behind,
            None => Next::InStep,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sortie_api::Timestamp;
    use sortie_testkit::list;

    use super::*;
    use crate::runs::hub::{LargeMessage, batch::BATCH_BYTES};

    fn chunk(first: i64, last: i64) -> Chunk {
        let chunks = Chunk::split(run(), (first..=last).map(|seq| event(seq, Some("{}".to_owned()))));
        let [chunk] = chunks.as_slice() else {
            panic!("{chunks:?}");
        };
        chunk.clone()
    }

    fn run() -> RunId {
        RunId::new(Timestamp::from_micros(1), [1; 10])
    }

    fn event(seq: i64, data: Option<String>) -> ListedEvent {
        ListedEvent {
            seq,
            kind: "message".to_owned(),
            data,
            created_at: Timestamp::from_micros(seq),
        }
    }

    /// The positions of the next batch.
    fn seen(tail: &Tail, position: i64) -> Option<Vec<i64>> {
        let Next::Events { last, batch, .. } = tail.after(position) else {
            return None;
        };
        let seen: Vec<i64> = batch.messages().iter().map(position_of).collect();
        assert_eq!(seen.last(), Some(&last));
        Some(seen)
    }

    fn position_of(message: &Message) -> i64 {
        match message {
            Message::Event(event) => event.seq,
            Message::Large(LargeMessage::Event(event)) => event.seq,
            Message::Large(LargeMessage::Done(_))
            | Message::Delta(_)
            | Message::Change(_)
            | Message::Done(_)
            | Message::Passed(_) => {
                panic!("{message:?}")
            }
        }
    }

    #[test]
    fn a_reader_in_step_takes_batch_after_batch() {
        let mut tail = Tail::default();
        tail.push(chunk(1, 2));
        tail.push(chunk(3, 3));
        assert_eq!(seen(&tail, 0), Some(vec![1, 2]));
        assert_eq!(seen(&tail, 2), Some(vec![3]));
        assert!(matches!(tail.after(3), Next::InStep));
    }

    #[test]
    fn a_reader_inside_a_chunk_or_behind_the_tail_reads_the_store() {
        let mut tail = Tail::default();
        tail.push(chunk(5, 8));
        assert!(matches!(tail.after(6), Next::Behind));
        assert!(matches!(tail.after(2), Next::Behind));
    }

    #[test]
    fn what_was_here_already_is_not_added_again() {
        let mut tail = Tail::default();
        assert!(tail.push(chunk(1, 4)));
        assert!(!tail.push(chunk(1, 2)));
        assert!(!tail.push(chunk(3, 4)));
        assert_eq!(seen(&tail, 0), Some(vec![1, 2, 3, 4]));
    }

    #[test]
    fn a_gap_forgets_what_came_before_it() {
        let mut tail = Tail::default();
        tail.push(chunk(1, 2));
        tail.push(chunk(4, 4));
        assert!(matches!(tail.after(0), Next::Behind));
        assert_eq!(seen(&tail, 3), Some(vec![4]));
    }

    #[test]
    fn a_late_publish_does_not_hide_that_the_run_was_ended_elsewhere() {
        let mut tail = Tail::default();
        tail.end_elsewhere();
        tail.push(chunk(5, 6));
        assert_eq!(seen(&tail, 4), Some(vec![5, 6]));
        assert!(matches!(tail.after(6), Next::Behind));
    }

    #[test]
    fn a_chunk_is_bounded_and_a_large_event_is_alone_in_its() {
        let sizes = list! {
            Some(10), Some(20_000), None, Some(10), Some(60_000), Some(9_000), None, None, Some(1),
        };
        let events = (1..)
            .zip(sizes)
            .map(|(seq, size)| event(seq, size.map(|size: usize| "x".repeat(size))));
        let chunks = Chunk::split(run(), events);
        let ranges: Vec<(i64, i64)> = chunks.iter().map(|chunk| (chunk.first, chunk.last)).collect();
        assert_eq!(ranges, [(1, 2), (3, 3), (4, 5), (6, 6), (7, 7), (8, 8), (9, 9)]);
        for chunk in &chunks {
            assert!(chunk.batch.encoded_bytes() <= BATCH_BYTES);
            assert_eq!(chunk.batch.large().is_some(), [3, 7, 8].contains(&chunk.first));
        }
    }

    proptest! {
        #[test]
        fn the_tail_stays_within_its_bytes(sizes in prop::collection::vec(1_usize..90_000, 1..40)) {
            let mut tail = Tail::default();
            for (at, size) in (1_i64..).zip(&sizes) {
                for chunk in Chunk::split(run(), [event(at, Some("x".repeat(*size)))]) {
                    tail.push(chunk);
                }
                prop_assert!(tail.bytes <= TAIL_BYTES);
                prop_assert_eq!(tail.bytes, tail.chunks.iter().map(|chunk| chunk.batch.memory_bytes()).sum::<usize>());
            }
        }

        /// Publishes, hints and additions by readers can come in any order. A reader is in step only after all known events, and
        /// each batch continues at its position without gap or repetition.
        #[test]
        fn no_order_of_news_makes_a_reader_miss_an_event(
            news in prop::collection::vec((1_i64..20, 0_i64..5, 0_u8..3), 0..30), position in 0_i64..20,
        ) {
            let mut tail = Tail::default();
            let mut newest = 0;
            for (first, more, kind) in news {
                newest = newest.max(first + more);
                match kind {
                    0 => { tail.learn(first + more); }
                    _ => { tail.push(chunk(first, first + more)); }
                }
            }
            match tail.after(position) {
                Next::Events { last, batch, .. } => {
                    let given: Vec<i64> = batch.messages().iter().map(position_of).collect();
                    prop_assert_eq!(given, (position + 1..=last).collect::<Vec<i64>>());
                    prop_assert!(last > position && last <= newest);
                }
                Next::InStep => prop_assert!(position >= newest),
                Next::Behind => prop_assert!(position < newest),
            }
        }
    }
}
