//! Channel between nodes on `PostgreSQL`: one connection that listens for hints and sends those of this node
//! with `NOTIFY`.
//!
//! `NOTIFY` takes a lock of the whole database at its commit, so it is never part of a writing transaction. It is sent
//! on this connection alone, whose commits do not wait for the disk. Hints are not stored: while the connection is
//! away, hints of other nodes are lost. The node learns of the gap once the connection is open again.

use std::{
    future::poll_fn,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use tokio::{
    runtime::Runtime,
    sync::mpsc,
    time::{MissedTickBehavior, timeout},
};
use tokio_postgres::{
    AsyncMessage, Client, Connection, SimpleQueryMessage, Socket, Statement, tls::TlsStream,
};

use super::connect::{self, Link, describe};
use crate::{
    Error, Result,
    channel::{ChannelMessage, OutgoingHint},
    spawn,
};

/// Settings of the session. A hint need not be durable, so its commit does not wait for the disk.
const SETTINGS: &str = "SET synchronous_commit = off; SET statement_timeout = '5s'";

/// Subscribes the connection to the hints of all nodes, including its own.
const LISTEN: &str = "LISTEN sortie_hints";

/// Sends a hint to all that listen.
const NOTIFY: &str = "SELECT pg_notify('sortie_hints', $1)";

/// Asks for the process id by which the server names the sender of a hint.
const WHO: &str = "SELECT pg_backend_pid()";

/// Asks whether the server still accepts writes. After a fail-over the other nodes listen on another server.
const WRITES: &str = "SHOW transaction_read_only";

/// Interval between probes. Without them, the node would never notice that the server has vanished.
const PROBE: Duration = Duration::from_secs(5);

/// Time limit for an answer of the server.
const ANSWER: Duration = Duration::from_secs(5);

/// Pause before the first try to connect again. It doubles with each failure.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest pause before a try to connect again.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Capacity of the queue of received hints.
const INCOMING: usize = 1_024;
/// Capacity of the queue of hints to send.
const OUTGOING: usize = 16;

/// Ends of the channel that the store uses.
pub(crate) struct Ends {
    pub(crate) say: mpsc::Sender<OutgoingHint>,
    pub(crate) heard: mpsc::Receiver<ChannelMessage>,
    /// Thread of the channel. It ends once `say` is dropped.
    pub(crate) thread: JoinHandle<()>,
}

/// Opens the channel. Its thread connects, and connects again whenever the connection is lost.
pub(crate) fn open(link: Link) -> Result<Ends> {
    let runtime = connect::runtime()?;
    let (say, said) = mpsc::channel(OUTGOING);
    let (sender, heard) = mpsc::channel(INCOMING);
    let listener = Listener {
        sender,
        missed: Arc::new(AtomicBool::new(false)),
        own: Arc::new(AtomicI32::new(0)),
    };
    let thread = spawn("store-channel", move || keep(&runtime, &link, said, &listener))?;
    Ok(Ends { say, heard, thread })
}

/// Passes received hints on to the node.
#[derive(Clone)]
pub(super) struct Listener {
    sender: mpsc::Sender<ChannelMessage>,
    /// Whether a hint was lost and the node has not been notified yet. The flag outlives the connection.
    missed: Arc<AtomicBool>,
    /// Process id of this connection on the server.
    own: Arc<AtomicI32>,
}

impl Listener {
    /// Handles messages of the server until the connection ends.
    pub(super) async fn listen<T: TlsStream + Unpin>(self, mut connection: Connection<Socket, T>) {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            match message {
                Ok(AsyncMessage::Notification(said)) => {
                    // A node ignores its own hints.
                    if said.process_id() != self.own.load(Ordering::Relaxed) {
                        self.hear(said.payload());
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(error = %describe(&error), "the listening connection ended");
                    return;
                }
            }
        }
    }

    /// Passes a hint on, or drops it if the queue is full. It never waits: the answers to sent hints come on
    /// the same connection.
    fn hear(&self, text: &str) {
        if self.missed.load(Ordering::Relaxed) {
            self.tell_gap();
        }
        if self
            .sender
            .try_send(ChannelMessage::Text(text.to_owned()))
            .is_err()
        {
            self.missed.store(true, Ordering::Relaxed);
        }
    }

    /// Reports a gap now. If the queue is full, the gap is reported with the next hint.
    fn tell_gap(&self) {
        let is_told = self.sender.try_send(ChannelMessage::Gap).is_ok();
        self.missed.store(!is_told, Ordering::Relaxed);
    }
}

/// Main loop of the thread.
fn keep(runtime: &Runtime, link: &Link, mut said: mpsc::Receiver<OutgoingHint>, listener: &Listener) {
    runtime.block_on(async {
        let mut pause = PAUSE;
        loop {
            let connected = tokio::select! {
                connected = connect(runtime, link, listener) => connected,
                () = refuse(&mut said) => return,
            };
            match connected {
                Ok((session, notify)) => {
                    pause = PAUSE;
                    match session.serve(&notify, &mut said, listener).await {
                        EndOfService::Closed => return,
                        // Sessions for commands choose their own read-only mode. This one shows the mode of
                        // the server.
                        EndOfService::ReadOnly => link.pool().retire_all(),
                        EndOfService::Lost => {}
                    }
                    tracing::warn!("lost the connection for hints between nodes");
                }
                Err(error) => tracing::warn!(%error, "cannot connect for hints between nodes"),
            }
            tokio::select! {
                () = tokio::time::sleep(pause + jitter(pause)) => {}
                () = refuse(&mut said) => return,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    });
}

/// Opens a connection that listens. Returns it with the statement that sends a hint.
async fn connect(runtime: &Runtime, link: &Link, listener: &Listener) -> Result<(HintConnection, Statement)> {
    let session = link.listening(runtime, listener).await?;
    match timeout(ANSWER, session.begin(listener)).await {
        Ok(Ok(notify)) => Ok((session, notify)),
        Ok(Err(error)) => Err(Error::Unavailable(describe(&error))),
        Err(elapsed) => Err(Error::Unavailable(elapsed.to_string())),
    }
}

/// Random extra pause of at most half of `pause`, so that nodes do not connect again together.
fn jitter(pause: Duration) -> Duration {
    let half = u64::try_from(pause.as_micros() / 2).unwrap_or(u64::MAX).max(1);
    Duration::from_micros(RandomState::new().hash_one(half) % half)
}

/// Refuses hints while there is no connection. Returns when the channel is closed.
async fn refuse(said: &mut mpsc::Receiver<OutgoingHint>) {
    while let Some(said) = said.recv().await {
        said.answer(Err(away()));
    }
}

fn away() -> Error {
    Error::Unavailable("no connection for hints between nodes".to_owned())
}

/// Reason to end a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndOfService {
    /// The channel is closed.
    Closed,
    /// The server has stopped accepting writes.
    ReadOnly,
    Lost,
}

/// Connection for listening and for sending hints.
pub(super) struct HintConnection {
    client: Client,
    /// Task that drives the connection. It ends with the connection.
    driver: tokio::task::JoinHandle<()>,
}

impl HintConnection {
    pub(super) fn new(client: Client, driver: tokio::task::JoinHandle<()>) -> Self {
        Self { client, driver }
    }

    /// Sends hints until the connection is lost or the channel is closed.
    async fn serve(
        mut self,
        notify: &Statement,
        said: &mut mpsc::Receiver<OutgoingHint>,
        listener: &Listener,
    ) -> EndOfService {
        // Hints that were sent before are missed.
        listener.tell_gap();
        let mut probe = tokio::time::interval(PROBE);
        probe.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let stands = tokio::select! {
                next = said.recv() => {
                    let Some(next) = next else { return EndOfService::Closed };
                    let done = timeout(ANSWER, self.client.execute(notify, &[&next.text])).await;
                    let is_said = matches!(done, Ok(Ok(_)));
                    next.answer(if is_said { Ok(()) } else { Err(away()) });
                    is_said
                }
                _ = probe.tick() => {
                    match timeout(ANSWER, self.client.simple_query(WRITES)).await {
                        Ok(Ok(answer)) if accepts_writes(&answer) => true,
                        Ok(Ok(_)) => return EndOfService::ReadOnly,
                        Ok(Err(_)) | Err(_) => false,
                    }
                }
                _ended = &mut self.driver => false,
            };
            if !stands {
                return EndOfService::Lost;
            }
        }
    }

    /// Begins to listen. Returns the statement that sends a hint.
    async fn begin(&self, listener: &Listener) -> std::result::Result<Statement, tokio_postgres::Error> {
        self.client.batch_execute(SETTINGS).await?;
        let who = self.client.query_one(WHO, &[]).await?;
        listener.own.store(who.try_get(0)?, Ordering::Relaxed);
        let notify = self.client.prepare(NOTIFY).await?;
        self.client.batch_execute(LISTEN).await?;
        Ok(notify)
    }
}

/// Whether an answer to [`WRITES`] says that the server accepts writes.
fn accepts_writes(answer: &[SimpleQueryMessage]) -> bool {
    answer
        .iter()
        .any(|message| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("off")))
}

impl Drop for HintConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_fit_is_told_though_the_connection_was_lost_meanwhile() {
        let (sender, mut heard) = mpsc::channel(2);
        let listener = Listener {
            sender,
            missed: Arc::default(),
            own: Arc::default(),
        };
        let mut next = || heard.try_recv().ok();
        let text = |text: &str| Some(ChannelMessage::Text(text.to_owned()));
        let first = listener.clone();
        for said in ["a", "b", "lost"] {
            first.hear(said);
        }
        drop(first);
        let second = listener.clone();
        assert_eq!([next(), next(), next()], [text("a"), text("b"), None]);
        second.hear("c");
        assert_eq!(
            [next(), next(), next()],
            [Some(ChannelMessage::Gap), text("c"), None]
        );
        // A new connection reports its own gap, and the queue is full.
        second.hear("d");
        second.hear("e");
        listener.tell_gap();
        assert_eq!([next(), next(), next()], [text("d"), text("e"), None]);
        listener.hear("f");
        assert_eq!(
            [next(), next(), next()],
            [Some(ChannelMessage::Gap), text("f"), None]
        );
    }
}
