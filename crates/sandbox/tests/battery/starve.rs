//! The processor: a run that takes as much of it as it can, from the engine and from the process that watches its limits.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use sortie_sandbox::{AtTimeout, Command, ExitKind, Limits};

use crate::harness::{Bed, SOON, Section, marked, out, tell, wait_for_one};

/// The limit of these runs, in mebibytes.
const LIMIT: u64 = 256;
/// Time for which a run may be over its limit by more than a tenth.
const MOST_OVER: u64 = 1_000;
/// Sessions of a run in addition to those of its commands, if no control group weighs it.
const SESSIONS: u64 = 16;

/// Milliseconds of the clock that the probe reads, too.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec * 1_000 + now.tv_nsec / 1_000_000).unwrap()
}

/// Result of the probe.
struct Attack {
    exit: ExitKind,
    /// Time for which the run was over the limit by more than a tenth, in milliseconds.
    over: u64,
    /// Mebibytes that it took.
    taken: u64,
}

async fn attack(bed: &Bed, way: &str, numbers: [u64; 3]) -> Attack {
    let mut run = bed
        .open_within("run_1", |limits| {
            limits.disk_bytes = LIMIT << 20;
            limits.memory_bytes = LIMIT << 20;
        })
        .await;
    let mut words: Vec<String> = ["starve", way].map(str::to_owned).to_vec();
    words.extend([4 * LIMIT, LIMIT].iter().chain(&numbers).map(u64::to_string));
    let finished = run.probe(words).await;
    let ended = now();
    let said = out(&finished);
    let crossed = said.lines().find_map(|line| line.strip_prefix("over "));
    let taken = said.lines().filter_map(|line| line.parse().ok()).max();
    run.end().await;
    Attack {
        over: crossed.map_or(0, |at| ended.saturating_sub(at.parse().unwrap())),
        taken: taken.unwrap_or(0),
        exit: finished.exit,
    }
}

/// A busy machine is late now and then. One of three tries has to be in time.
async fn is_kept(bed: &Bed, way: &str, numbers: [u64; 3]) {
    let expected = if way == "disk" {
        ExitKind::Disk
    } else {
        ExitKind::Memory
    };
    let mut tries = Vec::new();
    while tries.len() < 3 {
        // The memory limit evicts inodes, so the checks read them from the disk. These reads must not wait for earlier writes, such
        // as those of a compiler: the test is about the processor.
        rustix::fs::sync();
        let Attack { exit, over, taken } = attack(bed, way, numbers).await;
        if exit == ExitKind::TimedOut && taken <= LIMIT {
            // All other processes of the machine have precedence over a run, and it never reached its limit.
            return bed.not_checked(&format!("{way} {numbers:?}: a busy machine, {taken} MiB in time"));
        }
        assert_eq!(
            exit, expected,
            "{way} {numbers:?}: {taken} MiB of {LIMIT}, {over} ms over"
        );
        tell(&format!(
            "{}: {way} {numbers:?}: {taken} MiB of {LIMIT}, {over} ms over, attempts held\n",
            bed.test
        ));
        if over <= MOST_OVER {
            return;
        }
        tries.push((over, taken));
    }
    panic!("{way} {numbers:?}: {tries:?}");
}

/// Numbers of spinning processes, of allocating processes, and of files that make a check slow.
pub(crate) fn limits_are_kept_though_the_run_takes_the_processor(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        is_kept(bed, "disk", [200, 8, 0]).await;
        is_kept(bed, "disk", [50, 150, 20_000]).await;
        if !bed.hard_memory() {
            is_kept(bed, "memory", [200, 8, 0]).await;
        }
    })
}

pub(crate) fn sessions_are_bounded(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let finished = run.sh("exec ./probe starve nothing 0 1 200 0 0").await;
        let said = out(&finished);
        let sessions: u64 = said.trim().trim_end_matches(" sessions").parse().unwrap();
        if bed.hard_memory() {
            assert!(
                sessions > SESSIONS,
                "a control group weighs all of them as one: {said}"
            );
        } else {
            assert!((1..=SESSIONS).contains(&sessions), "{said}");
        }
        // The engine can still start a command, which needs a session.
        assert_eq!(run.sh("echo next").await.exit, ExitKind::Code(0));
        run.end().await;
        // Those that have ended make room.
        let mut run = bed.open("run_2", Limits::default()).await;
        let finished = run
            .sh("for n in $(seq 40); do setsid -w true || exit 1; done")
            .await;
        assert_eq!(finished.exit, ExitKind::Code(0), "{finished:?}");
        run.end().await;
    })
}

/// Reads a file of a process in `/proc`.
fn fact(process: i32, file: &str) -> String {
    fs::read_to_string(format!("/proc/{process}/{file}")).unwrap()
}

