//! Checkpoints of the write-ahead log while commands keep coming.
//!
//! A checkpoint copies the pages of the log into the database and waits for the disk. By default `SQLite` does this in
//! the connection that commits, and every command waits for it: some 20 ms for 4,000 pages, and seconds for a log that
//! has grown to gigabytes during a long read. Here a separate thread copies the log, however long it is. The writing
//! thread only copies the bounded rest that was added during that copy. After that the next commit begins the log anew,
//! and `SQLite` cuts a part off a long file.
//!
//! Only `SQLite` changes the file, under its own locks: another process, such as the `sqlite3` shell, may write to the
//! database as well.

use std::{
    ffi::c_int,
    fs::{self, File},
    io,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle, Thread},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use rusqlite::hooks::Wal;

use super::{Connection, beside};
use crate::{Error, ReadRow, Result, Row, Tx as _, hooks::HookPoints as _, row, spawn, vals};

/// Number of pages in the log at which the thread copies them.
const EARLY: u32 = 3_000;

/// Number of pages in the log from which on the writing thread copies the rest, if that is short.
const FULL: u32 = 4_000;

/// Maximum number of pages that the writing thread copies at once. These take some 20 to 100 ms.
const REST: u32 = 4_000;

/// Part of a log that the writing thread copies at most. The log of a busy node is thereby copied by the thread, as long as
/// that one is as fast as the commits are.
const PART: u32 = 4;

/// Length of the file down to which it is cut, in bytes.
const KEPT: u64 = 32 << 20;

/// Maximum number of bytes that a commit cuts off. The kernel takes some 20 ms to drop them from its cache.
const CUT: u64 = 16 << 20;

/// Length of the file from which on the log restarts more often, so that the file soon shrinks to its usual length.
const LONG: u64 = 64 << 20;

/// Number of pages that replaces [`FULL`] while the file is [`LONG`].
const FULL_OF_LONG: u32 = 1_000;

/// Pause between two cuts while no command comes.
const PAUSE: Duration = Duration::from_millis(10);

/// Time between two looks at a log that others copy or read, while no command comes.
const LOOK: Duration = Duration::from_secs(1);

/// Number of pages to be copied from which on the disk is written during the copy.
const MANY: u32 = 16_000;

/// Pause between two writes to the disk during a copy.
const WRITE: Duration = Duration::from_millis(20);

/// Length of a page in the log with its header. The header of the log itself is shorter.
const LOGGED: u64 = 4_096 + 24;

/// Position of the checkpoint in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    /// Number of pages in the log.
    pages: u32,
    /// Number of these pages that are known to be in the database.
    copied: u32,
    /// Number of restarts of the log.
    restarts: u64,
}

/// Thread that copies the log next.
#[derive(Debug, PartialEq, Eq)]
enum Copier {
    Nobody,
    Thread,
    Writer,
}

impl Progress {
    const fn rest(&self) -> u32 {
        self.pages.saturating_sub(self.copied)
    }

    /// Whether the writing thread may copy the rest.
    const fn is_short(&self) -> bool {
        let part = self.pages / PART;
        let most = if part < FULL / PART { FULL / PART } else { part };
        let most = if most > REST { REST } else { most };
        self.rest() <= most
    }

    /// Returns the thread that copies the log after a commit, if its file has this length.
    const fn copier(&self, file_length: u64) -> Copier {
        let (early, full) = if file_length > LONG {
            (1, FULL_OF_LONG)
        } else {
            (EARLY, FULL)
        };
        if self.pages >= full {
            if self.is_short() {
                Copier::Writer
            } else {
                Copier::Thread
            }
        } else if self.rest() >= early {
            Copier::Thread
        } else {
            Copier::Nobody
        }
    }

    /// Notes the number of pages after a commit.
    fn committed(&mut self, pages: u32) {
        if pages <= self.pages {
            self.copied = 0;
            self.restarts += 1;
        }
        self.pages = pages;
    }

