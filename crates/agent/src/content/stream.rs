//! Streams of commands in results: plain text; a long one keeps its head and its tail in whole lines. A line replaces the middle
//! and names the file that holds it. Repeated lines are counted, and UTF-16 is decoded.

use std::ops::RangeInclusive;

use sortie_sandbox::StreamOutput;

use super::{binary, plain::plain, repeats::Condensed, utf16};
use crate::{Redactor, text};

/// A file of the run that holds the whole output, or its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The path from the working directory.
    pub(crate) path: String,
    /// The part of the output that the file holds.
    pub(crate) extent: Extent,
}

impl Kept {
    /// The location of an output that is not shown verbatim, after a semicolon.
    fn place(&self) -> String {
        let path = &self.path;
        match self.extent {
            Extent::Whole => format!("; it is in {path}"),
            Extent::Log => format!("; the log is {path}"),
            Extent::First(bytes) => format!("; its first {} bytes are in {path}", text::grouped(bytes)),
        }
    }
}

/// The part of an output that a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The output, from its first line to its last.
    Whole,
    /// The newest output, among other output: the log of a job.
    Log,
    /// The first so many bytes.
    First(u64),
}

/// A stream before the file with all of it is known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// The text fits.
    Whole(String),
    /// The text fits, but is not the output byte for byte.
    Reworded(String),
    /// The middle of the text does not fit.
    Cut(Cut),
    /// Data that is no text.
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
            mut tail,
            total_bytes,
            total_lines,
        } = stream;
        let order = utf16::order(head.get(..utf16::SAMPLE).unwrap_or(&head));
        if order.is_none()
            && let Some(kind) = binary::kind(&head)
        {
            return Self::Binary {
                kind,
                bytes: total_bytes,
            };
        }
        let shown = |bytes: Vec<u8>| {
            let text = match order {
                Some(order) => text::clean(utf16::text(&bytes, order)),
                None => text::clean_bytes(bytes),
            };
            let text = plain(&text).into_owned();
            Condensed::new(match redactor {
                Some(redactor) => redactor.redact_owned(text),
                None => text,
            })
        };
        if total_bytes > (head.len() + tail.len()) as u64 {
            if order.is_some() {
                head.truncate(head.len() / 2 * 2);
                tail.drain(..usize::from((total_bytes - tail.len() as u64) % 2 == 1));
            } else {
                head.truncate(head.len() - torn_at_end(&head));
                tail.drain(..torn_at_start(&tail));
            }
            let kept = (head.len() + tail.len()) as u64;
            let gone = (total_bytes - kept, total_lines);
            return Self::Cut(Cut::of(&shown(head), &shown(tail), gone, limit));
        }
        head.extend_from_slice(&tail);
        let text = shown(head);
        if text.text.len() > limit {
            return Self::Cut(Cut::of(&text, &text, (0, total_lines), limit));
        }
        if order.is_some() || text.is_condensed() {
            Self::Reworded(text.text)
        } else {
            Self::Whole(text.text)
        }
    }

    /// Whether a file with the whole stream is useful.
    pub(crate) const fn is_partial(&self) -> bool {
        match self {
            Self::Whole(_) => false,
            Self::Reworded(_) | Self::Cut(_) | Self::Binary { .. } => true,
        }
    }

    /// The text, with the name of the file that holds the whole output.
    pub(crate) fn text(self, kept: Option<&Kept>) -> String {
        match self {
            Self::Whole(text) => text,
            Self::Reworded(mut text) => {
                if let Some(kept) = kept {
                    if !text.ends_with('\n') {
                        text.push('\n');
                    }
                    let place = kept.place();
                    text.extend([
                        "[the output as it came",
                        place.strip_prefix("; it").unwrap_or(&place),
                        "]\n",
                    ]);
                }
                text
            }
            Self::Cut(cut) => cut.text(kept),
            Self::Binary { kind, bytes } => {
                let place = kept.map(Kept::place).unwrap_or_default();
                format!(
                    "[binary output, not shown: {} bytes, {kind}{place}]\n",
                    text::grouped(bytes)
                )
            }
        }
    }
}

