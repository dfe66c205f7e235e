//! System calls that have no business in a sandbox.

use std::ffi::c_long;

use super::{Host, expect, must_be_refused, must_fail, not_checked};
use crate::raw::{call, fork, pointer, text, wait};

pub(super) fn try_all(host: &Host<'_>) {
    mounts();
    namespaces();
    for (row, name, number, arguments) in refused() {
        must_be_refused(row, name, call(number, arguments));
    }
    x86();
    terminals(host);
    file_systems();
    ipc(host);
}

fn mounts() {
    let (tmpfs, tmp, dot) = (text("tmpfs"), text("/tmp"), text("."));
    let (tmpfs, tmp, dot) = (pointer(&tmpfs), pointer(&tmp), pointer(&dot));
    let remount = usize::try_from(libc::MS_REMOUNT | libc::MS_BIND).unwrap_or(0);
    let at = usize::MAX - 99; // AT_FDCWD
    for (name, number, arguments) in [
        ("mount", libc::SYS_mount, [tmpfs, tmp, tmpfs, 0, 0, 0]),
        (
            "remount writable",
            libc::SYS_mount,
            [0, pointer(&text("/usr")), 0, remount, 0, 0],
        ),
        ("umount", libc::SYS_umount2, [tmp, 2, 0, 0, 0, 0]),
        ("fsopen", libc::SYS_fsopen, [tmpfs, 0, 0, 0, 0, 0]),
        ("open_tree", libc::SYS_open_tree, [at, tmp, 1, 0, 0, 0]),
        ("move_mount", libc::SYS_move_mount, [at, dot, at, tmp, 0, 0]),
        ("mount_setattr", libc::SYS_mount_setattr, [at, tmp, 0, 0, 0, 0]),
        ("pivot_root", libc::SYS_pivot_root, [dot, dot, 0, 0, 0, 0]),
        ("chroot", libc::SYS_chroot, [dot, 0, 0, 0, 0, 0]),
    ] {
        must_be_refused(23, name, call(number, arguments));
    }
}

fn namespaces() {
    for (name, flag) in [
        ("user", libc::CLONE_NEWUSER),
        ("mount", libc::CLONE_NEWNS),
        ("pid", libc::CLONE_NEWPID),
        ("network", libc::CLONE_NEWNET),
        ("ipc", libc::CLONE_NEWIPC),
        ("uts", libc::CLONE_NEWUTS),
        ("cgroup", libc::CLONE_NEWCGROUP),
        ("time", 0x80),
    ] {
        let flag = usize::try_from(flag).unwrap_or(0);
        must_be_refused(
            24,
            &format!("unshare {name}"),
            call(libc::SYS_unshare, [flag, 0, 0, 0, 0, 0]),
        );
    }
    let flags = usize::try_from(libc::CLONE_NEWUSER | libc::SIGCHLD).unwrap_or(0);
    for (name, flags) in [("clone user", flags), ("clone user, high bits", flags | 1 << 40)] {
        let cloned = call(libc::SYS_clone, [flags, 0, 0, 0, 0, 0]);
        if cloned == Ok(0) {
            // SAFETY: the child that should not be ends.
            unsafe { libc::_exit(0) }
        }
        must_be_refused(25, name, cloned);
    }
    must_be_refused(25, "clone3", call(libc::SYS_clone3, [0, 88, 0, 0, 0, 0]));
    must_be_refused(25, "setns", call(libc::SYS_setns, [0, 0, 0, 0, 0, 0]));
}

fn refused() -> Vec<(u32, &'static str, c_long, [usize; 6])> {
    let none = [0; 6];
    let randomize = [0x004_0000, 0, 0, 0, 0, 0];
    // Asks for something harmless, should it ever get through.
    let reboot = [0xfee1_dead, 672_274_793, 0x89AB_CDEF, 0, 0, 0];
    vec![
        (26, "bpf", libc::SYS_bpf, none),
        (26, "perf_event_open", libc::SYS_perf_event_open, none),
        (27, "io_uring_setup", libc::SYS_io_uring_setup, [8, 0, 0, 0, 0, 0]),
        (28, "add_key", libc::SYS_add_key, none),
        (28, "request_key", libc::SYS_request_key, none),
        (28, "keyctl", libc::SYS_keyctl, none),
        (29, "userfaultfd", libc::SYS_userfaultfd, none),
        (29, "memfd_secret", libc::SYS_memfd_secret, none),
        (29, "personality", libc::SYS_personality, randomize),
        (30, "name_to_handle_at", libc::SYS_name_to_handle_at, none),
        (30, "open_by_handle_at", libc::SYS_open_by_handle_at, none),
        (31, "kexec_load", libc::SYS_kexec_load, none),
        (31, "init_module", libc::SYS_init_module, none),
        (31, "finit_module", libc::SYS_finit_module, none),
        (31, "delete_module", libc::SYS_delete_module, none),
        (31, "reboot", libc::SYS_reboot, reboot),
        (31, "swapon", libc::SYS_swapon, none),
        (31, "swapoff", libc::SYS_swapoff, none),
        (31, "acct", libc::SYS_acct, [1, 0, 0, 0, 0, 0]),
        (31, "quotactl", libc::SYS_quotactl, none),
        (31, "syslog", libc::SYS_syslog, [10, 0, 0, 0, 0, 0]),
        (31, "fanotify_init", libc::SYS_fanotify_init, none),
        (31, "vhangup", libc::SYS_vhangup, none),
        (32, "settimeofday", libc::SYS_settimeofday, [1, 0, 0, 0, 0, 0]),
        (32, "clock_settime", libc::SYS_clock_settime, none),
        (32, "clock_adjtime", libc::SYS_clock_adjtime, none),
        (32, "sethostname", libc::SYS_sethostname, none),
        (32, "setdomainname", libc::SYS_setdomainname, none),
    ]
}

