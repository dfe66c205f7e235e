//! Checks a JSON text of any type. It must not contain U+0000 (the store cannot save it), half of a surrogate pair (no text has
//! one), or nesting that is too deep to be parsed again. The check is one pass over the bytes; the path is computed only for a
//! refusal. Syntax is not checked here.

use std::{borrow::Cow, fmt::Write as _};

/// Maximum nesting of objects and arrays. One less than the limit of the parser, so that a value that is accepted within a
/// body can also be parsed alone.
pub(crate) const MAX_DEPTH: usize = 127;

/// Maximum length of a path in a message.
const SHOWN_PATH_CHARS: usize = 80;

/// Refused part of a text, with its path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RefusedText {
    /// `files[0].path`; empty at the top.
    pub(crate) path: String,
    /// The rule.
    pub(crate) rule: &'static str,
}

/// Sizes of the strings in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strings {
    /// Length of the longest string, in bytes.
    pub(crate) longest: usize,
    /// Length of the longest string with an escape, in bytes. The parser decodes it in a separate buffer.
    pub(crate) longest_escaped: usize,
}

/// Checks a whole text. Returns the sizes of the strings in it, keys included.
pub(crate) fn check(text: &str) -> Result<Strings, RefusedText> {
    let bytes = text.as_bytes();
    let (mut at, mut depth, mut strings) = (0, 0_usize, Strings::default());
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let string = string(bytes, at + 1).map_err(|(bad, rule)| RefusedText {
                    path: path_at(text, bad),
                    rule,
                })?;
                let length = string.behind - at;
                strings.longest = strings.longest.max(length);
                if string.is_escaped {
                    strings.longest_escaped = strings.longest_escaped.max(length);
                }
                at = string.behind;
                continue;
            }
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    let rule = "must not be nested deeper than 127 levels";
                    return Err(RefusedText {
                        path: path_at(text, at),
                        rule,
                    });
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    Ok(strings)
}

/// Returns a checked text with all strings longer than `most` bytes truncated. The structure stays the same, for a parser that
/// quotes strings in its errors.
pub(crate) fn cut_strings(text: &str, most: usize) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let (mut cut, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(byte) = bytes.get(at) {
        if *byte != b'"' {
            at += 1;
            continue;
        }
        let (begin, mut end) = (at + 1, at + 1);
        at = begin;
        while let Some(byte) = bytes.get(at).filter(|byte| **byte != b'"') {
            if at - begin <= most && text.is_char_boundary(at) {
                end = at;
            }
            at += match byte {
                b'\\' => step(bytes, at).unwrap_or(2),
                _ => 1,
            };
        }
        if at - begin > most {
            cut.push_str(text.get(copied..end).unwrap_or_default());
            copied = at.min(text.len());
        }
        at += 1;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    cut.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(cut)
}

struct JsonString {
    /// Position after the string.
    behind: usize,
    is_escaped: bool,
}

/// Scans the string that begins at `at`. An error has the position of the invalid byte.
fn string(bytes: &[u8], mut at: usize) -> Result<JsonString, (usize, &'static str)> {
    let mut is_escaped = false;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at += 1;
                break;
            }
            b'\\' => {
                is_escaped = true;
                at += step(bytes, at).map_err(|rule| (at, rule))?;
            }
            _ => at += 1,
        }
    }
    Ok(JsonString {
        behind: at,
        is_escaped,
    })
}

/// Length of the escape at `at`, in bytes. The error is the rule that it breaks.
fn step(bytes: &[u8], at: usize) -> Result<usize, &'static str> {
    if bytes.get(at + 1) != Some(&b'u') {
        return Ok(2);
    }
    match code_unit(bytes, at) {
        Some(0) => Err("must not contain U+0000"),
        Some(0xD800..=0xDBFF) if matches!(code_unit(bytes, at + 6), Some(0xDC00..=0xDFFF)) => Ok(12),
        Some(0xD800..=0xDFFF) => Err("must not contain half a surrogate pair"),
        Some(_) => Ok(6),
        None => Ok(2),
    }
}

/// Parses the four hexadecimal digits after `\u` at `at`.
fn code_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    if !escape.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(escape).ok()?, 16).ok()
}

enum Frame<'a> {
    Object { key: &'a str, key_is_next: bool },
    Array { index: usize },
}

/// Returns the path of the value at position `end`.
fn path_at(text: &str, end: usize) -> String {
    let bytes = text.as_bytes();
    let mut stack: Vec<Frame<'_>> = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at).filter(|_| at < end) {
        match byte {
            b'"' => {
                let behind = skip_string(bytes, at + 1);
                if let Some(Frame::Object {
                    key,
                    key_is_next: next @ true,
                }) = stack.last_mut()
                {
                    *key = text.get(at + 1..behind.saturating_sub(1)).unwrap_or_default();
                    *next = false;
                }
                at = behind;
                continue;
            }
            b'{' => stack.push(Frame::Object {
                key: "",
                key_is_next: true,
            }),
            b'[' => stack.push(Frame::Array { index: 0 }),
            b'}' | b']' => {
                stack.pop();
            }
            b',' => match stack.last_mut() {
                Some(Frame::Object { key_is_next, .. }) => *key_is_next = true,
                Some(Frame::Array { index }) => *index += 1,
                None => {}
            },
            _ => {}
        }
        at += 1;
    }
    shown(&stack)
}

fn skip_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

