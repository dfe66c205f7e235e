use super::*;

/// Runs a filter as the kernel would.
fn run(filter: &[Instruction], arch: u32, call: u32, arguments: [u64; 6]) -> u32 {
    let mut data = [0_u32; 16];
    (data[0], data[1]) = (call, arch);
    for (index, argument) in arguments.into_iter().enumerate() {
        data[4 + 2 * index] = u32::try_from(argument & 0xFFFF_FFFF).unwrap();
        data[5 + 2 * index] = u32::try_from(argument >> 32).unwrap();
    }
    let (mut at, mut loaded) = (0, 0_u32);
    loop {
        let step = filter[at];
        at += 1;
        let code = u32::from(step.code);
        let jump = |holds: bool| usize::from(if holds { step.jt } else { step.jf });
        if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS {
            loaded = data[usize::try_from(step.k / 4).unwrap()];
        } else if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K {
            loaded &= step.k;
        } else if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K {
            at += jump(loaded == step.k);
        } else if code == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K {
            at += jump(loaded >= step.k);
        } else if code == libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K {
            at += jump(loaded > step.k);
        } else if code == libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K {
            at += jump(loaded & step.k != 0);
        } else {
            assert_eq!(code, libc::BPF_RET | libc::BPF_K);
            return step.k;
        }
    }
}

fn call(level: Level, number_of: c_long, arguments: [u64; 6]) -> u32 {
    run(
        &filter(level, MemoryKeeper::Kernel),
        arch::AUDIT_ARCH,
        number(number_of),
        arguments,
    )
}

fn error(errno: Errno) -> u32 {
    libc::SECCOMP_RET_ERRNO | errno.raw_os_error().cast_unsigned()
}

fn first(value: i32) -> [u64; 6] {
    [u64::from(bits(value)), 0, 0, 0, 0, 0]
}

#[test]
fn every_listed_call_is_allowed_and_every_other_number_does_not_exist() {
    for level in [Level::Namespaces, Level::Landlock] {
        for memory in [MemoryKeeper::Kernel, MemoryKeeper::Watch] {
            let filter = filter(level, memory);
            assert!(filter.len() < 4_096, "the kernel's limit");
            let allowed = allowed(level, memory);
            let ruled: Vec<u32> = rules(level, memory)
                .into_iter()
                .map(|(call, _)| number(call))
                .collect();
            for call in 0..1_000 {
                if ruled.contains(&call) {
                    continue;
                }
                let expected = if allowed.contains(&call) {
                    ALLOW
                } else {
                    error(Errno::NOSYS)
                };
                assert_eq!(
                    run(&filter, arch::AUDIT_ARCH, call, [0; 6]),
                    expected,
                    "call {call}"
                );
            }
        }
    }
}

#[test]
fn foreign_calls_kill_the_process() {
    let filter = filter(Level::Namespaces, MemoryKeeper::Kernel);
    assert_eq!(run(&filter, 0x4000_0003, 20, [0; 6]), KILL, "32-bit x86");
    if let Some(foreign) = arch::FOREIGN_FROM {
        assert_eq!(run(&filter, arch::AUDIT_ARCH, foreign + 39, [0; 6]), KILL, "x32");
    }
    assert_eq!(
        run(&filter, arch::AUDIT_ARCH, u32::MAX, [0; 6]),
        error(Errno::NOSYS)
    );
}

#[test]
fn what_mounts_traces_loads_or_reaches_into_others_is_not_listed() {
    for forbidden in [
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_open_tree,
        libc::SYS_move_mount,
        libc::SYS_fsopen,
        libc::SYS_mount_setattr,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_kcmp,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_io_uring_setup,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_userfaultfd,
        libc::SYS_memfd_secret,
        libc::SYS_name_to_handle_at,
        libc::SYS_open_by_handle_at,
        libc::SYS_init_module,
        libc::SYS_kexec_load,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_acct,
        libc::SYS_quotactl,
        libc::SYS_syslog,
        libc::SYS_fanotify_init,
        libc::SYS_settimeofday,
        libc::SYS_clock_settime,
        libc::SYS_sethostname,
        libc::SYS_clone3,
    ] {
        assert_eq!(
            call(Level::Namespaces, forbidden, [0; 6]),
            error(Errno::NOSYS),
            "call {forbidden}"
        );
    }
}