/// A field of a process, counted as in the manual of `/proc`.
fn field(process: i32, number: usize) -> i32 {
    let stat = fact(process, "stat");
    let fields = stat.rsplit_once(") ").unwrap().1;
    fields.split(' ').nth(number - 3).unwrap().parse().unwrap()
}

/// Programs that take all processors, each in a separate session. They end when this value is dropped.
struct Spinners(Vec<std::process::Child>);

impl Spinners {
    #[expect(
        clippy::disallowed_methods,
        reason = "they load the machine, and are of no sandbox"
    )]
    fn start(count: usize) -> Self {
        let start = || {
            std::process::Command::new("setsid")
                .args(["sh", "-c", "while :; do :; done"])
                .spawn()
                .unwrap()
        };
        Self((0..count).map(|_| start()).collect())
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for spinner in &mut self.0 {
            spinner.kill().unwrap();
            spinner.wait().unwrap();
        }
    }
}

pub(crate) fn what_is_killed_on_a_busy_machine_dies_soon(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        if bed.hard_memory() {
            // A control group weighs the run, and not its sessions.
            return;
        }
        if !fs::exists("/proc/self/autogroup").unwrap() {
            return bed.not_checked("this kernel does not weigh sessions");
        }
        let mut run = bed.open("run_1", Limits::default()).await;
        // It frees this much memory when it is killed, with the lowest weight.
        let bytes = 300_000_000 + 2 * std::process::id() + u32::from(bed.has_namespaces());
        let holds = format!(
            "setsid sh -c 'head -c {bytes} /dev/zero | tail -c {bytes} | sleep 1000' >/dev/null 2>&1 &"
        );
        assert_eq!(run.sh(&holds).await.exit, ExitKind::Code(0));
        let began = Instant::now();
        let is_ready = |process: &i32| {
            let read = |file| fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
            let pages = read("statm")
                .split(' ')
                .nth(1)
                .and_then(|pages| pages.parse().ok());
            pages.is_some_and(|pages: u32| pages > bytes / 4_096) && read("autogroup").ends_with("nice 19\n")
        };
        while !marked(&bytes.to_string()).iter().any(is_ready) {
            assert!(began.elapsed() < SOON, "it holds no memory, or weighs too much");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let spinners = Spinners::start(40);
        let began = Instant::now();
        run.end().await;
        let took = began.elapsed();
        drop(spinners);
        assert!(took < Duration::from_secs(8), "{took:?}");
    })
}

/// The share of a process's control group for the processor, with the file that says so.
fn share(process: i32) -> (PathBuf, String) {
    let own = fact(process, "cgroup");
    let path = own
        .lines()
        .find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|name| name == "cpu").then_some(path)
        })
        .unwrap();
    let file = PathBuf::from(format!("/sys/fs/cgroup/cpu{path}/cpu.shares"));
    let share = fs::read_to_string(&file).unwrap();
    (file, share.trim().to_owned())
}

pub(crate) fn the_engine_and_the_watch_come_before_commands(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let marker = format!(
            "{}.{}",
            70_000 + std::process::id(),
            u8::from(bed.has_namespaces())
        );
        let released = Command {
            argv: ["sleep", &marker].map(str::to_owned).to_vec(),
            timeout: Duration::ZERO,
            at_timeout: AtTimeout::Release,
            keep_bytes: 1_024,
            store_bytes: 0,
            watch: None,
        };
        let _job = run.sandbox.exec(released).await.unwrap();
        let command = wait_for_one(&marker);
        let (parent, nice) = (field(command, 4), 19);
        assert_eq!(field(command, nice), 10);
        if bed.hard_memory() {
            assert_eq!(field(parent, nice), -10, "the watch");
            if fs::exists("/sys/fs/cgroup/cpu/cpu.shares").unwrap() {
                let (file, shares) = share(command);
                assert!(
                    file.to_str().unwrap().contains("sortie-run-"),
                    "{}",
                    file.display()
                );
                assert_eq!(shares, "256");
                assert_eq!(share(parent).0, file, "the watch shares what the run has");
            } else {
                bed.not_checked("no control groups version 1 for the processor");
            }
        } else if fs::exists(format!("/proc/{command}/autogroup")).unwrap() {
            let further = format!("{marker}1");
            let started = run.sh(&format!("setsid sleep {further} &")).await;
            assert_eq!(started.exit, ExitKind::Code(0));
            for (process, weight) in [(command, "nice 10\n"), (wait_for_one(&further), "nice 19\n")] {
                let began = Instant::now();
                // The kernel allows one per tenth of a second, for all runs together.
                while !fact(process, "autogroup").ends_with(weight) {
                    assert!(began.elapsed() < SOON, "{}", fact(process, "autogroup"));
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        } else {
            bed.not_checked("this kernel does not weigh sessions");
        }
        run.end().await;
    })
}
