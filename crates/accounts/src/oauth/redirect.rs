//! Redirect URIs of clients: validation, and comparison with a registered one.

use url::{Host, Url};

/// Maximum length of a redirect URI, in bytes.
const LONGEST: usize = 1_024;

/// Prefixes of loopback addresses. Any port may follow them.
const LOOPBACK: [&str; 2] = ["http://127.0.0.1", "http://[::1]"];

/// Valid redirect URI: `https`, `http` on a loopback address, or the private scheme of an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RedirectUri {
    text: String,
    url: Url,
}

impl RedirectUri {
    /// Parses a redirect URI. The error is the rule that it breaks.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > LONGEST {
            return Err("must have at most 1024 bytes");
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("must have visible ASCII characters only");
        }
        if text.contains(['#', '*', '\\', '"', '<', '>', '^', '`', '{', '|', '}']) {
            return Err("must have no fragment, no wildcard, and no character that a URI escapes");
        }
        let url = Url::parse(text).map_err(|_| "must be an absolute URI")?;
        if !url.username().is_empty() || url.password().is_some() || authority(text).contains('@') {
            return Err("must have no user name and no password");
        }
        // The comparison uses the text, but the browser uses the URL: both must name the same host.
        let spelled = |prefix: &str| text.starts_with(prefix);
        match url.scheme() {
            "https" if spelled("https://") && has_host(&url) => {}
            "http" if spelled("http://") && is_loopback(&url) => {}
            "http" => return Err("must begin with https:// unless its host is a loopback address"),
            scheme if scheme.contains('.') && spelled(scheme) => {}
            _ => {
                return Err(
                    "must begin with https://, http:// and a loopback address, or a private scheme with a dot",
                );
            }
        }
        Ok(Self {
            text: text.to_owned(),
            url,
        })
    }

    /// Returns the URI as the client wrote it.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns true if a request may use `requested` for this registered URI: the texts are equal, or on a loopback IP address
    /// equal except for the port.
    pub(crate) fn allows(&self, requested: &str) -> bool {
        self.text == requested
            || LOOPBACK.iter().any(|loopback| {
                let registered = self.text.strip_prefix(loopback).and_then(without_port);
                let requested = requested.strip_prefix(loopback).and_then(without_port);
                registered.is_some() && registered == requested
            })
    }

    /// Returns true if the client runs on the same computer as the browser.
    pub(crate) fn is_loopback(&self) -> bool {
        is_loopback(&self.url)
    }

    /// Returns the host that receives the code, or the private scheme of an app.
    pub(crate) fn shown_host(&self) -> String {
        match (self.url.scheme(), self.url.host_str()) {
            ("https" | "http", Some(host)) => host.to_owned(),
            (scheme, _) => scheme.to_owned(),
        }
    }

    /// Returns the source expression of a content security policy that allows a redirect there.
    pub(crate) fn policy_source(&self) -> String {
        match (self.url.scheme(), self.url.host()) {
            // A policy cannot contain an IPv6 address.
            ("https" | "http", Some(Host::Domain(_) | Host::Ipv4(_))) => {
                self.url.origin().ascii_serialization()
            }
            (scheme, _) => format!("{scheme}:"),
        }
    }

    /// Returns the URI with parameters added to its query.
    pub(crate) fn with(&self, parameters: &[(&str, &str)]) -> String {
        let query = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(parameters)
            .finish();
        let joint = match self.text.find('?') {
            None => "?",
            Some(at) if at + 1 == self.text.len() || self.text.ends_with('&') => "",
            Some(_) => "&",
        };
        format!("{}{joint}{query}", self.text)
    }
}

/// Part of a URI between `//` and the next `/` or `?`.
fn authority(text: &str) -> &str {
    let rest = text.split_once("//").map_or("", |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or_default()
}

fn has_host(url: &Url) -> bool {
    url.host_str().is_some_and(|host| !host.is_empty())
}

fn is_loopback(url: &Url) -> bool {
    url.scheme() == "http"
        && match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        }
}

