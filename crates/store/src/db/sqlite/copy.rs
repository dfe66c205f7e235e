//! A second look at a database file that a process may be writing to: it takes no lock that a writer would meet.

use std::{fs::OpenOptions, os::unix::fs::OpenOptionsExt, path::Path};

use super::{Connection, failed};
use crate::{
    db::{tx::Tx, value::vals},
    types::{Error, Result},
};

/// Writes the database at `from`, as it stands at one moment, into the new file `to`, for this user alone.
///
/// One read transaction on the write-ahead log sees it all: the writer goes on meanwhile, and only the log grows. Pages
/// that hold nothing any more are not copied, so what was deleted is not in the copy.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    let name = to
        .to_str()
        .ok_or_else(|| Error::Database(format!("{} is not UTF-8", to.display())))?;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(to)
        .map_err(|error| failed("make", to, &error))?;
    // SQLite fills a file that is there and empty.
    Connection::reader(from)?
        .exec("VACUUM INTO $1", vals![name])
        .map(drop)
}

/// Opens a database that nobody writes to.
pub(crate) fn open_copy(path: &Path) -> Result<Box<dyn Tx + Send>> {
    Ok(Box::new(Connection::reader(path)?))
}
