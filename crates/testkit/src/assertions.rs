//! Assertions that print the whole checked value when they fail.

use std::borrow::Cow;

use serde_json::Value;
use sortie_api::ErrorBody;

use crate::Answer;

/// A value with a text that tests search.
pub trait Text {
    /// The text: JSON in one line, bytes as UTF-8, the body of an answer, an empty text for a missing value.
    fn text(&self) -> Cow<'_, str>;
}

impl Text for str {
    fn text(&self) -> Cow<'_, str> {
        self.into()
    }
}

impl Text for String {
    fn text(&self) -> Cow<'_, str> {
        self.into()
    }
}

impl Text for Vec<u8> {
    fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self)
    }
}

impl Text for Value {
    fn text(&self) -> Cow<'_, str> {
        self.to_string().into()
    }
}

impl Text for Answer {
    fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }
}

impl Text for ErrorBody {
    fn text(&self) -> Cow<'_, str> {
        self.error.text()
    }
}

impl<T: Text + ?Sized> Text for &T {
    fn text(&self) -> Cow<'_, str> {
        (**self).text()
    }
}

impl<T: Text> Text for Option<T> {
    fn text(&self) -> Cow<'_, str> {
        self.as_ref().map_or(Cow::default(), Text::text)
    }
}

/// Fails the test unless the text contains each part.
#[macro_export]
macro_rules! assert_contains {
    ($text:expr, $($part:expr),+ $(,)?) => {
        match $crate::assertions::Text::text(&$text) {
            text => {$(
                assert!(text.contains($part), "{:?} is missing in: {text}", $part);
            )+}
        }
    };
}

/// Fails the test if the text contains one of the parts.
#[macro_export]
macro_rules! assert_lacks {
    ($text:expr, $($part:expr),+ $(,)?) => {
        match $crate::assertions::Text::text(&$text) {
            text => {$(
                assert!(!text.contains($part), "{:?} is in: {text}", $part);
            )+}
        }
    };
}

/// Fails the test unless a JSON object has these fields, written as in `json!`. A missing field is null.
#[macro_export]
macro_rules! assert_has {
    ($value:expr, $($fields:tt)+) => {
        match (&$value, $crate::serde_json::json!($($fields)+)) {
            (value, fields) => {
                for (name, expected) in fields.as_object().into_iter().flatten() {
                    assert_eq!(&value[name.as_str()], expected, "{name} of {value}");
                }
            }
        }
    };
}

/// Fails the test unless the run has ended with this status. The optional text is the output of a successful run, or a
/// part of the error of another one.
#[macro_export]
macro_rules! assert_ended {
    ($run:expr, Succeeded, $output:expr) => {
        match &$run {
            run => assert_eq!(
                (run.status, run.output.as_deref()),
                ($crate::RunStatus::Succeeded, Some($output)),
                "{run:?}"
            ),
        }
    };
    ($run:expr, $status:ident) => {
        match &$run {
            run => assert_eq!(run.status, $crate::RunStatus::$status, "{run:?}"),
        }
    };
    ($run:expr, $status:ident, $error:expr) => {
        match &$run {
            run => {
                assert_eq!(run.status, $crate::RunStatus::$status, "{run:?}");
                $crate::assert_contains!(run.error, $error);
            }
        }
    };
}
