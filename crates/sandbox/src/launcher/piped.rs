//! Processes that run next to the commands: piped processes, and commands that were released.
//!
//! Each has a separate socket to the engine: its end is reported there, and when the engine hangs up it is killed with everything
//! it started. The end of its standard error is kept; the streams of a released command are the engine's. A released command that
//! left processes in its session is remembered after its end, until the engine hangs up or has them killed.

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, ioctl_fionbio, read},
    pipe::{PipeFlags, pipe_with},
    process::Pid,
};

use super::procs;
use crate::wire::{self, Broken, Reply, Status};

/// Maximum part of standard error that is kept, in bytes.
const KEPT: usize = 8 << 10;
/// The most that a pipe can still hold when its process has ended.
const LEFT_IN_PIPE: usize = 1 << 20;

/// A process that runs next to the commands.
pub(super) struct PipedProcess {
    pub(super) pid: Pid,
    pub(super) origin: Origin,
    engine: OwnedFd,
    /// Present while it is read.
    stderr: Option<OwnedFd>,
    /// Kept open afterwards, so that no writer dies of a broken pipe.
    unheard: Option<OwnedFd>,
    kept: VecDeque<u8>,
    status: Option<Status>,
    pub(super) broken: Option<Broken>,
    /// Whether the engine was informed of its end.
    told: bool,
    /// Whether the engine has hung up, or has shut its side.
    let_go: bool,
    /// The most memory that it had, or one of its children that it waited for; known at its end.
    pub(super) peak_bytes: u64,
}

/// Origin of a process that runs next to the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Started as a piped process. Its session ends with it.
    Started,
    /// Released after it was a command. Background processes that it leaves live on, as those of any command, until the engine
    /// has them killed.
    Released,
}

/// Piped processes of a sandbox.
#[derive(Default)]
pub(super) struct PipedProcesses(Vec<PipedProcess>);

impl PipedProcesses {
    /// Adds a process that was started as a piped process.
    pub(super) fn add(&mut self, pid: Pid, engine: OwnedFd, stderr: OwnedFd) {
        self.forget_ended(pid);
        self.0.push(PipedProcess {
            stderr: Some(stderr),
            ..PipedProcess::new(pid, Origin::Started, engine)
        });
    }

    /// Forgets an ended process with a process id that was reused. No process of its session was left then.
    pub(super) fn forget_ended(&mut self, pid: Pid) {
        self.0
            .retain(|process| process.pid != pid || process.status.is_none());
    }

    /// Adds a command that runs on, with the peak memory of its processes so far.
    pub(super) fn add_released(&mut self, pid: Pid, engine: OwnedFd, peak_bytes: u64) {
        self.0.push(PipedProcess {
            peak_bytes,
            ..PipedProcess::new(pid, Origin::Released, engine)
        });
    }

    /// Returns the descriptors to poll for them.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0
            .iter()
            .flat_map(|process| std::iter::once(&process.engine).chain(&process.stderr))
            .map(AsFd::as_fd)
    }

    pub(super) fn pids(&self) -> Vec<Pid> {
        self.0.iter().map(|process| process.pid).collect()
    }

    /// Returns the processes that have not been seen to end.
    pub(super) fn alive(&self) -> Vec<Pid> {
        self.0
            .iter()
            .filter(|process| process.status.is_none())
            .map(|process| process.pid)
            .collect()
    }

    /// Records the exit status of a child; false if it is not in this list.
    pub(super) fn note(&mut self, pid: Pid, status: Status, peak_bytes: u64) -> bool {
        let alive = |process: &&mut PipedProcess| process.pid == pid && process.status.is_none();
        self.0.iter_mut().find(alive).is_some_and(|process| {
            process.status = Some(status);
            process.peak_bytes = process.peak_bytes.max(peak_bytes);
            true
        })
    }

    /// Records for which limit they are about to be killed.
    pub(super) fn note_broken(&mut self, broken: Broken) {
        for process in &mut self.0 {
            process.broken = Some(broken);
        }
    }

    /// Reads from their standard error, a bounded piece of each.
    pub(super) fn listen(&mut self) {
        for process in &mut self.0 {
            process.listen();
        }
    }

    /// Returns those with sessions to be killed: the engine has let go of them, or has asked for it after their end. Later output
    /// of a living one is not kept as its last words.
    pub(super) fn let_go(&mut self) -> Vec<Pid> {
        let mut fds: Vec<_> = self
            .0
            .iter()
            .map(|process| PollFd::new(&process.engine, PollFlags::IN))
            .collect();
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // An interrupted poll is repeated in the next round.
        if fds.is_empty() || !matches!(poll(&mut fds, Some(&at_once)), Ok(1..)) {
            return Vec::new();
        }
        // The engine sends nothing on these sockets: any readable event is its end.
        let events: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        std::iter::zip(&mut self.0, events)
            .filter(|(_, events)| !events.is_empty())
            .filter_map(|(process, events)| {
                process.let_go = true;
                process.drain_stderr();
                // If the engine hangs up after the end, the remaining processes are spared.
                let kills = process.status.is_none() || !events.contains(PollFlags::HUP);
                kills.then_some(process.pid)
            })
            .collect()
    }

    /// Hangs up on those that have ended, were reported, and that the engine has let go of.
    pub(super) fn forget_let_go(&mut self) {
        self.0.retain(|process| !(process.told && process.let_go));
    }

    /// Whether an end remains to be reported.
    pub(super) fn any_ended(&self) -> bool {
        self.0.iter().any(PipedProcess::is_untold)
    }

    /// Removes and returns those with an end that remains to be reported.
    pub(super) fn take_ended(&mut self) -> Vec<PipedProcess> {
        self.0.extract_if(.., |process| process.is_untold()).collect()
    }

    /// Remembers one that has ended and left processes in its session.
    pub(super) fn remember(&mut self, ended: PipedProcess) {
        self.0.push(ended);
    }
}

