//! Egress for the commands of a run: an HTTP proxy, which is the only network in the run's network namespace.
//!
//! It accepts CONNECT to port 443, whose TLS handshake must name the same host, and plain HTTP in absolute form to port 80,
//! whose `Host` must match the URL. The run's [`Policy`] checks every request, including later ones on a connection, and we
//! connect to the checked address. The proxy does not inspect the content of TLS. Connections, bytes, headers and idle times are
//! limited.

mod hello;
mod proxy;
#[cfg(test)]
mod tests;
mod tunnel;
mod watched;

use std::{
    convert::Infallible,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use sortie_net::Policy;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};

use self::{proxy::Proxy, watched::Watched};

/// Maximum size of a request head, in bytes.
const HEAD_BYTES: usize = 32 * 1024;
/// Maximum number of header fields in a request.
const HEAD_FIELDS: usize = 128;
/// Pause after a failure to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Limits of the proxy of a run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of concurrent connections of the run. The same number can wait.
    pub connections: usize,
    /// Time after which a waiting connection gets a 503.
    pub wait: Duration,
    /// Timeout to receive the head of a request or a TLS handshake.
    pub head: Duration,
    /// Timeout of resolution and connection together.
    pub connect: Duration,
    /// Idle timeout of a connection.
    pub idle: Duration,
    /// Maximum traffic of the run in both directions together, in bytes.
    pub total_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            wait: Duration::from_secs(10),
            head: Duration::from_secs(15),
            connect: Duration::from_secs(10),
            idle: Duration::from_mins(2),
            total_bytes: 8 << 30,
        }
    }
}

/// Event at the proxy. Texts have a maximum length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An outgoing connection was opened.
    Opened {
        /// Host in the request.
        host: String,
        /// Port of the target.
        port: u16,
    },
    /// A request was refused or could not connect.
    Refused {
        /// Requested target.
        target: String,
        /// Reason of the refusal.
        why: String,
    },
    /// An outgoing connection was closed.
    Closed {
        /// Host in the request.
        host: String,
        /// Port of the target.
        port: u16,
        /// Number of bytes sent.
        sent: u64,
        /// Number of bytes received.
        received: u64,
    },
}

/// Receiver of events. Called on the runtime's threads: it must not block.
pub type OnEvent = Arc<dyn Fn(Event) + Send + Sync>;

/// Serves the proxy on a listener in the network namespace of the run. Dropping the future closes all connections.
pub async fn serve(
    listener: TcpListener,
    policy: Arc<Policy>,
    limits: Limits,
    on_event: OnEvent,
) -> Infallible {
    let proxy = Arc::new(Proxy {
        policy,
        limits,
        on_event,
        left: Arc::new(AtomicU64::new(limits.total_bytes)),
    });
    let places = Arc::new(Semaphore::new(limits.connections));
    let accepted = Arc::new(Semaphore::new(limits.connections.saturating_mul(2)));
    let mut connections = JoinSet::new();
    loop {
        while let Some(ended) = connections.try_join_next() {
            if let Err(error) = ended {
                tracing::error!(%error, "a connection of the egress proxy panicked");
            }
        }
        // The semaphore is never closed.
        let Ok(held) = accepted.clone().acquire_owned().await else {
            continue;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (proxy, places) = (proxy.clone(), places.clone());
                connections.spawn(async move {
                    match timeout(proxy.limits.wait, places.acquire()).await {
                        Ok(_place) => connection(proxy, stream).await,
                        Err(_all_are_taken) => turn_away(&proxy, stream).await,
                    }
                    drop(held);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the egress proxy cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// HTTP server with the limits of a request.
fn http(limits: Limits) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_header_size(HEAD_BYTES)
        .max_headers(HEAD_FIELDS);
    http
}

/// Responds to the first request of a connection that got no slot. Without a response, the client would consider the proxy
/// broken.
async fn turn_away(proxy: &Proxy, stream: TcpStream) {
    let io = TokioIo::new(Watched::new(stream, proxy.limits.idle, None));
    let service = service_fn(async |request| Ok::<_, Infallible>(proxy.turn_away(&request)));
    let served = http(proxy.limits).keep_alive(false).serve_connection(io, service);
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection to the egress proxy broke");
    }
}

/// Serves one connection from the run: requests in sequence, possibly with a tunnel at the end.
async fn connection(proxy: Arc<Proxy>, stream: TcpStream) {
    let io = TokioIo::new(Watched::new(stream, proxy.limits.idle, None));
    // A requested tunnel starts after HTTP has released the connection.
    let tunnel = Arc::new(Mutex::new(None));
    let service = {
        let (proxy, tunnel) = (proxy.clone(), tunnel.clone());
        service_fn(move |request| {
            let (proxy, tunnel) = (proxy.clone(), tunnel.clone());
            async move { Ok::<_, Infallible>(proxy.answer(request, &tunnel).await) }
        })
    };
    let served = http(proxy.limits)
        .serve_connection(io, service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        // The run caused this, or its command was killed, so the operator does not need to know.
        tracing::debug!(%error, "a connection to the egress proxy broke");
    }
    let tunnel = tunnel.lock().take();
    if let Some(tunnel) = tunnel {
        proxy.tunnel(tunnel).await;
    }
}
