//! Memory that the kernel holds for a run, and objects that it counts for a user that the engine and its runs may share.

use std::{
    process::Command as Process,
    time::{Duration, Instant},
};

use rustix::process::{Resource, getrlimit, getuid};
use sortie_sandbox::{ExitKind, Finished, Limits, Tenancy};
use tokio::time::timeout;

use crate::harness::{Bed, PROBE, Run, SOON, Section, line_in, out, tell};

const SECOND: Duration = Duration::from_secs(1);
const LIMIT: u64 = 192 << 20;
/// Waits in a shell until a probe holds its resources.
const UNTIL_HELD: &str = "while [ ! -s held ]; do sleep 0.01; done";

fn limits() -> Limits {
    Limits {
        memory_bytes: LIMIT,
        ..Limits::default()
    }
}

/// End of a probe that takes as much as it can.
#[derive(Debug)]
enum Taken {
    /// The probe reported this figure and kept its resources.
    Held(u64),
    Ended(Finished),
}

/// Runs a probe until it reports. One that holds more than `allowed` is run on until something ends it.
async fn take(run: &mut Run, probe: &str, allowed: u64) -> Taken {
    let held = run.path.join("held");
    run.sh("rm -f held").await;
    let script = format!("exec ./probe {probe}");
    let mut attack = std::pin::pin!(run.sh_for(&script, 3 * SOON));
    let figure = tokio::select! {
        finished = &mut attack => return Taken::Ended(finished),
        line = line_in(&held) => line.trim().parse().unwrap(),
    };
    if figure > allowed
        && let Ok(finished) = timeout(SOON, attack).await
    {
        return Taken::Ended(finished);
    }
    Taken::Held(figure)
}

/// Runs a probe that takes as much as it can and keeps it. The run is stopped for its memory, or the probe reports that it holds
/// hardly more than the limit.
async fn is_bounded(bed: &Bed, probe: &str) {
    let mut run = bed.open("run_bounded", limits()).await;
    let began = Instant::now();
    let most = LIMIT / 10 * 11;
    let taken = take(&mut run, probe, most).await;
    tell(&format!(
        "{}: {probe}: {} after {:.1?}\n",
        bed.test,
        match &taken {
            Taken::Held(bytes) => format!("{} MiB", bytes >> 20),
            Taken::Ended(finished) => format!("{:?}", finished.exit),
        },
        began.elapsed(),
    ));
    match taken {
        Taken::Held(bytes) => assert!(bytes <= most, "{probe}: {bytes} bytes"),
        Taken::Ended(finished) => assert_eq!(finished.exit, ExitKind::Memory, "{probe}: {finished:?}"),
    }
    goes_on(bed, &mut run).await;
    run.end().await;
}

async fn goes_on(bed: &Bed, run: &mut Run) {
    // The kernel kills one process of a control group, and the others keep their memory.
    if !bed.hard_memory() {
        assert_eq!(
            run.sh("echo next").await.exit,
            ExitKind::Code(0),
            "the run goes on"
        );
    }
}

pub(crate) fn memory_behind_an_ended_thread_counts(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", limits()).await;
        let finished = run.sh_for("exec ./probe headless 400", 3 * SOON).await;
        assert_eq!(finished.exit, ExitKind::Memory, "{finished:?}");
        let script = format!("rm -f held; ./probe headless 20 & {UNTIL_HELD}");
        assert_eq!(run.sh(&script).await.exit, ExitKind::Code(0));
        let told = run.sandbox.usage().await.unwrap().memory_bytes.unwrap();
        assert!((20 << 20..40 << 20).contains(&told), "{told} bytes in use");
        run.end().await;
    })
}

pub(crate) fn buffers_of_sockets_count(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        is_bounded(bed, "socket-buffers 4").await;
        if bed.has_namespaces() {
            is_bounded(bed, "tcp-buffers 2").await;
            // The probe reports a number of sockets, which says nothing about bytes.
            let mut run = bed.open("run_netlink", limits()).await;
            let finished = run.sh_for("exec ./probe netlink-buffers 4", 3 * SOON).await;
            assert_eq!(finished.exit, ExitKind::Memory, "{finished:?}");
            goes_on(bed, &mut run).await;
            run.end().await;
        }
        // A few full sockets stay within the limit.
        let mut run = bed.open("run_1", limits()).await;
        let script = format!("./probe few-buffers 100 > /dev/null & {UNTIL_HELD}; cat held");
        let finished = run.sh(&script).await;
        assert_eq!(finished.exit, ExitKind::Code(0), "{finished:?}");
        let bytes: u64 = out(&finished).trim().parse().unwrap();
        assert!(bytes > 1 << 20, "{bytes} bytes");
        // Some checks later they are still there.
        assert_eq!(run.sh("sleep 1").await.exit, ExitKind::Code(0));
        assert!(run.processes().await >= 2, "the probe was killed");
        run.end().await;
    })
}

