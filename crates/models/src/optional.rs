//! A part of the request that not every server takes: it is sent until the server refuses it, then left out.

use std::sync::atomic::{AtomicBool, Ordering};

use sortie_agent::model::{ErrorKind, ModelError, Reply};

/// Remembers for the life of a client whether its server takes an optional part.
#[derive(Debug)]
pub(crate) struct Optional {
    is_refused: AtomicBool,
    /// Name of the part in the log.
    name: &'static str,
    /// Whether a refusal, in lower case, is about this part.
    is_about: fn(&str) -> bool,
}

impl Optional {
    pub(crate) const fn new(name: &'static str, is_about: fn(&str) -> bool) -> Self {
        Self {
            is_refused: AtomicBool::new(false),
            name,
            is_about,
        }
    }

    /// Whether the part is sent.
    pub(crate) fn is_sent(&self) -> bool {
        !self.is_refused.load(Ordering::Relaxed)
    }

    /// Takes the outcome of a call that had the part in it. Returns whether the call is to be made once more, without
    /// the part: the server refused the request because of it.
    pub(crate) fn is_refused_by(&self, outcome: &Result<Reply, ModelError>) -> bool {
        let refused = outcome.as_ref().err().is_some_and(|error| {
            error.kind == ErrorKind::Request && (self.is_about)(&error.message.to_ascii_lowercase())
        });
        if refused && !self.is_refused.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                part = self.name,
                "the model's provider refuses an optional part of requests: it is left out"
            );
        }
        refused
    }
}
