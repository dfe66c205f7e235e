//! The session cookie of a signed-in browser (RFC 6265): its value is the token of the session.

use http::{HeaderMap, HeaderValue, header::COOKIE};

/// Transport between a browser and this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// The browser sends `Secure` cookies.
    Https,
    /// Browsers refuse the prefix `__Host-`.
    Plain,
}

impl Transport {
    /// Returns the transport of an address.
    pub(crate) fn of(url: &str) -> Self {
        if url.starts_with("https://") {
            Self::Https
        } else {
            Self::Plain
        }
    }
}

/// Requests of other sites that carry a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SameSite {
    /// None.
    Strict,
    /// Only those that open a page.
    Lax,
}

/// Name and attributes of a cookie.
#[derive(Clone, Debug)]
pub(crate) struct SessionCookie {
    name: String,
    same_site: SameSite,
}

impl SessionCookie {
    /// Creates the cookie of the sessions on the organization listener. A person arrives at its pages from other sites.
    pub(crate) fn of_organizations() -> Self {
        Self {
            name: "sortie".to_owned(),
            same_site: SameSite::Lax,
        }
    }

    /// Creates the cookie of the sessions at a self-hosted engine. Cookies do not distinguish ports, so the name contains the
    /// `installation`: two engines on one host have two cookies.
    pub(crate) fn of_engine(installation: &str, same_site: SameSite) -> Self {
        Self {
            name: format!("sortie_{installation}"),
            same_site,
        }
    }

    /// Creates the cookie that binds a form to a browser before it is signed in. It never becomes a session.
    pub(crate) fn of_forms() -> Self {
        Self {
            name: "sortie_form".to_owned(),
            same_site: SameSite::Lax,
        }
    }

    /// Prefix of the name. A browser accepts it from this host only, and only by https.
    const fn prefix(transport: Transport) -> &'static str {
        match transport {
            Transport::Https => "__Host-",
            Transport::Plain => "",
        }
    }

    /// Returns the token of the cookie that a browser sent. Two cookies of this name count as no cookie.
    pub(crate) fn token<'a>(&self, headers: &'a HeaderMap, transport: Transport) -> Option<&'a str> {
        let is_named = |name: &str| name.strip_prefix(Self::prefix(transport)) == Some(&self.name);
        let mut found = headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(name, _)| is_named(name))
            .map(|(_, token)| token);
        let token = found.next()?;
        found.next().is_none().then_some(token)
    }

    /// Returns the header that sets the token in a browser for `seconds`; 0 deletes it.
    pub(crate) fn set(&self, token: &str, seconds: u64, transport: Transport) -> Option<HeaderValue> {
        let (prefix, name) = (Self::prefix(transport), &self.name);
        let same_site = match self.same_site {
            SameSite::Strict => "Strict",
            SameSite::Lax => "Lax",
        };
        let secure = match transport {
            Transport::Https => "; Secure",
            Transport::Plain => "",
        };
        let text = format!(
            "{prefix}{name}={token}; Path=/; HttpOnly; SameSite={same_site}; Max-Age={seconds}{secure}"
        );
        HeaderValue::try_from(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(COOKIE, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn the_token_is_read_from_its_own_cookie_alone() {
        let cookie = SessionCookie::of_organizations();
        let token = |values| {
            cookie
                .token(&headers(values), Transport::Https)
                .map(str::to_owned)
        };
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
    fn two_engines_on_one_host_have_two_cookies() {
        let engine = |installation| SessionCookie::of_engine(installation, SameSite::Strict);
        let both = headers(&["sortie_0a1b2c3d=stu_x; sortie_99887766=stu_y"]);
        let token = |installation| engine(installation).token(&both, Transport::Plain);
        assert_eq!(token("0a1b2c3d"), Some("stu_x"));
        assert_eq!(token("99887766"), Some("stu_y"));
        assert_eq!(token("deadbeef"), None);
        assert_eq!(engine("0a1b2c3d").token(&both, Transport::Https), None);
    }

    #[test]
    fn a_cookie_for_plain_http_has_no_prefix_and_is_not_secure() {
        let set = |cookie: SessionCookie, transport| {
            let value = cookie.set("stu_x", 60, transport).unwrap();
            value.to_str().unwrap().to_owned()
        };
        let engine = || SessionCookie::of_engine("0a1b2c3d", SameSite::Strict);
        assert_eq!(
            set(SessionCookie::of_organizations(), Transport::Https),
            "__Host-sortie=stu_x; Path=/; HttpOnly; SameSite=Lax; Max-Age=60; Secure"
        );
        assert_eq!(
            set(SessionCookie::of_organizations(), Transport::Plain),
            "sortie=stu_x; Path=/; HttpOnly; SameSite=Lax; Max-Age=60"
        );
        assert_eq!(
            set(engine(), Transport::Https),
            "__Host-sortie_0a1b2c3d=stu_x; Path=/; HttpOnly; SameSite=Strict; Max-Age=60; Secure"
        );
        assert_eq!(
            set(engine(), Transport::Plain),
            "sortie_0a1b2c3d=stu_x; Path=/; HttpOnly; SameSite=Strict; Max-Age=60"
        );
    }
}