pub(crate) fn buffers_that_closed_senders_left_count(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        is_bounded(bed, "orphaned-buffers 4").await;
    })
}

pub(crate) fn system_v_memory_counts(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        is_bounded(bed, "messages").await;
        is_bounded(bed, "semaphores").await;
    })
}

pub(crate) fn page_tables_and_mappings_count(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        is_bounded(bed, "page-tables 200 700").await;
        is_bounded(bed, "mappings 60").await;
    })
}

pub(crate) fn watched_descriptors_are_bounded(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", limits()).await;
        let finished = run.sh("./probe tables-apart").await;
        assert_eq!(
            out(&finished),
            "false false\n",
            "descriptors that the watch cannot see"
        );
        if bed.hard_memory() {
            // A separate user, and a control group that counts them.
            is_bounded(bed, "watches 4").await;
        } else {
            for probe in ["watches 4", "flying-watches 4"] {
                let taken = take(&mut run, probe, u64::MAX).await;
                tell(&format!("{}: {probe}: {taken:?}\n", bed.test));
                let Taken::Held(watched) = taken else {
                    panic!("{probe}: {taken:?}");
                };
                // Descriptors cannot be sent everywhere, and right after the first probe there may be no room yet.
                assert!(watched <= 65_536, "{probe}: {watched}");
                assert!(watched > 0 || probe != "watches 4", "{probe} watched nothing");
            }
            // Once they are closed there is room again. An incomplete count is repeated later.
            let began = Instant::now();
            let mut rounds = 0;
            while rounds < 10 {
                let finished = run.sh("exec ./probe watch-many 10000").await;
                if out(&finished) == "10000\n" {
                    rounds += 1;
                } else {
                    assert!(began.elapsed() < SOON, "{finished:?}");
                }
            }
        }
        run.end().await;
    })
}

/// Checks of what the engine can still get, once an attack holds everything that it can get.
const CHECKS_WHEN_HELD: u32 = 20;

/// Names the objects that a process of the engine's user outside of the run cannot get.
fn lacking() -> String {
    #[expect(clippy::disallowed_methods, reason = "stands for the engine")]
    let output = Process::new(PROBE).arg("shares").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub(crate) fn the_engine_keeps_its_part_of_what_its_user_has(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let capabilities = bed.backend.capabilities();
        let serves_strangers = bed.has_namespaces() && bed.hard_memory() && getuid().is_root();
        assert_eq!(
            capabilities.tenancy == Tenancy::Multi,
            serves_strangers,
            "{capabilities:?}"
        );
        let limit = getrlimit(Resource::Nofile).current;
        if limit.is_some_and(|limit| limit < 4_096) {
            bed.not_checked("descriptors in flight: this process may have few open itself");
        }
        for (number, probe) in [
            "watches 60",
            "flying-watches 20",
            "flights",
            "signals",
            "many-pipes 60",
            "instances",
        ]
        .into_iter()
        .enumerate()
        {
            let mut run = bed.open(&format!("run_{number}"), Limits::default()).await;
            let held = run.path.join("held");
            let script = format!("exec ./probe {probe}");
            let (mut checks, mut checks_when_held) = (0, 0);
            let finished = {
                // A partly killed attack never reports that it holds everything.
                let mut attack = std::pin::pin!(run.sh_for(&script, 2 * SECOND));
                loop {
                    if checks_when_held == CHECKS_WHEN_HELD {
                        break None;
                    }
                    let is_held = held.exists();
                    tokio::select! {
                        finished = &mut attack => break Some(finished.exit),
                        lacks = tokio::task::spawn_blocking(lacking) => {
                            assert_eq!(lacks.unwrap(), "", "{probe}");
                            checks += 1;
                            checks_when_held += u32::from(is_held);
                        }
                    }
                }
            };
            assert!(checks > 0);
            tell(&format!(
                "{}: {probe}: {:?} {finished:?}\n",
                bed.test,
                std::fs::read_to_string(held)
            ));
            run.end().await;
        }
    })
}