/// Returns the part of a URI after the port of its authority, or `None` if the host is followed by anything but a port.
fn without_port(behind_host: &str) -> Option<&str> {
    let rest = match behind_host.strip_prefix(':') {
        None => behind_host,
        Some(port) => {
            let end = port.find(|c: char| !c.is_ascii_digit()).unwrap_or(port.len());
            let (port, rest) = port.split_at(end);
            port.parse::<u16>().ok().filter(|port| *port > 0)?;
            rest
        }
    };
    (rest.is_empty() || rest.starts_with(['/', '?'])).then_some(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sortie_testkit::{list, rows};

    use super::*;

    #[test]
    fn web_addresses_loopback_addresses_and_private_schemes_are_taken() {
        for (good, host, source) in rows! {
            "https://app.example.com/cb", "app.example.com", "https://app.example.com";
            "https://app.example.com:8443/cb?x=1", "app.example.com", "https://app.example.com:8443";
            "https://xn--80ak6aa92e.com/", "xn--80ak6aa92e.com", "https://xn--80ak6aa92e.com";
            "http://127.0.0.1/cb", "127.0.0.1", "http://127.0.0.1";
            "http://127.0.0.1:33418/", "127.0.0.1", "http://127.0.0.1:33418";
            "http://[::1]:4000/cb", "[::1]", "http:";
            "http://localhost:6274/oauth/callback", "localhost", "http://localhost:6274";
            "com.example.app:/cb", "com.example.app", "com.example.app:";
            "com.example.app://cb", "com.example.app", "com.example.app:";
        } {
            let uri = RedirectUri::parse(good).unwrap_or_else(|rule| panic!("{good}: {rule}"));
            assert_eq!(
                (uri.shown_host().as_str(), uri.policy_source().as_str()),
                (host, source),
                "{good}"
            );
            assert_eq!(uri.is_loopback(), good.starts_with("http:"), "{good}");
            assert!(uri.allows(good));
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let long = format!("https://app.example.com/{}", "x".repeat(1_024));
        for bad in list! {
            "", "/cb", "//evil.example/cb", "app.example.com/cb", "http://app.example.com/cb",
            "http://127.0.0.1.evil.example/cb", "http://localhost.evil.example/cb", "http://user@127.0.0.1/cb",
            "https://user:pass@app.example.com/cb", "https://@app.example.com/cb", "https://app.example.com/cb#x",
            "https://*.example.com/cb", "https://app.example.com\\@evil.example/cb", "https:/app.example.com/cb",
            "https:app.example.com/cb", "HTTPS://app.example.com/cb", "https://app.example.com/a b",
            "https://app.example.com/\r\nSet-Cookie:x", "https://äpp.example.com/cb", "https://",
            "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "ftp://a.example/",
            "cursor://callback", "blob:https://a.example/x", &long,
        } {
            assert!(RedirectUri::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_the_port_of_a_loopback_address_may_differ() {
        let allows =
            |registered: &str, requested: &str| RedirectUri::parse(registered).unwrap().allows(requested);
        for port in ["", ":1", ":80", ":65535"] {
            assert!(allows(
                "http://127.0.0.1/cb?x=1",
                &format!("http://127.0.0.1{port}/cb?x=1")
            ));
            assert!(allows(
                "http://127.0.0.1:8080/cb",
                &format!("http://127.0.0.1{port}/cb")
            ));
            assert!(allows("http://[::1]:8080/cb", &format!("http://[::1]{port}/cb")));
        }
        for other in list! {
            "http://127.0.0.1:0/cb", "http://127.0.0.1:65536/cb", "http://127.0.0.1:/cb",
            "http://127.0.0.1:80@evil.example/cb", "http://127.0.0.1:80.evil.example/cb",
            "http://127.0.0.1.evil.example/cb", "http://127.0.0.1:80/cb/", "http://127.0.0.1:80/other",
            "http://127.0.0.1:80/cb?x=1", "http://127.0.0.1:80/cb#x", "http://[::1]/cb", "http://localhost/cb",
            "https://127.0.0.1/cb",
        } {
            assert!(!allows("http://127.0.0.1:8080/cb", other), "{other}");
        }
        assert!(!allows("http://localhost:8080/cb", "http://localhost:8081/cb"));
        assert!(!allows(
            "https://app.example.com/cb",
            "https://app.example.com:443/cb"
        ));
    }

    /// Spellings that an attacker might use to redirect away from a registered client.
    #[test]
    fn forty_spellings_of_another_place_are_refused() {
        let registered = RedirectUri::parse("https://app.example.com/cb").unwrap();
        let spellings = list! {
            "https://app.example.com/cb/", "https://app.example.com/cb?", "https://app.example.com/cb?x",
            "https://app.example.com/cb#", "https://app.example.com/CB", "https://app.example.com//cb",
            "https://app.example.com/./cb", "https://app.example.com/x/../cb", "https://app.example.com/%63b",
            "https://app.example.com/cb%00", "https://app.example.com/cb%0d%0a", "https://app.example.com/cb;x",
            "https://app.example.com/cb\\", "https://app.example.com/cb ", " https://app.example.com/cb",
            "https://app.example.com/cb\t", "https://app.example.com:443/cb", "https://app.example.com:8443/cb",
            "https://app.example.com./cb", "https://app.example.com@evil.example/cb",
            "https://app.example.com:x@evil.example/cb", "https://evil.example/cb",
            "https://evil.example/app.example.com/cb", "https://app.example.com.evil.example/cb",
            "https://evilapp.example.com/cb", "https://app.example.com\\.evil.example/cb",
            "https://app.example.com%2eevil.example/cb", "https://app.example.com/cb@evil.example",
            "https://evil.example#@app.example.com/cb", "https://evil.example?@app.example.com/cb",
            "https://evil.example\\@app.example.com/cb", "https:app.example.com/cb", "https:/app.example.com/cb",
            "https:///app.example.com/cb", "https:\\\\app.example.com\\cb", "//app.example.com/cb",
            "///evil.example/cb", "/\\evil.example/cb", "http://app.example.com/cb", "HTTPS://APP.EXAMPLE.COM/cb",
            "javascript://app.example.com/cb%0aalert(1)", "data:text/html,https://app.example.com/cb",
        };
        assert!(spellings.len() >= 40);
        for spelling in spellings {
            assert!(!registered.allows(spelling), "{spelling}");
        }
    }

    #[test]
    fn parameters_are_added_to_a_query() {
        let with = |uri: &str| {
            RedirectUri::parse(uri)
                .unwrap()
                .with(&[("code", "a b"), ("state", "&x=")])
        };
        assert_eq!(
            with("https://a.example/cb"),
            "https://a.example/cb?code=a+b&state=%26x%3D"
        );
        assert_eq!(
            with("https://a.example/cb?y=1"),
            "https://a.example/cb?y=1&code=a+b&state=%26x%3D"
        );
        assert_eq!(
            with("https://a.example/cb?"),
            "https://a.example/cb?code=a+b&state=%26x%3D"
        );
        assert_eq!(
            with("com.example.app:/cb"),
            "com.example.app:/cb?code=a+b&state=%26x%3D"
        );
    }

    proptest! {
        #[test]
        fn a_uri_that_is_taken_keeps_its_host_when_parameters_are_added(text in "(https|http|com\\.app)://[a-z0-9.@:\\[\\]/?&%=-]{0,40}", value in any::<String>()) {
            if let Ok(uri) = RedirectUri::parse(&text) {
                let with = uri.with(&[("state", &value)]);
                let there = Url::parse(&with).map_err(|error| TestCaseError::fail(error.to_string()))?;
                prop_assert_eq!(there.host_str(), uri.url.host_str());
                prop_assert_eq!(there.port(), uri.url.port());
                prop_assert!(with.starts_with(uri.as_str()));
                prop_assert!(with.bytes().all(|byte| byte.is_ascii_graphic()));
                let back: Vec<_> = there.query_pairs().filter(|(name, _)| name == "state").map(|(_, v)| v.into_owned()).collect();
                prop_assert_eq!(back.last(), Some(&value));
            }
        }

        #[test]
        fn no_text_makes_it_panic(registered in "http://127\\.0\\.0\\.1\\PC{0,12}", requested in "http://127\\.0\\.0\\.1\\PC{0,12}") {
            if let Ok(registered) = RedirectUri::parse(&registered)
                && registered.allows(&requested)
            {
                let same = Url::parse(&requested).is_ok_and(|url| url.host_str() == Some("127.0.0.1"));
                prop_assert!(same, "{:?} for {:?}", requested, registered);
            }
        }
    }
}
