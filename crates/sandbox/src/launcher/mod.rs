//! The launcher: the engine's binary, executed again with one argument, in four kinds of processes.
//!
//! The *fork server* is the executed process: it inherits only its standard input from the engine, which is a socket. It has the
//! template of the file system built, once, and forks an outer process for each sandbox. The *outer* process waits, and kills everything when the engine hangs up its socket. The
//! *init* process is the first one of the sandbox: it builds the confinement, takes commands from the socket and reaps. Each
//! command is a child of init. All are single-threaded, so that forking is safe and cheap.

mod check;
mod command;
mod discard;
mod disk;
mod ending;
mod identity;
mod init;
mod memory;
mod open_files;
mod outer;
mod piped;
mod priority;
mod procs;
mod questions;
mod reported_memory;
mod rootfs;
mod server;
mod sessions;
mod sockets;
mod state;
mod stopped;
mod template;
mod watch;
mod watches;

use std::{
    ffi::OsStr,
    io,
    os::fd::{AsFd, OwnedFd},
    process::ExitCode,
    time::Duration,
};

use rustix::{
    fs::{Mode, OFlags, open},
    io::{Errno, fcntl_dupfd_cloexec},
    process::setsid,
    time::{ClockId, clock_gettime},
};

use crate::{
    sys,
    wire::{self, LAUNCHER_ARGUMENT, Reply},
};

/// A step of the setup that the host refused.
#[derive(Debug)]
struct Failure {
    step: String,
    errno: Errno,
}

/// Names the step that an error belongs to.
trait Step<T> {
    fn step(self, step: &str) -> Result<T, Failure>;
}

impl<T> Step<T> for Result<T, Errno> {
    fn step(self, step: &str) -> Result<T, Failure> {
        self.map_err(|errno| Failure {
            step: step.to_owned(),
            errno,
        })
    }
}

impl<T> Step<T> for io::Result<T> {
    fn step(self, step: &str) -> Result<T, Failure> {
        self.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
            .step(step)
    }
}

/// Becomes a launcher, and then never returns, if the first argument says so; otherwise does nothing. Call it first in `main` of
/// a binary that opens sandboxes: before any thread, runtime or output.
pub fn launcher_main() {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|argument| argument == OsStr::new(LAUNCHER_ARGUMENT))
    {
        sys::exit_now(if launch() == ExitCode::SUCCESS { 0 } else { 125 });
    }
}

fn launch() -> ExitCode {
    let (socket, template) = match take_socket().and_then(server::serve) {
        Ok(Some(launch)) => launch,
        Ok(None) => return ExitCode::SUCCESS,
        // The engine sees it end.
        Err(_no_sandbox_yet) => return ExitCode::FAILURE,
    };
    match outer::run(&socket, template) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&socket, &failure);
            ExitCode::FAILURE
        }
    }
}

/// Takes the engine's socket from standard input, and closes all other inherited descriptors.
fn take_socket() -> Result<OwnedFd, Failure> {
    // Signals of the engine's terminal are not for us. Fails only for a process that leads a group already.
    let _leader_already = setsid();
    // First, so that the numbers below are free regardless of the engine's descriptors.
    sys::close_from(3).step("close_range")?;
    let socket = fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).step("dup")?;
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).step("open /dev/null")?;
    for number in 0..3 {
        sys::dup_onto(null.as_fd(), number).step("dup2")?;
    }
    Ok(socket)
}

/// Reports the failed step to the engine, and ignores an engine that is gone.
fn report(socket: &impl AsFd, failure: &Failure) {
    let reply = Reply::Failed {
        step: failure.step.clone(),
        errno: failure.errno.raw_os_error(),
    };
    let _engine_may_be_gone = wire::send(socket.as_fd(), &reply, &[]);
}

/// Processor time of this thread, the only one.
fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(used.tv_sec).unwrap_or(0),
        u32::try_from(used.tv_nsec).unwrap_or(0),
    )
}
