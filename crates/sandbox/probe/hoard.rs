//! Programs that hold kernel memory that belongs to no process, and programs that end their first thread.
//!
//! Each prints how much it holds once it cannot get more, and keeps it until it is killed.

use std::{
    fs,
    hint::black_box,
    mem::zeroed,
    ptr,
    sync::atomic::{AtomicI32, Ordering},
    thread,
    time::Duration,
};

use crate::raw::{Outcome, call, fork, say};

/// Processes that a probe makes at most: below the limit of a run.
const PROCESSES: usize = 200;

pub(crate) fn run(word: &str, arguments: &[&str]) -> Outcome {
    let number = |index: usize| arguments.get(index).map_or(Ok(0), |text| text.parse::<usize>());
    match word {
        "headless" => headless(number(0)?),
        "socket-buffers" => in_many(number(0)?, || socket_buffers(usize::MAX, false)),
        "orphaned-buffers" => in_many(number(0)?, || socket_buffers(usize::MAX, true)),
        "netlink-buffers" => in_many(number(0)?, netlink_buffers),
        "tcp-buffers" => in_many(number(0)?, tcp_buffers),
        "messages" => messages(),
        "semaphores" => semaphores(),
        "few-buffers" => {
            let sockets = number(0)?;
            in_many(1, || socket_buffers(sockets, false));
        }
        "watch-many" => {
            let watched = watch_many(number(0)?);
            say(&format!("{watched}\n"));
        }
        "watches" => in_many(number(0)?, watches),
        "flying-watches" => in_many(number(0)?, flying_watches),
        "flights" => flights(),
        "signals" => signals(),
        "instances" => instances(),
        "many-pipes" => in_many(number(0)?, many_pipes),
        "page-tables" => {
            let mebibytes = number(1)?;
            in_many(number(0)?, || page_tables(mebibytes << 20));
        }
        "mappings" => in_many(number(0)?, mappings),
        "tables-apart" => tables_apart(),
        "shares" => shares(),
        _ => return Err(format!("unknown word {word}").into()),
    }
    Ok(())
}

/// Sleeps for ever.
fn hold() -> ! {
    loop {
        thread::sleep(Duration::from_hours(1));
    }
}

/// Ends the first thread while another holds memory, in a process with a name that is not UTF-8.
fn headless(mebibytes: usize) {
    // The kernel sets this to 0 when the first thread ends. `/proc` would say so too, and not every run can read it.
    static FIRST: AtomicI32 = AtomicI32::new(1);
    // SAFETY: the name lives through the call.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"\xff\xfe".as_ptr()) };
    thread::spawn(move || {
        let mut held = Vec::new();
        for _ in 0..mebibytes {
            held.push(vec![1_u8; 1 << 20]);
            black_box(&held);
        }
        while FIRST.load(Ordering::Acquire) != 0 {
            thread::sleep(Duration::from_millis(1));
        }
        say("held\n");
        let _one_may_look = fs::write("held", "held\n");
        hold()
    });
    // SAFETY: the number lives as long as the process, and this thread alone ends.
    unsafe {
        libc::syscall(libc::SYS_set_tid_address, FIRST.as_ptr());
        libc::syscall(libc::SYS_exit, 0);
    }
}

/// Runs `take` in so many processes, and says the sum of what each has taken.
fn in_many(processes: usize, take: impl Fn() -> usize) {
    let mut ends = [0_i32; 2];
    // SAFETY: `ends` is valid for writes.
    if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
        return;
    }
    let [reader, writer] = ends;
    let mut started = 0;
    for _ in 0..processes.min(PROCESSES) {
        let child = fork(|| {
            // SAFETY: the descriptor is this process's.
            unsafe { libc::close(reader) };
            let taken = take();
            let bytes = taken.to_ne_bytes();
            // SAFETY: the buffer is valid for reads.
            unsafe { libc::write(writer, bytes.as_ptr().cast(), bytes.len()) };
            hold()
        });
        started += usize::from(child.is_ok());
    }
    // SAFETY: the descriptor is this function's. Killed children write nothing.
    unsafe { libc::close(writer) };
    let mut sum = 0;
    for _ in 0..started {
        let mut bytes = [0; size_of::<usize>()];
        // SAFETY: the buffer is valid for writes.
        if unsafe { libc::read(reader, bytes.as_mut_ptr().cast(), bytes.len()) } > 0 {
            sum += usize::from_ne_bytes(bytes);
        }
    }
    say(&format!("{sum}\n"));
    let _one_may_look = fs::write("held", format!("{sum}\n"));
    hold()
}

