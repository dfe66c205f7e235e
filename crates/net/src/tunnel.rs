//! Connections for a run's commands: to a checked address, or through the operator's proxy.

use std::{
    error::Error as StdError,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderValue, Uri};
use hyper_util::{
    client::legacy::connect::proxy::{SocksV5, Tunnel},
    rt::TokioIo,
};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use tower::{Service as _, service_fn};

use crate::{
    Outbound, Policy, Refused,
    policy::parse_host,
    proxy::{ProxyKind, ProxyServer},
    words,
};

/// Timeout of a test connection to a proxy.
const REACH: Duration = Duration::from_secs(5);

/// A bidirectional byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A connection to a target.
pub struct Connection {
    /// The connection.
    pub stream: Box<dyn Stream>,
    /// Whether it ends at an HTTP proxy that forwards requests, which therefore need absolute URLs.
    pub is_to_proxy: bool,
    /// Value of `Proxy-Authorization` for forwarded requests.
    pub authorization: Option<HeaderValue>,
}

impl Connection {
    fn to_target(stream: impl Stream + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            is_to_proxy: false,
            authorization: None,
        }
    }
}

/// Reason why there is no connection to a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoConnection {
    /// The target is forbidden.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The target did not respond, or the proxy refused it.
    #[error("the host cannot be reached: {0}")]
    Failed(String),
}

impl Policy {
    /// Checks a target and connects to one of the checked addresses, or to the operator's proxy, which then resolves the name
    /// again. For `host` see [`resolve`](Self::resolve).
    pub async fn connect(&self, host: &str, port: u16) -> Result<Connection, NoConnection> {
        let outbound = self.network().outbound();
        let parsed = parse_host(host)?;
        self.check(&parsed, port)?;
        let scheme = if port == 443 { "https" } else { "http" };
        let Some(proxy) = outbound.proxy_of_host(scheme, &parsed, port) else {
            return first_of(&self.resolve(host, port).await?).await;
        };
        let addresses = self.network().judge_for_proxy(&parsed, port).await?;
        let failed = |why: String| NoConnection::Failed(format!("through the proxy {proxy}: {why}"));
        if proxy.kind() == ProxyKind::Http && port != 443 {
            let stream = to_proxy(proxy, outbound)
                .await
                .map_err(|error| failed(told(&*error)))?;
            return Ok(Connection {
                stream,
                is_to_proxy: true,
                authorization: authorization(proxy),
            });
        }
        let named = match (proxy.kind(), addresses.first()) {
            (ProxyKind::Socks, Some(address)) => address.to_string(),
            _ => format!("{parsed}:{port}"),
        };
        let tunnel = through(proxy, outbound, &named).await;
        tunnel
            .map(Connection::to_target)
            .map_err(|error| failed(told(&*error)))
    }
}

/// Connects to the first address that accepts the connection.
async fn first_of(addresses: &[SocketAddr]) -> Result<Connection, NoConnection> {
    let mut failed = "no address".to_owned();
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(Connection::to_target(stream)),
            Err(error) => failed = error.to_string(),
        }
    }
    Err(NoConnection::Failed(failed))
}

impl ProxyServer {
    /// Tests the connection to the proxy without a request. The error is a readable reason.
    pub async fn reach(&self) -> Result<(), String> {
        let connecting = TcpStream::connect((self.host().trim_matches(['[', ']']), self.port()));
        match timeout(REACH, connecting).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(words::of_io(&error)),
            Err(_) => Err("no answer in time".to_owned()),
        }
    }
}

type AnyError = Box<dyn StdError + Send + Sync>;

/// Connects to a proxy.
async fn to_proxy(proxy: &ProxyServer, outbound: &Outbound) -> Result<Box<dyn Stream>, AnyError> {
    let host = proxy.host().trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, proxy.port())).await?;
    if !proxy.is_tls() {
        return Ok(Box::new(stream));
    }
    let mut tls = outbound.trusted.client_config()?;
    // Proxies use HTTP/1.1.
    tls.alpn_protocols.clear();
    let name = match host.parse::<IpAddr>() {
        Ok(ip) => ServerName::from(ip),
        Err(_) => ServerName::try_from(host.to_owned())?,
    };
    let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await?;
    Ok(Box::new(stream))
}

/// Opens a tunnel to `target`, a host and a port, through a proxy.
async fn through(
    proxy: &ProxyServer,
    outbound: &Outbound,
    target: &str,
) -> Result<Box<dyn Stream>, AnyError> {
    let target: Uri = format!("https://{target}").parse()?;
    let own: Uri = format!("http://{}:{}", proxy.host(), proxy.port()).parse()?;
    let connector = {
        let (proxy, outbound) = (proxy.clone(), outbound.clone());
        service_fn(move |_: Uri| {
            let (proxy, outbound) = (proxy.clone(), outbound.clone());
            async move {
                let stream = to_proxy(&proxy, &outbound).await;
                stream.map(TokioIo::new).map_err(io::Error::other)
            }
        })
    };
    if proxy.kind() == ProxyKind::Http {
        let mut tunnel = Tunnel::new(own, connector);
        if let Some(authorization) = authorization(proxy) {
            tunnel = tunnel.with_auth(authorization);
        }
        return Ok(tunnel.call(target).await?.into_inner());
    }
    let mut socks = SocksV5::new(own, connector);
    if let Some((user, password)) = proxy.credentials() {
        socks = socks.with_auth(user, password);
    }
    Ok(socks.call(target).await?.into_inner())
}

/// Value of `Proxy-Authorization`.
fn authorization(proxy: &ProxyServer) -> Option<HeaderValue> {
    let (user, password) = proxy.credentials()?;
    let pair = BASE64_STANDARD.encode(format!("{user}:{password}"));
    let mut value = HeaderValue::from_str(&format!("Basic {pair}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn told(error: &(dyn StdError + 'static)) -> String {
    words::of_chain(error)
}
