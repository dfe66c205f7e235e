//! Programs that use more disk space than allowed, each in a way that a walk of the folders does not find.
//!
//! Each prints after every mebibyte how many it holds, and takes at least the given time for each.

use std::{
    ffi::CString,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, FromRawFd},
        unix::fs::{OpenOptionsExt, PermissionsExt},
    },
    path::Path,
    ptr,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use crate::raw::{Outcome, call, fork, say, text};

const MEBIBYTE: usize = 1 << 20;
/// Start time, and the minimum time per mebibyte.
static PACE: OnceLock<(Instant, Duration)> = OnceLock::new();

/// Arguments: a way, how many mebibytes, and the milliseconds that each takes at least.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    let (way, mebibytes, milliseconds) = match arguments {
        [way, mebibytes, milliseconds] => (*way, mebibytes.parse::<usize>()?, milliseconds.parse()?),
        _ => return Err("disk WAY MEBIBYTES MILLISECONDS".into()),
    };
    PACE.get_or_init(|| (Instant::now(), Duration::from_millis(milliseconds)));
    match way {
        "allocate" => allocate(mebibytes),
        "reserve" => reserve(mebibytes)?,
        "wait" => {}
        "plain" => fill(mebibytes)?,
        "juggle" => juggle(mebibytes)?,
        "dodge" => dodge(mebibytes)?,
        "shut" => shut(mebibytes)?,
        "unlinked" => drop(unlinked(mebibytes)?),
        "undumpable" => undumpable(mebibytes)?,
        "headless" => headless(mebibytes, keep_unlinked),
        "headless-mapped" => headless(mebibytes, mapped),
        "in-flight" => in_flight(mebibytes)?,
        "mapped" => mapped(mebibytes)?,
        "churn" => churn(mebibytes)?,
        "program" => program(mebibytes)?,
        _ => return Err(format!("unknown way {way}").into()),
    }
    say("held\n");
    if !["allocate", "churn", "reserve"].contains(&way) {
        // The watch may take this long on a busy machine.
        thread::sleep(Duration::from_secs(10));
    }
    Ok(())
}

/// Says how many mebibytes are held, and waits if that went faster than it may.
fn tell(mebibytes: usize) {
    say(&format!("{mebibytes}\n"));
    if let Some((start, each)) = PACE.get() {
        let due = each.saturating_mul(u32::try_from(mebibytes).unwrap_or(u32::MAX));
        thread::sleep(due.saturating_sub(start.elapsed()));
    }
}

/// Has the file system set space aside; says how many mebibytes, and how it was refused.
fn allocate(mebibytes: usize) {
    let mut allocated = 0;
    let mut refused = Vec::new();
    for (index, mode) in [0, libc::FALLOC_FL_KEEP_SIZE, libc::FALLOC_FL_ZERO_RANGE]
        .into_iter()
        .enumerate()
    {
        let Ok(file) = File::create(format!("allocated-{index}")) else {
            return;
        };
        let arguments = [
            usize::try_from(file.as_raw_fd()).unwrap_or(0),
            usize::try_from(mode).unwrap_or(0),
            0,
            mebibytes * MEBIBYTE,
            0,
            0,
        ];
        match call(libc::SYS_fallocate, arguments) {
            Ok(_) => allocated += mebibytes,
            Err(errno) => refused.push(errno),
        }
    }
    // FS_IOC_RESVSP and FS_IOC_RESVSP64 of `struct space_resv`.
    for request in [0x4030_5828, 0x4030_582A] {
        let wanted = [0, 0, (mebibytes * MEBIBYTE) as u64, 0, 0, 0];
        let Ok(file) = File::create(format!("reserved-{request}")) else {
            return;
        };
        let fd = usize::try_from(file.as_raw_fd()).unwrap_or(0);
        match call(libc::SYS_ioctl, [fd, request, wanted.as_ptr().addr(), 0, 0, 0]) {
            Ok(_) => allocated += mebibytes,
            Err(errno) => refused.push(errno),
        }
    }
    say(&format!("allocated {allocated}\nrefused {refused:?}\n"));
}

