//! The newest events of a followed run, serialized, and what is known of how far the run has come.

use std::collections::VecDeque;

use bytes::Bytes;
use sortie_store::EventRow;

use super::frames;

/// Serialized events kept per followed run, in bytes.
const TAIL_BYTES: usize = 256 * 1024;

/// The last events and `done` are joined up to this size, in bytes.
const JOINED_BYTES: usize = 64 * 1024;

/// Events that were committed together.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) first: i64,
    pub(super) last: i64,
    frames: Bytes,
    end: End,
}

/// Whether a run goes on after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    GoesOn,
    /// `done` is due.
    Final,
    /// `done` is behind the events.
    Done,
}

/// What the tail has for a reader.
#[derive(Debug)]
pub(super) enum Next {
    Events {
        last: i64,
        frames: Bytes,
        end: End,
    },
    /// The reader has everything that is known here.
    InStep,
    /// There is more, and only the store has it.
    Behind,
}

#[derive(Default)]
pub(super) struct Tail {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    done: Option<(i64, Bytes)>,
    /// The last event that is known to exist, from whatever source.
    known: i64,
    /// Somebody else than the worker has ended the run: there is an event that nobody will publish.
    ended_elsewhere: bool,
}

impl Chunk {
    /// The chunk of these events; `None` of none.
    pub(super) fn of(events: &[EventRow]) -> Option<Self> {
        let (first, last) = (events.first()?, events.last()?);
        Some(Self {
            first: first.seq,
            last: last.seq,
            frames: frames::events(events),
            end: if frames::is_final(last) {
                End::Final
            } else {
                End::GoesOn
            },
        })
    }

    /// With the `done` message behind the last event of the run, so that a reader takes both at once; not where they are
    /// large, as each holds the output.
    pub(super) fn with_done(mut self, done: &Bytes) -> Self {
        if self.end == End::Final && self.frames.len() + done.len() <= JOINED_BYTES {
            self.frames = [self.frames.as_ref(), done].concat().into();
            self.end = End::Done;
        }
        self
    }

    pub(super) fn into_next(self) -> Next {
        Next::Events {
            last: self.last,
            frames: self.frames,
            end: self.end,
        }
    }
}

impl Tail {
    /// Adds committed events; false when all of them were here.
    pub(super) fn push(&mut self, chunk: Chunk) -> bool {
        self.known = self.known.max(chunk.last);
        if let Some(newest) = self.chunks.back() {
            if chunk.last <= newest.last {
                return false;
            }
            // After a gap or an overlap what is older is of no use to a reader in step.
            if chunk.first != newest.last + 1 {
                self.chunks.clear();
                self.bytes = 0;
            }
        }
        self.bytes += chunk.frames.len();
        self.chunks.push_back(chunk);
        while self.bytes > TAIL_BYTES {
            let Some(oldest) = self.chunks.pop_front() else {
                break;
            };
            self.bytes -= oldest.frames.len();
        }
        true
    }

    /// Keeps the `done` message of a run whose last event is `last`.
    pub(super) fn finish(&mut self, last: i64, done: Bytes) {
        self.done = Some((last, done));
    }

    /// The `done` message for a reader that has the event `position`, the last one.
    pub(super) fn done_after(&self, position: i64) -> Option<Bytes> {
        self.done
            .as_ref()
            .filter(|(last, _)| *last == position)
            .map(|(_, done)| done.clone())
    }

    /// Learns that there are events up to `last`; false when that was known.
    pub(super) fn learn(&mut self, last: i64) -> bool {
        let news = last > self.known;
        self.known = self.known.max(last);
        news
    }

    pub(super) fn end_elsewhere(&mut self) {
        self.ended_elsewhere = true;
    }

    /// True for a reader that has nothing to catch up on before the newest events.
    pub(super) fn is_head(&self, position: i64) -> bool {
        self.chunks.back().is_none_or(|newest| newest.last <= position)
    }

    /// What a reader that has everything up to `position` gets next.
    pub(super) fn after(&self, position: i64) -> Next {
        let start = self.chunks.partition_point(|chunk| chunk.first <= position);
        let mut ready = self.chunks.range(start..);
        match ready.next() {
            Some(chunk) if chunk.first == position + 1 => match ready.next_back() {
                None => chunk.clone().into_next(),
                Some(newest) => {
                    let mut joined = Vec::with_capacity(self.bytes);
                    for chunk in self.chunks.range(start..) {
                        joined.extend_from_slice(&chunk.frames);
                    }
                    Next::Events {
                        last: newest.last,
                        frames: joined.into(),
                        end: newest.end,
                    }
                }
            },
            Some(_) => Next::Behind,
            None if self.known > position || self.ended_elsewhere => Next::Behind,
            None => Next::InStep,
        }
    }
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
            end: End::GoesOn,
        }
    }

    fn seen(tail: &Tail, position: i64) -> Option<(i64, String)> {
        match tail.after(position) {
            Next::Events { last, frames, .. } => Some((last, String::from_utf8_lossy(&frames).into_owned())),
            Next::InStep | Next::Behind => None,
        }
    }

    #[test]
    fn a_reader_in_step_takes_everything_newer_at_once() {
        let mut tail = Tail::default();
        tail.push(chunk(1, 2));
        tail.push(chunk(3, 3));
        assert_eq!(seen(&tail, 0), Some((3, "1;2;3;".to_owned())));
        assert_eq!(seen(&tail, 2), Some((3, "3;".to_owned())));
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
        assert_eq!(seen(&tail, 0), Some((4, "1;2;3;4;".to_owned())));
    }

    #[test]
    fn a_gap_forgets_what_came_before_it() {
        let mut tail = Tail::default();
        tail.push(chunk(1, 2));
        tail.push(chunk(4, 4));
        assert!(matches!(tail.after(0), Next::Behind));
        assert_eq!(seen(&tail, 3), Some((4, "4;".to_owned())));
    }

    #[test]
    fn a_late_publish_does_not_hide_that_the_run_was_ended_elsewhere() {
        let mut tail = Tail::default();
        tail.end_elsewhere();
        tail.push(chunk(5, 6));
        assert_eq!(seen(&tail, 4), Some((6, "5;6;".to_owned())));
        assert!(matches!(tail.after(6), Next::Behind));
    }

    proptest! {
        #[test]
        fn the_tail_stays_within_its_bytes(sizes in prop::collection::vec(1_usize..90_000, 1..40)) {
            let mut tail = Tail::default();
            for (at, size) in (1_i64..).zip(&sizes) {
                let frames = vec![b'x'; *size].into();
                tail.push(Chunk { first: at, last: at, frames, end: End::GoesOn });
                prop_assert!(tail.bytes <= TAIL_BYTES);
                prop_assert_eq!(tail.bytes, tail.chunks.iter().map(|c| c.frames.len()).sum::<usize>());
            }
        }

        /// However publishes, hints and readers' own additions are ordered: a reader is in step only with all that
        /// is known, and what it is given follows its position without gap or repetition.
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
                Next::Events { last, frames, .. } => {
                    let expected: Vec<String> = (position + 1..=last).map(|seq| format!("{seq};")).collect();
                    prop_assert_eq!(String::from_utf8_lossy(&frames), expected.concat());
                    prop_assert!(last > position && last <= newest);
                }
                Next::InStep => prop_assert!(position >= newest),
                Next::Behind => prop_assert!(position < newest),
            }
        }
    }
}
