//! Writes files atomically, and creates files that grow.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, fchmod, mkdirat, openat, renameat, statat, unlinkat},
    io::Errno,
};

use super::{
    DIRECTORY, FileError, give_to,
    open::{beneath, file_error},
};
use crate::{path::RelPath, uids::RunUid};

static TEMPORARY: AtomicU64 = AtomicU64::new(0);

pub(super) fn replace(
    dir: BorrowedFd<'_>,
    path: &RelPath,
    content: impl FnOnce(&mut File) -> io::Result<()>,
    owner: Option<&RunUid>,
) -> Result<(), FileError> {
    let (folders, name) = path.as_str().rsplit_once('/').unwrap_or(("", path.as_str()));
    let folder = make_folders(dir, folders, owner)?;
    let folder = folder.as_ref().map_or(dir, AsFd::as_fd);
    let mode = mode_of(folder, name)?;
    let number = TEMPORARY.fetch_add(1, Ordering::Relaxed);
    let temporary = format!(".sortie-{}-{number}.tmp", std::process::id());
    let written = write_new(folder, &temporary, content, (mode, owner))
        .and_then(|()| Ok(renameat(folder, &temporary, folder, name)?));
    if let Err(error) = written {
        // It may not even have been created; the first error matters.
        let _gone = unlinkat(folder, &temporary, AtFlags::empty());
        return Err(error.into());
    }
    Ok(())
}

/// Creates an empty file at an unused path, open for writing and reading.
pub(super) fn make_new(
    dir: BorrowedFd<'_>,
    path: &RelPath,
    owner: Option<&RunUid>,
) -> Result<File, FileError> {
    let (folders, name) = path.as_str().rsplit_once('/').unwrap_or(("", path.as_str()));
    let folder = make_folders(dir, folders, owner)?;
    let folder = folder.as_ref().map_or(dir, AsFd::as_fd);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(openat(folder, name, flags, Mode::RUSR | Mode::WUSR).map_err(file_error)?);
    fchmod(&file, Mode::from_raw_mode(0o644)).map_err(file_error)?;
    give_to(&file, owner)?;
    Ok(file)
}

/// Opens the folders of `path` one by one, and creates missing ones.
fn make_folders(
    dir: BorrowedFd<'_>,
    path: &str,
    owner: Option<&RunUid>,
) -> Result<Option<OwnedFd>, FileError> {
    let mut here: Option<OwnedFd> = None;
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        let parent = here.as_ref().map_or(dir, AsFd::as_fd);
        let next = match beneath(parent, segment, DIRECTORY, Mode::empty()) {
            Err(Errno::NOENT) => {
                match mkdirat(parent, segment, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(file_error(error)),
                }
                let made = beneath(parent, segment, DIRECTORY, Mode::empty()).map_err(file_error)?;
                give_to(&made, owner)?;
                made
            }
            Err(Errno::NOTDIR) => return Err(FileError::NotAFile),
            result => result.map_err(file_error)?,
        };
        here = Some(next);
    }
    Ok(here)
}

/// The mode of the replaced file, or that of a new one.
fn mode_of(folder: BorrowedFd<'_>, name: &str) -> Result<Mode, FileError> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(Mode::from_raw_mode(0o644)),
        Err(error) => Err(file_error(error)),
        Ok(stat) => {
            let kind = FileType::from_raw_mode(stat.st_mode);
            if kind.is_file() {
                Ok(Mode::from_raw_mode(stat.st_mode & 0o777))
            } else if kind.is_symlink() {
                Err(FileError::Escapes)
            } else {
                Err(FileError::NotAFile)
            }
        }
    }
}

fn write_new(
    folder: BorrowedFd<'_>,
    name: &str,
    content: impl FnOnce(&mut File) -> io::Result<()>,
    (mode, owner): (Mode, Option<&RunUid>),
) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?);
    content(&mut file)?;
    fchmod(&file, mode)?;
    give_to(&file, owner)
}
