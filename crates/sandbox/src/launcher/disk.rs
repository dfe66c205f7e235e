//! The disk limit, enforced by measuring the files in the run's folders and the deleted files that its processes hold open.
//!
//! A measurement walks the folders while the run changes them. A run that moves its files during a walk can hide them from it.
//! The file system's free space reveals that: if it has shrunk by more than the run had left, and the walk does not find the
//! difference, the run's processes are stopped during a second walk.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::fs::{CWD, Mode, OFlags, fstat, fstatvfs, openat};

use super::{
    open_files::{self, Held, Thoroughness},
    processor_time, procs,
    stopped::{PromptLook, Stopped},
};
use crate::{
    types::Limits,
    wire::Broken,
    workdir::{Survey, Total, survey},
};

/// Longest and shortest time between two checks.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_millis(10));
/// Assumed maximum growth, in bytes per second.
const FASTEST_GROWTH: u64 = 4 << 30;
/// A check uses at most one part in this many of the processor's time. This counts its CPU time, not the clock: on a busy
/// machine, a check that waited for the processor must not delay the next one.
const SHARE: u32 = 10;
/// Share while the file system loses more space than the run has left.
const SHARE_UNDER_PRESSURE: u32 = 3;
/// Longest time for which the last reading of the processes' descriptors is reused while the file system loses no space.
const DESCRIPTORS_KEPT: Duration = Duration::from_secs(2);
/// Consecutive checks that found something unreadable or moved, after which the run's processes are stopped for one.
const UNSETTLED: u32 = 8;
/// Shortest time between two checks with stopped processes, and from an incomplete check to the next.
const STOP_INTERVALS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(50));
/// Part of the limit that the file system may lose beyond the run's remaining space: others write, too.
const TOLERANCE: u64 = 16;
/// Consecutive checks that missed something although nothing moved, after which the possibly hidden space counts.
const BLIND: u32 = 2;
/// Consecutive walks while the processes are stopped. A process that was inside of a system call finishes it first, and may
/// remove or move an entry that a walk is about to enter. It does so once.
const STANDING_WALKS: u32 = 8;
/// Part of the limit by which a run may exceed it and still write. Nothing is killed for bytes that existed before a command, and
/// each command may add some before it is killed: without a bound they add up.
const OVERSHOOT: u64 = 4;

/// The run's disk use, and the time of the next check.
pub(super) struct DiskWatch {
    work: OwnedFd,
    scratch: Option<OwnedFd>,
    device: u64,
    limit: Total,
    /// Use after the limit was broken and everything was killed: a run over its limit may still run a command that deletes.
    baseline: Total,
    /// The most that a file can be grown to.
    file_bytes: u64,
    /// The last known use.
    used: Total,
    /// The file system's free space at the last check.
    free: Total,
    /// Use and free space at the last complete check.
    settled: (Total, Total),
    /// Bytes in deleted files that are open, with the time and the free space when they were read.
    held: Option<(u64, Instant, Total)>,
    /// Whether the folders were measured since the sandbox was opened.
    begun: bool,
    unsettled: u32,
    blind: u32,
    interval: Duration,
    glanced: Instant,
    looked: Instant,
    cost: Duration,
    /// The end of the last check with stopped processes.
    stopped: Option<Instant>,
    stop_cost: Duration,
}

impl DiskWatch {
    /// Watches the current directory, and the scratch folder if there is one.
    pub(super) fn new(limits: &Limits, scratch: Option<OwnedFd>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let work = openat(CWD, ".", flags, Mode::empty())?;
        let free = free_of(&work);
        let now = Instant::now();
        let mut watch = Self {
            device: open_files::device_of(&fstat(&work)?),
            work,
            scratch,
            limit: Total {
                bytes: limits.disk_bytes,
                entries: limits.disk_entries,
            },
            baseline: Total::default(),
            file_bytes: limits.file_bytes,
            used: Total::default(),
            free,
            settled: (Total::default(), free),
            held: None,
            begun: false,
            unsettled: 0,
            blind: 0,
            interval: INTERVALS.0,
            glanced: now,
            looked: now,
            cost: Duration::ZERO,
            stopped: None,
            stop_cost: Duration::ZERO,
        };
        watch.glance();
        Ok(watch)
    }

    /// Time until the next reading of the file system's free space.
    pub(super) fn due_in(&self) -> Duration {
        self.interval.saturating_sub(self.glanced.elapsed())
    }

