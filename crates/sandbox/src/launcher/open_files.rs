//! Deleted files that processes hold open. They take space on the disk, and no walk of folders finds them.

use std::{
    collections::HashSet,
    ffi::CStr,
    fs,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, statat},
    io::Errno,
    process::Pid,
};

use super::procs::Process;

/// Parts of a process that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thoroughness {
    /// The descriptors.
    Descriptors,
    /// Also its mappings, and whether descriptors are under way in its sockets.
    Everything,
}

/// Deleted files of some processes.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) bytes: u64,
    /// Whether no process and no socket hid descriptors.
    pub(super) all_seen: bool,
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Adds up the deleted files of a device that the processes hold open, each once.
pub(super) fn deleted(processes: &[Process], device: u64, thoroughness: Thoroughness) -> Held {
    let mut search = Search {
        device,
        thoroughness,
        known: HashSet::new(),
        held: Held {
            bytes: 0,
            all_seen: true,
        },
    };
    for process in processes {
        search.process(process.pid);
    }
    search.held
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
    known: HashSet<u64>,
    held: Held,
}

impl Search {
    fn process(&mut self, pid: Pid) {
        let of_process = format!("/proc/{}", pid.as_raw_nonzero());
        if self.task(&of_process) == 0 {
            // A leader that has ended has no descriptors any more; its other threads still have them.
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
            self.mappings(&of_process);
        }
    }

    /// Looks at the descriptors of one task, and returns how many there are.
    fn task(&mut self, path: &str) -> usize {
        let folder = match openat(CWD, Path::new(path).join("fd"), FOLDER, Mode::empty()) {
            Ok(folder) => folder,
            Err(error) => {
                // A process may end at any moment; one that is there and cannot be read hides something.
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
        if stat.st_nlink == 0 && device_of(&stat) == self.device && self.known.insert(stat.st_ino) {
            let bytes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
            self.held.bytes = self.held.bytes.saturating_add(bytes);
        }
    }

    /// Adds what is mapped of deleted files that no descriptor shows. How large such a file is cannot be seen.
    fn mappings(&mut self, process: &str) {
        let Ok(maps) = fs::read_to_string(format!("{process}/maps")) else {
            return;
        };
        for (inode, bytes) in maps.lines().filter_map(|line| mapped_deleted(line, self.device)) {
            if self.known.insert(inode) {
                self.held.bytes = self.held.bytes.saturating_add(bytes);
                self.held.all_seen = false;
            }
        }
    }
}

/// The inode and length of a mapping of a deleted file of this device, by its line in `maps`.
fn mapped_deleted(line: &str, device: u64) -> Option<(u64, u64)> {
    let line = line.strip_suffix(" (deleted)")?;
    let mut fields = line.split_ascii_whitespace();
    let (first, last) = fields.next()?.split_once('-')?;
    let (major, minor) = fields.nth(2)?.split_once(':')?;
    let inode = fields.next()?.parse().ok()?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    if rustix::fs::makedev(number(major)?, number(minor)?) != device {
        return None;
    }
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some((inode, address(last)?.saturating_sub(address(first)?)))
}

/// Whether descriptors are under way in a socket, by its `fdinfo`.
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
    fn a_mapping_counts_if_its_file_is_deleted_and_of_the_device() {
        let device = rustix::fs::makedev(0xfe, 0x10);
        let line = "7f00-8f00 r--p 00000000 fe:10 4242                     /work/a b (deleted)";
        assert_eq!(mapped_deleted(line, device), Some((4_242, 0x1000)));
        assert_eq!(mapped_deleted(line, device + 1), None);
        assert_eq!(mapped_deleted(line.trim_end_matches(" (deleted)"), device), None);
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
            let _any_answer_will_do = mapped_deleted(&format!("{line} (deleted)"), 0);
            let _any_answer_will_do = carries_descriptors(&line);
        }
    }
}
