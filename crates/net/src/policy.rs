//! Web targets of a run: one check for its web tools and for its commands at the egress proxy.
//!
//! A target is allowed if its form is valid, its port is 80 or 443, its host is in the run's domains, and every address of its
//! name is allowed. The result is the checked addresses. Callers connect to these and do not resolve the name again.

use std::{net::SocketAddr, sync::Arc};

use url::{Host, Url};

use crate::{network::Network, refused::Refused};

/// The allowed ports.
const PORTS: [u16; 2] = [80, 443];
/// Maximum length of a URL, in bytes.
pub(crate) const URL_BYTES: usize = 8 * 1024;
/// Maximum length of a DNS name, in bytes.
const MAX_NAME: usize = 253;
/// Maximum length of a DNS label, in bytes.
const MAX_LABEL: usize = 63;
/// Maximum number of characters of an invalid domain that a message repeats.
const TOLD_CHARS: usize = 100;

/// A text that is not a domain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{domain}`: {rule}")]
pub struct InvalidDomain {
    /// The text as given, truncated.
    pub domain: String,
    /// The violated rule.
    pub rule: &'static str,
}

/// Targets that a run may reach.
#[derive(Clone, Debug)]
pub struct Policy {
    network: Arc<Network>,
    /// Lower case, ASCII, without a trailing dot. `None`: every public address.
    domains: Option<Vec<String>>,
}

impl Policy {
    /// Allows the addresses of `network` on the web ports, within the domains of `allow` and their subdomains. `None` allows any
    /// host.
    pub fn new(network: Arc<Network>, allow: Option<&[String]>) -> Result<Self, InvalidDomain> {
        let domains = match allow {
            Some(allow) => Some(allow.iter().map(|text| domain(text)).collect::<Result<_, _>>()?),
            None => None,
        };
        Ok(Self { network, domains })
    }

    /// Returns the network of the targets.
    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    /// Checks a URL without resolving its name.
    pub fn check_url(&self, url: &Url) -> Result<(), Refused> {
        check_form(url).map_err(Refused::Form)?;
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(Refused::Form("the URL must name a host"));
        };
        self.check(&plain(&host.to_owned()), port)
    }

    /// Whether a host is in the run's domains. An address is in no domain.
    pub fn allows_host(&self, host: &Host<String>) -> bool {
        let Some(domains) = &self.domains else {
            return true;
        };
        match plain(host) {
            Host::Domain(name) => domains.iter().any(|domain| is_within(&name, domain)),
            Host::Ipv4(_) | Host::Ipv6(_) => false,
        }
    }

    /// Checks a target and returns the addresses to connect to. `host` has the form as in a URL, with an IPv6 address in
    /// brackets. Unusual spellings are refused.
    pub async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Refused> {
        let host = parse_host(host)?;
        self.check(&host, port)?;
        self.network.resolve(&host, port).await
    }

    pub(crate) fn check(&self, host: &Host<String>, port: u16) -> Result<(), Refused> {
        if !PORTS.contains(&port) {
            return Err(Refused::Port { port });
        }
        let literal = match host {
            Host::Ipv4(ip) => Some((*ip).into()),
            Host::Ipv6(ip) => Some((*ip).into()),
            Host::Domain(_) => None,
        };
        if literal.is_some_and(|ip| !self.network.allows(ip)) {
            return Err(Refused::Address {
                host: host.to_string(),
            });
        }
        if !self.allows_host(host) {
            return Err(Refused::Domain {
                host: host.to_string(),
            });
        }
        Ok(())
    }
}

/// Checks the form of a URL. The host is not checked.
///
/// # Errors
/// The violated rule.
pub fn check_form(url: &Url) -> Result<(), &'static str> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err("the URL must begin with http:// or https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL must not carry a user name or a password");
    }
    match url.host() {
        None => return Err("the URL must name a host"),
        Some(Host::Domain(name)) if !has_labels(name) => return Err("the URL must name a host"),
        Some(Host::Domain(_) | Host::Ipv4(_) | Host::Ipv6(_)) => {}
    }
    if url.port() == Some(0) {
        return Err("the URL must not name port 0");
    }
    if url.as_str().len() > URL_BYTES {
        return Err("the URL must be at most 8192 bytes long");
    }
    Ok(())
}

