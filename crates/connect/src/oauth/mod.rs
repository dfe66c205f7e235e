//! OAuth 2.1 client: authorization of a connection by a person, and refreshing of tokens.
//!
//! [`Client::start`] discovers the authorization server and returns the URL that a person opens. [`Client::finish`] exchanges the
//! callback for a [`Grant`], and [`Client::refresh`] refreshes it. The client stores and locks nothing: a [`Pending`] and a
//! [`Grant`] serialize with their secrets, and the caller seals them. PKCE with S256 is always used; a discovered authorization
//! server must support it. Every response has limits of size and time, and redirects are not followed.

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

/// Number of random bytes in a `state` and in a code verifier.
const RANDOM_BYTES: usize = 32;

/// OAuth settings of a connection. Missing ones are discovered.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The client id. Without it the client uses its metadata document or registers dynamically.
    pub client_id: Option<String>,
    /// The client secret, for confidential clients.
    pub client_secret: Option<Credential>,
    /// Authorization and token endpoints. Without them they are discovered from the connection's URL.
    pub endpoints: Option<Endpoints>,
    /// The requested scopes. If empty, those that the server names.
    pub scopes: Vec<String>,
    /// Issuer of the given client. The client and its secret are sent to no other issuer.
    pub issuer: Option<String>,
    /// Challenge of calls since the last authorization.
    pub challenge: Option<Challenge>,
    /// Scopes of the last authorization, to which a challenge adds.
    pub granted: Option<String>,
    /// Unique text of the connection, which is part of its separate redirect URI.
    pub context: String,
}

impl Settings {
    /// Returns the scopes to request: these, and after a challenge for more scopes also those of the last authorization and of
    /// the challenge.
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
    /// Address that the person opens.
    pub authorization_url: Url,
    /// Token endpoint, which exchanges codes and refresh tokens for access tokens.
    pub token_url: Url,
}

/// The engine's own addresses.
#[derive(Clone, Debug)]
pub struct Home {
    /// Redirect URI of clients that an administrator registered. Other flows append a segment to it.
    pub redirect_uri: Url,
    /// Parent URL of the [`client_document`]s, which the engine serves under the tag of each redirect URI. An https URL that
    /// authorization servers can reach, if there is one.
    /// authorization servers reach, if there is one.
    pub client_document: Option<Url>,
}

/// A started flow.
#[derive(Clone, Debug)]
pub struct Started {
    /// Address that the person opens.
    pub authorization_url: Url,
    /// State to keep until the callback.
    pub pending: Pending,
}

/// State between [`Client::start`] and [`Client::finish`]. It serializes with its secrets, so the caller must seal it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pending {
    /// The `state` in the URL, which identifies the flow of a callback. Single use.
    #[serde(with = "exposed")]
    pub state: Credential,
    #[serde(with = "exposed")]
    code_verifier: Credential,
    redirect_uri: String,
    /// Last segment of the redirect URI, unless it is the shared one.
    tag: Option<String>,
    /// Origin of the authorization URL that the person opened.
    pub server: String,
    issuer: Option<String>,
    /// Whether the callback must name the issuer.
    names_issuer: bool,
    token_url: Url,
    identity: Identity,
    resource: Option<String>,
    scope: Option<String>,
}

/// An authorization. It serializes with its secrets, so the caller must seal it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Grant {
    /// Access token for the API or MCP server.
    #[serde(with = "exposed")]
    pub access_token: Credential,
    /// Lifetime of the access token from its issue, in seconds. `None` if the server does not report it.
    pub expires_in_seconds: Option<u64>,
    /// The granted scopes, if the server reports them.
    pub scope: Option<String>,
    /// Issuer of the grant, if it was discovered or configured.
    pub issuer: Option<String>,
    /// Account of the tokens, if the server reports it.
    pub account: Option<String>,
    #[serde(with = "exposed_option")]
    refresh_token: Option<Credential>,
    token_url: Url,
    identity: Identity,
    resource: Option<String>,
}

impl Grant {
    /// Whether it can be refreshed without a person.
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

/// Reason why a step failed. The messages are for people and contain no credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The settings or the server violate the protocol: a retry cannot help.
    #[error("{0}")]
    Refused(String),
    /// The grant has expired, or the person refused: a new authorization is necessary.
    #[error("{0}")]
    NeedsAuthorization(String),
    /// The server is temporarily unavailable.
    #[error("{0}")]
    Unavailable(String),
}

/// The client of authorization servers.
#[derive(Clone, Debug)]
pub struct Client {
    wire: Wire,
}

impl Client {
    /// Creates a client that reaches the addresses of `network`. With [`Reach::Public`](sortie_net::Reach::Public), all URLs must
    /// be https.
    pub fn new(network: &Arc<Network>) -> Result<Self, sortie_net::Error> {
        Ok(Self {
            wire: Wire::new(network)?,
        })
    }

    /// Starts a flow for the server of `target`.
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
            // OpenID providers return a refresh token for this scope only if the request asks for consent.
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
            // Plain APIs may reject an unknown parameter.
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
        // A client that the engine creates belongs to no server yet.
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

    /// Completes a flow with the callback of the person's browser.
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

    /// Refreshes a grant. The caller must hold the connection's lock: a refresh token may be valid only once, and the returned
    /// grant replaces the old one.
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

/// The scope that requests a refresh token.
const OFFLINE_ACCESS: &str = "offline_access";

/// Parameters of a flow.
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

/// Returns the resource's scopes, and the one for a refresh token if the server supports it.
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
    getrandom::fill(&mut bytes)
        .map_err(|_| Error::Unavailable("the system provides no random bytes".to_owned()))?;
    Ok(Credential::new(URL_SAFE_NO_PAD.encode(bytes)))
}

/// Serializes credentials as text, for values that are sealed immediately afterwards.
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

/// [`exposed`] for optional credentials.
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
