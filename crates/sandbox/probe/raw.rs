//! System calls without a wrapper in between.

use std::{
    error::Error,
    ffi::{CString, c_long},
    io::{self, Write},
};

pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// Makes a system call; the error is its number.
pub(crate) fn call(number: c_long, arguments: [usize; 6]) -> Result<usize, i32> {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    // SAFETY: the callers pass null, small numbers, or pointers to values that they keep alive.
    let result = unsafe { libc::syscall(number, first, second, third, fourth, fifth, sixth) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// A path as an argument.
pub(crate) fn text(value: &str) -> CString {
    CString::new(value).unwrap_or_default()
}

pub(crate) fn pointer(value: &CString) -> usize {
    value.as_ptr().addr()
}

/// Forks: the child runs `child` and exits with its result. Returns the child.
pub(crate) fn fork(child: impl FnOnce() -> i32) -> Result<i32, i32> {
    // SAFETY: this program is single-threaded at every fork.
    match unsafe { libc::fork() } {
        0 => {
            let code = child();
            // SAFETY: ends the process.
            unsafe { libc::_exit(code) }
        }
        -1 => Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        pid => Ok(pid),
    }
}

/// Waits for a child; its raw status.
pub(crate) fn wait(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: `status` is valid for writes.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    status
}

pub(crate) fn ignore(signal: i32) {
    // SAFETY: ignoring runs no code.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

pub(crate) fn say(line: &str) {
    let _nobody_may_listen = io::stdout().write_all(line.as_bytes());
}

pub(crate) fn say_to_stderr(line: &str) {
    let _nobody_may_listen = io::stderr().write_all(line.as_bytes());
}
