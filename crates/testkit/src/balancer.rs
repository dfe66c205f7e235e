//! A load balancer for tests: it only forwards each connection to the next node that reports ready.
//!
//! The balancer never retries: if a node refuses or breaks a connection, the client sees that.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::timeout,
};

use crate::{Client, PATIENCE};

/// Interval of the probes of each node.
pub const PROBE: Duration = Duration::from_millis(50);

/// A running balancer; dropping it stops it.
#[derive(Debug)]
pub struct Balancer {
    address: SocketAddr,
    nodes: Arc<Nodes>,
    ready: watch::Receiver<usize>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Nodes {
    /// Address of each node, and whether it was ready at the last probe.
    known: Mutex<Vec<(SocketAddr, bool)>>,
    turn: AtomicUsize,
}

impl Nodes {
    fn known(&self) -> MutexGuard<'_, Vec<(SocketAddr, bool)>> {
        self.known.lock()
    }

    /// The next one that is ready.
    fn next(&self) -> Option<SocketAddr> {
        let ready: Vec<SocketAddr> = self
            .known()
            .iter()
            .filter(|node| node.1)
            .map(|node| node.0)
            .collect();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        ready.get(turn.checked_rem(ready.len())?).copied()
    }

    async fn probe(&self, told: &watch::Sender<usize>) {
        let addresses: Vec<SocketAddr> = self.known().iter().map(|node| node.0).collect();
        for address in addresses {
            let answer = Client::new(address, None).get("/readyz").await;
            let is_ready = answer.is_ok_and(|answer| answer.status == 200);
            for node in self.known().iter_mut().filter(|node| node.0 == address) {
                node.1 = is_ready;
            }
        }
        told.send_replace(self.known().iter().filter(|node| node.1).count());
    }
}

impl Balancer {
    /// Listens on a free port, in front of these nodes. No node counts as ready at first.
    pub async fn start(addresses: impl IntoIterator<Item = SocketAddr>) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let nodes = Arc::new(Nodes::default());
        nodes
            .known()
            .extend(addresses.into_iter().map(|address| (address, false)));
        let (told, ready) = watch::channel(0);
        let mut tasks = JoinSet::new();
        let probed = Arc::clone(&nodes);
        tasks.spawn(async move {
            loop {
                probed.probe(&told).await;
                tokio::time::sleep(PROBE).await;
            }
        });
        let served = Arc::clone(&nodes);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                // Those that have ended are let go.
                while connections.try_join_next().is_some() {}
                connections.spawn(pass(client, served.next()));
            }
        });
        Ok(Self {
            address,
            nodes,
            ready,
            _tasks: tasks,
        })
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the address of a node.
    pub fn replace(&self, before: SocketAddr, after: SocketAddr) {
        for node in self.nodes.known().iter_mut().filter(|node| node.0 == before) {
            *node = (after, false);
        }
    }

    /// Returns once this many nodes are ready, each probed since the call.
    pub async fn until_ready(&mut self, count: usize) -> Result<()> {
        self.ready.mark_unchanged();
        loop {
            timeout(PATIENCE, self.ready.changed())
                .await
                .context("the nodes do not become ready")??;
            if *self.ready.borrow_and_update() >= count {
                return Ok(());
            }
        }
    }
}

/// Carries the bytes of one connection both ways. Without a node the client sees its connection closed.
async fn pass(mut client: TcpStream, node: Option<SocketAddr>) {
    let Some(node) = node else { return };
    if let Ok(mut node) = TcpStream::connect(node).await {
        // If one side breaks the connection, the other side sees the end of the connection.
        let _ended = tokio::io::copy_bidirectional(&mut client, &mut node).await;
    }
}
