//! Programs that exhaust a resource, or leave processes or files running after they end.

use std::{
    ffi::OsStr,
    fs::{self, File},
    hint,
    io::Write,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    thread,
    time::Duration,
};

use crate::raw::{Outcome, call, fork, ignore, say, text};

pub(crate) fn run(word: &str, arguments: &[&str]) -> Outcome {
    let number = |index: usize| arguments.get(index).map_or(Ok(0), |text| text.parse::<usize>());
    match word {
        "forks" => forks(),
        "bomb" => bomb(),
        "threads" => threads(),
        "sleepers" => sleepers(number(0)?),
        "heap" => drop(heap(number(0)?)),
        "heaps" => heaps(number(0)?, number(1)?),
        "memfd" => memfd(number(0)?)?,
        "pipes" => pipes(),
        "descriptors" => descriptors(),
        "files" => files(number(0)?, number(1)?)?,
        "folders" => (0..number(0)?).try_for_each(|name| fs::create_dir(format!("d{name}")))?,
        "stubborn" => stubborn(),
        "orphans" => orphans(number(0)?),
        "deep" => deep(number(0)?)?,
        "crash" => {
            // SAFETY: ends the process by a signal that dumps memory where a host lets it.
            unsafe { libc::abort() }
        }
        "sleep" => sleep(),
        _ => return crate::hoard::run(word, arguments),
    }
    Ok(())
}

fn sleep() -> ! {
    loop {
        thread::sleep(Duration::from_hours(1));
    }
}

/// Forks until it fails; says how often it did not, and leaves all of them.
fn forks() {
    let mut count = 0;
    while count < 100_000 && fork(|| sleep()).is_ok() {
        count += 1;
    }
    say(&format!("{count}\n"));
}

/// Every process forks for ever.
fn bomb() -> ! {
    loop {
        let _full = fork(|| bomb());
    }
}

fn threads() {
    let mut count = 0;
    while count < 100_000
        && thread::Builder::new()
            .stack_size(64 << 10)
            .spawn(|| sleep())
            .is_ok()
    {
        count += 1;
    }
    say(&format!("{count}\n"));
}

fn sleepers(count: usize) -> ! {
    let started = (0..count).filter(|_| fork(|| sleep()).is_ok()).count();
    say(&format!("{started}\n"));
    sleep()
}

fn heap(mebibytes: usize) -> Vec<Vec<u8>> {
    let mut held = Vec::new();
    for _ in 0..mebibytes {
        held.push(vec![1_u8; 1 << 20]);
        hint::black_box(&held);
    }
    say("held\n");
    held
}

/// Starts many small processes.
fn heaps(count: usize, mebibytes: usize) {
    let children: Vec<i32> = (0..count)
        .filter_map(|_| {
            fork(|| {
                let held = heap(mebibytes);
                thread::sleep(Duration::from_secs(5));
                drop(held);
                0
            })
            .ok()
        })
        .collect();
    for child in children {
        crate::raw::wait(child);
    }
}

/// Memory that no process maps.
fn memfd(mebibytes: usize) -> Outcome {
    let name = text("hidden");
    let piece = vec![1; 1 << 20];
    let mut held = Vec::new();
    for _ in 0..mebibytes.div_ceil(64) {
        let fd = call(
            libc::SYS_memfd_create,
            [crate::raw::pointer(&name), 0, 0, 0, 0, 0],
        )
        .map_err(std::io::Error::from_raw_os_error)?;
        let mut file = File::options().append(true).open(format!("/dev/fd/{fd}"))?;
        for _ in 0..64 {
            file.write_all(&piece)?;
        }
        held.push(file);
    }
    say("held\n");
    Ok(())
}

/// Fills as many pipes as can be opened; says how many bytes they hold.
fn pipes() {
    let piece = vec![0_u8; 64 << 10];
    let mut bytes = 0;
    loop {
        let mut ends = [0_i32; 2];
        let flags = libc::O_NONBLOCK;
        // SAFETY: `ends` is valid for writes.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), flags) } != 0 {
            break;
        }
        let [_, writer] = ends;
        let writer = usize::try_from(writer).unwrap_or(0);
        while let Ok(written) = call(
            libc::SYS_write,
            [writer, piece.as_ptr().addr(), piece.len(), 0, 0, 0],
        ) {
            bytes += written;
        }
    }
    say(&format!("{bytes}\n"));
}

fn descriptors() {
    let mut held = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        held.push(file);
    }
    say(&format!("{}\n", held.len()));
}

fn files(count: usize, mebibytes: usize) -> Outcome {
    let piece = vec![7; 1 << 20];
    for name in 0..count {
        let mut file = File::create(format!("f{name}"))?;
        for _ in 0..mebibytes {
            file.write_all(&piece)?;
        }
    }
    say("written\n");
    Ok(())
}

/// Ignores every signal, keeps standard output open, and leaves a daemon in a separate session and a stopped child.
fn stubborn() -> ! {
    (1..65).for_each(ignore);
    let _daemon = fork(|| {
        // SAFETY: touches no memory.
        unsafe { libc::setsid() };
        let _grandchild = fork(|| sleep());
        0
    });
    let _stopped = fork(|| {
        // SAFETY: stops this process.
        unsafe { libc::raise(libc::SIGSTOP) };
        sleep()
    });
    say("here\n");
    sleep()
}

/// Leaves processes that end after their parent.
fn orphans(count: usize) {
    for _ in 0..count {
        let _left = fork(|| {
            thread::sleep(Duration::from_millis(100));
            0
        });
    }
}

/// A tree that no path can name, folders without rights, and names that are not text.
fn deep(depth: usize) -> Outcome {
    let start = std::env::current_dir()?;
    for _ in 0..depth {
        fs::create_dir("a-name-of-some-length")?;
        std::env::set_current_dir("a-name-of-some-length")?;
    }
    fs::write("leaf", "x")?;
    std::env::set_current_dir(start)?;
    fs::create_dir_all("closed/inner/more")?;
    for name in [&b"line\nbreak"[..], b"\xff\xfe", b"-rf", b"* ?", b"\x1b[31m"] {
        fs::write(OsStr::from_bytes(name), "x")?;
    }
    for closed in ["closed/inner/more", "closed/inner", "closed"] {
        fs::set_permissions(closed, fs::Permissions::from_mode(0o000))?;
    }
    say("made\n");
    Ok(())
}
