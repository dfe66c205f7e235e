//! The system calls that no safe wrapper offers: this file holds nearly all `unsafe` of the project.
//!
//! All but `landlock_version` and `async_descriptor` is called by the single-threaded launcher or by a child it forked,
//! never inside the engine.

#![expect(unsafe_code, reason = "the system calls of a launcher have no safe wrapper")]

use std::{
    ffi::{CStr, c_char, c_int, c_long, c_void},
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
};

use rustix::{io::Errno, process::Pid};
use tokio::io::{Interest, unix::AsyncFd};

/// Instruction of a classic BPF program.
pub(crate) type Instruction = libc::sock_filter;

fn check(result: c_long) -> Result<c_long, Errno> {
    if result < 0 { Err(last_error()) } else { Ok(result) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Forks: `None` in the child. Only for a process with one thread.
pub(crate) fn fork() -> Result<Option<Pid>, Errno> {
    // SAFETY: the launcher has one thread, so the child may use everything that the parent could.
    let pid = check(c_long::from(unsafe { libc::fork() }))?;
    Ok(i32::try_from(pid).ok().and_then(Pid::from_raw))
}

/// A child that has ended.
pub(crate) struct Reaped {
    pub(crate) pid: Pid,
    /// Exit code of the process; `Err` with the signal that ended it.
    pub(crate) ended: Result<i32, i32>,
    /// The most memory that it, or one of the children it waited for, had resident at once, in bytes.
    pub(crate) peak_bytes: u64,
}

/// Reaps one ended child and returns its resource usage; `None` if all remaining children are alive.
pub(crate) fn reap_one() -> Result<Option<Reaped>, Errno> {
    let mut status = 0;
    // SAFETY: an all-zero `rusage` is a valid one, of numbers only.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to locals that outlive the call.
    let pid = check(c_long::from(unsafe {
        libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage)
    }))?;
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Ok(None);
    };
    let ended = if libc::WIFSIGNALED(status) {
        Err(libc::WTERMSIG(status))
    } else {
        Ok(libc::WEXITSTATUS(status))
    };
    let peak_bytes = u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1_024);
    Ok(Some(Reaped {
        pid,
        ended,
        peak_bytes,
    }))
}

/// Ends the process without running exit handlers.
pub(crate) fn exit_now(code: c_int) -> ! {
    // SAFETY: `_exit` touches no memory of ours.
    unsafe { libc::_exit(code) }
}

/// Replaces the process; returns only when that failed.
pub(crate) fn execve(program: &CStr, argv: &[*const c_char], env: &[*const c_char]) -> Errno {
    debug_assert!(
        argv.last().is_some_and(|end| end.is_null()) && env.last().is_some_and(|end| end.is_null())
    );
    // SAFETY: both lists end with a null pointer and point to strings that the caller keeps.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    last_error()
}

/// Kills every process that this one may signal, but not itself: for the first process of a pid namespace.
pub(crate) fn kill_all() -> Result<(), Errno> {
    // SAFETY: sends signals only.
    check(c_long::from(unsafe { libc::kill(-1, libc::SIGKILL) })).map(drop)
}

/// Closes every descriptor from `first` up.
pub(crate) fn close_from(first: u32) -> Result<(), Errno> {
    // SAFETY: this process has no owner object for any of these descriptors, which were inherited.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0_u32) }).map(drop)
}

/// Closes a descriptor of the parent in a forked child, which ends without dropping anything.
pub(crate) fn close_in_child(fd: BorrowedFd<'_>) {
    // SAFETY: the child executes a program or leaves by `_exit`, so the descriptor's object is never dropped in it.
    unsafe { rustix::io::close(fd.as_raw_fd()) }
}

/// Marks every descriptor from `first` up to be closed on exec.
pub(crate) fn close_on_exec_from(first: u32) -> Result<(), Errno> {
    let flags = libc::CLOSE_RANGE_CLOEXEC;
    // SAFETY: only flags of descriptors change.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, flags) }).map(drop)
}

/// Makes `fd` the standard stream `number`.
pub(crate) fn dup_onto(fd: BorrowedFd<'_>, number: c_int) -> Result<(), Errno> {
    // SAFETY: the launcher has no owner object for its standard streams.
    check(c_long::from(unsafe { libc::dup2(fd.as_raw_fd(), number) })).map(drop)
}

