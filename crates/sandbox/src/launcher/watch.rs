//! Limits that the kernel does not keep here: looked at while anything runs.

use std::{
    io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::{
    process::getpid,
    time::{ClockId, clock_gettime},
};

use super::{disk::DiskWatch, procs};
use crate::{
    types::Limits,
    wire::{Broken, MemoryKeeper},
};

const INTERVAL: Duration = Duration::from_millis(250);
/// A look costs at most one part in this many of the processor's time. Its own time counts, not that of the clock: on
/// a busy machine a look that had to wait for its turn must not put off the next one.
pub(super) const SHARE: u32 = 10;

/// The watched limits, and the time of the next look.
pub(super) struct Watch {
    disk: DiskWatch,
    limits: Limits,
    memory: MemoryKeeper,
    looked: Instant,
    cost: Duration,
}

impl Watch {
    /// Watches the current directory, and the scratch folder where there is one.
    pub(super) fn new(limits: Limits, memory: MemoryKeeper, scratch: Option<OwnedFd>) -> io::Result<Self> {
        Ok(Self {
            disk: DiskWatch::new(&limits, scratch)?,
            limits,
            memory,
            looked: Instant::now(),
            cost: Duration::ZERO,
        })
    }

    /// Time until the next look.
    pub(super) fn due_in(&self) -> Duration {
        self.disk.due_in().min(self.memory_due_in())
    }

    /// Looks at what it is time to look at; says which limit is broken.
    pub(super) fn look(&mut self) -> Option<Broken> {
        self.look_at_memory().or_else(|| self.disk.look())
    }

    /// Looks at the end of a command: at what its largest process had, which may have come and gone between two looks,
    /// and at the disk.
    pub(super) fn look_at_end(&mut self, peak_bytes: u64) -> Option<Broken> {
        if self.was_passed_by(peak_bytes) {
            return Some(Broken::Memory);
        }
        self.disk.look_at_end()
    }

    /// Whether a process that had so much memory at its peak passed the limit, unless the kernel keeps it.
    pub(super) fn was_passed_by(&self, peak_bytes: u64) -> bool {
        self.memory != MemoryKeeper::Kernel && peak_bytes > self.limits.memory_bytes
    }

    fn memory_due_in(&self) -> Duration {
        if self.memory == MemoryKeeper::Kernel {
            return Duration::MAX;
        }
        INTERVAL
            .max(self.cost * SHARE)
            .saturating_sub(self.looked.elapsed())
    }

    fn look_at_memory(&mut self) -> Option<Broken> {
        if !self.memory_due_in().is_zero() {
            return None;
        }
        let began = processor_time();
        let used = procs::memory(&procs::descendants(&procs::all(), getpid()));
        self.looked = Instant::now();
        self.cost = processor_time().saturating_sub(began);
        (used > self.limits.memory_bytes).then_some(Broken::Memory)
    }
}

/// Time of the processor that this thread, the only one, has used.
pub(super) fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(used.tv_sec).unwrap_or(0),
        u32::try_from(used.tv_nsec).unwrap_or(0),
    )
}
