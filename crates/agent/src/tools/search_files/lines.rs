//! Lines of files that may be very long.

use std::io::{self, BufRead};

use crate::text;

/// Bytes of a line that are searched.
const LINE_BYTES: usize = 64 * 1024;
/// Bytes of a line that are shown.
const SHOWN_BYTES: usize = 300;

/// Reads a line, of which at most [`LINE_BYTES`] are kept; returns its whole length.
pub(super) fn next_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<u64> {
    let mut length = 0;
    loop {
        let buffer = file.fill_buf()?;
        let (piece, ended) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        let kept = piece.min(LINE_BYTES.saturating_sub(line.len()));
        line.extend_from_slice(buffer.get(..kept).unwrap_or_default());
        file.consume(piece);
        length += piece as u64;
        if ended {
            while matches!(line.last(), Some(b'\n' | b'\r')) {
                line.pop();
            }
            return Ok(length);
        }
    }
}

/// A line as it is shown: of a long line, the part from shortly before `at`.
pub(super) fn shown(line: &[u8], at: usize) -> String {
    let from = if at + 50 > SHOWN_BYTES {
        at.saturating_sub(50)
    } else {
        0
    };
    let shown = line.get(from..).unwrap_or_default();
    let (shown, more) = match shown.get(..SHOWN_BYTES) {
        Some(head) if head.len() < shown.len() => (head, "…"),
        _ => (shown, ""),
    };
    let begun = if from > 0 { "…" } else { "" };
    let shown = text::clean(String::from_utf8_lossy(shown).into_owned());
    format!("{begun}{}{more}", shown.trim_end())
}
