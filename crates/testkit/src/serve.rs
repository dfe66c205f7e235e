//! A server of the tests' own on a free port of the loopback address: it lives as long as its handle.

use std::{io, net::SocketAddr};

use axum::Router;
use tokio::{net::TcpListener, task::JoinSet};

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    _task: JoinSet<io::Result<()>>,
}

impl Serving {
    /// Serves `router` on a free port.
    pub async fn start(router: Router) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
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
