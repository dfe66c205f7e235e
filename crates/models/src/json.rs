//! Repair of invalid JSON from servers and models.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::surrogates::unit_at;

/// Repairs a text that is not quite JSON. Invalid values become null, so that only their field is lost: Python writes `NaN` and
/// `Infinity`, C `nan` and `-inf`. Control characters and unknown escapes in strings become characters of the string. Other
/// errors remain, and valid JSON is unchanged. Takes linear time.
pub(crate) fn readable(text: &str) -> Cow<'_, str> {
    if is_json(text) {
        return Cow::Borrowed(text);
    }
    let mut whole = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '"' || is_of_scalar(c)) {
        let (before, from) = rest.split_at(at);
        whole.push_str(before);
        rest = match from.strip_prefix('"') {
            Some(string) => push_string(string, &mut whole),
            None => push_scalar(from, &mut whole),
        };
    }
    whole.push_str(rest);
    Cow::Owned(whole)
}

/// Whether a text is one JSON value.
pub(crate) fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Whether a character can be part of a number or word outside of strings.
fn is_of_scalar(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '+' | '-' | '.' | '_' | '(' | ')')
}

/// Appends the number or word at the start of `text`. Returns the rest.
fn push_scalar<'a>(text: &'a str, whole: &mut String) -> &'a str {
    let end = text.find(|c| !is_of_scalar(c)).unwrap_or(text.len());
    let (scalar, rest) = text.split_at(end);
    whole.push_str(if is_json(scalar) { scalar } else { "null" });
    rest
}

/// Appends the string whose opening quote precedes `text`. Returns the rest.
fn push_string<'a>(text: &'a str, whole: &mut String) -> &'a str {
    whole.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| matches!(c, '"' | '\\') || u32::from(c) < 0x20) {
        let (before, from) = rest.split_at(at);
        whole.push_str(before);
        let mut characters = from.chars();
        let special = characters.next();
        rest = characters.as_str();
        match special {
            Some('"') => {
                whole.push('"');
                return rest;
            }
            Some('\\') => match rest.chars().next() {
                Some(next) if is_escape(next, from) => {
                    whole.extend(['\\', next]);
                    rest = characters_after(rest);
                }
                Some(_) => whole.push_str("\\\\"),
                None => whole.push('\\'),
            },
            Some(control) => {
                let digits = format!("{:04x}", u32::from(control));
                whole.extend(["\\u", &digits]);
            }
            None => {}
        }
    }
    whole.push_str(rest);
    ""
}

/// Whether `text` starts with a valid escape. `next` is the character after its backslash.
fn is_escape(next: char, text: &str) -> bool {
    match next {
        '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => true,
        'u' => unit_at(text, 0).is_some(),
        _ => false,
    }
}

fn characters_after(text: &str) -> &str {
    let mut characters = text.chars();
    characters.next();
    characters.as_str()
}

/// Returns the objects in a sequence of values, including those in its lists. Some servers send several objects instead of one.
pub(crate) fn objects(text: &str) -> serde_json::Result<Vec<&RawValue>> {
    let is_object = |value: &&RawValue| value.get().starts_with('{');
    let mut objects = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let value = value?;
        if value.get().starts_with('[') {
            let values: Vec<&RawValue> = serde_json::from_str(value.get())?;
            objects.extend(values.into_iter().filter(is_object));
        } else {
            objects.extend(Some(value).filter(is_object));
        }
    }
    Ok(objects)
}

/// Detects the end of a JSON object that arrives in pieces, and reads each piece only once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ObjectEnd {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    state: Place,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Before,
    Within,
    Behind,
    /// The text is not an object.
    Elsewhere,
}

impl ObjectEnd {
    /// Scans the next piece.
    pub(crate) fn push(&mut self, piece: &str) {
        for byte in piece.bytes() {
            self.take(byte);
        }
    }

    /// Whether the pieces so far form one complete object.
    pub(crate) fn is_whole(self) -> bool {
        self.state == Place::Behind
    }

