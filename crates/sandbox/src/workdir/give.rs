//! Giving a tree to another user: a directory that an earlier attempt at the run left.

use std::{ffi::CString, io, os::fd::BorrowedFd};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Uid, chownat, fstat, statat};

use super::{cursor::Cursor, delete::is_dot};

/// Gives `dir` and everything below it that belongs to its owner to `uid`. What belongs to anybody else is left: a
/// name in the tree can be that of a file from outside.
pub(super) fn give_tree(dir: BorrowedFd<'_>, uid: u32) -> io::Result<()> {
    let owner = fstat(dir)?.st_uid;
    if owner == uid {
        return Ok(());
    }
    let mut at = Cursor::at(dir)?;
    let mut pending = vec![give_here(&at, owner, uid)?];
    while let Some(folders) = pending.last_mut() {
        if let Some(name) = folders.pop() {
            at.down(&name)?;
            pending.push(give_here(&at, owner, uid)?);
        } else {
            pending.pop();
            at.up()?;
        }
    }
    // Last, so that a directory that was given in part is given again.
    rustix::fs::fchown(dir, Some(Uid::from_raw(uid)), Some(Gid::from_raw(uid)))?;
    Ok(())
}

/// Gives away the entries of one folder; returns its folders.
fn give_here(at: &Cursor, owner: u32, uid: u32) -> io::Result<Vec<CString>> {
    let mut folders = Vec::new();
    for entry in Dir::read_from(at.fd())? {
        let entry = entry?;
        let name = entry.file_name();
        if is_dot(name) {
            continue;
        }
        let stat = statat(at.fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        if stat.st_uid == owner {
            let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
            chownat(at.fd(), name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            folders.push(name.to_owned());
        }
    }
    Ok(folders)
}
