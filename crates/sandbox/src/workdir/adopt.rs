//! Giving a tree that an earlier run's user left behind to another user.
//!
//! What a run made, it may also have linked: a file that belongs to nobody who runs commands, and has more names than
//! the one here, keeps its owner.

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

/// Makes everything below `dir`, and last `dir` itself, belong to `uid`. Of a walk that broke off, the next one does
/// the rest.
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

/// Gives away what lies in one folder, and returns its folders.
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

/// Gives one entry away, unless it is a folder; says what it is. What is looked at is what is given: the entry is held
/// meanwhile, whatever its name comes to mean.
fn give_entry(folder: BorrowedFd<'_>, name: &CStr, uid: u32) -> io::Result<FileType> {
    let entry = match beneath(folder, name, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()) {
        // Gone meanwhile.
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
