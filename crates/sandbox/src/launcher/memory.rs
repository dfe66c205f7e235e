//! Measures the memory of a sandbox: that of its processes, and kernel memory that is charged to no process.
//!
//! If a control group enforces the limit, only memory that the group does not count is measured.

use std::{
    fs::{self, File},
    io::Read,
    time::{Duration, Instant},
};

use rustix::fs::statvfs;

use super::{
    processor_time,
    procs::{self, Process},
    sockets::Sockets,
    stopped::PromptLook,
};
use crate::{
    types::{Level, Limits},
    wire::MemoryKeeper,
};

/// Time between two checks while little memory is in use, and while much is.
const CALM: Duration = Duration::from_millis(250);
const CLOSE: Duration = Duration::from_millis(10);
/// Time between two checks that are themselves expensive. Only the run can make them expensive.
const DEAR: Duration = Duration::from_secs(2);
/// A check uses at most one part in this many of the processor's time, up to `DEAR`.
const SHARE: u32 = 10;
/// Maximum CPU time of one check. The remaining processes then count with the most that they may have.
const BUDGET: Duration = Duration::from_secs(1);

/// Descriptors of a run that are not counted as memory, and their maximum number.
const FREE_DESCRIPTORS: u64 = 1_024;
const MOST_DESCRIPTORS: u64 = 32_768;
/// Minimum size of a pipe when its user has many, in bytes. Other descriptors hold less, except sockets.
const DESCRIPTOR: u64 = 8 << 10;
/// Mappings of a process that are not counted, the size of one in the kernel, and the most that a process has by default.
const FREE_MAPPINGS: u64 = 1_024;
const MAPPING: u64 = 256;
const MOST_MAPPINGS: u64 = 65_530;
/// The size in the kernel of a file in a memory file system, in bytes.
const MEMORY_FILE: u64 = 1 << 10;
/// Send buffer of a socket if the host does not report it, in bytes.
const SEND_BUFFER: u64 = 212_992;
/// Memory file systems of a sandbox with a private root.
const MEMORY_FILE_SYSTEMS: [&str; 2] = ["/tmp", "/dev/shm"];

/// Figures that a living process shows of its memory.
struct ProcessMemory {
    process: Process,
    /// The process's folder in `/proc`, or that of one of its threads where the first one has ended.
    folder: String,
    resident: u64,
    swapped: u64,
    page_tables: u64,
}

/// The checks of memory.
pub(super) struct Memory {
    keeper: MemoryKeeper,
    level: Level,
    limits: Limits,
    sockets: Option<Sockets>,
    /// Maximum bytes that one socket holds for data that it sent.
    send_buffer: u64,
    used: u64,
    looked: Instant,
    cost: Duration,
}

impl Memory {
    /// Must run before the system call filter is installed, and in the sandbox's network namespace if it has one.
    pub(super) fn new(level: Level, limits: Limits, keeper: MemoryKeeper) -> Self {
        // The kernel accepts one more piece of data than fits.
        let send_buffer = number_in("/proc/sys/net/core/wmem_default").unwrap_or(SEND_BUFFER) / 4 * 5;
        let sockets = match level {
            Level::Namespaces => Sockets::open(send_buffer).ok(),
            // The host's sockets are not the run's.
            Level::Landlock | Level::None => None,
        };
        Self {
            keeper,
            level,
            limits,
            sockets,
            send_buffer,
            used: 0,
            looked: Instant::now(),
            cost: Duration::ZERO,
        }
    }

    /// Time until the next check.
    pub(super) fn due_in(&self) -> Duration {
        self.interval().saturating_sub(self.looked.elapsed())
    }

    fn interval(&self) -> Duration {
        let interval = if self.used > self.limits.memory_bytes / 4 {
            CLOSE
        } else {
            CALM
        };
        interval.max(self.cost * SHARE).min(DEAR)
    }

    /// Checks the memory, if it is due; returns whether the limit is passed.
    pub(super) fn is_passed(&mut self) -> bool {
        if !self.due_in().is_zero() {
            return false;
        }
        let began = processor_time();
        let most = match self.keeper {
            MemoryKeeper::Kernel => {
                self.used = self.sockets.as_ref().map_or(0, Sockets::held_by_netlink);
                self.limits.memory_bytes / 10
            }
            MemoryKeeper::Watch => {
                let overdue = self.looked.elapsed().saturating_sub(self.interval());
                let mut look = PromptLook::begin(overdue, || true);
                // If the processes cannot be read, keep the last figure.
                if let Ok(processes) = procs::living() {
                    self.used = self.in_use(&processes, &mut look);
                }
                self.limits.memory_bytes
            }
        };
        self.looked = Instant::now();
        self.cost = processor_time().saturating_sub(began);
        self.used > most
    }

