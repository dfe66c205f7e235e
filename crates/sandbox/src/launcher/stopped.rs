//! Processes of a run that stand still while they are looked at.

use std::{
    collections::HashSet,
    fs, io, thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};

use super::procs::{self, Process};

/// Time after which the look begins although something runs. On a busy host a process has to wait for its turn, also to
/// stop.
const LIMIT: Duration = Duration::from_secs(1);
const ROUND: Duration = Duration::from_millis(1);

/// Stopped processes. Dropping it lets those go on that were running.
pub(super) struct Stopped {
    ours: HashSet<Process>,
    /// Whether none was left running.
    pub(super) all: bool,
}

impl Stopped {
    /// Stops the processes that `find` finds, until it finds none that runs. A list that cannot be read is asked for again.
    pub(super) fn stop(find: impl Fn() -> io::Result<Vec<Process>>) -> Self {
        let mut stopped = Self {
            ours: HashSet::new(),
            all: false,
        };
        let began = Instant::now();
        while began.elapsed() < LIMIT {
            let found = find();
            let is_listed = found.is_ok();
            let found = found.unwrap_or_default().into_iter();
            let running: Vec<_> = found.filter(|process| runs(process.pid)).collect();
            if is_listed && running.is_empty() {
                stopped.all = true;
                break;
            }
            for process in running {
                procs::signal(&process, Signal::STOP);
                stopped.ours.insert(process);
            }
            thread::sleep(ROUND);
        }
        stopped
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for process in &self.ours {
            procs::signal(process, Signal::CONT);
        }
    }
}

/// True if a thread of the process neither stands still nor has ended. A thread that waits inside of a system call only
/// finishes that call.
fn runs(pid: Pid) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) else {
        return false;
    };
    tasks
        .flatten()
        .filter_map(|task| procs::read_text(task.path().join("stat")).ok())
        .filter_map(|stat| state(&stat))
        .any(|state| !matches!(state, 'T' | 't' | 'D' | 'Z' | 'X' | 'x'))
}

/// The state of a task: the letter behind its name, which may hold anything, also parentheses.
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}