/// Calls by the numbers of other architectures end the process.
#[cfg(target_arch = "x86_64")]
fn x86() {
    use std::arch::asm;

    must_be_refused(29, "modify_ldt", call(libc::SYS_modify_ldt, [0; 6]));
    must_be_refused(31, "iopl", call(libc::SYS_iopl, [3, 0, 0, 0, 0, 0]));
    must_be_refused(31, "ioperm", call(libc::SYS_ioperm, [0, 1, 1, 0, 0, 0]));
    let killed = |child: Result<i32, i32>| child.map(wait).is_ok_and(|status| status & 0x7f == libc::SIGSYS);
    let x32 = fork(|| i32::from(call(0x4000_0000 + libc::SYS_getpid, [0; 6]).is_err()));
    expect(34, "an x32 call", killed(x32), "ends by SIGSYS");
    let int80 = fork(|| {
        let mut result: i64 = 20; // getpid of 32-bit x86
        // SAFETY: the call reads and writes no memory; the registers it may change are named.
        unsafe {
            asm!("int 0x80", inout("rax") result, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
        };
        i32::from(result <= 0)
    });
    expect(34, "a 32-bit call by int 0x80", killed(int80), "ends by SIGSYS");
}

#[cfg(not(target_arch = "x86_64"))]
fn x86() {
    not_checked(34, "calls of another architecture", "only x86-64 has them");
}

fn terminals(host: &Host<'_>) {
    for (name, request) in [
        ("TIOCSTI", 0x5412),
        ("TIOCLINUX", 0x541C),
        ("TIOCSTI, high bits", 0x5412 | 1 << 32),
        ("TIOCSETD", 0x5423),
        ("TIOCCONS", 0x541D),
    ] {
        let letter = text("x");
        must_be_refused(
            35,
            name,
            call(libc::SYS_ioctl, [0, request, pointer(&letter), 0, 0, 0]),
        );
    }
    must_fail(36, "open the engine's terminal", std::fs::File::open("/dev/tty"));
    if host.has_namespaces() {
        for name in ["ttyS0", "tty1", "console", "pts/0"] {
            must_fail(36, name, std::fs::File::open(format!("/dev/{name}")));
        }
    }
}

/// Requests of the file system that holds the working directory. One that the kernel has seen has another answer.
fn file_systems() {
    let Ok(file) = std::fs::File::create("requested") else {
        return not_checked(35, "requests of a file system", "no file could be made");
    };
    let fd = usize::try_from(std::os::fd::AsRawFd::as_raw_fd(&file)).unwrap_or(0);
    for (name, request) in [
        ("FIBMAP", 1),
        ("FS_IOC_SETFLAGS", 0x4008_6602),
        ("FS_IOC_GETVERSION", 0x8008_7601),
        ("FS_IOC_FSSETXATTR", 0x401C_5820),
        ("EXT4_IOC_MIGRATE", 0x6609),
        ("EXT4_IOC_MOVE_EXT", 0xC028_660F),
        ("BTRFS_IOC_SUBVOL_CREATE", 0x5000_940E),
    ] {
        must_be_refused(35, name, call(libc::SYS_ioctl, [fd, request, 0, 0, 0, 0]));
    }
}

fn ipc(host: &Host<'_>) {
    let Ok(key) = host.fact("shm-key").parse::<usize>() else {
        not_checked(40, "the host's shared memory", "none could be made");
        return;
    };
    must_fail(
        40,
        "the host's System V memory",
        os(call(libc::SYS_shmget, [key, 0, 0, 0, 0, 0])),
    );
    let queue = text(host.fact("queue").trim_start_matches('/'));
    must_fail(
        40,
        "the host's message queue",
        os(call(libc::SYS_mq_open, [pointer(&queue), 0, 0, 0, 0, 0])),
    );
    let shared = std::fs::read(format!("/dev/shm{}", host.fact("queue")));
    must_fail(40, "the host's /dev/shm", shared);
}

fn os(result: Result<usize, i32>) -> std::io::Result<()> {
    result.map(drop).map_err(std::io::Error::from_raw_os_error)
}
