//! Networks of clients.

use std::net::{IpAddr, Ipv6Addr};

/// Returns the network that counts as one client: an IPv4 address, or the /64 that one IPv6 subscriber has.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_subscriber_is_one_client() {
        let one = network("2001:db8:1:2:3:4:5:6".parse().unwrap());
        assert_eq!(one, network("2001:db8:1:2::1".parse().unwrap()));
        assert_ne!(one, network("2001:db8:1:3::1".parse().unwrap()));
        assert_eq!(
            network("::ffff:192.0.2.1".parse().unwrap()),
            "192.0.2.1".parse::<IpAddr>().unwrap()
        );
    }
}
