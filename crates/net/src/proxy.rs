//! The operator's proxies, and the hosts that are reached directly.

use std::{fmt, net::IpAddr, sync::Arc};

use ipnet::IpNet;
use percent_encoding::percent_decode_str;
use url::{Host, Url};

/// Rule for the address of a proxy.
const RULE: &str = "must be an address such as http://proxy.example.com:3128 or socks5h://127.0.0.1:1080, \
                    user:password@ before the host percent-encoded, and no path";

/// A proxy. `Display` and `Debug` show its address without user and password.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyServer {
    url: Arc<Url>,
    kind: ProxyKind,
}

/// Protocol of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyKind {
    /// HTTP, with CONNECT for https.
    Http,
    /// SOCKS5 with addresses, which this machine resolves.
    Socks,
    /// SOCKS5 with names, which the proxy resolves.
    SocksNames,
}

impl ProxyServer {
    /// Parses the address of a proxy. Without a scheme it is HTTP. The error is the rule without the address, which can contain a
    /// password.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        let with_scheme = if text.contains("://") {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        // Desktops write `socks:` for a proxy that resolves names.
        let with_scheme = match with_scheme.strip_prefix("socks://") {
            Some(rest) => format!("socks5h://{rest}"),
            None => with_scheme,
        };
        let mut url = Url::parse(&with_scheme).map_err(|_| RULE)?;
        let kind = match url.scheme() {
            "http" | "https" => ProxyKind::Http,
            "socks5" => ProxyKind::Socks,
            "socks5h" => ProxyKind::SocksNames,
            _ => return Err("must begin with http://, https://, socks5:// or socks5h://"),
        };
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(RULE)?;
        // The library parses hosts only for the schemes of the web.
        let host = Host::parse(host).map_err(|_| RULE)?.to_string();
        let is_bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
        if !is_bare || url.set_host(Some(&host)).is_err() {
            return Err(RULE);
        }
        if kind != ProxyKind::Http && url.port().is_none() && url.set_port(Some(1080)).is_err() {
            return Err(RULE);
        }
        Ok(Self {
            url: Arc::new(url),
            kind,
        })
    }

    /// Returns the protocol.
    pub const fn kind(&self) -> ProxyKind {
        self.kind
    }

    /// Whether the connection to the proxy uses TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Returns the address with user and password, for the connecting library.
    pub(crate) fn expose(&self) -> &str {
        self.url.as_str()
    }

    /// Returns the host, with an IPv6 address in brackets.
    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Returns the port, or its default.
    pub(crate) fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or(1080)
    }

    /// Returns user and password, decoded.
    pub(crate) fn credentials(&self) -> Option<(String, String)> {
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let (user, password) = (self.url.username(), self.url.password());
        (!user.is_empty() || password.is_some())
            .then(|| (decoded(user), decoded(password.unwrap_or_default())))
    }
}

impl fmt::Display for ProxyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.url.scheme(), self.host(), self.port())
    }
}

impl fmt::Debug for ProxyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Hosts that are reached without a proxy. Default: only this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoProxy {
    entries: Vec<Entry>,
    /// Whether this machine is included.
    local: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Everything,
    /// A domain with its subdomains: lower case, ASCII, without leading or trailing dots.
    Domain(String, Option<u16>),
    Network(IpNet, Option<u16>),
}

impl Default for NoProxy {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            local: true,
        }
    }
}

impl NoProxy {
    /// Contains no host, not even this machine.
    pub const fn none() -> Self {
        Self {
            entries: Vec::new(),
            local: false,
        }
    }

    /// Parses a `NO_PROXY` list, separated by commas or spaces: `*`, domains, which include their subdomains and may start with a
    /// dot or `*.`, addresses and networks, each with an optional port. This machine is always included. Other entries match
    /// nothing.
    pub fn parse(list: &str) -> Self {
        let entries = list
            .split([',', ' ', '\t', '\n'])
            .filter(|entry| !entry.is_empty())
            .filter_map(Entry::parse);
        Self {
            entries: entries.collect(),
            local: true,
        }
    }

