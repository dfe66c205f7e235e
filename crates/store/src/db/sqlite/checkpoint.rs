//! Checkpoints of the write-ahead log while commands keep coming.
//!
//! A checkpoint copies the pages of the log into the database and waits for the disk, some 20 ms for a full log. By itself
//! `SQLite` lets the connection that commits do that, and every command waits for it. Here a thread of its own copies most of
//! the log before it is full. The writing thread only copies what was added meanwhile, after which the log begins anew.

use std::{
    ffi::c_int,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle, Thread},
};

use rusqlite::hooks::Wal;

use super::Connection;
use crate::{db::spawn, types::Result};

/// Number of pages in the log at which the thread copies them.
const EARLY: c_int = 3_000;

/// Number of pages in the log from which on the writing thread copies the rest.
const FULL: c_int = 4_000;

/// Wakes the thread of the [`Checkpointer`], once there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct Bell(Arc<OnceLock<Thread>>);

impl Bell {
    /// Returns what the writing thread does after each commit, with the number of pages in the log.
    pub(super) fn after_commit(self) -> impl FnMut(&mut Wal, c_int) -> rusqlite::Result<()> + Send {
        let mut before = 0;
        move |log, pages| {
            if before < EARLY
                && pages >= EARLY
                && let Some(thread) = self.0.get()
            {
                thread.unpark();
            }
            before = pages;
            if pages >= FULL {
                // What it leaves, because the thread is at work or for a failure, the next commit copies.
                let _left = log.checkpoint();
            }
            Ok(())
        }
    }
}

/// Thread that copies pages of the log when the [`Bell`] rings.
pub(super) struct Checkpointer {
    thread: JoinHandle<()>,
    is_over: Arc<AtomicBool>,
}

impl Checkpointer {
    /// Starts the thread on the database at `path`.
    pub(super) fn start(path: &Path, bell: &Bell) -> Result<Self> {
        let connection = Connection::unchanged(path)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let thread = spawn("store-checkpoint", move || {
            loop {
                thread::park();
                if told.load(Ordering::SeqCst) {
                    return;
                }
                if let Err(error) = connection.script("PRAGMA wal_checkpoint(PASSIVE)") {
                    tracing::warn!(%error, "WAL checkpoint failed");
                }
            }
        })?;
        let _is_first = bell.0.set(thread.thread().clone());
        Ok(Self { thread, is_over })
    }

    /// Ends the thread and closes its connection.
    pub(super) fn end(self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            tracing::error!("the thread of the WAL checkpoint panicked");
        }
    }
}
