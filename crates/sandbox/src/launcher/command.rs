//! Command of a run: a child of init that restricts itself further and executes the program.

use std::{
    ffi::{CString, OsStr},
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    ptr,
};

use rustix::{
    fs::Mode,
    io::Errno,
    process::{setsid, umask},
    thread::set_no_new_privs,
};

use super::{Failure, Step, check, priority, procs, state::Init};
use crate::{
    landlock, seccomp,
    sys::{self, Resource},
    types::Level,
    wire::{self, Check, Reply},
};

/// Signals and timers that may be pending for the processes of a run.
const PENDING_SIGNALS: u64 = 1_024;

/// Task of a command.
pub(super) enum Task {
    Program(Vec<String>),
    Check(Check),
}

/// A command's ties to the outside.
pub(super) struct Ties<'a> {
    /// Socket to report that the command could not be run.
    pub(super) engine: BorrowedFd<'a>,
    pub(super) id: u64,
    /// Standard input, output and error.
    pub(super) streams: [BorrowedFd<'a>; 3],
    /// Maximum size to which it may grow a file.
    pub(super) file_bytes: u64,
}

/// Becomes the command. Runs in the forked child and never returns.
pub(super) fn run(init: &Init<'_>, task: Task, ties: &Ties<'_>) -> ! {
    let id = ties.id;
    let reply = match (confine(init, ties), task) {
        (Err(Failure { step, errno }), _) => Reply::NotConfined {
            id,
            step,
            errno: errno.raw_os_error(),
        },
        (Ok(()), Task::Check(check)) => sys::exit_now(check::run(&check, init.open.level)),
        (Ok(()), Task::Program(argv)) => Reply::NotExecutable {
            id,
            errno: execute(&argv, &init.env).raw_os_error(),
        },
    };
    let _engine_may_be_gone = wire::send(ties.engine, &reply, &[]);
    sys::exit_now(127)
}

fn confine(init: &Init<'_>, ties: &Ties<'_>) -> Result<(), Failure> {
    if let Some(questions) = &init.questions {
        // If the child kept a copy, a question about `setsid` would wait forever once init is gone.
        sys::close_in_child(questions.fd());
    }
    // A new session: no terminal, and not in our process group.
    setsid().step("setsid")?;
    priority::lower_command().step("nice")?;
    for (number, stream) in (0..).zip(ties.streams) {
        sys::dup_onto(stream, number).step("dup2")?;
    }
    sys::reset_signals();
    umask(Mode::from_raw_mode(0o022));
    limit(init, ties.file_bytes).step("limits")?;
    if init.open.level == Level::Namespaces && !init.open.weighed {
        landlock::leave_proc_as_it_is()
            .map_err(io::Error::other)
            .step("landlock")?;
    }
    if init.open.level == Level::Landlock {
        set_no_new_privs(true).step("no_new_privs")?;
        let writable: Vec<_> = std::iter::once(init.work.as_fd())
            .chain(init.scratch.as_ref().map(AsFd::as_fd))
            .collect();
        let confined = landlock::confine_on_host(&init.open.visible, &writable)
            .map_err(io::Error::other)
            .step("landlock")?;
        if !confined {
            return Err(Errno::OPNOTSUPP).step("landlock");
        }
        sys::install_filter(&seccomp::filter(Level::Landlock, init.open.memory)).step("seccomp")?;
    }
    sys::close_on_exec_from(3).step("close_range")
}

fn limit(init: &Init<'_>, file_bytes: u64) -> Result<(), Errno> {
    let limits = &init.open.limits;
    sys::limit(
        Resource::Processes,
        u64::from(limits.processes) + processes_outside(init.open.level, init.open.uid.is_some()),
    )?;
    sys::limit(Resource::OpenFiles, u64::from(limits.open_files))?;
    sys::limit(Resource::FileBytes, file_bytes)?;
    // Not 0: with 0, a host that pipes its crash dumps into a program still does so; 1 prevents it.
    sys::limit(Resource::CoreBytes, 1)?;
    sys::limit(Resource::LockedBytes, 8 << 20)?;
    sys::limit(Resource::QueueBytes, 1 << 20)?;
    // Queued signals and timers are counted per user. Leave room for the user's other processes.
    sys::limit(Resource::PendingSignals, PENDING_SIGNALS)?;
    if init.open.memory == wire::MemoryKeeper::Watch {
        // The watch reacts too late to a process that allocates everything at once. Runtimes reserve far more than they use,
        // hence the factor.
        sys::limit(Resource::AddressSpace, limits.memory_bytes.saturating_mul(4))?;
    }
    Ok(())
}

/// Returns the number of processes of this user that the limit counts in addition to those of the command.
fn processes_outside(level: Level, own_user: bool) -> u64 {
    if level == Level::Namespaces || own_user {
        // Init, and outer if it has the same user.
        return 2;
    }
    // The limit counts all processes of a user, unless a namespace bounds the view.
    u64::try_from(procs::tasks_of_user(rustix::process::getuid().as_raw())).unwrap_or(0)
}

/// Executes the program; returns only with the reason why that failed.
fn execute(argv: &[String], env: &[CString]) -> Errno {
    let Ok(arguments) = argv
        .iter()
        .map(|text| CString::new(text.as_str()))
        .collect::<Result<Vec<_>, _>>()
    else {
        return Errno::INVAL;
    };
    let Some(program) = arguments.first() else {
        return Errno::INVAL;
    };
    let argv: Vec<_> = arguments
        .iter()
        .map(|text| text.as_ptr())
        .chain(std::iter::once(ptr::null()))
        .collect();
    let envp: Vec<_> = env
        .iter()
        .map(|text| text.as_ptr())
        .chain(std::iter::once(ptr::null()))
        .collect();
    if program.as_bytes().contains(&b'/') {
        return sys::execve(program, &argv, &envp);
    }
    let path = env
        .iter()
        .find_map(|text| text.as_bytes().strip_prefix(b"PATH="))
        .unwrap_or_default();
    let mut reason = Errno::NOENT;
    for folder in path
        .split(|byte| *byte == b':')
        .filter(|folder| !folder.is_empty())
    {
        let candidate = Path::new(OsStr::from_bytes(folder)).join(OsStr::from_bytes(program.as_bytes()));
        let Ok(candidate) = CString::new(candidate.into_os_string().as_encoded_bytes()) else {
            continue;
        };
        match sys::execve(&candidate, &argv, &envp) {
            Errno::NOENT | Errno::NOTDIR => {}
            // A later folder may have one that we may execute.
            Errno::ACCESS => reason = Errno::ACCESS,
            other => return other,
        }
    }
    reason
}