/// Two connected sockets.
fn pair(kind: i32) -> Option<[i32; 2]> {
    let mut ends = [0; 2];
    // SAFETY: `ends` is valid for writes.
    let result = unsafe { libc::socketpair(libc::AF_UNIX, kind | libc::SOCK_NONBLOCK, 0, ends.as_mut_ptr()) };
    (result == 0).then_some(ends)
}

/// Writes until there is no room; says how much was written.
fn fill(descriptor: i32, piece: &[u8]) -> usize {
    let mut written = 0;
    // SAFETY: the buffer is valid for reads.
    while let Ok(length @ 1..) =
        usize::try_from(unsafe { libc::write(descriptor, piece.as_ptr().cast(), piece.len()) })
    {
        written += length;
    }
    written
}

/// Fills the buffers of as many pairs of sockets as can be opened, up to `most`; `orphaned`: those that wrote are closed.
fn socket_buffers(most: usize, orphaned: bool) -> usize {
    let piece = vec![0; 32 << 10];
    let mut bytes = 0;
    for _ in 0..most {
        let Some([one, other]) = pair(libc::SOCK_STREAM) else {
            break;
        };
        bytes += fill(one, &piece);
        if orphaned {
            // SAFETY: the descriptor is this function's.
            unsafe { libc::close(one) };
        } else {
            bytes += fill(other, &piece);
        }
    }
    bytes
}

/// Lets answers of the kernel pile up in sockets of the routing table.
fn netlink_buffers() -> usize {
    let mut count = 0;
    loop {
        // SAFETY: makes a descriptor.
        let socket = unsafe {
            libc::socket(
                libc::AF_NETLINK,
                libc::SOCK_RAW | libc::SOCK_NONBLOCK,
                libc::NETLINK_ROUTE,
            )
        };
        if socket < 0 {
            return count;
        }
        count += 1;
        // A request for all links. The answer is never read.
        let mut request = [0_u8; 20];
        request[0] = 20;
        request[4] = 18;
        request[6..8].copy_from_slice(&0x0005_u16.to_ne_bytes());
        for _ in 0..1_000 {
            // SAFETY: the buffer is valid for reads.
            if unsafe { libc::send(socket, request.as_ptr().cast(), request.len(), libc::MSG_DONTWAIT) } < 0 {
                break;
            }
        }
    }
}

/// Fills the buffers of as many connections to itself as can be opened.
fn tcp_buffers() -> usize {
    use std::net::{TcpListener, TcpStream};
    let Ok(listener) = TcpListener::bind("127.0.0.1:0") else {
        return 0;
    };
    let Ok(address) = listener.local_addr() else {
        return 0;
    };
    let piece = vec![0; 64 << 10];
    let mut bytes = 0;
    let mut held = Vec::new();
    while let Ok(out) = TcpStream::connect(address) {
        let Ok((back, _)) = listener.accept() else { break };
        for end in [&out, &back] {
            use std::{io::Write, os::fd::AsRawFd};
            let most = 4_i32 << 20;
            for option in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
                // SAFETY: the value lives through the call.
                unsafe {
                    libc::setsockopt(
                        end.as_raw_fd(),
                        libc::SOL_SOCKET,
                        option,
                        (&raw const most).cast(),
                        4,
                    );
                }
            }
            let _only_slower = end.set_nonblocking(true);
            while let Ok(length @ 1..) = (&mut &*end).write(&piece) {
                bytes += length;
            }
        }
        held.push((out, back));
    }
    std::mem::forget((held, listener));
    bytes
}

/// Queues System V messages until the host has no room for more.
fn messages() -> ! {
    let mut bytes = 0;
    // SAFETY: a message is a number and as many bytes as are said.
    unsafe {
        let mut message = [0_u8; 8 + 8_192];
        message[0] = 1;
        loop {
            let queue = libc::msgget(libc::IPC_PRIVATE, 0o600);
            if queue < 0 {
                break;
            }
            while libc::msgsnd(queue, message.as_ptr().cast(), 8_192, libc::IPC_NOWAIT) == 0 {
                bytes += 8_192;
            }
        }
    }
    say(&format!("{bytes}\n"));
    let _one_may_look = fs::write("held", format!("{bytes}\n"));
    hold()
}

