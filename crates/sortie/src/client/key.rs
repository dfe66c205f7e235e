//! API keys, with their source for messages.

use std::{fmt, path::PathBuf};

use sortie_api::Credential;

/// An API key and its source.
#[derive(Clone, Debug)]
pub(crate) struct ClientKey {
    pub(super) secret: Credential,
    pub(crate) source: KeySource,
}

/// Source of an API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// An environment variable.
    Variable(&'static str),
    /// A saved context.
    Context(String),
    /// A file of a data folder.
    File(PathBuf),
    /// A person, who has just typed it.
    Typed,
    /// An engine, which has just created it.
    Created,
}

impl ClientKey {
    pub(crate) fn new(secret: impl Into<String>, source: KeySource) -> Self {
        Self {
            secret: Credential::new(secret),
            source,
        }
    }
}

impl KeySource {
    /// Returns the remedy if the engine refuses the key.
    pub(super) fn remedy(&self) -> String {
        match self {
            Self::Variable("SORTIE_OPERATOR_KEY") => {
                "set SORTIE_OPERATOR_KEY to the content of operator.key".to_owned()
            }
            Self::Variable(name) => {
                format!("set {name} to a key that `sortie keys create` has made on this engine")
            }
            Self::Context(name) => format!("save another key with `sortie login --name {name} URL`"),
            Self::File(_) => {
                "set SORTIE_API_KEY to another key, or name the data folder of this engine by --data-dir"
                    .to_owned()
            }
            Self::Typed => "check that the key is one of this engine and has not expired".to_owned(),
            Self::Created => "it may have been revoked since".to_owned(),
        }
    }
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => f.write_str(name),
            Self::Context(name) => write!(f, "the context {name}"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Typed => f.write_str("your input"),
            Self::Created => f.write_str("the engine"),
        }
    }
}