/// Parses a host of a proxy request or an allow-list: lower case, ASCII, without a trailing dot. Refuses texts that only a
/// lenient parser accepts as an address or a name, because another parser may read them differently.
pub fn parse_host(text: &str) -> Result<Host<String>, Refused> {
    if text.contains(['%', '@', '/', '\\']) {
        return Err(Refused::Form("the host must be a plain name or address"));
    }
    let host = Host::parse(text).map_err(|_| Refused::Form("the host is neither a name nor an address"))?;
    match &host {
        Host::Ipv4(ip) if ip.to_string() != text => Err(Refused::Form(
            "an IPv4 address must be written as four decimal numbers",
        )),
        Host::Domain(name) if !has_labels(name) => {
            Err(Refused::Form("the host is neither a name nor an address"))
        }
        Host::Domain(_) | Host::Ipv4(_) | Host::Ipv6(_) => Ok(plain(&host)),
    }
}

/// Whether a name can exist: labels of 1 to 63 bytes, 253 in total. It may end with a dot.
pub(crate) fn has_labels(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.len() <= MAX_NAME
        && name
            .split('.')
            .all(|label| (1..=MAX_LABEL).contains(&label.len()))
}

/// Removes the trailing dot of a name.
pub(crate) fn plain(host: &Host<String>) -> Host<String> {
    match host {
        Host::Domain(name) => Host::Domain(name.strip_suffix('.').unwrap_or(name).to_owned()),
        Host::Ipv4(ip) => Host::Ipv4(*ip),
        Host::Ipv6(ip) => Host::Ipv6(*ip),
    }
}

