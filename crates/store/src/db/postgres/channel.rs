//! The channel between nodes: one connection that listens, and says what this node has to tell, as `NOTIFY`.
//!
//! `NOTIFY` takes a lock of the whole database at its commit, so it is never part of a writing transaction: it goes out
//! on this connection alone, which waits for no disk. Nothing that is said here is kept: while the connection is away
//! what others say is missed, and whoever listens is told so once it stands again.

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
    channel::{Heard, Said},
    db::spawn,
    types::{Error, Result},
};

/// Settings of the session: what is said is a hint, which waits for no disk.
const SETTINGS: &str = "SET synchronous_commit = off; SET statement_timeout = '5s'";

/// From here on the connection hears what nodes say, itself included.
const LISTEN: &str = "LISTEN sortie_hints";

/// Says something to all who listen.
const NOTIFY: &str = "SELECT pg_notify('sortie_hints', $1)";

/// The number by which the server tells who has said something.
const WHO: &str = "SELECT pg_backend_pid()";

/// Asks whether the server still accepts writes. After a fail-over the others listen on another server.
const WRITES: &str = "SHOW transaction_read_only";

/// How often a silent connection is tried: one whose server has vanished would stay silent for ever.
const PROBE: Duration = Duration::from_secs(5);

/// How long an answer of the server may take.
const ANSWER: Duration = Duration::from_secs(5);

/// Pause before the first try to connect again, and the longest one: it doubles.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What waits to be heard, and to be said.
const HEARD: usize = 1_024;
const SAID: usize = 16;

/// Both ends, as the store hands them out.
pub(crate) struct Ends {
    pub(crate) say: mpsc::Sender<Said>,
    pub(crate) heard: mpsc::Receiver<Heard>,
    /// Ends once `say` is dropped.
    pub(crate) thread: JoinHandle<()>,
}

/// Opens the channel: it connects by itself, again and again.
pub(crate) fn open(link: Link) -> Result<Ends> {
    let runtime = connect::runtime()?;
    let (say, said) = mpsc::channel(SAID);
    let (sender, heard) = mpsc::channel(HEARD);
    let ears = Ears {
        sender,
        missed: Arc::new(AtomicBool::new(false)),
        own: Arc::new(AtomicI32::new(0)),
    };
    let thread = spawn("store-channel", move || keep(&runtime, &link, said, &ears))?;
    Ok(Ends { say, heard, thread })
}

/// Where what is heard goes.
#[derive(Clone)]
pub(super) struct Ears {
    sender: mpsc::Sender<Heard>,
    /// Something did not fit and is lost, and nobody was told so yet. It outlives the connection.
    missed: Arc<AtomicBool>,
    /// Who this connection is to the server.
    own: Arc<AtomicI32>,
}

impl Ears {
    /// Takes what the server sends until the connection ends.
    pub(super) async fn listen<T: TlsStream + Unpin>(self, mut connection: Connection<Socket, T>) {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            match message {
                Ok(AsyncMessage::Notification(said)) => {
                    // A node knows what it has said itself.
                    if said.process_id() != self.own.load(Ordering::Relaxed) {
                        self.hear(said.payload());
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(error = %describe(&error), "the connection that listens ended");
                    return;
                }
            }
        }
    }

    /// Never waits: the answers to what is said come on the same connection.
    fn hear(&self, text: &str) {
        if self.missed.load(Ordering::Relaxed) {
            self.tell_gap();
        }
        if self.sender.try_send(Heard::Text(text.to_owned())).is_err() {
            self.missed.store(true, Ordering::Relaxed);
        }
    }

    /// Says that something was missed: now, or where it does not fit, with what is heard next.
    fn tell_gap(&self) {
        let is_told = self.sender.try_send(Heard::Gap).is_ok();
        self.missed.store(!is_told, Ordering::Relaxed);
    }
}

