//! Views of a text with escapes of one kind undone: `%41`, or `\u0041` and `\n`, or `&#65;` and `&amp;`. Line breaks are removed,
//! so that wrapped text is joined again.
//!
//! Every byte of such a view has its position in the text, so that a match in the view can be removed from the text. That is
//! slow; [`undone`] makes the same bytes quickly, to check first whether there is any match.

use std::collections::VecDeque;

/// The longest escape: two halves of one character, `\ud83d\ude00`.
const LONGEST: usize = 12;

/// Byte of a view, and the range of the text that it came from.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    pub(super) byte: u8,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// State of the end of the text: final, or more may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    Complete,
    Open,
}

/// The character that an escape begins with, which is also its kind: of URLs, of JSON and programs, of HTML.
pub(super) const MARKS: [u8; 3] = [b'%', b'\\', b'&'];

/// The bytes of `text` as they are.
pub(super) fn plain(text: &[u8]) -> impl Iterator<Item = Unit> {
    text.iter().enumerate().map(|(start, byte)| Unit {
        byte: *byte,
        start,
        end: start + 1,
    })
}

/// The bytes of the view of `text` with its escapes of the kind of `mark` undone.
pub(super) fn undone(text: &[u8], mark: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, from)) = rest
        .iter()
        .position(|byte| *byte == mark)
        .and_then(|at| rest.split_at_checked(at))
    {
        out.extend_from_slice(before);
        let seen = from.get(..LONGEST).unwrap_or(from);
        let length = if let Escape::Of { length, means } = escape(seen) {
            out.extend(means.bytes());
            length
        } else {
            out.push(mark);
            1
        };
        rest = from.get(length..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out.retain(|byte| !matches!(byte, b'\r' | b'\n'));
    out
}

/// A view with its escapes of one kind undone.
pub(super) struct Decoded<I> {
    inner: I,
    mark: u8,
    tail: Tail,
    ahead: VecDeque<Unit>,
    out: VecDeque<Unit>,
    /// Start of an escape that the text ends in the middle of.
    open: Option<usize>,
}

impl<I: Iterator<Item = Unit>> Decoded<I> {
    pub(super) fn new(inner: I, mark: u8, tail: Tail) -> Self {
        Self {
            inner,
            mark,
            tail,
            ahead: VecDeque::new(),
            out: VecDeque::new(),
            open: None,
        }
    }

    /// Returns the start of an escape that the text ends in the middle of; known once the view has ended.
    pub(super) fn open(&self) -> Option<usize> {
        self.open
    }

    fn next_unit(&mut self) -> Option<Unit> {
        if let Some(unit) = self.out.pop_front() {
            return Some(unit);
        }
        if self.ahead.is_empty() {
            self.ahead.push_back(self.inner.next()?);
        }
        let first = *self.ahead.front()?;
        if first.byte != self.mark {
            return self.ahead.pop_front();
        }
        while self.ahead.len() < LONGEST {
            let Some(unit) = self.inner.next() else { break };
            self.ahead.push_back(unit);
        }
        let mut bytes = [0; LONGEST];
        for (slot, unit) in bytes.iter_mut().zip(&self.ahead) {
            *slot = unit.byte;
        }
        let seen = bytes.get(..self.ahead.len()).unwrap_or_default();
        match escape(seen) {
            Escape::Of { length, means } => {
                let end = self.ahead.get(length - 1).map_or(first.end, |last| last.end);
                self.ahead.drain(..length);
                let units = means.bytes().map(|byte| Unit { byte, end, ..first });
                self.out.extend(units);
                self.out.pop_front()
            }
            Escape::Begun if self.tail == Tail::Open && self.ahead.len() < LONGEST => {
                self.open = Some(first.start);
                self.ahead.clear();
                None
            }
            Escape::Begun | Escape::None => self.ahead.pop_front(),
        }
    }
}

impl<I: Iterator<Item = Unit>> Iterator for Decoded<I> {
    type Item = Unit;

    fn next(&mut self) -> Option<Unit> {
        loop {
            let unit = self.next_unit()?;
            if !matches!(unit.byte, b'\r' | b'\n') {
                return Some(unit);
            }
        }
    }
}

enum Escape {
    /// The first `length` bytes are one.
    Of {
        length: usize,
        means: Meaning,
    },
    /// The bytes may be the beginning of an escape.
    Begun,
    None,
}

/// Meaning of an escape: a character, or a byte of one.
struct Meaning {
    bytes: [u8; 4],
    length: usize,
}

impl Meaning {
    fn byte(byte: u8) -> Self {
        Self {
            bytes: [byte, 0, 0, 0],
            length: 1,
        }
    }

    fn char(c: char) -> Self {
        let mut bytes = [0; 4];
        let length = c.encode_utf8(&mut bytes).len();
        Self { bytes, length }
    }

    fn bytes(self) -> impl Iterator<Item = u8> {
        self.bytes.into_iter().take(self.length)
    }
}

fn escape(bytes: &[u8]) -> Escape {
    match bytes {
        [b'%', rest @ ..] => hex_byte(rest, 1),
        [b'\\', b'x', rest @ ..] => hex_byte(rest, 2),
        [b'\\', b'u', rest @ ..] => unicode(rest),
        [b'\\', c, ..] => {
            let c = match c {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'b' => 8,
                b'f' => 12,
                b'"' | b'\'' | b'\\' | b'/' => *c,
                _ => return Escape::None,
            };
            Escape::Of {
                length: 2,
                means: Meaning::byte(c),
            }
        }
        [b'\\'] => Escape::Begun,
        [b'&', rest @ ..] => entity(rest),
        _ => Escape::None,
    }
}

/// Two hexadecimal digits after `before` bytes.
fn hex_byte(digits: &[u8], before: usize) -> Escape {
    match digits {
        [high, low, ..] => match (nibble(*high), nibble(*low)) {
            (Some(high), Some(low)) => Escape::Of {
                length: before + 2,
                means: Meaning::byte(high << 4 | low),
            },
            _ => Escape::None,
        },
        [high] if nibble(*high).is_none() => Escape::None,
        [] | [_] => Escape::Begun,
    }
}

/// Reads an escape after `\u`: four digits, or the two halves of a character beyond the first 65,536.
fn unicode(rest: &[u8]) -> Escape {
    let Some(unit) = rest.get(..4) else {
        let begun = rest.iter().all(|digit| nibble(*digit).is_some());
        return if begun { Escape::Begun } else { Escape::None };
    };
    let Some(high) = number(unit, 16) else {
        return Escape::None;
    };
    if let Some(c) = char::from_u32(high) {
        return Escape::Of {
            length: 6,
            means: Meaning::char(c),
        };
    }
    let behind = rest.get(4..).unwrap_or_default();
    let low = match (behind, behind.get(2..6)) {
        ([b'\\', b'u', ..], Some(low)) => number(low, 16),
        ([] | [b'\\'] | [b'\\', b'u', ..], None) => return Escape::Begun,
        _ => None,
    };
    let c = low
        .filter(|low| (0xDC00..0xE000).contains(low) && (0xD800..0xDC00).contains(&high))
        .and_then(|low| char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)));
    c.map_or(Escape::None, |c| Escape::Of {
        length: 12,
        means: Meaning::char(c),
    })
}

