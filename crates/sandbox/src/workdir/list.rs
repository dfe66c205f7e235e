//! Listings in a fixed order, bounded in depth, in entries and in memory.

use std::{collections::BinaryHeap, ffi::CString, os::fd::BorrowedFd};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, statat},
    io::Errno,
};

use super::{
    DIRECTORY, Entry, EntryKind, FileError,
    cursor::Cursor,
    delete::is_dot,
    open::{beneath, file_error},
};
use crate::path::RelPath;

struct Listing {
    entries: Vec<Entry>,
    max_entries: usize,
    cut: bool,
}

pub(super) fn list(
    dir: BorrowedFd<'_>,
    path: Option<&RelPath>,
    (max_depth, max_entries): (usize, usize),
    mut keep: impl FnMut(&Entry) -> bool,
) -> Result<(Vec<Entry>, bool), FileError> {
    let mut listing = Listing {
        entries: Vec::new(),
        max_entries,
        cut: false,
    };
    let (mut at, mut prefix) = match path {
        None => (Cursor::at(dir)?, String::new()),
        Some(path) => {
            let start = beneath(dir, path.as_str(), DIRECTORY, Mode::empty()).map_err(file_error)?;
            (Cursor::at(std::os::fd::AsFd::as_fd(&start))?, format!("{path}/"))
        }
    };
    let mut pending = vec![(listing.names_here(&at)?, prefix.len())];
    while let Some((names, length)) = pending.last_mut() {
        prefix.truncate(*length);
        let Some(name) = names.pop() else {
            pending.pop();
            if !pending.is_empty() {
                at.up()?;
            }
            continue;
        };
        if listing.entries.len() >= max_entries {
            listing.cut = true;
            break;
        }
        let entry = entry(&at, &name, &prefix);
        if !keep(&entry) {
            continue;
        }
        let kind = entry.kind;
        listing.entries.push(entry);
        if kind != EntryKind::Directory {
            continue;
        }
        if at.depth() + 1 >= max_depth {
            listing.cut = true;
            continue;
        }
        match at.down(&name) {
            Ok(()) => {
                prefix.push_str(&name.to_string_lossy());
                prefix.push('/');
                pending.push((listing.names_here(&at)?, prefix.len()));
            }
            // Not the folder's fault: skipping it would silently omit its entries.
            Err(error @ (Errno::MFILE | Errno::NFILE)) => return Err(file_error(error)),
            Err(_not_entered) => {}
        }
    }
    Ok((listing.entries, listing.cut))
}

impl Listing {
    /// The names in one folder, the last first. If a folder has more than are still wanted, only the first ones are held, one
    /// more than wanted so that the cut is noticed even if some of them are left out.
    fn names_here(&mut self, at: &Cursor) -> Result<Vec<CString>, FileError> {
        let wanted = self
            .max_entries
            .saturating_sub(self.entries.len())
            .saturating_add(1);
        let mut names = BinaryHeap::new();
        for entry in Dir::read_from(at.fd()).map_err(file_error)? {
            let entry = entry.map_err(file_error)?;
            if !is_dot(entry.file_name()) {
                names.push(entry.file_name().to_owned());
                if names.len() > wanted {
                    names.pop();
                    self.cut = true;
                }
            }
        }
        let mut names = names.into_sorted_vec();
        names.reverse();
        Ok(names)
    }
}

fn entry(at: &Cursor, name: &CString, prefix: &str) -> Entry {
    let (kind, size) = match statat(at.fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => (kind_of(stat.st_mode), u64::try_from(stat.st_size).unwrap_or(0)),
        Err(_gone) => (EntryKind::Other, 0),
    };
    Entry {
        path: format!("{prefix}{}", name.to_string_lossy()),
        kind,
        size: if kind == EntryKind::File { size } else { 0 },
    }
}

fn kind_of(mode: u32) -> EntryKind {
    let kind = FileType::from_raw_mode(mode);
    if kind.is_file() {
        EntryKind::File
    } else if kind.is_dir() {
        EntryKind::Directory
    } else if kind.is_symlink() {
        EntryKind::Symlink
    } else {
        EntryKind::Other
    }
}