    /// Checks the use, if it is due.
    pub(super) fn look(&mut self) -> Option<Broken> {
        if !self.due_in().is_zero() {
            return None;
        }
        let overdue = self.glanced.elapsed().saturating_sub(self.interval);
        let free = self.glance();
        let rested = |share: u32| self.looked.elapsed() >= self.cost * share;
        let pressed = self.is_pressed(self.free, free);
        if !(rested(SHARE) || pressed && rested(SHARE_UNDER_PRESSURE)) {
            return None;
        }
        self.look_now(|watch| watch.judge(PromptLook::begin(overdue, || pressed)))
    }

    /// Whether the file system has lost more between two times than the run had left, so that the run may be over its limit.
    fn is_pressed(&self, then: Total, now: Total) -> bool {
        then.less(now).passes(self.left(self.used)) || self.hides(now)
    }

    /// Measures the folders at the end of a command, unless the last measurement was expensive and recent. It always measures if
    /// the run is or may be over its limit: otherwise the next command, which may be there to delete, would be killed for data
    /// that this one added.
    pub(super) fn look_at_end(&mut self) -> Option<Broken> {
        let free = free_of(&self.work);
        let may_be_over = self.used.passes(self.limit) || self.is_pressed(self.free, free);
        if !may_be_over && self.looked.elapsed() < self.cost * SHARE {
            return None;
        }
        self.free = free;
        self.look_now(|watch| {
            let found = watch.walk(watch.most_entries(), &mut |_inode| {});
            watch.note(found);
            // Freed space may not be filled again.
            watch.baseline = watch.baseline.min(watch.used);
            watch.is_over(watch.used) && watch.judge_standing_still()
        })
    }

    /// Measures the remaining files after the limit was broken and everything was killed: the next command starts from that
    /// figure.
    pub(super) fn start_over(&mut self) {
        let found = self.walk(u64::MAX, &mut |_inode| {});
        self.free = free_of(&self.work);
        self.baseline = found.total;
        self.used = found.total;
        self.settled = (found.total, self.free);
        self.held = None;
        (self.unsettled, self.blind) = (0, 0);
    }

    /// Whether the next command may write. A run that is far over its limit may only delete.
    pub(super) fn allows_writing(&mut self) -> bool {
        let most = self.limit.bytes.saturating_add(self.limit.bytes / OVERSHOOT);
        if self.used.bytes > most {
            let found = self.measure(&mut |_watch| {});
            self.note(found);
        }
        self.used.bytes <= most
    }

    /// Reads the free space, and computes when to read it again: sooner, the less may be left.
    fn glance(&mut self) -> Total {
        let free = free_of(&self.work);
        // Space that others freed must not hide the run's use.
        self.settled.1 = self.settled.1.max(free);
        let lost = self.settled.1.less(free);
        let at_most = self.used.max(Total {
            bytes: self.settled.0.bytes.saturating_add(lost.bytes),
            entries: 0,
        });
        let (longest, shortest) = INTERVALS;
        let milliseconds = self.left(at_most).bytes.saturating_mul(1_000) / FASTEST_GROWTH;
        self.interval = Duration::from_millis(milliseconds).clamp(shortest, longest);
        self.glanced = Instant::now();
        free
    }

    fn look_now(&mut self, judge: impl Fn(&mut Self) -> bool) -> Option<Broken> {
        let began = processor_time();
        let broken = judge(self).then_some(Broken::Disk);
        self.looked = Instant::now();
        self.cost = processor_time().saturating_sub(began);
        broken
    }

    /// Measures, and returns whether the limit is broken.
    fn judge(&mut self, mut look: PromptLook) -> bool {
        let since = self.free;
        self.free = free_of(&self.work);
        let found = self.measure(&mut |watch| look.go_on(|| watch.is_pressed(since, free_of(&watch.work))));
        self.note(found);
        if self.is_over(self.used) {
            // Files that move during a walk may have been counted twice.
            return self.judge_standing_still();
        }
        let interval = if self.blind == 0 {
            STOP_INTERVALS.0.max(self.stop_cost * SHARE)
        } else {
            STOP_INTERVALS.1.max(self.stop_cost)
        };
        let suspect = self.hides(self.free) || self.unsettled >= UNSETTLED;
        if !suspect {
            self.blind = 0;
        }
        let rested = self.stopped.is_none_or(|then| then.elapsed() >= interval);
        suspect && rested && self.judge_standing_still()
    }

