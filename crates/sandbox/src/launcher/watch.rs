//! Limits that the kernel does not enforce here: checked while anything runs.

use std::{io, os::fd::OwnedFd, time::Duration};

use super::{disk::DiskWatch, memory::Memory};
use crate::{
    types::{Level, Limits},
    wire::{Broken, MemoryKeeper},
};

/// The watched limits.
pub(super) struct Watch {
    disk: DiskWatch,
    memory: Memory,
    limits: Limits,
    keeper: MemoryKeeper,
}

impl Watch {
    /// Watches the current directory, and the scratch folder if there is one.
    pub(super) fn new(
        level: Level,
        limits: Limits,
        keeper: MemoryKeeper,
        scratch: Option<OwnedFd>,
    ) -> io::Result<Self> {
        Ok(Self {
            disk: DiskWatch::new(&limits, scratch)?,
            memory: Memory::new(level, limits, keeper),
            limits,
            keeper,
        })
    }

    /// Time until the next look.
    pub(super) fn due_in(&self) -> Duration {
        self.disk.due_in().min(self.memory.due_in())
    }

    /// Runs the checks that are due; returns the limit that is broken.
    pub(super) fn look(&mut self) -> Option<Broken> {
        if self.memory.is_passed() {
            return Some(Broken::Memory);
        }
        self.disk.look()
    }

    /// Checks at the end of a command: the peak of its largest process, which may have existed only between two checks, and the
    /// disk.
    pub(super) fn look_at_end(&mut self, peak_bytes: u64) -> Option<Broken> {
        if self.was_passed_by(peak_bytes) {
            return Some(Broken::Memory);
        }
        self.disk.look_at_end()
    }

    /// Records that everything was killed because this limit was broken.
    pub(super) fn start_over(&mut self, broken: Broken) {
        match broken {
            Broken::Disk => self.disk.start_over(),
            Broken::Memory => {}
        }
    }

    /// Maximum size to which the next command may grow a file.
    pub(super) fn file_bytes(&mut self) -> u64 {
        if self.disk.allows_writing() {
            self.limits.file_bytes
        } else {
            0
        }
    }

    /// Whether a process with this peak memory passed the limit, unless the kernel enforces it.
    pub(super) fn was_passed_by(&self, peak_bytes: u64) -> bool {
        self.keeper != MemoryKeeper::Kernel && peak_bytes > self.limits.memory_bytes
    }
}
