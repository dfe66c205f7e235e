//! Lenient parsing of the values in events, for all protocols.
//!
//! Many servers deviate slightly from these protocols. A text can be null or split into parts, a number can be a float or a
//! text, and a list can be a single object: all of these are accepted. A field of any other type counts as missing and does not
//! affect other fields.

use std::{
    borrow::Cow,
    fmt,
    marker::PhantomData,
    ops::{Deref, RangeInclusive},
};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::value::RawValue;

/// An object of this type, or `None` if the value is not an object. Numbers beyond the range of floats and texts with unpaired
/// surrogates in its position still make the event unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Object<T>(pub(crate) Option<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let List(objects) = deserializer.deserialize_any(Objects {
            of_lists: false,
            kind: PhantomData,
        })?;
        Ok(Self(objects.into_iter().next()))
    }
}

/// Reads objects in one pass: most of an event is nested objects, and an answer has hundreds of events.
struct Objects<T> {
    /// Whether to collect the objects of a list as well.
    of_lists: bool,
    kind: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Objects<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<List<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|object| List(vec![object]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<List<T>, A::Error> {
        if !self.of_lists {
            while values.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(List::default());
        }
        let mut objects = Vec::new();
        while let Some(Object(object)) = values.next_element()? {
            objects.extend(object);
        }
        Ok(List(objects))
    }

    fn visit_unit<E>(self) -> Result<List<T>, E> {
        Ok(List::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<List<T>, E> {
        Ok(List::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<List<T>, E> {
        Ok(List::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<List<T>, E> {
        Ok(List::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<List<T>, E> {
        Ok(List::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<List<T>, E> {
        Ok(List::default())
    }
}

/// The values of a list. A single object is a list of one, any other value an empty list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values<'a>(pub(crate) Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Values<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Self::of(raw).map_err(D::Error::custom)
    }
}

impl<'a> Values<'a> {
    fn of(raw: &'a RawValue) -> serde_json::Result<Self> {
        Ok(Self(match raw.get().as_bytes().first() {
            Some(b'[') => serde_json::from_str(raw.get())?,
            Some(b'{') => vec![raw],
            Some(_) | None => Vec::new(),
        }))
    }
}

/// The objects of a list, see [`Values`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Objects {
            of_lists: true,
            kind: PhantomData,
        })
    }
}

/// A count of at least 0, from a number in any format or a text. Floats are truncated. `None` for any other value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) Option<u64>);

impl Count {
    /// Returns the count, or 0 if there is none.
    pub(crate) fn get(self) -> u64 {
        self.0.unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let figure = raw.trim_matches('"').trim();
        let is_figure = figure.starts_with(|c: char| c.is_ascii_digit());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is positive; what is above the largest integer becomes that"
        )]
        let float = || {
            let float: f64 = figure.parse().ok()?;
            float.is_finite().then_some(float as u64)
        };
        Ok(Self(if is_figure {
            figure.parse().ok().or_else(float)
        } else {
            None
        }))
    }
}

/// A text. Null, an object or a missing value is an empty text; an array of parts is the concatenation of their `text`; a number
/// is its digits. Borrows from the event unless the text contains escapes.
///
/// Servers split texts between the two halves of a surrogate pair. A half is kept as the three bytes that UTF-8 would use for
/// it, until [`Joined`] finds the other half.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece<'a>(Cow<'a, [u8]>);

impl<'a> Piece<'a> {
    /// Returns only this text. An unpaired surrogate becomes U+FFFD.
    pub(crate) fn into_text(self) -> Cow<'a, str> {
        let bytes = match self.0 {
            Cow::Borrowed(bytes) => match str::from_utf8(bytes) {
                Ok(text) => return Cow::Borrowed(text),
                Err(_) => bytes.to_vec(),
            },
            Cow::Owned(bytes) => bytes,
        };
        Cow::Owned(String::from_utf8(bytes).unwrap_or_else(|error| {
            let mut joined = Joined::default();
            joined.push_bytes(error.as_bytes());
            joined.into_text()
        }))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn of(raw: &'a str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Part<'a> {
            #[serde(borrow, default)]
            text: Option<&'a RawValue>,
        }
        Ok(match raw.as_bytes().first() {
            Some(b'"') => Self(string(raw)?),
            Some(b'[') => {
                let mut whole = Vec::new();
                for part in serde_json::from_str::<Vec<&RawValue>>(raw)? {
                    let text = if part.get().starts_with('"') {
                        Some(part)
                    } else {
                        serde_json::from_str::<Part<'_>>(part.get())
                            .ok()
                            .and_then(|part| part.text)
                    };
                    if let Some(text) = text.filter(|text| text.get().starts_with('"')) {
                        whole.extend_from_slice(&string(text.get())?);
                    }
                }
                Self(Cow::Owned(whole))
            }
            Some(b'-' | b'0'..=b'9') => Self(Cow::Borrowed(raw.as_bytes())),
            Some(_) | None => Self::default(),
        })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Piece<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Self::of(raw.get()).map_err(D::Error::custom)
    }
}

/// Returns the bytes of a JSON string, which may contain unpaired surrogates.
fn string(raw: &str) -> serde_json::Result<Cow<'_, [u8]>> {
    struct Bytes;
    impl<'de> Visitor<'de> for Bytes {
        type Value = Cow<'de, [u8]>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text")
        }

        fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
            Ok(Cow::Borrowed(bytes))
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
            Ok(Cow::Owned(bytes.to_vec()))
        }
    }
    serde_json::Deserializer::from_str(raw).deserialize_bytes(Bytes)
}