    /// Records the result of a walk as the use of the run.
    fn note(&mut self, found: Survey) {
        if !found.complete {
            self.unsettled = self.unsettled.saturating_add(1);
            // Keep the known use; the walk may have found more.
            self.used = self.used.max(found.total);
            return;
        }
        self.unsettled = 0;
        self.used = found.total;
        if !self.begun {
            // Use that the lost free space does not explain existed before the first process.
            self.begun = true;
            self.settled.0 = found.total.less(self.settled.1.less(self.free));
        }
    }

    /// Whether the file system has lost clearly more than the run had left, since the last complete check.
    fn hides(&self, free: Total) -> bool {
        let (used, free_then) = self.settled;
        let left = self.left(used);
        // Ignores entries: some file systems allocate them from free space.
        let lost = free_then.less(free);
        lost.bytes > left.bytes.saturating_add(self.limit.bytes / TOLERANCE)
    }

    /// Stops the run's processes, measures, and returns whether the limit is broken.
    fn judge_standing_still(&mut self) -> bool {
        let began = Instant::now();
        let standing = Stopped::stop(procs::living);
        self.free = free_of(&self.work);
        let mut held = self.read_held(Thoroughness::Everything);
        let mut walk = || {
            self.walk(self.most_entries(), &mut |inode| {
                // The inode has a name: another link, or a new file that looks like the deleted one.
                held.mapped.remove(&inode);
            })
        };
        let mut found = walk();
        for _ in 1..STANDING_WALKS {
            if found.complete {
                break;
            }
            found = walk();
        }
        found.total.bytes = found.total.bytes.saturating_add(held.bytes);
        let all_seen = found.complete && standing.all && held.all_seen;
        drop(standing);
        self.stopped = Some(Instant::now());
        self.stop_cost = began.elapsed();
        let files = u64::try_from(held.mapped.len()).unwrap_or(u64::MAX);
        let mut at_most = found.total;
        at_most.bytes = at_most
            .bytes
            .saturating_add(files.saturating_mul(self.file_bytes));
        if all_seen && (files == 0 || !self.is_over(at_most)) {
            self.used = found.total;
            self.settled = (at_most, self.free);
            (self.unsettled, self.blind) = (0, 0);
        } else {
            self.used = self.used.max(found.total);
            // Writes of others look like hidden files. If no space is missing, nothing is hidden.
            self.blind += u32::from(self.hides(self.free));
        }
        self.is_over(self.used) || self.blind >= BLIND
    }

    /// Space left at this use.
    fn left(&self, used: Total) -> Total {
        self.limit.max(self.baseline).less(used)
    }

    fn is_over(&self, used: Total) -> bool {
        used.passes(self.limit.max(self.baseline))
    }

    /// Measures the folders and the deleted files. Calls `between` after each file.
    fn measure(&mut self, between: &mut dyn FnMut(&Self)) -> Survey {
        let mut found = self.walk(self.most_entries(), &mut |_inode| between(self));
        between(self);
        let known = self.held.filter(|(_, read, free_then)| {
            // A deleted file only grows by space that the file system loses.
            let lost = free_then.less(self.free).bytes;
            read.elapsed() < DESCRIPTORS_KEPT && lost < self.limit.bytes / (4 * TOLERANCE)
        });
        let bytes = known.map_or_else(
            || self.read_held(Thoroughness::Descriptors).bytes,
            |known| known.0,
        );
        found.total.bytes = found.total.bytes.saturating_add(bytes);
        found
    }

    fn read_held(&mut self, thoroughness: Thoroughness) -> Held {
        let processes = procs::living();
        let all_listed = processes.is_ok();
        let mut held = open_files::deleted(&processes.unwrap_or_default(), self.device, thoroughness);
        held.all_seen &= all_listed;
        self.held = Some((held.bytes, Instant::now(), self.free));
        held
    }

    /// Entries after which a walk may stop.
    fn most_entries(&self) -> u64 {
        self.limit.max(self.baseline).entries
    }

    fn walk(&self, stop_at: u64, met: &mut dyn FnMut(u64)) -> Survey {
        let mut found = Survey::default();
        for folder in std::iter::once(&self.work).chain(&self.scratch) {
            found.add(survey(folder.as_fd(), stop_at, met));
        }
        found
    }
}

/// Free space of the file system of a folder, including reserved space.
fn free_of(folder: &OwnedFd) -> Total {
    fstatvfs(folder).map_or(Total::default(), |stat| Total {
        bytes: stat.f_bfree.saturating_mul(stat.f_frsize),
        entries: stat.f_ffree,
    })
}
