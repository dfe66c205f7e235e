//! Copies of a database file that a process may be writing to. Reading takes no lock that a writer would
//! meet.

use std::{fs::OpenOptions, os::unix::fs::OpenOptionsExt, path::Path};

use super::{Connection, failed};
use crate::{Error, Result, tx::Tx, vals};

/// Writes the database at `from`, as of one moment, into the new file `to`, which only this user can read.
///
/// One read transaction on the write-ahead log sees all of it. The writer keeps running; only the log grows. Unused
/// pages are not copied, so deleted data is not in the copy.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    let name = to
        .to_str()
        .ok_or_else(|| Error::Database(format!("{} is not UTF-8", to.display())))?;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(to)
        .map_err(|error| failed("make", to, &error))?;
    // SQLite fills an existing file if it is empty.
    Connection::reader(from)?
        .exec("VACUUM INTO $1", vals![name])
        .map(drop)
}

/// Opens a database that no process writes to.
pub fn open_copy(path: &Path) -> Result<Box<dyn Tx + Send>> {
    Ok(Box::new(Connection::reader(path)?))
}
