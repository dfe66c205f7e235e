//! Parts of a request that some servers reject. We send each until the server rejects it, and then omit it.

use std::sync::atomic::{AtomicBool, Ordering};

use sortie_agent::model::{ErrorKind, ModelError, Reply};

/// The optional parts of a client's requests, identified by index.
#[derive(Debug)]
pub(crate) struct Optionals<const N: usize>([Optional; N]);

/// An optional part. The client remembers if its server rejects the part.
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

    fn refuse(&self) {
        if !self.is_refused.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                part = self.name,
                "the model's provider refuses an optional part of requests; requests now omit it"
            );
        }
    }
}

impl<const N: usize> Optionals<N> {
    pub(crate) const fn new(parts: [Optional; N]) -> Self {
        Self(parts)
    }

    /// Returns the parts to send: those that the request needs and the server has not rejected.
    pub(crate) fn sent(&self, mut needed: [bool; N]) -> [bool; N] {
        for (needed, part) in needed.iter_mut().zip(&self.0) {
            *needed &= !part.is_refused.load(Ordering::Relaxed);
        }
        needed
    }

    /// Handles the outcome of a call with these parts. Returns the reduced parts for the next attempt, or `None` if the server
    /// did not reject one of them.
    ///
    /// A server error counts if it names the part: proxies answer 500 to unknown parts.
    pub(crate) fn without_refused(
        &self,
        sent: [bool; N],
        outcome: &Result<Reply, ModelError>,
    ) -> Option<[bool; N]> {
        let error = outcome.as_ref().err()?;
        if !matches!(error.kind, ErrorKind::Request | ErrorKind::Server) {
            return None;
        }
        let said = error.message.to_ascii_lowercase();
        let mut rest = sent;
        for (is_sent, part) in rest.iter_mut().zip(&self.0) {
            if *is_sent && (part.is_about)(&said) {
                part.refuse();
                *is_sent = false;
            }
        }
        (rest != sent).then_some(rest)
    }
}

/// Whether a refusal is about `tool_choice`, in the wording of any server.
pub(crate) fn is_about_tool_choice(said: &str) -> bool {
    ["tool_choice", "tool choice", "toolchoice"]
        .iter()
        .any(|name| said.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Optionals<2> {
        Optionals::new([
            Optional::new("tool_choice", is_about_tool_choice),
            Optional::new("effort", |said| said.contains("effort")),
        ])
    }

    fn refusal(kind: ErrorKind, said: &str) -> Result<Reply, ModelError> {
        Err(ModelError {
            kind,
            ..ModelError::fatal(said.to_owned())
        })
    }

    #[test]
    fn a_part_is_left_out_for_good_once_a_refusal_names_it() {
        for kind in [ErrorKind::Request, ErrorKind::Server] {
            for said in [
                "Incompatible tool choice param submitted - {'type': 'none'}",
                "Unknown parameter (tool_choice.type)",
                "toolChoice is not supported",
            ] {
                let parts = parts();
                let rest = parts.without_refused([true, true], &refusal(kind, said));
                assert_eq!(rest, Some([false, true]), "{said}");
                assert_eq!(parts.sent([true, true]), [false, true]);
            }
        }
    }

    #[test]
    fn other_failures_and_parts_that_were_not_sent_change_nothing() {
        let parts = parts();
        for (kind, sent, said) in [
            (ErrorKind::RateLimit, [true, true], "tool_choice"),
            (ErrorKind::Request, [false, true], "tool_choice"),
            (ErrorKind::Server, [true, true], "the server had an error"),
        ] {
            assert_eq!(parts.without_refused(sent, &refusal(kind, said)), None, "{said}");
        }
        assert_eq!(parts.sent([true, true]), [true, true]);
        assert_eq!(parts.sent([false, true]), [false, true]);
    }
}
