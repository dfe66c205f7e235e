//! Query parameters in our error format.
//!
//! A parameter a route knows may be sent once, as UTF-8 without U+0000. Any other parameter is refused, as an unknown field
//! of a body is: a filter with a typing error would list everything (`docs/API.md#lists`).

use std::{cell::RefCell, collections::BTreeMap, fmt::Display, str::FromStr};

use axum::extract::FromRequestParts;
use http::request::Parts;
use sortie_api::{ErrorCode, Refusal, parameters::Parameters};

use super::{ApiError, ApiResult};

/// Characters of an unknown name that a message repeats.
const NAME_CHARS: usize = 64;

/// A route's parameters, read by [`FromQuery`].
#[derive(Clone, Debug)]
pub(crate) struct Query<T>(pub(crate) T);

/// Parameters that can be read from a query.
pub(crate) trait FromQuery: Sized {
    /// Parses the parameters. A 400 names the parameter and the rule.
    fn from_query(pairs: &Pairs<'_>) -> Result<Self, Refusal>;
}

/// No parameter.
impl FromQuery for () {
    fn from_query(_pairs: &Pairs<'_>) -> Result<Self, Refusal> {
        Ok(())
    }
}

impl<S: Send + Sync, T: FromQuery> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> ApiResult<Self> {
        let pairs = Pairs::of(parts.uri.query().unwrap_or_default());
        let read = T::from_query(&pairs)?;
        pairs.refuse_unknown()?;
        Ok(Self(read))
    }
}

/// The text after the `?`, and the names that a route has read from it.
#[derive(Debug)]
pub(crate) struct Pairs<'a> {
    sent: Parameters<'a>,
    known: RefCell<Vec<&'static str>>,
    /// Prefixes of names that the route has read all parameters of.
    prefixes: RefCell<Vec<&'static str>>,
}

impl<'a> Pairs<'a> {
    pub(crate) fn of(query: &'a str) -> Self {
        Self {
            sent: Parameters::of(query.as_bytes()),
            known: RefCell::default(),
            prefixes: RefCell::default(),
        }
    }

    /// Refuses a parameter that the route has not read, and names the most similar one that it has.
    fn refuse_unknown(&self) -> Result<(), Refusal> {
        let (known, prefixes) = (self.known.borrow(), self.prefixes.borrow());
        let is_known =
            |name: &str| known.contains(&name) || prefixes.iter().any(|prefix| name.starts_with(prefix));
        let mut names = self.sent.names();
        let Some(name) = names.find(|name| !is_known(name)) else {
            return Ok(());
        };
        let name: String = name.chars().take(NAME_CHARS).collect();
        let nearest = known.iter().min_by_key(|known| strsim::levenshtein(known, &name));
        let meant = nearest.map_or_else(String::new, |known| format!("; did you mean {known}?"));
        Err(ErrorCode::InvalidRequest.because(format!("{name}: no such parameter{meant}")))
    }

    /// Returns the value of `name`, if present.
    pub(crate) fn text(&self, name: &'static str) -> Result<Option<String>, Refusal> {
        self.known.borrow_mut().push(name);
        self.value(name)
    }

    fn value(&self, name: &str) -> Result<Option<String>, Refusal> {
        let invalid = |rule| ErrorCode::InvalidRequest.because(format!("{name}: {rule}"));
        let value = self.sent.bytes(name).map_err(|rule| invalid(rule.to_string()))?;
        value
            .map(|bytes| {
                String::from_utf8(bytes.into_owned())
                    .ok()
                    .filter(|value| !value.contains('\0'))
                    .ok_or_else(|| invalid("must be UTF-8 without U+0000".to_owned()))
            })
            .transpose()
    }

