//! Rules without a control group that counts memory: they deny calls that make the kernel hold memory unseen by the watch.

use libc::c_long;
use rustix::io::Errno;

use super::{
    arch, bits,
    program::{ALLOW, ASK, Program, deny, if_equal, load_low, load_number, pretend, ret},
};
use crate::{sys::Instruction, types::Level};

/// Calls that are decided by their arguments there, with the rule for each.
pub(super) fn rules(level: Level) -> Vec<(c_long, Program)> {
    let mut rules = vec![
        (libc::SYS_setsockopt, setsockopt()),
        // A pipe would hold pages, also huge ones, that the process has unmapped. Programs write instead.
        (libc::SYS_vmsplice, vec![deny(Errno::NOSYS)]),
    ];
    if level != Level::Namespaces {
        // Descriptors in flight between sockets belong to no process: without a network namespace nothing reports them.
        rules.extend([libc::SYS_sendmsg, libc::SYS_sendmmsg].map(|call| (call, vec![deny(Errno::PERM)])));
        // Unread events pile up. Programs take this error for "no more instances" and poll instead.
        rules.extend(arch::INOTIFY.iter().map(|call| (*call, vec![deny(Errno::MFILE)])));
    }
    rules
}

/// Keeps buffers at their default size: a socket holds at most that much for each closed sender. The kernel also cuts requested
/// sizes silently.
fn setsockopt() -> Program {
    let mut sizes = load_low(2);
    for option in [
        libc::SO_SNDBUF,
        libc::SO_RCVBUF,
        libc::SO_SNDBUFFORCE,
        libc::SO_RCVBUFFORCE,
    ] {
        sizes.extend(if_equal(bits(option), &[pretend()], &[]));
    }
    sizes.push(ret(ALLOW));
    let mut program = load_low(1);
    program.extend(if_equal(bits(libc::SOL_SOCKET), &sizes, &[]));
    program.push(ret(ALLOW));
    program
}

/// Calls at which a process asks the sandbox's first process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// The question how much memory there is.
    Memory,
    /// The amount of memory, and calls that use kernel memory which no control group bounds.
    All,
}

/// The filter that asks its listener for the amount of memory, and before a process adds a descriptor to an epoll instance or
/// creates a session. The other filter decides all other calls.
pub(crate) fn ask_at_some_calls(asks: Asks) -> Vec<Instruction> {
    let mut adds = load_low(1);
    adds.extend(if_equal(bits(libc::EPOLL_CTL_ADD), &[ret(ASK)], &[]));
    adds.push(ret(ALLOW));
    let mut program = load_number();
    program.extend(if_equal(super::number(libc::SYS_sysinfo), &[ret(ASK)], &[]));
    if asks == Asks::All {
        program.extend(if_equal(super::number(libc::SYS_epoll_ctl), &adds, &[]));
        program.extend(if_equal(super::number(libc::SYS_setsid), &[ret(ASK)], &[]));
    }
    program.push(ret(ALLOW));
    program
}