    /// Bytes used by these processes, and by the kernel for them. Exceeds the limit only if the limit is passed.
    fn in_use(&self, processes: &[Process], look: &mut PromptLook) -> u64 {
        let limit = self.limits.memory_bytes;
        let end = processor_time() + BUDGET;
        let shown: Vec<ProcessMemory> = processes
            .iter()
            .filter_map(|process| {
                look.go_on(|| true);
                show(process)
            })
            .collect();
        let held = self.held_for(&shown, end);
        let whole: u64 = shown.iter().map(ProcessMemory::whole).sum();
        // Shared pages count once. Finding them is much more expensive than knowing that they do not matter.
        if held + whole <= limit || held > limit {
            return held + whole;
        }
        let of_each = shown.iter().map(|shown| {
            look.go_on(|| true);
            if processor_time() < end {
                of_process(shown)
            } else {
                shown.whole()
            }
        });
        held + of_each.sum::<u64>()
    }

    /// Bytes that the kernel holds for these processes and for the sandbox as a whole. Stops once that exceeds the limit. Counts
    /// mappings until this thread has used processor time up to `end`.
    fn held_for(&self, processes: &[ProcessMemory], end: Duration) -> u64 {
        let limit = self.limits.memory_bytes;
        let mut held = self.sockets.as_ref().map_or(0, Sockets::held);
        if self.level == Level::Namespaces {
            held += MEMORY_FILE_SYSTEMS.into_iter().map(in_memory_files).sum::<u64>();
        }
        let open: Vec<u64> = processes
            .iter()
            .map(|shown| {
                let most = u64::from(self.limits.open_files);
                open_descriptors(&shown.folder).unwrap_or_else(|| shown.most_or_none(most))
            })
            .collect();
        let descriptors: u64 = open.iter().sum();
        if descriptors > MOST_DESCRIPTORS {
            return u64::MAX / 2;
        }
        held += descriptors.saturating_sub(FREE_DESCRIPTORS) * DESCRIPTOR;
        if self.sockets.is_none() && descriptors * self.send_buffer > limit / 10 {
            held += std::iter::zip(processes, open)
                .map(|(shown, open)| open_sockets(&shown.folder).unwrap_or_else(|| shown.most_or_none(open)))
                .sum::<u64>()
                * self.send_buffer;
        }
        let mut mapped = processes.iter();
        if processes.len() as u64 * MOST_MAPPINGS * MAPPING > limit / 10 {
            while held <= limit
                && let Some(shown) = mapped.next()
            {
                held += if processor_time() < end {
                    let most = MOST_MAPPINGS * MAPPING;
                    mappings(&shown.folder).unwrap_or_else(|| shown.most_or_none(most))
                } else {
                    MOST_MAPPINGS * MAPPING
                };
            }
        }
        held
    }
}

impl ProcessMemory {
    /// Memory of the process, in bytes, with shared pages counted in full.
    const fn whole(&self) -> u64 {
        self.resident + self.swapped + self.page_tables
    }

    /// Amount to count for a process with an unreadable figure: the maximum it may have, or nothing if it has ended since it was
    /// found. Many processes of a run may end during one check.
    fn most_or_none(&self, most: u64) -> u64 {
        show(&self.process).map_or(0, |_| most)
    }
}

/// Memory of some processes, in bytes.
pub(super) fn of_processes(processes: &[Process]) -> u64 {
    processes
        .iter()
        .filter_map(show)
        .map(|shown| of_process(&shown))
        .sum()
}

/// Memory of a process, in bytes: shared pages in proportion, or in full if the process denies access to that figure. Page tables
/// are its own.
fn of_process(shown: &ProcessMemory) -> u64 {
    proportional(&shown.folder).map_or(shown.whole(), |pages| pages + shown.page_tables)
}

/// The folder in `/proc` with the figures of a living process.
pub(super) fn folder_of(process: &Process) -> Option<String> {
    show(process).map(|shown| shown.folder)
}

/// Finds the folder with the figures of a living process. The folder of a process with an ended first thread shows none, so a
/// thread's folder is used.
fn show(process: &Process) -> Option<ProcessMemory> {
    let own = format!("/proc/{}", process.pid.as_raw_nonzero());
    if let Some(shown) = status(*process, own.clone()) {
        return Some(shown);
    }
    // Threads come and go while they are read.
    for _ in 0..8 {
        if !procs::one(process.pid).is_some_and(|now| now.is_alive()) {
            return None;
        }
        let threads = fs::read_dir(format!("{own}/task")).ok()?;
        let mut folders = threads.flatten().filter_map(|thread| {
            let name = thread.file_name();
            status(*process, format!("{own}/task/{}", name.to_str()?))
        });
        if let Some(shown) = folders.next() {
            return Some(shown);
        }
    }
    None
}

