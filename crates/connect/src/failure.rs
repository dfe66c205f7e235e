//! Failures of connections.

/// Reason why a connection does not work. The messages contain no credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A person has to authorize the connection.
    #[error("it needs authorization: {0}")]
    NeedsAuthorization(String),
    /// The server does not respond or violates the protocol, or the definition is invalid.
    #[error("{0}")]
    Error(String),
}
