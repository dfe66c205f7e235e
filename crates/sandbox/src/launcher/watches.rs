//! Descriptors that a run's epoll instances watch. The kernel counts them per user, and unprivileged engines share their user
//! with their runs: an engine without any left cannot accept connections. No memory accounting covers them either.
//!
//! A filter asks here before each additional watch. Allowed watches add up to an upper bound; only when it reaches the limit are
//! the existing ones counted. If the last count found room, further questions wait for the next one.

use std::{
    collections::VecDeque,
    fs,
    time::{Duration, Instant},
};

use rustix::io::Errno;

use super::{memory, processor_time, procs, stopped::Stopped};

/// Watched descriptors of a run at most, and at least. Each costs the kernel about 200 bytes.
const MOST: u64 = 65_536;
const LEAST: u64 = 2_048;
/// A run gets at most one part in this many of its user's limit.
const SHARE_OF_USER: u64 = 128;
/// Minimum time between two counts, and the same as a multiple of the cost of the last one.
const INTERVAL: Duration = Duration::from_millis(250);
const SHARE: u32 = 10;

/// The count of a run.
pub(super) struct Watches {
    most: u64,
    /// Upper bound of the current number.
    known: u64,
    counted: Option<Instant>,
    cost: Duration,
    /// Whether the last count found no room. Until the next one, questions are then refused at once.
    full: bool,
    /// Questions that wait for the next count. Each thread of the run has at most one.
    waiting: VecDeque<u64>,
}

impl Watches {
    /// Bounds a run by what its user may have.
    pub(super) fn limit() -> Self {
        let of_user = fs::read_to_string("/proc/sys/fs/epoll/max_user_watches")
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok());
        let most = of_user.map_or(LEAST, |number| (number / SHARE_OF_USER).clamp(LEAST, MOST));
        Self {
            most,
            known: 0,
            counted: None,
            cost: Duration::ZERO,
            full: false,
            waiting: VecDeque::new(),
        }
    }

    /// Takes a question.
    pub(super) fn ask(&mut self, question: u64) {
        self.waiting.push_back(question);
    }

    /// Time until questions that wait can be answered, if there are any.
    pub(super) fn due_in(&self) -> Option<Duration> {
        (!self.waiting.is_empty()).then(|| self.count_due_in())
    }

    /// Answers the pending questions. Stops at a question that first needs a count that is not due.
    pub(super) fn serve(&mut self, mut answer: impl FnMut(u64, Result<(), Errno>)) {
        while !self.waiting.is_empty() {
            if self.known >= self.most {
                if self.count_due_in().is_zero() {
                    self.count_again();
                } else if !self.full {
                    return;
                }
                if self.full {
                    for question in self.waiting.drain(..) {
                        answer(question, Err(Errno::NOSPC));
                    }
                    return;
                }
            }
            if let Some(question) = self.waiting.pop_front() {
                // A watch of an asker that is gone does not exist. The sum is an upper bound.
                self.known += 1;
                answer(question, Ok(()));
            }
        }
    }

    fn count_due_in(&self) -> Duration {
        let interval = INTERVAL.max(self.cost * SHARE);
        self.counted.map_or(Duration::ZERO, |counted| {
            interval.saturating_sub(counted.elapsed())
        })
    }

    fn count_again(&mut self) {
        let began = processor_time();
        // Watches are considered removed only if all could be read.
        self.known = count(self.most).unwrap_or(self.most);
        self.full = self.known >= self.most;
        self.counted = Some(Instant::now());
        self.cost = processor_time().saturating_sub(began);
    }
}

/// Counts the watched descriptors of all instances that processes of this sandbox have open, up to `most`. `None` if descriptors
/// are in flight between sockets, because those may be instances, or if a process does not stop or denies access.
fn count(most: u64) -> Option<u64> {
    // Descriptors that move from process to process would be missed.
    let stopped = Stopped::stop(procs::living);
    if !stopped.all {
        return None;
    }
    let mut watched = 0;
    for process in procs::living().ok()? {
        let Some(folder) = memory::folder_of(&process) else {
            continue;
        };
        match of_folder(&folder) {
            Some(here) => watched += here,
            None if procs::one(process.pid).is_none_or(|now| !now.is_alive()) => {}
            None => return None,
        }
        if watched >= most {
            return Some(most);
        }
    }
    Some(watched)
}

/// Counts for the descriptors of one process.
fn of_folder(folder: &str) -> Option<u64> {
    let mut watched = 0;
    for entry in fs::read_dir(format!("{folder}/fd")).ok()? {
        let Ok(entry) = entry else { continue };
        let name = entry.file_name();
        let (Ok(target), Some(number)) = (fs::read_link(entry.path()), name.to_str()) else {
            continue;
        };
        let target = target.as_os_str().as_encoded_bytes();
        let (is_instance, is_socket) = (
            target == b"anon_inode:[eventpoll]",
            target.starts_with(b"socket:"),
        );
        if !is_instance && !is_socket {
            continue;
        }
        // Closed in the meantime.
        let Ok(information) = fs::read_to_string(format!("{folder}/fdinfo/{number}")) else {
            continue;
        };
        if is_socket && has_in_flight(&information) {
            return None;
        }
        if is_instance {
            watched += instances_watch(&information);
        }
    }
    Some(watched)
}

/// Descriptors that an epoll instance watches, by the kernel's information about it.
fn instances_watch(information: &str) -> u64 {
    information
        .lines()
        .filter(|line| line.starts_with("tfd:"))
        .count() as u64
}

/// Whether descriptors wait in a unix socket to be received.
fn has_in_flight(information: &str) -> bool {
    information
        .lines()
        .filter_map(|line| line.strip_prefix("scm_fds:"))
        .any(|count| count.trim() != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_of_descriptors_is_understood() {
        let instance = "pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t1057\n\
                        tfd:        4 events:       19 data:                4  pos:0 ino:421 sdev:f\n\
                        tfd:        5 events:       19 data:                5  pos:0 ino:421 sdev:f\n";
        assert_eq!(instances_watch(instance), 2);
        assert!(!has_in_flight("flags:\t02\nscm_fds: 0\n"));
        assert!(has_in_flight("flags:\t02\nscm_fds: 3\n"));
        assert!(!has_in_flight(instance));
    }
}