/// Has the C library set space aside, which must work, and a hole punched.
fn reserve(mebibytes: usize) -> Outcome {
    let file = File::create("reserved")?;
    let length = i64::try_from(mebibytes * MEBIBYTE)?;
    // SAFETY: no memory is passed.
    let error = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error).into());
    }
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: no memory is passed.
    if unsafe { libc::fallocate(file.as_raw_fd(), punch, 0, 4_096) } != 0 {
        return Err(io::Error::last_os_error().into());
    }
    say(&format!("{}\n", file.metadata()?.len() / MEBIBYTE as u64));
    Ok(())
}

/// Writes files of a mebibyte into the current folder while another process moves that folder.
fn fill(mebibytes: usize) -> Outcome {
    let content = vec![7; MEBIBYTE];
    for number in 0..mebibytes {
        File::create(format!("m{number}"))?.write_all(&content)?;
        tell(number + 1);
    }
    Ok(())
}

/// Moves folders about all the time.
fn juggle(mebibytes: usize) -> Outcome {
    for name in ["a/x/data/1/2/3", "b", "c"] {
        fs::create_dir_all(name)?;
    }
    fork(|| {
        loop {
            for (from, to) in [("a/x", "b/x"), ("b/x", "c/x"), ("c/x", "a/x")] {
                let _other_round = fs::rename(from, to);
            }
        }
    })
    .map_err(io::Error::from_raw_os_error)?;
    while std::env::set_current_dir("a/x/data/1/2/3").is_err() {}
    fill(mebibytes)
}

/// Watches each folder being read, and moves everything into it as soon as the read ends.
fn dodge(mebibytes: usize) -> Outcome {
    for name in ["a/data", "b"] {
        fs::create_dir_all(name)?;
    }
    // SAFETY: the descriptor is new.
    let inotify = unsafe { libc::inotify_init1(0) };
    let mut watches = Vec::new();
    for name in ["a", "b"] {
        let path = CString::new(name)?;
        // SAFETY: the path lives through the call.
        watches.push(unsafe { libc::inotify_add_watch(inotify, path.as_ptr(), libc::IN_CLOSE_NOWRITE) });
    }
    fork(|| {
        // SAFETY: this is the only owner in the process.
        let mut events = unsafe { File::from_raw_fd(inotify) };
        let mut event = [0; 4_096];
        while let Ok(length) = events.read(&mut event) {
            for read in event.get(..length).unwrap_or_default().chunks(16) {
                let watch = read.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
                let (from, to) = if watch == watches.first().copied() {
                    ("b/data", "a/data")
                } else {
                    ("a/data", "b/data")
                };
                let _there_already = fs::rename(from, to);
            }
        }
        0
    })
    .map_err(io::Error::from_raw_os_error)?;
    while std::env::set_current_dir("a/data").is_err() && std::env::set_current_dir("b/data").is_err() {}
    fill(mebibytes)
}

/// Removes all permissions of a folder each time another process restores them.
fn shut(mebibytes: usize) -> Outcome {
    fs::create_dir_all("shut/data")?;
    let folder = File::open("shut")?;
    let data = File::open("shut/data")?;
    // SAFETY: changes the current folder.
    unsafe { libc::fchdir(data.as_raw_fd()) };
    fork(|| {
        loop {
            // SAFETY: changes modes.
            unsafe { libc::fchmod(folder.as_raw_fd(), 0) };
        }
    })
    .map_err(io::Error::from_raw_os_error)?;
    fill(mebibytes)
}

/// Holds deleted files open.
fn unlinked(mebibytes: usize) -> io::Result<Vec<File>> {
    let content = vec![7; MEBIBYTE];
    let mut held = Vec::new();
    for number in 0..mebibytes.div_ceil(8) {
        let mut file = deleted_file(&format!("u{number}"))?;
        for piece in 0..8 {
            file.write_all(&content)?;
            tell(number * 8 + piece + 1);
        }
        held.push(file);
    }
    Ok(held)
}

fn deleted_file(name: &str) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(name)?;
    fs::remove_file(name)?;
    Ok(file)
}

/// Asks not to be looked at.
fn undumpable(mebibytes: usize) -> Outcome {
    // SAFETY: no memory is passed.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    let _held = unlinked(mebibytes)?;
    say("held\n");
    thread::sleep(Duration::from_secs(10));
    Ok(())
}

