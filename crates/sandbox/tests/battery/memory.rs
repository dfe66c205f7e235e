//! Memory that the kernel holds for a run, and what it counts for a user that the engine and its runs may share.

use std::{
    process::Command as Process,
    time::{Duration, Instant},
};

use rustix::process::{Resource, getrlimit, getuid};
use sortie_sandbox::{ExitKind, Finished, Limits, Tenancy};

use crate::harness::{Bed, PROBE, Section, out, tell};

const SECOND: Duration = Duration::from_secs(1);
const LIMIT: u64 = 192 << 20;

fn limits() -> Limits {
    Limits {
        memory_bytes: LIMIT,
        ..Limits::default()
    }
}

/// Bytes that a probe says that it holds.
fn said(finished: &Finished) -> u64 {
    out(finished).trim().parse().unwrap_or(0)
}

/// Runs a probe that takes what it can and keeps it. The run is stopped for its memory, or the probe holds hardly more
/// than the limit.
async fn is_bounded(bed: &Bed, probe: &str) {
    let mut run = bed.open("run_bounded", limits()).await;
    let began = Instant::now();
    let finished = run.sh_for(&format!("exec ./probe {probe}"), 25 * SECOND).await;
    tell(&format!(
        "{}: {probe}: {:?} after {:.1?}, {} MiB\n",
        bed.test,
        finished.exit,
        began.elapsed(),
        said(&finished) >> 20
    ));
    let within = said(&finished) <= LIMIT / 10 * 11;
    assert!(
        finished.exit == ExitKind::Memory || within,
        "{probe}: {finished:?}"
    );
    if !bed.hard_memory() {
        // The kernel kills one process of a control group, and the others keep what they have.
        assert_eq!(
            run.sh("echo next").await.exit,
            ExitKind::Code(0),
            "the run goes on"
        );
    }
    run.end().await;
}

pub(crate) fn memory_behind_an_ended_thread_counts(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", limits()).await;
        let finished = run.sh_for("exec ./probe headless 400", 12 * SECOND).await;
        assert_eq!(finished.exit, ExitKind::Memory, "{finished:?}");
        assert_eq!(
            run.sh("./probe headless 20 & sleep 1; :").await.exit,
            ExitKind::Code(0)
        );
        let told = run.sandbox.usage().await.unwrap().memory_bytes.unwrap();
        assert!((20 << 20..40 << 20).contains(&told), "{told} bytes in use");
        run.end().await;
    })
}

pub(crate) fn buffers_of_sockets_count(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", limits()).await;
        is_bounded(bed, "socket-buffers 4").await;
        if bed.has_namespaces() {
            is_bounded(bed, "tcp-buffers 2").await;
            // The probe says how many sockets it has filled, not how many bytes.
            is_bounded(bed, "netlink-buffers 4").await;
        }
        // Few of them are nobody's trouble.
        let finished = run.sh_for("exec ./probe few-buffers 100", 2 * SECOND).await;
        assert_eq!(finished.exit, ExitKind::TimedOut, "{finished:?}");
        assert!(said(&finished) > 1 << 20, "{finished:?}");
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
            // A user of its own, and a control group that counts them.
            is_bounded(bed, "watches 4").await;
        } else {
            for probe in ["watches 4", "flying-watches 4"] {
                let finished = run.sh_for(&format!("exec ./probe {probe}"), 5 * SECOND).await;
                tell(&format!("{}: {probe}: {}\n", bed.test, said(&finished)));
                assert_eq!(finished.exit, ExitKind::TimedOut, "{finished:?}");
                assert!(said(&finished) <= 65_536, "{finished:?}");
            }
            // Once they are gone there is room again.
            for _ in 0..10 {
                let finished = run.sh("exec ./probe watch-many 10000").await;
                assert_eq!(out(&finished), "10000\n");
            }
        }
        run.end().await;
    })
}

/// Names the things that a process of the engine's user, none of the run's, cannot have any more.
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
            let script = format!("exec ./probe {probe}");
            let mut checks = 0;
            let finished = {
                let mut attack = std::pin::pin!(run.sh_for(&script, 4 * SECOND));
                loop {
                    tokio::select! {
                        finished = &mut attack => break finished,
                        lacks = tokio::task::spawn_blocking(lacking) => {
                            assert_eq!(lacks.unwrap(), "", "{probe}");
                            checks += 1;
                        }
                    }
                }
            };
            assert!(checks > 0);
            tell(&format!(
                "{}: {probe}: {} {:?}\n",
                bed.test,
                said(&finished),
                finished.exit
            ));
            run.end().await;
        }
    })
}
