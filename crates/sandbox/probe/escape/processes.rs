//! Processes of the host and the sandbox's own first one.

use std::{fs, io};

use super::{Host, expect, must_be_refused, must_fail, not_checked};
use crate::raw::{call, fork, wait};

pub(super) fn try_all(host: &Host<'_>) {
    let engine: usize = host.fact("pid").parse().unwrap_or(0);
    seen(host);
    if engine < 100 {
        not_checked(11, "signal the engine", "its number is that of a process inside");
    } else {
        must_fail(11, "signal the engine", signal(engine, 0));
        must_fail(
            11,
            "open the engine's process",
            os(call(libc::SYS_pidfd_open, [engine, 0, 0, 0, 0, 0])),
        );
        let limits = call(libc::SYS_prlimit64, [engine, 7, 0, 0, 0, 0]);
        must_fail(11, "limit the engine", os(limits));
    }
    let parent = parent();
    let first = if host.has_namespaces() { 1 } else { parent };
    for name in ["environ", "mem", "maps", "fd", "root", "cwd/.", "task/1/fd"] {
        let path = format!("/proc/{first}/{name}");
        let read = fs::read_dir(&path)
            .map(drop)
            .or_else(|_| fs::read(&path).map(drop));
        must_fail(12, &format!("read {path}"), read);
    }
    if host.has_namespaces() {
        // The kernel says yes and does nothing: what counts is that we are still here.
        let _ignored = signal(1, libc::SIGKILL);
        let _ignored = signal(1, libc::SIGSTOP);
        expect(13, "kill the first process", signal(1, 0).is_ok(), "it lives");
    } else {
        must_fail(13, "kill the first process", signal(parent, libc::SIGKILL));
    }
    must_be_refused(14, "trace the first process", ptrace(libc::PTRACE_ATTACH, first));
    must_be_refused(14, "be traced by the parent", ptrace(libc::PTRACE_TRACEME, 0));
    if let Ok(child) = fork(|| {
        // SAFETY: waits for a signal.
        unsafe { libc::pause() }
    }) {
        let number = usize::try_from(child).unwrap_or(0);
        must_be_refused(14, "trace a child", ptrace(libc::PTRACE_ATTACH, number));
        for (name, call_number) in [
            ("read a child's memory", libc::SYS_process_vm_readv),
            ("write a child's memory", libc::SYS_process_vm_writev),
            ("take a child's descriptor", libc::SYS_pidfd_getfd),
            ("compare with a child", libc::SYS_kcmp),
        ] {
            must_be_refused(14, name, call(call_number, [number, 0, 0, 0, 0, 0]));
        }
        let _ended = signal(number, libc::SIGKILL);
        wait(child);
    }
}

fn seen(host: &Host<'_>) {
    let listed = fs::read_dir("/proc").map(|entries| {
        entries
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
            .count()
    });
    let engine = fs::read(format!("/proc/{}/cmdline", host.fact("pid")));
    if host.has_namespaces() {
        let count = listed.unwrap_or(0);
        expect(
            10,
            "see the host's processes",
            (1..10).contains(&count),
            &format!("{count} are seen"),
        );
    } else {
        must_fail(10, "list processes", listed);
    }
    must_fail(10, "read the engine's command line", engine);
}

fn parent() -> usize {
    // SAFETY: touches no memory.
    usize::try_from(unsafe { libc::getppid() }).unwrap_or(0)
}

fn signal(pid: usize, signal: i32) -> io::Result<()> {
    os(call(
        libc::SYS_kill,
        [pid, usize::try_from(signal).unwrap_or(0), 0, 0, 0, 0],
    ))
}

fn ptrace(request: u32, pid: usize) -> Result<usize, i32> {
    call(
        libc::SYS_ptrace,
        [usize::try_from(request).unwrap_or(0), pid, 0, 0, 0, 0],
    )
}

fn os(result: Result<usize, i32>) -> io::Result<()> {
    result.map(drop).map_err(io::Error::from_raw_os_error)
}
