//! A TCP proxy between a node and one of its peers that treats their connections as bad networks do: it cuts or delays
//! them, swallows data, or lets only one direction through.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinSet,
};

/// Treatment of the bytes that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// The bytes arrive.
    Open,
    /// The bytes are delayed by this time, in both directions, piece by piece.
    Slow(Duration),
    /// The bytes are dropped silently: a black hole. Connections are accepted and stay open.
    Swallowed,
    /// The node's bytes arrive, but the peer's answers do not: a half-open connection.
    Deaf,
    /// Every connection is reset, including each new one.
    Refused,
}

/// State that the tasks of a proxy share.
#[derive(Debug)]
struct Shared {
    upstream: Mutex<SocketAddr>,
    passage: watch::Sender<Passage>,
    /// Counts the cuts: a connection ends when this changes. A cut affects one in `.1` connections.
    cuts: watch::Sender<(u64, u64)>,
    connections: AtomicU64,
    open: AtomicUsize,
}

impl Shared {
    fn upstream(&self) -> MutexGuard<'_, SocketAddr> {
        self.upstream.lock()
    }
}

/// A running proxy; dropping it ends it, with its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _task: JoinSet<()>,
}

impl Proxy {
    /// Starts a proxy in front of `upstream` on a free port of the loopback address; open at first.
    pub async fn start(upstream: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream: Mutex::new(upstream),
            passage: watch::Sender::new(Passage::Open),
            cuts: watch::Sender::new((0, 1)),
            connections: AtomicU64::new(0),
            open: AtomicUsize::new(0),
        });
        let mut task = JoinSet::new();
        task.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            _task: task,
        })
    }

    /// Returns the address of the proxy.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets how data passes from now on, including on open connections. Swallowed data stays lost.
    pub fn set(&self, passage: Passage) {
        self.shared.passage.send_replace(passage);
    }

    /// Sends new connections to another peer. Open ones keep theirs.
    pub fn move_to(&self, upstream: SocketAddr) {
        *self.shared.upstream() = upstream;
    }

    /// Resets every `nth` open connection, all if `nth` is 1; new ones are accepted.
    pub fn cut(&self, nth: u64) {
        self.shared
            .cuts
            .send_modify(|cuts| *cuts = (cuts.0 + 1, nth.max(1)));
    }

    /// Connections that it has taken so far.
    pub fn taken(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Connections that are open through it.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let number = shared.connections.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            shared.open.fetch_add(1, Ordering::SeqCst);
            // Broken connections are expected here.
            let _ended = serve(stream, number, &shared).await;
            shared.open.fetch_sub(1, Ordering::SeqCst);
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Carries one connection until it ends, or is reset.
async fn serve(node: TcpStream, number: u64, shared: &Shared) -> io::Result<()> {
    node.set_nodelay(true)?;
    let mut passage = shared.passage.subscribe();
    let mut cuts = shared.cuts.subscribe();
    let refused = async {
        let mut passage = shared.passage.subscribe();
        // An error would mean that the proxy was dropped, and this task with it.
        drop(passage.wait_for(|now| *now == Passage::Refused).await);
    };
    let cut = async {
        while cuts.changed().await.is_ok() {
            if number.is_multiple_of(cuts.borrow_and_update().1) {
                break;
            }
        }
    };
    let carried = async {
        // The node can connect to a black hole, but the peer sees no connection.
        drop(passage.wait_for(|now| *now != Passage::Swallowed).await);
        let upstream = *shared.upstream();
        let peer = TcpStream::connect(upstream).await?;
        peer.set_nodelay(true)?;
        Ok::<_, io::Error>(peer.into_split())
    };
    tokio::pin!(refused, cut);
    let (to_reset, ended) = (node, ());
    let peer = tokio::select! {
        peer = carried => peer,
        () = &mut refused => return reset(&to_reset),
        () = &mut cut => return reset(&to_reset),
    };
    let Ok((peer_reads, peer_writes)) = peer else {
        return reset(&to_reset);
    };
    let (node_reads, node_writes) = to_reset.into_split();
    let mut out = Direction::new(node_reads, peer_writes, shared, Passage::Swallowed);
    let mut back = Direction::new(peer_reads, node_writes, shared, Passage::Deaf);
    let is_cut = tokio::select! {
        _ = async { tokio::try_join!(out.carry(), back.carry()) } => false,
        () = refused => true,
        () = cut => true,
    };
    let whole = out.from.reunite(back.to).map_err(io::Error::other)?;
    if is_cut { reset(&whole) } else { Ok(ended) }
}

/// Makes the other side see a reset instead of an orderly end.
fn reset(stream: &TcpStream) -> io::Result<()> {
    stream.set_zero_linger()
}

/// Direction of a connection.
struct Direction {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    passage: watch::Receiver<Passage>,
    /// Passage, other than a black hole, that blocks this direction.
    lost_in: Passage,
}

impl Direction {
    fn new(from: OwnedReadHalf, to: OwnedWriteHalf, shared: &Shared, lost_in: Passage) -> Self {
        Self {
            from,
            to,
            passage: shared.passage.subscribe(),
            lost_in,
        }
    }

    async fn carry(&mut self) -> io::Result<()> {
        let mut piece = vec![0; 16 << 10];
        loop {
            let length = self.from.read(&mut piece).await?;
            let now = *self.passage.borrow();
            if now == Passage::Swallowed || now == self.lost_in {
                if length == 0 {
                    // Even the end of the connection is not passed on until the passage changes.
                    drop(self.passage.wait_for(|passage| *passage != now).await);
                    return self.to.shutdown().await;
                }
                continue;
            }
            if let Passage::Slow(delay) = now {
                tokio::time::sleep(delay).await;
            }
            let Some(piece) = piece.get(..length).filter(|piece| !piece.is_empty()) else {
                return self.to.shutdown().await;
            };
            self.to.write_all(piece).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use axum::{Router, routing::get};

    use super::*;
    use crate::{Client, serve::Serving};

    async fn behind() -> anyhow::Result<(Serving, Proxy, Client)> {
        let server = Serving::start(Router::new().route("/", get(|| async { "here" }))).await?;
        let proxy = Proxy::start(server.address()).await?;
        let client = Client::new(proxy.address(), None);
        Ok((server, proxy, client))
    }

    #[tokio::test]
    async fn what_is_sent_arrives_late_or_not_at_all_as_it_is_told() -> anyhow::Result<()> {
        let (_server, proxy, client) = behind().await?;
        assert_eq!(client.get("/").await?.text(), "here");
        proxy.set(Passage::Slow(Duration::from_millis(80)));
        let begun = Instant::now();
        assert_eq!(client.get("/").await?.text(), "here");
        assert!(
            begun.elapsed() >= Duration::from_millis(160),
            "{:?}",
            begun.elapsed()
        );
        for lost in [Passage::Swallowed, Passage::Deaf] {
            proxy.set(lost);
            let answer = tokio::time::timeout(Duration::from_millis(200), client.get("/")).await;
            assert!(answer.is_err(), "{lost:?}: {answer:?}");
        }
        proxy.set(Passage::Refused);
        assert!(client.get("/").await.is_err());
        proxy.set(Passage::Open);
        assert_eq!(client.get("/").await?.text(), "here");
        Ok(())
    }

    #[tokio::test]
    async fn new_connections_go_where_the_proxy_has_moved_to() -> anyhow::Result<()> {
        let (_server, proxy, client) = behind().await?;
        assert_eq!(client.get("/").await?.text(), "here");
        let other = Serving::start(Router::new().route("/", get(|| async { "there" }))).await?;
        proxy.move_to(other.address());
        assert_eq!(client.get("/").await?.text(), "there");
        Ok(())
    }

    #[tokio::test]
    async fn a_cut_resets_the_connections_that_are_open_and_no_later_ones() -> anyhow::Result<()> {
        let server = Serving::start(Router::new().route("/", get(std::future::pending::<()>))).await?;
        let proxy = Proxy::start(server.address()).await?;
        let client = Client::new(proxy.address(), None);
        let mut waiting = tokio::task::JoinSet::new();
        waiting.spawn(async move { client.get("/").await.is_err() });
        while proxy.open() == 0 {
            tokio::task::yield_now().await;
        }
        proxy.cut(1);
        assert!(
            waiting
                .join_next()
                .await
                .is_some_and(|broken| broken.is_ok_and(|broken| broken))
        );
        let again = TcpStream::connect(proxy.address()).await?;
        again.writable().await?;
        Ok(())
    }
}
