//! Shares of the processor within a sandbox: the process that looks after the limits comes before what it looks at.
//!
//! Nice values weigh processes of one control group or of one session against each other. Where processes are in no
//! control group for the processor, the kernel may also weigh whole sessions against each other
//! (`kernel.sched_autogroup_enabled`); each session then has a nice value of its own.

use std::{fs, io, num::NonZeroI32};

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

/// Puts this process before the commands of its run, and those of others before the engine's. Only root may.
pub(super) fn raise_watch() {
    let _root_alone_may = setpriority_process(None, WATCH);
    let _where_sessions_are_weighed = fs::write("/proc/self/autogroup", WATCH.to_string());
}

/// Puts this process, a command, behind the engine and the watch.
pub(super) fn lower_command() -> Result<(), Errno> {
    let engine = getpriority_process(None)?.max(0);
    setpriority_process(None, below(engine))
}

/// Result of lowering a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lowered {
    Done,
    /// The kernel takes one session in a tenth of a second, for all users together.
    NotYet,
    /// Sessions have no weight on this host.
    Nothing,
}

/// Lowers the weight of a session, by one of its processes.
pub(super) fn lower_session(member: Pid) -> Lowered {
    let number: NonZeroI32 = member.as_raw_nonzero();
    let engine = getpriority_process(None).unwrap_or(0).max(0);
    match fs::write(format!("/proc/{number}/autogroup"), below(engine).to_string()) {
        Ok(()) => Lowered::Done,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !has_weights() => Lowered::Nothing,
        // It may be about to execute a program, or be gone.
        Err(_later) => Lowered::NotYet,
    }
}

fn has_weights() -> bool {
    fs::metadata("/proc/self/autogroup").is_ok()
}

const fn below(engine: i32) -> i32 {
    let lower = engine + BELOW;
    if lower < LAST { lower } else { LAST }
}
