//! Rules of the OAuth 2.1 server: applications act for a person in one organization, with a scope that the person allows.
//!
//! The issuer is the address of the organization API, the resource that of the engine API. Codes, tokens and client secrets
//! are random texts; the store has their hashes. `docs/OAUTH.md` is the guide for applications.

mod authorize;
mod clients;
mod documents;
mod error;
mod grants;
mod metadata;
mod metrics;
mod redirect;
mod request;
mod tokens;
mod well_known;

use sortie_api::{Refusal, Role, parameters};

pub use authorize::{Authorization, AuthorizationRefusal};
pub use clients::RegisteredClient;
pub use error::{OauthError, OauthErrorCode};
pub use metadata::{AuthMethod, ClientMetadata};
pub(crate) use metrics::Metrics;
pub use request::Scope;
pub use tokens::{IssuedPair, TokenRequest};
pub use well_known::MCP_PATH;

/// Result of a request at an OAuth endpoint.
pub type OauthResult<T> = std::result::Result<T, OauthFailure>;

/// Failure of a request at an OAuth endpoint.
#[derive(Debug)]
pub enum OauthFailure {
    /// Error of the protocol.
    Protocol(OauthError),
    /// A code or refresh token was used a second time. The grant has ended, and the client gets `invalid_grant`.
    Reused,
    /// Any other failure.
    Other(Refusal),
}

impl From<OauthError> for OauthFailure {
    fn from(error: OauthError) -> Self {
        Self::Protocol(error)
    }
}

impl<E: Into<Refusal>> From<E> for OauthFailure {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

impl From<Scope> for Role {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Member => Self::Member,
            Scope::Admin => Self::Admin,
        }
    }
}
