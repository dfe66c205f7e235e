//! The system call filter: calls that are not listed do not exist (`ENOSYS`).
//!
//! Calls of a foreign architecture kill the process; a few calls are allowed by their arguments: new namespaces, socket families,
//! requests of `ioctl`, execution domains, limits and scheduling of other processes. The lists name the calls that ordinary
//! programs need; calls that mount, trace, load, or reach into another process are left out.

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod arch;
mod calls;
mod program;
mod requests;
mod watched;

use libc::c_long;
use rustix::io::Errno;

use crate::{sys::Instruction, types::Level, wire::MemoryKeeper};
use program::{
    ALLOW, KILL, Program, allow_low, and_low, deny, if_any_bit, if_at_least, if_equal, load_arch, load_high,
    load_low, load_number, pretend, ret,
};

pub(crate) use watched::{Asks, ask_at_some_calls};

/// The filter for commands at a level.
pub(crate) fn filter(level: Level, memory: MemoryKeeper) -> Vec<Instruction> {
    let mut program = native_calls_only();
    for (call, rule) in rules(level, memory) {
        program.extend(if_equal(number(call), &rule, &[]));
    }
    program.extend(program::allow_ranges(&ranges(allowed(level, memory))));
    program.push(deny(Errno::NOSYS));
    program
}

/// The filter for a [helper](crate::Helper): memory, descriptors that are already open, and its exit.
pub(crate) fn helper_filter() -> Vec<Instruction> {
    let mut program = native_calls_only();
    program.extend(program::allow_ranges(&ranges(sorted(
        calls::HELPER.iter().copied().map(number).collect(),
    ))));
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
            calls.extend(calls::SYSTEM_V);
        }
    }
    sorted(calls.into_iter().map(number).collect())
}

