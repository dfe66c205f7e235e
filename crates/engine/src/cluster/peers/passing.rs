//! Event stream of another node, passed on in pieces as it arrives. A message may be large, so no message is held in memory. Only
//! the first bytes of a line are, until it is clear whether the line is passed on.

use bytes::Bytes;

use crate::runs::hub::{Passed, PassedEnd};

/// Filter of a stream. Drops the opening and the heartbeats, because the node that passes the stream on sends its own.
#[derive(Debug)]
pub(super) struct Passing {
    /// Line that only the last message of the stream has. No other line that matters needs more bytes to be recognized.
    last_line: &'static [u8],
    line: Line,
    end: PassedEnd,
    /// Whether the message that has begun is the last one.
    is_last: bool,
}

/// Line that is being read.
#[derive(Debug)]
enum Line {
    /// First bytes of a line, too few to decide whether to pass it on.
    Begun(Vec<u8>),
    /// The rest of the line is passed on.
    Passed,
    /// The rest of the line is left out.
    LeftOut,
}

impl Default for Line {
    fn default() -> Self {
        Self::Begun(Vec::new())
    }
}

impl Passing {
    /// Creates the filter of a stream that ends with the message that has the line `last_line`.
    pub(super) fn until(last_line: &'static [u8]) -> Self {
        Self {
            last_line,
            line: Line::default(),
            end: PassedEnd::default(),
            is_last: false,
        }
    }

    /// Takes the next bytes of the stream. Returns those of them that are passed on.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Passed {
        let mut passed = Vec::with_capacity(bytes.len() + self.last_line.len());
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.is_done() {
                break;
            }
            self.take_part(part, &mut passed);
        }
        Passed {
            bytes: Bytes::from(passed),
            end: self.end,
        }
    }

    /// Whether the last message was taken.
    pub(super) fn is_done(&self) -> bool {
        self.end == PassedEnd::Done
    }

    /// Whether the rest of a message is missing.
    pub(super) fn is_within(&self) -> bool {
        self.end == PassedEnd::Within
    }

    /// Takes a line, or a part of it.
    fn take_part(&mut self, part: &[u8], passed: &mut Vec<u8>) {
        match &mut self.line {
            Line::Passed => passed.extend_from_slice(part),
            Line::LeftOut => {}
            Line::Begun(begun) => {
                begun.extend_from_slice(part);
                if begun.len() < self.last_line.len() && !begun.ends_with(b"\n") {
                    return;
                }
                let begun = std::mem::take(begun);
                self.line = self.begin(&begun, passed);
            }
        }
        if part.ends_with(b"\n") {
            self.line = Line::default();
        }
    }

    /// Passes the beginning of a line on, or leaves it out. Returns the state for the rest of the line.
    fn begin(&mut self, begun: &[u8], passed: &mut Vec<u8>) -> Line {
        let is_blank = begun == b"\n";
        if begun.starts_with(b":") || begun.starts_with(b"retry:") || is_blank && !self.is_within() {
            return Line::LeftOut;
        }
        passed.extend_from_slice(begun);
        self.is_last |= begun == self.last_line;
        self.end = match (is_blank, self.is_last) {
            (false, _) => PassedEnd::Within,
            (true, false) => PassedEnd::Between,
            (true, true) => PassedEnd::Done,
        };
        Line::Passed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DONE: &[u8] = b"event: done\n";

    /// Stream of another node, in chunks of this size, as it is passed on.
    fn passed(stream: &str, size: usize) -> (String, PassedEnd) {
        passed_until(DONE, stream, size)
    }

    fn passed_until(last_line: &'static [u8], stream: &str, size: usize) -> (String, PassedEnd) {
        let (mut passing, mut all, mut end) = (Passing::until(last_line), Vec::new(), PassedEnd::Between);
        for chunk in stream.as_bytes().chunks(size) {
            let passed = passing.take(chunk);
            all.extend_from_slice(&passed.bytes);
            end = passed.end;
        }
        (String::from_utf8(all).unwrap(), end)
    }

    #[test]
    fn the_opening_and_heartbeats_stay_behind_and_nothing_comes_after_done() {
        let stream = ": connected\nretry: 2000\nid: 1\nevent: status\ndata: {\"a\":1}\n\n: heartbeat\n: heartbeat\n\
                      event: of_tomorrow\ndata: : x\n\nevent: done\ndata: {}\n\nid: 2\nevent: late\ndata: {}\n\n";
        let expected = "id: 1\nevent: status\ndata: {\"a\":1}\n\nevent: of_tomorrow\ndata: : x\n\nevent: done\n\
                        data: {}\n\n";
        for size in [1, 2, 7, 11, 12, 13, 1_000] {
            assert_eq!(
                passed(stream, size),
                (expected.to_owned(), PassedEnd::Done),
                "{size}"
            );
        }
    }

    #[test]
    fn a_stream_ends_with_its_own_last_line() {
        let (chunks, done) = ("id: 1.1\ndata: {\"a\":\"[DONE]\"}\n\n", "data: [DONE]\n\n");
        let stream = format!(": connected\nretry: 2000\n{chunks}: heartbeat\n{done}id: 2.1\ndata: {{}}\n\n");
        for size in [1, 2, 7, 12, 13, 14, 1_000] {
            assert_eq!(
                passed_until(b"data: [DONE]\n", &stream, size),
                (format!("{chunks}{done}"), PassedEnd::Done),
                "{size}"
            );
        }
    }

    #[test]
    fn the_rest_of_a_message_is_known_to_be_missing() {
        let end = |stream| passed(stream, 3).1;
        assert_eq!(end(": connected\n"), PassedEnd::Between);
        assert_eq!(end("id: 1\nevent: done_soon\ndata: {}"), PassedEnd::Within);
        assert_eq!(end("id: 1\nevent: done_soon\ndata: {}\n"), PassedEnd::Within);
        assert_eq!(end("id: 1\nevent: done_soon\ndata: {}\n\n"), PassedEnd::Between);
    }

    proptest! {
        #[test]
        fn no_more_than_the_beginning_of_a_line_is_held(
            lines in prop::collection::vec("(:|retry: |event: |event: don|data: )[a-z]{0,40}|", 0..20), size in 1_usize..50,
        ) {
            let stream: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
            let mut passing = Passing::until(DONE);
            for chunk in stream.as_bytes().chunks(size) {
                prop_assert!(passing.take(chunk).bytes.len() < chunk.len() + DONE.len());
                if let Line::Begun(begun) = &passing.line {
                    prop_assert!(begun.len() < DONE.len());
                }
            }
            prop_assert_eq!(passed(&stream, size), passed(&stream, usize::MAX));
        }
    }
}
