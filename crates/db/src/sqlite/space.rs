//! Space on the disk of a database file.
//!
//! A write that fails for want of space marks the disk as full. The mark stays until a trial file was written next to
//! the database. A query or a small write proves nothing: `SQLite` reuses pages of its file and of its log, and both
//! succeed on a disk that has no space for the next run.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::beside;
use crate::{Error, Result};

/// Size of the trial file: as much as one commit writes at most.
const TRIAL: usize = 1 << 20;

/// Space on the disk of a database. Clones share its mark.
#[derive(Clone, Debug)]
pub(crate) struct Space(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    database: PathBuf,
    is_full: AtomicBool,
}

impl Space {
    /// Creates the mark of the disk with this database.
    pub(super) fn of(database: &Path) -> Self {
        Self(Arc::new(Shared {
            database: database.to_owned(),
            is_full: AtomicBool::new(false),
        }))
    }

    /// Marks the disk as full.
    pub(super) fn is_over(&self, cause: &rusqlite::Error) {
        if !self.0.is_full.swap(true, Ordering::SeqCst) {
            let database = self.0.database.display();
            tracing::error!(%database, %cause, "a write to the database failed: no space left on its disk");
        }
    }

    /// Whether the disk is marked as full.
    pub(crate) fn is_full(&self) -> bool {
        self.0.is_full.load(Ordering::SeqCst)
    }

    /// Returns the error of a write on a full disk.
    pub(super) fn error(&self) -> Error {
        no_space(&self.0.database)
    }

    /// Tries whether a full disk has space again. Fails if it has none.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.is_full() {
            return Ok(());
        }
        match try_to_write(&beside(&self.0.database, "-trial")) {
            Ok(()) => {
                self.0.is_full.store(false, Ordering::SeqCst);
                let database = self.0.database.display();
                tracing::info!(%database, "the disk with the database has space again");
                Ok(())
            }
            Err(error) if is_of_space(&error) => Err(self.error()),
            Err(error) => Err(super::failed("write to the disk with", &self.0.database, &error)),
        }
    }

    /// Returns the cause of a failure to open the database: a full disk, if that is the cause. `SQLite` itself reports
    /// an I/O error if it cannot create a file next to the database.
    pub(super) fn cause_of(&self, error: Error) -> Error {
        if self.finds_none() { self.error() } else { error }
    }

    /// Whether a trial file finds no space.
    pub(super) fn finds_none(&self) -> bool {
        try_to_write(&beside(&self.0.database, "-trial")).is_err_and(|error| is_of_space(&error))
    }
}

/// Whether a write found no space: on the disk, or in what a quota leaves of it.
fn is_of_space(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Error of a write to a file on a full disk.
pub(super) fn no_space(path: &Path) -> Error {
    Error::Unavailable(format!("no space left on the disk with {}", path.display()))
}

/// Writes a file that takes up space, and removes it.
fn try_to_write(path: &Path) -> io::Result<()> {
    let write = || {
        let mut file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(&vec![1; TRIAL])?;
        file.sync_all()
    };
    let written = write();
    match fs::remove_file(path) {
        // Another check has removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => written,
        removed => written.and(removed),
    }
}

#[cfg(test)]
mod tests {
    use sortie_testkit::postgres::TestDatabase;

    use super::{
        super::{Connection, checkpoint},
        *,
    };

    #[test]
    fn a_disk_that_had_no_space_counts_as_full_until_a_file_can_be_written() {
        let database = TestDatabase::sqlite().unwrap();
        let path = PathBuf::from(database.url().strip_prefix("sqlite:").unwrap());
        fs::write(&path, "").unwrap();
        let space = Space::of(&path);
        let connection = Connection::writer(&path, &space, &mut checkpoint::log(&path).0).unwrap();
        let insert = "INSERT INTO large VALUES (zeroblob(100000))";
        connection
            .script("CREATE TABLE large (content BLOB); PRAGMA max_page_count = 10")
            .unwrap();
        space.check().unwrap();
        // A folder with the name of the trial file: nothing can be written.
        let trial = beside(&path, "-trial");
        fs::create_dir(&trial).unwrap();
        space.check().unwrap();
        assert_eq!(connection.script(insert), Err(no_space(&path)));
        assert!(space.is_full());
        // A small write and a query succeed, and the disk is as full as before.
        connection.script("INSERT INTO large VALUES (1)").unwrap();
        let told = space.check().unwrap_err().to_string();
        assert!(told.contains(&path.display().to_string()), "{told}");
        fs::remove_dir(&trial).unwrap();
        space.check().unwrap();
        assert!(!space.is_full() && !trial.exists());
    }
}
