//! Shares of the processor within a sandbox: the process that watches the limits has precedence over the processes that it
//! watches.
//!
//! Nice values weigh processes of one control group or of one session against each other. If processes are in no control group
//! for the processor, the kernel may also weigh whole sessions against each other (`kernel.sched_autogroup_enabled`); each
//! session then has a separate nice value.

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    num::{NonZeroI32, NonZeroUsize},
    thread,
};

use rustix::{
    io::Errno,
    process::{Pid, getpriority_process, setpriority_process},
};

/// Nice value of the sandbox's own processes and of their session, where the engine may set it.
const WATCH: i32 = -10;
/// Difference between a command and an ordinary process of the engine.
const BELOW: i32 = 10;
/// The last nice value there is.
const LAST: i32 = 19;

/// Raises the priority of this process above the commands of all runs and the engine. Only root may.
pub(super) fn raise_watch() {
    let _root_alone_may = setpriority_process(None, WATCH);
    let _where_sessions_are_weighed = fs::write("/proc/self/autogroup", WATCH.to_string());
}

/// Gives this process, a command, a lower priority than the engine and the watch.
pub(super) fn lower_command() -> Result<(), Errno> {
    setpriority_process(None, below(engine()))
}

/// Result of changing the weight of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weighed {
    /// The session has the weight, or this host does not weigh sessions.
    Done,
    /// This process of it has ended, or runs a program that its user may not read.
    Refused,
    /// The kernel allows one session per tenth of a second, for all users together.
    Later,
}

/// Lowers the weight of a session, through one of its processes. A `further` session, other than those of commands, gets the
/// lowest weight, because a run may have many.
pub(super) fn lower_session(member: Pid, further: bool) -> Weighed {
    let nice = if further { LAST } else { below(engine()) };
    weigh_session(member, nice)
}

fn weigh_session(member: Pid, nice: i32) -> Weighed {
    let number: NonZeroI32 = member.as_raw_nonzero();
    match fs::write(format!("/proc/{number}/autogroup"), nice.to_string()) {
        Ok(()) => Weighed::Done,
        Err(error) if Errno::from_io_error(&error) == Some(Errno::AGAIN) => Weighed::Later,
        Err(_) if !has_weights() => Weighed::Done,
        Err(_) => Weighed::Refused,
    }
}

/// Open weight file of a session with less weight than the engine's. The file of a dying process cannot be opened, but an open
/// one can be written until the process is reaped.
#[derive(Debug)]
pub(super) struct Weight(File);

impl Weight {
    /// Opens the weight of the session of a process. `None` if it equals that of the engine, or may not be changed.
    pub(super) fn of(member: Pid) -> Option<Self> {
        let number: NonZeroI32 = member.as_raw_nonzero();
        let path = format!("/proc/{number}/autogroup");
        let is_less = !fs::read_to_string(&path)
            .ok()?
            .ends_with(&format!(" nice {}\n", engine()));
        let opened = is_less.then(|| OpenOptions::new().write(true).open(path))?;
        opened.ok().map(Self)
    }

    /// Raises the weight to that of the engine.
    pub(super) fn raise(&mut self) -> Weighed {
        match self.0.write_all(engine().to_string().as_bytes()) {
            Ok(()) => Weighed::Done,
            Err(error) if Errno::from_io_error(&error) == Some(Errno::AGAIN) => Weighed::Later,
            Err(_) => Weighed::Refused,
        }
    }
}

/// Whether more threads are runnable than there are processors. The kernel counts those of the whole machine.
pub(super) fn is_machine_busy() -> bool {
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    // `0.20 0.18 0.12 1/80 11206`: the fourth field is the number of runnable threads, including this one.
    let running = fs::read_to_string("/proc/loadavg").ok().and_then(|load| {
        let (running, _) = load.split(' ').nth(3)?.split_once('/')?;
        running.parse().ok()
    });
    running.is_some_and(|running: usize| running > processors)
}

/// Nice value of the engine, or 0 if it is negative.
fn engine() -> i32 {
    getpriority_process(None).unwrap_or(0).max(0)
}

fn has_weights() -> bool {
    fs::metadata("/proc/self/autogroup").is_ok()
}

const fn below(engine: i32) -> i32 {
    let lower = engine + BELOW;
    if lower < LAST { lower } else { LAST }
}