/// The life of the thread.
fn keep(runtime: &Runtime, link: &Link, mut said: mpsc::Receiver<Said>, ears: &Ears) {
    runtime.block_on(async {
        let mut pause = PAUSE;
        loop {
            let connected = tokio::select! {
                connected = connect(runtime, link, ears) => connected,
                () = refuse(&mut said) => return,
            };
            match connected {
                Ok((session, notify)) => {
                    pause = PAUSE;
                    match session.serve(&notify, &mut said, ears).await {
                        Ended::Wanted => return,
                        // Sessions for commands set themselves whether they write: this one has the server's own setting.
                        Ended::ReadOnly => link.pool().retire_all(),
                        Ended::Lost => {}
                    }
                    tracing::warn!("the connection for hints between nodes was lost");
                }
                Err(error) => tracing::warn!(%error, "there is no connection for hints between nodes"),
            }
            tokio::select! {
                () = tokio::time::sleep(pause + jitter(pause)) => {}
                () = refuse(&mut said) => return,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    });
}

/// A connection that listens, and the statement that says something on it.
async fn connect(runtime: &Runtime, link: &Link, ears: &Ears) -> Result<(Line, Statement)> {
    let session = link.listening(runtime, ears).await?;
    match timeout(ANSWER, session.begin(ears)).await {
        Ok(Ok(notify)) => Ok((session, notify)),
        Ok(Err(error)) => Err(Error::Unavailable(describe(&error))),
        Err(elapsed) => Err(Error::Unavailable(elapsed.to_string())),
    }
}

/// Up to half as long again, so that nodes do not come back together.
fn jitter(pause: Duration) -> Duration {
    let half = u64::try_from(pause.as_micros() / 2).unwrap_or(u64::MAX).max(1);
    Duration::from_micros(RandomState::new().hash_one(half) % half)
}

/// Refuses what is said while there is no connection; returns when nobody will say anything more.
async fn refuse(said: &mut mpsc::Receiver<Said>) {
    while let Some(said) = said.recv().await {
        said.answer(Err(away()));
    }
}

fn away() -> Error {
    Error::Unavailable("there is no connection for hints between nodes".to_owned())
}

/// Why a connection is served no longer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Nobody will say anything more.
    Wanted,
    /// The server accepts no writes any more.
    ReadOnly,
    Lost,
}

/// A connection that is to listen.
pub(super) struct Line {
    client: Client,
    /// Ends with the connection.
    driver: tokio::task::JoinHandle<()>,
}

impl Line {
    pub(super) fn new(client: Client, driver: tokio::task::JoinHandle<()>) -> Self {
        Self { client, driver }
    }

    /// Says what there is to say until the connection is lost or nobody will say anything more.
    async fn serve(mut self, notify: &Statement, said: &mut mpsc::Receiver<Said>, ears: &Ears) -> Ended {
        // What was said before is missed.
        ears.tell_gap();
        let mut probe = tokio::time::interval(PROBE);
        probe.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let stands = tokio::select! {
                next = said.recv() => {
                    let Some(next) = next else { return Ended::Wanted };
                    let done = timeout(ANSWER, self.client.execute(notify, &[&next.text])).await;
                    let is_said = matches!(done, Ok(Ok(_)));
                    next.answer(if is_said { Ok(()) } else { Err(away()) });
                    is_said
                }
                _ = probe.tick() => {
                    match timeout(ANSWER, self.client.simple_query(WRITES)).await {
                        Ok(Ok(answer)) if accepts_writes(&answer) => true,
                        Ok(Ok(_)) => return Ended::ReadOnly,
                        Ok(Err(_)) | Err(_) => false,
                    }
                }
                _ended = &mut self.driver => false,
            };
            if !stands {
                return Ended::Lost;
            }
        }
    }

    /// Begins to listen; the statement that says something.
    async fn begin(&self, ears: &Ears) -> std::result::Result<Statement, tokio_postgres::Error> {
        self.client.batch_execute(SETTINGS).await?;
        let who = self.client.query_one(WHO, &[]).await?;
        ears.own.store(who.try_get(0)?, Ordering::Relaxed);
        let notify = self.client.prepare(NOTIFY).await?;
        self.client.batch_execute(LISTEN).await?;
        Ok(notify)
    }
}

/// The answer to [`WRITES`].
fn accepts_writes(answer: &[SimpleQueryMessage]) -> bool {
    answer
        .iter()
        .any(|message| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("off")))
}

impl Drop for Line {
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
        let ears = Ears {
            sender,
            missed: Arc::default(),
            own: Arc::default(),
        };
        let mut next = || heard.try_recv().ok();
        let text = |text: &str| Some(Heard::Text(text.to_owned()));
        let first = ears.clone();
        for said in ["a", "b", "lost"] {
            first.hear(said);
        }
        drop(first);
        let second = ears.clone();
        assert_eq!([next(), next(), next()], [text("a"), text("b"), None]);
        second.hear("c");
        assert_eq!([next(), next(), next()], [Some(Heard::Gap), text("c"), None]);
        // A new connection tells of its own gap, and has no room for it.
        second.hear("d");
        second.hear("e");
        ears.tell_gap();
        assert_eq!([next(), next(), next()], [text("d"), text("e"), None]);
        ears.hear("f");
        assert_eq!([next(), next(), next()], [Some(Heard::Gap), text("f"), None]);
    }
}
