//! Deleted files that processes hold open. They take space on the disk, and no walk of folders finds them.

use std::{
    collections::HashSet,
    ffi::CStr,
    fs,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, stat, statat, statfs},
    io::Errno,
    process::Pid,
};

use super::procs::{self, Process};

/// Parts of a process that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thoroughness {
    /// The descriptors.
    Descriptors,
    /// Also its program, its mappings, and whether descriptors are under way in its sockets.
    Everything,
}

/// Deleted files of some processes.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) bytes: u64,
    /// Files that mappings alone show, by inode. Their size cannot be seen, nor whether they have another name.
    pub(super) mapped: HashSet<u64>,
    /// Whether no process and no socket hid descriptors or mappings.
    pub(super) all_seen: bool,
}

/// Paths in `maps` that are memory, or that a run cannot write to. The host may replace its libraries at any time.
const NOT_OF_A_RUN: [&str; 5] = ["/dev/zero", "/memfd:", "/SYSV", "/usr/lib", "/lib"];
/// Folders that are in memory at some levels.
const IN_MEMORY: [&str; 2] = ["/tmp", "/dev/shm"];

/// The type of a memory file system.
const TMPFS: i128 = 0x0102_1994;
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Adds up the deleted files that the processes hold open on the device of the working directory, each once.
pub(super) fn deleted(processes: &[Process], device: u64, thoroughness: Thoroughness) -> Held {
    let mut search = Search {
        device,
        thoroughness,
        in_memory: in_memory(device),
        known: HashSet::new(),
        held: Held {
            bytes: 0,
            mapped: HashSet::new(),
            all_seen: true,
        },
    };
    for process in processes {
        search.process(process.pid);
    }
    let Search { mut held, known, .. } = search;
    held.mapped.retain(|inode| !known.contains(inode));
    held
}

/// The devices of the memory file systems that a run writes to, without the one of its working directory.
fn in_memory(working_directory: u64) -> Vec<u64> {
    IN_MEMORY
        .into_iter()
        .filter(|folder| statfs(*folder).is_ok_and(|system| i128::from(system.f_type) == TMPFS))
        .filter_map(|folder| stat(folder).ok())
        .map(|stat| device_of(&stat))
        .filter(|device| *device != working_directory)
        .collect()
}

/// The device of a file, by its number.
#[expect(
    clippy::useless_conversion,
    reason = "the width of this field differs between architectures"
)]
pub(super) fn device_of(stat: &Stat) -> u64 {
    u64::from(stat.st_dev)
}

struct Search {
    device: u64,
    thoroughness: Thoroughness,
    in_memory: Vec<u64>,
    known: HashSet<u64>,
    held: Held,
}

impl Search {
    fn process(&mut self, pid: Pid) {
        let of_process = format!("/proc/{}", pid.as_raw_nonzero());
        if self.task(&of_process) == 0 {
            // A leader that has ended has no descriptors left; its other threads still have them.
            for task in fs::read_dir(format!("{of_process}/task"))
                .into_iter()
                .flatten()
                .flatten()
            {
                if self.task(&task.path().to_string_lossy()) > 0 {
                    break;
                }
            }
        }
        if self.thoroughness == Thoroughness::Everything {
            self.memory(&of_process);
        }
    }

    /// Reads the program and the mappings. An ended thread shows no mappings, even if it was the first one.
    fn memory(&mut self, process: &str) {
        let Ok(tasks) = fs::read_dir(format!("{process}/task")) else {
            return;
        };
        let mut seen = false;
        for task in tasks.flatten() {
            // A path may be any bytes.
            let maps = procs::read_text(task.path().join("maps")).unwrap_or_default();
            if !maps.is_empty() {
                self.mappings(&maps);
                if let Ok(stat) = stat(task.path().join("exe")) {
                    self.count(&stat);
                }
                seen = true;
                break;
            }
        }
        // A process that has ended since hides nothing.
        self.held.all_seen &= seen || !Path::new(process).exists();
    }

