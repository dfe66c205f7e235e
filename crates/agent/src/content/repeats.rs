//! Repeated lines of an output: the first one is shown, with the number of the others.

use std::ops::Range;

use crate::text;

/// Maximum number of repeated lines after the first that are still shown.
const FEW_LINES: usize = 7;
/// Minimum number of bytes that an omission must save.
const LEAST_BYTES: usize = 256;

/// A text with omitted lines.
#[derive(Debug, Default)]
pub(super) struct Condensed {
    pub(super) text: String,
    /// The lines that report omissions, as ranges of `text`, with the lines and bytes that they replace.
    marks: Vec<(Range<usize>, u64, u64)>,
}

impl Condensed {
    pub(super) fn new(text: String) -> Self {
        let mut marks = Vec::new();
        let mut out = String::new();
        let mut taken = 0;
        let mut lines = text.split_inclusive('\n').peekable();
        let mut end = 0;
        while let Some(line) = lines.next() {
            end += line.len();
            let mut more = 0;
            while lines.next_if_eq(&line).is_some() {
                more += 1;
            }
            let bytes = more * line.len();
            if more > FEW_LINES && bytes >= LEAST_BYTES {
                out.push_str(text.get(taken..end).unwrap_or_default());
                let from = out.len();
                out.push_str(&mark(more as u64));
                marks.push((from..out.len(), more as u64, bytes as u64));
                taken = end + bytes;
            }
            end += bytes;
        }
        if marks.is_empty() {
            return Self { text, marks };
        }
        out.push_str(text.get(taken..).unwrap_or_default());
        Self { text: out, marks }
    }

    /// Whether lines were omitted.
    pub(super) fn is_condensed(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Lines and bytes of the output that a part of the text represents.
    pub(super) fn stands_for(&self, part: Range<usize>) -> (u64, u64) {
        let shown = self.text.get(part.clone()).unwrap_or_default();
        let (mut lines, mut bytes) = (shown.matches('\n').count() as u64, shown.len() as u64);
        for (mark, more, more_bytes) in &self.marks {
            if part.start <= mark.start && mark.end <= part.end {
                lines += more - 1;
                bytes = bytes + more_bytes - mark.len() as u64;
            }
        }
        (lines, bytes)
    }
}

fn mark(more: u64) -> String {
    format!("[… the line above comes {} times more …]\n", text::grouped(more))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_that_comes_often_is_shown_once_with_its_count() {
        let warning = "warning: something is deprecated and will be removed\n";
        let text = format!("start\n{}end\n", warning.repeat(1_000));
        let condensed = Condensed::new(text.clone());
        assert_eq!(
            condensed.text,
            format!("start\n{warning}[… the line above comes 999 times more …]\nend\n")
        );
        assert_eq!(
            condensed.stands_for(0..condensed.text.len()),
            (1_002, text.len() as u64)
        );
    }

    #[test]
    fn few_short_and_unequal_lines_stay() {
        for text in [
            String::new(),
            "y\n".repeat(100),
            "a long line that comes only a few times, which nobody minds\n".repeat(8),
            (0..1_000).fold(String::new(), |text, n| {
                text + &format!("line {n} is another one\n")
            }),
            "a line without its end, which is the only one of its kind".to_owned(),
        ] {
            let condensed = Condensed::new(text.clone());
            assert_eq!((condensed.is_condensed(), condensed.text), (false, text));
        }
    }

    proptest! {
        #[test]
        fn what_is_left_out_is_counted(lines in proptest::collection::vec(("[ab]{30,40}", 1_usize..40), 0..8)) {
            let text: String = lines.iter().map(|(line, times)| format!("{line}\n").repeat(*times)).collect();
            let condensed = Condensed::new(text.clone());
            prop_assert!(condensed.text.len() <= text.len());
            let all = (text.matches('\n').count() as u64, text.len() as u64);
            prop_assert_eq!(condensed.stands_for(0..condensed.text.len()), all);
        }
    }
}
