//! Incremental parser for server-sent events.
//!
//! The parser follows the WHATWG event stream rules: lines end with CR, LF or CRLF in any mix, one byte order mark at the start
//! is dropped, an `id` with NUL and a non-numeric `retry` are ignored, and an event that the end of the stream truncates is
//! discarded. The size of an event is limited. The result does not depend on how the stream is split into chunks.

use std::sync::Arc;

/// A complete event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The `event` field. Default: `message`.
    pub event: String,
    /// The `data` lines, joined by newlines.
    pub data: String,
    /// The last `id` so far, possibly from an earlier event, for `Last-Event-ID`. Empty if there was none. Events share it, so a
    /// long `id` before many short events takes memory once.
    pub last_id: Arc<str>,
}

/// An event or a single line exceeds the limit. The rest of the stream cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than {limit} bytes")]
pub struct TooLarge {
    /// The limit, in bytes.
    pub limit: usize,
}

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Parses one stream. A reconnection requires a new parser: an incomplete event of the old stream is lost.
#[derive(Debug)]
pub struct Parser {
    limit: usize,
    line: Vec<u8>,
    after_cr: bool,
    first_line: bool,
    event: String,
    data: Option<String>,
    last_id: Arc<str>,
    retry_millis: Option<u64>,
}

impl Parser {
    /// Creates a parser for events of at most `limit` bytes: name, data and the current line together.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_cr: false,
            first_line: true,
            event: String::new(),
            data: None,
            last_id: Arc::from(""),
            retry_millis: None,
        }
    }

    /// Returns the reconnection time that the stream requested last, in milliseconds.
    pub fn retry_millis(&self) -> Option<u64> {
        self.retry_millis
    }

    /// Parses the next bytes and adds completed events to `messages`, including those before an event that is too large.
    pub fn push(&mut self, bytes: &[u8], messages: &mut impl Extend<Message>) -> Result<(), TooLarge> {
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\r' | b'\n')) {
            let (content, end) = match piece.split_last() {
                Some((end @ (b'\r' | b'\n'), content)) => (content, Some(*end)),
                Some(_) | None => (piece, None),
            };
            // The LF of a CRLF, possibly at the start of another chunk, does not end a second line.
            let of_crlf = self.after_cr && content.is_empty() && end == Some(b'\n');
            self.after_cr = end == Some(b'\r');
            if of_crlf {
                continue;
            }
            self.line.extend_from_slice(content);
            self.check()?;
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                messages.extend(self.end_line(&line));
                // Invalid UTF-8 grows when it is replaced.
                self.check()?;
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TooLarge> {
        let held = self.line.len() + self.event.len() + self.data.as_ref().map_or(0, String::len);
        if held > self.limit {
            return Err(TooLarge { limit: self.limit });
        }
        Ok(())
    }

    fn end_line(&mut self, line: &[u8]) -> Option<Message> {
        let line = match line.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) if self.first_line => rest,
            Some(_) | None => line,
        };
        self.first_line = false;
        if line.is_empty() {
            return self.dispatch();
        }
        let line = String::from_utf8_lossy(line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "id" if !value.contains('\0') => self.last_id = value.into(),
            "retry" if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.retry_millis = value.parse().ok().or(self.retry_millis);
            }
            // A comment has an empty field name. Unknown fields are ignored as well.
            _ => {}
        }
        None
    }

    /// Ends an event. An event without a `data` line only sets the last id.
    fn dispatch(&mut self) -> Option<Message> {
        let event = std::mem::take(&mut self.event);
        let data = self.data.take()?;
        Some(Message {
            event: if event.is_empty() {
                "message".to_owned()
            } else {
                event
            },
            data,
            last_id: Arc::clone(&self.last_id),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(stream: &[u8]) -> Vec<Message> {
        let mut messages = Vec::new();
        Parser::new(1 << 20).push(stream, &mut messages).unwrap();
        messages
    }

    /// Returns the number of events under a limit, and whether one was too large.
    fn parse_within(limit: usize, stream: &[u8]) -> (usize, bool) {
        let mut messages = Vec::new();
        let end = Parser::new(limit).push(stream, &mut messages);
        (messages.len(), end.is_err())
    }

    fn message(event: &str, data: &str, last_id: &str) -> Message {
        Message {
            event: event.to_owned(),
            data: data.to_owned(),
            last_id: last_id.into(),
        }
    }

    #[test]
    fn the_fields_make_a_message() {
        assert_eq!(
            parse(b": connected\n\nid: 1\nevent: status\ndata: {\"a\":1}\n\ndata:x\ndata: y\ndata\n\n"),
            [
                message("status", "{\"a\":1}", "1"),
                message("message", "x\ny\n", "1")
            ]
        );
    }

    #[test]
    fn lines_end_with_cr_lf_or_crlf_in_any_mix() {
        assert_eq!(
            parse(b"data: a\rdata: b\r\ndata: c\n\rdata: d\r\n\r\n"),
            [message("message", "a\nb\nc", ""), message("message", "d", "")]
        );
        assert_eq!(parse(b"data: a\r\rdata: b\r\r").len(), 2);
    }

    #[test]
    fn one_byte_order_mark_at_the_start_is_dropped_and_no_other() {
        assert_eq!(parse(b"\xEF\xBB\xBFdata: a\n\n"), [message("message", "a", "")]);
        assert_eq!(parse(b"\xEF\xBB\xBF\xEF\xBB\xBFdata: a\n\n"), []);
        assert_eq!(parse(b"data: a\n\n\xEF\xBB\xBFdata: b\n\n").len(), 1);
    }

    #[test]
    fn an_id_with_nul_is_ignored_and_an_empty_one_resets() {
        assert_eq!(
            parse(b"id: 7\ndata: a\n\nid: 8\0\ndata: b\n\nid\ndata: c\n\n"),
            [
                message("message", "a", "7"),
                message("message", "b", "7"),
                message("message", "c", "")
            ]
        );
    }

    #[test]
    fn a_retry_that_is_no_number_is_ignored() {
        let mut parser = Parser::new(100);
        parser
            .push(
                b"retry: 2000\nretry: soon\nretry: -1\nretry:\nretry: 99999999999999999999\n",
                &mut Vec::new(),
            )
            .unwrap();
        assert_eq!(parser.retry_millis(), Some(2000));
    }

    #[test]
    fn an_event_without_data_is_not_given_out_but_its_id_counts() {
        assert_eq!(
            parse(b"event: ping\nid: 3\n\nevent: x\n\ndata: a\n\ndata\n\n"),
            [message("message", "a", "3"), message("message", "", "3")]
        );
    }

    #[test]
    fn an_event_cut_off_by_the_end_is_dropped() {
        assert_eq!(parse(b"data: a\n\ndata: b\n"), [message("message", "a", "")]);
        assert_eq!(parse(b"data: a\n\ndata: b"), [message("message", "a", "")]);
    }

    #[test]
    fn only_one_space_after_the_colon_is_dropped() {
        assert_eq!(parse(b"data:  a: b\n\n"), [message("message", " a: b", "")]);
    }

    #[test]
    fn an_event_over_the_limit_is_an_error_in_one_line_and_in_many() {
        assert_eq!(parse_within(20, &[b'x'; 21]), (0, true));
        assert_eq!(
            parse_within(20, b"data: 0123456789\ndata: 0123456789\n"),
            (0, true)
        );
        assert_eq!(
            parse_within(20, b"event: 0123456789\ndata: 0123456789\n"),
            (0, true)
        );
        assert_eq!(
            parse_within(20, b"data: 0123456789\n\ndata: 0123456789\n\n"),
            (2, false)
        );
        // Each of these bytes becomes the three bytes of U+FFFD.
        assert_eq!(
            parse_within(20, b"data: \xff\xff\xff\xff\xff\xff\xff\n\n"),
            (0, true)
        );
    }

    #[test]
    fn events_before_one_that_is_too_large_are_given_out() {
        let stream = b"data: a\n\ndata: b\n\ndata: 01234567890123456789\n\n";
        assert_eq!(parse_within(20, stream), (2, true));
    }

    #[test]
    fn a_long_id_is_held_once_for_all_events_that_follow_it() {
        let messages = parse(&[b"id: 0123456789\n".repeat(2), b"data\n\n".repeat(1000)].concat());
        let ids: Vec<_> = messages.iter().map(|message| message.last_id.as_ptr()).collect();
        assert!(ids.len() == 1000 && ids.iter().all(|id| *id == ids[0]));
    }

    proptest! {
        #[test]
        fn chunks_make_no_difference(
            stream in prop::collection::vec(
                prop::sample::select(&b"data: \r\n\r\n\nid:7\0\xEF\xBB\xBFevent \xC3\xA4"[..]), 0..200),
            cuts in prop::collection::vec(0_usize..200, 0..12),
            limit in 5_usize..100,
        ) {
            let (mut whole, mut one) = (Vec::new(), Parser::new(limit));
            let end = one.push(&stream, &mut whole);
            let mut cuts: Vec<_> = cuts.into_iter().map(|at| at.min(stream.len())).collect();
            cuts.sort_unstable();
            cuts.push(stream.len());
            let (mut parser, mut from, mut pieces) = (Parser::new(limit), 0, Vec::new());
            let mut cut_end = Ok(());
            for to in cuts {
                cut_end = cut_end.and_then(|()| parser.push(&stream[from..to], &mut pieces));
                from = to;
            }
            prop_assert_eq!((pieces, cut_end), (whole, end));
        }

        #[test]
        fn what_is_written_is_read_back(
            events in prop::collection::vec(("[a-z]{1,8}", "[^\0\r\n]{0,20}(\n[^\r\n]{1,20}){0,3}x", "[0-9]{1,5}"), 0..8),
            end in prop::sample::select(vec!["\n", "\r", "\r\n"]),
        ) {
            let mut stream = String::new();
            let mut expected = Vec::new();
            for (event, data, id) in events {
                stream.push_str(&["id: ", &id, end, "event: ", &event, end].concat());
                for line in data.split('\n') {
                    stream.push_str(&["data: ", line, end].concat());
                }
                stream.push_str(end);
                expected.push(message(&event, &data, &id));
            }
            prop_assert_eq!(parse(stream.as_bytes()), expected);
        }

        #[test]
        fn no_bytes_make_it_panic_or_grow_beyond_its_limit(chunks in prop::collection::vec(any::<Vec<u8>>(), 0..20)) {
            let mut parser = Parser::new(64);
            for chunk in chunks {
                if parser.push(&chunk, &mut Vec::new()).is_err() {
                    break;
                }
                prop_assert!(parser.check().is_ok() && parser.last_id.len() <= 3 * 64);
            }
        }
    }
}
