//! Makes JSON from a model fit for an event: one object, on one line, not nested more deeply than every parser can read.

use serde_json::value::RawValue;

use crate::weak::near_json::{self, Closing, Unreadable};

/// Levels of nesting that common JSON parsers still read.
const DEPTH: usize = 100;

/// Reason why a text is not a JSON object; the message is for the model that wrote it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadObject {
    #[error("they are cut off in {}; write less in one call, for instance a large file in several parts", .0.field())]
    CutOff(Unreadable),
    #[error("{0}")]
    Malformed(Unreadable),
    #[error("they must be a JSON object")]
    NoObject,
    #[error("nested deeper than {DEPTH} levels")]
    TooDeep,
}

impl From<Unreadable> for BadObject {
    fn from(why: Unreadable) -> Self {
        if why.is_cut {
            Self::CutOff(why)
        } else {
            Self::Malformed(why)
        }
    }
}

/// `text` without the white space between its parts, or the reason why it is not a JSON object. Numbers stay verbatim. An empty
/// text counts as an object without fields: some providers send it for a call without arguments. An object within a JSON string
/// is extracted: models encode arguments twice.
pub(crate) fn compact_object(text: &str) -> Result<Box<RawValue>, BadObject> {
    match serde_json::from_str::<String>(text) {
        Ok(inner) if inner.trim_start().starts_with('{') => compact(&inner),
        Ok(_) | Err(_) => compact(text),
    }
}

fn compact(text: &str) -> Result<Box<RawValue>, BadObject> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let repaired;
    let value: &RawValue = if let Ok(value) = serde_json::from_str(text) {
        value
    } else {
        repaired = near_json::object(text, Closing::Required)?;
        serde_json::from_str(&repaired).map_err(|_| BadObject::NoObject)?
    };
    if !value.get().starts_with('{') {
        return Err(BadObject::NoObject);
    }
    let mut out = String::with_capacity(value.get().len());
    let (mut in_string, mut escaped, mut depth) = (false, false, 0_usize);
    for c in value.get().chars() {
        if in_string {
            (in_string, escaped) = match c {
                _ if escaped => (true, false),
                '\\' => (true, true),
                '"' => (false, false),
                _ => (true, false),
            };
        } else {
            match c {
                ' ' | '\t' | '\r' | '\n' => continue,
                '"' => in_string = true,
                '{' | '[' => depth += 1,
                '}' | ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > DEPTH {
                return Err(BadObject::TooDeep);
            }
        }
        out.push(c);
    }
    RawValue::from_string(out).map_err(|_| BadObject::NoObject)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<String>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec(("[a \\\\\"]{0,4}", inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_compacted_object_is_one_line_with_the_same_value(value in json()) {
            let value = serde_json::json!({ "v": value });
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            let compact = compact_object(&pretty).unwrap();
            prop_assert!(!compact.get().contains(['\n', '\r']));
            prop_assert_eq!(serde_json::from_str::<Value>(compact.get()).unwrap(), value);
        }

        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = compact_object(&text);
        }
    }

    #[test]
    fn what_is_no_object_is_refused_with_the_reason() {
        assert_eq!(
            compact_object("[1]").unwrap_err().to_string(),
            "they must be a JSON object"
        );
        assert!(matches!(compact_object("{\"a\":"), Err(BadObject::CutOff(_))));
        assert!(matches!(compact_object("{\"a\":]"), Err(BadObject::Malformed(_))));
        assert_eq!(compact_object(" ").unwrap().get(), "{}");
        assert_eq!(compact_object(r#""{\"a\": 1}""#).unwrap().get(), r#"{"a":1}"#);
        assert_eq!(
            compact_object(r#""a""#).unwrap_err().to_string(),
            "they must be a JSON object"
        );
        assert_eq!(
            compact_object("{ \"n\": 12345678901234567890123 }")
                .unwrap()
                .get(),
            "{\"n\":12345678901234567890123}"
        );
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(
            compact_object(&deep).unwrap_err().to_string(),
            "nested deeper than 100 levels"
        );
    }
}
