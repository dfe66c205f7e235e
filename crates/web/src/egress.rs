//! Egress of a run's commands: an HTTP proxy that the run's network namespace has instead of a network.
//!
//! It takes CONNECT to port 443, whose TLS handshake must ask for the host that was named, and plain HTTP in absolute
//! form to port 80, whose `Host` must be the URL's. Each request is judged by the run's [`Policy`], also the second on
//! a connection, and the connection goes to the address that was judged. What is sent inside of TLS is not looked
//! into. Connections, bytes, headers and silences are bounded.

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

/// The head of one request, in bytes.
const HEAD_BYTES: usize = 32 * 1024;
/// The header fields of one request.
const HEAD_FIELDS: usize = 128;
/// Pause of a listener that cannot accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Limits of the proxy of a run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections of the run at a time. As many more wait.
    pub connections: usize,
    /// Time after which a waiting connection is answered with 503.
    pub wait: Duration,
    /// Timeout of the head of a request, and of a TLS handshake.
    pub head: Duration,
    /// Timeout of resolution and connection together.
    pub connect: Duration,
    /// The longest silence of a connection.
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

/// Event at the proxy. Texts are bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection to the outside was made.
    Opened {
        /// The host that was named.
        host: String,
        /// Port of the target.
        port: u16,
    },
    /// A request was refused, or led nowhere.
    Refused {
        /// Target that was asked for.
        target: String,
        /// Reason of the refusal.
        why: String,
    },
    /// A connection to the outside is over.
    Closed {
        /// The host that was named.
        host: String,
        /// Port of the target.
        port: u16,
        /// Sent to it, in bytes.
        sent: u64,
        /// Received from it, in bytes.
        received: u64,
    },
}

/// Receiver of events. Called on the runtime's threads: it must not block.
pub type OnEvent = Arc<dyn Fn(Event) + Send + Sync>;

/// Serves the proxy on a listener of the run's own network namespace. It ends when it is dropped, and every
/// connection with it.
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

/// HTTP as the proxy speaks it, with the bounds of a request.
fn http(limits: Limits) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_header_size(HEAD_BYTES)
        .max_headers(HEAD_FIELDS);
    http
}

/// Answers the first request of a connection that has found no place. A client that got no answer would take the proxy
/// for broken.
async fn turn_away(proxy: &Proxy, stream: TcpStream) {
    let io = TokioIo::new(Watched::new(stream, proxy.limits.idle, None));
    let service = service_fn(async |request| Ok::<_, Infallible>(proxy.turn_away(&request)));
    let served = http(proxy.limits).keep_alive(false).serve_connection(io, service);
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection to the egress proxy broke");
    }
}

/// Serves one connection from the run: requests in turn, or a tunnel at last.
async fn connection(proxy: Arc<Proxy>, stream: TcpStream) {
    let io = TokioIo::new(Watched::new(stream, proxy.limits.idle, None));
    // A tunnel that a request asked for begins when the connection is given up by HTTP.
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
        // The run's own doing, or its command was ended: nothing for the operator.
        tracing::debug!(%error, "a connection to the egress proxy broke");
    }
    let tunnel = tunnel.lock().take();
    if let Some(tunnel) = tunnel {
        proxy.tunnel(tunnel).await;
    }
}
