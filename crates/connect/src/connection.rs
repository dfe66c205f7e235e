//! Definition of a connection: its server, its authentication, and the permitted calls of a run.
//!
//! The types hold credentials only as [`Credential`], which never prints its value. The store of connections creates the
//! definitions; this crate only uses them.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use reqwest::{Method, header::HeaderName};
use sortie_api::Credential;
use url::Url;

use crate::oauth::Challenge;

/// A connection of one run: the saved or inline definition, restricted to the run's permissions.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Name for the agent: `[a-z0-9][a-z0-9._-]{0,99}`, unique in the run.
    pub name: String,
    /// Server of the connection.
    pub target: Target,
    /// Authentication at the server.
    pub auth: Auth,
    /// Headers that the engine adds to every request. Their values are treated as credentials.
    pub headers: Vec<(HeaderName, Credential)>,
    /// Purpose, as written by the person who saved the connection. The model reads it.
    pub description: Option<String>,
}

/// Server of a connection.
#[derive(Clone, Debug)]
pub enum Target {
    /// An HTTP API. Requests stay on the origin of `url` and below its path.
    Http {
        /// The base URL.
        url: Url,
        /// Permitted methods; `None` for all.
        allowed_methods: Option<Vec<Method>>,
    },
    /// An MCP server over streamable HTTP.
    Mcp {
        /// The MCP endpoint.
        url: Url,
        /// Permitted tools, by the server's names; `None` for all.
        allowed_tools: Option<Vec<String>>,
    },
    /// A program as MCP server. It runs in a sandbox, on self-hosted engines only.
    McpStdio {
        /// The program and its arguments.
        command: Vec<String>,
        /// Environment of the program. The values are treated as credentials.
        env: Vec<(String, Credential)>,
        /// Permitted tools, by the server's names; `None` for all.
        allowed_tools: Option<Vec<String>>,
    },
}

/// Authentication method, with its credentials.
#[derive(Clone)]
pub enum Auth {
    /// No authentication.
    None,
    /// `Authorization: Bearer …`.
    Bearer(Credential),
    /// `Authorization: Basic …`.
    Basic {
        /// The user name.
        username: String,
        /// The password.
        password: Credential,
    },
    /// A custom header.
    Header {
        /// The header's name.
        name: HeaderName,
        /// Value of the header or parameter.
        value: Credential,
    },
    /// A parameter in the query of every URL.
    Query {
        /// The parameter's name.
        name: String,
        /// Value of the header or parameter.
        value: Credential,
    },
    /// `Authorization: Bearer …` with an access token, which is refreshed after a refusal.
    OAuth(Arc<dyn Tokens>),
}

/// Prints only the kind.
impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Bearer(_) => "Bearer",
            Self::Basic { .. } => "Basic",
            Self::Header { .. } => "Header",
            Self::Query { .. } => "Query",
            Self::OAuth(_) => "OAuth",
        })
    }
}

/// Source of access tokens. The implementation refreshes tokens under a lock, so that a rotated refresh token is used once.
pub trait Tokens: Send + Sync {
    /// Returns a valid token. `refused` is the token that the server has just answered with 401. It is not returned again.
    /// [`TokenError::JustGiven`] if that token is too new to be refreshed for this reason.
    fn token<'a>(&'a self, refused: Option<&'a Credential>) -> BoxFuture<'a, Result<Credential, TokenError>>;

    /// Stores the challenge of a server that refuses every available token, for the next authorization. A challenge for more
    /// scopes requests that authorization. `refused` is the token that the server has refused; a challenge to a token of an
    /// earlier authorization is ignored.
    fn challenged<'a>(&'a self, refused: &'a Credential, challenge: Challenge) -> BoxFuture<'a, ()>;
}

/// Reason why there is no access token. The messages contain no credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The connection is not authorized yet, or the authorization has expired. A person has to authorize it.
    #[error("it needs to be authorized again: {0}")]
    NeedsAuthorization(String),
    /// The refused token is so new that another would be refused as well: the server refuses the request.
    #[error("the server refuses an access token that was given less than a minute ago")]
    JustGiven,
    /// The authorization server or the token store is not available.
    #[error("no access token could be had: {0}")]
    Unavailable(String),
}
