//! Working directories: created, read, written, listed and deleted without following anything that an agent put there.
//!
//! Every access starts at a descriptor of the directory and is resolved by `openat2` with `RESOLVE_BENEATH`, `NO_SYMLINKS`,
//! `NO_MAGICLINKS` and `NO_XDEV`: no link is followed, no mount is entered, and pipes, sockets and devices are never opened for
//! their content. Walks hold one descriptor regardless of the depth of the tree, and recurse neither on the stack nor in
//! descriptors.

mod adopt;
mod cursor;
mod delete;
mod list;
mod open;
mod usage;
mod write;

use std::{
    fs::{DirBuilder, File},
    io::{self, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::DirBuilderExt,
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, fchown, fstat, mkdirat, open as open_path, openat, unlinkat},
    io::Errno,
    process::{Gid, Uid},
};

pub(crate) use usage::{Survey, Total, measure, survey};

use crate::{
    level::Level,
    path::RelPath,
    uids::{self, RunUid},
};

/// The working directory of one run, held by a descriptor. Every access is relative to it and resolves no symlink, leaves no
/// mount and opens no device or pipe (`openat2`).
///
/// If the engine is root, the directory and the files that the engine writes into it belong to a host user that no other run of
/// this host has at the same time.
///
/// Dropping it leaves the directory in place, to be opened again by [`reopen`](Self::reopen); only [`delete`](Self::delete) and
/// [`sweep`](Self::sweep) remove anything.
#[derive(Debug)]
pub struct Workdir {
    root: OwnedFd,
    dir: OwnedFd,
    name: String,
    path: PathBuf,
    owner: Option<Arc<RunUid>>,
}

/// The absolute paths under which the commands of a run know its directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPaths {
    /// The working directory.
    pub work: PathBuf,
    /// The directory for temporary files.
    pub temporary: PathBuf,
}

impl CommandPaths {
    /// The paths for the directory `name` below `root`, by commands that are confined at this level.
    pub fn new(root: &Path, name: &str, level: Level) -> Self {
        match level {
            Level::Namespaces => Self {
                work: PathBuf::from("/work"),
                temporary: PathBuf::from("/tmp"),
            },
            Level::Landlock | Level::None => {
                let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
                Self {
                    work: root.join(name),
                    temporary: root.join(scratch_name(name)),
                }
            }
        }
    }
}

/// Kind of an entry of a listing.
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

/// Entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path from the working directory, decoded lossily: a name that is not UTF-8 cannot be opened by it.
    pub path: String,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Size of a file, in bytes.
    pub size: u64,
}