    /// Notes the result of a checkpoint that began at `before`. The result is ignored if the log has restarted since.
    fn copied(&mut self, before: Self, copied: u32) {
        if self.restarts == before.restarts {
            self.copied = self.copied.max(copied);
        }
    }
}

/// Progress that the threads share.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Progress>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock()
    }

    fn get(&self) -> Progress {
        *self.lock()
    }
}

/// The log as the writing thread keeps it. The thread that copies it ends with it.
pub(super) struct Log {
    progress: Shared,
    signal: SyncSender<()>,
    path: PathBuf,
    /// Restarts of the log after which its length was read.
    seen: u64,
    /// Length of the file as it was read.
    length: u64,
    /// Length to which the next restart cuts the file, if the connection that writes knows it.
    limit: Option<u64>,
}

/// Receiver of the signals of a [`Log`].
pub(super) struct Signalled {
    progress: Shared,
    signals: Receiver<()>,
}

/// Returns the log of the database at `path`, and the receiver of its signals.
pub(super) fn log(path: &Path) -> (Log, Signalled) {
    let (signal, signals) = sync_channel(1);
    let progress = Shared::default();
    let log = Log {
        progress: progress.clone(),
        signal,
        path: beside(path, "-wal"),
        seen: 0,
        length: 0,
        limit: None,
    };
    (log, Signalled { progress, signals })
}

impl Log {
    /// Returns the hook of a new connection that writes. It is called after each commit, with the number of pages in the log.
    pub(super) fn hook(&mut self) -> impl FnMut(&mut Wal, c_int) -> rusqlite::Result<()> + Send + use<> {
        self.limit = None;
        let progress = self.progress.clone();
        move |_, pages| {
            progress
                .lock()
                .committed(u32::try_from(pages).unwrap_or_default());
            Ok(())
        }
    }

    /// Copies the log that an earlier process has left. Called before the first command.
    pub(super) fn begin(&mut self, connection: &mut Connection) -> Result<()> {
        let (pages, copied) = connection.copy_log()?.unwrap_or_default();
        *self.progress.lock() = Progress {
            pages,
            copied,
            restarts: 1,
        };
        Ok(())
    }

    /// Called by the writing thread after its commands are answered. Lets the log be copied, and the file be cut.
    pub(super) fn keep(&mut self, connection: &mut Connection) {
        match self.progress.get().copier(self.length) {
            Copier::Nobody => {}
            Copier::Thread => self.signal(),
            Copier::Writer => self.copy_rest(connection),
        }
        if let Err(error) = self.limit(connection) {
            tracing::warn!(%error, "cannot limit the length of the write-ahead log");
        }
    }

    /// Called by the writing thread while no command comes. Returns the time after which it is to be called again, or
    /// `None` if the log is empty. The call takes at most as long as [`keep`](Self::keep), and waits for no reader.
    pub(super) fn tidy(&mut self, connection: &mut Connection) -> Result<Option<Duration>> {
        if !self.progress.get().is_short() {
            self.signal();
            return Ok(Some(LOOK));
        }
        if self.file_length() <= KEPT {
            let is_empty = connection.truncate_log()?;
            if is_empty {
                self.progress.lock().committed(0);
            }
            return Ok((!is_empty).then_some(LOOK));
        }
        self.copy_rest(connection);
        let before = self.progress.get();
        if before.rest() > 0 {
            return Ok(Some(LOOK));
        }
        // A truncating checkpoint would cut off the whole file at once. A commit cuts off only a part.
        self.limit(connection)?;
        connection.script("PRAGMA user_version = 0")?;
        let has_restarted = self.progress.get().restarts != before.restarts;
        Ok(Some(if has_restarted { PAUSE } else { LOOK }))
    }

    /// Wakes the thread that copies the log.
    fn signal(&self) {
        // Fails if the thread knows already.
        let _known = self.signal.try_send(());
    }

