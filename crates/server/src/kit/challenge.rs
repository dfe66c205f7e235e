//! Challenges of refused requests (`WWW-Authenticate`, RFC 6750 and RFC 9728). The engine API of a hosted deployment names the
//! metadata that lead a client to the authorization server.

use http::{HeaderMap, HeaderValue, header::WWW_AUTHENTICATE};

/// Challenges of an API.
#[derive(Clone, Debug)]
pub(crate) struct Challenges {
    /// Address of the metadata of the protected resource; absent if no OAuth server issues tokens for the API.
    metadata_url: Option<String>,
}

/// Mark on a refusal: the access token lacks the scope `admin`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LacksScope;

impl Challenges {
    /// Challenges of an API without an OAuth server.
    pub(crate) const fn none() -> Self {
        Self { metadata_url: None }
    }

    /// Challenges of an API that an OAuth server issues tokens for.
    pub(crate) const fn of_resource(metadata_url: String) -> Self {
        Self {
            metadata_url: Some(metadata_url),
        }
    }

    /// Adds the challenge of a 401, unless the handler has added one. It contains an error only if the client sent a credential,
    /// and the lowest scope, so that clients do not ask for more.
    pub(crate) fn unauthorized(&self, sent: bool, headers: &mut HeaderMap) {
        let error = sent.then(|| r#"error="invalid_token""#.to_owned());
        let resource = self.resource();
        let scope = resource.is_some().then(|| r#"scope="member""#.to_owned());
        write([error, scope, resource], headers);
    }

    /// Adds the challenge of a 403 for an access token without the scope `admin`.
    pub(crate) fn insufficient_scope(&self, headers: &mut HeaderMap) {
        if let Some(resource) = self.resource() {
            let error = r#"error="insufficient_scope", scope="admin""#.to_owned();
            write([Some(error), None, Some(resource)], headers);
        }
    }

    fn resource(&self) -> Option<String> {
        let url = self.metadata_url.as_ref()?;
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
        assert_eq!(written(|headers| none.unauthorized(false, headers)), "Bearer");
        assert_eq!(
            written(|headers| none.unauthorized(true, headers)),
            r#"Bearer error="invalid_token""#
        );
        assert_eq!(written(|headers| none.insufficient_scope(headers)), "");
        let some =
            Challenges::of_resource("https://e.example/.well-known/oauth-protected-resource".to_owned());
        let metadata = r#"resource_metadata="https://e.example/.well-known/oauth-protected-resource""#;
        assert_eq!(
            written(|headers| some.unauthorized(false, headers)),
            format!(r#"Bearer scope="member", {metadata}"#)
        );
        assert_eq!(
            written(|headers| some.unauthorized(true, headers)),
            format!(r#"Bearer error="invalid_token", scope="member", {metadata}"#)
        );
        assert_eq!(
            written(|headers| some.insufficient_scope(headers)),
            format!(r#"Bearer error="insufficient_scope", scope="admin", {metadata}"#)
        );
        let own = written(|headers| {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic"));
            some.unauthorized(true, headers);
        });
        assert_eq!(own, "Basic");
    }
}
