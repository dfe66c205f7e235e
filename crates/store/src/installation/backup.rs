//! Copies of a `SQLite` database for backups. The copy is made while another process writes to the database,
//! and is verified before it is renamed to its final path. `PostgreSQL` has its own tools for this.
//!
//! Content is deleted an hour after the last reference to it was removed. Content that a copy refers to is
//! therefore in the storage for at least an hour after the copy was made, even if references were deleted
//! since.

use std::path::Path;

use sortie_api::{BlobId, OrgId, RunId, Sha256};

use crate::{
    Error, Result,
    db::{Row, Tx, copy_sqlite, open_sqlite_copy, row, select, vals},
    files::blobs::UNREFERENCED,
    schema::SCHEMA,
};

/// `SQLite` database that no process writes to. Its methods read the file and block the thread.
pub struct DatabaseCopy(Box<dyn Tx + Send>);

row! {
    /// Content that a database refers to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReferredBlob {
        /// Id of the blob.
        pub id: BlobId = "id",
        /// Organization that owns the content.
        pub org: OrgId = "org_id",
        /// SHA-256 of the content.
        pub sha256: Sha256 = "sha256",
        /// Size of the content in bytes.
        pub size: u64 = "size",
    }
}

/// Object that refers to a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Referrer {
    /// Saved file of this name.
    File(String),
    /// Run that has the content as an artifact.
    Run(RunId),
}

/// Figures of a database that matter for a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Newest migration that was applied.
    pub migration: i64,
    /// Number of runs, of every status.
    pub runs: u64,
    /// Number of runs that wait for a worker.
    pub waiting: u64,
    /// Number of runs that a worker held.
    pub at_work: u64,
    /// Number of runs with content that was only in the memory of a node, and is in no copy.
    pub unretained: u64,
    /// Number of callbacks that are still to be sent, or sent again.
    pub callbacks: u64,
    /// Number of enabled schedules.
    pub schedules: u64,
    /// Number of contents that files and artifacts refer to.
    pub contents: u64,
    /// Size of these contents in bytes, together.
    pub content_bytes: u64,
}

impl DatabaseCopy {
    /// Copies the database at `from`, which a process may be writing to, into the new file `to`. The copy has
    /// the state of one moment, and only this user can read it. Deleted data is not in the copy.
    ///
    /// # Errors `Unavailable` if a file cannot be read or written, or the disk is full; `Database` if the
    /// file is no database.
    pub fn make(from: &Path, to: &Path) -> Result<Self> {
        copy_sqlite(from, to)?;
        Self::open(to)
    }

    /// Opens a copy.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self(open_sqlite_copy(path)?))
    }

    /// Checks that every page, index and reference of the copy is in order, and that this program knows its
    /// migrations.
    ///
    /// # Errors `Corrupt` with the defects found; `Database` if a newer program has written the database.
    pub fn check(&mut self) -> Result<()> {
        SCHEMA.newest(self.0.as_mut())?;
        let found = self.0.query_all("PRAGMA integrity_check(5)", vals![])?;
        let found: Vec<&str> = found.iter().map(Row::only).collect::<Result<_>>()?;
        if found != ["ok"] {
            return Err(Error::Corrupt(found.join("; ")));
        }
        if let Some(row) = self.0.query_opt("PRAGMA foreign_key_check", vals![])? {
            return Err(Error::Corrupt(format!(
                "a row of {} refers to nothing",
                row.only::<&str>()?
            )));
        }
        Ok(())
    }

    /// Returns the sealed text that identifies the master key of the database; `None` if nothing is sealed.
    pub fn seal_check(&mut self) -> Result<Option<Vec<u8>>> {
        let row = self
            .0
            .query_opt("SELECT sealed FROM seal_check WHERE id = 1", vals![])?;
        row.map(|row| row.only()).transpose()
    }

    /// Returns the figures of the database.
    pub fn summary(&mut self) -> Result<Summary> {
        let migration = SCHEMA.newest(self.0.as_mut())?;
        let mut count = |sql| self.0.query_one(sql, vals![])?.only();
        Ok(Summary {
            migration,
            runs: count("SELECT COUNT(*) FROM run")?,
            waiting: count("SELECT COUNT(*) FROM queue WHERE node_id IS NULL")?,
            at_work: count("SELECT COUNT(*) FROM queue WHERE node_id >= 0")?,
            unretained: count("SELECT COUNT(*) FROM unretained u JOIN queue q ON q.run_id = u.run_id")?,
            callbacks: count("SELECT COUNT(*) FROM delivery WHERE due_at >= 0")?,
            schedules: count("SELECT COUNT(*) FROM schedule WHERE enabled = 1")?,
            contents: count(constcat::concat!(
                "SELECT COUNT(*) FROM blob WHERE NOT (",
                UNREFERENCED,
                ")"
            ))?,
            content_bytes: count(constcat::concat!(
                "SELECT COALESCE(SUM(size), 0) FROM blob WHERE NOT (",
                UNREFERENCED,
                ")"
            ))?,
        })
    }

    /// Returns up to `limit` contents that the database refers to, after a row, in the order of their rows.
    pub fn referred_blobs(&mut self, after: Option<BlobId>, limit: u32) -> Result<Vec<ReferredBlob>> {
        let after = after.map_or_else(String::new, |id| id.to_string());
        let tx: &mut dyn Tx = self.0.as_mut();
        tx.read_all(
            select!(
                ReferredBlob,
                " FROM blob WHERE id > $1 AND NOT (",
                UNREFERENCED,
                ") ORDER BY id LIMIT $2"
            ),
            vals![after.as_str(), limit],
        )
    }

    /// Returns up to `limit` saved files and up to `limit` runs that refer to a content: first the files by
    /// name, then the runs.
    pub fn referrers(&mut self, blob: BlobId, limit: u32) -> Result<Vec<Referrer>> {
        let files = self.0.query_all(
            "SELECT name FROM file WHERE blob_id = $1 ORDER BY name LIMIT $2",
            vals![blob, limit],
        )?;
        let runs = self.0.query_all(
            "SELECT run_id FROM artifact_blob WHERE blob_id = $1 ORDER BY run_id LIMIT $2",
            vals![blob, limit],
        )?;
        let files = files.iter().map(|row| row.only().map(Referrer::File));
        files
            .chain(runs.iter().map(|row| row.only().map(Referrer::Run)))
            .collect()
    }
}
