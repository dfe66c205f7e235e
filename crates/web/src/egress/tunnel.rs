//! A TLS tunnel. The proxy forwards nothing until the handshake names the host that the tunnel was requested for.
//!
//! Only the name in clear counts. A handshake with an encrypted name is checked by its outer name. We cannot see how an allowed
//! server uses an encrypted name or a `Host` inside of TLS.

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use sortie_net::policy::parse_host;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    time::timeout,
};
use url::Host;

use super::{
    hello::{self, Hello},
    proxy::{Proxy, Tunnel, Upstream},
};

impl Proxy {
    /// Serves a tunnel until it ends.
    pub(super) async fn tunnel(&self, tunnel: Tunnel) {
        let Tunnel {
            upgrade,
            host,
            upstream,
        } = tunnel;
        let Ok(upgraded) = upgrade.await else {
            // The command closed the connection before the upgrade.
            return;
        };
        let mut inside = TokioIo::new(upgraded);
        let hello = match self.hello(&mut inside, &host).await {
            Ok(hello) => hello,
            Err(why) => return self.refuse(&host.to_string(), &why),
        };
        let Upstream { mut io, visit, .. } = upstream;
        let passed = async {
            io.write_all(&hello).await?;
            copy_bidirectional(&mut inside, &mut io).await
        };
        if let Err(error) = passed.await {
            tracing::debug!(%error, "a tunnel of the egress proxy broke");
        }
        drop(visit);
    }

    /// Reads a TLS handshake and returns its bytes if it names `host`.
    async fn hello(&self, inside: &mut TokioIo<Upgraded>, host: &Host<String>) -> Result<Vec<u8>, String> {
        let (mut reader, mut bytes) = (hello::Reader::default(), Vec::with_capacity(2048));
        let read = timeout(self.limits.head, async {
            loop {
                bytes.clear();
                match inside.take(reader.room() as u64).read_buf(&mut bytes).await {
                    Ok(0) => return Err("the connection ended before its TLS handshake".to_owned()),
                    Ok(_) => {}
                    Err(error) => return Err(error.to_string()),
                }
                match reader.push(&bytes).map_err(|error| error.to_string())? {
                    Hello::Whole(name) => return Ok(name),
                    Hello::Incomplete => {}
                }
            }
        });
        let Ok(name) = read.await else {
            return Err("the TLS handshake took too long".to_owned());
        };
        let agrees = match (name?, host) {
            (Some(name), _) => parse_host(&name).is_ok_and(|name| name == *host),
            // A handshake with an address has no server name.
            (None, Host::Ipv4(_) | Host::Ipv6(_)) => true,
            (None, Host::Domain(_)) => false,
        };
        if agrees {
            Ok(reader.into_bytes())
        } else {
            Err("the TLS handshake asks for another host than the tunnel, or for none".to_owned())
        }
    }
}