    fn copy_rest(&mut self, connection: &mut Connection) {
        let before = self.progress.get();
        // While the thread copies, or readers use the log, a later commit tries again.
        match connection.copy_log() {
            Ok(Some((_, copied))) => {
                self.progress.lock().copied(before, copied);
                let pages = copied.saturating_sub(before.copied);
                connection.hooks.copied_by_writer(pages);
            }
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "WAL checkpoint failed"),
        }
    }

    fn file_length(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// Sets the length to which `SQLite` cuts the file with the commit that restarts the log.
    fn limit(&mut self, connection: &Connection) -> Result<()> {
        let Progress { pages, restarts, .. } = self.progress.get();
        if self.seen != restarts {
            self.seen = restarts;
            self.length = self.file_length();
        }
        let limit = limit_of(self.length.max(end(pages)));
        if self.limit != Some(limit) {
            connection.script(&format!("PRAGMA journal_size_limit = {limit}"))?;
            self.limit = Some(limit);
        }
        Ok(())
    }
}

/// Length to which a file of this length is cut: a multiple of [`CUT`], so that a growing log seldom has another one.
const fn limit_of(length: u64) -> u64 {
    let limit = length.saturating_sub(1) / CUT * CUT;
    if limit > KEPT { limit } else { KEPT }
}

/// Length of a log of so many pages.
fn end(pages: u32) -> u64 {
    LOGGED.saturating_mul(u64::from(pages).saturating_add(1))
}

row! {
    struct CheckpointAnswer {
        busy: bool = "busy",
        log: i64 = "log",
        checkpointed: i64 = "checkpointed",
    }
}

/// Reads the result of a checkpoint: the numbers of pages in the log and in the database. `None` if another checkpoint
/// is running.
pub(super) fn answer(row: &Row) -> Result<Option<(u32, u32)>> {
    let answer = CheckpointAnswer::read(row)?;
    let number = |pages| u32::try_from(pages).unwrap_or_default();
    Ok((!answer.busy).then(|| (number(answer.log), number(answer.checkpointed))))
}

/// Starts the thread that copies the log of the database at `path`, which is also open as `file`.
///
/// `SQLite` does not wait for the disk where commits came during a checkpoint, so the thread does. It cannot open the file for
/// that: closing any descriptor of a file drops all locks that the process holds on it.
pub(super) fn start(path: &Path, file: Arc<File>, signalled: Signalled) -> Result<JoinHandle<()>> {
    let mut connection = Connection::unchanged(path)?;
    spawn("store-checkpoint", move || {
        let Signalled { progress, signals } = signalled;
        while signals.recv().is_ok() {
            // New commits make the log longer during a copy, so one copy may not be enough.
            loop {
                let before = progress.get();
                match copy(&mut connection, &file, before) {
                    Ok(Some(copied)) => progress.lock().copied(before, copied),
                    // A reader keeps the rest.
                    Ok(None) => break,
                    Err(error) => {
                        tracing::error!(%error, "WAL checkpoint failed");
                        break;
                    }
                }
                if progress.get().is_short() {
                    break;
                }
            }
        }
        drop(connection);
        drop(file);
    })
}

/// Copies the log and waits for the disk. Returns the number of pages in the database, or `None` if no further one was copied.
fn copy(connection: &mut Connection, file: &File, before: Progress) -> Result<Option<u32>> {
    let copied = if before.rest() < MANY {
        connection.copy_log()?
    } else {
        copy_and_write(connection, file)?
    };
    let further = copied
        .map(|(_, copied)| copied)
        .filter(|copied| *copied > before.copied);
    if further.is_some() {
        file.sync_data().map_err(|error| not_written(&error))?;
    }
    Ok(further)
}

