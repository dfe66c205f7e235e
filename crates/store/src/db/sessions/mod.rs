//! Commands on a database that is reached through sessions: transactions, shared transactions, retries, lost sessions.
//!
//! Nothing here knows a driver. A driver implements [`Server`] and [`Session`] and says of each error what it means for
//! the session and for another try ([`Failure`]).

mod pipeline;
#[cfg(test)]
mod tests;
mod worker;

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

pub(super) use self::{pipeline::Pipeline, worker::Worker};
use crate::{
    db::tx::{Answer, Stmt},
    types::{Error, Result},
};

/// A database server.
pub(super) trait Server {
    type Session: Session;

    /// Opens a session that is ready for commands and may write.
    fn connect(&mut self) -> Result<Self::Session>;

    /// Waits before a command is run again.
    fn pause(&mut self, time: Duration);
}

/// A connection to a database server.
pub(super) trait Session {
    /// Whether the connection still stands, as far as is known without a round trip.
    fn is_open(&mut self) -> bool;

    /// Sends `begin` and `statements` in one round trip and returns the answer to each statement. An error is the failure
    /// of `begin`, or of the session.
    fn send(&mut self, begin: Option<&'static str>, statements: &[Stmt<'_>]) -> Sent;

    /// Runs `COMMIT` or `ROLLBACK`.
    fn end(&mut self, sql: &'static str) -> std::result::Result<(), Failure>;
}

/// The answers to a batch of statements.
pub(super) type Sent = std::result::Result<Vec<std::result::Result<Answer, Failure>>, Failure>;

/// A failure of the database, with its meaning for the session and for another try.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) error: Error,
    pub(super) kind: FailureKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// The statement is refused. Another try would fail as well.
    Refused,
    /// The transaction did not take place, and another try may succeed: a deadlock, a serialization failure.
    Retry,
    /// The transaction did not take place, and the session can take no other: its transaction was ended, its prepared
    /// statements are gone.
    Unusable,
    /// The transaction did not take place, because the server accepts no writes: after a fail-over it is a standby.
    /// Every session that is as old as this one may be connected to that server.
    ReadOnly,
    /// The session is gone. Whether a commit under way took place is unknown.
    Disconnected,
}

impl Failure {
    /// The server does not answer.
    pub(super) fn silent() -> Self {
        Self {
            error: Error::Unavailable("the database does not answer".to_owned()),
            kind: FailureKind::Disconnected,
        }
    }

    /// Whether another try may succeed.
    fn may_pass(&self) -> bool {
        self.kind != FailureKind::Refused
    }

    /// Whether the session can be used after a rollback.
    fn keeps_session(&self) -> bool {
        matches!(self.kind, FailureKind::Refused | FailureKind::Retry)
    }
}

/// State that the threads of one database share.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// Sessions that are open.
    open: AtomicUsize,
    /// Increased when a server is found to be read-only, or does not answer a commit: sessions of an earlier generation are not
    /// used again.
    generation: AtomicU64,
}

impl Pool {
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// No session that is open now is used again.
    pub(super) fn retire_all(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// A session of `generation` has met a server that commits nothing. The first report of a generation retires it.
    fn retire(&self, generation: u64) {
        // Fails where another thread has reported the same fail-over.
        let _retired =
            self.generation
                .compare_exchange(generation, generation + 1, Ordering::SeqCst, Ordering::SeqCst);
    }
}
