//! Structs that are read from JSON objects only. Serde would by default also accept an array of the fields in order,
//! which no schema allows and no client means. Arrays and maps are read up to their limits: a body of millions of short
//! entries would take many times its size.

use std::{collections::BTreeMap, marker::PhantomData};

use serde::{Deserialize, Deserializer, de};

/// Implements `Deserialize` (from an object and nothing else) for types that derive it with `#[serde(remote = "Self")]`.
/// A field `Option<T>` may be absent, but not `null`: absence is how this API says "none". A field `Option<Option<T>>`
/// of a patch may be absent (unchanged), `null` (back to its default) or a value.
macro_rules! read_objects {
    ($($name:ident)+) => {$(
        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;

                impl<'de> ::serde::de::Visitor<'de> for Visitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: ::serde::de::MapAccess<'de>>(self, map: A) -> Result<$name, A::Error> {
                        let members = $crate::whole::Members(map);
                        $name::deserialize(::serde::de::value::MapAccessDeserializer::new(members))
                    }
                }

                deserializer.deserialize_map(Visitor)
            }
        }
    )+};
}

/// Implements `Deserialize` (from an object and nothing else) and `Serialize` for types that derive both with
/// `#[serde(remote = "Self")]`.
macro_rules! objects {
    ($($name:ident)+) => {
        $crate::object::read_objects!($($name)+);

        $(impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $name::serialize(self, serializer)
            }
        })+
    };
}

pub(crate) use {objects, read_objects};

fn beyond<E: de::Error>(most: usize) -> E {
    E::custom(format_args!("must have at most {most} entries"))
}

/// Reads an array of at most `MOST` entries. It stops at the first one beyond them.
pub(crate) fn list<'de, D, T, const MOST: usize>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Visitor<T, const MOST: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MOST: usize> de::Visitor<'de> for Visitor<T, MOST> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a sequence")
        }

        fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut read = Vec::new();
            while read.len() < MOST {
                match seq.next_element()? {
                    Some(entry) => read.push(entry),
                    None => return Ok(read),
                }
            }
            match seq.next_element::<de::IgnoredAny>()? {
                Some(_) => Err(beyond(MOST)),
                None => Ok(read),
            }
        }
    }

    deserializer
        .deserialize_seq(Visitor::<T, MOST>(PhantomData))
        .map(Some)
}

/// Reads a map of at most `MOST` entries and refuses a repeated name, because the last one would win silently. It stops at the
/// first entry beyond them.
pub(crate) fn unique<'de, D, T, const MOST: usize>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Visitor<T, const MOST: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MOST: usize> de::Visitor<'de> for Visitor<T, MOST> {
        type Value = BTreeMap<String, T>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut read = BTreeMap::new();
            while let Some(name) = map.next_key::<String>()? {
                if read.contains_key(&name) {
                    return Err(de::Error::custom(format!("duplicate field `{name}`")));
                }
                if read.len() == MOST {
                    return Err(beyond(MOST));
                }
                read.insert(name, map.next_value()?);
            }
            Ok(read)
        }
    }

    deserializer
        .deserialize_map(Visitor::<T, MOST>(PhantomData))
        .map(Some)
}
