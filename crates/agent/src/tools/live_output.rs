//! Output of a command while it runs, for those who follow the run. Nothing waits for them: output that comes too fast is left
//! out, and it is not recorded.
//!
//! After a gap, the text up to the next line break is left out as well: it may begin within a credential.

use std::time::Duration;

use sortie_sandbox::OutputPiece;
use tokio::time::Instant;

use crate::{Redactor, Sink, redact::Pieces};

/// Most output of a command that is passed on in a second, in bytes.
const BYTES_PER_SECOND: usize = 128 * 1024;

/// Longest text that is passed on at once, in bytes.
const TEXT_BYTES: usize = 4 * 1024;

/// Passes the output of one command on.
pub(super) struct LiveOutput<'a> {
    sink: &'a dyn Sink,
    redactor: Option<&'a Redactor>,
    streams: [LiveStream; 2],
    /// Begin of the second that is counted.
    second: Instant,
    /// Bytes that were passed on in this second.
    passed: usize,
}

#[derive(Default)]
struct LiveStream {
    /// Position of the next byte of the stream.
    next: u64,
    /// First bytes of a character of which the rest is still to come.
    begun: Vec<u8>,
    pieces: Pieces,
    has_gap: bool,
}

impl<'a> LiveOutput<'a> {
    pub(super) fn new(sink: &'a dyn Sink, redactor: Option<&'a Redactor>) -> Self {
        Self {
            sink,
            redactor: redactor.filter(|redactor| !redactor.is_empty()),
            streams: Default::default(),
            second: Instant::now(),
            passed: 0,
        }
    }

    /// Passes a piece on, or leaves it out.
    pub(super) fn take(&mut self, piece: &OutputPiece) {
        let [stdout, stderr] = &mut self.streams;
        let stream = if piece.is_stderr { stderr } else { stdout };
        let length = piece.bytes.len();
        stream.has_gap |= piece.position != stream.next;
        stream.next = piece.position.saturating_add(length as u64);
        if self.second.elapsed() >= Duration::from_secs(1) {
            self.second = Instant::now();
            self.passed = 0;
        }
        if !self.sink.wants_output() || self.passed + length > BYTES_PER_SECOND {
            stream.has_gap = true;
            return;
        }
        self.passed += length;
        let text = stream.text(&piece.bytes, self.redactor);
        show(self.sink, &text);
    }

    /// Passes on the text that was held back, at the end of the command.
    pub(super) fn finish(mut self) {
        for stream in &mut self.streams {
            if let (false, Some(redactor)) = (stream.has_gap, self.redactor) {
                show(self.sink, &stream.pieces.rest(redactor));
            }
        }
    }
}

impl LiveStream {
    /// Returns the part of a piece that can be shown now.
    fn text(&mut self, bytes: &[u8], redactor: Option<&Redactor>) -> String {
        let mut bytes = bytes;
        if self.has_gap {
            self.begun.clear();
            self.pieces = Pieces::default();
            // A credential of several lines may continue after any line break.
            let is_safe = redactor.is_none_or(|redactor| !redactor.has_line_breaks());
            let Some(end) = bytes.iter().position(|byte| *byte == b'\n').filter(|_| is_safe) else {
                return String::new();
            };
            bytes = bytes.get(end + 1..).unwrap_or_default();
            self.has_gap = false;
        }
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        self.begun = all.split_off(all.len() - unfinished(&all));
        let text = String::from_utf8_lossy(&all).into_owned();
        match redactor {
            Some(redactor) => self.pieces.push(redactor, &text).into_owned(),
            None => text,
        }
    }
}

/// Length of the character at the end of which the last bytes are missing.
fn unfinished(bytes: &[u8]) -> usize {
    for length in 1..=bytes.len().min(3) {
        let end = bytes.get(bytes.len() - length..).unwrap_or_default();
        match end.first() {
            Some(0xC0..) => {
                let is_cut = std::str::from_utf8(end).is_err_and(|error| error.error_len().is_none());
                return if is_cut { length } else { 0 };
            }
            Some(0x80..0xC0) => {}
            Some(0..0x80) | None => return 0,
        }
    }
    0
}

