//! Arguments of tool calls. A model writes them, so they can be anything.

use serde_json::value::RawValue;

/// Returns `text` unchanged if it is a JSON object, and the empty object otherwise. The provider accepts only objects, and the
/// result of the call already explains the mistake.
pub(crate) fn object(text: &str) -> &RawValue {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(value) if value.get().starts_with('{') => value,
        Ok(_) | Err(_) => empty(),
    }
}

fn empty() -> &'static RawValue {
    // `null` is impossible here because the text is a valid object, but `RawValue` has no constant for one.
    serde_json::from_str("{}").unwrap_or(RawValue::NULL)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_object_stays_as_it_was_written_and_anything_else_is_empty() {
        assert_eq!(object(" { \"n\" : 1.0e0 }\n").get(), "{ \"n\" : 1.0e0 }");
        for text in ["", " ", "[1]", "null", "\"{}\"", "{\"a\":", "{} {}", "x"] {
            assert_eq!(object(text).get(), "{}", "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_a_model_writes_is_sent_back_as_an_object(text in any::<String>()) {
            let value: serde_json::Value = serde_json::from_str(object(&text).get()).unwrap();
            prop_assert!(value.is_object());
        }
    }
}