    /// Looks at the descriptors of one task, and returns how many there are.
    fn task(&mut self, path: &str) -> usize {
        let folder = match openat(CWD, Path::new(path).join("fd"), FOLDER, Mode::empty()) {
            Ok(folder) => folder,
            Err(error) => {
                // A process may end at any moment; one that exists and cannot be read hides something.
                self.held.all_seen &= error != Errno::ACCESS;
                return 0;
            }
        };
        let Ok(mut entries) = Dir::read_from(&folder) else {
            return 0;
        };
        let mut count = 0;
        while let Some(Ok(entry)) = entries.read() {
            let name = entry.file_name();
            if name.to_bytes().first().is_some_and(u8::is_ascii_digit) {
                count += 1;
                self.descriptor(folder.as_fd(), name, path);
            }
        }
        count
    }

    fn descriptor(&mut self, folder: BorrowedFd<'_>, name: &CStr, path: &str) {
        let Ok(stat) = statat(folder, name, AtFlags::empty()) else {
            return;
        };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Socket {
            if self.thoroughness == Thoroughness::Everything {
                let info = format!("{path}/fdinfo/{}", name.to_string_lossy());
                self.held.all_seen &= !carries_descriptors(&fs::read_to_string(info).unwrap_or_default());
            }
            return;
        }
        self.count(&stat);
    }

    fn count(&mut self, stat: &Stat) {
        if stat.st_nlink == 0 && device_of(stat) == self.device && self.known.insert(stat.st_ino) {
            let bytes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
            self.held.bytes = self.held.bytes.saturating_add(bytes);
        }
    }

    /// Records mapped files, without the names by which they were opened.
    fn mappings(&mut self, maps: &str) {
        for (device, inode) in maps.lines().filter_map(mapped_deleted) {
            // Some disk file systems report a different device here than for the file itself.
            if !self.in_memory.contains(&device) {
                self.held.mapped.insert(inode);
            }
        }
    }
}

/// The device and the inode of a mapping of a deleted file, by its line in `maps`.
fn mapped_deleted(line: &str) -> Option<(u64, u64)> {
    let line = line.strip_suffix(" (deleted)")?;
    let mut fields = line.split_ascii_whitespace();
    let (major, minor) = fields.nth(3)?.split_once(':')?;
    let inode = fields.next()?.parse().ok()?;
    let path = fields.next()?;
    if NOT_OF_A_RUN.iter().any(|start| path.starts_with(start)) {
        return None;
    }
    let number = |text| u32::from_str_radix(text, 16).ok();
    Some((rustix::fs::makedev(number(major)?, number(minor)?), inode))
}

/// Whether descriptors are in flight in a socket, by its `fdinfo`.
fn carries_descriptors(info: &str) -> bool {
    info.lines()
        .find_map(|line| line.strip_prefix("scm_fds:"))
        .is_some_and(|count| count.trim() != "0")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_mapping_counts_if_its_file_is_deleted_and_on_a_disk() {
        let line = "7f00-8f00 r--p 00002000 fe:10 4242                     /work/a b (deleted)";
        let device = rustix::fs::makedev(0xfe, 0x10);
        assert_eq!(mapped_deleted(line), Some((device, 4_242)));
        assert_eq!(mapped_deleted(line.trim_end_matches(" (deleted)")), None);
        for path in ["/dev/zero", "/memfd:x", "/SYSV00000000", "/usr/lib/libc.so.6"] {
            assert_eq!(mapped_deleted(&line.replace("/work/a b", path)), None, "{path}");
        }
    }

    #[test]
    fn a_socket_carries_descriptors_if_it_says_so() {
        assert!(carries_descriptors("pos:\t0\nscm_fds: 2\n"));
        assert!(!carries_descriptors("pos:\t0\nscm_fds: 0\n"));
        assert!(!carries_descriptors("pos:\t0\n"));
    }

    proptest! {
        #[test]
        fn no_line_confuses_the_reader(line in "\\PC{0,80}") {
            let _any_answer_will_do = mapped_deleted(&format!("{line} (deleted)"));
            let _any_answer_will_do = carries_descriptors(&line);
        }
    }
}
