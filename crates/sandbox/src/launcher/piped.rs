//! Processes that live beside the commands: those that the engine talks to, and commands that were released.
//!
//! Each has a socket of its own to the engine: its end is told there, and when the engine hangs up it is killed with
//! everything it started. The end of what a process says on standard error is kept; the streams of a released command
//! are the engine's.

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

use crate::wire::{self, Broken, Reply, Status};

/// How much of standard error is kept, in bytes.
const KEPT: usize = 8 << 10;
/// The most that a pipe can still hold when its process has ended.
const LEFT_IN_PIPE: usize = 1 << 20;

/// A process beside the commands.
pub(super) struct PipedProcess {
    pub(super) pid: Pid,
    pub(super) origin: Origin,
    engine: OwnedFd,
    /// While it is listened to.
    stderr: Option<OwnedFd>,
    /// Afterwards: nobody is to die of writing to it.
    unheard: Option<OwnedFd>,
    kept: VecDeque<u8>,
    status: Option<Status>,
    pub(super) broken: Option<Broken>,
    /// The most memory that it had, or one of its children that it waited for; known at its end.
    pub(super) peak_bytes: u64,
}

/// The origin of a process beside the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Started to be talked to. Its session ends with it.
    Started,
    /// Released after it was a command. Processes that it leaves in the background live on, as those of any command.
    Released,
}

/// All of them.
#[derive(Default)]
pub(super) struct PipedProcesses(Vec<PipedProcess>);

impl PipedProcesses {
    /// Takes a process that was started to be talked to.
    pub(super) fn add(&mut self, pid: Pid, engine: OwnedFd, stderr: OwnedFd) {
        self.0.push(PipedProcess {
            stderr: Some(stderr),
            ..PipedProcess::new(pid, Origin::Started, engine)
        });
    }

    /// Takes a command that runs on, with the most memory that one of its processes has had so far.
    pub(super) fn add_released(&mut self, pid: Pid, engine: OwnedFd, peak_bytes: u64) {
        self.0.push(PipedProcess {
            peak_bytes,
            ..PipedProcess::new(pid, Origin::Released, engine)
        });
    }

    /// What is to be polled for them.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0
            .iter()
            .flat_map(|process| std::iter::once(&process.engine).chain(&process.stderr))
            .map(AsFd::as_fd)
    }

    pub(super) fn pids(&self) -> Vec<Pid> {
        self.0.iter().map(|process| process.pid).collect()
    }

    /// Those that have not been seen to end.
    pub(super) fn alive(&self) -> Vec<Pid> {
        self.0
            .iter()
            .filter(|process| process.status.is_none())
            .map(|process| process.pid)
            .collect()
    }

    /// Notes how a child ended; false when it is none of these.
    pub(super) fn note(&mut self, pid: Pid, status: Status, peak_bytes: u64) -> bool {
        let found = self.0.iter_mut().find(|process| process.pid == pid);
        found.is_some_and(|process| {
            process.status = Some(status);
            process.peak_bytes = process.peak_bytes.max(peak_bytes);
            true
        })
    }

    /// Notes for which limit they are about to be killed.
    pub(super) fn note_broken(&mut self, broken: Broken) {
        for process in &mut self.0 {
            process.broken = Some(broken);
        }
    }

    /// Reads what they say on standard error, a bounded piece of each.
    pub(super) fn listen(&mut self) {
        for process in &mut self.0 {
            process.listen();
        }
    }

    /// Those that the engine has let go of; what they say from here on is not their last words.
    pub(super) fn let_go(&mut self) -> Vec<Pid> {
        let waiting: Vec<&mut PipedProcess> = self
            .0
            .iter_mut()
            .filter(|process| process.status.is_none())
            .collect();
        if waiting.is_empty() {
            return Vec::new();
        }
        let mut fds: Vec<_> = waiting
            .iter()
            .map(|process| PollFd::new(&process.engine, PollFlags::IN))
            .collect();
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // An interrupted look is repeated with the next one.
        if !matches!(poll(&mut fds, Some(&at_once)), Ok(1..)) {
            return Vec::new();
        }
        // The engine says nothing on these sockets: whatever is there to be read is its end.
        let hung_up: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        std::iter::zip(waiting, hung_up)
            .filter(|(_, hung_up)| *hung_up)
            .map(|(process, _)| {
                process.hear_out();
                process.pid
            })
            .collect()
    }

    /// Whether there is an end to be told.
    pub(super) fn any_ended(&self) -> bool {
        self.0.iter().any(|process| process.status.is_some())
    }

    /// Takes out those that have ended.
    pub(super) fn take_ended(&mut self) -> Vec<PipedProcess> {
        self.0
            .extract_if(.., |process| process.status.is_some())
            .collect()
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
            peak_bytes: 0,
        }
    }

    /// Reads a piece of standard error; says how much.
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
            // Nobody writes to it any more.
            Ok(0) | Err(_) => {
                self.stderr = None;
                0
            }
        }
    }

    /// Reads what is left on standard error, and listens no more.
    pub(super) fn hear_out(&mut self) {
        let mut left = LEFT_IN_PIPE;
        while left > 0 {
            match self.listen() {
                0 => break,
                length => left = left.saturating_sub(length),
            }
        }
        self.unheard = self.unheard.take().or(self.stderr.take());
    }

    /// Tells the engine how it ended, and its last words. The engine may have let go of it.
    pub(super) fn tell(mut self) {
        if let Some(status) = self.status {
            tell(&self.engine, status, self.broken, self.kept.make_contiguous());
        }
    }
}

fn tell(engine: &OwnedFd, status: Status, broken: Option<Broken>, stderr: &[u8]) {
    let ended = Reply::Ended {
        status,
        broken,
        stderr: stderr.len(),
    };
    let _may_have_let_go =
        wire::send(engine.as_fd(), &ended, &[]).and_then(|()| wire::send_bytes(engine.as_fd(), stderr));
}

/// Tells the engine that a process could not even be started.
pub(super) fn refuse(engine: &OwnedFd, errno: Errno) {
    let reply = Reply::NotExecutable {
        id: 0,
        errno: errno.raw_os_error(),
    };
    let _may_have_let_go = wire::send(engine.as_fd(), &reply, &[]);
    tell(engine, Status::Code(127), None, &[]);
}

/// A pipe for standard error: the end to listen at, which never blocks, and the one to write to.
pub(super) fn stderr_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    ioctl_fionbio(&reader, true)?;
    Ok((reader, writer))
}
