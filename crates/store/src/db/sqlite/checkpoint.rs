//! Checkpoints of the write-ahead log while commands keep coming.
//!
//! A checkpoint copies the pages of the log into the database and waits for the disk, some 20 ms for a full log. By itself
//! `SQLite` lets the connection that commits do that, and every command waits for it. Here a thread of its own copies most of
//! the log before it is full. The writing thread only copies what was added meanwhile, after which the log begins anew.

use std::{
    ffi::c_int,
    fs::File,
    path::Path,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

use rusqlite::{ErrorCode, hooks::Wal};

use super::Connection;
use crate::{db::spawn, types::Result};

/// Number of pages in the log at which the thread copies them.
const EARLY: c_int = 3_000;

/// Number of pages in the log from which on the writing thread copies the rest.
const FULL: c_int = 4_000;

/// Tells the thread that the log has [`EARLY`] pages. The thread ends with the last sender.
#[derive(Clone)]
pub(super) struct Signal(SyncSender<()>);

/// Receiver of a [`Signal`].
pub(super) struct Signalled(Receiver<()>);

/// Returns both ends of a signal.
pub(super) fn signal() -> (Signal, Signalled) {
    let (sender, receiver) = sync_channel(1);
    (Signal(sender), Signalled(receiver))
}

impl Signal {
    /// Returns the hook of the connection that writes. It is called after each commit, with the number of pages in the log.
    pub(super) fn hook(self) -> impl FnMut(&mut Wal, c_int) -> rusqlite::Result<()> + Send {
        let mut before = 0;
        move |log, pages| {
            if before < EARLY && pages >= EARLY {
                // Fails if the thread knows already.
                let _known = self.0.try_send(());
            }
            before = pages;
            if pages >= FULL
                && let Err(error) = log.checkpoint()
                && error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy)
            {
                // The commit took place all the same. The next one tries again.
                tracing::error!(%error, "WAL checkpoint failed");
            }
            Ok(())
        }
    }
}

/// Starts the thread on the database at `path`, which is also open as `file`.
///
/// `SQLite` does not wait for the disk where commits came during a checkpoint, so the thread does. It cannot open the file for
/// that: closing any descriptor of a file drops all locks that the process holds on it.
pub(super) fn start(path: &Path, file: Arc<File>, signalled: Signalled) -> Result<JoinHandle<()>> {
    let connection = Connection::unchanged(path)?;
    spawn("store-checkpoint", move || {
        while signalled.0.recv().is_ok() {
            if let Err(error) = connection.script("PRAGMA wal_checkpoint(PASSIVE)") {
                tracing::error!(%error, "WAL checkpoint failed");
            } else if let Err(error) = file.sync_data() {
                tracing::error!(%error, "cannot write the database to the disk");
            }
        }
        drop(connection);
        drop(file);
    })
}