#[test]
fn namespaces_are_denied_and_threads_are_not() {
    for flag in [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ] {
        assert_eq!(
            call(Level::Namespaces, libc::SYS_clone, first(flag | libc::SIGCHLD)),
            error(Errno::PERM)
        );
        assert_eq!(
            call(Level::Namespaces, libc::SYS_unshare, first(flag)),
            error(Errno::PERM)
        );
    }
    assert_eq!(
        call(Level::Namespaces, libc::SYS_unshare, first(NEW_TIME_NAMESPACE)),
        error(Errno::PERM)
    );
    let thread = libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_FILES;
    assert_eq!(call(Level::Namespaces, libc::SYS_clone, first(thread)), ALLOW);
    let high = [
        0xFFFF_FFFF_0000_0000 | u64::from(bits(libc::CLONE_NEWUSER)),
        0,
        0,
        0,
        0,
        0,
    ];
    assert_eq!(call(Level::Namespaces, libc::SYS_clone, high), error(Errno::PERM));
}

#[test]
fn sockets_are_allowed_by_family_type_and_protocol() {
    let socket = |family: i32, kind: i32, protocol: i32| {
        call(
            Level::Namespaces,
            libc::SYS_socket,
            [family, kind, protocol, 0, 0, 0].map(|v| u64::from(bits(v))),
        )
    };
    for allowed in [
        (libc::AF_UNIX, libc::SOCK_STREAM, 0),
        (libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0),
        (libc::AF_INET6, libc::SOCK_DGRAM, libc::IPPROTO_UDP),
        (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE),
    ] {
        assert_eq!(socket(allowed.0, allowed.1, allowed.2), ALLOW, "{allowed:?}");
    }
    for denied in [
        (libc::AF_VSOCK, libc::SOCK_STREAM, 0),
        (libc::AF_PACKET, libc::SOCK_RAW, 0),
        (libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
        (libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
        (libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP),
        (libc::AF_INET, libc::SOCK_SEQPACKET, 0),
        (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_AUDIT),
        (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_KOBJECT_UEVENT),
    ] {
        assert_ne!(socket(denied.0, denied.1, denied.2), ALLOW, "{denied:?}");
    }
    for family in [
        libc::AF_UNIX,
        libc::AF_INET,
        libc::AF_INET6,
        libc::AF_NETLINK,
        libc::AF_VSOCK,
    ] {
        assert_ne!(
            call(Level::Landlock, libc::SYS_socket, first(family)),
            ALLOW,
            "no network namespace"
        );
    }
}

#[test]
fn requests_of_a_device_or_a_file_system_are_refused_unless_ordinary_programs_make_them() {
    let request = |level, request: u64| call(level, libc::SYS_ioctl, [0, request, 0, 0, 0, 0]);
    for level in [Level::Namespaces, Level::Landlock] {
        for refused in [
            libc::TIOCSTI,
            libc::TIOCSTI | 0xFFFF_FFFF_0000_0000,
            libc::TIOCLINUX,
            libc::TIOCSETD,
            libc::TIOCCONS,
            0x4008_6602, // FS_IOC_SETFLAGS
            0x8008_7601, // FS_IOC_GETVERSION
            0x6609,      // EXT4_IOC_MIGRATE
            0xC028_660F, // EXT4_IOC_MOVE_EXT
            0x401C_5820, // FS_IOC_FSSETXATTR
            0x5000_940E, // BTRFS_IOC_SUBVOL_CREATE
            0x5000_9401, // BTRFS_IOC_SNAP_CREATE
            1,           // FIBMAP
            0,
            u64::from(u32::MAX),
        ] {
            assert_eq!(request(level, refused), error(Errno::PERM), "{refused:#x}");
        }
        for allowed in [
            libc::TCGETS,
            libc::TCSETSF,
            libc::TIOCGWINSZ,
            libc::TIOCSCTTY,
            libc::TIOCGPTN,
            libc::TIOCSPTLCK,
            libc::TIOCGPTPEER,
            libc::FIONREAD,
            libc::FIONBIO,
            libc::FIOCLEX,
            0x802C_542A, // TCGETS2
            0x8912,      // SIOCGIFCONF
        ] {
            assert_eq!(request(level, allowed), ALLOW, "{allowed:#x}");
        }
        // A copy falls back to reading and writing.
        assert_eq!(request(level, libc::FICLONE), error(Errno::OPNOTSUPP));
    }
}

#[test]
fn rules_are_within_the_reach_of_a_jump() {
    for level in [Level::Namespaces, Level::Landlock] {
        for (call, rule) in rules(level, MemoryKeeper::Watch) {
            assert!(rule.len() < 256, "call {call}: {}", rule.len());
        }
    }
}

#[test]
fn memory_that_only_a_cgroup_counts_needs_a_cgroup() {
    let with = |call, level, memory| run(&filter(level, memory), arch::AUDIT_ARCH, number(call), [0; 6]);
    for hidden in [
        libc::SYS_memfd_create,
        libc::SYS_shmget,
        libc::SYS_msgsnd,
        libc::SYS_semget,
    ] {
        assert_eq!(with(hidden, Level::Namespaces, MemoryKeeper::Kernel), ALLOW);
        assert_eq!(
            with(hidden, Level::Namespaces, MemoryKeeper::Watch),
            error(Errno::NOSYS)
        );
    }
    let host_ipc = with(libc::SYS_shmget, Level::Landlock, MemoryKeeper::Kernel);
    assert_eq!(host_ipc, error(Errno::NOSYS), "the host's ipc namespace");
}

#[test]
fn limits_of_other_processes_stay_as_they_are() {
    assert_eq!(call(Level::Namespaces, libc::SYS_prlimit64, first(0)), ALLOW);
    assert_eq!(
        call(Level::Namespaces, libc::SYS_prlimit64, first(1)),
        error(Errno::PERM)
    );
}

#[test]
fn disk_space_is_not_allocated_ahead_and_holes_are_punched() {
    for level in [Level::Namespaces, Level::Landlock] {
        let fallocate = |mode: i32| {
            call(
                level,
                libc::SYS_fallocate,
                [5, u64::from(bits(mode)), 0, 1 << 30, 0, 0],
            )
        };
        for mode in [
            0,
            libc::FALLOC_FL_KEEP_SIZE,
            libc::FALLOC_FL_ZERO_RANGE,
            libc::FALLOC_FL_INSERT_RANGE,
        ] {
            assert_eq!(fallocate(mode), error(Errno::OPNOTSUPP), "mode {mode}");
        }
        assert_eq!(
            fallocate(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE),
            ALLOW
        );
        for request in [0x4030_5828_u64, 0x4030_582A, 0x4030_5839, 0xFFFF_FFFF_4030_5828] {
            assert_eq!(
                call(level, libc::SYS_ioctl, [5, request, 0, 0, 0, 0]),
                error(Errno::OPNOTSUPP)
            );
        }
    }
}

#[test]
fn without_namespaces_a_socket_reaches_its_other_end_alone() {
    let pair = |level, kind: i32| {
        let arguments = [u64::from(bits(libc::AF_UNIX)), u64::from(bits(kind)), 0, 0, 0, 0];
        call(level, libc::SYS_socketpair, arguments)
    };
    for connected in [
        libc::SOCK_STREAM,
        libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
        libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK,
    ] {
        assert_eq!(pair(Level::Landlock, connected), ALLOW, "{connected}");
    }
    for addressed in [
        libc::SOCK_DGRAM,
        libc::SOCK_DGRAM | libc::SOCK_CLOEXEC,
        libc::SOCK_RAW,
    ] {
        assert_ne!(pair(Level::Landlock, addressed), ALLOW, "{addressed}");
        assert_eq!(pair(Level::Namespaces, addressed), ALLOW, "{addressed}");
    }
    for named in [
        libc::SYS_bind,
        libc::SYS_connect,
        libc::SYS_listen,
        libc::SYS_accept4,
    ] {
        assert_eq!(call(Level::Landlock, named, [0; 6]), error(Errno::PERM));
        assert_eq!(call(Level::Namespaces, named, [0; 6]), ALLOW);
    }
    let send = |address: u64| call(Level::Landlock, libc::SYS_sendto, [3, 0, 0, 0, address, 0]);
    assert_eq!(send(0), ALLOW);
    for address in [0x1000, 0x7F00_0000_0000, u64::MAX] {
        assert_eq!(send(address), error(Errno::PERM));
    }
}

#[test]
fn without_namespaces_a_process_asks_about_itself_alone() {
    for number_of in [
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_getscheduler,
        libc::SYS_getsid,
        libc::SYS_getpgid,
        libc::SYS_get_robust_list,
    ] {
        assert_eq!(
            call(Level::Landlock, number_of, [0; 6]),
            ALLOW,
            "call {number_of}"
        );
        let of_other = call(Level::Landlock, number_of, first(1_234));
        assert_ne!(of_other, ALLOW, "call {number_of}");
        assert_eq!(call(Level::Namespaces, number_of, first(1_234)), ALLOW);
    }
    for (number_of, process) in [(libc::SYS_getpriority, 0), (libc::SYS_ioprio_get, 1)] {
        concerns_a_process_itself(Level::Landlock, number_of, process);
        assert_eq!(call(Level::Namespaces, number_of, first(9)), ALLOW);
    }
}

/// Checks a call with a first argument that selects a process, a group or a user.
fn concerns_a_process_itself(level: Level, number_of: c_long, process: u64) {
    let of = |which, who| call(level, number_of, [which, who, 0, 0, 0, 0]);
    assert_eq!(of(process, 0), ALLOW, "call {number_of}");
    for (which, who) in [(process, 1), (process, 1_234), (process + 1, 0), (process + 2, 0)] {
        assert_eq!(of(which, who), error(Errno::PERM), "call {number_of}");
    }
}

#[test]
fn a_process_changes_its_own_scheduling_alone() {
    for level in [Level::Namespaces, Level::Landlock] {
        for number_of in [
            libc::SYS_sched_setaffinity,
            libc::SYS_sched_setscheduler,
            libc::SYS_sched_setattr,
            libc::SYS_sched_setparam,
        ] {
            assert_eq!(call(level, number_of, first(0)), ALLOW, "call {number_of}");
            for other in [1, 1_234] {
                assert_eq!(call(level, number_of, first(other)), error(Errno::PERM));
            }
        }
        concerns_a_process_itself(level, libc::SYS_setpriority, 0);
        concerns_a_process_itself(level, libc::SYS_ioprio_set, 1);
        let core = call(level, libc::SYS_prctl, first(libc::PR_SCHED_CORE));
        assert_eq!(core, error(Errno::INVAL));
    }
}

#[test]
fn descriptors_stay_where_the_watch_reads_them() {
    let thread = libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND;
    for level in [Level::Namespaces, Level::Landlock] {
        assert_eq!(call(level, libc::SYS_clone, first(thread)), error(Errno::PERM));
        assert_eq!(
            call(level, libc::SYS_clone, first(libc::SIGCHLD)),
            ALLOW,
            "a process"
        );
        assert_eq!(
            call(level, libc::SYS_unshare, first(libc::CLONE_FILES)),
            error(Errno::PERM)
        );
        let close = |flags: u32| call(level, libc::SYS_close_range, [3, 9, u64::from(flags), 0, 0, 0]);
        assert_eq!(close(libc::CLOSE_RANGE_UNSHARE), error(Errno::INVAL));
        assert_eq!(close(libc::CLOSE_RANGE_CLOEXEC), ALLOW);
        let dumpable = |value| {
            call(
                level,
                libc::SYS_prctl,
                [u64::from(bits(libc::PR_SET_DUMPABLE)), value, 0, 0, 0, 0],
            )
        };
        assert_eq!(dumpable(0), libc::SECCOMP_RET_ERRNO, "success without effect");
        assert_eq!(dumpable(1), ALLOW);
        assert_eq!(call(level, libc::SYS_prctl, first(libc::PR_SET_NAME)), ALLOW);
    }
}

#[test]
fn the_host_is_not_written_out_for_a_run() {
    for number_of in [libc::SYS_sync, libc::SYS_syncfs] {
        assert_eq!(
            call(Level::Namespaces, number_of, [0; 6]),
            libc::SECCOMP_RET_ERRNO,
            "success without effect"
        );
    }
    assert_eq!(call(Level::Namespaces, libc::SYS_fsync, [0; 6]), ALLOW);
}

#[test]
fn what_the_watch_would_not_see_is_refused_where_it_keeps_the_limit() {
    let answer = |level, memory, call: c_long, arguments| {
        run(&filter(level, memory), arch::AUDIT_ARCH, number(call), arguments)
    };
    let (kernel, watch) = (MemoryKeeper::Kernel, MemoryKeeper::Watch);
    let option = |option: i32| {
        [
            0,
            u64::from(bits(libc::SOL_SOCKET)),
            u64::from(bits(option)),
            0,
            0,
            0,
        ]
    };
    for level in [Level::Namespaces, Level::Landlock] {
        for size in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
            let pretended = libc::SECCOMP_RET_ERRNO;
            assert_eq!(
                answer(level, watch, libc::SYS_setsockopt, option(size)),
                pretended
            );
            assert_eq!(answer(level, kernel, libc::SYS_setsockopt, option(size)), ALLOW);
        }
        let other = option(libc::SO_REUSEADDR);
        assert_eq!(answer(level, watch, libc::SYS_setsockopt, other), ALLOW);
        let given = answer(level, watch, libc::SYS_vmsplice, [0; 6]);
        assert_eq!(given, error(Errno::NOSYS));
        assert_eq!(answer(level, kernel, libc::SYS_vmsplice, [0; 6]), ALLOW);
    }
    for (call, errno) in [
        (libc::SYS_sendmsg, Errno::PERM),
        (libc::SYS_sendmmsg, Errno::PERM),
        (libc::SYS_inotify_init1, Errno::MFILE),
    ] {
        assert_eq!(answer(Level::Landlock, watch, call, [0; 6]), error(errno));
        assert_eq!(answer(Level::Namespaces, watch, call, [0; 6]), ALLOW);
    }
}

#[test]
fn only_memory_further_watched_descriptors_and_sessions_are_asked_about() {
    let asked = libc::SECCOMP_RET_USER_NOTIF;
    for (asks, others) in [(Asks::All, asked), (Asks::Memory, ALLOW)] {
        let filter = ask_at_some_calls(asks);
        let answer = |call: c_long, operation: i32| {
            let arguments = [0, u64::from(bits(operation)), 0, 0, 0, 0];
            run(&filter, arch::AUDIT_ARCH, number(call), arguments)
        };
        assert_eq!(answer(libc::SYS_sysinfo, 0), asked);
        assert_eq!(answer(libc::SYS_epoll_ctl, libc::EPOLL_CTL_ADD), others);
        assert_eq!(answer(libc::SYS_epoll_ctl, libc::EPOLL_CTL_MOD), ALLOW);
        assert_eq!(answer(libc::SYS_epoll_ctl, libc::EPOLL_CTL_DEL), ALLOW);
        assert_eq!(answer(libc::SYS_read, libc::EPOLL_CTL_ADD), ALLOW);
        assert_eq!(answer(libc::SYS_setsid, 0), others);
    }
}