/// Blocks SIGCHLD and returns a descriptor that is readable when one is pending.
pub(crate) fn child_signals() -> Result<OwnedFd, Errno> {
    // SAFETY: an all-zero signal set is a valid value, and is initialised by `sigemptyset`.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is valid for writes; the calls only change it and this thread's mask.
    let fd = unsafe {
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    check(c_long::from(fd))?;
    // SAFETY: the descriptor is new and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Resets every signal to its default action and unblocks all.
pub(crate) fn reset_signals() {
    // SAFETY: default actions run no code of ours; an emptied set is valid.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, ptr::null_mut());
    }
}

/// Adds mount attributes (`MOUNT_ATTR_…`) to a mount and, if `AT_RECURSIVE` is in `flags`, to all below it.
pub(crate) fn set_mount_attributes(
    dir: BorrowedFd<'_>,
    path: &CStr,
    flags: c_int,
    attributes: u64,
) -> Result<(), Errno> {
    let change = [attributes, 0_u64, 0, 0];
    // SAFETY: `change` has the layout of `struct mount_attr`, four 64-bit numbers, and lives through the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            dir.as_raw_fd(),
            path.as_ptr(),
            flags,
            change.as_ptr(),
            size_of_val(&change),
        )
    })
    .map(drop)
}

/// Installs a seccomp filter on this process and all its later children.
pub(crate) fn install_filter(filter: &[Instruction]) -> Result<(), Errno> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| Errno::INVAL)?,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel reads `len` instructions from `filter`, which lives through the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0_u32,
            &raw const program,
        )
    })
    .map(drop)
}

/// Installs a seccomp filter that asks before some calls; returns the listener for its questions.
///
/// A signal handler does not interrupt a caller after its question was taken. Kernels before Linux 5.19 lack this: such a call
/// may fail with `EINTR` there.
pub(crate) fn install_asking_filter(filter: &[Instruction]) -> Result<OwnedFd, Errno> {
    let asks = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    match try_asking_filter(filter, asks | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) {
        Err(Errno::INVAL) => try_asking_filter(filter, asks),
        installed => installed,
    }
}

fn try_asking_filter(filter: &[Instruction], flags: libc::c_ulong) -> Result<OwnedFd, Errno> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| Errno::INVAL)?,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel reads `len` instructions from `filter`, which lives through the call.
    let listener = check(unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    })?;
    let listener = c_int::try_from(listener).map_err(|_| Errno::IO)?;
    // SAFETY: the descriptor is new and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(listener) })
}

/// Question of a filter.
pub(crate) struct Question {
    /// The number to answer it by.
    pub(crate) id: u64,
    pub(crate) call: c_long,
    /// First argument of the call.
    pub(crate) argument: u64,
    /// The thread that asks, if the listener can see it.
    pub(crate) thread: Option<Pid>,
}

/// Takes the next question of a filter.
pub(crate) fn take_question(listener: BorrowedFd<'_>) -> Result<Question, Errno> {
    // SAFETY: an all-zero question is a valid one, and what the kernel wants to be given.
    let mut question: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives through the call.
    check(c_long::from(unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_RECV,
            &raw mut question,
        )
    }))?;
    Ok(Question {
        id: question.id,
        call: c_long::from(question.data.nr),
        argument: question.data.args[0],
        thread: i32::try_from(question.pid).ok().and_then(Pid::from_raw),
    })
}

/// Whether a question still waits for its answer. If so, its thread is the one that asked it.
pub(crate) fn is_question_open(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the number lives through the call.
    check(c_long::from(unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
            &raw const id,
        )
    }))
    .is_ok()
}

/// Answer to a question of a filter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// The kernel makes the call.
    GoOn,
    /// The call was made for the process, and succeeds.
    Done,
    /// The call fails with this error.
    Fail(Errno),
}

