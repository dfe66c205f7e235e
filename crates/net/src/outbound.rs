//! The operator's settings for outgoing connections: proxies and trusted certificates.

use std::path::Path;

use url::{Host, Url};

use crate::{
    proxy::{NoProxy, ProxyServer},
    trust::TrustedCertificates,
};

/// Proxies and certificates for the connections of a client. By default there are no proxies, and the built-in certificate
/// authorities are trusted. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Outbound {
    /// Proxy for `http://` addresses.
    pub http: Option<ProxyServer>,
    /// Proxy for `https://` addresses.
    pub https: Option<ProxyServer>,
    /// Hosts that are reached without a proxy.
    pub no_proxy: NoProxy,
    /// Whether to leave names that this machine cannot resolve to the proxy, even if private addresses are forbidden. The proxy
    /// must then refuse them.
    pub proxy_resolves: bool,
    /// Certificates that are trusted in addition to the built-in ones.
    pub trusted: TrustedCertificates,
}

/// An invalid environment variable. The value is not repeated because it can contain a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {rule}")]
pub struct InvalidVariable {
    /// Name of the variable.
    pub variable: &'static str,
    /// The rule that it breaks.
    pub rule: String,
}

impl Outbound {
    /// Reads the conventional variables: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, each also in lower case,
    /// `SSL_CERT_FILE` and `SSL_CERT_DIR`. `get` returns a variable that is set and not empty.
    pub fn from_variables<'a>(
        get: impl Fn(&'static str) -> Option<&'a str>,
    ) -> Result<Self, InvalidVariable> {
        let first = |names: [&'static str; 2]| {
            let mut set = names.into_iter().filter_map(|name| Some((name, get(name)?)));
            set.next()
        };
        let all = first(["ALL_PROXY", "all_proxy"]);
        let proxy = |names| {
            let Some((variable, text)) = first(names).or(all) else {
                return Ok(None);
            };
            let read = ProxyServer::parse(text).map(Some);
            read.map_err(|rule| InvalidVariable {
                variable,
                rule: rule.to_owned(),
            })
        };
        let mut trusted = TrustedCertificates::default();
        let variable = "SSL_CERT_FILE";
        if let Some(path) = get(variable) {
            trusted = trusted
                .with_file(Path::new(path))
                .map_err(|rule| InvalidVariable { variable, rule })?;
        }
        for folder in get("SSL_CERT_DIR").into_iter().flat_map(|list| list.split(':')) {
            trusted = trusted.with_folder(Path::new(folder));
        }
        Ok(Self {
            http: proxy(["HTTP_PROXY", "http_proxy"])?,
            https: proxy(["HTTPS_PROXY", "https_proxy"])?,
            no_proxy: first(["NO_PROXY", "no_proxy"])
                .map_or_else(NoProxy::default, |(_, list)| NoProxy::parse(list)),
            proxy_resolves: false,
            trusted,
        })
    }

    /// Uses one proxy for every address, or none.
    #[must_use]
    pub fn through(self, proxy: Option<ProxyServer>, no_proxy: NoProxy) -> Self {
        Self {
            http: proxy.clone(),
            https: proxy,
            no_proxy,
            ..self
        }
    }

    /// Removes the proxies, for addresses on the operator's network.
    #[must_use]
    pub fn direct(&self) -> Self {
        self.clone().through(None, NoProxy::default())
    }

    /// Returns the proxy for an address.
    pub fn proxy_of(&self, url: &Url) -> Option<&ProxyServer> {
        self.proxy_of_host(url.scheme(), &url.host()?, url.port_or_known_default()?)
    }

    /// Returns the proxy for a host with this scheme.
    pub(crate) fn proxy_of_host<S: AsRef<str>>(
        &self,
        scheme: &str,
        host: &Host<S>,
        port: u16,
    ) -> Option<&ProxyServer> {
        let proxy = match scheme {
            "http" => self.http.as_ref(),
            "https" => self.https.as_ref(),
            _ => None,
        };
        proxy.filter(|_| !self.no_proxy.contains(host, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&'static str, &'static str)]) -> Result<Outbound, InvalidVariable> {
        Outbound::from_variables(|name| {
            let found = variables.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| *value)
        })
    }

    #[test]
    fn the_variables_name_the_proxy_of_each_scheme() {
        let [a, b, c] = ["http://a:1", "http://b:2", "socks5h://c:3"];
        for (variables, http, https) in [
            (&[][..], None, None),
            (&[("HTTPS_PROXY", a)], None, Some(a)),
            (&[("https_proxy", a)], None, Some(a)),
            (&[("HTTP_PROXY", a)], Some(a), None),
            (&[("http_proxy", a), ("HTTP_PROXY", b)], Some(b), None),
            (&[("ALL_PROXY", c)], Some(c), Some(c)),
            (&[("all_proxy", c), ("HTTPS_PROXY", a)], Some(c), Some(a)),
            (&[("ALL_PROXY", c), ("NO_PROXY", "x.example")], None, None),
            (&[("ALL_PROXY", c), ("no_proxy", "*")], None, None),
            // An unused variable is not parsed.
            (
                &[
                    ("ALL_PROXY", "nonsense://"),
                    ("HTTP_PROXY", a),
                    ("HTTPS_PROXY", b),
                ],
                Some(a),
                Some(b),
            ),
        ] {
            let outbound = of(variables).unwrap();
            let shown = |url: &str| {
                let proxy = outbound.proxy_of(&url.parse().unwrap());
                proxy.map(ToString::to_string)
            };
            assert_eq!(shown("http://x.example/").as_deref(), http, "{variables:?}");
            assert_eq!(shown("https://x.example/").as_deref(), https, "{variables:?}");
            assert_eq!(shown("http://127.0.0.1/"), None, "{variables:?}");
        }
    }

    #[test]
    fn a_variable_that_cannot_be_used_is_named_without_its_value() {
        for (name, value) in [
            ("HTTPS_PROXY", "http://u:hush@"),
            ("all_proxy", "socks4://hush"),
            ("SSL_CERT_FILE", "/nowhere/ca.pem"),
        ] {
            let error = of(&[(name, value)]).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{name}: ")) && !error.contains("hush"),
                "{error}"
            );
        }
    }
}