/// Makes sets of System V semaphores until there are no more.
fn semaphores() -> ! {
    let mut bytes = 0_usize;
    // SAFETY: makes sets by number.
    while bytes < 4 << 30 && unsafe { libc::semget(libc::IPC_PRIVATE, 32_000, 0o600) } >= 0 {
        bytes += 32_000 * 64;
    }
    say(&format!("{bytes}\n"));
    let _one_may_look = fs::write("held", format!("{bytes}\n"));
    hold()
}

/// Has every epoll instance that can be opened watch every other descriptor.
fn watches() -> usize {
    let mut targets = Vec::new();
    let mut instances = Vec::new();
    loop {
        // SAFETY: makes descriptors.
        let (target, instance) = unsafe { (libc::eventfd(0, 0), libc::epoll_create1(0)) };
        if target < 0 || instance < 0 {
            break;
        }
        targets.push(target);
        instances.push(instance);
    }
    let mut count = 0;
    for instance in instances {
        for target in &targets {
            if !watch(instance, *target) {
                return count;
            }
            count += 1;
        }
    }
    count
}

/// Has one instance after another watch some descriptors, so many in all.
fn watch_many(most: usize) -> usize {
    // SAFETY: makes descriptors.
    let targets: Vec<i32> = (0..100).map(|_| unsafe { libc::eventfd(0, 0) }).collect();
    let mut count = 0;
    while count < most {
        // SAFETY: makes a descriptor.
        let instance = unsafe { libc::epoll_create1(0) };
        let added = targets.iter().filter(|target| watch(instance, **target)).count();
        if added == 0 {
            break;
        }
        count += added;
    }
    count
}

fn watch(instance: i32, target: i32) -> bool {
    let mut event = libc::epoll_event { events: 1, u64: 0 };
    // SAFETY: the event lives through the call.
    unsafe { libc::epoll_ctl(instance, libc::EPOLL_CTL_ADD, target, &raw mut event) == 0 }
}

/// Like `watches`, but the instances are then only in flight between two sockets, where `/proc` does not show them.
fn flying_watches() -> usize {
    let mut count = 0;
    let Some([one, _other]) = pair(libc::SOCK_STREAM) else {
        return 0;
    };
    let mut targets = Vec::new();
    loop {
        // SAFETY: makes a descriptor.
        let target = unsafe { libc::eventfd(0, 0) };
        if target < 0 || targets.len() > 400 {
            break;
        }
        targets.push(target);
    }
    loop {
        // SAFETY: makes a descriptor.
        let instance = unsafe { libc::epoll_create1(0) };
        if instance < 0 {
            return count;
        }
        let here: usize = targets
            .iter()
            .map(|target| usize::from(watch(instance, *target)))
            .sum();
        if here == 0 || send_descriptor(one, instance).is_err() {
            return count;
        }
        count += here;
        // SAFETY: the descriptor is this function's.
        unsafe { libc::close(instance) };
    }
}

/// Sends a descriptor that is never received.
fn send_descriptor(socket: i32, descriptor: i32) -> Result<usize, i32> {
    let mut byte = [0_u8];
    let mut part = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let mut control = [0_u64; 4];
    // SAFETY: an all-zero header is a valid one, and is filled in.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    // SAFETY: the control buffer has room for one descriptor.
    unsafe {
        header.msg_controllen = libc::CMSG_SPACE(4) as _;
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        (*first).cmsg_level = libc::SOL_SOCKET;
        (*first).cmsg_type = libc::SCM_RIGHTS;
        (*first).cmsg_len = libc::CMSG_LEN(4) as _;
        ptr::write_unaligned(libc::CMSG_DATA(first).cast::<i32>(), descriptor);
    }
    let socket = usize::try_from(socket).unwrap_or(0);
    call(
        libc::SYS_sendmsg,
        [socket, (&raw const header).addr(), 0, 0, 0, 0],
    )
}