/// A text that arrives in one piece: see [`Piece`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Piece::deserialize(deserializer).map(|piece| Self(piece.into_text()))
    }
}

/// The arguments of a call, or a piece of them. They should be a text, but some servers send an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arguments<'a>(pub(crate) Piece<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Arguments<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        if raw.starts_with('{') {
            return Ok(Self(Piece(Cow::Borrowed(raw.as_bytes()))));
        }
        Piece::of(raw).map(Self).map_err(D::Error::custom)
    }
}

/// A text that is assembled from pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Joined {
    text: String,
    /// First half of a surrogate pair, if the last piece ended with it.
    half: Option<u16>,
}

const FIRST_HALVES: RangeInclusive<u16> = 0xD800..=0xDBFF;

impl Joined {
    /// Appends a piece. Returns the new text.
    pub(crate) fn push(&mut self, piece: &Piece<'_>) -> &str {
        let before = self.text.len();
        self.push_bytes(&piece.0);
        self.text.get(before..).unwrap_or_default()
    }

    /// The text so far.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Replaces the text, unless `whole` is empty.
    pub(crate) fn replace_with(&mut self, whole: Self) {
        if whole != Self::default() {
            *self = whole;
        }
    }

    /// The whole text.
    pub(crate) fn into_text(mut self) -> String {
        self.end_half();
        self.text
    }

    fn push_bytes(&mut self, mut bytes: &[u8]) {
        loop {
            let error = match str::from_utf8(bytes) {
                Ok(text) => return self.push_text(text),
                Err(error) => error,
            };
            let (text, rest) = bytes.split_at(error.valid_up_to());
            self.push_text(&String::from_utf8_lossy(text));
            bytes = if let [0xED, second @ 0xA0..=0xBF, third @ 0x80..=0xBF, rest @ ..] = rest {
                self.push_unit(0xD000 | u16::from(second & 0x3F) << 6 | u16::from(third & 0x3F));
                rest
            } else {
                self.push_text("\u{FFFD}");
                rest.get(error.error_len().unwrap_or(rest.len())..)
                    .unwrap_or_default()
            };
        }
    }

    fn push_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.end_half();
            self.text.push_str(text);
        }
    }

    fn push_unit(&mut self, unit: u16) {
        let pair = self
            .half
            .and_then(|half| char::decode_utf16([half, unit]).next()?.ok());
        if let Some(character) = pair {
            self.half = None;
            self.text.push(character);
            return;
        }
        self.end_half();
        if FIRST_HALVES.contains(&unit) {
            self.half = Some(unit);
        } else {
            self.text.push('\u{FFFD}');
        }
    }

    /// Replaces a pending half that has no other half.
    fn end_half(&mut self) {
        if self.half.take().is_some() {
            self.text.push('\u{FFFD}');
        }
    }
}

