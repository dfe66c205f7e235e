//! The session cookie of a signed-in browser (RFC 6265): its value is the token of the session.

use http::{
    HeaderMap, HeaderValue,
    header::{COOKIE, ORIGIN},
};

/// Name and attributes of the session's cookie.
#[derive(Clone, Debug)]
pub(crate) struct SessionCookie {
    /// Origin of the pages: scheme, host and port.
    origin: String,
    name: &'static str,
    secure: bool,
}

impl SessionCookie {
    /// Creates the cookie of pages at `org_url`. Browsers refuse the prefix `__Host-` over plain http, which only loopback
    /// addresses may use.
    pub(crate) fn of(org_url: &str) -> Self {
        let secure = org_url.starts_with("https://");
        Self {
            origin: org_url.to_owned(),
            name: if secure { "__Host-sortie" } else { "sortie" },
            secure,
        }
    }

    /// Creates the cookie that binds a form to a browser before it is signed in. It never becomes a session.
    pub(crate) fn of_forms(org_url: &str) -> Self {
        let session = Self::of(org_url);
        Self {
            name: if session.secure {
                "__Host-sortie_form"
            } else {
                "sortie_form"
            },
            ..session
        }
    }

    /// Returns the token of the cookie that a browser sent. Two cookies of this name count as no cookie.
    pub(crate) fn token<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let mut found = headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(name, _)| *name == self.name)
            .map(|(_, token)| token);
        let token = found.next()?;
        found.next().is_none().then_some(token)
    }

    /// Returns true if a request with the cookie comes from a page of this origin (`Origin`).
    pub(crate) fn is_own(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(ORIGIN).iter();
        let own = origins
            .next()
            .is_some_and(|origin| origin.as_bytes() == self.origin.as_bytes());
        own && origins.next().is_none()
    }

    /// Returns the header that sets the token in a browser for `seconds`; 0 deletes it.
    pub(crate) fn set(&self, token: &str, seconds: u64) -> Option<HeaderValue> {
        let secure = if self.secure { "; Secure" } else { "" };
        let text = format!(
            "{}={token}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}",
            self.name
        );
        HeaderValue::try_from(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &http::HeaderName, values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name.clone(), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn the_token_is_read_from_its_own_cookie_alone() {
        let cookie = SessionCookie::of("https://org.example.com");
        let token = |values| cookie.token(&headers(&COOKIE, values)).map(str::to_owned);
        assert_eq!(
            token(&["a=1; __Host-sortie=stu_x; b=2"]).as_deref(),
            Some("stu_x")
        );
        assert_eq!(token(&["a=1", "__Host-sortie=stu_x"]).as_deref(), Some("stu_x"));
        assert_eq!(
            token(&["sortie=stu_x"]),
            None,
            "without the prefix another host may have set it"
        );
        assert_eq!(token(&["__Host-sortie=stu_x; __Host-sortie=stu_y"]), None);
        assert_eq!(token(&["__Host-sortie"]), None);
    }

    #[test]
    fn a_cookie_for_plain_http_has_no_prefix_and_is_not_secure() {
        let set = |url: &str| {
            let value = SessionCookie::of(url).set("stu_x", 60).unwrap();
            value.to_str().unwrap().to_owned()
        };
        assert_eq!(
            set("https://org.example.com"),
            "__Host-sortie=stu_x; Path=/; HttpOnly; SameSite=Lax; Max-Age=60; Secure"
        );
        assert_eq!(
            set("http://127.0.0.1:8081"),
            "sortie=stu_x; Path=/; HttpOnly; SameSite=Lax; Max-Age=60"
        );
    }

    #[test]
    fn a_request_of_another_origin_is_not_ones_own() {
        let cookie = SessionCookie::of("https://org.example.com");
        let own = |values| cookie.is_own(&headers(&ORIGIN, values));
        assert!(own(&["https://org.example.com"]));
        for other in [
            &[][..],
            &["null"],
            &["http://org.example.com"],
            &["https://org.example.com.evil.test"],
            &["https://org.example.com:8443"],
            &["https://org.example.com", "https://org.example.com"],
        ] {
            assert!(!own(other), "{other:?}");
        }
    }
}