impl PipedProcess {
    const fn new(pid: Pid, origin: Origin, engine: OwnedFd) -> Self {
        Self {
            pid,
            origin,
            engine,
            stderr: None,
            unheard: None,
            kept: VecDeque::new(),
            status: None,
            broken: None,
            told: false,
            let_go: false,
            peak_bytes: 0,
        }
    }

    const fn is_untold(&self) -> bool {
        self.status.is_some() && !self.told
    }

    /// Whether a released command has left processes in its session for which the engine may still ask.
    pub(super) fn has_left(&self) -> bool {
        match self.origin {
            Origin::Started => false,
            Origin::Released => !self.let_go && procs::session_lives(self.pid),
        }
    }

    /// Reads a piece of standard error; returns its length.
    fn listen(&mut self) -> usize {
        let Some(stderr) = &self.stderr else { return 0 };
        let mut buffer = [0; 16 << 10];
        match read(stderr, buffer.as_mut_slice()) {
            Ok(length @ 1..) => {
                self.kept.extend(buffer.get(..length).unwrap_or_default());
                let surplus = self.kept.len().saturating_sub(KEPT);
                self.kept.drain(..surplus);
                length
            }
            Err(Errno::AGAIN | Errno::INTR) => 0,
            // All writers have closed it.
            Ok(0) | Err(_) => {
                self.stderr = None;
                0
            }
        }
    }

    /// Reads the rest of standard error, and closes it.
    pub(super) fn drain_stderr(&mut self) {
        let mut left = LEFT_IN_PIPE;
        while left > 0 {
            match self.listen() {
                0 => break,
                length => left = left.saturating_sub(length),
            }
        }
        self.unheard = self.unheard.take().or(self.stderr.take());
    }

    /// Reports its end to the engine, with its last words, and whether it left processes. The engine may have let go of it.
    pub(super) fn report(&mut self, left: bool) {
        self.told = true;
        if let Some(status) = self.status {
            let stderr = self.kept.make_contiguous();
            let ended = Reply::Ended {
                status,
                broken: self.broken,
                stderr: stderr.len(),
                left,
            };
            send_reply(&self.engine, &ended, stderr);
        }
    }
}

fn send_reply(engine: &OwnedFd, ended: &Reply, stderr: &[u8]) {
    let _may_have_let_go =
        wire::send(engine.as_fd(), ended, &[]).and_then(|()| wire::send_bytes(engine.as_fd(), stderr));
}

/// Reports to the engine that a process could not be started.
pub(super) fn refuse(engine: &OwnedFd, errno: Errno) {
    let reply = Reply::NotExecutable {
        id: 0,
        errno: errno.raw_os_error(),
    };
    let _may_have_let_go = wire::send(engine.as_fd(), &reply, &[]);
    let ended = Reply::Ended {
        status: Status::Code(127),
        broken: None,
        stderr: 0,
        left: false,
    };
    send_reply(engine, &ended, &[]);
}

/// A pipe for standard error: the read end, which never blocks, and the write end.
pub(super) fn stderr_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    ioctl_fionbio(&reader, true)?;
    Ok((reader, writer))
}
