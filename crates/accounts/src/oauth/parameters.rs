//! Parameters of a request, from a query or a form. Each may be there once.

use std::borrow::Cow;

/// Parameters of a request in the order in which they came. A parameter without a value counts as absent (RFC 6749, section
/// 3.1).
#[derive(Clone, Debug)]
pub(crate) struct Parameters<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

/// Parameter that was sent twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repeated(pub(crate) &'static str);

impl<'a> Parameters<'a> {
    /// Reads parameters in the form `application/x-www-form-urlencoded`.
    pub(crate) fn parse(text: &'a [u8]) -> Self {
        Self(
            url::form_urlencoded::parse(text)
                .filter(|(_, value)| !value.is_empty())
                .collect(),
        )
    }

    /// Returns the value of a parameter that may be there once.
    pub(crate) fn one(&self, name: &'static str) -> Result<Option<&str>, Repeated> {
        let mut values = self.all(name);
        let value = values.next();
        match values.next() {
            None => Ok(value),
            Some(_) => Err(Repeated(name)),
        }
    }

    /// Returns the values of a parameter that may be there more than once.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(known, _)| known == name)
            .map(|(_, value)| &**value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_read_once_and_an_empty_one_is_absent() {
        let parameters = Parameters::parse(b"a=1&b=&c=x+y%26&d=1&d=2&e=&e=3&f");
        assert_eq!(parameters.one("a"), Ok(Some("1")));
        assert_eq!(parameters.one("b"), Ok(None));
        assert_eq!(parameters.one("c"), Ok(Some("x y&")));
        assert_eq!(parameters.one("d"), Err(Repeated("d")));
        assert_eq!(parameters.one("e"), Ok(Some("3")));
        assert_eq!(parameters.one("f"), Ok(None));
        assert_eq!(parameters.all("d").collect::<Vec<_>>(), ["1", "2"]);
    }
}
