//! Rules where a control group does not count memory: what the kernel would hold for a run without the watch seeing it.

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
        // Descriptors on their way between sockets are nobody's: without a network namespace nothing tells of them.
        rules.extend([libc::SYS_sendmsg, libc::SYS_sendmmsg].map(|call| (call, vec![deny(Errno::PERM)])));
        // Events that nobody reads pile up. Programs take this for "no more instances" and look again and again instead.
        rules.extend(arch::INOTIFY.iter().map(|call| (*call, vec![deny(Errno::MFILE)])));
    }
    rules
}

/// Buffers stay as large as they are: a socket holds at most that for each sender that is closed. The kernel cuts what is
/// asked for without a word as well.
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

/// The filter that asks its listener how much memory there is, and before a process has an epoll instance watch one more
/// descriptor or makes a session. The other filter decides over everything else.
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