impl From<&str> for Joined {
    fn from(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            half: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn text(json: &str) -> String {
        serde_json::from_str::<Text<'_>>(json).unwrap().0.into_owned()
    }

    /// Returns the assembled text, and the text that each piece has added.
    fn joined(pieces: &[&str]) -> (String, Vec<String>) {
        let mut joined = Joined::default();
        let added = pieces
            .iter()
            .map(|json| joined.push(&serde_json::from_str(json).unwrap()).to_owned());
        let added = added.collect();
        (joined.into_text(), added)
    }

    #[test]
    fn a_text_is_read_from_every_form_it_is_sent_in() {
        for (json, expected) in [
            (r#""a\n""#, "a\n"),
            ("null", ""),
            ("true", ""),
            (r#"{"x":[1]}"#, ""),
            ("-5.0", "-5.0"),
            (
                r#"[{"type":"thinking","thinking":[{"type":"text","text":"no"}]},{"type":"text","text":"yes"}]"#,
                "yes",
            ),
            (r#"["a",null,{"text":null},{"text":["x"]},5,"b"]"#, "ab"),
            (r#""\ud83d\ude00 \ud83d""#, "😀 \u{FFFD}"),
        ] {
            assert_eq!(text(json), expected, "{json}");
        }
    }

    #[test]
    fn a_text_without_escapes_is_borrowed() {
        let read: Text<'_> = serde_json::from_str(r#""plain é""#).unwrap();
        assert!(matches!(read.0, Cow::Borrowed("plain é")));
    }

    #[test]
    fn halves_of_a_pair_are_joined_over_pieces_and_replaced_alone() {
        for (pieces, expected, added) in [
            (&[r#""a\ud83d""#, r#""\ude00b""#][..], "a😀b", &["a", "😀b"][..]),
            (
                &[r#""\ud83d""#, r#""""#, "null", r#""\ude00""#],
                "😀",
                &["", "", "", "😀"],
            ),
            (&[r#""\ud83d""#, r#""x""#], "\u{FFFD}x", &["", "\u{FFFD}x"]),
            (
                &[r#""\ud83d""#, r#""\ud83d""#, r#""\ude00""#],
                "\u{FFFD}😀",
                &["", "\u{FFFD}", "😀"],
            ),
            (&[r#""\ude00""#], "\u{FFFD}", &["\u{FFFD}"]),
            (&[r#""a\ud83d""#], "a\u{FFFD}", &["a"]),
            (&[r#""a\ud83db""#], "a\u{FFFD}b", &["a\u{FFFD}b"]),
        ] {
            let (text, pieces) = joined(pieces);
            assert_eq!(
                (text.as_str(), &pieces[..]),
                (
                    expected,
                    &added.iter().map(|&piece| piece.to_owned()).collect::<Vec<_>>()[..]
                )
            );
        }
    }

    #[test]
    fn a_figure_is_read_from_every_form_it_is_sent_in() {
        for (json, count) in [
            ("7", Some(7)),
            ("7.9", Some(7)),
            ("100.0", Some(100)),
            ("1e3", Some(1_000)),
            ("\"7\"", Some(7)),
            ("\" 7.5 \"", Some(7)),
            ("1e300", Some(u64::MAX)),
            ("1e400", None),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", Some(u64::MAX)),
            ("-3", None),
            ("-3.5", None),
            ("null", None),
            ("true", None),
            ("\"many\"", None),
            ("\"\"", None),
            ("[7]", None),
            ("{}", None),
        ] {
            assert_eq!(
                serde_json::from_str::<Count>(json).unwrap(),
                Count(count),
                "{json}"
            );
        }
    }

    #[test]
    fn arguments_come_as_a_text_or_as_an_object() {
        for (json, expected) in [
            (r#""{\"a\": 1}""#, r#"{"a": 1}"#),
            (r#"{ "a":1 }"#, r#"{ "a":1 }"#),
            ("null", ""),
        ] {
            let arguments: Arguments<'_> = serde_json::from_str(json).unwrap();
            assert_eq!(arguments.0.into_text(), expected);
        }
    }

    #[test]
    fn a_value_of_another_kind_costs_no_other() {
        #[derive(Debug, Default, Deserialize, PartialEq)]
        #[serde(default)]
        struct Event {
            count: Count,
            inner: Object<Inner>,
            list: List<Inner>,
        }
        #[derive(Debug, Deserialize, PartialEq)]
        struct Inner {
            #[serde(default)]
            n: Count,
        }
        let inner = |n| Inner { n: Count(Some(n)) };
        for (json, expected) in [
            (
                json!({"count": [], "inner": {"n": 1}, "list": [{"n": 2}, null, 7, {"n": 3}]}),
                (None, Some(inner(1)), vec![inner(2), inner(3)]),
            ),
            (
                json!({"count": 5, "inner": "x", "list": {"n": 4}}),
                (Some(5), None, vec![inner(4)]),
            ),
            (
                json!({"count": null, "inner": null, "list": null}),
                (None, None, vec![]),
            ),
            (json!({"list": "x"}), (None, None, vec![])),
        ] {
            let read: Event = serde_json::from_str(&json.to_string()).unwrap();
            assert_eq!((read.count.0, read.inner.0, read.list.0), expected, "{json}");
        }
    }

    #[test]
    fn a_value_that_is_deeply_nested_is_read_without_recursion() {
        #[derive(Deserialize)]
        struct Content {
            #[serde(default)]
            _text: Count,
        }
        let deep = |open: &str, close: &str| open.repeat(200_000) + "1" + &close.repeat(200_000);
        for json in [deep("[", "]"), deep("[{\"text\":", "}]"), deep("{\"text\":", "}")] {
            assert_eq!(text(&json), "");
            assert_eq!(serde_json::from_str::<Count>(&json).unwrap(), Count(None));
            assert!(serde_json::from_str::<List<Content>>(&json).unwrap().0.len() <= 1);
        }
    }

    proptest! {
        #[test]
        fn a_text_is_the_same_in_whatever_pieces_it_comes(text in any::<String>(), cuts in prop::collection::vec(0_usize..50, 0..6)) {
            let units: Vec<u16> = text.encode_utf16().collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(units.len())).collect();
            cuts.push(units.len());
            cuts.sort_unstable();
            let (mut joined, mut from) = (Joined::default(), 0);
            let mut added = String::new();
            for to in cuts {
                let escaped: Vec<String> = units[from..to].iter().map(|unit| format!("\\u{unit:04x}")).collect();
                let json = format!("\"{}\"", escaped.concat());
                added.push_str(joined.push(&serde_json::from_str(&json).unwrap()));
                from = to;
            }
            prop_assert_eq!(&added, &text);
            prop_assert_eq!(joined.into_text(), text);
        }
    }
}