/// Answers a question of a filter.
pub(crate) fn answer_question(listener: BorrowedFd<'_>, id: u64, answer: Answer) -> Result<(), Errno> {
    let go_on = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(0);
    let (error, flags) = match answer {
        Answer::GoOn => (0, go_on),
        Answer::Done => (0, 0),
        Answer::Fail(errno) => (-errno.raw_os_error(), 0),
    };
    let response = libc::seccomp_notif_resp {
        id,
        val: 0,
        error,
        flags,
    };
    // SAFETY: the structure lives through the call.
    check(c_long::from(unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SEND,
            &raw const response,
        )
    }))
    .map(drop)
}

/// The Landlock version of the kernel, if it has Landlock.
pub(crate) fn landlock_version() -> Option<u32> {
    let no_attributes = ptr::null::<c_void>();
    // SAFETY: with this flag the kernel reads no memory.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, no_attributes, 0_usize, 1_u32) };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// Tries to make a user namespace, which a confined command must not be able to.
pub(crate) fn try_nested_namespace() -> Result<(), Errno> {
    // SAFETY: touches no memory; the process is one of our own checks and ends soon.
    check(c_long::from(unsafe { libc::unshare(libc::CLONE_NEWUSER) })).map(drop)
}

/// Tries to be traced by the parent, which a confined command must not be able to.
pub(crate) fn try_trace() -> Result<(), Errno> {
    // SAFETY: this request reads no memory.
    check(unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) }).map(drop)
}

/// Raises the loopback interface of this network namespace.
pub(crate) fn raise_loopback() -> Result<(), Errno> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: an all-zero request is a valid value: the name is then filled in, its end stays zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = c_char::try_from(*from).unwrap_or_default();
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).unwrap_or_default();
    // SAFETY: the request is valid and lives through the call.
    check(c_long::from(unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS as libc::Ioctl,
            &raw const request,
        )
    }))
    .map(drop)
}

/// Sets the soft and the hard limit of a resource, at most to the current hard limit.
pub(crate) fn limit(resource: Resource, value: u64) -> Result<(), Errno> {
    let resource = match resource {
        Resource::Processes => libc::RLIMIT_NPROC,
        Resource::OpenFiles => libc::RLIMIT_NOFILE,
        Resource::FileBytes => libc::RLIMIT_FSIZE,
        Resource::AddressSpace => libc::RLIMIT_AS,
        Resource::DataBytes => libc::RLIMIT_DATA,
        Resource::StackBytes => libc::RLIMIT_STACK,
        Resource::CpuSeconds => libc::RLIMIT_CPU,
        Resource::CoreBytes => libc::RLIMIT_CORE,
        Resource::LockedBytes => libc::RLIMIT_MEMLOCK,
        Resource::QueueBytes => libc::RLIMIT_MSGQUEUE,
        Resource::PendingSignals => libc::RLIMIT_SIGPENDING,
    };
    let mut now = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure lives through the call.
    check(c_long::from(unsafe { libc::getrlimit(resource, &raw mut now) }))?;
    // Only root may raise a limit, and these limits never need raising.
    let value = value.min(now.rlim_max);
    let value = libc::rlimit {
        rlim_cur: value,
        rlim_max: value,
    };
    // SAFETY: the structure lives through the call.
    check(c_long::from(unsafe {
        libc::setrlimit(resource, &raw const value)
    }))
    .map(drop)
}

/// Registers a descriptor with the runtime: a non-blocking socket, or a process, which is readable when it has ended.
pub(crate) fn async_descriptor(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` keeps its one descriptor open until it is dropped, which the registration owns.
    unsafe { AsyncFd::register_with_interest(descriptor, interest) }.map_err(|error| error.into_parts().1)
}

/// Resets this thread to the ordinary scheduling policy, whatever it inherited.
pub(crate) fn be_scheduled_ordinarily() -> Result<(), Errno> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure lives through the call.
    check(c_long::from(unsafe {
        libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters)
    }))
    .map(drop)
}

/// Makes the kernel reap children, or restores the default, in which they wait to be reaped.
pub(crate) fn reap_children_unseen(unseen: bool) {
    let action = if unseen { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: neither action runs code of ours.
    unsafe { libc::signal(libc::SIGCHLD, action) };
}

/// Resource that [`limit`] limits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resource {
    Processes,
    OpenFiles,
    FileBytes,
    AddressSpace,
    DataBytes,
    StackBytes,
    CpuSeconds,
    CoreBytes,
    LockedBytes,
    QueueBytes,
    PendingSignals,
}
