//! System calls specific to 64-bit ARM: none, because it never had the old ones.

use libc::c_long;

pub(super) const AUDIT_ARCH: u32 = 0xC000_00B7;

pub(super) const FOREIGN_FROM: Option<u32> = None;

/// Calls that make inotify instances.
pub(super) const INOTIFY: &[c_long] = &[libc::SYS_inotify_init1];

pub(super) const CALLS: &[c_long] = &[];
