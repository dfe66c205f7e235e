//! Deletion that a run cannot obstruct: deep trees, folders without permissions, any name.

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{AtFlags, Dir, Mode, OFlags, chmod, fchmod, fstat, openat, unlinkat},
    io::Errno,
};

use super::cursor::Cursor;

/// Folder names held at once per level. Each further reading of a folder that was emptied in between costs time for its earlier
/// entries.
const HELD_NAMES: usize = 4_096;

/// A folder on the way down.
struct Level {
    name: CString,
    /// Subfolders that still contain something.
    full: Vec<CString>,
}

/// Deletes `name` in `parent` with everything below it; a missing one is fine. Takes time proportional to the number of entries.
pub(super) fn remove_tree(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    let name = CString::new(name)?;
    if remove_entry(parent, &name)? {
        return Ok(());
    }
    let mut at = Cursor::at(parent)?;
    enter(&mut at, &name)?;
    let full = empty_out(at.fd())?;
    let mut levels = vec![Level { name, full }];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.full.pop() {
            enter(&mut at, &name)?;
            let full = empty_out(at.fd())?;
            levels.push(Level { name, full });
            continue;
        }
        at.up()?;
        if remove_entry(at.fd(), &level.name)? {
            levels.pop();
            continue;
        }
        // The folder has more names than are held at once, or an entry was added since.
        enter(&mut at, &level.name)?;
        level.full = empty_out(at.fd())?;
    }
    Ok(())
}

/// Deletes every folder of `root` that `is_live` does not know, and continues after a failure.
pub(super) fn sweep(root: BorrowedFd<'_>, mut is_live: impl FnMut(&str) -> bool) -> io::Result<u64> {
    let mut removed = 0;
    let mut failed = None;
    for entry in Dir::read_from(root)? {
        let entry = entry?;
        let name = entry.file_name();
        if is_dot(name) || name.to_str().is_ok_and(&mut is_live) {
            continue;
        }
        match remove_tree(root, name.to_bytes()) {
            Ok(()) => removed += 1,
            Err(error) => {
                let said = format!("{}: {error}", name.to_string_lossy());
                failed.get_or_insert(io::Error::new(error.kind(), said));
            }
        }
    }
    failed.map_or(Ok(removed), Err)
}

#[cfg(test)]
thread_local! {
    /// Folders that this thread has read in order to delete their entries.
    pub(super) static FOLDERS_READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Removes everything that can be removed here; returns the folders that are not empty, or some of them if there are very many.
pub(super) fn empty_out(dir: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    #[cfg(test)]
    FOLDERS_READ.set(FOLDERS_READ.get() + 1);
    let mut full = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if !is_dot(name) && !remove_entry(dir, name)? {
            full.push(name.to_owned());
            if full.len() >= HELD_NAMES {
                break;
            }
        }
    }
    Ok(full)
}

/// Removes a file, a link or an empty folder; false for a folder that is not empty.
fn remove_entry(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<bool> {
    match unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(true),
        Err(Errno::ISDIR) => {}
        Err(error) => return Err(error.into()),
    }
    match unlinkat(dir, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Enters a folder, and adds missing permissions to do so and to delete in it.
fn enter(at: &mut Cursor, name: &CStr) -> io::Result<()> {
    match at.down(name) {
        Err(Errno::ACCESS) => {
            make_accessible(at.fd(), name)?;
            at.down(name)?;
        }
        result => result?,
    }
    let mode = Mode::from_raw_mode(fstat(at.fd())?.st_mode);
    if !mode.contains(Mode::RWXU) {
        fchmod(at.fd(), Mode::RWXU)?;
    }
    Ok(())
}

/// Gives the owner all permissions on a folder that may not even be readable: through a path descriptor, so that no link is
/// followed.
pub(super) fn make_accessible(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    make_private(&openat(parent, name, flags, Mode::empty())?)
}

/// Gives the owner all permissions on a folder, and other users none; a path descriptor is enough.
pub(super) fn make_private(folder: &OwnedFd) -> io::Result<()> {
    Ok(chmod(
        format!("/proc/self/fd/{}", folder.as_raw_fd()),
        Mode::RWXU,
    )?)
}

pub(super) fn is_dot(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}