/// Reads `status`, which is world-readable. An ended process has no memory lines there.
fn status(process: Process, folder: String) -> Option<ProcessMemory> {
    let text = procs::read_text(format!("{folder}/status")).ok()?;
    Some(ProcessMemory {
        process,
        resident: kibibytes(&text, "VmRSS:")?,
        swapped: kibibytes(&text, "VmSwap:").unwrap_or(0),
        page_tables: kibibytes(&text, "VmPTE:").unwrap_or(0),
        folder,
    })
}

fn proportional(folder: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("{folder}/smaps_rollup")).ok()?;
    Some(kibibytes(&text, "Pss:")? + kibibytes(&text, "SwapPss:").unwrap_or(0))
}

/// The value of a line "name: number kB", in bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number * 1_024)
}

fn number_in(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Counts the open descriptors. Newer kernels report the number as the size of the folder, even for processes that deny access to
/// it.
fn open_descriptors(folder: &str) -> Option<u64> {
    let path = format!("{folder}/fd");
    match fs::metadata(&path).ok()?.len() {
        0 => Some(fs::read_dir(&path).ok()?.count() as u64),
        count => Some(count),
    }
}

/// Counts the descriptors that are sockets.
fn open_sockets(folder: &str) -> Option<u64> {
    let entries = fs::read_dir(format!("{folder}/fd")).ok()?.flatten();
    let is_socket = |entry: &fs::DirEntry| {
        fs::read_link(entry.path())
            .is_ok_and(|target| target.as_os_str().as_encoded_bytes().starts_with(b"socket:"))
    };
    Some(entries.filter(is_socket).count() as u64)
}

/// Bytes that the kernel holds for the mappings of a process beyond those of an ordinary one. None where they cannot be read.
fn mappings(folder: &str) -> Option<u64> {
    let mut buffer = vec![0; 64 << 10];
    let mut count = 0;
    let mut maps = File::open(format!("{folder}/maps")).ok()?;
    while let Ok(length @ 1..) = maps.read(&mut buffer) {
        let piece = buffer.get(..length).unwrap_or_default();
        count += piece.split(|byte| *byte == b'\n').count() as u64 - 1;
    }
    Some(count.saturating_sub(FREE_MAPPINGS) * MAPPING)
}

/// Bytes in a memory file system, with the files themselves.
fn in_memory_files(path: &str) -> u64 {
    statvfs(path).map_or(0, |used| {
        let bytes = used.f_blocks.saturating_sub(used.f_bfree) * used.f_frsize;
        bytes + used.f_files.saturating_sub(used.f_ffree) * MEMORY_FILE
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{Pid, getpid};

    use super::*;

    #[test]
    fn figures_are_read_by_their_whole_names() {
        let text = "Name:\ta\nVmRSS:\t    1024 kB\nVmPTE:\t  4 kB\nVmSwap:\t      0 kB\n";
        assert_eq!(kibibytes(text, "VmRSS:"), Some(1 << 20));
        assert_eq!(kibibytes(text, "VmPTE:"), Some(4_096));
        assert_eq!(kibibytes(text, "Vm:"), None);
        assert_eq!(kibibytes("VmRSS: x kB\n", "VmRSS:"), None);
    }

    #[test]
    fn this_process_shows_its_memory_and_its_descriptors() {
        let process = procs::one(getpid()).unwrap();
        let shown = status(process, "/proc/self".to_owned()).unwrap();
        assert!(of_process(&shown) > 100 << 10);
        let one = open_descriptors("/proc/self").unwrap();
        let held = File::open("/dev/null").unwrap();
        let two = open_descriptors("/proc/self").unwrap();
        assert!(two > one || one > 3, "{one} {two} {held:?}");
        assert!(mappings("/proc/self").unwrap() < 1 << 20);
    }

    #[test]
    fn a_process_that_has_ended_has_no_memory() {
        let process = procs::one(getpid()).unwrap();
        assert!(show(&process).is_some());
        assert_eq!(of_processes(&[]), 0);
        assert!(status(process, "/proc/0".to_owned()).is_none());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "stands for a process of a run")]
    fn a_process_that_ends_during_a_look_counts_as_nothing() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = procs::one(Pid::from_child(&child)).unwrap();
        let shown = show(&process).unwrap();
        assert_eq!(shown.most_or_none(7), 7, "a living one hides something");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(open_descriptors(&shown.folder).is_none() && mappings(&shown.folder).is_none());
        let mut memory = Memory::new(Level::None, Limits::default(), MemoryKeeper::Watch);
        memory.limits.open_files = 65_536;
        assert_eq!(memory.held_for(&[shown], processor_time() + BUDGET), 0);
    }
}
