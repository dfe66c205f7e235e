//! Lenient readings of single values.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

/// A text. What is null, an object or left out is an empty one; of an array of parts it is their `text`. It is
/// borrowed from the event where nothing in it is escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor).map(Self)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(""))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        #[derive(Deserialize)]
        struct Part<'a> {
            #[serde(borrow, default)]
            text: Text<'a>,
        }
        let mut text = String::new();
        while let Some(part) = parts.next_element::<Part<'_>>()? {
            text.push_str(&part.text.0);
        }
        Ok(Cow::Owned(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Cow::Borrowed(""))
    }
}

/// A figure of at least 0. What is null, negative or no number is 0; a float is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Option::<serde_json::Number>::deserialize(deserializer)?;
        let float = |number: &serde_json::Number| number.as_f64().filter(|float| *float > 0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is positive; what is above the largest integer becomes that"
        )]
        let count = number.and_then(|number| number.as_u64().or(float(&number).map(|float| float as u64)));
        Ok(Self(count.unwrap_or_default()))
    }
}

/// The arguments of a call: meant to be a text, sent as an object by some servers.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Arguments<'a>(#[serde(borrow)] &'a RawValue);

impl<'a> Arguments<'a> {
    /// Their text, or the next piece of it.
    pub(crate) fn text(self) -> Result<Cow<'a, str>, serde_json::Error> {
        if self.0.get().starts_with('{') {
            return Ok(Cow::Borrowed(self.0.get()));
        }
        serde_json::from_str(self.0.get()).map(|Text(text)| text)
    }
}

/// Whether a text is one whole JSON object.
pub(crate) fn is_object(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok_and(|value| value.get().starts_with('{'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> String {
        serde_json::from_str::<Text<'_>>(json).unwrap().0.into_owned()
    }

    #[test]
    fn a_text_is_read_from_every_form_it_is_sent_in() {
        assert_eq!(text(r#""a\n""#), "a\n");
        assert_eq!(text("null"), "");
        assert_eq!(text(r#"{"x":[1]}"#), "");
        assert_eq!(
            text(
                r#"[{"type":"thinking","thinking":[{"type":"text","text":"no"}]},{"type":"text","text":"yes"}]"#
            ),
            "yes"
        );
        assert!(serde_json::from_str::<Text<'_>>("5").is_err());
    }

    #[test]
    fn a_text_without_escapes_is_borrowed() {
        let read: Text<'_> = serde_json::from_str(r#""plain""#).unwrap();
        assert!(matches!(read.0, Cow::Borrowed("plain")));
    }

    #[test]
    fn a_figure_is_read_from_every_form_it_is_sent_in() {
        for (json, count) in [
            ("7", 7),
            ("7.9", 7),
            ("-3", 0),
            ("-3.5", 0),
            ("null", 0),
            ("1e300", u64::MAX),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(
                serde_json::from_str::<Count>(json).unwrap(),
                Count(count),
                "{json}"
            );
        }
        assert!(serde_json::from_str::<Count>("\"7\"").is_err());
    }

    #[test]
    fn arguments_come_as_a_text_or_as_an_object() {
        for (json, expected) in [
            (r#""{\"a\": 1}""#, r#"{"a": 1}"#),
            (r#"{ "a":1 }"#, r#"{ "a":1 }"#),
            ("null", ""),
        ] {
            let arguments: Arguments<'_> = serde_json::from_str(json).unwrap();
            assert_eq!(arguments.text().unwrap(), expected);
        }
    }
}
