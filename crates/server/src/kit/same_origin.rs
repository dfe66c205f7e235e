//! Requests with a session cookie: a browser sends the cookie for every page, so the request must prove that it comes from a page
//! of this server (`docs/API.md#sessions-of-the-console`).
//!
//! `Sec-Fetch-Site` is the proof. Pages of other ports of this host are `same-site` and refused. Browsers send the header to https
//! and loopback addresses; elsewhere `Origin` must be the server's. A change also needs a header that no form can send, so that a
//! browser asks before it sends the request from another origin.

use http::{
    HeaderMap, Method,
    header::{CONTENT_TYPE, HOST, HeaderName, ORIGIN},
};
use sortie_api::{ErrorCode, Refusal};

use super::{cookies::Transport, is_form, is_json, is_of_type};

/// Header of every change that a page of the console asks for.
const X_SORTIE_CONSOLE: HeaderName = HeaderName::from_static("x-sortie-console");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Start of the paths that need no credential: the callback of authorizations, and the metadata of clients.
const KEYLESS: &str = "/v1/oauth/";

/// Origins of the pages of a server.
#[derive(Clone, Debug)]
pub(crate) struct OwnOrigin {
    /// Configured origin: scheme, host and port.
    configured: Option<String>,
    /// Whether the host of a request counts as well, for a server without a configured address.
    any_host: bool,
}

impl OwnOrigin {
    /// Accepts pages of this origin only.
    pub(crate) fn fixed(origin: String) -> Self {
        Self {
            configured: Some(origin),
            any_host: false,
        }
    }

    /// Accepts pages of the host that a request names, and of the configured origin. A page of another host has no cookie.
    pub(crate) fn of_host(configured: Option<String>) -> Self {
        Self {
            configured,
            any_host: true,
        }
    }

    /// Returns true if `Origin` is there once and is one of these origins.
    pub(crate) fn is_own(&self, headers: &HeaderMap, transport: Transport) -> bool {
        let mut origins = headers.get_all(ORIGIN).iter();
        let (Some(origin), None) = (origins.next(), origins.next()) else {
            return false;
        };
        let Ok(origin) = origin.to_str() else { return false };
        if self.configured.as_deref() == Some(origin) {
            return true;
        }
        let scheme = match transport {
            Transport::Https => "https://",
            Transport::Plain => "http://",
        };
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        self.any_host
            && host.is_some_and(|host| {
                origin
                    .strip_prefix(scheme)
                    .is_some_and(|own| own.eq_ignore_ascii_case(host))
            })
    }

    /// Checks a request with a session cookie to `path`.
    pub(crate) fn check(
        &self,
        (method, path): (&Method, &str),
        headers: &HeaderMap,
        transport: Transport,
    ) -> Result<(), Refusal> {
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        let is_api = path.starts_with("/v1/") || path.starts_with("/engine/");
        if is_read && (!is_api || path.starts_with(KEYLESS)) {
            // Links of other sites lead to the pages, and an authorization server leads back to the callback.
            return Ok(());
        }
        if !self.is_same_origin(headers, transport, is_read) {
            return Err(ErrorCode::Forbidden.because(
                "Origin: a request with the cookie must come from a page of this address (Sec-Fetch-Site: same-origin)",
            ));
        }
        if is_read || (!is_api && is_form(headers)) {
            // The pages check the token of a form.
            return Ok(());
        }
        if headers.get(X_SORTIE_CONSOLE).is_none_or(|value| value != "1") {
            return Err(ErrorCode::Forbidden.because(
                "X-Sortie-Console: a change with the cookie must have this header with the value 1",
            ));
        }
        let has_allowed_body = is_json(headers) || is_of_type(headers, "multipart/form-data");
        if headers.contains_key(CONTENT_TYPE) && !has_allowed_body {
            return Err(ErrorCode::Forbidden.because(
                "Content-Type: a change with the cookie must have a body of application/json or multipart/form-data, or none",
            ));
        }
        Ok(())
    }

