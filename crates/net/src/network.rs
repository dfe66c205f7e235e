//! The network as requests see it: who turns names into addresses, and which of those may be connected to.
//!
//! Every address is judged here, whether it came from a name or stood in the URL, and what was judged is what is
//! connected to: a name is resolved once. Who asks and what may answer are values, so that a test brings its own.

use std::{
    fmt,
    future::Future,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::Pin,
    sync::Arc,
};

use url::Host;

use crate::{address, address::Reach, policy::Refused};

/// What a resolver returns.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Turns names into addresses.
pub trait Resolver: Send + Sync {
    /// The addresses of `host`, an ASCII name without a trailing dot. They carry `port`; 0 leaves it to the caller.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a>;
}

/// The resolver of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}

/// Which addresses may be connected to, and how names become addresses. One for each reach of a node.
#[derive(Clone)]
pub struct Network {
    reach: Reach,
    own: Vec<IpAddr>,
    resolver: Arc<dyn Resolver>,
}

impl Network {
    /// All that `reach` allows but the engine's `own` addresses, by the resolver of the operating system.
    pub fn new(reach: Reach, own: Vec<IpAddr>) -> Self {
        Self {
            reach,
            own: own.into_iter().map(address::carried).collect(),
            resolver: Arc::new(SystemResolver),
        }
    }

    /// The same, asking another resolver.
    #[must_use]
    pub fn with_resolver(self, resolver: Arc<dyn Resolver>) -> Self {
        Self { resolver, ..self }
    }

    /// How far it reaches.
    pub const fn reach(&self) -> Reach {
        self.reach
    }

    /// Whether an address may be connected to.
    pub fn allows(&self, ip: IpAddr) -> bool {
        self.reach.allows(ip) && !self.own.contains(&address::carried(ip))
    }

    /// The addresses of a host that may be connected to. A name with one address that may not be is refused whole:
    /// a name with a public and a private address is a trap, not a choice.
    pub async fn resolve(&self, host: &Host<String>, port: u16) -> Result<Vec<SocketAddr>, Refused> {
        let found = match host {
            Host::Ipv4(ip) => vec![SocketAddr::new((*ip).into(), port)],
            Host::Ipv6(ip) => vec![SocketAddr::new((*ip).into(), port)],
            Host::Domain(name) => {
                let unknown = |why| Refused::Unknown {
                    host: name.clone(),
                    why,
                };
                let resolved = self.resolver.resolve(name, port).await;
                let found = resolved.map_err(|error| unknown(error.to_string()))?;
                if found.is_empty() {
                    return Err(unknown("it has no address".to_owned()));
                }
                found
            }
        };
        if found.iter().any(|address| !self.allows(address.ip())) {
            return Err(Refused::Address {
                host: host.to_string(),
            });
        }
        Ok(found)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("reach", &self.reach)
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}

/// The addresses of this machine's interfaces in the current network namespace, as the kernel lists them. An error
/// where it does not.
pub fn own_addresses() -> io::Result<Vec<IpAddr>> {
    let mut addresses = ipv4_of(&std::fs::read_to_string("/proc/net/fib_trie")?);
    match std::fs::read_to_string("/proc/net/if_inet6") {
        Ok(text) => addresses.extend(ipv6_of(&text)),
        // A kernel without IPv6 has no such file, and no such addresses.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(addresses)
}

/// Of the routing table: an address line, and beneath it one that says it is local.
fn ipv4_of(table: &str) -> Vec<IpAddr> {
    let mut found = Vec::new();
    let mut leaf: Option<Ipv4Addr> = None;
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(leaf.map(IpAddr::V4).filter(|ip| !found.contains(ip)));
        }
    }
    found
}

/// Of the list of interfaces: 32 hexadecimal digits at the start of each line.
fn ipv6_of(list: &str) -> Vec<IpAddr> {
    let address = |line: &str| u128::from_str_radix(line.split_whitespace().next()?, 16).ok();
    list.lines()
        .filter_map(address)
        .map(|bits| Ipv6Addr::from_bits(bits).into())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n        |-- 198.51.100.7\n           \
                     /32 host LOCAL\n        |-- 198.51.100.255\n           /32 link BROADCAST\nLocal:\n        |-- \
                     198.51.100.7\n           /32 host LOCAL\n";
        assert_eq!(ipv4_of(table), ["198.51.100.7".parse::<IpAddr>().unwrap()]);
        let list = "20010db8000000000000000000000002 04 40 00 82     eth0\n\nnonsense\n";
        assert_eq!(ipv6_of(list), ["2001:db8::2".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn this_machine_has_its_loopback_address() {
        let own = own_addresses().unwrap();
        assert!(own.contains(&Ipv4Addr::LOCALHOST.into()), "{own:?}");
    }

    #[test]
    fn the_engines_own_addresses_are_refused_in_every_form() {
        let own = vec!["8.8.4.4".parse().unwrap(), "2a00:1450::5".parse().unwrap()];
        let network = Network::new(Reach::Public, own);
        for (text, allowed) in [
            ("8.8.4.4", false),
            ("::ffff:8.8.4.4", false),
            ("64:ff9b::8.8.4.4", false),
            ("2a00:1450::5", false),
            ("8.8.8.8", true),
            ("64:ff9b::8.8.8.8", true),
            ("2a00:1450::6", true),
            ("127.0.0.1", false),
        ] {
            assert_eq!(network.allows(text.parse().unwrap()), allowed, "{text}");
        }
    }
}
