//! Failures of connections.

/// Reason why a connection does not work. The messages hold no credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A person has to authorize it first, or again.
    #[error("it needs authorization: {0}")]
    NeedsAuthorization(String),
    /// The server does not answer, or not as it should, or the definition cannot be used.
    #[error("{0}")]
    Error(String),
}
