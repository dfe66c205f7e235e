//! The size of a directory's content.

use std::{ffi::CString, io, os::fd::BorrowedFd};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, Stat, fchmod, statat},
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

impl Total {
    /// Whether one of the two exceeds the other total's.
    pub(crate) const fn passes(self, other: Self) -> bool {
        self.bytes > other.bytes || self.entries > other.entries
    }

    /// The difference of each of the two, at least zero.
    pub(crate) const fn less(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            entries: self.entries.saturating_sub(other.entries),
        }
    }

    /// The larger of each of the two.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.max(other.bytes),
            entries: self.entries.max(other.entries),
        }
    }

    /// The smaller of each of the two.
    pub(crate) fn min(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.min(other.bytes),
            entries: self.entries.min(other.entries),
        }
    }
}

/// Result of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Survey {
    pub(crate) total: Total,
    /// Whether every folder that was found could be entered, read and left again.
    pub(crate) complete: bool,
}

impl Default for Survey {
    fn default() -> Self {
        Self {
            total: Total::default(),
            complete: true,
        }
    }
}

impl Survey {
    /// Adds the result of another walk.
    pub(crate) const fn add(&mut self, other: Self) {
        self.total.bytes = self.total.bytes.saturating_add(other.total.bytes);
        self.total.entries = self.total.entries.saturating_add(other.total.entries);
        self.complete &= other.complete;
    }
}

/// Adds up everything below `dir`, stopping soon after `max_entries`. Entries that vanish during the walk are not counted. A
/// folder without permissions gets them, so that its mode cannot hide its content. A folder that is moved while the walk is in
/// it, or that cannot be entered, makes the result incomplete; the walk continues elsewhere.
///
/// `met` is called with the number of each inode.
pub(crate) fn survey(dir: BorrowedFd<'_>, max_entries: u64, met: &mut dyn FnMut(u64)) -> Survey {
    let mut survey = Survey::default();
    if walk(dir, max_entries, &mut survey, met).is_err() {
        survey.complete = false;
    }
    survey
}

/// Adds up everything below `dir` as [`survey`] does.
///
/// # Errors
/// When the directory itself cannot be read.
pub(crate) fn measure(dir: BorrowedFd<'_>, max_entries: u64) -> io::Result<Total> {
    let mut survey = Survey::default();
    walk(dir, max_entries, &mut survey, &mut |_inode| {})?;
    Ok(survey.total)
}

fn walk(
    dir: BorrowedFd<'_>,
    max_entries: u64,
    survey: &mut Survey,
    met: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let mut at = Cursor::at(dir)?;
    let mut pending = vec![count_here(&at, survey, met)?];
    while let Some(folders) = pending.last_mut() {
        if survey.total.entries > max_entries {
            break;
        }
        let Some(name) = folders.pop() else {
            pending.pop();
            if pending.is_empty() {
                break;
            }
            if at.up().is_err() {
                // The remaining folders on the way back are lost with it.
                survey.complete = false;
                at = Cursor::at(dir)?;
                pending.truncate(1);
            }
            continue;
        };
        let entered = match at.down(&name) {
            Err(Errno::ACCESS) => make_accessible(at.fd(), &name).and_then(|()| Ok(at.down(&name)?)),
            result => result.map_err(io::Error::from),
        };
        if entered.is_err() {
            survey.complete = false;
            continue;
        }
        let folders = count_here(&at, survey, met).unwrap_or_else(|_unreadable| {
            survey.complete = false;
            Vec::new()
        });
        pending.push(folders);
    }
    Ok(())
}

/// Counts the entries of one folder and returns its folders.
fn count_here(at: &Cursor, survey: &mut Survey, met: &mut dyn FnMut(u64)) -> io::Result<Vec<CString>> {
    let mut folders = Vec::new();
    for entry in with_rights(at, || Dir::read_from(at.fd()))? {
        let entry = entry?;
        let name = entry.file_name();
        if is_dot(name) {
            continue;
        }
        let stat = match with_rights(at, || statat(at.fd(), name, AtFlags::SYMLINK_NOFOLLOW)) {
            Ok(stat) => stat,
            Err(error) => {
                survey.complete &= error == Errno::NOENT;
                continue;
            }
        };
        met(stat.st_ino);
        let mut bytes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            folders.push(name.to_owned());
        } else {
            // A file with many names is on disk once.
            bytes /= links(&stat).max(1);
        }
        survey.total.bytes = survey.total.bytes.saturating_add(bytes);
        survey.total.entries += 1;
    }
    Ok(folders)
}

/// Retries with all permissions on the folder, if the first attempt failed for lack of one.
fn with_rights<T>(at: &Cursor, attempt: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    match attempt() {
        Err(Errno::ACCESS) => {
            fchmod(at.fd(), Mode::RWXU)?;
            attempt()
        }
        result => result,
    }
}

#[expect(
    clippy::useless_conversion,
    reason = "the width of this field differs between architectures"
)]
fn links(stat: &Stat) -> u64 {
    u64::from(stat.st_nlink)
}
