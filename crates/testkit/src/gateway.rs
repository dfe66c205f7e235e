//! An HTTP gateway in front of a peer. It can answer requests itself with a failure, delay them, or break the
//! connection before or after the peer has handled them.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream;
use http::{StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::{
    net::TcpStream,
    sync::{Semaphore, SemaphorePermit},
    task::JoinSet,
};

use crate::serve::Serving;

/// Fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayFault {
    /// Nothing: the peer answers.
    None,
    /// The gateway answers with this status, and the peer does not see the request.
    Fails(StatusCode),
    /// The peer sees it this much later.
    Late(Duration),
    /// The peer sees it after [`Gateway::release`].
    Held,
    /// The peer does not see it, and it gets no answer until the client disconnects.
    Hangs,
    /// The connection breaks before the peer sees it.
    Breaks,
    /// The peer handles it, and the connection breaks before the answer is complete.
    AnswerLost,
}

/// Faults of the requests, in a cycle.
#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    faults: Mutex<VecDeque<GatewayFault>>,
    faulted: AtomicU64,
    /// A permit for each held request that may continue.
    released: Semaphore,
}

/// A running gateway; dropping it ends it.
#[derive(Debug)]
pub struct Gateway {
    server: Serving,
    shared: Arc<Shared>,
}

impl Gateway {
    /// Starts a gateway without faults in front of `upstream`.
    pub async fn start(upstream: SocketAddr) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            upstream,
            faults: Mutex::default(),
            faulted: AtomicU64::new(0),
            released: Semaphore::new(0),
        });
        let router = Router::new().fallback(pass).with_state(Arc::clone(&shared));
        Ok(Self {
            server: Serving::start(router).await?,
            shared,
        })
    }

    /// `http://127.0.0.1:PORT`.
    pub fn base_url(&self) -> String {
        self.server.base_url()
    }

    /// Sets the faults of the next requests, in order. An empty list ends the faults.
    pub fn set(&self, faults: impl IntoIterator<Item = GatewayFault>) {
        *self.shared.lock() = faults.into_iter().collect();
    }

    /// Lets one held request through.
    pub fn release(&self) {
        self.shared.released.add_permits(1);
    }

    /// Returns the number of faulty requests so far.
    pub fn faulted(&self) -> u64 {
        self.shared.faulted.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn lock(&self) -> parking_lot::MutexGuard<'_, VecDeque<GatewayFault>> {
        self.faults.lock()
    }

    fn next(&self) -> GatewayFault {
        let mut faults = self.lock();
        let Some(next) = faults.pop_front() else {
            return GatewayFault::None;
        };
        faults.push_back(next);
        if next != GatewayFault::None {
            self.faulted.fetch_add(1, Ordering::SeqCst);
        }
        next
    }
}

async fn pass(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let fault = shared.next();
    match fault {
        GatewayFault::Fails(status) => return status.into_response(),
        GatewayFault::Hangs => return std::future::pending().await,
        GatewayFault::Breaks => return broken(),
        GatewayFault::Late(delay) => tokio::time::sleep(delay).await,
        // The semaphore is never closed.
        GatewayFault::Held => shared
            .released
            .acquire()
            .await
            .map_or_else(drop, SemaphorePermit::forget),
        GatewayFault::None | GatewayFault::AnswerLost => {}
    }
    let answered = forward(shared.upstream, request).await;
    match answered {
        Ok(answer) if fault != GatewayFault::AnswerLost => answer,
        Ok(_) | Err(_) => broken(),
    }
}

/// An answer that ends before its first byte.
fn broken() -> Response {
    let cut: io::Error = io::ErrorKind::ConnectionReset.into();
    let body = Body::from_stream(stream::iter([Err::<Bytes, _>(cut)]));
    ([(header::CONTENT_LENGTH, "1000")], body).into_response()
}

/// Forwards the request unchanged, over a separate connection.
async fn forward(upstream: SocketAddr, request: Request) -> anyhow::Result<Response> {
    let (parts, body) = request.into_parts();
    let body = Full::new(body.collect().await?.to_bytes());
    let stream = TcpStream::connect(upstream).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut task = JoinSet::new();
    task.spawn(connection);
    let answer = sender
        .send_request(http::Request::from_parts(parts, body))
        .await?;
    let (parts, body) = answer.into_parts();
    Ok(Response::from_parts(
        parts,
        Body::from(body.collect().await?.to_bytes()),
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use axum::routing::put;

    use super::*;
    use crate::Client;

    #[tokio::test]
    async fn each_fault_comes_in_its_turn_and_what_is_lost_was_done_or_not() -> anyhow::Result<()> {
        let seen = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&seen);
        let peer = put(move || async move { count.fetch_add(1, Ordering::SeqCst).to_string() });
        let server = Serving::start(Router::new().route("/", peer)).await?;
        let gateway = Gateway::start(server.address()).await?;
        let client = Client::new(gateway.server.address(), None);
        let send = || client.send(http::Method::PUT, "/", Bytes::from_static(b"{}"));
        assert_eq!(send().await?.text(), "0");
        gateway.set([
            GatewayFault::Fails(StatusCode::SERVICE_UNAVAILABLE),
            GatewayFault::Breaks,
            GatewayFault::AnswerLost,
            GatewayFault::Late(Duration::from_millis(10)),
        ]);
        assert_eq!(send().await?.status, 503);
        assert!(send().await.is_err());
        assert_eq!(seen.load(Ordering::SeqCst), 1);
        assert!(send().await.is_err());
        assert_eq!(seen.load(Ordering::SeqCst), 2);
        assert_eq!(send().await?.text(), "2");
        gateway.set([GatewayFault::Held]);
        let mut held = std::pin::pin!(send());
        while gateway.faulted() == 4 {
            let turn = tokio::task::yield_now();
            tokio::select! {
                answer = &mut held => anyhow::bail!("{answer:?}"),
                () = turn => {}
            }
        }
        assert_eq!(seen.load(Ordering::SeqCst), 3);
        gateway.release();
        assert_eq!(held.await?.text(), "3");
        gateway.set([]);
        assert_eq!((send().await?.text().as_str(), gateway.faulted()), ("4", 5));
        Ok(())
    }
}
