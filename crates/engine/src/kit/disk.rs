//! Free space of a disk.

use std::{io, path::Path};

use rustix::fs::statvfs;

/// Free space in bytes below which a disk is too full for work.
pub(crate) const NO_SPACE: u64 = 200 << 20;

/// Returns the free space of the disk with this folder, in bytes.
pub(crate) fn free_bytes(folder: &Path) -> io::Result<u64> {
    let found = statvfs(folder)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Whether the disk with this folder is known to have less than [`NO_SPACE`].
pub(crate) fn is_short(folder: &Path) -> bool {
    free_bytes(folder).is_ok_and(|free| free < NO_SPACE)
}
