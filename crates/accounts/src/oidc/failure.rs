//! Failures of requests to an identity provider.

/// Failure of a sign-in at a provider. The text is for the log: it contains no part of a token or a secret.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The provider does not answer, or its answer is invalid.
    #[error("{0}")]
    Away(String),
    /// The provider refuses this sign-in, or its answer fails a check.
    #[error("{0}")]
    Refused(String),
}

impl Failure {
    pub(super) fn away(what: &'static str) -> impl Fn(String) -> Self {
        move |cause| Self::Away(format!("{what}: {cause}"))
    }

    pub(super) fn refused(rule: &'static str) -> Self {
        Self::Refused(rule.to_owned())
    }
}

/// Result of a request to a provider.
pub(super) type Fetched<T> = std::result::Result<T, Failure>;
