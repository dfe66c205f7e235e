//! Metadata documents of the authorization server (RFC 8414) and of the protected resource (RFC 9728).

use serde_json::{Value, json};

use super::metadata::AuthMethod;
use crate::{Accounts, Options};

/// Path of the MCP server below the engine API. MCP clients ask for tokens for its address.
pub const MCP_PATH: &str = "/mcp";

/// Path of the metadata of a protected resource, before the path of the resource.
const PROTECTED_RESOURCE: &str = "/.well-known/oauth-protected-resource";

impl Accounts {
    /// Metadata of the authorization server.
    pub fn oauth_metadata(&self) -> Value {
        let issuer = &self.0.options.org_url;
        let methods = [
            AuthMethod::None,
            AuthMethod::ClientSecretBasic,
            AuthMethod::ClientSecretPost,
        ]
        .map(AuthMethod::as_str);
        json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/oauth/authorize"),
            "token_endpoint": format!("{issuer}/oauth/token"),
            "registration_endpoint": format!("{issuer}/oauth/register"),
            "revocation_endpoint": format!("{issuer}/oauth/revoke"),
            "scopes_supported": ["member", "admin"],
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": methods,
            "revocation_endpoint_auth_methods_supported": methods,
            "authorization_response_iss_parameter_supported": true,
            "client_id_metadata_document_supported": true,
            "protected_resources": self.0.options.resources(),
        })
    }
}

impl Options {
    /// Addresses that clients may ask for tokens for. Each token is one for the engine API, which has the MCP server.
    pub(super) fn resources(&self) -> [String; 2] {
        ["", MCP_PATH].map(|path| format!("{}{path}", self.engine_url))
    }

    /// Metadata of the engine API as a protected resource, or of the resource at a path below it.
    pub fn resource_metadata(&self, below: &str) -> Value {
        json!({
            "resource": format!("{}{below}", self.engine_url),
            "authorization_servers": [self.org_url],
            "scopes_supported": ["member", "admin"],
            "bearer_methods_supported": ["header"],
            "resource_name": "Sortie",
        })
    }

    /// Path of the engine API after its host, empty if the API is at the root.
    pub fn engine_path(&self) -> &str {
        split(&self.engine_url).1
    }

    /// Address of the metadata of the engine API, or of the resource at a path below it: the well-known path is inserted between the
    /// host and the path.
    pub fn resource_metadata_url(&self, below: &str) -> String {
        let (origin, path) = split(&self.engine_url);
        format!("{origin}{PROTECTED_RESOURCE}{path}{below}")
    }
}

/// Splits an address after its host.
fn split(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url.get(host..).and_then(|rest| rest.find('/'));
    url.split_at(end.map_or(url.len(), |at| host + at))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn an_address_is_split_behind_its_host() {
        assert_eq!(split("https://a.example"), ("https://a.example", ""));
        assert_eq!(
            split("https://a.example:8443/x/y"),
            ("https://a.example:8443", "/x/y")
        );
        assert_eq!(split("http://127.0.0.1:8080/x"), ("http://127.0.0.1:8080", "/x"));
    }
}
