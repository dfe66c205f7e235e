//! Definition of a connection: its server, its authentication, and the calls that a run may make.
//!
//! The types hold credentials only as [`Credential`], which shows nothing when it is printed. They are made by whoever
//! keeps connections; this crate only uses them.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use reqwest::{Method, header::HeaderName};
use sortie_api::Credential;
use url::Url;

use crate::oauth::Challenge;

/// A connection as one run has it: the saved or inline definition, narrowed by what the run allows.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The name under which the agent sees it: `[a-z0-9][a-z0-9._-]{0,99}`, unique in the run.
    pub name: String,
    /// Server of the connection.
    pub target: Target,
    /// Authentication at the server.
    pub auth: Auth,
    /// Headers the engine adds to every request. Their values are treated as credentials.
    pub headers: Vec<(HeaderName, Credential)>,
    /// Purpose, in the words of whoever saved the connection; the model reads it.
    pub description: Option<String>,
}

/// Server of a connection.
#[derive(Clone, Debug)]
pub enum Target {
    /// An HTTP API. Requests stay on the origin of `url` and below its path.
    Http {
        /// The base URL.
        url: Url,
        /// The methods the agent may use; `None` for all.
        allowed_methods: Option<Vec<Method>>,
    },
    /// An MCP server over streamable HTTP.
    Mcp {
        /// The MCP endpoint.
        url: Url,
        /// The tools the agent may use, by the server's own names; `None` for all.
        allowed_tools: Option<Vec<String>>,
    },
    /// An MCP server that is a program: started inside a sandbox, on self-hosted engines only.
    McpStdio {
        /// The program and its arguments.
        command: Vec<String>,
        /// Environment of the program. The values are treated as credentials.
        env: Vec<(String, Credential)>,
        /// The tools the agent may use, by the server's own names; `None` for all.
        allowed_tools: Option<Vec<String>>,
    },
}

/// Authentication method, with its credentials.
#[derive(Clone)]
pub enum Auth {
    /// Not at all.
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
    /// A header of its own.
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
    /// `Authorization: Bearer …` with an access token that is refreshed when it is refused.
    OAuth(Arc<dyn Tokens>),
}

/// Names the kind and nothing else.
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

/// Source of access tokens. The keeper of the tokens refreshes them under a lock, so that a rotated refresh token is
/// used once.
pub trait Tokens: Send + Sync {
    /// A token that is valid now. `refused` is the one that the server has just answered with 401: it is not returned
    /// again. [`TokenError::JustGiven`] where it is too new to be renewed for that.
    fn token<'a>(&'a self, refused: Option<&'a Credential>) -> BoxFuture<'a, Result<Credential, TokenError>>;

    /// Keeps the challenge of a server that refuses every token there is, for the next authorization. One that wants
    /// more scopes asks for that authorization. `refused` is the token that the server has refused: a challenge to one
    /// of an earlier authorization does not count.
    fn challenged<'a>(&'a self, refused: &'a Credential, challenge: Challenge) -> BoxFuture<'a, ()>;
}

/// Reason why there is no access token. The sentences name no credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Nobody has authorized the connection yet, or the authorization is over: a person has to do it again.
    #[error("it needs to be authorized again: {0}")]
    NeedsAuthorization(String),
    /// The refused token was given so lately that another would be refused as well: it is the request that is refused.
    #[error("the server refuses an access token that was given less than a minute ago")]
    JustGiven,
    /// The authorization server, or what is stored, cannot be had at the moment.
    #[error("no access token could be had: {0}")]
    Unavailable(String),
}
