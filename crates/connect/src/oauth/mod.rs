//! OAuth 2.1 as a client: from a person's wish to authorize a connection to a grant, and from there to fresh tokens.
//!
//! [`Client::start`] finds the authorization server and makes the URL a person opens, [`Client::finish`] turns what the
//! server sent back into a [`Grant`], [`Client::refresh`] renews it. Nothing is stored here and nothing is locked: a
//! [`Pending`] and a [`Grant`] serialize with their secrets, for the caller to seal. PKCE with S256 is always used; an
//! authorization server that was discovered has to offer it. Every answer is bounded in bytes and in time, and no
//! redirect is followed.

use serde::{Deserialize, Serialize};
use sortie_api::Credential;
use url::Url;

/// What a connection's definition says of OAuth. What it leaves out is discovered.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The client id; without one the client introduces itself by its metadata document or registers.
    pub client_id: Option<String>,
    /// The client secret, for confidential clients.
    pub client_secret: Option<Credential>,
    /// Where to authorize and where to get tokens; without them they are discovered from the connection's URL.
    pub endpoints: Option<Endpoints>,
    /// The scopes to ask for; empty for what the server names.
    pub scopes: Vec<String>,
}

/// The two addresses of an authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// What a person opens.
    pub authorization_url: Url,
    /// Where codes and refresh tokens are turned into access tokens.
    pub token_url: Url,
}

/// The engine's own addresses.
#[derive(Clone, Debug)]
pub struct Home {
    /// Where the authorization server sends the person back to.
    pub redirect_uri: Url,
    /// Where the engine serves [`client_document`]: an https URL that authorization servers reach, if there is one.
    pub client_document: Option<Url>,
}

/// A flow that has begun.
#[derive(Clone, Debug)]
pub struct Started {
    /// What the person opens.
    pub authorization_url: Url,
    /// What has to be kept until the person comes back.
    pub pending: Pending,
}

/// What is kept between [`Client::start`] and [`Client::finish`]. It serializes with its secrets: to be sealed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pending {
    /// The `state` in the URL: what the callback is found by. Single use.
    #[serde(with = "exposed")]
    pub state: Credential,
    #[serde(with = "exposed")]
    code_verifier: Credential,
    redirect_uri: String,
    issuer: Option<String>,
    /// Whether the callback has to name the issuer.
    names_issuer: bool,
    token_url: Url,
    identity: Identity,
    resource: Option<String>,
    scope: Option<String>,
}

/// An authorization. It serializes with its secrets: to be sealed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Grant {
    /// What the API or MCP server takes.
    #[serde(with = "exposed")]
    pub access_token: Credential,
    /// How long the access token is valid from when it was given, in seconds; `None` where the server does not say.
    pub expires_in_seconds: Option<u64>,
    /// The scopes that were granted, where the server says.
    pub scope: Option<String>,
    /// The authorization server that gave it, where it was discovered.
    pub issuer: Option<String>,
    #[serde(with = "exposed_option")]
    refresh_token: Option<Credential>,
    token_url: Url,
    identity: Identity,
    resource: Option<String>,
}

impl Grant {
    /// Whether it can be renewed without a person.
    pub fn is_refreshable(&self) -> bool {
        self.refresh_token.is_some()
    }
}

/// Who the client is to the authorization server.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Identity {
    client_id: String,
    #[serde(with = "exposed_option")]
    client_secret: Option<Credential>,
    method: Method,
}

/// How the client proves itself at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Method {
    None,
    ClientSecretBasic,
    ClientSecretPost,
}

/// Why a step failed. The sentences are for people and hold no credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// What was discovered, given or sent back is not what the protocol demands: trying again changes nothing.
    #[error("{0}")]
    Refused(String),
    /// The grant is over, or the person said no: it has to be authorized again.
    #[error("{0}")]
    NeedsAuthorization(String),
    /// The server could not be had this time.
    #[error("{0}")]
    Unavailable(String),
}

/// Credentials as text, for what is sealed right afterwards.
mod exposed {
    use serde::{Deserialize, Deserializer, Serializer};
    use sortie_api::Credential;

    pub(super) fn serialize<S: Serializer>(secret: &Credential, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(secret.expose())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Credential, D::Error> {
        String::deserialize(from).map(Credential::new)
    }
}

/// [`exposed`] for what may be absent.
mod exposed_option {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use sortie_api::Credential;

    pub(super) fn serialize<S: Serializer>(secret: &Option<Credential>, to: S) -> Result<S::Ok, S::Error> {
        secret.as_ref().map(Credential::expose).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Credential>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(Credential::new))
    }
}