/// Reason why a file could not be read or written.
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
    /// Larger than the requested limit.
    #[error("larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// Anything else.
    #[error(transparent)]
    Io(#[from] io::Error),
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Workdir {
    /// Creates the empty directory `name` below `root` for one run, and `root` itself if it is missing.
    ///
    /// # Errors
    /// Fails if the name exists, if it is not one plain segment, or if the root engine has no user left for another run.
    pub fn create(root: &Path, name: &str) -> io::Result<Self> {
        check_name(name)?;
        let owner = RunUid::acquire()?;
        // Others may traverse it to their own directory, but not list it.
        DirBuilder::new().recursive(true).mode(0o711).create(root)?;
        let root_fd = open_path(
            root,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let path = std::path::absolute(root)?.join(name);
        let dir = make_private(&root_fd, name, owner.as_deref())?;
        Ok(Self {
            root: root_fd,
            dir,
            name: name.to_owned(),
            path,
            owner,
        })
    }

    /// Reopens the directory `name` below `root` that an earlier engine process created for the run, so that the run can resume
    /// in it; `None` if it does not exist. No process may still run in it. Files that the run kept outside of it, in `/tmp`, are
    /// lost.
    ///
    /// A root engine transfers the whole tree to a new user, which takes time proportional to the number of files.
    ///
    /// # Errors
    /// Fails if the name is not a directory, belongs to neither this engine nor a run of this host, or is not one plain segment;
    /// or if the root engine has no user left for another run.
    pub fn reopen(root: &Path, name: &str) -> io::Result<Option<Self>> {
        check_name(name)?;
        let root_fd = match open_path(root, DIRECTORY, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened?,
        };
        let dir = match open::beneath(root_fd.as_fd(), name, PLACE, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened?,
        };
        let owner = RunUid::acquire()?;
        let (found, own) = (fstat(&dir)?.st_uid, rustix::process::geteuid().as_raw());
        if found != own && !(owner.is_some() && uids::is_of_a_run(found)) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the directory belongs to another user",
            ));
        }
        // A run may have given others access, or removed its own.
        delete::make_private(&dir)?;
        let dir = openat(&dir, ".", DIRECTORY, Mode::empty())?;
        if let Some(owner) = &owner {
            adopt::give_tree(dir.as_fd(), owner.uid())?;
        }
        delete::remove_tree(root_fd.as_fd(), scratch_name(name).as_bytes())?;
        Ok(Some(Self {
            path: std::path::absolute(root)?.join(name),
            root: root_fd,
            dir,
            name: name.to_owned(),
            owner,
        }))
    }

    /// The paths of the directory and of the temporary one, as commands at this level know them.
    pub fn command_paths(&self, level: Level) -> CommandPaths {
        CommandPaths::new(self.path.parent().unwrap_or(&self.path), &self.name, level)
    }

    /// Size of a regular file, in bytes.
    pub fn size(&self, path: &RelPath) -> Result<u64, FileError> {
        Ok(open::regular(self.dir.as_fd(), path)?.1)
    }

    /// Reads a regular file of at most `limit` bytes.
    pub fn read(&self, path: &RelPath, limit: u64) -> Result<Vec<u8>, FileError> {
        let (file, size) = open::regular(self.dir.as_fd(), path)?;
        open::read_at_most(file, size, limit)
    }

    /// Opens a regular file for reading, for files that are streamed.
    pub fn open(&self, path: &RelPath) -> Result<File, FileError> {
        Ok(open::regular(self.dir.as_fd(), path)?.0)
    }

    /// Opens a regular file that the run owns for reading, with its size in bytes. A file of another owner is refused: on some
    /// hosts the run can link such a file here, and the engine may read files that the run may not.
    pub fn open_own(&self, path: &RelPath) -> Result<(File, u64), FileError> {
        let (file, size) = open::regular(self.dir.as_fd(), path)?;
        let own = match &self.owner {
            Some(owner) => owner.uid(),
            None => rustix::process::geteuid().as_raw(),
        };
        let found = fstat(&file).map_err(io::Error::from)?.st_uid;
        if found == own {
            Ok((file, size))
        } else {
            Err(FileError::Escapes)
        }
    }

    /// Creates or replaces a file, and creates the folders above it. The old content stays until the new one is complete; the
    /// mode of a replaced file is kept.
    pub fn write(&self, path: &RelPath, content: &[u8]) -> Result<(), FileError> {
        let fill = |file: &mut File| file.write_all(content);
        write::replace(self.dir.as_fd(), path, fill, self.owner.as_deref())
    }

    /// Copies the rest of `source` as [`write`](Self::write) does. The kernel copies it, or shares it if the file system can, and
    /// it is never held in memory.
    pub fn copy(&self, path: &RelPath, source: &mut File) -> Result<(), FileError> {
        let fill = |file: &mut File| io::copy(source, file).map(drop);
        write::replace(self.dir.as_fd(), path, fill, self.owner.as_deref())
    }

    /// Creates an empty file at an unused path, and the folders above it, for content that grows. The run may change or delete
    /// the file at any time.
    pub fn make_file(&self, path: &RelPath) -> Result<File, FileError> {
        write::make_new(self.dir.as_fd(), path, self.owner.as_deref())
    }

    /// Lists everything below `path` (`None`: the whole directory) in the order of names, parents first, at most `max_entries`
    /// entries and `max_depth` levels; true if the listing was cut.
    pub fn list(
        &self,
        path: Option<&RelPath>,
        max_depth: usize,
        max_entries: usize,
    ) -> Result<(Vec<Entry>, bool), FileError> {
        list::list(self.dir.as_fd(), path, (max_depth, max_entries), |_| true)
    }

    /// Lists as [`list`](Self::list) does, but only the entries for which `keep` is true. Other folders are not entered. `keep`
    /// is called for a folder before its entries.
    pub fn list_kept(
        &self,
        path: Option<&RelPath>,
        (max_depth, max_entries): (usize, usize),
        keep: impl FnMut(&Entry) -> bool,
    ) -> Result<(Vec<Entry>, bool), FileError> {
        list::list(self.dir.as_fd(), path, (max_depth, max_entries), keep)
    }

    /// Returns the content of the directory: bytes on disk, and the number of files and folders.
    ///
    /// # Errors
    /// When the directory itself cannot be read; unreadable folders below it are made readable.
    pub fn usage(&self) -> io::Result<(u64, u64)> {
        let total = measure(self.dir.as_fd(), u64::MAX)?;
        Ok((total.bytes, total.entries))
    }

    /// Deletes the directory with everything in it, regardless of depth, permissions and names. After a failure, another call
    /// deletes the rest.
    pub fn delete(&self) -> io::Result<()> {
        delete::remove_tree(self.root.as_fd(), self.name.as_bytes())?;
        delete::remove_tree(self.root.as_fd(), scratch_name(&self.name).as_bytes())
    }

    /// Deletes the directories below `root` that belong to no live run, when a node starts; `is_live` is called with each name.
    /// Returns the number of deleted directories.
    ///
    /// # Errors
    /// The first failure, after all others were tried. A root that does not exist holds nothing.
    pub fn sweep(root: &Path, mut is_live: impl FnMut(&str) -> bool) -> io::Result<u64> {
        let root_fd = match open_path(root, DIRECTORY, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        delete::sweep(root_fd.as_fd(), |name| {
            is_live(name.strip_suffix(SCRATCH).unwrap_or(name))
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    pub(crate) fn owner(&self) -> Option<Arc<RunUid>> {
        self.owner.clone()
    }

    /// A private folder next to the directory, for levels that cannot give the run a private `/tmp`.
    pub(crate) fn scratch(&self) -> io::Result<OwnedFd> {
        let name = scratch_name(&self.name);
        match make_private(&self.root, &name, self.owner.as_deref()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let scratch = open::beneath(self.root.as_fd(), name.as_bytes(), DIRECTORY, Mode::empty())?;
                Ok(scratch)
            }
            made => made,
        }
    }
}

const SCRATCH: &str = ".tmp";
/// Opens a folder even without permission to read it.
const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);

fn check_name(name: &str) -> io::Result<()> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a directory name",
        ));
    }
    Ok(())
}

fn scratch_name(name: &str) -> String {
    format!("{name}{SCRATCH}")
}

fn make_private(root: &OwnedFd, name: &str, owner: Option<&RunUid>) -> io::Result<OwnedFd> {
    mkdirat(root, name, Mode::RWXU)?;
    let made = open::beneath(root.as_fd(), name.as_bytes(), DIRECTORY, Mode::empty())
        .map_err(io::Error::from)
        .and_then(|dir| give_to(&dir, owner).map(|()| dir));
    if made.is_err() {
        // Another attempt must find the name free. The first error is more useful than an error of this removal.
        let _removed = unlinkat(root, name, AtFlags::REMOVEDIR);
    }
    made
}

fn give_to(fd: impl AsFd, owner: Option<&RunUid>) -> io::Result<()> {
    if let Some(owner) = owner {
        fchown(
            fd,
            Some(Uid::from_raw(owner.uid())),
            Some(Gid::from_raw(owner.uid())),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
