//! Transfers a tree that an earlier run's user left to another user.
//!
//! A run may have linked a file instead of creating it: a file with an owner that is not a run's user, and with more than one
//! name, keeps its owner.

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, chownat, fchown, fstat},
    io::Errno,
    process::{Gid, Uid},
};

use super::{cursor::Cursor, delete::is_dot, open::beneath};
use crate::uids;

/// Makes everything below `dir`, and last `dir` itself, belong to `uid`. If a walk fails, the next one completes it.
pub(super) fn give_tree(dir: BorrowedFd<'_>, uid: u32) -> io::Result<()> {
    let mut at = Cursor::at(dir)?;
    let mut pending = vec![give_entries(&at, uid)?];
    while let Some(folders) = pending.last_mut() {
        if let Some(name) = folders.pop() {
            at.down(&name)?;
            pending.push(give_entries(&at, uid)?);
            continue;
        }
        fchown(at.fd(), Some(Uid::from_raw(uid)), Some(Gid::from_raw(uid)))?;
        pending.pop();
        at.up()?;
    }
    Ok(())
}

/// Transfers the entries of one folder, and returns its subfolders.
fn give_entries(at: &Cursor, uid: u32) -> io::Result<Vec<CString>> {
    let mut folders = Vec::new();
    for entry in Dir::read_from(at.fd())? {
        let entry = entry?;
        let name = entry.file_name();
        if !is_dot(name) && give_entry(at.fd(), name, uid)? == FileType::Directory {
            folders.push(name.to_owned());
        }
    }
    Ok(folders)
}

/// Transfers one entry, unless it is a folder; returns its type. The entry is held open from check to transfer, so renaming
/// cannot swap it.
fn give_entry(folder: BorrowedFd<'_>, name: &CStr, uid: u32) -> io::Result<FileType> {
    let entry = match beneath(folder, name, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()) {
        // Deleted since it was listed.
        Err(Errno::NOENT) => return Ok(FileType::Unknown),
        entry => entry?,
    };
    let stat = fstat(&entry)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let foreign = !uids::is_of_a_run(stat.st_uid) && stat.st_nlink > 1;
    if kind != FileType::Directory && stat.st_uid != uid && !foreign {
        let (user, group) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(uid)));
        chownat(entry.as_fd(), c"", user, group, AtFlags::EMPTY_PATH)?;
    }
    Ok(kind)
}
