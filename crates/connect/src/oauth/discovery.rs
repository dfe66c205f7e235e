//! Discovers the endpoints of the authorization server from the URL of an API or MCP server.
//!
//! The resource's challenge or its well-known documents (RFC 9728) name the authorization server. The metadata of that server
//! (RFC 8414, or of an `OpenID` provider, with the path inserted or appended) name the endpoints. The issuer must be the
//! requested one, and the server must support PKCE with S256. Otherwise the flow is refused.

use bytes::Bytes;
use reqwest::{Method, StatusCode};
use serde_json::json;
use url::Url;

use super::{
    Error,
    challenge::Challenge,
    wire::{Answer, Wire, without_query},
};
use crate::{Target, text};

/// Maximum number of authorization servers that are tried per resource.
const SERVERS: usize = 3;
/// Maximum length of a resource's issuers in an error, in bytes.
const NAMED_BYTES: usize = 300;

/// Discovered endpoints and issuer.
pub(super) struct Discovered {
    pub(super) server: Server,
    /// The resource's identifier for `resource` (RFC 8707).
    pub(super) resource: String,
    /// The scopes that the resource requires.
    pub(super) scope: Option<String>,
}

/// The relevant metadata of an authorization server.
pub(super) struct Server {
    pub(super) issuer: String,
    pub(super) authorization_url: Url,
    pub(super) token_url: Url,
    pub(super) registration_url: Option<Url>,
    pub(super) token_methods: Vec<String>,
    pub(super) scopes: Vec<String>,
    pub(super) names_issuer: bool,
    pub(super) takes_client_documents: bool,
}

/// Discovers the authorization server of a connection's target. If one is `expected`, another one is refused. `earlier` is the
/// challenge of a previous call, for a resource that does not require authorization for the first message.
pub(super) async fn discover(
    wire: &Wire,
    target: &Target,
    expected: Option<&str>,
    earlier: Option<&Challenge>,
) -> Result<Discovered, Error> {
    let (method, url, body) = match target {
        Target::Http { url, .. } => (Method::GET, url, None),
        Target::Mcp { url, .. } => (Method::POST, url, Some(Bytes::from(first_message()))),
        Target::McpStdio { .. } => {
            return Err(Error::Refused(
                "a program as MCP server has no authorization".to_owned(),
            ));
        }
    };
    wire.check("url", url)?;
    let mut challenge = knock(wire, method, url, body).await?;
    if challenge.is_empty()
        && let Some(earlier) = earlier
    {
        challenge = earlier.clone();
    }
    let protected = protected_resource(wire, url, &challenge).await?;
    let (issuers, resource, scopes) = match &protected {
        Some(metadata) => {
            let issuers = metadata.texts("authorization_servers");
            let resource = metadata.text("resource").unwrap_or(url.as_str()).to_owned();
            (issuers, resource, metadata.texts("scopes_supported").join(" "))
        }
        // Before RFC 9728 the server's own origin was its authorization server.
        None => (Vec::new(), canonical(url), String::new()),
    };
    let own = url.origin().ascii_serialization();
    let issuers = if issuers.is_empty() {
        vec![own.as_str()]
    } else {
        issuers
    };
    let issuers = match expected {
        Some(expected) => vec![only(url, &issuers, expected)?],
        None => issuers,
    };
    let mut last = None;
    for issuer in issuers.into_iter().take(SERVERS) {
        match server(wire, issuer).await {
            Ok(server) => {
                let scope = challenge
                    .scope
                    .or(Some(scopes))
                    .filter(|scope| !scope.trim().is_empty());
                return Ok(Discovered {
                    server,
                    resource,
                    scope,
                });
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| Error::Refused("no authorization server is named".to_owned())))
}

/// Returns the expected issuer among `named`. The error explains the change and the remedy.
fn only<'a>(url: &Url, named: &[&'a str], expected: &str) -> Result<&'a str, Error> {
    let is_expected = |named: &&&str| named.trim_end_matches('/') == expected.trim_end_matches('/');
    named.iter().find(is_expected).copied().ok_or_else(|| {
        let named = text::line(&named.join(", "), NAMED_BYTES);
        Error::Refused(format!(
            "{} names {named} as its authorization server, but auth.client_id belongs to {expected}: nothing was sent. If the \
             change is right, save the connection again with the client and the auth.issuer of the new server",
            without_query(url)
        ))
    })
}

/// Sends a request without credentials to get the challenge.
async fn knock(wire: &Wire, method: Method, url: &Url, body: Option<Bytes>) -> Result<Challenge, Error> {
    let response = wire.knock(method, url, body).await?;
    if response.status() != StatusCode::UNAUTHORIZED {
        return Ok(Challenge::default());
    }
    Ok(Challenge::of(&response))
}

/// Returns the first message of every MCP client. Most servers require authorization before they parse it.
fn first_message() -> String {
    json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "sortie", "version": env!("CARGO_PKG_VERSION")}
        }
    })
    .to_string()
}

