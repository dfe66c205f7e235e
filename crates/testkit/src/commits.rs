//! A proxy in front of PostgreSQL that knows where a transaction commits: one chosen `COMMIT` loses its answer, never reaches the
//! server, or is answered late.
//!
//! The proxy reads the message framing of the protocol. From the messages it takes the text of simple queries, the
//! texts of prepared statements, and which of those a transaction uses. Connections are not encrypted.

use std::{collections::HashMap, io, net::SocketAddr, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    task::JoinSet,
};

/// Fault of one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitFault {
    /// The connection is reset before `COMMIT` is passed on: the server rolls back.
    LostBefore,
    /// The server commits, and the connection is reset before its answer is passed on.
    LostAfter,
    /// The server commits, and its answer is passed on this much later.
    Late(Duration),
}

/// Selects a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The n-th from now on, counted from 1, over all connections.
    Nth(u64),
    /// The next one of a transaction that uses a prepared statement with this text.
    With(&'static str),
}

#[derive(Debug, Default)]
struct State {
    armed: Option<(Which, CommitFault)>,
    /// Delay of the answer to every commit.
    delay: Duration,
    commits: u64,
    errors: Vec<String>,
}

/// State that the connections of a proxy share.
#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    state: Mutex<State>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The fault for this commit of a transaction with these statements.
    fn fault_of(&self, statements: &[Arc<str>]) -> Option<CommitFault> {
        let mut state = self.state();
        let late = (!state.delay.is_zero()).then_some(CommitFault::Late(state.delay));
        match state.armed.take() {
            Some((Which::Nth(1), fault)) => Some(fault),
            Some((Which::With(text), fault)) if statements.iter().any(|sql| sql.contains(text)) => {
                Some(fault)
            }
            Some((Which::Nth(nth), fault)) => {
                state.armed = Some((Which::Nth(nth - 1), fault));
                late
            }
            armed @ (Some((Which::With(_), _)) | None) => {
                state.armed = armed;
                late
            }
        }
    }
}

/// A running proxy; dropping it ends it, with its connections.
#[derive(Debug)]
pub struct CommitProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _task: JoinSet<()>,
}

impl CommitProxy {
    /// Starts a proxy in front of the server at `upstream`, on a free port of the loopback address. Every commit passes at first.
    pub async fn start(upstream: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream,
            state: Mutex::default(),
        });
        let mut task = JoinSet::new();
        task.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            _task: task,
        })
    }

    /// Address on which the proxy listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Plans a fault. Replaces one that has not happened yet.
    pub fn fail(&self, which: Which, fault: CommitFault) {
        self.shared.state().armed = Some((which, fault));
    }

    /// Whether a planned fault has not happened yet. Cancels that fault.
    pub fn disarm(&self) -> bool {
        self.shared.state().armed.take().is_some()
    }

    /// Delays the answer to every commit from now on.
    pub fn delay_commits(&self, delay: Duration) {
        self.shared.state().delay = delay;
    }

    /// Errors that the server has sent since the last call, verbatim.
    pub fn take_errors(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.state().errors)
    }

    /// Number of commits that took place on the server since the last call.
    pub fn take_commits(&self) -> u64 {
        std::mem::take(&mut self.shared.state().commits)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            // Broken connections are expected here.
            let _ended = serve(stream, &shared).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Code of a start of the protocol, version 3.
const PROTOCOL_3: u32 = 196_608;
/// Code of a request for TLS.
const TLS: u32 = 80_877_103;
/// Longest message that is carried.
const MOST_BYTES: usize = 1 << 30;

/// Carries one connection until it ends, or its fault resets it.
async fn serve(mut client: TcpStream, shared: &Shared) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut server = TcpStream::connect(shared.upstream).await?;
    server.set_nodelay(true)?;
    loop {
        let body = body(&mut client).await?;
        let code = word(body.get(4..8));
        if code == TLS {
            client.write_all(b"N").await?;
            continue;
        }
        server.write_all(&body).await?;
        if code != PROTOCOL_3 {
            // A request to cancel has no answer.
            return Ok(());
        }
        break;
    }
    let (client_reads, mut client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    let (client_reads, server_reads) = (BufReader::new(client_reads), BufReader::new(server_reads));
    let (tell, faults) = mpsc::unbounded_channel();
    let mut out = Out {
        shared,
        server: server_writes,
        texts: HashMap::new(),
        used: Vec::new(),
        rounds: 0,
        tell,
    };
    let is_lost = tokio::select! {
        ended = out.carry(client_reads) => ended,
        ended = back(shared, server_reads, &mut client_writes, faults) => ended,
    }?;
    if is_lost {
        for half in [client_writes, out.server] {
            // Both sides see a reset instead of an orderly end.
            half.as_ref().set_zero_linger()?;
            half.forget();
        }
    }
    Ok(())
}

/// A round ends with the server's ready-for-query: the number of the round in which a commit is, and its fault.
type Commit = (u64, Option<CommitFault>);

/// From the client to the server.
struct Out<'a> {
    shared: &'a Shared,
    server: OwnedWriteHalf,
    /// Texts of prepared statements by their names.
    texts: HashMap<Vec<u8>, Arc<str>>,
    /// Texts of the statements that the open transaction uses.
    used: Vec<Arc<str>>,
    /// Rounds that the client has begun.
    rounds: u64,
    tell: mpsc::UnboundedSender<Commit>,
}