/// Reads an escape after `&`: one of HTML's five names, or a number.
fn entity(rest: &[u8]) -> Escape {
    let Some(end) = rest.iter().position(|byte| *byte == b';') else {
        let begun = rest
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'#');
        return if begun { Escape::Begun } else { Escape::None };
    };
    let c = match rest.get(..end).unwrap_or_default() {
        b"amp" => Some('&'),
        b"lt" => Some('<'),
        b"gt" => Some('>'),
        b"quot" => Some('"'),
        b"apos" => Some('\''),
        [b'#', b'x' | b'X', digits @ ..] => number(digits, 16).and_then(char::from_u32),
        [b'#', digits @ ..] => number(digits, 10).and_then(char::from_u32),
        _ => None,
    };
    c.map_or(Escape::None, |c| Escape::Of {
        length: end + 2,
        means: Meaning::char(c),
    })
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let digits = std::str::from_utf8(digits).ok()?;
    let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u32::from_str_radix(digits, radix).ok().filter(|_| plain)
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sortie_testkit::list;

    use super::*;

    proptest! {
        #[test]
        fn the_quick_way_makes_the_same_bytes(text in "[a-c%\\\\&#;xu0-9dD\\r\\n/é]{0,40}") {
            for mark in MARKS {
                let view = Decoded::new(plain(text.as_bytes()), mark, Tail::Complete);
                let slow: Vec<u8> = view.map(|unit| unit.byte).collect();
                prop_assert_eq!(undone(text.as_bytes(), mark), slow);
            }
        }
    }

    fn decoded(text: &str) -> String {
        let [percent, backslash, ampersand] = MARKS;
        let text = Decoded::new(plain(text.as_bytes()), percent, Tail::Complete);
        let text = Decoded::new(text, backslash, Tail::Complete);
        let text = Decoded::new(text, ampersand, Tail::Complete).map(|unit| unit.byte);
        String::from_utf8_lossy(&text.collect::<Vec<_>>()).into_owned()
    }

    #[test]
    fn every_kind_of_escape_is_undone_and_what_is_none_stays() {
        for (text, means) in [
            ("%41%c3%A9", "Aé"),
            (r"\u0041\u00e9\ud83d\ude00\x41\t\/\\", "Aé😀A\t/\\"),
            ("&lt;&#65;&#x41;&amp;&apos;&quot;&#x1F600;", "<AA&'\"😀"),
            ("a\r\nb\nc", "abc"),
            (r"100% \q \u12 \ud83d &nope; &", r"100% \q \u12 \ud83d &nope; &"),
            ("%", "%"),
            ("&#99999999999;", "&#99999999999;"),
        ] {
            assert_eq!(decoded(text), means, "{text}");
        }
    }

    #[test]
    fn an_escape_that_the_text_ends_in_waits_for_the_rest_only_while_more_may_follow() {
        for text in list! {
            "ab%", "ab%4", r"ab\", r"ab\u00", r"ab\ud83d", r"ab\ud83d\u", "ab&", "ab&#x",
        } {
            let mut open = Decoded::new(plain(text.as_bytes()), text.as_bytes()[2], Tail::Open);
            assert_eq!(
                open.by_ref().map(|unit| unit.byte).collect::<Vec<_>>(),
                b"ab",
                "{text}"
            );
            assert_eq!(open.open(), Some(2), "{text}");
            assert_eq!(decoded(text), text);
        }
        let mut open = Decoded::new(plain(b"ab%zz"), b'%', Tail::Open);
        assert_eq!(open.by_ref().count(), 5);
        assert_eq!(open.open(), None);
    }
}
