//! Processes with an ended first thread and another that runs on: they end with their command or sandbox, as any other.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use sortie_sandbox::{AtTimeout, Command, ExitKind, Limits};
use tokio::time::timeout;

use crate::{
    harness::{Bed, Run, SOON, Section, line_in, out, sh},
    lifetimes::marker,
};

const SECOND: Duration = Duration::from_secs(1);

/// Threads on this host of processes with `marker` in their command line. The process itself has an empty one after its first
/// thread has ended.
fn threads(marker: &str) -> usize {
    let belongs = |task: &Path| {
        let line = std::fs::read(task.join("cmdline")).unwrap_or_default();
        line.windows(marker.len())
            .any(|window| window == marker.as_bytes())
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| std::fs::read_dir(process.path().join("task")).ok())
        .flatten()
        .flatten()
        .filter(|task| belongs(&task.path()))
        .count()
}

fn wait_until_none(marker: &str) {
    let began = Instant::now();
    while threads(marker) > 0 {
        assert!(began.elapsed() < SOON, "{marker}: {} threads", threads(marker));
    }
}

/// A program with a first thread that ends at once. It writes the file `held` once that thread has ended and the other one runs.
fn headless(marker: &str) -> String {
    format!("$HOME/probe headless 1 {marker}")
}

/// Waits until a headless program of this run has lost its first thread.
async fn wait_until_headless(folder: &Path, marker: &str) {
    let held = folder.join("held");
    timeout(SOON, line_in(&held)).await.unwrap();
    std::fs::remove_file(&held).unwrap();
    let began = Instant::now();
    while threads(marker) != 1 {
        assert!(began.elapsed() < SOON, "{marker}: {} threads", threads(marker));
    }
}

/// Runs it in the background, and waits until its first thread has ended.
async fn in_background(run: &mut Run, marker: &str) {
    let script = format!("{} > /dev/null 2>&1 &", headless(marker));
    assert_eq!(run.sh(&script).await.exit, ExitKind::Code(0));
    wait_until_headless(&run.path, marker).await;
}

pub(crate) fn a_process_without_its_first_thread_ends_with_its_command(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let names = ["earlier", "direct", "behind"].map(|what| marker(bed, what));
        let [earlier, direct, behind] = &names;
        in_background(&mut run, earlier).await;
        // The clock that orders processes by start time has a limited resolution.
        run.sh("sleep 0.05").await;
        // The process without its first thread is the command itself.
        run.timed_out(&format!("exec {}", headless(direct)), SECOND, 5 * SECOND)
            .await;
        assert_eq!(threads(direct), 0);
        // As a background process of a command that itself runs on.
        run.timed_out(&format!("{} & sleep 300", headless(behind)), SECOND, 5 * SECOND)
            .await;
        assert_eq!(threads(behind), 0);
        assert_eq!(threads(earlier), 1, "what an earlier command left lives on");
        assert_eq!(out(&run.sh("echo next").await), "next\n", "the sandbox stands");
        run.end().await;
        assert_eq!(threads(earlier), 0);
    })
}

pub(crate) fn a_process_without_its_first_thread_ends_with_the_sandbox(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let name = marker(bed, "closed");
        in_background(&mut run, &name).await;
        let began = Instant::now();
        run.end().await;
        assert_eq!(threads(&name), 0);
        assert!(began.elapsed() < 10 * SECOND, "{:?}", began.elapsed());

        let mut run = bed.open("run_2", Limits::default()).await;
        let name = marker(bed, "dropped");
        in_background(&mut run, &name).await;
        drop(run.sandbox);
        wait_until_none(&name);
        run.workdir.delete().unwrap();
    })
}

pub(crate) fn a_job_without_its_first_thread_has_not_ended(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let name = marker(bed, "job");
        let command = Command {
            at_timeout: AtTimeout::Release,
            ..sh(&format!("exec {}", headless(&name)), SECOND)
        };
        let finished = run.sandbox.exec(command).await.unwrap();
        assert_eq!(finished.exit, ExitKind::Running);
        let mut job = finished.released.unwrap().process;
        wait_until_headless(&run.path, &name).await;
        assert!(timeout(SECOND, job.wait()).await.is_err(), "a thread runs");
        assert_eq!(job.kill().await.unwrap().exit, ExitKind::Signal(9));
        assert_eq!(threads(&name), 0);

        // A process without its first thread that a job leaves running is reported and killed as well.
        let name = marker(bed, "left");
        let script = format!("{} & while [ ! -e go ]; do sleep 0.01; done", headless(&name));
        let command = Command {
            at_timeout: AtTimeout::Release,
            ..sh(&script, SECOND)
        };
        let mut job = run.sandbox.exec(command).await.unwrap().released.unwrap().process;
        run.sh("touch go").await;
        assert!(job.wait().await.unwrap().left);
        wait_until_headless(&run.path, &name).await;
        job.kill().await.unwrap();
        assert_eq!(threads(&name), 0);

        // A piped process.
        let name = marker(bed, "piped");
        let argv = ["sh", "-c", &format!("exec {}", headless(&name))].map(str::to_owned);
        let piped = run.sandbox.start(argv.to_vec()).await.unwrap();
        wait_until_headless(&run.path, &name).await;
        assert_eq!(piped.process.kill().await.unwrap().exit, ExitKind::Signal(9));
        assert_eq!(threads(&name), 0);
        run.end().await;
    })
}