    /// The parameters that begin with `prefix`, at most `most`: the rest of their names, and their values.
    pub(crate) fn map(&self, prefix: &'static str, most: usize) -> Result<BTreeMap<String, String>, Refusal> {
        self.prefixes.borrow_mut().push(prefix);
        let mut values = BTreeMap::new();
        for name in self.sent.names().filter(|name| name.starts_with(prefix)) {
            let key = name.get(prefix.len()..).unwrap_or_default();
            // A name that is not UTF-8 has no value under the name that it is read as.
            let value = self.value(&name)?.filter(|_| !name.contains('\0'));
            let value = value.ok_or_else(|| {
                ErrorCode::InvalidRequest.because(format!("{prefix}: a name must be UTF-8 without U+0000"))
            })?;
            if values.len() == most {
                let name = prefix.trim_end_matches('.');
                return Err(
                    ErrorCode::InvalidRequest.because(format!("{name}: must be at most {most} pairs"))
                );
            }
            values.insert(key.to_owned(), value);
        }
        Ok(values)
    }

    /// The value of `name` as a boolean.
    pub(crate) fn boolean(&self, name: &'static str) -> Result<Option<bool>, Refusal> {
        self.text(name)?
            .map(|value| match value.as_str() {
                "true" => Ok(true),
                "false" => Ok(false),
                _ => Err(ErrorCode::InvalidRequest.because(format!("{name}: must be true or false"))),
            })
            .transpose()
    }