    /// Whether this host is reached without a proxy.
    pub fn contains<S: AsRef<str>>(&self, host: &Host<S>, port: u16) -> bool {
        (self.local && is_local(host)) || self.entries.iter().any(|entry| entry.matches(host, port))
    }
}

impl Entry {
    fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::Everything);
        }
        if let Some(network) = network(text) {
            return Some(Self::Network(network, None));
        }
        let (text, port) = match text.rsplit_once(':') {
            Some((text, port)) => (text, Some(port.parse().ok()?)),
            None => (text, None),
        };
        if let Some(network) = network(text) {
            return Some(Self::Network(network, port));
        }
        let name = text.strip_prefix('*').unwrap_or(text).trim_matches('.');
        match Host::parse(name) {
            Ok(Host::Domain(name)) => Some(Self::Domain(name, port)),
            Ok(Host::Ipv4(_) | Host::Ipv6(_)) | Err(_) => None,
        }
    }

    fn matches<S: AsRef<str>>(&self, host: &Host<S>, port: u16) -> bool {
        let fits = |own: Option<u16>| own.is_none_or(|own| own == port);
        match (self, host) {
            (Self::Everything, _) => true,
            (Self::Domain(domain, own), Host::Domain(name)) => {
                let name = name.as_ref();
                let name = name.strip_suffix('.').unwrap_or(name);
                let rest = name.strip_suffix(domain.as_str());
                fits(*own) && rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
            (Self::Network(network, own), Host::Ipv4(ip)) => fits(*own) && network.contains(&IpAddr::V4(*ip)),
            (Self::Network(network, own), Host::Ipv6(ip)) => {
                fits(*own) && network.contains(&IpAddr::V6(*ip).to_canonical())
            }
            (Self::Domain(..), Host::Ipv4(_) | Host::Ipv6(_)) | (Self::Network(..), Host::Domain(_)) => false,
        }
    }
}

/// Parses a network, or an address as a network of one host, optionally in brackets.
fn network(text: &str) -> Option<IpNet> {
    let text = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .unwrap_or(text);
    let address = || text.parse::<IpAddr>().map(|ip| ip.to_canonical().into());
    text.parse().or_else(|_| address()).ok()
}

