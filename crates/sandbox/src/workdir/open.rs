//! Opens paths beneath a directory, and nothing else.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2},
    io::Errno,
    path::Arg,
};

use super::FileError;
use crate::path::RelPath;

const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// The kernel returns `EAGAIN` if a rename raced with the look-up; a run can keep that up indefinitely.
const RACES: usize = 16;

/// Opens `path` beneath `dir`.
pub(super) fn beneath(
    dir: BorrowedFd<'_>,
    path: impl Arg + Copy,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    for _ in 0..RACES {
        match openat2(dir, path, flags, mode, BENEATH) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens a regular file for reading and returns its size. Never blocks on a pipe, never opens a device's content: `O_NONBLOCK`
/// opens a pipe at once, and then its type is checked.
pub(super) fn regular(dir: BorrowedFd<'_>, path: &RelPath) -> Result<(File, u64), FileError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let fd = beneath(dir, path.as_str(), flags, Mode::empty()).map_err(file_error)?;
    let stat = fstat(&fd).map_err(io::Error::from)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(FileError::NotAFile);
    }
    Ok((File::from(fd), u64::try_from(stat.st_size).unwrap_or(0)))
}

/// Reads a file of at most `limit` bytes, even if it grows during the read.
pub(super) fn read_at_most(file: File, size: u64, limit: u64) -> Result<Vec<u8>, FileError> {
    if size > limit {
        return Err(FileError::TooLarge { limit });
    }
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    if u64::try_from(content.len()).unwrap_or(u64::MAX) > limit {
        return Err(FileError::TooLarge { limit });
    }
    Ok(content)
}

/// Converts a failed look-up into the error for a caller.
pub(super) fn file_error(error: Errno) -> FileError {
    match error {
        Errno::NOENT | Errno::NOTDIR => FileError::NotFound,
        Errno::LOOP | Errno::XDEV => FileError::Escapes,
        Errno::ISDIR | Errno::NXIO => FileError::NotAFile,
        other => FileError::Io(other.into()),
    }
}
