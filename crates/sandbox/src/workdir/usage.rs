//! What a directory holds.

use std::{ffi::CString, io, os::fd::BorrowedFd};

use rustix::{
    fs::{AtFlags, Dir, FileType, statat},
    io::Errno,
};

use super::{
    cursor::Cursor,
    delete::{is_dot, make_accessible},
};

/// Bytes on disk, and files and folders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

/// Adds up everything below `dir`, stopping soon after `max_entries`. What vanishes meanwhile is not counted, and a
/// folder without rights is given them: nothing may hide behind a mode.
pub(crate) fn measure(dir: BorrowedFd<'_>, max_entries: u64) -> io::Result<Total> {
    let mut total = Total::default();
    let mut at = Cursor::at(dir)?;
    let mut pending = vec![count_here(&at, &mut total)?];
    while let Some(folders) = pending.last_mut() {
        if total.entries > max_entries {
            break;
        }
        let Some(name) = folders.pop() else {
            pending.pop();
            if pending.is_empty() {
                break;
            }
            at.up()?;
            continue;
        };
        let entered = match at.down(&name) {
            Err(Errno::ACCESS) => make_accessible(at.fd(), &name).and_then(|()| Ok(at.down(&name)?)),
            result => result.map_err(io::Error::from),
        };
        if entered.is_ok() {
            pending.push(count_here(&at, &mut total)?);
        }
    }
    Ok(total)
}

/// Counts the entries of one folder and returns its folders.
fn count_here(at: &Cursor, total: &mut Total) -> io::Result<Vec<CString>> {
    let mut folders = Vec::new();
    for entry in Dir::read_from(at.fd())? {
        let entry = entry?;
        let name = entry.file_name();
        if is_dot(name) {
            continue;
        }
        let Ok(stat) = statat(at.fd(), name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let mut bytes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            folders.push(name.to_owned());
        } else {
            // A file with many names is on disk once.
            #[expect(
                clippy::useless_conversion,
                reason = "the width of this field differs between architectures"
            )]
            let links = u64::from(stat.st_nlink);
            bytes /= links.max(1);
        }
        total.bytes = total.bytes.saturating_add(bytes);
        total.entries += 1;
    }
    Ok(folders)
}