fn show(sink: &dyn Sink, text: &str) {
    let mut rest = text;
    while !rest.is_empty() {
        let (part, after) = rest.split_at(rest.floor_char_boundary(TEXT_BYTES));
        sink.command_output(part);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures_util::future::BoxFuture;
    use parking_lot::Mutex;
    use sortie_api::{EventType, Micros};

    use super::*;
    use crate::{Stopped, journal::Entry};

    /// Keeps the texts.
    #[derive(Default)]
    struct Follower {
        texts: Mutex<Vec<String>>,
        is_away: AtomicBool,
    }

    impl Sink for Follower {
        fn record(&self, _event: EventType) -> BoxFuture<'_, Result<(), Stopped>> {
            Box::pin(async { Ok(()) })
        }

        fn journal(&self, _entry: Entry) -> BoxFuture<'_, Result<(), Stopped>> {
            Box::pin(async { Ok(()) })
        }

        fn durable(&self) -> BoxFuture<'_, Result<(), Stopped>> {
            Box::pin(async { Ok(()) })
        }

        fn spent(&self, _cost: Micros, _at: Instant) {}

        fn wants_output(&self) -> bool {
            !self.is_away.load(Ordering::Relaxed)
        }

        fn command_output(&self, text: &str) {
            self.texts.lock().push(text.to_owned());
        }
    }

    impl Follower {
        fn all(&self) -> String {
            self.texts.lock().concat()
        }
    }

    fn at(position: usize, bytes: &[u8]) -> OutputPiece {
        OutputPiece {
            is_stderr: false,
            position: position as u64,
            bytes: bytes.to_vec(),
        }
    }

    #[tokio::test]
    async fn a_credential_is_redacted_wherever_the_pieces_are_cut() {
        let redactor = Redactor::new(["hunter2-secret"]);
        let text = "grüße, the key is hunter2-secret, and more\n".as_bytes();
        for first in 1..text.len() {
            let follower = Follower::default();
            let mut live = LiveOutput::new(&follower, Some(&redactor));
            let (before, after) = text.split_at(first);
            live.take(&at(0, before));
            live.take(&at(first, after));
            live.finish();
            assert_eq!(
                follower.all(),
                "grüße, the key is [redacted], and more\n",
                "{first}"
            );
        }
    }

    #[tokio::test]
    async fn no_part_of_a_credential_is_shown_around_a_gap() {
        let (secret, lines) = ("hunter2-secret", "-----BEGIN\nabcdefgh\n-----END");
        for (redactor, expected) in [
            (Redactor::new([secret]), "a \nb [redacted]\n"),
            (Redactor::new([secret, lines]), "a "),
        ] {
            let follower = Follower::default();
            let mut live = LiveOutput::new(&follower, Some(&redactor));
            live.take(&at(0, b"a hunter2"));
            // "-sec" was lost.
            live.take(&at(13, b"ret\n"));
            live.take(&at(17, b"\nb hunter2-secret\n"));
            live.finish();
            assert_eq!(follower.all(), expected);
        }
    }

    #[tokio::test]
    async fn output_before_the_first_follower_is_left_out_up_to_a_line() {
        let follower = Follower::default();
        follower.is_away.store(true, Ordering::Relaxed);
        let mut live = LiveOutput::new(&follower, None);
        live.take(&at(0, b"one\nt"));
        follower.is_away.store(false, Ordering::Relaxed);
        live.take(&at(5, b"wo\nthree\n"));
        live.finish();
        assert_eq!(follower.all(), "three\n");
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_so_many_bytes_are_passed_on_in_a_second() {
        let follower = Follower::default();
        let mut live = LiveOutput::new(&follower, None);
        let piece = "x".repeat(1_023) + "\n";
        for number in 0..1_000 {
            live.take(&at(number * 1_024, piece.as_bytes()));
        }
        assert_eq!(follower.all().len(), BYTES_PER_SECOND);
        assert!(follower.texts.lock().iter().all(|text| text.len() <= TEXT_BYTES));
        tokio::time::advance(Duration::from_secs(1)).await;
        live.take(&at(1_000 * 1_024, b"rest of a line\nlater\n"));
        assert!(follower.all().ends_with("x\nlater\n"));
    }
}
