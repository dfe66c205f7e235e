//! Prepares untrusted text for display: with a maximum length, and without characters that hide or reorder it.

use std::borrow::Cow;

/// Truncates `text` to at most `limit` bytes at a character boundary, with a note about the missing length.
pub(crate) fn bounded(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let head = head(text, limit);
    Cow::Owned(format!(
        "{head}\n[… {} bytes left out …]",
        text.len() - head.len()
    ))
}

/// Returns the first part of `text`, at most `limit` bytes, ending at a character boundary.
pub(crate) fn head(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit.min(text.len())))
        .unwrap_or_default()
}

/// Returns one line of at most `limit` bytes, for errors.
pub(crate) fn line(text: &str, limit: usize) -> String {
    let words = visible(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if words.len() <= limit {
        return words;
    }
    format!("{}…", head(&words, limit))
}

/// Removes characters that are invisible or change the order of others: control characters other than line feed and tab,
/// bidirectional overrides, zero-width and tag characters.
pub(crate) fn visible(text: &str) -> String {
    text.chars().filter(|c| !is_hidden(*c)).collect()
}

fn is_hidden(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hidden_instructions_are_taken_out() {
        assert_eq!(
            visible("a\u{e0041}\u{200b}b\u{202e}c\u{1b}[0m\r\nd\te"),
            "abc[0m\nd\te"
        );
    }

    proptest! {
        #[test]
        fn a_bounded_text_is_its_beginning_and_says_what_is_missing(text in any::<String>(), limit in 0_usize..40) {
            let shown = bounded(&text, limit);
            if text.len() <= limit {
                prop_assert_eq!(&*shown, &*text);
            } else {
                let (before, rest) = shown.rsplit_once("\n[… ").ok_or_else(|| TestCaseError::fail("no mark"))?;
                let missing: usize = rest.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
                prop_assert!(text.starts_with(before) && before.len() <= limit);
                prop_assert_eq!(before.len() + missing, text.len());
            }
        }

        #[test]
        fn a_line_has_no_breaks_and_is_bounded(text in any::<String>(), limit in 0_usize..40) {
            let line = line(&text, limit);
            prop_assert!(!line.contains('\n') && line.len() <= limit + '…'.len_utf8());
        }
    }
}