/// Has as many descriptors in flight as it may; says how many.
fn flights() -> ! {
    let mut count = 0;
    while count < 20_000
        && let Some([one, other]) = pair(libc::SOCK_STREAM)
    {
        while count < 20_000 && send_descriptor(one, other).is_ok() {
            count += 1;
        }
    }
    say(&format!("{count}\n"));
    let _one_may_look = fs::write("held", format!("{count}\n"));
    hold()
}

/// Queues signals to itself until there is no room.
fn signals() -> ! {
    let mut count = 0;
    // SAFETY: blocks and queues signals only.
    unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, 40);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
        let value = libc::sigval {
            sival_ptr: ptr::null_mut(),
        };
        while count < 1_000_000 && libc::sigqueue(libc::getpid(), 40, value) == 0 {
            count += 1;
        }
    }
    say(&format!("{count}\n"));
    let _one_may_look = fs::write("held", format!("{count}\n"));
    hold()
}

/// Makes inotify instances until there are no more.
fn instances() -> ! {
    let mut count = 0;
    // SAFETY: makes descriptors.
    while unsafe { libc::inotify_init1(0) } >= 0 {
        count += 1;
    }
    say(&format!("{count}\n"));
    let _one_may_look = fs::write("held", format!("{count}\n"));
    hold()
}

/// Fills as many pipes as can be opened.
fn many_pipes() -> usize {
    let piece = vec![0; 64 << 10];
    let mut bytes = 0;
    loop {
        let mut ends = [0_i32; 2];
        // SAFETY: `ends` is valid for writes.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK) } != 0 {
            return bytes;
        }
        bytes += fill(ends[1], &piece);
    }
}

/// Reads one page of each table: tables without memory of the process's own.
fn page_tables(length: usize) -> usize {
    let table = 2 << 20;
    // SAFETY: a new private mapping, read only within its bounds.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let start = libc::mmap(ptr::null_mut(), length, libc::PROT_READ, flags, -1, 0);
        if start == libc::MAP_FAILED {
            return 0;
        }
        libc::madvise(start, length, libc::MADV_NOHUGEPAGE);
        for offset in (0..length).step_by(table) {
            black_box(start.cast::<u8>().add(offset).read_volatile());
        }
    }
    length / table * 4_096
}

/// Splits a mapping into as many as there may be.
fn mappings() -> usize {
    let (page, length) = (4_096, 128_usize << 20);
    // SAFETY: a new private mapping; its protection is changed only within its bounds.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let start = libc::mmap(ptr::null_mut(), length, libc::PROT_READ, flags, -1, 0);
        if start == libc::MAP_FAILED {
            return 0;
        }
        let odd = (page..length).step_by(2 * page);
        let made = odd
            .take_while(|offset| libc::mprotect(start.add(*offset), page, libc::PROT_NONE) == 0)
            .count();
        2 * made * 256
    }
}

/// Tries to have a table of descriptors apart from that of the process.
fn tables_apart() {
    // SAFETY: touches descriptors only.
    let unshared = unsafe { libc::unshare(libc::CLONE_FILES) } == 0;
    // SAFETY: as above; the last number is that of the flag for a table apart.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 900, 901, 2) } == 0;
    say(&format!("{unshared} {closed}\n"));
}

/// Takes one of each object that the kernel counts per user, and prints those that were unavailable.
fn shares() {
    let mut missing = Vec::new();
    // SAFETY: makes descriptors.
    let (instance, target) = unsafe { (libc::epoll_create1(0), libc::eventfd(0, 0)) };
    if instance < 0 || target < 0 {
        missing.push("descriptors");
    } else if !watch(instance, target) {
        missing.push("watches");
    }
    let mut ends = [0_i32; 2];
    // SAFETY: `ends` is valid for writes.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK) } != 0 {
        missing.push("pipes");
    } else if fill(ends[1], &[0; 4_096]) < 4_096 {
        missing.push("room in pipes");
    }
    match pair(libc::SOCK_SEQPACKET) {
        Some([one, _other]) if send_descriptor(one, target).is_ok() => {}
        _ => missing.push("descriptors in flight"),
    }
    // SAFETY: blocks and queues one signal.
    let queued = unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, 40);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
        let value = libc::sigval {
            sival_ptr: ptr::null_mut(),
        };
        libc::sigqueue(libc::getpid(), 40, value)
    };
    if queued != 0 {
        missing.push("queued signals");
    }
    say(&format!("{}\n", missing.join(", ")));
}
