//! Parses the messages of a server from the bytes of a connection or a program: with size limits, and redacted before any other
//! code sees them.

use std::borrow::Cow;

use bytes::BytesMut;
use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};

use super::lenient;
use crate::text;

/// Maximum size of a message, in bytes.
pub(super) const MESSAGE_BYTES: usize = 4 << 20;

/// Maximum number of values in a message. Each takes about two hundred bytes of memory, even if its JSON has only two.
const VALUES: usize = 200_000;

/// Maximum number of bytes of an invalid message in an error.
const BEGINNING_BYTES: usize = 100;

/// Start of the error about an invalid message.
pub(super) const NO_MESSAGE: &str = "the server's answer is not an MCP message";

/// A message exceeds a size limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooLarge {
    /// The number of bytes. The rest of the stream cannot be read.
    #[error("a message is larger than {MESSAGE_BYTES} bytes")]
    Bytes,
    /// The number of JSON values.
    #[error("a message has more than {VALUES} values")]
    Values,
}

/// Reason why bytes are not a valid message.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error(transparent)]
    NoMessage(#[from] serde_json::Error),
}

/// Parses a message. `redact` removes the credentials from the text.
pub(super) fn message(
    bytes: &[u8],
    redact: impl FnOnce(&str) -> Cow<'_, str>,
) -> Result<ServerJsonRpcMessage, Unreadable> {
    let text = String::from_utf8_lossy(bytes);
    check(&text)?;
    Ok(lenient::read(&redact(&text))?)
}

/// Returns the error about an invalid message. `answer` must be redacted.
pub(super) fn no_message(answer: &str) -> String {
    match text::line(answer, BEGINNING_BYTES) {
        beginning if beginning.is_empty() => format!("{NO_MESSAGE}: it is empty"),
        beginning => format!("{NO_MESSAGE}: it begins with {beginning}"),
    }
}

/// Returns the failure of a request with an invalid response. `answer` must be redacted.
pub(super) fn unreadable(answer: &str, id: RequestId) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(ErrorData::parse_error(no_message(answer), None), Some(id))
}

/// Refuses a text with more values than a message may have. Checks nothing else.
pub(super) fn check(text: &str) -> Result<(), TooLarge> {
    let (mut values, mut in_string, mut escaped) = (0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            // Names of members count as values.
            b',' | b':' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    if values > VALUES {
        return Err(TooLarge::Values);
    }
    Ok(())
}

/// Splits a stream of bytes into lines. Each byte is read once, however the bytes arrive.
#[derive(Debug, Default)]
pub(super) struct Lines {
    unread: BytesMut,
    /// Length of the prefix of `unread` without a line feed, in bytes.
    searched: usize,
}

impl Lines {
    /// Returns the buffer, to which the caller appends incoming bytes.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.unread
    }

    /// Returns the next complete line with its line feed, if it has arrived.
    pub(super) fn next(&mut self) -> Result<Option<BytesMut>, TooLarge> {
        let unsearched = self.unread.get(self.searched..).unwrap_or_default();
        let end = unsearched.iter().position(|byte| *byte == b'\n');
        let length = self.searched + end.unwrap_or(unsearched.len());
        if length > MESSAGE_BYTES {
            return Err(TooLarge::Bytes);
        }
        self.searched = if end.is_some() { 0 } else { length };
        Ok(end.map(|_| self.unread.split_to(length + 1)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(chunks: &[&[u8]]) -> Result<Vec<BytesMut>, TooLarge> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for chunk in chunks {
            lines.buffer().extend_from_slice(chunk);
            while let Some(line) = lines.next()? {
                found.push(line);
            }
        }
        Ok(found)
    }

    #[test]
    fn a_line_larger_than_a_message_ends_the_stream_whole_and_in_pieces() {
        let largest = vec![b' '; MESSAGE_BYTES];
        assert_eq!(lines(&[&largest, b"\n"]).map(|found| found.len()), Ok(1));
        assert_eq!(lines(&[&largest, b" "]), Err(TooLarge::Bytes));
        assert_eq!(lines(&[&largest, b" \n"]), Err(TooLarge::Bytes));
    }

    #[test]
    fn a_message_is_redacted_before_it_is_read() {
        let read = message(br#"{"jsonrpc":"2.0","id":1,"result":{"hush":1}}"#, |text| {
            Cow::Owned(text.replace("hush", "gone"))
        });
        assert_eq!(
            serde_json::to_value(read.unwrap()).unwrap()["result"],
            serde_json::json!({"gone": 1})
        );
    }

    #[test]
    fn a_message_of_very_many_values_is_refused_and_a_long_text_is_not() {
        let answer = |result: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        let read = |text: &str| message(text.as_bytes(), |text| text.into()).map(drop);
        let many = |value: &str| answer(&format!("[{}0]", value.repeat(VALUES)));
        for text in [many("0,"), many("{},"), many("\"\","), many("[],")] {
            assert!(matches!(read(&text), Err(Unreadable::TooLarge(TooLarge::Values))));
        }
        assert!(read(&answer(&format!("[{}0]", "0,".repeat(VALUES - 10)))).is_ok());
        let words = r#"a, \"b: [\"{ \\"#.repeat(VALUES / 2);
        assert!(read(&answer(&format!(r#"{{"text":"{words}"}}"#))).is_ok());
    }

    proptest! {
        #[test]
        fn chunks_make_no_difference(
            stream in prop::collection::vec(prop::sample::select(&b"ab\n"[..]), 0..60),
            size in 1_usize..60,
        ) {
            let chunks: Vec<&[u8]> = stream.chunks(size).collect();
            prop_assert_eq!(lines(&chunks), lines(&[&stream]));
        }
    }
}
