//! OAuth 2.1 as a client: from a person's wish to authorize a connection to a grant, and from there to fresh tokens.
//!
//! [`Client::start`] finds the authorization server and makes the URL a person opens, [`Client::finish`] turns what the
//! server sent back into a [`Grant`], [`Client::refresh`] renews it. Nothing is stored here and nothing is locked: a
//! [`Pending`] and a [`Grant`] serialize with their secrets, for the caller to seal. PKCE with S256 is always used; an
//! authorization server that was discovered has to offer it. Every answer is bounded in bytes and in time, and no
//! redirect is followed.

mod account;
mod callback;
mod challenge;
mod discovery;
mod own;
mod registration;
mod token;
mod wire;

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sortie_api::Credential;
use sortie_net::Network;
use url::Url;

pub use self::{
    callback::Callback,
    challenge::Challenge,
    own::{below, is_tag},
    registration::client_document,
};
use self::{own::Addresses, registration::Registered, token::Terms, wire::Wire};
use crate::Target;

/// Bytes of a `state` and of a code verifier before they are encoded.
const RANDOM_BYTES: usize = 32;

/// OAuth settings of a connection's definition. Missing ones are discovered.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The client id; without one the client introduces itself by its metadata document or registers.
    pub client_id: Option<String>,
    /// The client secret, for confidential clients.
    pub client_secret: Option<Credential>,
    /// Authorization and token endpoints; without them they are discovered from the connection's URL.
    pub endpoints: Option<Endpoints>,
    /// The scopes to ask for; empty for what the server names.
    pub scopes: Vec<String>,
    /// Issuer that the given client belongs to. The client and its secret are sent to no other.
    pub issuer: Option<String>,
    /// Challenge of calls that were made since the last authorization.
    pub challenge: Option<Challenge>,
    /// Scopes of the last authorization, which a challenge adds to.
    pub granted: Option<String>,
    /// Text that no other connection has: part of the redirect URI that the connection has for itself.
    pub context: String,
}

impl Settings {
    /// Returns the scopes to ask for: these, and after a challenge for more those of the last authorization and of the
    /// challenge as well.
    fn scope_over(&self, scopes: &str) -> Option<String> {
        let wanted = self
            .challenge
            .as_ref()
            .and_then(|challenge| challenge.scope.as_deref());
        let granted = self.granted.as_deref().filter(|_| wanted.is_some());
        challenge::union(&[Some(scopes), granted, wanted])
    }
}

/// The two addresses of an authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// Address that a person opens.
    pub authorization_url: Url,
    /// Token endpoint, which exchanges codes and refresh tokens for access tokens.
    pub token_url: Url,
}

/// The engine's own addresses.
#[derive(Clone, Debug)]
pub struct Home {
    /// Redirect URI of clients that an administrator registered. Those of all other flows are one segment longer.
    pub redirect_uri: Url,
    /// Folder where the engine serves [`client_document`], under the tag of each redirect URI: an https URL that
    /// authorization servers reach, if there is one.
    pub client_document: Option<Url>,
}

/// A flow that has begun.
#[derive(Clone, Debug)]
pub struct Started {
    /// Address that the person opens.
    pub authorization_url: Url,
    /// State to keep until the person comes back.
    pub pending: Pending,
}

/// State between [`Client::start`] and [`Client::finish`]. It serializes with its secrets: seal it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pending {
    /// The `state` in the URL: what the callback is found by. Single use.
    #[serde(with = "exposed")]
    pub state: Credential,
    #[serde(with = "exposed")]
    code_verifier: Credential,
    redirect_uri: String,
    /// Last segment of the redirect URI, where it is the connection's own.
    tag: Option<String>,
    /// Origin of the authorization URL that the person opened.
    pub server: String,
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
    /// Access token for the API or MCP server.
    #[serde(with = "exposed")]
    pub access_token: Credential,
    /// Lifetime of the access token from its issue, in seconds; `None` where the server does not say.
    pub expires_in_seconds: Option<u64>,
    /// The scopes that were granted, where the server says.
    pub scope: Option<String>,
    /// Issuer of the authorization server that gave it, where it was discovered or named.
    pub issuer: Option<String>,
    /// Account that the tokens belong to, where the server names it.
    pub account: Option<String>,
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

