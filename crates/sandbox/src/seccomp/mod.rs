//! The filter of system calls: what is not named does not exist (`ENOSYS`).
//!
//! Calls of a foreign architecture kill the process; a few calls are allowed by their arguments: new namespaces,
//! socket families, terminal injection, execution domains, limits of other processes. The lists name what ordinary
//! programs need; everything that mounts, traces, loads, or reaches into another process is left out.

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod arch;
mod calls;
mod program;

use libc::c_long;
use rustix::io::Errno;

use crate::{sys::Instruction, types::Level, wire::MemoryKeeper};
use program::{
    ALLOW, KILL, Program, allow_low, and_low, deny, if_any_bit, if_at_least, if_equal, load_arch, load_low,
    load_number, ret,
};

/// The filter for commands at a level.
pub(crate) fn filter(level: Level, memory: MemoryKeeper) -> Vec<Instruction> {
    let mut program = native_calls_only();
    for (call, rule) in rules(level) {
        program.extend(if_equal(number(call), &rule, &[]));
    }
    program.extend(program::allow_ranges(&ranges(allowed(level, memory))));
    program.push(deny(Errno::NOSYS));
    program
}

/// The filter for a [helper](crate::Helper): memory, what is open already, its own end.
pub(crate) fn helper_filter() -> Vec<Instruction> {
    let mut program = native_calls_only();
    program.extend(program::allow_ranges(&ranges(sorted(calls::HELPER.to_vec()))));
    program.push(deny(Errno::NOSYS));
    program
}

/// Loads the number of the call, and ends a process that calls as another architecture does.
fn native_calls_only() -> Program {
    let mut program: Program = Vec::new();
    program.extend(load_arch());
    program.extend(if_equal(arch::AUDIT_ARCH, &[], &[ret(KILL)]));
    program.extend(load_number());
    if let Some(foreign) = arch::FOREIGN_FROM {
        // -1 is what debuggers and some libraries use for "no call".
        program.extend(if_equal(u32::MAX, &[deny(Errno::NOSYS)], &[]));
        program.extend(if_at_least(foreign, &[ret(KILL)]));
    }
    program
}

fn number(call: c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

/// Every call that is allowed whatever its arguments, in order.
fn allowed(level: Level, memory: MemoryKeeper) -> Vec<u32> {
    let mut calls: Vec<c_long> = [calls::COMMON, arch::CALLS].concat();
    let counted = memory == MemoryKeeper::Kernel;
    if counted {
        calls.extend(calls::MEMORY_FILES);
    }
    if level == Level::Namespaces {
        calls.extend(calls::OWN_NAMESPACES);
        if counted {
            calls.extend(calls::SHARED_MEMORY);
        }
    }
    sorted(calls)
}

fn sorted(calls: Vec<c_long>) -> Vec<u32> {
    let mut numbers: Vec<u32> = calls.into_iter().map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Neighbouring numbers as ranges, both ends included: a shorter program, and one that the kernel checks faster.
fn ranges(numbers: Vec<u32>) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

/// New namespaces of any kind; the last one only `unshare` and `clone3` can ask for.
const NEW_NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWCGROUP;
const NEW_TIME_NAMESPACE: i32 = 0x80;

/// Requests that put characters into a terminal's input, make subvolumes, or move a file out of its quota. Compared
/// on 32 bits: the kernel ignores the rest.
const FORBIDDEN_REQUESTS: [u32; 7] = [
    0x5412,      // TIOCSTI
    0x541C,      // TIOCLINUX
    0x5000_9401, // BTRFS_IOC_SNAP_CREATE
    0x5000_940E, // BTRFS_IOC_SUBVOL_CREATE
    0x5000_9417, // BTRFS_IOC_SNAP_CREATE_V2
    0x5000_9418, // BTRFS_IOC_SUBVOL_CREATE_V2
    0x401C_5820, // FS_IOC_FSSETXATTR
];

fn rules(level: Level) -> Vec<(c_long, Program)> {
    let mut clone = load_low(0);
    clone.extend(if_any_bit(bits(NEW_NAMESPACES), &[deny(Errno::PERM)]));
    clone.push(ret(ALLOW));
    let mut unshare = load_low(0);
    unshare.extend(if_any_bit(
        bits(NEW_NAMESPACES | NEW_TIME_NAMESPACE),
        &[deny(Errno::PERM)],
    ));
    unshare.push(ret(ALLOW));
    let mut ioctl = load_low(1);
    for request in FORBIDDEN_REQUESTS {
        ioctl.extend(if_equal(request, &[deny(Errno::PERM)], &[]));
    }
    ioctl.push(ret(ALLOW));
    vec![
        (libc::SYS_clone, clone),
        (libc::SYS_unshare, unshare),
        (libc::SYS_ioctl, ioctl),
        (libc::SYS_socket, socket(level)),
        (
            libc::SYS_socketpair,
            allow_low(0, &[bits(libc::AF_UNIX)], Errno::AFNOSUPPORT),
        ),
        // The ordinary domain, and the question which one it is.
        (libc::SYS_personality, allow_low(0, &[0, u32::MAX], Errno::PERM)),
        // Limits of itself only.
        (libc::SYS_prlimit64, allow_low(0, &[0], Errno::PERM)),
        (libc::SYS_setns, vec![deny(Errno::PERM)]),
    ]
}

/// Families with a network namespace of its own: unix, TCP and UDP, and the routing table's own netlink. Without
/// one: none, as the host's network would be reached.
fn socket(level: Level) -> Program {
    if level != Level::Namespaces {
        return vec![deny(Errno::PERM)];
    }
    let protocol = |ip: i32| allow_low(2, &[0, bits(ip)], Errno::PROTONOSUPPORT);
    let mut internet = load_low(1);
    internet.extend(and_low(0xf));
    internet.extend(if_equal(
        bits(libc::SOCK_STREAM),
        &protocol(libc::IPPROTO_TCP),
        &[],
    ));
    internet.extend(if_equal(
        bits(libc::SOCK_DGRAM),
        &protocol(libc::IPPROTO_UDP),
        &[],
    ));
    internet.push(deny(Errno::PERM));
    let netlink = allow_low(2, &[bits(libc::NETLINK_ROUTE)], Errno::PROTONOSUPPORT);
    let mut program = load_low(0);
    program.extend(if_equal(bits(libc::AF_UNIX), &[ret(ALLOW)], &[]));
    program.extend(if_equal(bits(libc::AF_INET), &internet, &[]));
    program.extend(if_equal(bits(libc::AF_INET6), &internet, &[]));
    program.extend(if_equal(bits(libc::AF_NETLINK), &netlink, &[]));
    program.push(deny(Errno::AFNOSUPPORT));
    program
}

fn bits(value: i32) -> u32 {
    value.cast_unsigned()
}

#[cfg(test)]
mod tests;