/// Copies the log while a second thread calls `fsync`. A single `fsync` after the copy would write gigabytes at once, and
/// commits would wait for it for seconds.
fn copy_and_write(connection: &mut Connection, file: &File) -> Result<Option<(u32, u32)>> {
    /// Also ends the writing thread if the copy panics.
    struct Copying<'a>(&'a AtomicBool, Thread);
    impl Drop for Copying<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
            self.1.unpark();
        }
    }
    let is_copied = AtomicBool::new(false);
    thread::scope(|scope| {
        let writes = || {
            while !is_copied.load(Ordering::Acquire) {
                file.sync_data().map_err(|error| not_written(&error))?;
                thread::park_timeout(WRITE);
            }
            Ok(())
        };
        let thread = thread::Builder::new().name("store-write-out".to_owned());
        let Ok(writing) = thread.spawn_scoped(scope, writes) else {
            return connection.copy_log();
        };
        let copying = Copying(&is_copied, writing.thread().clone());
        let copied = connection.copy_log();
        drop(copying);
        // The kernel reports a failed write to one `fsync` only: the one after the copy may still succeed.
        writing.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        copied
    })
}

fn not_written(error: &io::Error) -> Error {
    Error::Unavailable(format!("cannot write the database to the disk: {error}"))
}

impl Connection {
    /// Copies the log as far as readers allow. Returns the numbers of pages in the log and in the database, or `None` if
    /// another connection does the same.
    fn copy_log(&mut self) -> Result<Option<(u32, u32)>> {
        answer(&self.query_one("PRAGMA wal_checkpoint(PASSIVE)", vals![])?)
    }

    /// Copies the log and empties it. Waits for no reader: a backup reads for long, and every writer would wait with this call.
    /// Returns whether the log is empty.
    fn truncate_log(&mut self) -> Result<bool> {
        self.script("PRAGMA busy_timeout = 0")?;
        let truncated = self.query_one("PRAGMA wal_checkpoint(TRUNCATE)", vals![]);
        self.script(super::connection::SETTINGS)?;
        Ok(answer(&truncated?)?.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(pages: u32, copied: u32) -> Progress {
        Progress {
            pages,
            copied,
            restarts: 0,
        }
    }

    #[test]
    fn the_writing_thread_copies_a_short_rest_and_the_other_thread_all_else() {
        for (pages, copied, copier) in [
            (2_999, 0, Copier::Nobody),
            (3_000, 0, Copier::Thread),
            (3_999, 3_000, Copier::Nobody),
            (4_000, 0, Copier::Thread),
            (4_000, 3_000, Copier::Writer),
            (4_000, 2_999, Copier::Thread),
            (16_000, 12_000, Copier::Writer),
            (800_000, 0, Copier::Thread),
            (800_000, 700_000, Copier::Thread),
            (800_000, 800_000 - REST, Copier::Writer),
        ] {
            assert_eq!(at(pages, copied).copier(LONG), copier, "{pages} {copied}");
        }
        // The file of an earlier log is cut whenever the log restarts.
        for (pages, copied, copier) in [
            (10, 10, Copier::Nobody),
            (10, 0, Copier::Thread),
            (1_000, 0, Copier::Writer),
            (800_000, 0, Copier::Thread),
        ] {
            assert_eq!(at(pages, copied).copier(LONG + 1), copier, "{pages} {copied}");
        }
    }

    #[test]
    fn a_long_file_is_cut_in_parts() {
        const MIB: u64 = 1 << 20;
        for (length, limit) in [
            (0, KEPT),
            (32 * MIB, KEPT),
            (40 * MIB, KEPT),
            (48 * MIB, KEPT),
            (48 * MIB + 1, 48 * MIB),
            (3_072 * MIB, 3_056 * MIB),
        ] {
            assert_eq!(limit_of(length), limit, "{length}");
        }
    }

    #[test]
    fn a_checkpoint_says_nothing_of_a_log_that_has_begun_anew_meanwhile() {
        let before = at(5_000, 0);
        let mut progress = before;
        progress.committed(5_100);
        progress.copied(before, 5_000);
        assert_eq!(progress.rest(), 100);
        progress.committed(20);
        progress.copied(before, 5_100);
        assert_eq!(progress.rest(), 20);
    }
}
