//! Working directories: made, read, written, listed and deleted without ever following what an agent put there.

use std::{io, path::Path};

use crate::path::RelPath;

/// The working directory of one run, held by a descriptor. Every access is relative to it and resolves no
/// symlink, leaves no mount and opens no device or pipe (`openat2`).
#[derive(Debug)]
pub struct Workdir;

/// What an entry of a listing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A symbolic link, which is never followed.
    Symlink,
    /// A pipe, socket or device.
    Other,
}

/// One entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path from the working directory, decoded lossily: a name that is not UTF-8 cannot be opened by it.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
    /// Size of a file, in bytes.
    pub size: u64,
}

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Nothing there.
    #[error("no such file or folder")]
    NotFound,
    /// A folder, link, pipe, socket or device where a regular file is needed.
    #[error("not a regular file")]
    NotAFile,
    /// The path goes through a link or out of the directory.
    #[error("the path goes through a link")]
    Escapes,
    /// Larger than asked for.
    #[error("larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// Anything else.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Workdir {
    /// Makes the empty directory `name` below `root` for one run.
    pub fn create(_root: &Path, _name: &str) -> io::Result<Self> {
        unimplemented!()
    }

    /// Size of a regular file, in bytes.
    pub fn size(&self, _path: &RelPath) -> Result<u64, FileError> {
        unimplemented!()
    }

    /// Reads a regular file of at most `limit` bytes whole.
    pub fn read(&self, _path: &RelPath, _limit: u64) -> Result<Vec<u8>, FileError> {
        unimplemented!()
    }

    /// Opens a regular file for reading, for files that are streamed.
    pub fn open(&self, _path: &RelPath) -> Result<std::fs::File, FileError> {
        unimplemented!()
    }

    /// Creates or replaces a file, making the folders above it. The old content stays until the new is complete.
    pub fn write(&self, _path: &RelPath, _content: &[u8]) -> Result<(), FileError> {
        unimplemented!()
    }

    /// Everything below `path` (`None`: the whole directory) in the order of names, parents first, at most
    /// `max_entries` entries and `max_depth` levels; true when it was cut.
    pub fn list(
        &self,
        _path: Option<&RelPath>,
        _max_depth: usize,
        _max_entries: usize,
    ) -> Result<(Vec<Entry>, bool), FileError> {
        unimplemented!()
    }

    /// Deletes the directory with everything in it, however deep, unreadable or strangely named.
    pub fn delete(self) -> io::Result<()> {
        unimplemented!()
    }
}