impl Cut {
    /// The first part of `head` and the last part of `tail`; `gone` bytes between the two are lost already, and the stream has
    /// `all_lines` lines. The two may be the same text, with nothing lost.
    fn of(head: &Condensed, tail: &Condensed, (gone, all_lines): (u64, u64), limit: usize) -> Self {
        let (first, last) = (
            whole_lines_of_head(text::head(&head.text, limit - limit / 2)),
            whole_lines_of_tail(text::tail(&tail.text, limit / 2)),
        );
        let all = |part: &Condensed| part.stands_for(0..part.text.len()).1;
        let text_bytes = if gone == 0 {
            all(tail)
        } else {
            all(head) + all(tail)
        };
        let (first_lines, first_bytes) = head.stands_for(0..first.len());
        let (last_lines, last_bytes) = tail.stands_for(tail.text.len() - last.len()..tail.text.len());
        let bytes = gone + text_bytes.saturating_sub(first_bytes + last_bytes);
        let starts_line = tail
            .text
            .len()
            .checked_sub(last.len() + 1)
            .and_then(|before| tail.text.as_bytes().get(before))
            == Some(&b'\n');
        let (from, to) = (first_lines + 1, all_lines.saturating_sub(last_lines));
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
                (Extent::Whole, None) => format!("; the whole output is in {path}"),
                (Extent::Log, _) => format!("; the log is {path}"),
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

/// Length of a torn character at the end, in bytes.
fn torn_at_end(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last();
    last.map_or(0, |chunk| match std::str::from_utf8(chunk.invalid()) {
        Err(error) if error.error_len().is_none() => chunk.invalid().len(),
        Ok(_) | Err(_) => 0,
    })
}

/// Length of a torn character at the start, in bytes.
fn torn_at_start(bytes: &[u8]) -> usize {
    let inside = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80);
    inside.count()
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

/// Text of a stream for programs: byte for byte, with a line that reports how much of its middle was omitted.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sortie_sandbox::Capture;

    use super::*;

    fn stream(bytes: &[u8], keep: usize) -> StreamOutput {
        let mut capture = Capture::new(keep);
        capture.push(bytes);
        capture.finish()
    }

    fn shown(text: &str, keep: usize, limit: usize, extent: Extent) -> String {
        let kept = Kept {
            path: "FILE".to_owned(),
            extent,
        };
        View::of(stream(text.as_bytes(), keep), limit, None).text(Some(&kept))
    }

    #[test]
    fn the_line_of_a_cut_names_what_is_left_out_and_where_it_is() {
        let text: String = (1..=100).fold(String::new(), |text, number| text + &format!("line {number}\n"));
        assert_eq!(shown(&text, 10_000, 1_000, Extent::Whole), text);
        for keep in [100, 400, 10_000] {
            assert_eq!(
                shown(&text, keep, 44, Extent::Whole),
                "line 1\nline 2\nline 3\n[… 95 lines, 754 bytes left out; the whole output is in FILE (lines 4-98) …]\n\
                 line 99\nline 100\n",
                "{keep}"
            );
        }
        let first = shown(&text, 100, 44, Extent::First(500));
        assert!(
            first.contains("\n[… 95 lines, 754 bytes left out; its first 500 bytes are in FILE …]\n"),
            "{first}"
        );
        let log = shown(&text, 100, 44, Extent::Log);
        assert!(log.contains("bytes left out; the log is FILE …]\n"), "{log}");
        let none = View::of(stream(text.as_bytes(), 100), 44, None).text(None);
        assert!(none.contains("\n[… 95 lines, 754 bytes left out …]\n"), "{none}");
    }

    #[test]
    fn equal_lines_are_counted_and_stand_in_the_file() {
        let warning = "warning: something is deprecated and will be removed\n";
        let text = format!("start\n{}end\n", warning.repeat(1_000));
        let told = shown(&text, 1 << 20, 1 << 20, Extent::Whole);
        assert_eq!(
            told,
            format!(
                "start\n{warning}[… the line above comes 999 times more …]\nend\n[the output as it came is in FILE]\n"
            )
        );
        let of_job = shown(&text, 1 << 20, 1 << 20, Extent::Log);
        assert!(
            of_job.ends_with("[the output as it came; the log is FILE]\n"),
            "{of_job}"
        );
        // A cut names line numbers of the output, not of the shown text.
        let mut long = warning.repeat(1_000);
        long.extend((0..100).map(|n| format!("line {n}\n")));
        let told = shown(&long, 1 << 20, 300, Extent::Whole);
        assert!(
            told.starts_with(&format!(
                "{warning}[… the line above comes 999 times more …]\nline 0\n"
            )),
            "{told}"
        );
        assert!(told.contains("(lines 1008-1082) …]\nline 82\n"), "{told}");
    }

    #[test]
    fn utf_16_is_shown_as_text() {
        let bytes: Vec<u8> = "a: é\r\nb\r\n"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let kept = Kept {
            path: "FILE".to_owned(),
            extent: Extent::Whole,
        };
        let told = View::of(stream(&bytes, 1_000), 1_000, None).text(Some(&kept));
        assert_eq!(told, "a: é\nb\n[the output as it came is in FILE]\n");
        let long = "line of text\n"
            .repeat(100)
            .encode_utf16()
            .flat_map(u16::to_be_bytes)
            .collect::<Vec<u8>>();
        for keep in [401, 402] {
            let told = View::of(stream(&long, keep), 150, None).text(None);
            assert!(
                told.starts_with("line of text\n") && told.ends_with("line of text\n"),
                "{told}"
            );
            assert!(told.chars().all(|c| c != '\u{fffd}'), "{told}");
        }
    }

    #[test]
    fn one_long_line_is_cut_in_itself() {
        let text = "x".repeat(50) + &"y".repeat(50);
        assert_eq!(
            shown(&text, 1_000, 20, Extent::Whole),
            "xxxxxxxxxx\n[… 80 bytes left out; the whole output is in FILE …]\nyyyyyyyyyy"
        );
    }

    #[test]
    fn a_credential_at_the_cut_leaves_no_part() {
        let redactor = Redactor::new(["secret-token"]);
        let text = format!("{}secret-token{}", "a".repeat(15), "b".repeat(100));
        let shown = View::of(stream(text.as_bytes(), 1_000), 40, Some(&redactor)).text(None);
        assert!(
            !shown.contains("secret") && shown.starts_with("aaaaaaaaaaaaaaa[reda"),
            "{shown}"
        );
    }

    proptest! {
        #[test]
        fn head_tail_and_the_named_lines_are_the_whole_output(
            lines in proptest::collection::vec("[a-zé ]{0,12}", 1..60),
            keep in 60_usize..600,
            limit in 20_usize..60,
        ) {
            let text: String = lines.iter().fold(String::new(), |text, line| text + line + "\n");
            let shown = shown(&text, keep.max(limit), limit, Extent::Whole);
            if text.len() <= limit {
                prop_assert_eq!(shown, text);
                return Ok(());
            }
            let (head, rest) = shown.split_once("[… ").ok_or_else(|| TestCaseError::fail("no mark"))?;
            let (mark, tail) = rest.split_once(" …]\n").ok_or_else(|| TestCaseError::fail("no end"))?;
            prop_assert!(head.len() + tail.len() <= limit + 1);
            if let Some((_, named)) = mark.split_once("(lines ") {
                let (from, to) = named.trim_end_matches(')').split_once('-').unwrap();
                let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
                let gone: String = lines[from - 1..to].iter().fold(String::new(), |text, line| text + line + "\n");
                prop_assert_eq!(format!("{head}{gone}{tail}"), text);
                let counted = format!("{} lines, {} bytes left out", to - from + 1, gone.len());
                prop_assert!(mark.starts_with(&counted), "{}", mark);
            }
        }
    }
}
