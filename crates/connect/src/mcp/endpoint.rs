//! The endpoint of a server of revision 2024-11-05, which the first event of its stream contains.

use url::Url;

/// Maximum length of the endpoint, in bytes.
pub(super) const ENDPOINT_BYTES: usize = 2048;

/// Parses the data of an `endpoint` event: a URL, or a path relative to the URL of the connection. It must have the origin of
/// that URL, because messages to it carry the credentials.
pub(super) fn endpoint(connection: &Url, data: &str) -> Result<Url, &'static str> {
    let data = data.trim();
    if data.is_empty() || data.len() > ENDPOINT_BYTES {
        return Err("the server names an endpoint that is empty or too long");
    }
    // The URL parser removes some of them.
    if data.chars().any(char::is_control) {
        return Err("the server names an endpoint with control characters");
    }
    let mut endpoint = connection
        .join(data)
        .map_err(|_| "the server names an endpoint that is not a URL")?;
    if endpoint.origin() != connection.origin() || !endpoint.origin().is_tuple() {
        return Err("the server names an endpoint of another origin than the connection has");
    }
    if !endpoint.username().is_empty() || endpoint.password().is_some() {
        return Err("the server names an endpoint with a user name or a password");
    }
    endpoint.set_fragment(None);
    Ok(endpoint)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(data: &str) -> Result<String, &'static str> {
        let connection = "https://a.example:8443/tools/sse?key=1".parse().unwrap();
        endpoint(&connection, data).map(String::from)
    }

    #[test]
    fn an_endpoint_of_the_same_origin_is_taken_in_every_form() {
        for (data, expected) in [
            (
                "/message?sessionId=1",
                "https://a.example:8443/message?sessionId=1",
            ),
            (
                "messages/?session_id=1",
                "https://a.example:8443/tools/messages/?session_id=1",
            ),
            ("?sessionId=1", "https://a.example:8443/tools/sse?sessionId=1"),
            (" https://a.example:8443/m#part\n", "https://a.example:8443/m"),
            ("//a.example:8443/m", "https://a.example:8443/m"),
        ] {
            assert_eq!(of(data).as_deref(), Ok(expected), "{data}");
        }
    }

    #[test]
    fn an_endpoint_elsewhere_is_refused() {
        for data in [
            "https://b.example:8443/m",
            "http://a.example:8443/m",
            "https://a.example/m",
            "//b.example/m",
            "\\\\b.example\\m",
            "https://user:word@a.example:8443/m",
            "https://a.example:8443@b.example/m",
            "data:text/plain,x",
            "file:///etc/passwd",
            "/mess\tage",
            "https://[",
            "",
            "  ",
        ] {
            assert!(of(data).is_err(), "{data}");
        }
        assert!(of(&format!("/{}", "x".repeat(ENDPOINT_BYTES - 1))).is_ok());
        assert!(of(&format!("/{}", "x".repeat(ENDPOINT_BYTES))).is_err());
    }

    proptest! {
        #[test]
        fn what_is_taken_has_the_origin_of_the_connection(data in "\\PC{0,40}|[/\\\\@:.?#a-z]{0,30}") {
            let connection: Url = "https://a.example:8443/tools/sse".parse().unwrap();
            if let Ok(endpoint) = endpoint(&connection, &data) {
                prop_assert_eq!(endpoint.origin(), connection.origin());
                prop_assert!(endpoint.username().is_empty() && endpoint.fragment().is_none());
            }
        }
    }
}
