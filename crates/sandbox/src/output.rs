//! Kept part of a stream of any length: its beginning and its end.

use std::collections::VecDeque;

use crate::types::StreamOutput;

/// Captures a stream piece by piece, in memory bounded by the size of the kept parts.
#[derive(Debug)]
pub struct Capture {
    head: Vec<u8>,
    head_limit: usize,
    tail: VecDeque<u8>,
    tail_limit: usize,
    total: u64,
    lines: u64,
}

impl Capture {
    /// Keeps the first and the last half of `keep_bytes`.
    pub fn new(keep_bytes: usize) -> Self {
        let tail_limit = keep_bytes / 2;
        Self {
            head: Vec::new(),
            head_limit: keep_bytes - tail_limit,
            tail: VecDeque::new(),
            tail_limit,
            total: 0,
            lines: 0,
        }
    }

    /// Takes the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.total = self
            .total
            .saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        self.lines = piece
            .iter()
            .fold(self.lines, |lines, byte| lines + u64::from(*byte == b'\n'));
        let room = self.head_limit - self.head.len();
        let (first, rest) = piece.split_at(room.min(piece.len()));
        self.head.extend_from_slice(first);
        let rest = rest
            .get(rest.len().saturating_sub(self.tail_limit)..)
            .unwrap_or_default();
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// Length of the stream so far, in bytes.
    pub const fn total_bytes(&self) -> u64 {
        self.total
    }

    /// The kept parts.
    pub fn finish(self) -> StreamOutput {
        StreamOutput {
            head: self.head,
            tail: self.tail.into(),
            total_bytes: self.total,
            total_lines: self.lines,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_beginning_and_the_end_are_kept_however_the_pieces_fall(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12),
            keep in 0_usize..100,
        ) {
            let mut capture = Capture::new(keep);
            for piece in &pieces {
                capture.push(piece);
            }
            let all = pieces.concat();
            let output = capture.finish();
            let head = all.len().min(keep - keep / 2);
            let tail = (all.len() - head).min(keep / 2);
            prop_assert_eq!(&output.head[..], &all[..head]);
            prop_assert_eq!(&output.tail[..], &all[all.len() - tail..]);
            prop_assert_eq!(output.total_bytes, u64::try_from(all.len()).unwrap());
            prop_assert_eq!(output.total_lines, all.iter().map(|byte| u64::from(*byte == b'\n')).sum::<u64>());
        }
    }
}