    /// Parses the value of `name` as `T`. The error of `T` is the rule.
    pub(crate) fn parse<T>(&self, name: &'static str) -> Result<Option<T>, Refusal>
    where
        T: FromStr,
        T::Err: Display,
    {
        self.text(name)?
            .map(|value| {
                value
                    .parse()
                    .map_err(|rule| ErrorCode::InvalidRequest.because(format!("{name}: {rule}")))
            })
            .transpose()
    }

    /// The value of `name` as a text of 1 to `most` characters.
    pub(crate) fn bounded(&self, name: &'static str, most: usize) -> Result<Option<String>, Refusal> {
        let text = self.text(name)?;
        match &text {
            Some(text) if !(1..=most).contains(&text.chars().count()) => {
                Err(ErrorCode::InvalidRequest.because(format!("{name}: must be 1 to {most} characters")))
            }
            _ => Ok(text),
        }
    }

    /// The values of `name`, which are separated by commas, each at most once. Empty if it is not there.
    pub(crate) fn list<T>(&self, name: &'static str, most: usize) -> Result<Vec<T>, Refusal>
    where
        T: FromStr + PartialEq,
        T::Err: Display,
    {
        let mut values = Vec::new();
        let text = self.text(name)?;
        for part in text.iter().flat_map(|text| text.split(',')) {
            let value = part
                .parse()
                .map_err(|rule| ErrorCode::InvalidRequest.because(format!("{name}: {rule}")))?;
            if values.contains(&value) {
                return Err(ErrorCode::InvalidRequest.because(format!("{name}: {part} is named twice")));
            }
            if values.len() == most {
                return Err(ErrorCode::InvalidRequest.because(format!("{name}: must be at most {most}")));
            }
            values.push(value);
        }
        Ok(values)
    }

    /// The value of `name` as an integer from `min` to `max`.
    pub(crate) fn integer(&self, name: &'static str, min: i64, max: i64) -> Result<Option<i64>, Refusal> {
        self.text(name)?
            .map(|value| {
                integer(&value)
                    .filter(|number| (min..=max).contains(number))
                    .ok_or_else(|| {
                        ErrorCode::InvalidRequest
                            .because(format!("{name}: must be an integer from {min} to {max}"))
                    })
            })
            .transpose()
    }
}

/// Parses decimal digits with an optional minus: a plus is not accepted, because a form would decode it to a space.
pub(crate) fn integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn get(query: &str, name: &'static str) -> Result<Option<String>, String> {
        Pairs::of(query).text(name).map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn values_are_decoded() {
        assert_eq!(get("a=1&b=x%20y+z", "b"), Ok(Some("x y z".into())));
        assert_eq!(get("%61=%e2%82%ac", "a"), Ok(Some("€".into())));
        assert_eq!(get("a=100%&b", "a"), Ok(Some("100%".into())));
        assert_eq!(get("a=1&b", "b"), Ok(Some(String::new())));
        assert_eq!(get("", "b"), Ok(None));
    }

    #[test]
    fn a_known_parameter_sent_twice_or_not_as_text_is_refused() {
        assert!(
            get("limit=1&limit=2", "limit")
                .unwrap_err()
                .contains("limit: sent twice")
        );
        assert!(get("a=%ff", "a").unwrap_err().contains("a: must be UTF-8"));
        assert!(get("a=%00", "a").unwrap_err().contains("a: must be UTF-8"));
    }

    #[test]
    fn an_unknown_parameter_is_refused_and_the_nearest_one_named() {
        let refused = |query: &str| {
            let pairs = Pairs::of(query);
            for name in ["status", "tag", "limit"] {
                let _value = pairs.text(name);
            }
            pairs.refuse_unknown().map_err(|error| format!("{error:?}"))
        };
        assert_eq!(refused(""), Ok(()));
        assert_eq!(refused("limit=1&&tag=a&%73tatus=failed&"), Ok(()));
        for (query, message) in [
            ("stauts=failed", "stauts: no such parameter; did you mean status?"),
            (
                "limit=1&limits=2",
                "limits: no such parameter; did you mean limit?",
            ),
            ("Tag", "Tag: no such parameter; did you mean tag?"),
            ("=x", ": no such parameter; did you mean tag?"),
        ] {
            assert!(refused(query).unwrap_err().contains(message), "{query}");
        }
        let unread = Pairs::of("a=1").refuse_unknown();
        assert!(
            format!("{unread:?}").contains("a: no such parameter\""),
            "{unread:?}"
        );
    }

    #[test]
    fn parameters_with_a_prefix_are_a_map() {
        let read = |query: &str| {
            let pairs = Pairs::of(query);
            let map = pairs.map("m.", 2).map_err(|error| format!("{error:?}"))?;
            pairs.refuse_unknown().map_err(|error| format!("{error:?}"))?;
            Ok::<_, String>(map.into_iter().collect::<Vec<_>>())
        };
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(read(""), Ok(Vec::new()));
        assert_eq!(
            read("m.b=1&m.a%3D=x+y"),
            Ok(vec![pair("a=", "x y"), pair("b", "1")])
        );
        assert_eq!(read("m.=&%6D.a"), Ok(vec![pair("", ""), pair("a", "")]));
        for (query, rule) in [
            ("m.a=1&m.a=1", "m.a: sent twice"),
            ("m.a=1&m.b=1&m.c=1", "m: must be at most 2 pairs"),
            ("m=1", "m: no such parameter"),
            ("m.%ff=1", "m.: a name must be UTF-8"),
        ] {
            assert!(read(query).unwrap_err().contains(rule), "{query}");
        }
    }

    #[test]
    fn an_integer_is_plain_and_in_range() {
        let read = |query: &str| Pairs::of(query).integer("limit", 1, 100).map_err(|_| ());
        assert_eq!(read("limit=1"), Ok(Some(1)));
        assert_eq!(read("limit=100"), Ok(Some(100)));
        assert_eq!(read(""), Ok(None));
        for bad in [
            "0",
            "101",
            "-1",
            "1.0",
            "%2B1",
            "+1",
            " 1",
            "1e2",
            "",
            "x",
            "99999999999999999999",
        ] {
            assert!(read(&format!("limit={bad}")).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_read_back(value in "[^\0]{0,20}") {
            let encoded = value.bytes().fold(String::new(), |text, byte| format!("{text}%{byte:02X}"));
            prop_assert_eq!(get(&format!("a=b&v={encoded}&c"), "v"), Ok(Some(value)));
        }

        #[test]
        fn no_query_makes_it_panic(query in any::<String>()) {
            let _read = get(&query, "limit");
        }
    }
}
