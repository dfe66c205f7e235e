//! Checks the confinement from inside, by a confined command of ours: no program of the host is needed.

use std::{
    fs::{self, File},
    hint,
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
    mount::{FsOpenFlags, fsopen},
    net::{AddressFamily, SocketType, socket},
    process::{Pid, test_kill_process},
    thread::{CapabilitySet, SecureComputingMode, capabilities, no_new_privs, secure_computing_mode},
};

use crate::{
    sys,
    types::Level,
    wire::{Check, Outside},
};

/// Runs a check as the command; returns its exit status. Each failed guarantee is printed as a line on standard output.
pub(super) fn run(check: &Check, level: Level) -> i32 {
    match check {
        Check::Memory(bytes) => use_memory(*bytes),
        Check::Escapes(outside) => {
            let open = escapes(outside, level).join("\n");
            i32::from(io::stdout().write_all(open.as_bytes()).is_err())
        }
    }
}

/// Uses memory permanently: the limit has to stop this.
fn use_memory(bytes: u64) -> i32 {
    let mut held = Vec::new();
    for _ in 0..bytes >> 20 {
        held.push(vec![1_u8; 1 << 20]);
        hint::black_box(&held);
    }
    0
}

/// Returns the attempts that the confinement should refuse but does not. A successful attempt leaves no trace on the host.
fn escapes(outside: &Outside, level: Level) -> Vec<&'static str> {
    let mut gaps = Vec::new();
    let mut expect = |held: bool, name: &'static str| {
        if !held {
            gaps.push(name);
        }
    };
    expect(
        File::open("/etc/shadow").is_err(),
        "the host's /etc/shadow can be read",
    );
    expect(
        File::open(&outside.secret).is_err(),
        "a file of the engine can be read",
    );
    // A file without a name.
    let unnamed = open("/usr", OFlags::WRONLY | OFlags::TMPFILE, Mode::RUSR);
    expect(unnamed.is_err(), "/usr can be written");
    expect(no_new_privs().unwrap_or(false), "programs may gain rights");
    let filtered = secure_computing_mode().is_ok_and(|mode| mode == SecureComputingMode::Filter);
    expect(filtered, "system calls are not filtered");
    let rights = capabilities(None).map_or(CapabilitySet::all(), |sets| sets.permitted);
    expect(rights.is_empty(), "capabilities are left");
    expect(
        socket(AddressFamily::VSOCK, SocketType::STREAM, None).is_err(),
        "virtual machine sockets open",
    );
    expect(!reaches(outside.port), "the host's loopback address is reached");
    expect(
        fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).is_err(),
        "file systems can be mounted",
    );
    expect(
        sys::try_nested_namespace().is_err(),
        "user namespaces can be nested",
    );
    expect(sys::try_trace().is_err(), "processes can be traced");
    if level == Level::Namespaces {
        expect(
            fs::read("/proc/1/environ").is_err(),
            "the environment of the first process can be read",
        );
        let processes = super::procs::all().map_or(0, |all| all.len());
        expect((1..=4).contains(&processes), "processes of the host are seen");
    } else {
        let engine = i32::try_from(outside.pid).ok().and_then(Pid::from_raw);
        let reached = engine.map(test_kill_process);
        expect(
            matches!(reached, Some(Err(Errno::PERM | Errno::SRCH))),
            "the engine can be signalled",
        );
        expect(fs::read("/proc/self/environ").is_err(), "/proc can be read");
    }
    gaps
}

fn reaches(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
}
