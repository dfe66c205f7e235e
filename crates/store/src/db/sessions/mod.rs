//! Commands on a database that is reached through sessions: transactions, shared transactions, retries, lost sessions.
//!
//! Nothing here knows a driver. A driver implements [`Server`] and [`Session`] and says of each error what it means for
//! the session and for another try ([`Failure`]).

mod failure;
mod pipeline;
#[cfg(test)]
mod tests;
mod worker;

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

pub(super) use self::{
    failure::{Failure, FailureKind, error_of, read_only},
    pipeline::Pipeline,
    worker::Worker,
};
use crate::{
    db::tx::{Answer, Stmt},
    types::Result,
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

    /// Sends `begin` and `statements` in one round trip and returns the answer to each statement. `begin` begins a transaction,
    /// or changes settings of the open one. An error is the failure of `begin`, or of the session.
    fn send(&mut self, begin: Option<&'static str>, statements: &[Stmt<'_>]) -> Sent;

    /// Runs `COMMIT` or `ROLLBACK`.
    fn end(&mut self, sql: &'static str) -> std::result::Result<(), Failure>;
}

/// The answers to a batch of statements.
pub(super) type Sent = std::result::Result<Vec<std::result::Result<Answer, Failure>>, Failure>;

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
