//! Walking a tree of any depth with one open descriptor.

use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{Mode, OFlags, Stat, fstat, openat},
    io::Errno,
};

use super::{DIRECTORY, open::beneath};

/// A position in a tree. Moving up is checked against the way down: a run that moves folders during the walk makes the walk fail,
/// but never leave the tree.
pub(super) struct Cursor {
    here: OwnedFd,
    id: Id,
    above: Vec<Id>,
}

type Id = (u64, u64);

impl Cursor {
    pub(super) fn at(dir: BorrowedFd<'_>) -> io::Result<Self> {
        // A separate descriptor: duplicates share the position that reading a directory moves.
        let here = openat(dir, ".", DIRECTORY, Mode::empty())?;
        let id = id_of(&fstat(&here)?);
        Ok(Self {
            here,
            id,
            above: Vec::new(),
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.here.as_fd()
    }

    /// Levels below the start.
    pub(super) fn depth(&self) -> usize {
        self.above.len()
    }

    /// Enters a folder here.
    pub(super) fn down(&mut self, name: &CStr) -> Result<(), Errno> {
        let next = beneath(self.fd(), name, DIRECTORY, Mode::empty())?;
        // Without search permission on it, neither its entries nor the way back are accessible.
        rustix::fs::accessat(
            &next,
            "..",
            rustix::fs::Access::EXISTS,
            rustix::fs::AtFlags::empty(),
        )?;
        let id = id_of(&fstat(&next)?);
        self.above.push(std::mem::replace(&mut self.id, id));
        self.here = next;
        Ok(())
    }

    /// Back to the folder above; false at the start.
    pub(super) fn up(&mut self) -> io::Result<bool> {
        let Some(expected) = self.above.pop() else {
            return Ok(false);
        };
        let parent = openat(&self.here, "..", DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        if id_of(&fstat(&parent)?) != expected {
            return Err(io::Error::other("the folder was moved while it was walked"));
        }
        self.id = expected;
        self.here = parent;
        Ok(true)
    }
}

#[expect(
    clippy::useless_conversion,
    reason = "the width of these fields differs between architectures"
)]
fn id_of(stat: &Stat) -> Id {
    (u64::from(stat.st_dev), u64::from(stat.st_ino))
}
