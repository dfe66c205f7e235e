//! Copies of a `SQLite` database for backups: made beside the process that writes to it, read before they are put in
//! place. `PostgreSQL` has tools of its own for this.
//!
//! Content that a copy refers to is in the storage for as long as a sweep leaves it: an hour after the last reference to it
//! went, and so an hour after the copy was made, whatever was deleted since.

use std::path::Path;

use sortie_api::{BlobId, OrgId, RunId, Sha256};

use crate::{
    blobs::{sha256, unreferenced},
    db::{Row, Tx, copy_sqlite, newest_migration, open_sqlite_copy, vals},
    types::{Error, Result},
};

/// A `SQLite` database that nobody writes to. Its methods read the file and block meanwhile.
pub struct DatabaseCopy(Box<dyn Tx + Send>);

/// Content that a database refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferredBlob {
    /// Its row.
    pub id: BlobId,
    /// Whose it is.
    pub org: OrgId,
    /// What it is.
    pub sha256: Sha256,
    /// In bytes.
    pub size: u64,
}

/// What needs a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Referrer {
    /// The saved file of this name.
    File(String),
    /// An artifact of this run.
    Run(RunId),
}

/// What is in a database, as far as it matters to who restores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The newest migration that was applied.
    pub migration: i64,
    /// Runs of every status.
    pub runs: u64,
    /// Runs that wait for a worker.
    pub waiting: u64,
    /// Runs that a worker held.
    pub at_work: u64,
    /// Runs whose content was in the memory of a node alone, and is not in any copy.
    pub unretained: u64,
    /// Callbacks that are still to be sent, or sent again.
    pub callbacks: u64,
    /// Schedules that are switched on.
    pub schedules: u64,
    /// Contents that files and artifacts refer to.
    pub contents: u64,
    /// Their bytes.
    pub content_bytes: u64,
}

impl DatabaseCopy {
    /// Copies the database at `from`, which a process may be writing to, as it stands at one moment, into the new file
    /// `to`, for this user alone. What was deleted from it is not in the copy.
    ///
    /// # Errors
    /// `Unavailable` where a file cannot be read or written, or the disk is full; `Database` where it is no database.
    pub fn make(from: &Path, to: &Path) -> Result<Self> {
        copy_sqlite(from, to)?;
        Self::open(to)
    }

    /// Opens a copy.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self(open_sqlite_copy(path)?))
    }

    /// That every page, index and reference of it is in order, and that this program knows its migrations.
    ///
    /// # Errors
    /// `Corrupt` with what was found; `Database` where a newer program has written it.
    pub fn check(&mut self) -> Result<()> {
        newest_migration(self.0.as_mut())?;
        let found = self.0.query_all("PRAGMA integrity_check(5)", vals![])?;
        let found: Vec<&str> = found.iter().map(|row| row.text(0)).collect::<Result<_>>()?;
        if found != ["ok"] {
            return Err(Error::Corrupt(found.join("; ")));
        }
        if let Some(row) = self.0.query_opt("PRAGMA foreign_key_check", vals![])? {
            return Err(Error::Corrupt(format!(
                "a row of {} refers to nothing",
                row.text(0)?
            )));
        }
        Ok(())
    }

    /// The sealed text by which the master key of the database is told; `None` where nothing is sealed.
    pub fn seal_check(&mut self) -> Result<Option<Vec<u8>>> {
        let row = self
            .0
            .query_opt("SELECT sealed FROM seal_check WHERE id = 1", vals![])?;
        row.map(|row| row.blob(0).map(<[u8]>::to_vec)).transpose()
    }

    /// What is in it.
    pub fn summary(&mut self) -> Result<Summary> {
        let migration = newest_migration(self.0.as_mut())?;
        let mut count = |sql: &'static str| -> Result<u64> {
            let number = self.0.query_one(sql, vals![])?.int(0)?;
            u64::try_from(number).map_err(|error| Error::Corrupt(error.to_string()))
        };
        Ok(Summary {
            migration,
            runs: count("SELECT COUNT(*) FROM run")?,
            waiting: count("SELECT COUNT(*) FROM queue WHERE node_id IS NULL")?,
            at_work: count("SELECT COUNT(*) FROM queue WHERE node_id >= 0")?,
            unretained: count("SELECT COUNT(*) FROM unretained u JOIN queue q ON q.run_id = u.run_id")?,
            callbacks: count("SELECT COUNT(*) FROM delivery WHERE due_at >= 0")?,
            schedules: count("SELECT COUNT(*) FROM schedule WHERE enabled = 1")?,
            contents: count(concat!(
                "SELECT COUNT(*) FROM blob WHERE NOT (",
                unreferenced!(),
                ")"
            ))?,
            content_bytes: count(concat!(
                "SELECT COALESCE(SUM(size), 0) FROM blob WHERE NOT (",
                unreferenced!(),
                ")"
            ))?,
        })
    }

    /// Up to `limit` contents that it refers to, after that row, in the order of their rows.
    pub fn referred_blobs(&mut self, after: Option<BlobId>, limit: u32) -> Result<Vec<ReferredBlob>> {
        let after = after.map_or_else(String::new, |id| id.to_string());
        self.0
            .query_all(
                concat!(
                    "SELECT id, org_id, sha256, size FROM blob WHERE id > $1 AND NOT (",
                    unreferenced!(),
                    ") ORDER BY id LIMIT $2"
                ),
                vals![after.as_str(), limit],
            )?
            .iter()
            .map(referred_from)
            .collect()
    }

    /// What refers to a content: saved files by name and then runs, up to `limit` of each.
    pub fn referrers(&mut self, blob: BlobId, limit: u32) -> Result<Vec<Referrer>> {
        let files = self.0.query_all(
            "SELECT name FROM file WHERE blob_id = $1 ORDER BY name LIMIT $2",
            vals![blob, limit],
        )?;
        let runs = self.0.query_all(
            "SELECT run_id FROM artifact_blob WHERE blob_id = $1 ORDER BY run_id LIMIT $2",
            vals![blob, limit],
        )?;
        let files = files
            .iter()
            .map(|row| row.text(0).map(|name| Referrer::File(name.to_owned())));
        files
            .chain(runs.iter().map(|row| row.parse(0).map(Referrer::Run)))
            .collect()
    }
}

fn referred_from(row: &Row) -> Result<ReferredBlob> {
    Ok(ReferredBlob {
        id: row.parse(0)?,
        org: row.parse(1)?,
        sha256: sha256(row, 2)?,
        size: u64::try_from(row.int(3)?).map_err(|error| Error::Corrupt(error.to_string()))?,
    })
}