    fn take(&mut self, byte: u8) {
        match (self.state, byte) {
            (Place::Before, b'{') => {
                self.depth = 1;
                self.state = Place::Within;
            }
            (Place::Before | Place::Behind, byte) if !byte.is_ascii_whitespace() => {
                self.state = Place::Elsewhere;
            }
            (Place::Within, _) if self.is_escaped => self.is_escaped = false,
            (Place::Within, b'\\') if self.in_string => self.is_escaped = true,
            (Place::Within, b'"') => self.in_string = !self.in_string,
            (Place::Within, b'{' | b'[') if !self.in_string => self.depth += 1,
            (Place::Within, b'}' | b']') if !self.in_string => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.state = Place::Behind;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_no_json_costs_its_field_and_not_the_text() {
        for (text, expected) in [
            (
                r#"{"a":NaN,"b":[Infinity,-Infinity,1]}"#,
                json!({"a": null, "b": [null, null, 1]}),
            ),
            (
                r#"{"a":nan,"b":-inf,"c":-nan(ind),"d":"NaN"}"#,
                json!({"a": null, "b": null, "c": null, "d": "NaN"}),
            ),
            (
                r#"{"a":undefined,"b":True,"c":0x1F,"d":01,"e":.5}"#,
                json!({"a": null, "b": null, "c": null, "d": null, "e": null}),
            ),
            ("{\"a\":\"x\ty\nz\"}", json!({"a": "x\ty\nz"})),
            (
                r#"{"a":"it\'s \x41 \u12","b":NaN}"#,
                json!({"a": "it\\'s \\x41 \\u12", "b": null}),
            ),
            (
                r#"{"a":"\"NaN\"\\","b":NaN}"#,
                json!({"a": "\"NaN\"\\", "b": null}),
            ),
        ] {
            let read: Value = serde_json::from_str(&readable(text)).unwrap();
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_broken_stays_broken_and_a_whole_one_is_left_alone() {
        for text in [
            "",
            "{",
            r#"{"a":"#,
            r#"{"a":"x"#,
            "{]",
            "hello there",
            "{a: 1}",
            "\"\\",
            "\"\\u12",
        ] {
            assert!(!is_json(&readable(text)), "{text}");
        }
        for text in ["{}", " [1.5e3, -0] ", r#"{"a":"\ud83d"}"#] {
            assert!(matches!(readable(text), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn objects_are_found_alone_in_a_row_and_in_lists() {
        let found = |text| -> Option<Vec<&str>> {
            let objects = objects(text).ok()?;
            Some(objects.into_iter().map(RawValue::get).collect())
        };
        for (text, expected) in [
            ("{\"a\": 1}", Some(vec!["{\"a\": 1}"])),
            ("{}\n{} {}", Some(vec!["{}"; 3])),
            ("[{}, 1, [{}], {}] null {}", Some(vec!["{}"; 3])),
            ("[]", Some(vec![])),
            ("{} {", None),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn the_end_of_an_object_is_found_in_any_pieces() {
        for (text, is_whole) in [
            ("{}", true),
            (" {\"a\": \"}\\\"{\", \"b\": [{}]} \n", true),
            ("{\"a\": {}", false),
            ("", false),
            ("{} {}", false),
            ("{}x", false),
            ("[{}]", false),
            ("x{}", false),
        ] {
            let mut end = ObjectEnd::default();
            for piece in text.split_inclusive(['"', '}']) {
                end.push(piece);
            }
            assert_eq!(end.is_whole(), is_whole, "{text}");
        }
    }

    /// Texts of JSON fragments and of invalid fragments.
    fn text() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"", "\"a\":", "\\", "\\u", "\\ud83d", "\\ude00", "\\n", "NaN",
            "-", "1", "é", "\n", "\0", "null", "(", "Infinity",
        ]);
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn a_second_reading_changes_nothing(text in text()) {
            let once = readable(&text).into_owned();
            if is_json(&once) {
                prop_assert_eq!(readable(&once), once.as_str());
            }
        }

        #[test]
        fn an_object_ends_where_the_parser_says(text in text()) {
            let mut end = ObjectEnd::default();
            end.push(&text);
            let value = serde_json::from_str::<&RawValue>(&text);
            let is_object = value.is_ok_and(|value| value.get().starts_with('{'));
            prop_assert!(end.is_whole() || !is_object, "{}", text);
        }
    }
}