impl Out<'_> {
    /// Returns true if a commit must not reach the server.
    async fn carry(&mut self, mut client: BufReader<OwnedReadHalf>) -> io::Result<bool> {
        while let Some((kind, message)) = message(&mut client).await? {
            let mut parts = message.get(5..).unwrap_or_default().split(|byte| *byte == 0);
            let (first, second) = (parts.next(), parts.next());
            match kind {
                b'P' => {
                    let text = String::from_utf8_lossy(second.unwrap_or_default()).into();
                    self.texts.insert(first.unwrap_or_default().to_vec(), text);
                }
                // The portal comes first, then the statement.
                b'B' => self
                    .used
                    .extend(second.and_then(|name| self.texts.get(name)).cloned()),
                b'S' => self.rounds += 1,
                b'Q' => {
                    self.rounds += 1;
                    let text = String::from_utf8_lossy(first.unwrap_or_default()).to_uppercase();
                    if text.starts_with("BEGIN") {
                        self.used.clear();
                    }
                    if text.split(';').any(|statement| statement.trim() == "COMMIT") {
                        let fault = self.shared.fault_of(&std::mem::take(&mut self.used));
                        if fault == Some(CommitFault::LostBefore) {
                            return Ok(true);
                        }
                        // The receiver is gone once the connection ends.
                        let _told = self.tell.send((self.rounds, fault));
                    }
                }
                _ => {}
            }
            self.server.write_all(&message).await?;
        }
        self.server.shutdown().await?;
        // Further bytes from the server end the connection.
        std::future::pending().await
    }
}

/// Carries bytes from the server to the client. Returns true if the answer to a commit must not reach the client.
async fn back(
    shared: &Shared,
    mut server: BufReader<OwnedReadHalf>,
    client: &mut OwnedWriteHalf,
    mut faults: mpsc::UnboundedReceiver<Commit>,
) -> io::Result<bool> {
    // The start of a session ends with a first ready-for-query.
    let (mut begun, mut round) = (false, 0);
    let mut next: Option<Commit> = None;
    let mut held = Vec::new();
    while let Some((kind, message)) = message(&mut server).await? {
        if begun && round == 0 {
            round = 1;
        }
        if next.is_none() {
            next = faults.try_recv().ok();
        }
        let commit = next.filter(|(of, _)| begun && *of == round);
        if commit.is_some() && kind == b'C' && message.get(5..).is_some_and(|tag| tag.starts_with(b"COMMIT"))
        {
            shared.state().commits += 1;
        }
        if kind == b'E' {
            let error = String::from_utf8_lossy(&message).into_owned();
            shared.state().errors.push(error);
        }
        held.extend_from_slice(&message);
        if kind == b'Z' {
            if begun {
                round += 1;
            }
            begun = true;
            if let Some((_, fault)) = commit {
                next = None;
                match fault {
                    Some(CommitFault::LostAfter) => return Ok(true),
                    Some(CommitFault::Late(time)) => tokio::time::sleep(time).await,
                    Some(CommitFault::LostBefore) | None => {}
                }
            }
        } else if commit.is_some() {
            continue;
        }
        client.write_all(&held).await?;
        held.clear();
    }
    client.shutdown().await?;
    Ok(false)
}

/// A message including its type byte, and the type; `None` at the end of the stream.
async fn message(from: &mut BufReader<OwnedReadHalf>) -> io::Result<Option<(u8, Vec<u8>)>> {
    let mut kind = [0];
    if from.read(&mut kind).await? == 0 {
        return Ok(None);
    }
    let body = body(from).await?;
    Ok(Some((kind[0], [&kind[..], &body].concat())))
}

/// Reads a length, which includes itself, and then the body.
async fn body(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut body = vec![0; 4];
    from.read_exact(&mut body).await?;
    let length = usize::try_from(word(body.get(..4))).unwrap_or(usize::MAX);
    if !(4..=MOST_BYTES).contains(&length) {
        return Err(io::Error::other("not the protocol of PostgreSQL"));
    }
    body.resize(length, 0);
    from.read_exact(body.get_mut(4..).unwrap_or_default()).await?;
    Ok(body)
}

fn word(bytes: Option<&[u8]>) -> u32 {
    bytes
        .unwrap_or_default()
        .iter()
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}
