//! Name resolution, and the check of addresses before a connection.
//!
//! Every address is checked here, both resolved and literal ones, and we connect to exactly the checked address: a name is
//! resolved once. Resolver and rules are values, so that tests can replace them.

use std::{
    fmt,
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use tokio::time::timeout;
use url::Host;

use crate::{Outbound, address::Reach, own::OwnAddresses, refused::Refused};

/// Timeout to resolve a name that a proxy resolves as well.
const RESOLUTION: Duration = Duration::from_secs(2);

/// Future that a resolver returns.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Resolves names to addresses.
pub trait Resolver: Send + Sync {
    /// Returns the addresses of `host`, an ASCII name without a trailing dot. They carry `port`; 0 leaves it to the caller.
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

/// Address rules and the resolver. There is one for each reach of a node.
#[derive(Clone)]
pub struct Network {
    reach: Reach,
    own: OwnAddresses,
    resolver: Arc<dyn Resolver>,
    outbound: Outbound,
}

impl Network {
    /// Allows the addresses of `reach` except `own`, and uses the resolver of the operating system.
    pub fn new(reach: Reach, own: Vec<IpAddr>) -> Self {
        Self {
            reach,
            own: OwnAddresses::given(own),
            resolver: Arc::new(SystemResolver),
            outbound: Outbound::default(),
        }
    }

    /// Allows the addresses of `reach` except those that this machine has at the time of a request, including addresses that are
    /// added later. Fails if the kernel does not list them.
    pub fn of_this_machine(reach: Reach) -> io::Result<Self> {
        Ok(Self {
            reach,
            own: OwnAddresses::current()?,
            resolver: Arc::new(SystemResolver),
            outbound: Outbound::default(),
        })
    }

    /// Replaces the resolver.
    #[must_use]
    pub fn with_resolver(self, resolver: Arc<dyn Resolver>) -> Self {
        Self { resolver, ..self }
    }

    /// Sets the proxies and the trusted certificates of connections.
    #[must_use]
    pub fn with_outbound(self, outbound: Outbound) -> Self {
        Self { outbound, ..self }
    }

    /// Returns the proxies and the trusted certificates of connections.
    pub const fn outbound(&self) -> &Outbound {
        &self.outbound
    }

    /// Returns the reach.
    pub const fn reach(&self) -> Reach {
        self.reach
    }

    /// Whether the client may connect to an address.
    pub fn allows(&self, ip: IpAddr) -> bool {
        self.reach.allows(ip) && !self.own.contain(ip)
    }

    /// Checks a host before a proxy receives its name, and returns its addresses if this machine can resolve it. The proxy
    /// resolves the name again. A name that only the proxy can resolve is accepted if private addresses are allowed, or if the
    /// operator has left the check to the proxy.
    pub async fn judge_for_proxy(&self, host: &Host<String>, port: u16) -> Result<Vec<SocketAddr>, Refused> {
        let is_left_to_proxy = self.outbound.proxy_resolves || self.reach == Reach::Private;
        // Resolvers of such networks may drop queries for unknown names.
        let judged = timeout(RESOLUTION, self.resolve(host, port)).await;
        let judged = judged.unwrap_or_else(|_late| {
            Err(Refused::Unknown {
                host: host.to_string(),
                why: "its name server does not answer".to_owned(),
            })
        });
        match judged {
            Err(Refused::Unknown { .. }) if is_left_to_proxy => Ok(Vec::new()),
            Err(Refused::Unknown { host, why }) => Err(Refused::Unjudged { host, why }),
            judged => judged,
        }
    }

    /// Returns the addresses of a host. A name is refused if any of its addresses is forbidden: a name with a public and a
    /// private address is an attack.
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
            .field("outbound", &self.outbound)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
