//! A server of the tests on the loopback address, which ends when its handle is dropped.

use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use axum::Router;
use tokio::{net::TcpListener, task::JoinSet};

use crate::PATIENCE;

/// A free port of the loopback address.
pub(crate) const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    _task: JoinSet<io::Result<()>>,
}

impl Serving {
    /// Serves `router` on a free port.
    pub async fn start(router: Router) -> io::Result<Self> {
        Self::start_at(ANY, router).await
    }

    /// Serves `router` at an address, once no other process has it.
    pub async fn start_at(address: SocketAddr, router: Router) -> io::Result<Self> {
        let listener = listen(address).await?;
        let address = listener.local_addr()?;
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, _task: task })
    }

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Listens at an address. If another run of the same test uses it, waits until that has ended.
async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                // There is no notification for a port that becomes free.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            bound => return bound,
        }
    }
}
