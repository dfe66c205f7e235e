//! Address and headers of the calls to a provider.

use http::{HeaderMap, HeaderName, HeaderValue};
use sortie_api::Credential;
use url::Url;

use crate::provider::{InvalidSettings, Provider};

/// Returns the address of `path` below the base address, which can include the API version (`/v1`) or omit it.
pub(crate) fn url(provider: &Provider, version: &str, path: &[&str]) -> Result<Url, InvalidSettings> {
    let mut url = provider.base.clone();
    let has_version = url
        .path_segments()
        .and_then(|mut segments| segments.rfind(|segment| !segment.is_empty()))
        .is_some_and(is_version);
    let Ok(mut segments) = url.path_segments_mut() else {
        return Err(InvalidSettings(format!(
            "provider {:?}: base_url must begin with http:// or https://",
            provider.name
        )));
    };
    segments.pop_if_empty();
    if !has_version {
        segments.push(version);
    }
    segments.extend(path);
    drop(segments);
    Ok(url)
}

/// Whether a segment is a version: `v1`, `v1beta`, `v2`.
fn is_version(segment: &str) -> bool {
    let mut chars = segment.chars();
    chars.next() == Some('v') && chars.next().is_some_and(|c| c.is_ascii_digit())
}

/// Headers that carry the provider's key under `name`, hidden from debug output.
pub(crate) fn keyed(provider: &Provider, name: &'static str) -> Result<HeaderMap, InvalidSettings> {
    let mut headers = HeaderMap::new();
    if let Some(key) = &provider.key {
        headers.insert(HeaderName::from_static(name), sensitive(provider, key)?);
    }
    Ok(headers)
}

fn sensitive(provider: &Provider, key: &Credential) -> Result<HeaderValue, InvalidSettings> {
    let mut value = HeaderValue::from_str(key.expose()).map_err(|_| {
        InvalidSettings(format!(
            "provider {:?}: its key has a character that no HTTP header takes",
            provider.name
        ))
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use sortie_net::{EngineClient, Timeouts};

    use super::*;

    fn provider(base: &str) -> Provider {
        let second = std::time::Duration::from_secs(1);
        let timeouts = Timeouts {
            connect: second,
            read: second,
            total: None,
        };
        Provider {
            name: "acme".to_owned(),
            base: base.parse().unwrap(),
            key: Some(Credential::new("hush\n")),
            http: EngineClient::new(timeouts).unwrap(),
            end_wait: second,
        }
    }

    #[test]
    fn the_version_is_added_where_the_address_has_none() {
        for (base, expected) in [
            ("https://a.example", "https://a.example/v1/messages"),
            ("https://a.example/", "https://a.example/v1/messages"),
            ("https://a.example/v1", "https://a.example/v1/messages"),
            ("https://a.example/v1/", "https://a.example/v1/messages"),
            (
                "https://a.example/anthropic",
                "https://a.example/anthropic/v1/messages",
            ),
            ("https://a.example/v2beta", "https://a.example/v2beta/messages"),
            ("https://a.example/vault/", "https://a.example/vault/v1/messages"),
        ] {
            assert_eq!(
                url(&provider(base), "v1", &["messages"]).unwrap().as_str(),
                expected
            );
        }
        let refused = url(&provider("mailto:a@b"), "v1", &["messages"]).unwrap_err();
        assert!(refused.to_string().contains("\"acme\""), "{refused}");
    }

    #[test]
    fn a_key_that_no_header_takes_is_refused_without_being_told() {
        let refused = keyed(&provider("https://a.example"), "x-api-key").unwrap_err();
        assert!(!refused.to_string().contains("hush"), "{refused}");
    }
}