/// Identity of the client at the authorization server.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Identity {
    client_id: String,
    #[serde(with = "exposed_option")]
    client_secret: Option<Credential>,
    method: Method,
}

/// Authentication of the client at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Method {
    None,
    ClientSecretBasic,
    ClientSecretPost,
}

/// Reason why a step failed. The sentences are for people and hold no credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The settings or the server break the protocol: trying again changes nothing.
    #[error("{0}")]
    Refused(String),
    /// The grant is over, or the person said no: it has to be authorized again.
    #[error("{0}")]
    NeedsAuthorization(String),
    /// The server could not be had this time.
    #[error("{0}")]
    Unavailable(String),
}

/// The client of authorization servers.
#[derive(Clone, Debug)]
pub struct Client {
    wire: Wire,
}

impl Client {
    /// A client that reaches what `network` allows. Where that is [`Reach::Public`](sortie_net::Reach::Public),
    /// everything has to be https.
    pub fn new(network: &Arc<Network>) -> Result<Self, sortie_net::Error> {
        Ok(Self {
            wire: Wire::new(network)?,
        })
    }

    /// Begins a flow for what `target` leads to.
    pub async fn start(&self, target: &Target, settings: &Settings, home: &Home) -> Result<Started, Error> {
        let plan = match &settings.endpoints {
            Some(endpoints) => self.given(target, settings, endpoints, home)?,
            None => self.discovered(target, settings, home).await?,
        };
        let state = random()?;
        let code_verifier = random()?;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(code_verifier.expose()));
        let mut url = plan.authorization_url;
        let server = url.origin().ascii_serialization();
        {
            let mut query = url.query_pairs_mut();
            query
                .append_pair("response_type", "code")
                .append_pair("client_id", &plan.identity.client_id)
                .append_pair("redirect_uri", plan.addresses.redirect_uri.as_str())
                .append_pair("state", state.expose())
                .append_pair("code_challenge", &challenge)
                .append_pair("code_challenge_method", "S256");
            if let Some(scope) = &plan.scope {
                query.append_pair("scope", scope);
            }
            if let Some(resource) = &plan.resource {
                query.append_pair("resource", resource);
            }
            // OpenID providers give a refresh token for this scope only to those who ask for consent.
            let scopes = plan.scope.as_deref().unwrap_or_default();
            if scopes.split(' ').any(|scope| scope == OFFLINE_ACCESS) {
                query.append_pair("prompt", "consent");
            }
        }
        let pending = Pending {
            state,
            code_verifier,
            redirect_uri: plan.addresses.redirect_uri.into(),
            tag: plan.addresses.tag,
            server,
            issuer: plan.issuer,
            names_issuer: plan.names_issuer,
            token_url: plan.token_url,
            identity: plan.identity,
            resource: plan.resource,
            scope: plan.scope,
        };
        Ok(Started {
            authorization_url: url,
            pending,
        })
    }

    fn given(
        &self,
        target: &Target,
        settings: &Settings,
        endpoints: &Endpoints,
        home: &Home,
    ) -> Result<Plan, Error> {
        self.wire
            .check("auth.authorization_url", &endpoints.authorization_url)?;
        self.wire.check("auth.token_url", &endpoints.token_url)?;
        let client_id = settings.client_id.as_deref().ok_or_else(|| {
            Error::Refused("auth.client_id: required with authorization_url and token_url".to_owned())
        })?;
        let resource = match target {
            Target::Mcp { url, .. } => Some(url.as_str().to_owned()),
            // Plain APIs may refuse a parameter they do not know.
            Target::Http { .. } | Target::McpStdio { .. } => None,
        };
        Ok(Plan {
            authorization_url: endpoints.authorization_url.clone(),
            token_url: endpoints.token_url.clone(),
            identity: registration::given(client_id, settings.client_secret.as_ref(), &[]),
            scope: settings.scope_over(&settings.scopes.join(" ")),
            resource,
            issuer: settings.issuer.clone(),
            names_issuer: false,
            addresses: Addresses::shared(home),
        })
    }

    async fn discovered(&self, target: &Target, settings: &Settings, home: &Home) -> Result<Plan, Error> {
        // A client that the engine makes itself belongs to no server yet.
        let expected = settings
            .issuer
            .as_deref()
            .filter(|_| settings.client_id.is_some());
        let found = discovery::discover(&self.wire, target, expected, settings.challenge.as_ref()).await?;
        let server = found.server;
        let scope = if settings.scopes.is_empty() {
            let scope = settings.scope_over(found.scope.as_deref().unwrap_or_default());
            with_offline_access(scope, &server.scopes)
        } else {
            settings.scope_over(&settings.scopes.join(" "))
        };
        let Registered { identity, addresses } =
            registration::identify(&self.wire, &server, settings, home, scope.as_deref()).await?;
        Ok(Plan {
            authorization_url: server.authorization_url,
            token_url: server.token_url,
            identity,
            scope,
            resource: Some(found.resource),
            issuer: Some(server.issuer),
            names_issuer: server.names_issuer,
            addresses,
        })
    }

    /// Ends a flow with what the person's browser brought back.
    pub async fn finish(&self, pending: Pending, callback: Callback<'_>) -> Result<Grant, Error> {
        let code = callback::code(&pending, callback)?;
        let form = vec![
            ("grant_type", "authorization_code"),
            ("code", code.expose()),
            ("redirect_uri", &pending.redirect_uri),
            ("code_verifier", pending.code_verifier.expose()),
        ];
        let terms = Terms {
            token_url: pending.token_url.clone(),
            identity: pending.identity.clone(),
            resource: pending.resource.clone(),
            issuer: pending.issuer.clone(),
            refresh_token: None,
            scope: pending.scope.clone(),
            account: None,
        };
        token::ask(&self.wire, form, terms).await
    }

    /// Renews a grant. The caller holds the connection's lock: a refresh token may be good for one use only, and the
    /// grant that comes back takes the place of the old one.
    pub async fn refresh(&self, grant: &Grant) -> Result<Grant, Error> {
        let refresh_token = grant.refresh_token.as_ref().ok_or_else(|| {
            Error::NeedsAuthorization("the authorization server gave no refresh token".to_owned())
        })?;
        let form = vec![
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token.expose()),
        ];
        let terms = Terms {
            token_url: grant.token_url.clone(),
            identity: grant.identity.clone(),
            resource: grant.resource.clone(),
            issuer: grant.issuer.clone(),
            refresh_token: Some(refresh_token.clone()),
            scope: grant.scope.clone(),
            account: grant.account.clone(),
        };
        token::ask(&self.wire, form, terms).await
    }
}

