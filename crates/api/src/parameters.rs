//! Parameters of a query or a form (`application/x-www-form-urlencoded`). A repeated parameter is ambiguous, so readers refuse
//! it.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// Encoded parameters in the order in which they came. Names and values are decoded when they are read.
#[derive(Clone, Copy, Debug)]
pub struct Parameters<'a> {
    text: &'a [u8],
    skips_empty: bool,
}

/// Parameter that was sent more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sent twice")]
pub struct Repeated;

impl<'a> Parameters<'a> {
    /// Parameters of a query, without its `?`, or of a form.
    pub const fn of(text: &'a [u8]) -> Self {
        Self {
            text,
            skips_empty: false,
        }
    }

    /// Parameters of which those without a value count as absent (RFC 6749, section 3.1).
    pub const fn without_empty(text: &'a [u8]) -> Self {
        Self {
            text,
            skips_empty: true,
        }
    }

    /// Returns the value of a parameter that may be sent once, as bytes of any kind.
    ///
    /// # Errors
    /// [`Repeated`] if the parameter was sent more than once.
    pub fn bytes(self, name: &str) -> Result<Option<Cow<'a, [u8]>>, Repeated> {
        let mut values = self.values(name);
        let value = values.next();
        if values.next().is_some() {
            return Err(Repeated);
        }
        Ok(value)
    }

    /// Returns the value of a parameter that may be sent once. U+FFFD replaces bytes that are not UTF-8.
    ///
    /// # Errors
    /// [`Repeated`] if the parameter was sent more than once.
    pub fn one(self, name: &str) -> Result<Option<Cow<'a, str>>, Repeated> {
        Ok(self.bytes(name)?.map(text))
    }

    /// Returns the values of a parameter that may be sent more than once.
    pub fn all(self, name: &str) -> impl Iterator<Item = Cow<'a, str>> {
        self.values(name).map(text)
    }

    /// Returns the names of all parameters, in order. An empty text between two `&` is none.
    pub fn names(self) -> impl Iterator<Item = Cow<'a, str>> {
        self.pairs().map(|(name, _)| text(decoded(name)))
    }

    fn pairs(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let texts = self.text.split(|byte| *byte == b'&');
        let pairs = texts.filter(|text| !text.is_empty()).map(|pair| {
            let mut parts = pair.splitn(2, |byte| *byte == b'=');
            (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
        });
        pairs.filter(move |(_, value)| !(self.skips_empty && value.is_empty()))
    }

    fn values(self, name: &str) -> impl Iterator<Item = Cow<'a, [u8]>> {
        self.pairs()
            .filter(move |(key, _)| *decoded(key) == *name.as_bytes())
            .map(|(_, value)| decoded(value))
    }
}

fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'+') {
        return percent_decode(text).into();
    }
    let spaced: Vec<u8> = text
        .iter()
        .map(|byte| if *byte == b'+' { b' ' } else { *byte })
        .collect();
    Cow::Owned(percent_decode(&spaced).collect())
}

fn text(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    match bytes {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(text: &str, name: &str) -> Result<Option<String>, Repeated> {
        let value = Parameters::of(text.as_bytes()).one(name)?;
        Ok(value.map(Cow::into_owned))
    }

    #[test]
    fn values_are_decoded() {
        assert_eq!(one("a=1&b=x%20y+z", "b"), Ok(Some("x y z".into())));
        assert_eq!(one("%61=%e2%82%ac", "a"), Ok(Some("€".into())));
        assert_eq!(one("a=100%&b", "a"), Ok(Some("100%".into())));
        assert_eq!(one("a=%2B+%2b", "a"), Ok(Some("+ +".into())));
        assert_eq!(one("a=1&b", "b"), Ok(Some(String::new())));
        assert_eq!(one("a=b=c", "a"), Ok(Some("b=c".into())));
        assert_eq!(one("a=%ff", "a"), Ok(Some("\u{fffd}".into())));
        assert_eq!(one("", "b"), Ok(None));
    }

    #[test]
    fn a_parameter_is_read_once_and_an_empty_one_may_be_absent() {
        let parameters = Parameters::without_empty(b"a=1&b=&c=x+y%26&d=1&d=2&e=&e=3&f");
        assert_eq!(parameters.one("a"), Ok(Some("1".into())));
        assert_eq!(parameters.one("b"), Ok(None));
        assert_eq!(parameters.one("c"), Ok(Some("x y&".into())));
        assert_eq!(parameters.one("d"), Err(Repeated));
        assert_eq!(parameters.one("e"), Ok(Some("3".into())));
        assert_eq!(parameters.one("f"), Ok(None));
        assert_eq!(parameters.all("d").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(one("e=&e=3", "e"), Err(Repeated));
        assert_eq!(one("a=1&%61", "a"), Err(Repeated));
    }

    #[test]
    fn the_names_are_decoded_and_empty_texts_are_none() {
        let names = |text: &'static str| Parameters::of(text.as_bytes()).names().collect::<Vec<_>>();
        assert_eq!(names("a=1&&b&%61+c=2&=3"), ["a", "b", "a c", ""]);
        assert_eq!(names(""), [] as [&str; 0]);
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_read_back(value in "\\PC{0,20}") {
            let encoded = value.bytes().fold(String::new(), |text, byte| format!("{text}%{byte:02X}"));
            prop_assert_eq!(one(&format!("a=b&v={encoded}&c"), "v"), Ok(Some(value)));
        }
    }
}
