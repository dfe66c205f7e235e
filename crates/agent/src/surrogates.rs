//! Escapes `\uXXXX` in JSON, and their surrogate pairs: providers refuse a request that contains half of a pair.

use std::borrow::Cow;

/// Replaces escaped unpaired surrogates by U+FFFD. A text without any is unchanged.
pub fn paired(json: &str) -> Cow<'_, str> {
    let mut whole = String::new();
    let (mut kept, mut at) = (0, 0);
    while let Some(found) = json.get(at..).and_then(|rest| rest.find('\\')) {
        let escape = at + found;
        at = match unit_at(json, escape) {
            Some(0xD800..=0xDBFF) if matches!(unit_at(json, escape + 6), Some(0xDC00..=0xDFFF)) => {
                escape + 12
            }
            Some(0xD800..=0xDFFF) => {
                whole.push_str(json.get(kept..escape).unwrap_or_default());
                whole.push_str("\\ufffd");
                kept = escape + 6;
                kept
            }
            Some(_) => escape + 6,
            // The character that is escaped may be one of several bytes where the text is no JSON.
            None => {
                let escaped = json.get(escape + 1..).and_then(|rest| rest.chars().next());
                escape + 1 + escaped.map_or(0, char::len_utf8)
            }
        };
    }
    if kept == 0 {
        return Cow::Borrowed(json);
    }
    whole.push_str(json.get(kept..).unwrap_or_default());
    Cow::Owned(whole)
}

/// Returns the code unit of the escape `\uXXXX` that begins at this byte. `None` if there is no such escape.
pub fn unit_at(json: &str, at: usize) -> Option<u16> {
    let digits = json.get(at..)?.strip_prefix("\\u")?.get(..4)?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u16::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_of_a_pair_is_replaced_and_a_pair_stays() {
        for (text, expected) in [
            (r"\ud83d\ude00", r"\ud83d\ude00"),
            (r"a\ud99cb", r"a\ufffdb"),
            (r"\ude00", r"\ufffd"),
            (r"\ud83d\ud83d\ude00", r"\ufffd\ud83d\ude00"),
            (r"\ude00\ud83d", r"\ufffd\ufffd"),
            (r"\\ud83d \\\ud83d", r"\\ud83d \\\ufffd"),
            (r"\u00e9 \ud83", r"\u00e9 \ud83"),
            ("\\😀 \\", "\\😀 \\"),
        ] {
            assert_eq!(paired(text), expected, "{text}");
        }
    }
}
