//! Processes of a run that are stopped while they are examined.

use std::{
    collections::HashSet,
    fs, io, thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};

use super::procs::{self, Process};

/// Time after which the examination begins although something runs. On a busy host a process has to wait for the processor, even
/// to stop, and those of a run get it after all others.
const LIMIT: Duration = Duration::from_secs(3);
const ROUND: Duration = Duration::from_millis(1);

/// Stopped processes. Dropping it resumes those that were running.
pub(super) struct Stopped {
    ours: HashSet<Process>,
    /// Whether all of them were stopped.
    pub(super) all: bool,
}

impl Stopped {
    /// Stops the processes that `find` finds, until it finds no running one. A list that cannot be read is requested again.
    pub(super) fn stop(find: impl Fn() -> io::Result<Vec<Process>>) -> Self {
        let mut stopped = Self {
            ours: HashSet::new(),
            all: false,
        };
        let began = Instant::now();
        while began.elapsed() < LIMIT {
            let found = find();
            let is_listed = found.is_ok();
            let mut runs = false;
            for process in found.unwrap_or_default() {
                match activity(process.pid) {
                    Activity::None => {}
                    Activity::InCall if stopped.ours.contains(&process) => {}
                    Activity::InCall | Activity::Runs => {
                        runs = true;
                        procs::signal(&process, Signal::STOP);
                        stopped.ours.insert(process);
                    }
                }
            }
            if is_listed && !runs {
                stopped.all = true;
                break;
            }
            thread::sleep(ROUND);
        }
        stopped
    }
}

/// A check of a run that has to end soon. It is late, or takes long, if the run leaves it no processor time, and the run must not
/// profit from that. The run's processes are then stopped until the check is done.
pub(super) struct PromptLook {
    /// The time from which the check takes long.
    late: Instant,
    stopped: Option<Stopped>,
}

/// Delay and duration of a check that a busy host explains.
const PROMPT: Duration = Duration::from_millis(100);

impl PromptLook {
    /// Begins a check that was due this long ago. Stops the processes at once if it is late and `urgent`.
    pub(super) fn begin(overdue: Duration, urgent: impl FnOnce() -> bool) -> Self {
        Self {
            late: Instant::now() + PROMPT,
            stopped: (overdue > PROMPT && urgent()).then(|| Stopped::stop(procs::living)),
        }
    }

    /// Stops the processes if the check takes long and is `urgent`. Call it between the steps: one that waits for a busy disk
    /// may be long.
    pub(super) fn go_on(&mut self, urgent: impl FnOnce() -> bool) {
        if self.stopped.is_some() || Instant::now() < self.late {
            return;
        }
        if urgent() {
            self.stopped = Some(Stopped::stop(procs::living));
        } else {
            self.late = Instant::now() + ROUND;
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for process in &self.ours {
            procs::signal(process, Signal::CONT);
        }
    }
}

/// Activity of a process, by that of its most active thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Activity {
    /// Every thread is stopped or has ended.
    None,
    /// A thread waits inside of a system call. With a stop signal before it, it only finishes that call.
    InCall,
    Runs,
}

fn activity(pid: Pid) -> Activity {
    let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) else {
        return Activity::None;
    };
    tasks
        .flatten()
        .filter_map(|task| procs::read_text(task.path().join("stat")).ok())
        .filter_map(|stat| state(&stat))
        .map(|state| match state {
            'T' | 't' | 'Z' | 'X' | 'x' => Activity::None,
            'D' => Activity::InCall,
            _ => Activity::Runs,
        })
        .max()
        .unwrap_or(Activity::None)
}

/// The state of a task: the letter after its name. The name may contain anything, even parentheses.
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Write},
        process::{Child, Command, Stdio},
    };

    use super::*;

    /// Waits inside of `clone` until its child has read a byte and ended. Says a line before that and one after.
    const WAITS_IN_CALL: &str = "
import ctypes, os, signal
clone = {'x86_64': 56, 'aarch64': 220}[os.uname().machine]
CLONE_VFORK = 0x4000
print('starts', flush=True)
if ctypes.CDLL(None).syscall(clone, CLONE_VFORK | signal.SIGCHLD, 0, 0, 0, 0) == 0:
    os.read(0, 1)
    os._exit(0)
print('went on', flush=True)
";

    fn state_of(child: &Child) -> Option<char> {
        state(&procs::read_text(format!("/proc/{}/stat", child.id())).ok()?)
    }

    fn wait_for(child: &Child, wanted: impl Fn(char) -> bool) -> char {
        loop {
            if let Some(state) = state_of(child).filter(|state| wanted(*state)) {
                return state;
            }
            thread::sleep(ROUND);
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "stands for a process of a run")]
    fn a_process_inside_of_a_call_stands_still_after_that_call() {
        let mut child = Command::new("python3")
            .args(["-c", WAITS_IN_CALL])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "starts");
        wait_for(&child, |state| state == 'D');

        let pid = Pid::from_child(&child);
        let stopped = Stopped::stop(|| Ok(procs::one(pid).into_iter().collect()));
        assert!(stopped.all);
        child.stdin.take().unwrap().write_all(b"x").unwrap();
        assert_eq!(wait_for(&child, |state| matches!(state, 'T' | 'Z')), 'T');

        drop(stopped);
        assert_eq!(lines.next().unwrap().unwrap(), "went on");
        assert!(child.wait().unwrap().success());
    }
}
