//! Client address for the rate limit of requests without a credential.
//!
//! `X-Forwarded-For` is trusted only as far as trusted proxies vouch for it: the first address from the right that does not
//! belong to a trusted proxy is the client, so that a client cannot choose its address.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use http::{HeaderMap, HeaderName, header::FORWARDED};
use ipnet::IpNet;
use parking_lot::Mutex;
use sortie_api::check::{Check, Verdict};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Maximum number of untrusted peers that are remembered with their ignored headers.
const REMEMBERED: usize = 8;

/// Proxies with a trusted `X-Forwarded-For`, and the first other peers that sent one. Clones share the peers.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrustedProxies(Arc<Proxies>);

#[derive(Debug, Default)]
struct Proxies {
    networks: Vec<IpNet>,
    ignored: Mutex<Vec<IpAddr>>,
}

impl TrustedProxies {
    pub(crate) fn new(networks: Vec<IpNet>) -> Self {
        Self(Arc::new(Proxies {
            networks,
            ignored: Mutex::default(),
        }))
    }

    /// Returns the best known address of the client.
    pub(crate) fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        if !self.trusts(client) {
            if headers.contains_key(X_FORWARDED_FOR) || headers.contains_key(FORWARDED) {
                self.ignore(client);
            }
            return client;
        }
        let lines: Vec<&str> = headers
            .get_all(X_FORWARDED_FOR)
            .iter()
            .map(|line| line.to_str().unwrap_or("?"))
            .collect();
        for hop in lines.iter().rev().flat_map(|line| line.rsplit(',')) {
            if !self.trusts(client) {
                break;
            }
            let Some(address) = parse(hop.trim()) else { break };
            client = address;
        }
        client
    }

    /// Returns true if `peer` is a trusted proxy and reports that the client uses https.
    pub(crate) fn is_https(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
        let proto = headers.get(X_FORWARDED_PROTO);
        proto.is_some_and(|proto| proto.as_bytes().eq_ignore_ascii_case(b"https"))
            && self.trusts(peer.to_canonical())
    }

    /// Checks whether a peer that is not trusted forwards requests.
    pub(crate) fn check(&self) -> Check {
        let name = "proxies";
        let ignored = self.0.ignored.lock();
        if ignored.is_empty() {
            let found = match self.0.networks.len() {
                0 => "none is trusted, and no peer forwards requests".to_owned(),
                trusted => format!("{trusted} in trusted_proxies, and no other peer forwards requests"),
            };
            return Check::new(name, Verdict::Ok, found);
        }
        let peers: Vec<String> = ignored.iter().map(ToString::to_string).collect();
        let found = format!("the X-Forwarded-For of {} is ignored", peers.join(", "));
        Check::new(name, Verdict::Warning, found).hint(ADD_THE_PROXY)
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.0.networks.iter().any(|proxies| proxies.contains(&address))
    }

    /// Remembers an untrusted peer that forwards requests. Logs the first one.
    fn ignore(&self, peer: IpAddr) {
        let mut ignored = self.0.ignored.lock();
        if ignored.contains(&peer) || ignored.len() == REMEMBERED {
            return;
        }
        ignored.push(peer);
        if ignored.len() == 1 {
            tracing::warn!(%peer, hint = ADD_THE_PROXY, "ignored X-Forwarded-For of a peer that is not in trusted_proxies");
        }
    }
}

/// Remedy for ignored headers.
const ADD_THE_PROXY: &str = "add your proxy to `trusted_proxies`: until then all its clients count as one, and share the limits \
                             of one address. Any other peer has sent the header itself, which changes nothing";

/// An address, or an address with a port as some proxies write it.
fn parse(text: &str) -> Option<IpAddr> {
    text.parse::<IpAddr>()
        .or_else(|_| text.parse::<SocketAddr>().map(|socket| socket.ip()))
        .ok()
        .map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, forwarded: &[&'static str], trusted: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append(X_FORWARDED_FOR, http::HeaderValue::from_static(line));
        }
        let trusted: Vec<IpNet> = trusted
            .iter()
            .map(|text| text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)))
            .collect::<Result<_, _>>()
            .unwrap();
        TrustedProxies::new(trusted)
            .client_address(peer.parse().unwrap(), &headers)
            .to_string()
    }

    #[test]
    fn a_forwarded_address_is_not_believed_from_a_stranger() {
        assert_eq!(client("198.51.100.7", &["203.0.113.1"], &[]), "198.51.100.7");
        assert_eq!(
            client("198.51.100.7", &["203.0.113.1"], &["10.0.0.1"]),
            "198.51.100.7"
        );
    }

    #[test]
    fn the_first_address_from_the_right_that_is_not_a_proxy_is_the_client() {
        let trusted = ["10.0.0.1", "10.0.0.2"];
        assert_eq!(
            client("10.0.0.1", &["1.2.3.4, 203.0.113.9, 10.0.0.2"], &trusted),
            "203.0.113.9"
        );
        assert_eq!(
            client("10.0.0.1", &["1.2.3.4", "203.0.113.9"], &trusted),
            "203.0.113.9"
        );
        assert_eq!(
            client("::ffff:10.0.0.1", &["203.0.113.9:4711"], &trusted),
            "203.0.113.9"
        );
        assert_eq!(client("10.0.0.1", &["[2001:db8::1]:80"], &trusted), "2001:db8::1");
    }

    #[test]
    fn proxies_may_have_any_address_of_a_network() {
        let trusted = ["10.244.0.0/16", "fd00::/8"];
        assert_eq!(
            client("10.244.3.9", &["1.2.3.4, 203.0.113.9, fd00::7"], &trusted),
            "203.0.113.9"
        );
        assert_eq!(client("10.245.0.1", &["203.0.113.9"], &trusted), "10.245.0.1");
    }

    #[test]
    fn what_cannot_be_read_ends_the_search() {
        assert_eq!(
            client("10.0.0.1", &["203.0.113.9, unknown"], &["10.0.0.1"]),
            "10.0.0.1"
        );
        assert_eq!(client("10.0.0.1", &[], &["10.0.0.1"]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &[""], &["10.0.0.1"]), "10.0.0.1");
    }

    #[test]
    fn a_peer_that_forwards_and_is_not_trusted_is_named_to_operators() {
        let proxies = TrustedProxies::new(vec!["10.0.0.1/32".parse().unwrap()]);
        let ask = |peer: &str, header: Option<HeaderName>| {
            let mut headers = HeaderMap::new();
            headers.extend(header.map(|name| (name, http::HeaderValue::from_static("203.0.113.9"))));
            proxies.client_address(peer.parse().unwrap(), &headers);
            proxies.check()
        };
        assert_eq!(ask("10.0.0.1", Some(X_FORWARDED_FOR)).verdict, Verdict::Ok);
        assert_eq!(ask("10.0.0.2", None).verdict, Verdict::Ok);
        let check = ask("::ffff:10.0.0.3", Some(X_FORWARDED_FOR));
        assert_eq!(check.verdict, Verdict::Warning);
        assert_eq!(check.found, "the X-Forwarded-For of 10.0.0.3 is ignored");
        assert_eq!(check.hints, [ADD_THE_PROXY]);
        let check = ask("10.0.0.4", Some(FORWARDED));
        assert_eq!(
            check.found,
            "the X-Forwarded-For of 10.0.0.3, 10.0.0.4 is ignored"
        );
        for number in 0..100 {
            ask(&format!("192.0.2.{number}"), Some(FORWARDED));
        }
        assert_eq!(proxies.0.ignored.lock().len(), REMEMBERED);
    }
}
