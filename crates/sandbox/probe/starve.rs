//! Programs that starve the limit watch of processor time and then exceed a limit.
//!
//! Many processes, each in a separate session if allowed, either spin or allocate. The kernel weighs sessions against each other,
//! so each of them has the same weight as the watch.

use std::{
    fs::{self, File},
    hint::{black_box, spin_loop},
    io::Write,
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use crate::raw::{Outcome, call, fork, say};

const MEBIBYTE: usize = 1 << 20;
/// Part of a mebibyte that is taken at once.
const PIECES: usize = 16;

/// Figures that all processes share.
struct Taken {
    pieces: AtomicUsize,
    sessions: AtomicUsize,
    refused: AtomicUsize,
}

/// Arguments: the resource, mebibytes, the limit, number of spinning processes, number of allocating ones, empty files to create
/// first.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    let [way, numbers @ ..] = arguments else {
        return Err("starve disk|memory|nothing NUMBERS".into());
    };
    let numbers: Vec<usize> = numbers
        .iter()
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    let [most, limit, spinners, takers, files] = numbers[..] else {
        return Err("starve WAY MEBIBYTES LIMIT SPINNERS TAKERS FILES".into());
    };
    for number in 0..files {
        if number % 100 == 0 {
            fs::create_dir(format!("f{}", number / 100))?;
        }
        File::create(format!("f{}/{number}", number / 100))?;
    }
    let taken = shared()?;
    if *way == "disk" {
        // Most of it at once: who takes turns with so many others takes long.
        let most = limit * PIECES / 8 * 7;
        let piece = vec![7_u8; MEBIBYTE / PIECES];
        let mut file = File::create("most")?;
        for _ in 0..most {
            file.write_all(&piece)?;
        }
        taken.pieces.fetch_add(most, Ordering::Relaxed);
    }
    slow_down_who_looks();
    for number in 0..spinners + takers {
        let started = fork(|| {
            // SAFETY: touches no memory.
            let counter = if unsafe { libc::setsid() } > 0 {
                &taken.sessions
            } else {
                &taken.refused
            };
            counter.fetch_add(1, Ordering::Relaxed);
            // Tries to raise the weight of the session back to the default.
            let _refused = fs::write("/proc/self/autogroup", "0");
            match *way {
                "nothing" => thread::sleep(Duration::from_mins(1)),
                "disk" if number >= spinners => write_out(taken, (most, limit), number),
                "memory" if number >= spinners => fill(taken, (most, limit)),
                _ => {}
            }
            loop {
                spin_loop();
            }
        });
        if started.is_err() {
            break;
        }
    }
    if *way == "nothing" {
        let asked = || taken.sessions.load(Ordering::Relaxed) + taken.refused.load(Ordering::Relaxed);
        while asked() < spinners + takers {
            thread::sleep(Duration::from_millis(10));
        }
        let sessions = taken.sessions.load(Ordering::Relaxed);
        say(&format!("{sessions} sessions\n"));
        return Ok(());
    }
    thread::sleep(Duration::from_mins(1));
    Ok(())
}

/// Tries to put the sandbox's first process last and on one processor.
fn slow_down_who_looks() {
    // SAFETY: touches no memory.
    let parent = usize::try_from(unsafe { libc::getppid() }).unwrap_or(1);
    for process in [1, parent] {
        let (priority, processor) = ([0_u32; 1], [1_u64; 1]);
        let idle = usize::try_from(libc::SCHED_IDLE).unwrap_or(0);
        let arguments = [process, idle, priority.as_ptr().addr(), 0, 0, 0];
        let _refused = call(libc::SYS_sched_setscheduler, arguments);
        let arguments = [process, 8, processor.as_ptr().addr(), 0, 0, 0];
        let _refused = call(libc::SYS_sched_setaffinity, arguments);
        let _refused = call(libc::SYS_setpriority, [0, process, 19, 0, 0, 0]);
        let _refused = fs::write(format!("/proc/{process}/autogroup"), "19");
    }
}

/// Memory that children share.
fn shared() -> Result<&'static Taken, std::io::Error> {
    // SAFETY: a new mapping. Zeroes are two valid counters, and it is never unmapped.
    unsafe {
        let page = libc::mmap(
            ptr::null_mut(),
            4_096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        Ok(&*page.cast::<Taken>())
    }
}

/// Counts a piece that was taken. Says when it is a tenth more than the limit, and how much it is for every mebibyte.
fn count(taken: &Taken, limit: usize) -> usize {
    let pieces = taken.pieces.fetch_add(1, Ordering::Relaxed) + 1;
    if pieces == limit * PIECES / 10 * 11 {
        say(&format!("over {}\n", now()));
    }
    if pieces.is_multiple_of(PIECES) {
        say(&format!("{}\n", pieces / PIECES));
    }
    pieces / PIECES
}

/// Milliseconds of the monotonic clock.
fn now() -> u128 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
    .as_millis()
}

fn write_out(taken: &Taken, (most, limit): (usize, usize), number: usize) {
    let piece = vec![7_u8; MEBIBYTE / PIECES];
    if let Ok(mut file) = File::create(format!("w{number}")) {
        while count(taken, limit) < most && file.write_all(&piece).is_ok() {}
    }
}

fn fill(taken: &Taken, (most, limit): (usize, usize)) {
    let mut held = Vec::new();
    while count(taken, limit) < most {
        held.push(vec![7_u8; MEBIBYTE / PIECES]);
        black_box(&held);
    }
    std::mem::forget(held);
}
