//! A proxy as companies run it: HTTP with CONNECT, and SOCKS5, on one port. It resolves no names: every request leads
//! to the peer that the test has named.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::serve::ANY;

/// The head of one request, in bytes.
const HEAD_BYTES: usize = 64 * 1024;

/// State that the connections share.
#[derive(Debug, Default)]
struct Shared {
    /// Peers by `host:port`.
    peers: Mutex<HashMap<String, SocketAddr>>,
    asked: Mutex<Vec<String>>,
    credentials: Option<(String, String)>,
}

/// A running proxy; dropping it ends it.
#[derive(Debug)]
pub struct ForwardProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _task: JoinSet<()>,
}

impl ForwardProxy {
    /// Starts a proxy on a free port.
    pub async fn start() -> io::Result<Self> {
        Self::serving(None).await
    }

    /// Starts a proxy that asks for a user and a password.
    pub async fn start_for(user: &str, password: &str) -> io::Result<Self> {
        Self::serving(Some((user.to_owned(), password.to_owned()))).await
    }

    async fn serving(credentials: Option<(String, String)>) -> io::Result<Self> {
        let listener = TcpListener::bind(ANY).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            credentials,
            ..Shared::default()
        });
        let mut task = JoinSet::new();
        let state = Arc::clone(&shared);
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&state)));
            }
        });
        Ok(Self {
            address,
            shared,
            _task: task,
        })
    }

    /// Leads requests for `target`, a host and a port, to a peer.
    #[must_use]
    pub fn leading(self, target: &str, peer: SocketAddr) -> Self {
        let mut peers = self.shared.peers.lock();
        peers.insert(target.to_owned(), peer);
        drop(peers);
        self
    }

    /// Returns the address of the proxy.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the first request of each connection: `CONNECT host:port`, `GET http://host/path`, `SOCKS host:port`.
    pub fn asked(&self) -> Vec<String> {
        let asked = self.shared.asked.lock();
        asked.clone()
    }
}

impl Shared {
    fn record(&self, asked: String) {
        let mut all = self.asked.lock();
        all.push(asked);
    }

    async fn connect(&self, target: &str) -> io::Result<TcpStream> {
        let peer = {
            let peers = self.peers.lock();
            peers.get(target).copied()
        };
        TcpStream::connect(peer.ok_or(io::ErrorKind::HostUnreachable)?).await
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) -> io::Result<()> {
    let mut first = [0];
    stream.read_exact(&mut first).await?;
    if first == [5] {
        socks(stream, &shared).await
    } else {
        http(stream, first[0], &shared).await
    }
}

async fn http(mut stream: TcpStream, first: u8, shared: &Shared) -> io::Result<()> {
    let mut head = vec![first];
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_BYTES {
        head.push(stream.read_u8().await?);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let mut words = text.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    shared.record(format!("{method} {target}"));
    let is_known = shared.credentials.as_ref().is_none_or(|(user, password)| {
        let pair = BASE64_STANDARD.encode(format!("{user}:{password}"));
        let wanted = format!("proxy-authorization: basic {pair}").to_lowercase();
        text.lines().any(|line| line.to_lowercase() == wanted)
    });
    if !is_known {
        let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";
        return stream.write_all(refusal).await;
    }
    let authority = match target.strip_prefix("http://") {
        Some(rest) => match rest.split('/').next().unwrap_or_default() {
            authority if authority.contains(':') => authority.to_owned(),
            authority => format!("{authority}:80"),
        },
        None => target.to_owned(),
    };
    let Ok(mut peer) = shared.connect(&authority).await else {
        let refusal = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n";
        return stream.write_all(refusal).await;
    };
    if method == "CONNECT" {
        stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await?;
    } else {
        peer.write_all(&head).await?;
    }
    copy_bidirectional(&mut stream, &mut peer).await.map(drop)
}

async fn socks(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let methods = usize::from(stream.read_u8().await?);
    stream.read_exact(&mut vec![0; methods]).await?;
    if let Some((user, password)) = &shared.credentials {
        stream.write_all(&[5, 2]).await?;
        stream.read_u8().await?;
        let mut given = Vec::new();
        for _ in 0..2 {
            let mut text = vec![0; usize::from(stream.read_u8().await?)];
            stream.read_exact(&mut text).await?;
            given.push(text);
        }
        let is_known = given == [user.as_bytes(), password.as_bytes()];
        stream.write_all(&[1, u8::from(!is_known)]).await?;
        if !is_known {
            return Ok(());
        }
    } else {
        stream.write_all(&[5, 0]).await?;
    }
    let mut request = [0; 4];
    stream.read_exact(&mut request).await?;
    let host = match request[3] {
        1 => Ipv4Addr::from_bits(stream.read_u32().await?).to_string(),
        4 => format!("[{}]", Ipv6Addr::from_bits(stream.read_u128().await?)),
        _ => {
            let mut name = vec![0; usize::from(stream.read_u8().await?)];
            stream.read_exact(&mut name).await?;
            String::from_utf8_lossy(&name).into_owned()
        }
    };
    let target = format!("{host}:{}", stream.read_u16().await?);
    shared.record(format!("SOCKS {target}"));
    let peer = shared.connect(&target).await;
    let status = if peer.is_ok() { 0 } else { 4 };
    stream.write_all(&[5, status, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    copy_bidirectional(&mut stream, &mut peer?).await.map(drop)
}