/// Holds them until the process ends.
fn keep_unlinked(mebibytes: usize) -> Outcome {
    std::mem::forget(unlinked(mebibytes)?);
    Ok(())
}

/// Holds them in a thread of a process that has lost its first thread.
fn headless(mebibytes: usize, take: fn(usize) -> Outcome) -> ! {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    thread::spawn(move || {
        let _first_one_is_gone = receiver.recv();
        thread::sleep(Duration::from_millis(50));
        let taken = take(mebibytes);
        say(&format!("held {}\n", taken.is_ok()));
        thread::sleep(Duration::from_secs(10));
        std::process::exit(0)
    });
    drop(sender);
    loop {
        // SAFETY: ends this thread alone.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}

/// Leaves them under way in sockets.
fn in_flight(mebibytes: usize) -> Outcome {
    let content = vec![7; MEBIBYTE];
    let mut ends = [0; 2];
    // SAFETY: `ends` is valid for writes.
    if unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, ends.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error().into());
    }
    let [end, _other] = ends;
    // SAFETY: this is the only owner.
    let end = unsafe { File::from_raw_fd(end) };
    for number in 0..mebibytes.div_ceil(8) {
        let mut file = deleted_file("f")?;
        for piece in 0..8 {
            file.write_all(&content)?;
            tell(number * 8 + piece + 1);
        }
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
        let files = [file.as_fd()];
        control.push(rustix::net::SendAncillaryMessage::ScmRights(&files));
        rustix::net::sendmsg(
            &end,
            &[io::IoSlice::new(b"x")],
            &mut control,
            rustix::net::SendFlags::empty(),
        )?;
    }
    say("held\n");
    thread::sleep(Duration::from_secs(10));
    Ok(())
}

/// Maps one page of each, and closes them.
fn mapped(mebibytes: usize) -> Outcome {
    let content = vec![7; MEBIBYTE];
    for number in 0..mebibytes.div_ceil(8) {
        let mut file = deleted_file("f")?;
        for piece in 0..8 {
            file.write_all(&content)?;
            tell(number * 8 + piece + 1);
        }
        // SAFETY: a new mapping that is never read.
        let page = unsafe {
            libc::mmap(
                ptr::null_mut(),
                4_096,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error().into());
        }
    }
    Ok(())
}

/// Runs programs of 16 mebibytes at least, and deletes them: no descriptor and no name holds them.
fn program(mebibytes: usize) -> Outcome {
    let content = vec![7; MEBIBYTE];
    let mut held = 0;
    while held < mebibytes {
        fs::copy("/proc/self/exe", "copy")?;
        let mut file = OpenOptions::new().append(true).open("copy")?;
        for _ in 0..16 {
            file.write_all(&content)?;
        }
        held += usize::try_from(file.metadata()?.len())? / MEBIBYTE;
        drop(file);
        #[expect(clippy::disallowed_methods, reason = "this is the program that is confined")]
        let _lives_on = std::process::Command::new("./copy")
            .args(["disk", "wait", "0", "0"])
            .spawn()?;
        fs::remove_file("copy")?;
        tell(held);
    }
    Ok(())
}

/// Creates, moves and removes folders and files for three seconds, as tests and builds do, while holding this much.
fn churn(mebibytes: usize) -> Outcome {
    let began = Instant::now();
    fs::create_dir("kept")?;
    fs::write("kept/content", vec![7; mebibytes * MEBIBYTE])?;
    let mut rounds = 0_u64;
    while began.elapsed() < Duration::from_secs(3) {
        for step in 0..20 {
            let (made, moved) = (format!("t{step}"), format!("moved{step}"));
            fs::create_dir_all(format!("{made}/inner"))?;
            fs::write(format!("{made}/inner/file"), "x")?;
            fs::set_permissions(&made, fs::Permissions::from_mode(0o700))?;
            fs::rename(&made, &moved)?;
            fs::remove_file(format!("{moved}/inner/file"))?;
            fs::remove_dir(format!("{moved}/inner"))?;
            fs::remove_dir(&moved)?;
        }
        rounds += 1;
    }
    assert!(Path::new("kept/content").exists(), "{:?}", text("kept"));
    say(&format!("{rounds} rounds\n"));
    Ok(())
}
