//! Things that a run has in common with others: named sockets, the engine's place among the processes, terminals, and
//! the kernel's tables.

use std::{
    ffi::c_long,
    fs::{self, File, OpenOptions},
    io::{self, IoSlice},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::net::UnixDatagram,
    },
    path::Path,
};

use rustix::net::{SendAncillaryBuffer, SendFlags, SocketAddrUnix, sendmsg_addr};

use super::{Host, expect, must_be_refused, must_fail, not_checked};
use crate::raw::call;

/// System call with its name and arguments.
type Attempt = (&'static str, c_long, [usize; 6]);

/// Terminals that a run may open. A table of the kernel's, of 4,096, has all terminals of the host.
const TERMINALS: usize = 64;

pub(super) fn try_all(host: &Host<'_>) {
    named_sockets(host);
    scheduling(host);
    if host.has_namespaces() {
        terminals();
        tables();
        mounts(host);
    } else {
        must_fail(76, "open a terminal of the host", File::open("/dev/ptmx"));
        must_fail(78, "read the mounts", fs::read("/proc/self/mountinfo"));
    }
    // With this descriptor the call itself would fail.
    let nothing = usize::MAX;
    expect(
        79,
        "write out the host's file system",
        call(libc::SYS_syncfs, [nothing, 0, 0, 0, 0, 0]) == Ok(0),
        "it is not carried out",
    );
    if host.fact("memory") == "soft" || !host.has_namespaces() {
        let create = usize::try_from(libc::IPC_CREAT | 0o600).unwrap_or(0);
        for (name, number) in [("messages", libc::SYS_msgget), ("semaphores", libc::SYS_semget)] {
            must_be_refused(
                40,
                &format!("System V {name}"),
                call(number, [0, create, create, 0, 0, 0]),
            );
        }
    }
}

fn named_sockets(host: &Host<'_>) {
    let target = Path::new(host.fact("datagram"));
    let sent = UnixDatagram::pair().and_then(|(socket, _)| socket.send_to(b"out", target));
    must_fail(74, "a datagram to a socket of the host, by sendto", sent);
    let sent = pair(libc::SOCK_DGRAM).and_then(|(socket, _)| addressed(&socket, target));
    must_fail(74, "a datagram to a socket of the host, by sendmsg", sent);
    let sent = pair(libc::SOCK_STREAM).and_then(|(socket, _)| addressed(&socket, target));
    must_fail(74, "a stream that is sent elsewhere", sent);
    // The kernel sends it to the other end: the caller looks whether it came out.
    let _whatever_it_says = pair(libc::SOCK_SEQPACKET).and_then(|(socket, _)| addressed(&socket, target));
    let Ok((socket, _other)) = pair(libc::SOCK_STREAM) else {
        return expect(74, "a pair of streams", false, "there is none");
    };
    expect(74, "a pair of streams", true, "it opens");
    must_fail(
        74,
        "a stream that is connected elsewhere",
        connect(&socket, target),
    );
    if !host.has_namespaces() {
        let fd = usize::try_from(socket.as_raw_fd()).unwrap_or(0);
        for (name, number) in [
            ("bind", libc::SYS_bind),
            ("listen", libc::SYS_listen),
            ("accept", libc::SYS_accept),
        ] {
            must_be_refused(74, name, call(number, [fd, 0, 0, 0, 0, 0]));
        }
    }
}

fn pair(kind: i32) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` is valid for writes.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both are new.
    Ok(ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) }).into())
}

fn addressed(socket: &OwnedFd, to: &Path) -> io::Result<usize> {
    let to = SocketAddrUnix::new(to)?;
    let mut none = SendAncillaryBuffer::default();
    Ok(sendmsg_addr(
        socket,
        &to,
        &[IoSlice::new(b"out")],
        &mut none,
        SendFlags::NOSIGNAL,
    )?)
}

fn connect(socket: &OwnedFd, to: &Path) -> io::Result<()> {
    Ok(rustix::net::connect(socket, &SocketAddrUnix::new(to)?)?)
}

/// Calls that change the scheduling of a process, and the values they would set.
fn changes_of_scheduling(process: usize, priority: &[u32; 1], processor: &[u64; 1]) -> [Attempt; 4] {
    let idle = usize::try_from(libc::SCHED_IDLE).unwrap_or(0);
    let idle_class = 3 << 13;
    [
        (
            "under SCHED_IDLE",
            libc::SYS_sched_setscheduler,
            [process, idle, priority.as_ptr().addr(), 0, 0, 0],
        ),
        (
            "on one processor",
            libc::SYS_sched_setaffinity,
            [process, 8, processor.as_ptr().addr(), 0, 0, 0],
        ),
        (
            "at the last priority",
            libc::SYS_setpriority,
            [0, process, 19, 0, 0, 0],
        ),
        (
            "at the end of the disk's queue",
            libc::SYS_ioprio_set,
            [1, process, idle_class, 0, 0, 0],
        ),
    ]
}

/// The engine shares its user with the runs of an unprivileged one.
fn scheduling(host: &Host<'_>) {
    let (priority, one_processor) = ([0_u32; 1], [1_u64; 1]);
    // SAFETY: touches no memory.
    let first = usize::try_from(unsafe { libc::getppid() }).unwrap_or(1);
    for (name, number, arguments) in changes_of_scheduling(first, &priority, &one_processor) {
        must_be_refused(14, &format!("the first process {name}"), call(number, arguments));
    }
    let engine: usize = host.fact("pid").parse().unwrap_or(0);
    if engine < 100 {
        return not_checked(
            75,
            "schedule the engine",
            "its number is that of a process inside",
        );
    }
    let of_user = usize::try_from(libc::PRIO_USER).unwrap_or(0);
    for (name, number, arguments) in changes_of_scheduling(engine, &priority, &one_processor) {
        must_fail(75, &format!("the engine {name}"), os(call(number, arguments)));
    }
    for (name, number, arguments) in [
        ("the engine's session", libc::SYS_getsid, [engine, 0, 0, 0, 0, 0]),
        ("the engine's group", libc::SYS_getpgid, [engine, 0, 0, 0, 0, 0]),
        (
            "the engine's scheduler",
            libc::SYS_sched_getscheduler,
            [engine, 0, 0, 0, 0, 0],
        ),
        (
            "the engine's priority",
            libc::SYS_getpriority,
            [0, engine, 0, 0, 0, 0],
        ),
    ] {
        must_fail(75, name, os(call(number, arguments)));
    }
    if !host.has_namespaces() {
        must_be_refused(
            75,
            "lower the priority of the user's processes",
            call(libc::SYS_setpriority, [of_user, 0, 19, 0, 0, 0]),
        );
    }
    // SAFETY: touches no memory.
    let own = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
    expect(75, "its own priority", own == 0, "it may be lowered");
    if host.fact("memory") == "soft" || !host.has_namespaces() {
        let raised = fs::write("/proc/self/autogroup", "0");
        must_fail(80, "raise the share of its session", raised);
    }
}

fn terminals() {
    let open = || OpenOptions::new().read(true).write(true).open("/dev/ptmx");
    let held: Vec<_> = std::iter::repeat_with(open)
        .take(TERMINALS + 1)
        .map_while(Result::ok)
        .collect();
    let count = held.len();
    expect(
        76,
        "more terminals than a run needs",
        (1..=TERMINALS).contains(&count),
        &format!("{count} open"),
    );
}

/// Counters of the host's devices, locks and memory tell about other runs.
fn tables() {
    for name in [
        "buddyinfo",
        "diskstats",
        "interrupts",
        "locks",
        "mdstat",
        "pagetypeinfo",
        "partitions",
        "pressure/cpu",
        "schedstat",
        "softirqs",
        "swaps",
        "vmstat",
        "zoneinfo",
    ] {
        let read = fs::read(format!("/proc/{name}"));
        let held = read.as_ref().map_or(true, Vec::is_empty);
        expect(77, &format!("read /proc/{name}"), held, "it is covered");
    }
    // Ordinary tools stop without these.
    for name in [
        "cpuinfo",
        "loadavg",
        "meminfo",
        "stat",
        "uptime",
        "version",
        "filesystems",
    ] {
        let read = fs::read(format!("/proc/{name}"));
        let there = read.is_ok_and(|content| !content.is_empty());
        expect(
            77,
            &format!("/proc/{name} for ordinary tools"),
            there,
            "it is there",
        );
    }
}

/// The kernel tells each process its mounts. Those of a run name the run itself, and no other.
fn mounts(host: &Host<'_>) {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let other = Path::new(host.fact("other"))
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    expect(
        78,
        "another run's name among the mounts",
        mounts.contains("/work") && !mounts.contains(&*other),
        "only its own",
    );
}

fn os(result: Result<usize, i32>) -> io::Result<()> {
    result.map(drop).map_err(io::Error::from_raw_os_error)
}
