//! Challenges of refused requests (`WWW-Authenticate`, RFC 6750 and RFC 9728). The engine API of a hosted deployment names the
//! metadata that lead a client to the authorization server.

use http::{HeaderMap, HeaderValue, header::WWW_AUTHENTICATE};
use sortie_accounts::MCP_PATH;

/// Challenges of an API.
#[derive(Clone, Debug)]
pub(crate) struct Challenges {
    /// Addresses of the metadata of the API and of its MCP server as protected resources; absent if no OAuth server issues tokens
    /// for the API.
    metadata_urls: Option<[String; 2]>,
}

/// Mark on a refusal: the access token lacks the scope `admin`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LacksScope;

impl Challenges {
    /// Challenges of an API without an OAuth server.
    pub(crate) const fn none() -> Self {
        Self { metadata_urls: None }
    }

    /// Challenges of an API that an OAuth server issues tokens for, with the addresses of the metadata of the API and of its MCP
    /// server.
    pub(crate) const fn of_resources(metadata_urls: [String; 2]) -> Self {
        Self {
            metadata_urls: Some(metadata_urls),
        }
    }

    /// Adds the challenge of a 401 for a request to this path, unless the handler has added one. It contains an error only if the client sent a credential,
    /// and the lowest scope, so that clients do not ask for more.
    pub(crate) fn unauthorized(&self, path: &str, sent: bool, headers: &mut HeaderMap) {
        let error = sent.then(|| r#"error="invalid_token""#.to_owned());
        let resource = self.resource(path);
        let scope = resource.is_some().then(|| r#"scope="member""#.to_owned());
        write([error, scope, resource], headers);
    }

    /// Adds the challenge of a 403 for an access token without the scope `admin`, which no call of the MCP server needs.
    pub(crate) fn insufficient_scope(&self, headers: &mut HeaderMap) {
        if let Some(resource) = self.resource("") {
            let error = r#"error="insufficient_scope", scope="admin""#.to_owned();
            write([Some(error), None, Some(resource)], headers);
        }
    }

    fn resource(&self, path: &str) -> Option<String> {
        let [api, mcp] = self.metadata_urls.as_ref()?;
        let url = if path == MCP_PATH { mcp } else { api };
        Some(format!(r#"resource_metadata="{url}""#))
    }
}

fn write(parts: [Option<String>; 3], headers: &mut HeaderMap) {
    if headers.contains_key(WWW_AUTHENTICATE) {
        return;
    }
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let text = format!("Bearer {}", parts.join(", "));
    // The address comes from the validated configuration.
    if let Ok(value) = HeaderValue::try_from(text.trim_end()) {
        headers.insert(WWW_AUTHENTICATE, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut HeaderMap)) -> String {
        let mut headers = HeaderMap::new();
        write(&mut headers);
        let value = headers.get(WWW_AUTHENTICATE);
        value.map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_challenge_names_the_metadata_where_there_is_an_oauth_server() {
        let none = Challenges::none();
        assert_eq!(
            written(|headers| none.unauthorized("/v1/me", false, headers)),
            "Bearer"
        );
        assert_eq!(
            written(|headers| none.unauthorized("/v1/me", true, headers)),
            r#"Bearer error="invalid_token""#
        );
        assert_eq!(written(|headers| none.insufficient_scope(headers)), "");
        let well_known = "https://e.example/.well-known/oauth-protected-resource";
        let some = Challenges::of_resources([well_known.to_owned(), format!("{well_known}/mcp")]);
        let metadata = r#"resource_metadata="https://e.example/.well-known/oauth-protected-resource""#;
        assert_eq!(
            written(|headers| some.unauthorized("/v1/me", false, headers)),
            format!(r#"Bearer scope="member", {metadata}"#)
        );
        assert_eq!(
            written(|headers| some.unauthorized("/v1/me", true, headers)),
            format!(r#"Bearer error="invalid_token", scope="member", {metadata}"#)
        );
        assert_eq!(
            written(|headers| some.insufficient_scope(headers)),
            format!(r#"Bearer error="insufficient_scope", scope="admin", {metadata}"#)
        );
        assert_eq!(
            written(|headers| some.unauthorized("/mcp", false, headers)),
            format!(r#"Bearer scope="member", resource_metadata="{well_known}/mcp""#)
        );
        let own = written(|headers| {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic"));
            some.unauthorized("/v1/me", true, headers);
        });
        assert_eq!(own, "Basic");
    }
}
