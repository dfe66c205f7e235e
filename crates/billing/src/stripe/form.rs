//! Parameters of a request, form-encoded. Members of objects have names in brackets.

use url::form_urlencoded;

/// Form that is filled in.
#[derive(Debug, Default)]
pub(super) struct Form(Vec<(String, String)>);

/// Text of a value.
pub(super) struct Value(String);

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self(number.to_string())
    }
}

impl From<u8> for Value {
    fn from(number: u8) -> Self {
        Self(number.to_string())
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self(flag.to_string())
    }
}

impl Form {
    #[must_use]
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.push((name.to_owned(), value.into().0));
        self
    }

    #[must_use]
    pub(super) fn with_some(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub(super) fn encoded(&self) -> String {
        form_urlencoded::Serializer::new(String::new())
            .extend_pairs(&self.0)
            .finish()
    }
}
