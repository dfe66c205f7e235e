//! Converts output of programs to plain text: no control sequences of terminals, and of each line its final state.

use std::{borrow::Cow, iter::Peekable, str::Chars};

/// `text` without control sequences, with `\r` and backspace applied. Line breaks stay where they are.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    let is_control = |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\n' | b'\t');
    if !text.as_bytes().iter().any(is_control) {
        return Cow::Borrowed(text);
    }
    let mut line = Line {
        out: String::with_capacity(text.len()),
        start: 0,
        returned: false,
    };
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' => line.end(),
            '\r' => line.returned = true,
            '\u{8}' => line.erase_last(),
            '\u{1b}' => line.escape(&mut rest),
            '\t' => line.write(c),
            c if c.is_ascii_control() => {}
            c => line.write(c),
        }
    }
    Cow::Owned(line.out)
}

/// The text so far, and the current line.
struct Line {
    out: String,
    /// Offset of the line's first byte.
    start: usize,
    /// Whether the next character overwrites the line.
    returned: bool,
}

impl Line {
    fn write(&mut self, c: char) {
        if std::mem::take(&mut self.returned) {
            self.erase();
        }
        self.out.push(c);
    }

    fn end(&mut self) {
        self.out.push('\n');
        self.start = self.out.len();
        self.returned = false;
    }

    fn erase(&mut self) {
        self.out.truncate(self.start);
    }

    fn erase_last(&mut self) {
        if self.out.len() > self.start {
            self.out.pop();
        }
    }

    /// Skips a control sequence; only "erase the line" has an effect. A line break ends any sequence.
    fn escape(&mut self, rest: &mut Peekable<Chars<'_>>) {
        match rest.peek() {
            Some('[') => {
                rest.next();
                let mut parameters = String::new();
                while let Some(c) = rest.next_if(|c| (' '..='?').contains(c)) {
                    parameters.push(c);
                }
                let last = rest.next_if(|c| ('@'..='~').contains(c));
                let whole_line = self.returned || parameters.starts_with(['1', '2']);
                if last == Some('K') && whole_line {
                    self.erase();
                }
            }
            Some(']' | 'P' | 'X' | '^' | '_') => {
                while let Some(c) = rest.next_if(|c| *c != '\n') {
                    let ended = c == '\u{7}' || (c == '\u{1b}' && rest.next_if_eq(&'\\').is_some());
                    if ended {
                        break;
                    }
                }
            }
            _ => {
                while rest.next_if(|c| (' '..='/').contains(c)).is_some() {}
                rest.next_if(|c| ('0'..='~').contains(c));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_shown_as_it_stood_last() {
        for (written, shown) in [
            ("plain\ttext é\n", "plain\ttext é\n"),
            ("\x1b[1;31merror\x1b[0m: no\n", "error: no\n"),
            ("one\r\ntwo\r\r\n", "one\ntwo\n"),
            (" 10%\r 50%\r100%\ndone\n", "100%\ndone\n"),
            ("loading\r\x1b[Kready\n", "ready\n"),
            ("loading\r\x1b[K\nnext", "\nnext"),
            ("half\x1b[2Knew\n", "new\n"),
            ("a\x1b[Kb\n", "ab\n"),
            ("\x1b]0;title\x07text\n", "text\n"),
            ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\\n", "link\n"),
            ("\x1b]never ended\ntext\n", "\ntext\n"),
            ("b\u{8}bo\u{8}old\n\u{8}x\n", "bold\nx\n"),
            ("\x1b(B\x1b=bell\x07\x1b", "bell"),
            ("\x1b[38;5;1", ""),
        ] {
            assert_eq!(plain(written), shown, "{written:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_becomes_plain_with_its_line_breaks(text in "[a-c\\[\\]0-9;mKé\\x1b\\r\\n\\x08\\x07\\\\]{0,60}") {
            let plain_text = plain(&text).into_owned();
            prop_assert!(plain_text.chars().all(|c| c == '\n' || c == '\t' || !c.is_ascii_control()));
            prop_assert_eq!(plain_text.matches('\n').count(), text.matches('\n').count());
            prop_assert!(plain_text.len() <= text.len());
            let again = plain(&plain_text);
            prop_assert!(matches!(again, Cow::Borrowed(_)));
        }
    }
}
