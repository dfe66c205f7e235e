//! Rules for the addresses that a request may reach.
//!
//! For IPv6 we refuse everything that is not known to be public. Only global unicast space (`2000::/3`) without its special
//! ranges passes, and the forms that carry an IPv4 address to a host on the network, which are checked by that address. Cloud
//! metadata services are always refused, in every form.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Reach of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Public addresses only.
    Public,
    /// Also private networks and the host, but never a metadata service.
    Private,
}

impl Reach {
    /// Whether a client with this reach may connect to `ip`.
    pub fn allows(self, ip: IpAddr) -> bool {
        match self {
            Self::Public => is_public(ip),
            Self::Private => is_host(ip) && !is_metadata(ip),
        }
    }
}

/// A range of IPv4 addresses: its base and the length of its prefix.
type V4Range = ([u8; 4], u32);
/// A range of IPv6 addresses: its base and the length of its prefix.
type V6Range = ([u16; 8], u32);

/// IPv4 ranges that are not public.
const V4_SPECIAL: &[V4Range] = &[
    ([0, 0, 0, 0], 8),       // this network
    ([10, 0, 0, 0], 8),      // private
    ([100, 64, 0, 0], 10),   // carrier-grade NAT
    ([127, 0, 0, 0], 8),     // loopback
    ([169, 254, 0, 0], 16),  // link-local
    ([172, 16, 0, 0], 12),   // private
    ([192, 0, 0, 0], 24),    // protocol assignments
    ([192, 0, 2, 0], 24),    // documentation
    ([192, 88, 99, 0], 24),  // 6to4 relays
    ([192, 168, 0, 0], 16),  // private
    ([198, 18, 0, 0], 15),   // benchmarks
    ([198, 51, 100, 0], 24), // documentation
    ([203, 0, 113, 0], 24),  // documentation
    ([224, 0, 0, 0], 3),     // multicast, reserved, broadcast
];

/// Ranges of `2000::/3` that are not public.
const V6_SPECIAL: &[V6Range] = &[
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), // protocol assignments: Teredo, benchmarks, ORCHID …
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), // documentation
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), // 6to4
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), // documentation
];

/// Global unicast space. The rest of IPv6 is special or unassigned.
const V6_GLOBAL: V6Range = ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// IPv4 addresses of the metadata services of clouds.
const V4_METADATA: &[V4Range] = &[
    ([169, 254, 0, 0], 16),     // link-local: AWS, Google, Azure, most others
    ([100, 100, 100, 200], 32), // Alibaba
    ([168, 63, 129, 16], 32),   // Azure's host agent
    ([192, 0, 0, 192], 32),     // Oracle, old form
];

/// IPv6 addresses of the metadata services of clouds.
const V6_METADATA: &[V6Range] = &[
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),               // link-local
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128),      // AWS
    ([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128),       // Google
    ([0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128), // Oracle
];

/// Forms of IPv6 with an IPv4 address in the last 32 bits.
const MAPPED: V6Range = ([0, 0, 0, 0, 0, 0xffff, 0, 0], 96);
const COMPATIBLE: V6Range = ([0, 0, 0, 0, 0, 0, 0, 0], 96);
const TRANSLATED: V6Range = ([0, 0, 0, 0, 0xffff, 0, 0, 0], 96);
const NAT64: V6Range = ([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);
const NAT64_LOCAL: V6Range = ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48);
/// 6to4: the IPv4 address follows the first 16 bits.
const SIX_TO_FOUR: V6Range = ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16);
/// Teredo: the last 32 bits are the inverted IPv4 address.
const TEREDO: V6Range = ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32);

fn in_v4(ip: Ipv4Addr, (base, length): V4Range) -> bool {
    let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
    ip.to_bits() & mask == u32::from_be_bytes(base) & mask
}

fn in_v6(ip: Ipv6Addr, (base, length): V6Range) -> bool {
    let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
    ip.to_bits() & mask == Ipv6Addr::from(base).to_bits() & mask
}

fn low_32(bits: u128) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::try_from(bits & u128::from(u32::MAX)).unwrap_or(0))
}

/// Returns the IPv4 address that an IPv6 address carries, in any form.
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = ip.to_bits();
    if [MAPPED, COMPATIBLE, TRANSLATED, NAT64, NAT64_LOCAL]
        .into_iter()
        .any(|range| in_v6(ip, range))
    {
        Some(low_32(bits))
    } else if in_v6(ip, SIX_TO_FOUR) {
        Some(low_32(bits >> 80))
    } else if in_v6(ip, TEREDO) {
        Some(low_32(!bits))
    } else {
        None
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    !V4_SPECIAL
        .iter()
        .chain(V4_METADATA)
        .any(|range| in_v4(ip, *range))
}