/// The scope that stands for a refresh token.
const OFFLINE_ACCESS: &str = "offline_access";

/// Facts that a flow needs.
struct Plan {
    authorization_url: Url,
    token_url: Url,
    identity: Identity,
    scope: Option<String>,
    resource: Option<String>,
    issuer: Option<String>,
    names_issuer: bool,
    addresses: Addresses,
}

/// The resource's scopes, and the one for a refresh token where the server has it.
fn with_offline_access(scope: Option<String>, offered: &[String]) -> Option<String> {
    let scope = scope?;
    let has_it = scope.split(' ').any(|one| one == OFFLINE_ACCESS);
    if has_it || !offered.iter().any(|one| one == OFFLINE_ACCESS) {
        return Some(scope);
    }
    Some(format!("{scope} {OFFLINE_ACCESS}"))
}

fn random() -> Result<Credential, Error> {
    let mut bytes = [0; RANDOM_BYTES];
    getrandom::fill(&mut bytes).map_err(|_| Error::Unavailable("there is no randomness".to_owned()))?;
    Ok(Credential::new(URL_SAFE_NO_PAD.encode(bytes)))
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

    #[expect(clippy::ref_option, reason = "the shape that serde calls")]
    pub(super) fn serialize<S: Serializer>(secret: &Option<Credential>, to: S) -> Result<S::Ok, S::Error> {
        secret.as_ref().map(Credential::expose).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Credential>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(Credential::new))
    }
}