/// Fetches the resource's metadata: from the URL in the challenge, then from the two well-known URLs.
async fn protected_resource(wire: &Wire, url: &Url, challenge: &Challenge) -> Result<Option<Answer>, Error> {
    const WELL_KNOWN: &str = "oauth-protected-resource";
    let mut places = Vec::new();
    if let Some(named) = &challenge.resource_metadata {
        let named: Url = named
            .parse()
            .map_err(|_| Error::Refused("resource_metadata: the challenge names no URL".to_owned()))?;
        places.push(named);
    }
    places.extend(well_known(url, WELL_KNOWN, url.path()));
    places.extend(well_known(url, WELL_KNOWN, ""));
    for at in places {
        wire.check("resource_metadata", &at)?;
        let Some(metadata) = wire.find(&at).await? else {
            continue;
        };
        let is_for_url = metadata
            .text("resource")
            .and_then(|resource| resource.parse::<Url>().ok())
            .is_some_and(|resource| covers(&resource, url));
        if !is_for_url {
            return Err(Error::Refused(format!(
                "{}: the metadata is of another resource than {}",
                without_query(&at),
                without_query(url)
            )));
        }
        return Ok(Some(metadata));
    }
    Ok(None)
}

/// Whether metadata of `resource` applies to `url`: the same origin, and its path or a parent of it.
fn covers(resource: &Url, url: &Url) -> bool {
    let above = resource.path().trim_end_matches('/');
    let below = url.path().strip_prefix(above);
    resource.origin() == url.origin() && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Fetches the authorization server's metadata from the possible URLs of its issuer.
async fn server(wire: &Wire, issuer: &str) -> Result<Server, Error> {
    let url: Url = issuer
        .parse()
        .map_err(|_| Error::Refused("authorization_servers: names no URL".to_owned()))?;
    wire.check("issuer", &url)?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err(Error::Refused(
            "issuer: must have no query and no fragment".to_owned(),
        ));
    }
    let mut places = Vec::new();
    places.extend(well_known(&url, "oauth-authorization-server", url.path()));
    places.extend(well_known(&url, "openid-configuration", url.path()));
    let mut appended = url.clone();
    appended.set_path(&format!(
        "{}/.well-known/openid-configuration",
        url.path().trim_end_matches('/')
    ));
    if !places.contains(&appended) {
        places.push(appended);
    }
    for at in places {
        if let Some(metadata) = wire.find(&at).await? {
            return read(wire, issuer, &metadata);
        }
    }
    Err(Error::Refused(format!(
        "{}: no metadata of an authorization server",
        without_query(&url)
    )))
}

fn read(wire: &Wire, issuer: &str, metadata: &Answer) -> Result<Server, Error> {
    let named = metadata.text("issuer").unwrap_or_default();
    // Servers may spell their issuer with a trailing slash in one place and without it in another.
    if named.trim_end_matches('/') != issuer.trim_end_matches('/') {
        return Err(Error::Refused(
            "the metadata has a different issuer than requested".to_owned(),
        ));
    }
    if !metadata
        .texts("code_challenge_methods_supported")
        .contains(&"S256")
    {
        return Err(Error::Refused(
            "the authorization server does not offer PKCE with S256 (code_challenge_methods_supported)"
                .to_owned(),
        ));
    }
    let registration_url = match metadata.text("registration_endpoint") {
        Some(_) => Some(metadata.url("registration_endpoint", wire)?),
        None => None,
    };
    let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect::<Vec<_>>();
    Ok(Server {
        issuer: named.to_owned(),
        authorization_url: metadata.url("authorization_endpoint", wire)?,
        token_url: metadata.url("token_endpoint", wire)?,
        registration_url,
        token_methods: owned(metadata.texts("token_endpoint_auth_methods_supported")),
        scopes: owned(metadata.texts("scopes_supported")),
        names_issuer: metadata.is_true("authorization_response_iss_parameter_supported"),
        takes_client_documents: metadata.is_true("client_id_metadata_document_supported"),
    })
}

/// Returns `/.well-known/NAME` followed by `path`, on the origin of `url`.
fn well_known(url: &Url, name: &str, path: &str) -> Option<Url> {
    let path = path.trim_end_matches('/');
    let mut at = url.clone();
    at.set_query(None);
    at.set_fragment(None);
    at.set_path(&format!("/.well-known/{name}{path}"));
    (at.origin() == url.origin()).then_some(at)
}

/// Returns the URL as the identifier of a resource: without query and fragment.
fn canonical(url: &Url) -> String {
    let mut name = url.clone();
    name.set_query(None);
    name.set_fragment(None);
    name.as_str().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn well_known_paths_are_inserted_between_host_and_path() {
        let issuer = url("https://a.b/tenant/");
        assert_eq!(
            well_known(&issuer, "x", issuer.path()).unwrap().as_str(),
            "https://a.b/.well-known/x/tenant"
        );
        let issuer = url("https://a.b?c#d");
        assert_eq!(
            well_known(&issuer, "x", issuer.path()).unwrap().as_str(),
            "https://a.b/.well-known/x"
        );
    }

    #[test]
    fn metadata_holds_for_its_own_origin_at_or_below_its_path() {
        for (resource, of, holds) in [
            ("https://a.b/mcp", "https://a.b/mcp", true),
            ("https://a.b", "https://a.b/mcp", true),
            ("https://a.b/", "https://a.b/mcp", true),
            ("https://a.b/mcp/", "https://a.b/mcp", true),
            ("https://a.b/mc", "https://a.b/mcp", false),
            ("https://a.b/mcp/x", "https://a.b/mcp", false),
            ("https://evil.com/mcp", "https://a.b/mcp", false),
            ("http://a.b/mcp", "https://a.b/mcp", false),
        ] {
            assert_eq!(covers(&url(resource), &url(of)), holds, "{resource} {of}");
        }
    }
}
