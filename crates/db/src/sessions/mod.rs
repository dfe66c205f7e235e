//! Commands on a database that is reached through sessions: transactions, shared transactions, retries, lost
//! sessions.
//!
//! Nothing here knows a driver. A driver implements [`Server`] and [`Session`], and classifies each error as
//! a [`Failure`].

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
    Result,
    tx::{Answer, Stmt},
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
    /// Whether the connection is still open, as far as is known without a round trip.
    fn is_open(&mut self) -> bool;

    /// Sends `begin` and `statements` in one round trip and returns the answer to each statement. `begin`
    /// begins a transaction, or changes settings of the open one. An error means that `begin` or the session
    /// failed.
    fn send(&mut self, begin: Option<&'static str>, statements: &[Stmt<'_>]) -> Sent;

    /// Runs `COMMIT` or `ROLLBACK`.
    fn end(&mut self, sql: &'static str) -> Result<(), Failure>;
}

/// The answers to a batch of statements.
pub(super) type Sent = Result<Vec<Result<Answer, Failure>>, Failure>;

/// State that the threads of one database share.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// Number of open sessions.
    open: AtomicUsize,
    /// Increased when a server turns out to be read-only, or does not answer a commit. Sessions of an earlier
    /// generation are not used again.
    generation: AtomicU64,
}

impl Pool {
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Whether no session was retired so far.
    pub(super) fn is_unchanged(&self) -> bool {
        self.generation() == 0
    }

    /// Retires all sessions that are open now.
    pub(super) fn retire_all(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// Retires the sessions of `generation`: one of them has met a server that commits nothing. Only the
    /// first report of a generation counts.
    fn retire(&self, generation: u64) {
        // Fails if another thread has reported the same fail-over.
        let _retired =
            self.generation
                .compare_exchange(generation, generation + 1, Ordering::SeqCst, Ordering::SeqCst);
    }
}