fn sorted(mut numbers: Vec<u32>) -> Vec<u32> {
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

/// New namespaces of any kind; only `unshare` and `clone3` can request the last one.
const NEW_NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWCGROUP;
const NEW_TIME_NAMESPACE: i32 = 0x80;

/// Calls that are decided by their arguments, with the rule for each.
fn rules(level: Level, memory: MemoryKeeper) -> Vec<(c_long, Program)> {
    let mut rules = vec![
        (libc::SYS_clone, clone()),
        (libc::SYS_unshare, unshare()),
        (libc::SYS_close_range, close_range()),
        (libc::SYS_fallocate, fallocate()),
        (libc::SYS_ioctl, requests::ioctl()),
        (libc::SYS_prctl, prctl()),
        (libc::SYS_socket, socket(level)),
        (libc::SYS_socketpair, socketpair(level)),
        // The ordinary domain, and the query of the current one.
        (libc::SYS_personality, allow_low(0, &[0, u32::MAX], Errno::PERM)),
        // Limits of itself only.
        (libc::SYS_prlimit64, allow_low(0, &[0], Errno::PERM)),
        (libc::SYS_setns, vec![deny(Errno::PERM)]),
        // Both write out every file of the host's file system, and delay the engine's `fsync` during that time.
        (libc::SYS_sync, vec![pretend()]),
        (libc::SYS_syncfs, vec![pretend()]),
    ];
    rules.extend(scheduling());
    if level != Level::Namespaces {
        rules.extend(without_namespaces());
    }
    match memory {
        MemoryKeeper::Kernel => {}
        MemoryKeeper::Watch => rules.extend(watched::rules(level)),
    }
    rules
}

fn clone() -> Program {
    let mut program = load_low(0);
    program.extend(if_any_bit(bits(NEW_NAMESPACES), &[deny(Errno::PERM)]));
    // A thread with a separate descriptor table would hide its descriptors: the watch reads those of the process.
    program.extend(and_low(bits(libc::CLONE_THREAD | libc::CLONE_FILES)));
    program.extend(if_equal(bits(libc::CLONE_THREAD), &[deny(Errno::PERM)], &[]));
    program.push(ret(ALLOW));
    program
}

fn unshare() -> Program {
    let mut program = load_low(0);
    program.extend(if_any_bit(
        bits(NEW_NAMESPACES | NEW_TIME_NAMESPACE | libc::CLONE_FILES),
        &[deny(Errno::PERM)],
    ));
    program.push(ret(ALLOW));
    program
}

fn close_range() -> Program {
    let mut program = load_low(2);
    program.extend(if_any_bit(libc::CLOSE_RANGE_UNSHARE, &[deny(Errno::INVAL)]));
    program.push(ret(ALLOW));
    program
}

/// Allows only punching holes. Libraries that get `EOPNOTSUPP` write zeroes instead, which is slow enough for the watch to see
/// it.
fn fallocate() -> Program {
    let punch = bits(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE);
    allow_low(1, &[punch], Errno::OPNOTSUPP)
}

/// Keeps a process dumpable: the watch could read neither the memory nor the descriptors of one that is not. Programs that clear
/// the flag get success.
fn prctl() -> Program {
    let mut hide = load_low(1);
    hide.extend(if_equal(0, &[pretend()], &[]));
    hide.push(ret(ALLOW));
    let mut program = load_low(0);
    program.extend(if_equal(bits(libc::PR_SET_DUMPABLE), &hide, &[]));
    // A process with a private core scheduling cookie keeps the core's other threads idle.
    program.extend(if_equal(bits(libc::PR_SCHED_CORE), &[deny(Errno::INVAL)], &[]));
    program.push(ret(ALLOW));
    program
}

/// Socket families with a private network namespace: unix, TCP, UDP and the routing netlink. Without one: none, as they would
/// reach the host's network.
fn socket(level: Level) -> Program {
    if level != Level::Namespaces {
        return vec![deny(Errno::PERM)];
    }
    let protocol = |ip: i32| allow_low(2, &[0, bits(ip)], Errno::PROTONOSUPPORT);
    let mut internet = load_low(1);
    internet.extend(and_low(SOCKET_TYPE));
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

/// The type of a socket, without its flags.
const SOCKET_TYPE: u32 = 0xf;

/// Pairs of unix sockets. Without a network namespace only of types that send only to their peer: a datagram can be addressed to
/// any named socket of the host.
fn socketpair(level: Level) -> Program {
    let mut of_type = load_low(1);
    of_type.extend(and_low(SOCKET_TYPE));
    for connected in [libc::SOCK_STREAM, libc::SOCK_SEQPACKET] {
        of_type.extend(if_equal(bits(connected), &[ret(ALLOW)], &[]));
    }
    of_type.push(deny(Errno::PROTONOSUPPORT));
    let unix = if level == Level::Namespaces {
        vec![ret(ALLOW)]
    } else {
        of_type
    };
    let mut program = load_low(0);
    program.extend(if_equal(bits(libc::AF_UNIX), &unix, &[]));
    program.push(deny(Errno::AFNOSUPPORT));
    program
}

/// Calls that change the scheduling of a process may affect only the caller. They require only the same user, and the sandbox's
/// first process has it.
fn scheduling() -> Vec<(c_long, Program)> {
    let itself = [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
    ];
    let mut rules = itself
        .map(|call| (call, allow_low(0, &[0], Errno::PERM)))
        .to_vec();
    rules.push((libc::SYS_setpriority, about_itself(PRIO_PROCESS)));
    rules.push((libc::SYS_ioprio_set, about_itself(IOPRIO_WHO_PROCESS)));
    rules
}

const PRIO_PROCESS: u32 = 0;
const IOPRIO_WHO_PROCESS: u32 = 1;

/// Without namespaces, calls about sockets and processes would reach those of the host: named sockets, and the engine's
/// processes, which may have the same user. A process may query and change only itself.
fn without_namespaces() -> Vec<(c_long, Program)> {
    let mut rules: Vec<(c_long, Program)> = [
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_bind,
        libc::SYS_connect,
        libc::SYS_listen,
    ]
    .into_iter()
    .map(|call| (call, vec![deny(Errno::PERM)]))
    .collect();
    rules.push((libc::SYS_sendto, without_address()));
    let itself = [
        libc::SYS_get_robust_list,
        libc::SYS_getpgid,
        libc::SYS_getsid,
        libc::SYS_sched_getattr,
        libc::SYS_sched_getparam,
        libc::SYS_sched_getscheduler,
        libc::SYS_sched_rr_get_interval,
    ];
    rules.extend(itself.map(|call| (call, allow_low(0, &[0], Errno::PERM))));
    // The C library uses it to find the stack of a thread, and accepts no other error for "unknown".
    rules.push((libc::SYS_sched_getaffinity, allow_low(0, &[0], Errno::NOSYS)));
    rules.push((libc::SYS_getpriority, about_itself(PRIO_PROCESS)));
    rules.push((libc::SYS_ioprio_get, about_itself(IOPRIO_WHO_PROCESS)));
    rules
}

/// For calls with a process as their second argument if the first is `process`.
fn about_itself(process: u32) -> Program {
    let mut program = load_low(0);
    program.extend(if_equal(process, &allow_low(1, &[0], Errno::PERM), &[]));
    program.push(deny(Errno::PERM));
    program
}

/// For `sendto` with a null address.
fn without_address() -> Program {
    let mut program = load_high(4);
    program.extend(if_equal(0, &allow_low(4, &[0], Errno::PERM), &[]));
    program.push(deny(Errno::PERM));
    program
}

fn bits(value: i32) -> u32 {
    value.cast_unsigned()
}

#[cfg(test)]
mod tests;
