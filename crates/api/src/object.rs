//! Structs that are read from JSON objects only. By itself serde would also take an array of the fields in order,
//! which no schema says and no client means.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};

/// Implements `Deserialize` (from an object and nothing else) for types that derive it with `#[serde(remote = "Self")]`.
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

/// Reads an optional field that may be absent but not `null`: absence is how this API says "none".
pub(crate) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Reads a map in which no name stands twice: the last one would win in silence.
pub(crate) fn unique<'de, D, T>(deserializer: D) -> Result<Option<BTreeMap<String, T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Visitor<T>(std::marker::PhantomData<T>);

    impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
        type Value = BTreeMap<String, T>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut read = BTreeMap::new();
            while let Some((name, value)) = map.next_entry::<String, T>()? {
                if read.contains_key(&name) {
                    return Err(de::Error::custom(format!("duplicate field `{name}`")));
                }
                read.insert(name, value);
            }
            Ok(read)
        }
    }

    deserializer
        .deserialize_map(Visitor(std::marker::PhantomData))
        .map(Some)
}
