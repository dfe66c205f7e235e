//! Client address that a request without a credential is counted against.
//!
//! `X-Forwarded-For` is believed only as far as trusted proxies vouch for it: the first address from the right that
//! is not one of theirs is the client, so that a client cannot choose its own address.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The client's address as far as it can be known.
pub(crate) fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let mut client = peer.to_canonical();
    if trusted.is_empty() {
        return client;
    }
    let lines: Vec<&str> = headers
        .get_all(X_FORWARDED_FOR)
        .iter()
        .map(|line| line.to_str().unwrap_or("?"))
        .collect();
    for hop in lines.iter().rev().flat_map(|line| line.rsplit(',')) {
        if !trusted.iter().any(|proxies| proxies.contains(&client)) {
            break;
        }
        let Some(address) = parse(hop.trim()) else { break };
        client = address;
    }
    client
}

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
        client_address(peer.parse().unwrap(), &headers, &trusted).to_string()
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
}