fn is_within(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Parses an entry of an allow-list.
fn domain(text: &str) -> Result<String, InvalidDomain> {
    let refuse = |rule| InvalidDomain {
        domain: text.chars().take(TOLD_CHARS).collect(),
        rule,
    };
    if text.contains("://") {
        return Err(refuse("must be a domain such as example.com, without a scheme"));
    }
    if text.contains('*') {
        return Err(refuse("must not hold a `*`: a domain includes its subdomains"));
    }
    if text.contains(['/', '?', '#', '@', ':', '%', '\\']) {
        return Err(refuse(
            "must be only a domain, without a path, a port or a user name",
        ));
    }
    let name = match parse_host(text) {
        Ok(Host::Domain(name)) => name,
        Ok(Host::Ipv4(_) | Host::Ipv6(_)) => return Err(refuse("must be a domain, not an address")),
        Err(_) => return Err(refuse("must be a domain such as example.com")),
    };
    // The host check has already covered the length of labels.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !name.bytes().all(is_plain) {
        return Err(refuse("must be a domain such as example.com"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;

    use super::*;
    use crate::{
        address::Reach,
        network::{Resolver, Resolving},
    };

    /// Returns one list of addresses per query. The last one repeats.
    struct Scripted {
        answers: Vec<Vec<SocketAddr>>,
        asked: AtomicUsize,
    }

    impl Resolver for Scripted {
        fn resolve<'a>(&'a self, _host: &'a str, _port: u16) -> Resolving<'a> {
            let at = self.asked.fetch_add(1, Ordering::SeqCst);
            let answer = self.answers[at.min(self.answers.len() - 1)].clone();
            Box::pin(async move { Ok(answer) })
        }
    }

    fn policy_on(answers: &[&[&str]], allow: Option<&[&str]>) -> Policy {
        let answers = answers
            .iter()
            .map(|list| list.iter().map(|text| text.parse().unwrap()).collect())
            .collect();
        let resolver = Scripted {
            answers,
            asked: AtomicUsize::new(0),
        };
        let network = Network::new(Reach::Public, Vec::new()).with_resolver(Arc::new(resolver));
        let allow: Option<Vec<_>> = allow.map(|list| list.iter().map(|d| (*d).to_owned()).collect());
        Policy::new(Arc::new(network), allow.as_deref()).unwrap()
    }

    fn policy(allow: Option<&[&str]>) -> Policy {
        policy_on(&[&["8.8.8.8:443"]], allow)
    }

    fn check(policy: &Policy, url: &str) -> Result<(), Refused> {
        policy.check_url(&url.parse().unwrap())
    }

    #[test]
    fn a_domain_matches_itself_and_its_subdomains_only() {
        let policy = policy(Some(&["Example.COM.", "bücher.example"]));
        for url in [
            "https://example.com/",
            "http://EXAMPLE.com./x",
            "https://a.b.example.com/",
            "https://xn--bcher-kva.example/",
            "https://www.BÜCHER.example/",
        ] {
            assert_eq!(check(&policy, url), Ok(()), "{url}");
        }
        for url in [
            "https://badexample.com/",
            "https://example.com.evil.net/",
            "https://example.org/",
            "https://com/",
            "https://8.8.8.8/",
        ] {
            assert!(
                matches!(check(&policy, url), Err(Refused::Domain { .. })),
                "{url}"
            );
        }
        for url in [
            "https://example.com../",
            "https://a..example.com/",
            "https://.example.com/",
        ] {
            let refused = Err(Refused::Form("the URL must name a host"));
            assert_eq!(check(&policy, url), refused, "{url}");
        }
        assert_eq!(check(&self::policy(None), "https://8.8.8.8/"), Ok(()));
        let none: &[&str] = &[];
        assert!(check(&self::policy(Some(none)), "https://example.com/").is_err());
    }

    #[test]
    fn ports_schemes_and_user_names_are_refused() {
        let policy = policy(None);
        for (url, expected) in [
            ("http://example.com:8080/", Refused::Port { port: 8080 }),
            ("https://example.com:22/", Refused::Port { port: 22 }),
            (
                "ftp://example.com/",
                Refused::Form("the URL must begin with http:// or https://"),
            ),
            (
                "https://u:p@example.com/",
                Refused::Form("the URL must not carry a user name or a password"),
            ),
        ] {
            assert_eq!(check(&policy, url), Err(expected), "{url}");
        }
    }

    #[test]
    fn a_url_with_a_local_address_is_refused_in_every_spelling() {
        for url in [
            "http://127.0.0.1/",
            "http://0x7f.1/",
            "http://2130706433/",
            "http://0177.0.0.1/",
            "http://127.1/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[64:ff9b:1::1]/",
            "http://169.254.169.254/",
            "http://１２７.0.0.1/",
        ] {
            assert!(
                matches!(check(&policy(None), url), Err(Refused::Address { .. })),
                "{url}"
            );
        }
    }

    #[tokio::test]
    async fn a_target_in_an_odd_spelling_is_refused() {
        let policy = policy(None);
        for host in [
            "0x8.8.8.8",
            "134744072",
            "8.8.2056",
            "08.8.8.8",
            "8.8.8.8.",
            "%65xample.com",
            "a@example.com",
            "example.com/x",
            "",
            "[8.8.8.8]",
            "exa mple.com",
            "example.com..",
            "example.com...",
            "a..example.com",
            ".example.com",
            ".",
            "..",
        ] {
            let refused = policy.resolve(host, 443).await;
            assert!(matches!(refused, Err(Refused::Form(_))), "{host}: {refused:?}");
        }
        for host in ["8.8.8.8", "example.com", "EXAMPLE.com.", "[2a00:1450::1]"] {
            assert!(policy.resolve(host, 443).await.is_ok(), "{host}");
        }
        for host in ["127.0.0.1", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]"] {
            let refused = policy.resolve(host, 443).await;
            assert!(
                matches!(refused, Err(Refused::Address { .. })),
                "{host}: {refused:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_name_is_resolved_once_and_refused_when_one_of_its_addresses_is_not_public() {
        let rebinding = policy_on(&[&["8.8.8.8:443"], &["127.0.0.1:443"]], None);
        let first = rebinding.resolve("example.com", 443).await;
        assert_eq!(first, Ok(vec!["8.8.8.8:443".parse().unwrap()]));
        let second = rebinding.resolve("example.com", 443).await;
        assert_eq!(
            second,
            Err(Refused::Address {
                host: "example.com".to_owned()
            })
        );
        let both = policy_on(&[&["8.8.8.8:443", "10.0.0.1:443"]], None);
        assert!(both.resolve("example.com", 443).await.is_err());
        let nothing = policy_on(&[&[]], None);
        assert!(matches!(
            nothing.resolve("example.com", 443).await,
            Err(Refused::Unknown { .. })
        ));
    }

    #[test]
    fn what_is_no_domain_is_refused_with_the_rule() {
        let network = Arc::new(Network::new(Reach::Public, Vec::new()));
        for (text, part) in [
            ("https://example.com", "without a scheme"),
            ("example.com/path", "without a path"),
            ("example.com:443", "a port"),
            ("u@example.com", "a user name"),
            ("*.example.com", "includes its subdomains"),
            ("8.8.8.8", "not an address"),
            ("0x8.8.8.8", "such as example.com"),
            ("[::1]", "without a path, a port"),
            ("", "such as example.com"),
            (".example.com", "such as example.com"),
            ("a..b", "such as example.com"),
            ("a b", "such as example.com"),
        ] {
            let refused = Policy::new(network.clone(), Some(&[text.to_owned()])).unwrap_err();
            assert!(refused.to_string().contains(part), "{text}: {refused}");
        }
        let long = "a.".repeat(200) + "example";
        assert!(Policy::new(network, Some(&[long])).is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_domain_or_the_host_parser_panic(text in any::<String>()) {
            if let Ok(name) = domain(&text) {
                prop_assert!(name.is_ascii() && !name.is_empty());
                prop_assert_eq!(domain(&name), Ok(name.clone()));
            }
            let _parsed = parse_host(&text);
        }
    }
}