/// Whether an address is on the public internet: not private, local, special, reserved or a metadata service. An IPv4-mapped or
/// well-known NAT64 address counts like its IPv4 address; other carriers are refused.
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) if in_v6(ip, MAPPED) || in_v6(ip, NAT64) => is_public_v4(low_32(ip.to_bits())),
        IpAddr::V6(ip) => in_v6(ip, V6_GLOBAL) && !V6_SPECIAL.iter().any(|range| in_v6(ip, *range)),
    }
}

/// Returns the IPv4 address that an address carries, in any form, or else the address. Different spellings of one host therefore
/// have the same result.
pub(crate) fn carried(ip: IpAddr) -> IpAddr {
    match ip {
        // `::1` does not carry 0.0.0.1.
        IpAddr::V4(_) | IpAddr::V6(Ipv6Addr::LOCALHOST | Ipv6Addr::UNSPECIFIED) => ip,
        IpAddr::V6(v6) => embedded(v6).map_or(ip, IpAddr::V4),
    }
}

/// Whether an address is a cloud's metadata service or another link-local one, in any form.
pub fn is_metadata(ip: IpAddr) -> bool {
    let v4 = |ip: Ipv4Addr| V4_METADATA.iter().any(|range| in_v4(ip, *range));
    match ip {
        IpAddr::V4(ip) => v4(ip),
        IpAddr::V6(ip) => V6_METADATA.iter().any(|range| in_v6(ip, *range)) || embedded(ip).is_some_and(v4),
    }
}

