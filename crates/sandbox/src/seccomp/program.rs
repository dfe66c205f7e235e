//! A few words of classic BPF over `struct seccomp_data`, enough to write the rules readably.

use rustix::io::Errno;

use crate::sys::Instruction;

pub(super) type Program = Vec<Instruction>;

pub(super) const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
/// The listener of the filter decides.
pub(super) const ASK: u32 = libc::SECCOMP_RET_USER_NOTIF;
pub(super) const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const GREATER: u32 = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
const ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;

/// Offsets in `struct seccomp_data`. The low half of an argument comes first on the architectures served.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

fn statement(code: u32, value: u32) -> Instruction {
    jump(code, value, 0, 0)
}

fn jump(code: u32, value: u32, if_true: usize, if_false: usize) -> Instruction {
    // Every block here is far below 256 instructions: the rules are constants, and a test runs them all.
    Instruction {
        code: u16::try_from(code).unwrap_or(u16::MAX),
        jt: u8::try_from(if_true).unwrap_or(u8::MAX),
        jf: u8::try_from(if_false).unwrap_or(u8::MAX),
        k: value,
    }
}

pub(super) fn ret(action: u32) -> Instruction {
    statement(RETURN, action)
}

/// The call fails with this error.
pub(super) fn deny(error: Errno) -> Instruction {
    ret(libc::SECCOMP_RET_ERRNO | error.raw_os_error().cast_unsigned())
}

/// Answers the call with success, and does nothing.
pub(super) fn pretend() -> Instruction {
    ret(libc::SECCOMP_RET_ERRNO)
}

pub(super) fn load_number() -> Program {
    vec![statement(LOAD, NUMBER)]
}

pub(super) fn load_arch() -> Program {
    vec![statement(LOAD, ARCH)]
}

/// Loads the low 32 bits of an argument.
pub(super) fn load_low(argument: u32) -> Program {
    vec![statement(LOAD, ARGUMENTS + 8 * argument)]
}

/// Loads the high 32 bits of an argument.
pub(super) fn load_high(argument: u32) -> Program {
    vec![statement(LOAD, ARGUMENTS + 8 * argument + 4)]
}

/// Keeps only the bits of `mask` of the loaded value.
pub(super) fn and_low(mask: u32) -> Program {
    vec![statement(AND, mask)]
}

/// `then` (which must end with a return) if the loaded value equals `value`, otherwise `or_else`, then the following
/// instructions.
pub(super) fn if_equal(value: u32, then: &[Instruction], or_else: &[Instruction]) -> Program {
    let mut program = if then.is_empty() {
        vec![jump(EQUAL, value, or_else.len(), 0)]
    } else {
        vec![jump(EQUAL, value, 0, then.len())]
    };
    program.extend(then);
    program.extend(or_else);
    program
}

pub(super) fn if_at_least(value: u32, then: &[Instruction]) -> Program {
    let mut program = vec![jump(AT_LEAST, value, 0, then.len())];
    program.extend(then);
    program
}

pub(super) fn if_any_bit(mask: u32, then: &[Instruction]) -> Program {
    let mut program = vec![jump(ANY_BIT, mask, 0, then.len())];
    program.extend(then);
    program
}

/// Allows the call if the low half of an argument is one of `values`, denies it otherwise.
pub(super) fn allow_low(argument: u32, values: &[u32], otherwise: Errno) -> Program {
    let mut program = load_low(argument);
    for value in values {
        program.extend(if_equal(*value, &[ret(ALLOW)], &[]));
    }
    program.push(deny(otherwise));
    program
}

/// Allows the loaded value if it lies in one of the ranges, which are in order.
pub(super) fn allow_ranges(ranges: &[(u32, u32)]) -> Program {
    let mut program = Vec::with_capacity(ranges.len() * 3);
    for (first, last) in ranges {
        program.push(jump(GREATER, *last, 2, 0));
        program.push(jump(AT_LEAST, *first, 0, 1));
        program.push(ret(ALLOW));
    }
    program
}