    fn is_same_origin(&self, headers: &HeaderMap, transport: Transport, is_read: bool) -> bool {
        let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
        match (sites.next(), sites.next()) {
            (Some(site), None) => site == "same-origin" || (is_read && site == "none"),
            (Some(_), Some(_)) => false,
            // A browser sends neither header with a read over plain http to another host than loopback. `SameSite` keeps the
            // cookie from other sites there.
            (None, _) if is_read && transport == Transport::Plain && !headers.contains_key(ORIGIN) => true,
            (None, _) => self.is_own(headers, transport),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const PATH: &str = "/v1/runs";

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    /// Name of the header that a refusal is about. Empty for a request that passes.
    fn refused(
        own: &OwnOrigin,
        method: &Method,
        path: &str,
        lines: &[(&'static str, &'static str)],
    ) -> String {
        let checked = own.check((method, path), &headers(lines), Transport::Plain);
        let text = checked.err().map(|refusal| refusal.text).unwrap_or_default();
        text.split(':').next().unwrap_or_default().to_owned()
    }

    #[test]
    fn a_read_comes_from_a_page_of_this_origin_or_from_the_address_bar() {
        let own = OwnOrigin::of_host(Some("https://sortie.example".to_owned()));
        let site = |value| refused(&own, &Method::GET, PATH, &[("sec-fetch-site", value)]);
        assert_eq!(site("same-origin"), "");
        assert_eq!(site("none"), "");
        for foreign in ["same-site", "cross-site", "", "Same-Origin"] {
            assert_eq!(site(foreign), "Origin", "{foreign}");
            for path in [
                "/oauth/authorize",
                "/v1/oauth/callback",
                "/v1/oauth/callback/5b3c",
            ] {
                let page = refused(&own, &Method::GET, path, &[("sec-fetch-site", foreign)]);
                assert_eq!(page, "", "{path} is reached from elsewhere: {foreign}");
            }
            let engine = refused(
                &own,
                &Method::HEAD,
                "/engine/org_x/v1/me",
                &[("sec-fetch-site", foreign)],
            );
            assert_eq!(engine, "Origin");
        }
        let twice = [
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-site", "same-origin"),
        ];
        assert_eq!(refused(&own, &Method::GET, PATH, &twice), "Origin");
    }

    #[test]
    fn without_fetch_metadata_the_origin_decides() {
        let any = OwnOrigin::of_host(Some("https://sortie.example".to_owned()));
        let fixed = OwnOrigin::fixed("http://accounts.example".to_owned());
        let from = |own: &OwnOrigin, origin, method: &Method| {
            let lines = [
                ("host", "box:8080"),
                ("origin", origin),
                ("x-sortie-console", "1"),
            ];
            refused(own, method, PATH, &lines)
        };
        for method in [Method::GET, Method::POST, Method::DELETE] {
            assert_eq!(from(&any, "http://box:8080", &method), "");
            assert_eq!(from(&any, "https://sortie.example", &method), "");
            assert_eq!(from(&fixed, "http://accounts.example", &method), "");
            assert_eq!(from(&fixed, "http://box:8080", &method), "Origin");
            for foreign in [
                "null",
                "https://box:8080",
                "http://box",
                "http://box:8081",
                "http://box:8080.evil.example",
                "https://sortie.example:8443",
                "https://evil.example",
                "",
            ] {
                assert_eq!(from(&any, foreign, &method), "Origin", "{method} {foreign}");
            }
        }
        let two = [
            ("host", "b"),
            ("origin", "http://b"),
            ("origin", "http://b"),
            ("x-sortie-console", "1"),
        ];
        assert_eq!(refused(&any, &Method::POST, PATH, &two), "Origin");
    }

    #[test]
    fn a_read_without_both_headers_passes_over_plain_http_only() {
        let own = OwnOrigin::of_host(None);
        let check = |method: &Method, transport| {
            own.check((method, PATH), &headers(&[("host", "b")]), transport)
                .is_ok()
        };
        assert!(check(&Method::GET, Transport::Plain));
        assert!(!check(&Method::GET, Transport::Https));
        assert!(!check(&Method::POST, Transport::Plain));
    }

    #[test]
    fn a_change_has_the_header_of_the_console_and_a_body_that_no_form_has() {
        let own = OwnOrigin::of_host(None);
        let change = |path, lines: &[(&'static str, &'static str)]| {
            let all = [&[("sec-fetch-site", "same-origin")], lines].concat();
            refused(&own, &Method::POST, path, &all)
        };
        let console = ("x-sortie-console", "1");
        assert_eq!(change(PATH, &[console]), "");
        assert_eq!(change(PATH, &[console, ("content-type", "application/json")]), "");
        assert_eq!(
            change(
                PATH,
                &[console, ("content-type", "application/json; charset=utf-8")]
            ),
            ""
        );
        assert_eq!(
            change(
                PATH,
                &[console, ("content-type", "multipart/form-data; boundary=x")]
            ),
            ""
        );
        for missing in [&[][..], &[("x-sortie-console", "0")], &[("x-sortie-console", "")]] {
            assert_eq!(change(PATH, missing), "X-Sortie-Console");
        }
        for form in [
            "application/x-www-form-urlencoded",
            "text/plain",
            "text/json",
            "",
            "multipart/mixed",
        ] {
            assert_eq!(
                change(PATH, &[console, ("content-type", form)]),
                "Content-Type",
                "{form}"
            );
        }
        let form = ("content-type", "application/x-www-form-urlencoded");
        assert_eq!(change("/sign-out", &[form]), "", "the page checks its token");
        assert_eq!(change("/v1/auth/logout", &[form]), "X-Sortie-Console");
        for none in ["none", "same-site", "cross-site"] {
            let lines = [("sec-fetch-site", none), console];
            assert_eq!(refused(&own, &Method::POST, PATH, &lines), "Origin");
        }
    }
}
