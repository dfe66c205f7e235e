//! A JSON document of the command line.

use std::path::PathBuf;

/// `JSON` or `@FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    Inline(String),
    File(PathBuf),
}

impl From<&str> for Document {
    fn from(text: &str) -> Self {
        match text.strip_prefix('@') {
            Some(path) => Self::File(PathBuf::from(path)),
            None => Self::Inline(text.to_owned()),
        }
    }
}
