//! Metadata of an identity provider (`OpenID` Connect Discovery 1.0).

use serde::Deserialize;
use url::{Host, Url};

/// Metadata of a provider that a sign-in uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Metadata {
    /// Page at which a person signs in.
    pub(super) authorization_endpoint: Url,
    /// Endpoint that takes authorization codes.
    pub(super) token_endpoint: Url,
    /// Endpoint that returns the claims of a person.
    pub(super) userinfo_endpoint: Option<Url>,
    /// Document with the keys of the provider.
    pub(super) jwks_uri: Url,
    /// Authentication of clients at the token endpoint.
    pub(super) client_auth: ClientAuth,
    /// Whether every authorization response names the issuer (RFC 9207).
    pub(super) names_issuer: bool,
}

/// Authentication of clients at a token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientAuth {
    /// `client_secret_basic`.
    Basic,
    /// `client_secret_post`.
    Post,
}

/// Document of a provider.
#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    userinfo_endpoint: Option<String>,
    jwks_uri: String,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

impl Metadata {
    /// Parses the document of the provider `issuer`. The error text is for the operator.
    pub(super) fn parse(bytes: &[u8], issuer: &str) -> Result<Self, &'static str> {
        let document: Document =
            serde_json::from_slice(bytes).map_err(|_| "is no JSON with the members of a provider")?;
        if document.issuer != issuer {
            return Err("names another issuer");
        }
        let issuer = issuer_url(issuer).ok_or("names an issuer with a wrong form")?;
        let endpoint = |text: &str, error| endpoint(text, &issuer).ok_or(error);
        let methods = document.token_endpoint_auth_methods_supported;
        let has = |name: &str| {
            methods
                .as_ref()
                .is_some_and(|methods| methods.iter().any(|method| method == name))
        };
        let client_auth = if methods.is_none() || has("client_secret_basic") {
            ClientAuth::Basic
        } else if has("client_secret_post") {
            ClientAuth::Post
        } else {
            return Err("offers neither client_secret_basic nor client_secret_post");
        };
        Ok(Self {
            authorization_endpoint: endpoint(
                &document.authorization_endpoint,
                "has an authorization_endpoint that is not secure",
            )?,
            token_endpoint: endpoint(
                &document.token_endpoint,
                "has a token_endpoint that is not secure",
            )?,
            userinfo_endpoint: document
                .userinfo_endpoint
                .map(|text| endpoint(&text, "has a userinfo_endpoint that is not secure"))
                .transpose()?,
            jwks_uri: endpoint(&document.jwks_uri, "has a jwks_uri that is not secure")?,
            client_auth,
            names_issuer: document.authorization_response_iss_parameter_supported,
        })
    }
}

/// Parses an issuer: an `https` address without user, query and fragment; plain http is allowed on loopback addresses.
pub(crate) fn issuer_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    (plain && is_secure(&url)).then_some(url)
}

/// Address of the metadata of a provider.
pub(super) fn metadata_url(issuer: &str) -> Option<Url> {
    let base = issuer.strip_suffix('/').unwrap_or(issuer);
    Url::parse(&format!("{base}/.well-known/openid-configuration")).ok()
}

/// Parses an endpoint. Plain http is allowed on loopback addresses, if the provider itself is at one.
fn endpoint(text: &str, issuer: &Url) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    let as_issuer = url.scheme() == "https" || issuer.scheme() == "http" && is_secure(&url);
    (plain && as_issuer).then_some(url)
}

fn is_secure(url: &Url) -> bool {
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    url.scheme() == "https" && url.has_host() || url.scheme() == "http" && is_loopback
}