/// Whether a host is this machine: a remote proxy would reach itself.
fn is_local<S: AsRef<str>>(host: &Host<S>) -> bool {
    match host {
        Host::Domain(name) => {
            let name = name.as_ref();
            let name = name.strip_suffix('.').unwrap_or(name);
            name == "localhost" || name.ends_with(".localhost")
        }
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => IpAddr::V6(*ip).to_canonical().is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_proxy_is_read_as_its_variables_are_written() {
        use ProxyKind::{Http, Socks, SocksNames};
        for (text, kind, shown) in [
            (
                "http://proxy.example.com:3128",
                Http,
                "http://proxy.example.com:3128",
            ),
            (
                "http://proxy.example.com:3128/",
                Http,
                "http://proxy.example.com:3128",
            ),
            ("proxy.example.com:3128", Http, "http://proxy.example.com:3128"),
            ("10.0.0.1:3128", Http, "http://10.0.0.1:3128"),
            ("proxy", Http, "http://proxy:80"),
            ("https://proxy", Http, "https://proxy:443"),
            ("HTTP://Proxy:8080", Http, "http://proxy:8080"),
            ("http://[::1]:3128", Http, "http://[::1]:3128"),
            ("socks5://127.0.0.1", Socks, "socks5://127.0.0.1:1080"),
            ("socks5h://Tor:9050", SocksNames, "socks5h://tor:9050"),
            ("socks://127.0.0.1:1080/", SocksNames, "socks5h://127.0.0.1:1080"),
            ("socks5://[::1]:9", Socks, "socks5://[::1]:9"),
            (" http://u:p%40ss@proxy:1 ", Http, "http://proxy:1"),
        ] {
            let proxy = ProxyServer::parse(text).unwrap();
            assert_eq!(
                (proxy.kind(), proxy.to_string().as_str()),
                (kind, shown),
                "{text}"
            );
        }
    }

    #[test]
    fn credentials_are_decoded_and_never_shown() {
        for (text, expected) in [
            ("http://proxy", None),
            ("http://u:p%40s%2Fs@proxy", Some(("u", "p@s/s"))),
            ("socks5://u@proxy", Some(("u", ""))),
            ("u:pass@proxy:3128", Some(("u", "pass"))),
        ] {
            let proxy = ProxyServer::parse(text).unwrap();
            let found = proxy.credentials();
            let found = found
                .as_ref()
                .map(|(user, password)| (user.as_str(), password.as_str()));
            assert_eq!(found, expected, "{text}");
            assert!(!format!("{proxy}{proxy:?}").contains('@'), "{text}");
        }
    }

    #[test]
    fn what_is_no_proxy_is_refused_without_its_password() {
        for text in [
            "",
            "http://",
            "ftp://proxy",
            "socks4://proxy",
            "http://proxy/path",
            "http://proxy?x",
            "http://proxy#x",
            "http://u:hush#x@proxy",
            "http://proxy:99999",
            "socks5://",
            "socks5://a b:1",
        ] {
            let rule = ProxyServer::parse(text).unwrap_err();
            assert!(
                rule.starts_with("must ") && !rule.contains("hush"),
                "{text}: {rule}"
            );
        }
    }

    fn contains(list: &str, url: &str) -> bool {
        let url: Url = url.parse().unwrap();
        NoProxy::parse(list).contains(&url.host().unwrap(), url.port_or_known_default().unwrap())
    }

    #[test]
    fn hosts_are_excepted_as_curl_and_go_do_it() {
        for (list, url, excepted) in [
            ("", "http://example.com/", false),
            ("*", "http://example.com/", true),
            ("example.com", "http://example.com/", true),
            ("example.com", "http://EXAMPLE.com./", true),
            ("example.com", "http://a.b.example.com/", true),
            ("example.com", "http://badexample.com/", false),
            ("example.com", "http://example.com.evil.net/", false),
            (".example.com", "http://example.com/", true),
            ("*.example.com", "http://a.example.com/", true),
            ("Example.COM.", "http://a.example.com/", true),
            ("bücher.example", "http://xn--bcher-kva.example/", true),
            ("a, b , example.com", "http://example.com/", true),
            ("a b\texample.com", "http://example.com/", true),
            ("example.com:8080", "http://example.com:8080/", true),
            ("example.com:8080", "http://example.com/", false),
            ("example.com:443", "https://example.com/", true),
            ("10.1.2.3", "http://10.1.2.3/", true),
            ("10.1.2.3", "http://10.1.2.4/", false),
            ("10.0.0.0/8", "http://10.200.0.1/", true),
            ("10.0.0.0/8", "http://11.0.0.1/", false),
            ("10.1.2.3:81", "http://10.1.2.3:81/", true),
            ("10.0.0.0/8", "http://[::ffff:10.0.0.1]/", true),
            ("fd00::/8", "http://[fd00::1]/", true),
            ("[fd00::1]", "http://[fd00::1]/", true),
            ("[fd00::1]:82", "http://[fd00::1]:82/", true),
            ("fd00::1", "http://[fd00::2]/", false),
            ("10.0.0.0/99,:,::,a:b:c,[", "http://example.com/", false),
            ("", "http://127.0.0.1:8080/", true),
            ("", "http://[::1]/", true),
            ("", "http://localhost/", true),
            ("", "http://a.localhost./", true),
            ("", "http://notlocalhost/", false),
        ] {
            assert_eq!(contains(list, url), excepted, "{list:?}: {url}");
        }
        let host = Host::Domain("localhost");
        assert!(!NoProxy::none().contains(&host, 80));
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in any::<String>()) {
            let _proxy = ProxyServer::parse(&text);
            let _excepted = NoProxy::parse(&text).contains(&Host::Domain("example.com"), 80);
        }
    }
}
