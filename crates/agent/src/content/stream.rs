//! One stream of a command as its result shows it: plain text with head and tail kept in whole lines, and a line in
//! place of what was left out, which names the file that holds all of it.

use std::ops::RangeInclusive;

use sortie_sandbox::StreamOutput;

use super::{binary, plain::plain};
use crate::{Redactor, text};

/// A file of the run that holds the whole output, or its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The path from the working directory.
    pub(crate) path: String,
    /// How much of the output it holds.
    pub(crate) extent: Extent,
}

/// How much of an output a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The output, from its first line to its last.
    Whole,
    /// The output among other output: its lines have other numbers there.
    Among,
    /// The first so many bytes.
    First(u64),
}

/// One stream, not yet written out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// It fits.
    Whole(String),
    /// Its middle does not fit.
    Cut(Cut),
    /// It is no text.
    Binary { kind: &'static str, bytes: u64 },
}

/// A text without its middle.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    head: String,
    tail: String,
    /// Bytes left out.
    bytes: u64,
    /// Lines left out, where the cut is between lines.
    lines: Option<RangeInclusive<u64>>,
}

impl View {
    /// The stream in at most `limit` bytes, without credentials.
    pub(crate) fn of(stream: StreamOutput, limit: usize, redactor: Option<&Redactor>) -> Self {
        let StreamOutput {
            mut head,
            tail,
            total_bytes,
            total_lines,
        } = stream;
        if let Some(kind) = binary::kind(&head) {
            return Self::Binary {
                kind,
                bytes: total_bytes,
            };
        }
        let shown = |bytes: Vec<u8>| {
            let text = text::clean_bytes(bytes);
            let text = plain(&text).into_owned();
            match redactor {
                Some(redactor) => redactor.redact_owned(text),
                None => text,
            }
        };
        let kept = (head.len() + tail.len()) as u64;
        if total_bytes > kept {
            return Self::Cut(Cut::of(
                &shown(head),
                &shown(tail),
                (total_bytes - kept, total_lines),
                limit,
            ));
        }
        head.extend_from_slice(&tail);
        let text = shown(head);
        if text.len() <= limit {
            return Self::Whole(text);
        }
        Self::Cut(Cut::of(&text, &text, (0, total_lines), limit))
    }

    /// Whether a file with the whole of it is of use.
    pub(crate) const fn is_partial(&self) -> bool {
        match self {
            Self::Whole(_) => false,
            Self::Cut(_) | Self::Binary { .. } => true,
        }
    }

    /// The text, which names the file that holds all of it.
    pub(crate) fn text(self, kept: Option<&Kept>) -> String {
        match self {
            Self::Whole(text) => text,
            Self::Cut(cut) => cut.text(kept),
            Self::Binary { kind, bytes } => {
                let place = match kept {
                    None => String::new(),
                    Some(Kept { path, extent }) => match extent {
                        Extent::Whole | Extent::Among => format!("; it is in {path}"),
                        Extent::First(bytes) => {
                            format!("; its first {} bytes are in {path}", text::grouped(*bytes))
                        }
                    },
                };
                format!(
                    "[binary output, not shown: {} bytes, {kind}{place}]\n",
                    text::grouped(bytes)
                )
            }
        }
    }
}

impl Cut {
    /// The first part of `head` and the last part of `tail`; between the two `gone` bytes are gone already, and the
    /// stream has so many lines in all. The two may be the same text, of which nothing is gone.
    fn of(head: &str, tail: &str, (gone, all_lines): (u64, u64), limit: usize) -> Self {
        let (first, last) = (
            whole_lines_of_head(text::head(head, limit - limit / 2)),
            whole_lines_of_tail(text::tail(tail, limit / 2)),
        );
        let text_bytes = if gone == 0 {
            tail.len()
        } else {
            head.len() + tail.len()
        };
        let bytes = gone + text_bytes.saturating_sub(first.len() + last.len()) as u64;
        let starts_line = tail
            .len()
            .checked_sub(last.len() + 1)
            .and_then(|before| tail.as_bytes().get(before))
            == Some(&b'\n');
        let lines_of = |text: &str| text.matches('\n').count() as u64;
        let (from, to) = (lines_of(first) + 1, all_lines.saturating_sub(lines_of(last)));
        let between_lines = (first.is_empty() || first.ends_with('\n')) && starts_line && from <= to;
        Self {
            head: first.to_owned(),
            tail: last.to_owned(),
            bytes,
            lines: between_lines.then_some(from..=to),
        }
    }

    fn text(self, kept: Option<&Kept>) -> String {
        let Self {
            head,
            tail,
            bytes,
            lines,
        } = self;
        let bytes = text::grouped(bytes);
        let gone = match &lines {
            Some(lines) => {
                let count = lines.end() - lines.start() + 1;
                format!("{} lines, {bytes} bytes left out", text::grouped(count))
            }
            None => format!("{bytes} bytes left out"),
        };
        let place = match (kept, lines) {
            (None, _) => String::new(),
            (Some(Kept { path, extent }), lines) => match (extent, lines) {
                (Extent::Whole, Some(lines)) => format!(
                    "; the whole output is in {path} (lines {}-{})",
                    lines.start(),
                    lines.end()
                ),
                (Extent::Whole, None) | (Extent::Among, _) => format!("; the whole output is in {path}"),
                (Extent::First(bytes), _) => {
                    format!("; its first {} bytes are in {path}", text::grouped(*bytes))
                }
            },
        };
        let before = if head.is_empty() || head.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        format!("{head}{before}[… {gone}{place} …]\n{tail}")
    }
}

/// `head` up to its last line break, unless that leaves less than half of it.
fn whole_lines_of_head(head: &str) -> &str {
    let end = head.rfind('\n').map_or(0, |at| at + 1);
    match head.get(..end) {
        Some(lines) if end >= head.len() / 2 => lines,
        Some(_) | None => head,
    }
}

/// `tail` from the first line that begins in it, unless that leaves less than half of it.
fn whole_lines_of_tail(tail: &str) -> &str {
    let start = tail.find('\n').map_or(tail.len(), |at| at + 1);
    match tail.get(start..) {
        Some(lines) if start <= tail.len() / 2 => lines,
        Some(_) | None => tail,
    }
}

/// One stream as text, byte for byte, with a line that says how much was left out of its middle: for programs.
pub(crate) fn stream_text(stream: StreamOutput) -> String {
    let StreamOutput {
        mut head,
        tail,
        total_bytes,
        total_lines: _,
    } = stream;
    let kept = (head.len() + tail.len()) as u64;
    if total_bytes <= kept {
        head.extend_from_slice(&tail);
        return text::clean_bytes(head);
    }
    let mut out = text::clean_bytes(head);
    out.push_str(&text::left_out(total_bytes - kept));
    out.push_str(&text::clean_bytes(tail));
    out
}
