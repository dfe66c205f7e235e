//! Limits that the kernel does not keep here: looked at every quarter of a second while anything runs.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::{memory::Memory, processor_time};
use crate::{
    types::{Level, Limits},
    wire::{Broken, MemoryKeeper},
    workdir::{Total, measure},
};

const INTERVAL: Duration = Duration::from_millis(250);
/// A look costs at most one part in this many of the processor's time. Its own time counts, not that of the clock: on
/// a busy machine a look that had to wait for its turn must not put off the next one.
const SHARE: u32 = 10;

/// What is watched, and when next.
pub(super) struct Watch {
    work: OwnedFd,
    scratch: Option<OwnedFd>,
    limits: Limits,
    keeper: MemoryKeeper,
    memory: Memory,
    /// What was there when the command started: a run over its limit may still run a command that deletes.
    baseline: Total,
    looked: Instant,
    cost: Duration,
}

impl Watch {
    /// Watches the current directory, and the scratch folder where there is one.
    pub(super) fn new(
        level: Level,
        limits: Limits,
        keeper: MemoryKeeper,
        scratch: Option<OwnedFd>,
    ) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let work = openat(CWD, ".", flags, Mode::empty())?;
        let looked = Instant::now();
        Ok(Self {
            work,
            scratch,
            limits,
            keeper,
            memory: Memory::new(level, limits, keeper),
            baseline: Total::default(),
            looked,
            cost: Duration::ZERO,
        })
    }

    /// Time until the next look.
    pub(super) fn due_in(&self) -> Duration {
        self.disk_due_in().min(self.memory.due_in())
    }

    fn disk_due_in(&self) -> Duration {
        INTERVAL
            .max(self.cost * SHARE)
            .saturating_sub(self.looked.elapsed())
    }

    /// Looks, if it is time; says which limit is broken.
    pub(super) fn look(&mut self) -> Option<Broken> {
        if self.memory.is_passed() {
            return Some(Broken::Memory);
        }
        if !self.disk_due_in().is_zero() {
            return None;
        }
        let began = processor_time();
        let broken = self.disk_broken();
        self.looked = Instant::now();
        self.cost = processor_time().saturating_sub(began);
        broken
    }

    /// Looks at the end of a command: at what its largest process had, which may have come and gone between two looks,
    /// and at the disk, unless the last look was dear and is not long ago.
    pub(super) fn look_at_end(&mut self, peak_bytes: u64) -> Option<Broken> {
        if self.was_passed_by(peak_bytes) {
            return Some(Broken::Memory);
        }
        if self.looked.elapsed() < self.cost * SHARE {
            return None;
        }
        let began = processor_time();
        let broken = self.disk_broken();
        self.looked = Instant::now();
        self.cost = processor_time().saturating_sub(began);
        if broken.is_some() {
            // The next command starts from here.
            self.baseline = self.measure();
        }
        broken
    }

    /// Whether a process that had so much memory at its peak passed the limit, unless the kernel keeps it.
    pub(super) fn was_passed_by(&self, peak_bytes: u64) -> bool {
        self.keeper != MemoryKeeper::Kernel && peak_bytes > self.limits.memory_bytes
    }

    fn disk_broken(&mut self) -> Option<Broken> {
        let now = self.measure();
        let over = |now: u64, limit: u64, baseline: u64| now > limit.max(baseline);
        let broken = over(now.bytes, self.limits.disk_bytes, self.baseline.bytes)
            || over(now.entries, self.limits.disk_entries, self.baseline.entries);
        if broken {
            return Some(Broken::Disk);
        }
        // What was deleted may not be filled again.
        self.baseline.bytes = self.baseline.bytes.min(now.bytes);
        self.baseline.entries = self.baseline.entries.min(now.entries);
        None
    }

    fn measure(&self) -> Total {
        let stop_at = self.limits.disk_entries.max(self.baseline.entries);
        let mut total = Total::default();
        for folder in std::iter::once(&self.work).chain(&self.scratch) {
            // A run that moves folders about while they are walked is looked at again next time.
            let part = measure(folder.as_fd(), stop_at).unwrap_or_default();
            total.bytes += part.bytes;
            total.entries += part.entries;
        }
        total
    }
}
