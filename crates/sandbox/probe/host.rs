//! Hosts with less rights: what an ordinary container, a hardened service or another user has.

use std::{ffi::CString, fs, io, ptr};

use rustix::{
    mount::{MountPropagationFlags, mount_bind, mount_change},
    process::{Gid, Uid},
    thread::{UnshareFlags, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};

use crate::raw::{Outcome, call};

/// Arguments: the rights to deny, `uid=N`, then `--` and the program. Executes the program.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    let mut parts = arguments.splitn(2, |argument| *argument == "--");
    let (denied, program) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let has = |word: &str| denied.contains(&word);
    let uid = denied
        .iter()
        .find_map(|word| word.strip_prefix("uid="))
        .map(str::parse::<u32>)
        .transpose()?;
    let is_root = rustix::process::geteuid().is_root();
    if has("cover-proc") {
        enter(if is_root {
            UnshareFlags::NEWNS
        } else {
            UnshareFlags::NEWNS | UnshareFlags::NEWUSER
        })?;
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        mount_bind("/dev/null", "/proc/version")?;
    }
    if has("deny-namespaces") {
        if !is_root {
            set_no_new_privs(true)?;
        }
        deny_namespaces()?;
    }
    if let Some(uid) = uid {
        set_thread_groups(&[])?;
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(uid));
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)?;
    }
    if has("no-user-namespaces") {
        enter(UnshareFlags::NEWUSER)?;
        fs::write("/proc/sys/user/max_user_namespaces", "0")?;
    }
    let program: Vec<CString> = program
        .iter()
        .map(|text| CString::new(*text))
        .collect::<Result<_, _>>()?;
    let argv: Vec<_> = program
        .iter()
        .map(|text| text.as_ptr())
        .chain(std::iter::once(ptr::null()))
        .collect();
    let first = program.first().ok_or("no program")?;
    // SAFETY: the list ends with a null pointer and its strings live until the program is replaced.
    unsafe { libc::execv(first.as_ptr(), argv.as_ptr()) };
    Err(io::Error::last_os_error().into())
}

/// Enters new namespaces; in a user namespace we stay who we are.
fn enter(flags: UnshareFlags) -> Outcome {
    let (uid, gid) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    // SAFETY: descriptors stay shared.
    unsafe { rustix::thread::unshare_unsafe(flags)? };
    if flags.contains(UnshareFlags::NEWUSER) {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    }
    Ok(())
}

/// Installs the default filter of container engines: no `unshare`, no `clone` with new namespaces.
fn deny_namespaces() -> Outcome {
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
        code: u16::try_from(code).unwrap_or(0),
        jt,
        jf,
        k,
    };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let any = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    let ret = libc::BPF_RET | libc::BPF_K;
    let deny = |errno: i32| libc::SECCOMP_RET_ERRNO | errno.unsigned_abs();
    let number = |call: i64| u32::try_from(call).unwrap_or(u32::MAX);
    let filter = [
        step(load, 0, 0, 0),
        step(equal, 4, 0, number(libc::SYS_unshare)),
        step(equal, 4, 0, number(libc::SYS_clone3)),
        step(equal, 0, 4, number(libc::SYS_clone)),
        step(load, 0, 0, 16),
        step(any, 0, 2, 0x7E02_0000),
        step(ret, 0, 0, deny(libc::EPERM)),
        step(ret, 0, 0, deny(libc::ENOSYS)),
        step(ret, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len())?,
        filter: filter.as_ptr().cast_mut(),
    };
    let mode = usize::try_from(libc::SECCOMP_SET_MODE_FILTER)?;
    call(libc::SYS_seccomp, [mode, 0, (&raw const program).addr(), 0, 0, 0])
        .map_err(io::Error::from_raw_os_error)?;
    Ok(())
}
