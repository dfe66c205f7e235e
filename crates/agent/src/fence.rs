//! Fenced blocks of a Markdown text, by the rules of `CommonMark`: three or more backticks or tildes open one, at least as many
//! of the same close it, and up to three spaces of indentation are removed from each line.
//!
//! A block that is never closed reaches to the end of the text and is marked as open; the caller decides what that means.

use std::borrow::Cow;

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block<'a> {
    /// The line of its opening fence, from 1.
    pub(crate) line: usize,
    /// Text after the opening fence, trimmed.
    pub(crate) info: &'a str,
    /// Text between the fences, lines separated by `\n`, without the last line break.
    pub(crate) content: Cow<'a, str>,
    /// End of the block.
    pub(crate) end: End,
}

/// End of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With its closing fence.
    Closed,
    /// With the text.
    Open,
}

/// The fenced blocks of `text`, in order.
pub(crate) fn blocks(text: &str) -> impl Iterator<Item = Block<'_>> {
    Blocks { text, at: 0, line: 0 }
}

/// The lines of `text` that belong to no block and open none, each with its offset, its line break included.
pub(crate) fn lines_outside(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut blocks = Blocks { text, at: 0, line: 0 };
    std::iter::from_fn(move || {
        loop {
            let from = blocks.at;
            let line = blocks.next_line()?;
            let Some(fence) = opens(line) else {
                return Some((from, text.get(from..blocks.at).unwrap_or_default()));
            };
            let opening = blocks.line;
            blocks.read(&fence, opening);
        }
    })
}

struct Blocks<'a> {
    text: &'a str,
    /// Offset of the next line.
    at: usize,
    /// Lines read so far.
    line: usize,
}

struct Fence<'a> {
    mark: char,
    length: usize,
    indent: usize,
    info: &'a str,
}

impl<'a> Blocks<'a> {
    /// The next line without its line break.
    fn next_line(&mut self) -> Option<&'a str> {
        let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
        let line = rest.split_inclusive('\n').next()?;
        self.at += line.len();
        self.line += 1;
        let line = line.strip_suffix('\n').unwrap_or(line);
        Some(line.strip_suffix('\r').unwrap_or(line))
    }

    fn read(&mut self, fence: &Fence<'a>, line: usize) -> Block<'a> {
        let from = self.at;
        let mut lines = Vec::new();
        let mut until = from;
        let mut end = End::Open;
        while let Some(next) = self.next_line() {
            if closes(next, fence) {
                end = End::Closed;
                break;
            }
            lines.push(without_indent(next, fence.indent));
            until = self.at;
        }
        let verbatim = self.text.get(from..until).unwrap_or_default();
        let verbatim = verbatim.strip_suffix('\n').unwrap_or(verbatim);
        let joined = fence.indent == 0 && !verbatim.contains('\r');
        let content = if joined {
            Cow::Borrowed(verbatim)
        } else {
            Cow::Owned(lines.join("\n"))
        };
        Block {
            line,
            info: fence.info,
            content,
            end,
        }
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Block<'a>> {
        loop {
            let line = self.next_line()?;
            if let Some(fence) = opens(line) {
                return Some(self.read(&fence, self.line));
            }
        }
    }
}

fn opens(line: &str) -> Option<Fence<'_>> {
    let (indent, rest) = indented(line)?;
    let mark = rest.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let info = rest.trim_start_matches(mark);
    let length = rest.len() - info.len();
    // After backticks, another backtick makes it inline code.
    let opens = length >= 3 && !(mark == '`' && info.contains('`'));
    opens.then_some(Fence {
        mark,
        length,
        indent,
        info: info.trim(),
    })
}

fn closes(line: &str, fence: &Fence<'_>) -> bool {
    indented(line).is_some_and(|(_, rest)| {
        let after = rest.trim_start_matches(fence.mark);
        rest.len() - after.len() >= fence.length && after.trim_matches([' ', '\t']).is_empty()
    })
}

/// The line after its indentation, unless that is more than three spaces.
fn indented(line: &str) -> Option<(usize, &str)> {
    let rest = line.trim_start_matches(' ');
    let indent = line.len() - rest.len();
    (indent <= 3).then_some((indent, rest))
}

fn without_indent(line: &str, indent: usize) -> &str {
    let spaces = line.bytes().take(indent).take_while(|byte| *byte == b' ').count();
    line.get(spaces..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(text: &str) -> Vec<(usize, &str, String, End)> {
        blocks(text)
            .map(|b| (b.line, b.info, b.content.into_owned(), b.end))
            .collect()
    }

    #[test]
    fn a_block_has_its_line_its_info_and_its_content() {
        assert_eq!(
            all("Do:\n\n```sh  \nls\n\nwc -l x\n```\nand\n~~~answer\n```\n~~~\n"),
            [
                (3, "sh", "ls\n\nwc -l x".to_owned(), End::Closed),
                (9, "answer", "```".to_owned(), End::Closed),
            ]
        );
    }

    #[test]
    fn a_longer_fence_holds_shorter_ones() {
        assert_eq!(
            all("````sh\ncat <<E\n```\nE\n````"),
            [(1, "sh", "cat <<E\n```\nE".to_owned(), End::Closed)]
        );
    }

    #[test]
    fn line_breaks_of_windows_and_indentation_are_taken_off() {
        assert_eq!(
            all("  ```sh\r\n  a\r\n b\r\n    c\r\n  ```\r\n"),
            [(1, "sh", "a\nb\n  c".to_owned(), End::Closed)]
        );
        assert_eq!(all("    ```sh\nx\n```y`\n"), []);
    }

    #[test]
    fn a_block_that_is_not_closed_reaches_to_the_end_and_says_so() {
        assert_eq!(
            all("```sh\nrm -r x\n``\n"),
            [(1, "sh", "rm -r x\n``".to_owned(), End::Open)]
        );
        assert_eq!(all("```sh"), [(1, "sh", String::new(), End::Open)]);
        assert_eq!(all("```sh\n```"), [(1, "sh", String::new(), End::Closed)]);
    }

    #[test]
    fn lines_outside_of_blocks_come_with_their_offsets() {
        let text = "a\n```sh\nb\n```\nc\r\n~~~\nd";
        assert_eq!(
            lines_outside(text).collect::<Vec<_>>(),
            [(0, "a\n"), (14, "c\r\n")]
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[`~ a\n\r\\té]{0,60}") {
            for block in blocks(&text) {
                prop_assert!(block.line >= 1 && !block.info.contains('\n'));
            }
        }

        #[test]
        fn what_is_fenced_comes_back(
            contents in proptest::collection::vec("[a-z `~\n]{0,30}", 0..5), mark in prop_oneof![Just('`'), Just('~')],
        ) {
            let longest = |text: &str| text.split(|c| c != mark).map(str::len).max().unwrap_or(0);
            let mut text = String::new();
            for content in &contents {
                let fence = mark.to_string().repeat(3.max(longest(content) + 1));
                text.extend(["text\n", &fence, "sh\n", content, "\n", &fence, "\n"]);
            }
            let back: Vec<String> = blocks(&text).map(|block| block.content.into_owned()).collect();
            prop_assert_eq!(back, contents);
        }
    }
}