fn shown(stack: &[Frame<'_>]) -> String {
    let mut path = String::new();
    for frame in stack {
        match frame {
            Frame::Object { key: "", .. } => {}
            Frame::Object { key, .. } => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
            }
            Frame::Array { index } => {
                // Writing to a String cannot fail.
                let _written = write!(path, "[{index}]");
            }
        }
    }
    if let Some((cut, _)) = path.char_indices().nth(SHOWN_PATH_CHARS) {
        path.truncate(cut);
        path.push('…');
    }
    path
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn refused(text: &str) -> (String, &'static str) {
        let refusal = check(text).unwrap_err();
        (refusal.path, refusal.rule)
    }

    #[test]
    fn u0000_is_refused_wherever_it_hides_and_the_place_is_named() {
        let rule = "must not contain U+0000";
        for (text, path) in [
            (r#"{"prompt":"a\u0000b"}"#, "prompt"),
            (r#"{"input":{"a":[1,{"b":"\u0000"}]}}"#, "input.a[1].b"),
            (
                r#"{"files":[{"path":"x","content":"\\\u0000"}]}"#,
                "files[0].content",
            ),
            (r#"{"connections":{"a\u0000":{}}}"#, "connections.a\\u0000"),
            (r#"["\u0000"]"#, "[0]"),
            (r#""\u0000""#, ""),
        ] {
            assert_eq!(refused(text), (path.to_owned(), rule), "{text}");
        }
    }

    #[test]
    fn an_escaped_backslash_before_u0000_is_plain_text() {
        assert!(check(r#"{"prompt":"\\u0000"}"#).is_ok());
        assert!(check(r#"{"prompt":"\"\\\\u0000"}"#).is_ok());
    }

    #[test]
    fn half_a_surrogate_pair_is_refused_and_a_whole_one_is_not() {
        for text in [
            r#"{"input":"\ud800"}"#,
            r#"{"input":"\udc00"}"#,
            r#"{"input":"\ud800\ud800"}"#,
        ] {
            assert_eq!(refused(text).0, "input");
        }
        assert!(check(r#"{"input":"\ud83d\ude00"}"#).is_ok());
    }

    #[test]
    fn nesting_is_refused_above_the_limit_only() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(check(&nested(MAX_DEPTH)).is_ok());
        assert!(serde_json::from_str::<serde_json::Value>(&nested(MAX_DEPTH)).is_ok());
        assert!(refused(&nested(MAX_DEPTH + 1)).1.contains("127"));
        assert!(refused(&nested(1_000_000)).0.chars().count() <= SHOWN_PATH_CHARS + 1);
        assert!(
            check(&format!("\"{}\"", "[".repeat(1_000))).is_ok(),
            "brackets in a text are not nesting"
        );
    }

    #[test]
    fn the_longest_strings_are_measured() {
        for (text, longest, longest_escaped) in [
            ("{}", 0, 0),
            (r#"{"abc":["d"]}"#, 5, 0),
            (r#"{"abc":["\n"]}"#, 5, 4),
            (r#"["a\u0041","abcdefghijk"]"#, 13, 9),
            (r#"["unended"#, 8, 0),
        ] {
            let measured = Strings {
                longest,
                longest_escaped,
            };
            assert_eq!(check(text), Ok(measured), "{text}");
        }
    }

    #[test]
    fn long_strings_are_cut_between_characters_and_escapes() {
        for (text, cut) in [
            (r#"{"abc":"abc"}"#, r#"{"abc":"abc"}"#),
            (r#"{"abcd":["abcdef",1]}"#, r#"{"abc":["abc",1]}"#),
            (r#"["aäö"]"#, r#"["aä"]"#),
            (r#"["ab\"cd",""]"#, r#"["ab",""]"#),
            (r#"["\u0041"]"#, r#"[""]"#),
        ] {
            assert_eq!(cut_strings(text, 3), cut);
        }
        assert!(matches!(cut_strings(r#"["abc"]"#, 3), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn what_passes_and_parses_holds_no_u0000(text in r#"(\{"[a\\u0]{0,8}":)?["\\u0dD8Cc\[\]{},ax]{0,40}\}?"#) {
            if check(&text).is_ok() && let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) {
                prop_assert!(!value.to_string().contains("\\u0000"));
            }
        }

        #[test]
        fn what_the_parser_takes_without_u0000_passes(text in "\\PC{0,60}") {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert!(check(&json).is_ok());
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>(), most in 0..9_usize) {
            let _checked = check(&text);
            let _cut = cut_strings(&text, most);
        }

        #[test]
        fn a_text_with_cut_strings_has_the_same_form(texts in vec("(\\PC|\u{1}|\u{1F600}){0,9}", 0..4), most in 0..9_usize) {
            let json = serde_json::json!({"a": texts, "b": [null, 1.5, {"c": true}]}).to_string();
            let json = json.replace('a', "\\u0061");
            let cut: serde_json::Value = serde_json::from_str(&cut_strings(&json, most)).unwrap();
            if most > 6 {
                prop_assert_eq!(&cut["b"], &serde_json::json!([null, 1.5, {"c": true}]));
                let shown = cut["a"].as_array().unwrap();
                prop_assert_eq!(shown.len(), texts.len());
                for (shown, text) in shown.iter().zip(&texts) {
                    prop_assert!(text.starts_with(shown.as_str().unwrap()));
                }
            }
        }
    }
}