/// Whether an address identifies exactly one host.
fn is_host(ip: IpAddr) -> bool {
    let v4 = |ip: Ipv4Addr| !in_v4(ip, ([0, 0, 0, 0], 8)) && !in_v4(ip, ([224, 0, 0, 0], 3));
    match ip {
        IpAddr::V4(ip) => v4(ip),
        IpAddr::V6(Ipv6Addr::LOCALHOST) => true,
        IpAddr::V6(ip) => !ip.is_multicast() && embedded(ip).is_none_or(v4),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_and_last_address_of_every_special_range_is_refused_and_its_neighbours_are_not() {
        for (first, last, before, after) in [
            ("0.0.0.0", "0.255.255.255", "", "1.0.0.0"),
            ("10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"),
            ("100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"),
            ("127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"),
            ("169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"),
            ("172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"),
            ("192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"),
            ("192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"),
            ("192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"),
            ("192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"),
            ("198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"),
            ("198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"),
            ("203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"),
            ("224.0.0.0", "255.255.255.255", "223.255.255.255", ""),
        ] {
            assert!(!is_public(ip(first)), "{first}");
            assert!(!is_public(ip(last)), "{last}");
            for neighbour in [before, after].into_iter().filter(|text| !text.is_empty()) {
                assert!(is_public(ip(neighbour)), "{neighbour}");
            }
        }
    }

    #[test]
    fn public_addresses_pass() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "2606:4700:4700::1111",
            "2a00:1450:4001:81b::200e",
            "2001:200::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
        ] {
            assert!(is_public(ip(text)), "{text}");
            assert!(Reach::Private.allows(ip(text)), "{text}");
        }
    }

    #[test]
    fn ipv6_that_is_not_known_to_be_public_is_refused() {
        for text in [
            "::",
            "::1",
            "::8.8.8.8",
            "::ffff:0:8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::8.8.8.8",
            "64:ff9b:1:ffff::1",
            "100::1",
            "100:0:0:1::1",
            "2001::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:2::1",
            "2001:10::1",
            "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:808:808::1",
            "3fff::1",
            "3fff:fff:ffff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(ip(text)), "{text}");
        }
    }

    #[test]
    fn a_metadata_service_is_refused_in_every_form_and_at_every_reach() {
        for text in [
            "169.254.169.254",
            "169.254.170.2",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fe80::a9fe:a9fe",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "::ffff:0:169.254.169.254",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::169.254.169.254",
            "2002:a9fe:a9fe::1",
            "2001:0:4136:e378:8000:63bf:5601:5601",
        ] {
            assert!(is_metadata(ip(text)), "{text}");
            for reach in [Reach::Public, Reach::Private] {
                assert!(!reach.allows(ip(text)), "{text} at {reach:?}");
            }
        }
    }

    #[test]
    fn the_private_reach_adds_private_networks_and_the_host_itself_only() {
        for text in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.1.1",
            "100.64.0.1",
            "::1",
            "fd12::1",
            "::ffff:127.0.0.1",
        ] {
            assert!(Reach::Private.allows(ip(text)), "{text}");
            assert!(!Reach::Public.allows(ip(text)), "{text}");
        }
        for text in [
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "255.255.255.255",
            "ff02::1",
            "::ffff:0.0.0.0",
            "64:ff9b::224.0.0.1",
        ] {
            assert!(!Reach::Private.allows(ip(text)), "{text}");
        }
    }

    /// Returns the networks after each `except:` of a policy.
    fn exceptions(policy: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut lines = policy.lines().map(str::trim);
        while lines.by_ref().any(|line| line == "except:") {
            let networks = lines.by_ref().map_while(|line| line.strip_prefix("- "));
            found.extend(
                networks
                    .take_while(|line| *line != "ipBlock:")
                    .map(|line| line.trim_matches('"').to_owned()),
            );
        }
        found.sort();
        found
    }

    #[test]
    fn the_policy_of_kubernetes_refuses_every_metadata_service() {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../deploy/kubernetes/base/networkpolicy.yaml"
        );
        let policy = std::fs::read_to_string(file).unwrap();
        let mut known = Vec::new();
        for (base, length) in V4_METADATA {
            let bits = u128::from(u32::from_be_bytes(*base));
            let within = |form: V6Range, shift: u32| {
                let base = Ipv6Addr::from_bits(Ipv6Addr::from(form.0).to_bits() | bits << shift);
                format!("{base}/{}", form.1 + length)
            };
            known.push(format!("{}/{length}", Ipv4Addr::from(*base)));
            known.push(within(NAT64, 0));
            known.push(within(SIX_TO_FOUR, 80));
        }
        for (base, length) in V6_METADATA {
            known.push(format!("{}/{length}", Ipv6Addr::from(*base)));
        }
        known.sort();
        assert_eq!(
            exceptions(&policy),
            known,
            "deploy/kubernetes/base/networkpolicy.yaml"
        );
    }

    proptest! {
        #[test]
        fn a_mapped_address_is_what_the_address_in_it_is(bits: u32) {
            let v4 = Ipv4Addr::from_bits(bits);
            let [a, b, c, d] = v4.octets();
            let tail = format!("{a}.{b}.{c}.{d}");
            for prefix in ["::ffff:", "64:ff9b::"] {
                prop_assert_eq!(is_public(ip(&format!("{prefix}{tail}"))), is_public(v4.into()));
            }
        }

        #[test]
        fn no_form_around_an_address_makes_it_public(
            range in prop::sample::select(V4_SPECIAL),
            host: u32,
            rest: u128,
        ) {
            let bits = u32::from_be_bytes(range.0) | (host & (u32::MAX >> range.1));
            prop_assert!(!is_public(Ipv4Addr::from_bits(bits).into()));
            let carried = u128::from(bits);
            let low = rest & u128::from(u64::MAX);
            for form in [
                carried,
                0xffff_u128 << 32 | carried,
                0xffff_u128 << 48 | carried,
                0x0064_ff9b_u128 << 96 | carried,
                0x0064_ff9b_0001_u128 << 80 | carried,
                0x2002_u128 << 112 | carried << 80 | low,
                0x2001_u128 << 112 | u128::from(!bits),
            ] {
                prop_assert!(!is_public(Ipv6Addr::from_bits(form).into()), "{}", Ipv6Addr::from_bits(form));
            }
        }

        #[test]
        fn what_is_public_is_never_local_in_the_standard_librarys_eyes(bits: u128, v4: u32) {
            let v6 = Ipv6Addr::from_bits(bits);
            if is_public(v6.into()) {
                prop_assert!(!v6.is_loopback() && !v6.is_multicast() && !v6.is_unspecified());
                prop_assert!(!v6.is_unique_local() && !v6.is_unicast_link_local());
            }
            let v4 = Ipv4Addr::from_bits(v4);
            if is_public(v4.into()) {
                prop_assert!(!v4.is_private() && !v4.is_loopback() && !v4.is_link_local());
                prop_assert!(!v4.is_broadcast() && !v4.is_multicast() && !v4.is_documentation());
            }
        }

        #[test]
        fn whatever_is_public_is_also_within_the_private_reach(bits: u128) {
            let v6 = IpAddr::V6(Ipv6Addr::from_bits(bits));
            prop_assert!(!Reach::Public.allows(v6) || Reach::Private.allows(v6));
        }
    }
}
