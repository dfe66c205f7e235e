//! Constant texts of SQL: joined, with values in the places of names, and with numbered placeholders.

/// Joins constant texts with commas.
#[doc(hidden)]
#[macro_export]
macro_rules! joined {
    ($first:expr $(, $rest:expr)*) => {
        $crate::constcat::concat!($first $(, ", ", $rest)*)
    };
}

/// Constant text in which values take the places of names: `filled!(SHORT, "@column" = "o.output")`.
#[macro_export]
macro_rules! filled {
    ($text:expr, $name:literal = $value:expr $(,)?) => {{
        const TEXT: &str = $text;
        const VALUE: &str = $value;
        const BYTES: [u8; $crate::texts::filled_length(TEXT, $name, VALUE)] =
            $crate::texts::filled_bytes(TEXT, $name, VALUE);
        const FILLED: &str = $crate::texts::text(&BYTES);
        FILLED
    }};
    ($text:expr, $name:literal = $value:expr, $($names:literal = $values:expr),+ $(,)?) => {
        $crate::filled!($crate::filled!($text, $name = $value), $($names = $values),+)
    };
}

/// Length of `text` with `value` for each `name`.
pub const fn filled_length(text: &str, name: &str, value: &str) -> usize {
    let (mut at, mut names) = (0, 0);
    while at < text.len() {
        names += is_at(text, at, name) as usize;
        at += 1;
    }
    // A text without the name fails to compile here.
    assert!(names > 0, "the text does not have the name");
    text.len() + names * value.len() - names * name.len()
}

/// Bytes of `text` with `value` for each `name`.
#[expect(
    clippy::indexing_slicing,
    reason = "called in constants alone, where a wrong index does not compile"
)]
pub const fn filled_bytes<const LENGTH: usize>(text: &str, name: &str, value: &str) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    let (mut at, mut end) = (0, 0);
    while at < text.len() {
        if is_at(text, at, name) {
            let mut of_value = 0;
            while of_value < value.len() {
                bytes[end] = value.as_bytes()[of_value];
                end += 1;
                of_value += 1;
            }
            at += name.len();
        } else {
            bytes[end] = text.as_bytes()[at];
            end += 1;
            at += 1;
        }
    }
    bytes
}

/// Whether `text` has the whole word `name` at this byte.
#[expect(
    clippy::indexing_slicing,
    reason = "called in constants alone, where a wrong index does not compile"
)]
const fn is_at(text: &str, at: usize, name: &str) -> bool {
    let (text, name) = (text.as_bytes(), name.as_bytes());
    let mut same = 0;
    while same < name.len() && at + same < text.len() && text[at + same] == name[same] {
        same += 1;
    }
    let is_word =
        at + same == text.len() || !(text[at + same].is_ascii_alphanumeric() || text[at + same] == b'_');
    same == name.len() && is_word
}

/// Text of bytes that are UTF-8.
pub const fn text(bytes: &[u8]) -> &str {
    match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => unreachable!(),
    }
}

/// Constant text with a placeholder for each `@`: `numbered!(TEXT, from 3)` numbers them `$3`, `$4` and so on.
#[macro_export]
macro_rules! numbered {
    ($text:expr, from $first:expr) => {{
        const TEXT: &str = $text;
        const BYTES: [u8; $crate::texts::numbered_length(TEXT, $first)] =
            $crate::texts::numbered_bytes(TEXT, $first);
        const NUMBERED: &str = $crate::texts::text(&BYTES);
        NUMBERED
    }};
}

/// Length of `text` with a placeholder for each `@`.
pub const fn numbered_length(text: &str, first: u8) -> usize {
    let (mut at, mut number, mut length) = (0, first, text.len());
    while at < text.len() {
        if is_at(text, at, "@") {
            assert!(number < 100, "a placeholder has at most two digits");
            length += if number < 10 { 1 } else { 2 };
            number += 1;
        }
        at += 1;
    }
    length
}

/// Bytes of `text` with the placeholder number `first` for the first `@`, the next one for the second, and so on.
#[expect(
    clippy::indexing_slicing,
    reason = "called in constants alone, where a wrong index does not compile"
)]
pub const fn numbered_bytes<const LENGTH: usize>(text: &str, first: u8) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    let (mut at, mut end, mut number) = (0, 0, first);
    while at < text.len() {
        let mut byte = text.as_bytes()[at];
        if is_at(text, at, "@") {
            bytes[end] = b'$';
            end += 1;
            if number >= 10 {
                bytes[end] = b'0' + number / 10;
                end += 1;
            }
            byte = b'0' + number % 10;
            number += 1;
        }
        bytes[end] = byte;
        end += 1;
        at += 1;
    }
    bytes
}

/// Highest number of a placeholder in a text; 0 if there is none.
#[expect(
    clippy::indexing_slicing,
    reason = "called in constants alone, where a wrong index does not compile"
)]
pub const fn highest_placeholder(text: &str) -> usize {
    let text = text.as_bytes();
    let (mut at, mut highest) = (0, 0);
    while at < text.len() {
        if text[at] == b'$' {
            let mut number = 0;
            while at + 1 < text.len() && text[at + 1].is_ascii_digit() {
                at += 1;
                number = number * 10 + (text[at] - b'0') as usize;
            }
            if number > highest {
                highest = number;
            }
        }
        at += 1;
    }
    highest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_places_of_names() {
        const SUM: &str = "@cost + @cost % @costs";
        assert_eq!(
            filled!(SUM, "@cost" = "CAST($1 AS BIGINT)"),
            "CAST($1 AS BIGINT) + CAST($1 AS BIGINT) % @costs"
        );
        assert_eq!(
            filled!(SUM, "@cost" = "", "@costs" = filled!("(@é)", "@é" = "ü@")),
            " +  % (ü@)"
        );
    }

    #[test]
    fn placeholders_are_numbered_and_counted() {
        assert_eq!(numbered!("@, @holds, @ + $1", from 9), "$9, @holds, $10 + $1");
        assert_eq!(highest_placeholder("a = $2 AND b = $12 + $1"), 12);
        assert_eq!(highest_placeholder("a"), 0);
    }
}
