//! Integers as JSON Schema has them: a number without a fraction is one, so `282906.0` and `2e3` are. Some clients keep every
//! number as a float. Opaque values (`input`, schemas) stay as they were sent. An optional member is absent or has a
//! value; `null` is neither.

use std::fmt;

use serde::{
    Deserializer,
    de::{self, DeserializeSeed, EnumAccess, MapAccess, SeqAccess, Visitor},
};

/// Largest float up to which every integer is a float too: 2^53.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The members of an object: their integers may be written as floats, and their options are not `null`.
pub(crate) struct Members<A>(pub(crate) A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Members<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.0.next_value_seed(Member(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

/// Seed of a member's value.
struct Member<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Member<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Whole {
            inner: deserializer,
            is_member: true,
        })
    }
}

/// Deserializer or visitor, through which integers may be written as floats.
struct Whole<T> {
    inner: T,
    /// Whether this is the member's value itself, and not what an option or a newtype has inside.
    is_member: bool,
}

impl<T> Whole<T> {
    fn inside(inner: T) -> Self {
        Self {
            inner,
            is_member: false,
        }
    }
}

/// Methods of a deserializer that read an integer, or something that has one inside.
macro_rules! through {
    ($($method:ident)+) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method(Whole::inside(visitor))
        }
    )+};
}

/// Methods of a deserializer that read something else.
macro_rules! unchanged {
    ($($method:ident)+) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method(visitor)
        }
    )+};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Whole<D> {
    type Error = D::Error;

    through!(deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128);
    through!(deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128);
    unchanged!(deserialize_seq);
    unchanged!(deserialize_any deserialize_bool deserialize_f32 deserialize_f64 deserialize_char deserialize_str);
    unchanged!(deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit deserialize_map);
    unchanged!(deserialize_identifier deserialize_ignored_any);

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        if self.is_member {
            return visitor.visit_some(Whole::inside(self.inner));
        }
        self.inner.deserialize_option(Whole::inside(visitor))
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner
            .deserialize_newtype_struct(name, Whole::inside(visitor))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_tuple(len, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_tuple_struct(name, len, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_enum(name, variants, visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// Methods of a visitor that it gets as they are.
macro_rules! visits {
    ($($method:ident: $kind:ty)+) => {$(
        fn $method<E: de::Error>(self, value: $kind) -> Result<V::Value, E> {
            self.inner.$method(value)
        }
    )+};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Whole<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    visits!(visit_bool: bool visit_char: char visit_str: &str visit_string: String visit_bytes: &[u8]);
    visits!(visit_byte_buf: Vec<u8> visit_borrowed_str: &'de str visit_borrowed_bytes: &'de [u8]);
    visits!(visit_i8: i8 visit_i16: i16 visit_i32: i32 visit_i64: i64 visit_i128: i128);
    visits!(visit_u8: u8 visit_u16: u16 visit_u32: u32 visit_u64: u64 visit_u128: u128);

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<V::Value, E> {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole, and not beyond 2^53")]
        if value.fract() == 0.0 && value.abs() <= EXACT {
            self.inner.visit_i64(value as i64)
        } else {
            self.inner.visit_f64(value)
        }
    }

    fn visit_none<E: de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Whole::inside(deserializer))
    }

    fn visit_unit<E: de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Whole::inside(deserializer))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(members)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(variant)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::{Value, json};

    use crate::object::read_objects;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields, remote = "Self")]
    #[expect(clippy::option_option, reason = "null and absence are different in a patch")]
    struct Request {
        amount: i64,
        seconds: Option<u32>,
        limit: Option<Option<i64>>,
        #[serde(default)]
        input: Value,
    }

    read_objects!(Request);

    fn read(text: &str) -> Result<Request, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_number_without_a_fraction_is_an_integer() {
        let request =
            read(r#"{"amount": 282906.0, "seconds": 6e1, "limit": -2.0, "input": {"x": 1.0}}"#).unwrap();
        let expected = Request {
            amount: 282_906,
            seconds: Some(60),
            limit: Some(Some(-2)),
            input: json!({"x": 1.0}),
        };
        assert_eq!(request, expected);
        assert_eq!(
            request.input.to_string(),
            r#"{"x":1.0}"#,
            "it stays as it was sent"
        );
    }

    #[test]
    fn every_other_number_is_refused_as_before() {
        for (text, wanted) in [
            (r#"{"amount": 1.5}"#, "expected i64"),
            (r#"{"amount": 1e17}"#, "expected i64"),
            (r#"{"amount": "1.0"}"#, "expected i64"),
            (r#"{"amount": 1, "seconds": -1.0}"#, "expected u32"),
            (r#"{"amount": 1, "seconds": 5e9}"#, "expected u32"),
            (r#"{"amount": 1, "seconds": null}"#, "expected u32"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
        assert_eq!(read(r#"{"amount": 1, "limit": null}"#).unwrap().limit, Some(None));
        assert_eq!(read(r#"{"amount": 1}"#).unwrap().limit, None);
    }

    proptest! {
        #[test]
        fn an_integer_is_read_alike_in_both_forms(amount in -9_007_199_254_740_992_i64..=9_007_199_254_740_992) {
            let read_as = |text: String| read(&format!("{{\"amount\": {text}}}")).unwrap().amount;
            prop_assert_eq!(read_as(format!("{amount}.0")), amount);
            prop_assert_eq!(read_as(amount.to_string()), amount);
        }
    }
}
