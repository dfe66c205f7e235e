//! JSON for single-line contexts: event data, server-sent events, line-delimited output.

use serde::Serialize;

/// `value` as JSON without any character that a client may take for the end of a line. JSON escapes CR and LF by
/// itself; U+0085, U+2028 and U+2029 are escaped here, because some clients split lines at them.
pub fn to_line<T: Serialize + ?Sized>(value: &T) -> Result<String, serde_json::Error> {
    serde_json::to_string(value).map(in_line)
}

/// Escapes the characters of a JSON text that a client may take for the end of a line. They are in strings alone.
pub fn in_line(text: String) -> String {
    // Both separators and U+0085 start with one of two lead bytes: a text without them needs no change.
    if text.bytes().all(|byte| byte != 0xE2 && byte != 0xC2) {
        return text;
    }
    text.replace('\u{85}', "\\u0085")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_becomes_one_line_and_is_read_back(text in any::<String>()) {
            let line = to_line(&text).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let breaks = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];
            prop_assert!(!line.contains(breaks));
            prop_assert_eq!(serde_json::from_str::<String>(&line).ok(), Some(text));
        }
    }

    #[test]
    fn the_separators_are_escaped() {
        assert_eq!(
            to_line("a\u{2028}b\u{85}\u{2029}").ok().as_deref(),
            Some(r#""a\u2028b\u0085\u2029""#)
        );
    }
}
