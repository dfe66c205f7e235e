//! Sanitizes untrusted text for events, databases and models: valid UTF-8, no U+0000, bounded.

use std::borrow::Cow;

/// `text` with U+FFFD in place of U+0000, which PostgreSQL does not hold.
pub(crate) fn clean(mut text: String) -> String {
    if text.as_bytes().contains(&0) {
        text = text.replace('\0', "\u{fffd}");
    }
    text
}

/// `bytes` as text, with U+FFFD in place of invalid UTF-8 and of U+0000.
pub(crate) fn clean_bytes(bytes: Vec<u8>) -> String {
    clean(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// The line that replaces `bytes` of omitted text.
pub(crate) fn left_out(bytes: u64) -> String {
    format!("\n[… {bytes} bytes left out …]\n")
}

/// A number with a comma before each three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Line number prefix, with a tab after the number.
pub(crate) fn line_number(line: impl std::fmt::Display) -> String {
    format!("{line:>6}\t")
}

/// The first part of `text`, at most `limit` bytes, ending between characters.
pub(crate) fn head(text: &str, limit: usize) -> &str {
    let end = text.floor_char_boundary(limit.min(text.len()));
    text.get(..end).unwrap_or_default()
}

/// The last part of `text`, at most `limit` bytes, beginning between characters.
pub(crate) fn tail(text: &str, limit: usize) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(limit));
    text.get(start..).unwrap_or_default()
}

/// `text` in at most `limit` bytes (plus the line that reports the omission): its head and its tail.
pub(crate) fn bounded(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let (head, tail) = (head(text, limit - limit / 2), tail(text, limit / 2));
    let gone = text.len() - head.len() - tail.len();
    Cow::Owned(format!("{head}{}{tail}", left_out(gone as u64)))
}

/// Bounds an owned text; nothing is copied if it is short enough.
pub(crate) fn bounded_owned(text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    bounded(&text, limit).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn large_numbers_are_grouped() {
        let shown = [0, 7, 999, 1_000, 83_411, 1_048_576].map(grouped);
        assert_eq!(shown, ["0", "7", "999", "1,000", "83,411", "1,048,576"]);
    }

    proptest! {
        #[test]
        fn any_bytes_become_text_without_nul(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(!clean_bytes(bytes).contains('\0'));
        }

        #[test]
        fn a_bounded_text_keeps_its_head_and_its_tail(text in any::<String>(), limit in 0_usize..64) {
            let bounded = bounded(&text, limit);
            if text.len() <= limit {
                prop_assert_eq!(&*bounded, &*text);
            } else {
                let (before, rest) = bounded.split_once("\n[… ").ok_or_else(|| TestCaseError::fail("no mark"))?;
                let (gone, after) = rest.rsplit_once(" bytes left out …]\n").ok_or_else(|| TestCaseError::fail("no end"))?;
                prop_assert!(text.starts_with(before) && text.ends_with(after));
                prop_assert!(before.len() + after.len() <= limit);
                prop_assert_eq!(gone.parse::<usize>().ok(), Some(text.len() - before.len() - after.len()));
            }
        }
    }
}
