//! Commands that are released at their timeout: their output afterwards, their end, and their limits.

use std::{io::Read, time::Duration};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sortie_sandbox::{AtTimeout, Command, Error, ExitKind, Finished, Limits, Released};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::{
    harness::{Bed, Run, SOON, Section, marked, out, sh, wait_until_gone, wait_until_there},
    lifetimes::{lose, marker, sleeper},
};

const SECOND: Duration = Duration::from_secs(1);

/// Runs a script that is released after this long.
async fn for_at_most(run: &mut Run, script: &str, timeout: Duration) -> Finished {
    let command = Command {
        at_timeout: AtTimeout::Release,
        ..sh(script, timeout)
    };
    run.sandbox.exec(command).await.unwrap()
}

/// Runs a script that does not end on its own, and releases it. It prints `ready` before.
async fn released(run: &mut Run, script: &str) -> Released {
    let finished = for_at_most(run, &format!("echo ready; {script}"), SECOND).await;
    assert_eq!(finished.exit, ExitKind::Running, "{finished:?}");
    released_after(finished, "ready\n").await
}

/// Takes the released command with this first line. On a busy host the line may come after the release.
async fn released_after(mut finished: Finished, first: &str) -> Released {
    let mut job = finished.released.take().unwrap();
    if out(&finished).is_empty() {
        assert_eq!(line(&mut job).await, first);
    } else {
        assert_eq!(out(&finished), first);
    }
    job
}

async fn line(released: &mut Released) -> String {
    let mut line = String::new();
    BufReader::with_capacity(1, &mut released.stdout)
        .read_line(&mut line)
        .await
        .unwrap();
    line
}

pub(crate) fn a_command_whose_time_is_up_runs_on_beside_later_ones(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let script =
            "echo before; while [ ! -e go ]; do sleep 0.01; done; echo after; echo aside >&2; exit 3";
        let finished = for_at_most(&mut run, script, SECOND).await;
        assert_eq!(finished.exit, ExitKind::Running);
        assert!(finished.duration >= SECOND);
        let mut job = released_after(finished, "before\n").await;
        assert_eq!(out(&run.sh("echo beside; touch go").await), "beside\n");
        assert_eq!(line(&mut job).await, "after\n");
        let mut aside = String::new();
        job.stderr.read_to_string(&mut aside).await.unwrap();
        assert_eq!(aside, "aside\n");
        assert_eq!(job.process.wait().await.unwrap().exit, ExitKind::Code(3));

        // A command that ends in time is not released.
        let finished = for_at_most(&mut run, "exit 4", 60 * SECOND).await;
        assert_eq!(finished.exit, ExitKind::Code(4));
        assert!(finished.released.is_none());
        run.end().await;
    })
}

pub(crate) fn the_end_of_a_released_command_is_told(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let wait = "while [ ! -e go ]; do sleep 0.01; done";
        let mut exits = released(&mut run, &format!("{wait}; exit 5")).await;
        let mut dies = released(&mut run, &format!("{wait}; kill -TERM $$")).await;
        run.sh("touch go").await;
        assert_eq!(exits.process.wait().await.unwrap().exit, ExitKind::Code(5));
        let end = dies.process.wait().await.unwrap();
        assert_eq!((end.exit, end.stderr), (ExitKind::Signal(15), Vec::new()));

        let mut lost = released(&mut run, "sleep 300").await;
        lose(&mut run).await;
        assert!(matches!(lost.process.wait().await, Err(Error::Lost(_))));
        run.end().await;
    })
}

pub(crate) fn a_released_command_is_killed_with_its_session_and_nothing_else(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let names = ["mine", "let-go", "server", "other"].map(|what| marker(bed, what));
        let [mine, let_go, server, other] = &names;
        let killed = released(&mut run, &format!("{} & {}", sleeper(mine), sleeper(mine))).await;
        let dropped = released(&mut run, &sleeper(let_go)).await;
        // Processes that start later do not belong to them.
        run.sh(&format!("{} > /dev/null 2>&1 &", sleeper(server))).await;
        let spared = released(&mut run, &sleeper(other)).await;
        for name in &names {
            wait_until_there(name);
        }
        let end = killed.process.kill().await.unwrap();
        assert_eq!(end.exit, ExitKind::Signal(9));
        assert_eq!(marked(mine), Vec::<i32>::new());
        drop(dropped);
        assert_eq!(wait_until_gone(let_go, SOON), 0);
        assert!(!marked(server).is_empty() && !marked(other).is_empty());
        assert_eq!(out(&run.sh("echo next").await), "next\n");
        drop(spared);
        assert_eq!(wait_until_gone(other, SOON), 0);
        run.end().await;
    })
}

pub(crate) fn a_command_that_is_killed_leaves_released_ones_alone(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let name = marker(bed, "released");
        let job = released(&mut run, &sleeper(&name)).await;
        wait_until_there(&name);
        let there = marked(&name);
        run.timed_out("sleep 300", SECOND, 5 * SECOND).await;
        run.let_go_of("echo begun > said; sleep 300", "said").await;
        assert_eq!(marked(&name), there);
        drop(job);
        assert_eq!(wait_until_gone(&name, SOON), 0);
        run.end().await;
    })
}

pub(crate) fn what_a_released_command_leaves_lives_on(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let name = marker(bed, "left");
        let script = format!("{} & while [ ! -e go ]; do sleep 0.01; done", sleeper(&name));
        let mut job = released(&mut run, &script).await;
        run.sh("touch go").await;
        let end = job.process.wait().await.unwrap();
        assert_eq!((end.exit, end.left), (ExitKind::Code(0), true));
        drop(job);
        assert_eq!(out(&run.sh("echo next").await), "next\n");
        assert!(!marked(&name).is_empty());
        run.end().await;
        assert_eq!(marked(&name), Vec::<i32>::new());
    })
}

pub(crate) fn what_a_released_command_left_is_killed_on_request(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let names = ["left", "also-left", "beside"].map(|what| marker(bed, what));
        let [left, also_left, beside] = &names;
        let wait = "while [ ! -e go ]; do sleep 0.01; done";
        let script = format!("{} & {} & {wait}; exit 3", sleeper(left), sleeper(also_left));
        let mut job = released(&mut run, &script).await;
        let spared = released(&mut run, &sleeper(beside)).await;
        let mut alone = released(&mut run, wait).await;
        for name in &names {
            wait_until_there(name);
        }
        run.sh("touch go").await;
        assert!(job.process.wait().await.unwrap().left);
        assert!(!alone.process.wait().await.unwrap().left);
        // A later command that is killed spares what the job left.
        run.timed_out("sleep 300", SECOND, 5 * SECOND).await;
        assert!(!marked(left).is_empty() && !marked(also_left).is_empty());
        for process in [job.process, alone.process] {
            let end = process.kill().await.unwrap();
            assert!(
                matches!(end.exit, ExitKind::Code(0 | 3)),
                "the end stays as it was"
            );
        }
        assert!(marked(left).is_empty() && marked(also_left).is_empty());
        assert!(!marked(beside).is_empty());
        drop(spared);
        assert_eq!(out(&run.sh("echo next").await), "next\n");
        run.end().await;
    })
}

pub(crate) fn a_command_that_cannot_be_released_is_killed_alone(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let parent = "echo $PPID";
        let before = out(&run.sh(parent).await);
        let begun = run.path.join("begun");
        let limits = getrlimit(Resource::Nofile);
        let no_more_descriptors = async {
            while !begun.exists() {
                tokio::task::yield_now().await;
            }
            let current = Some(0);
            setrlimit(Resource::Nofile, Rlimit { current, ..limits }).unwrap();
        };
        let (finished, ()) = tokio::join!(
            for_at_most(&mut run, "touch begun; sleep 300", 5 * SECOND),
            no_more_descriptors
        );
        setrlimit(Resource::Nofile, limits).unwrap();
        assert_eq!(finished.exit, ExitKind::TimedOut);
        assert!(finished.released.is_none());
        assert_eq!(out(&run.sh(parent).await), before, "the sandbox stands");
        run.end().await;
    })
}

pub(crate) fn released_commands_end_with_the_sandbox(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let name = marker(bed, "closed");
        let mut run = bed.open("run_1", Limits::default()).await;
        let mut job = released(&mut run, &sleeper(&name)).await;
        wait_until_there(&name);
        run.end().await;
        assert_eq!(marked(&name), Vec::<i32>::new());
        assert!(matches!(job.process.wait().await, Err(Error::Lost(_))));

        let mut run = bed.open("run_2", Limits::default()).await;
        let _job = released(&mut run, &sleeper(&name)).await;
        wait_until_there(&name);
        drop(run.sandbox);
        assert_eq!(wait_until_gone(&name, SOON), 0);
        run.workdir.delete().unwrap();
    })
}

pub(crate) fn a_released_command_stays_within_the_limits(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed
            .open_within("run_1", |limits| limits.disk_bytes = 160 << 20)
            .await;
        let fills = "while [ ! -e go ]; do sleep 0.01; done; head -c 200000000 /dev/zero > large; sleep 300";
        let mut job = released(&mut run, fills).await;
        let name = marker(bed, "beside");
        run.sh(&format!("touch go; {} > /dev/null 2>&1 &", sleeper(&name)))
            .await;
        assert_eq!(job.process.wait().await.unwrap().exit, ExitKind::Disk);
        assert_eq!(wait_until_gone(&name, SOON), 0, "everything was killed");
        assert_eq!(run.sh("rm large").await.exit, ExitKind::Code(0));
        run.end().await;
    })
}

pub(crate) fn a_long_stream_is_stored_from_its_beginning(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let command = |script| Command {
            keep_bytes: 1_000,
            store_bytes: 1 << 20,
            watch: None,
            ..sh(script, 60 * SECOND)
        };
        let stored = |finished: Finished| {
            finished.stored.map(|file| {
                let mut content = Vec::new();
                file?.read_to_end(&mut content).unwrap();
                Some(content)
            })
        };
        let finished = run
            .sandbox
            .exec(command("seq 20000; echo short >&2"))
            .await
            .unwrap();
        assert_eq!(
            (finished.stdout.total_bytes, finished.stdout.total_lines),
            (108_894, 20_000)
        );
        let [stdout, stderr] = stored(finished);
        let stored_lines = String::from_utf8(stdout.unwrap()).unwrap();
        assert!(
            stored_lines
                .lines()
                .eq((1..=20_000).map(|number| number.to_string()))
        );
        assert_eq!(stderr, None);

        let finished = run
            .sandbox
            .exec(command("head -c 5000000 /dev/zero >&2"))
            .await
            .unwrap();
        assert_eq!(finished.stderr.total_bytes, 5_000_000);
        assert_eq!(
            stored(finished).map(|content| content.map(|content| content.len())),
            [None, Some(1 << 20)]
        );
        assert_eq!(out(&run.sh("ls -A").await), "probe\n", "the files have no names");
        run.end().await;
    })
}

/// No program waits for input: there is neither input nor a terminal, and the environment marks the run as unattended.
pub(crate) fn nobody_is_asked_anything(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let finished = run
            .sh("{ read answer </dev/tty; } 2>/dev/null; echo \"status $?\"")
            .await;
        assert!(
            !out(&finished).contains("status 0"),
            "there is no terminal: {}",
            out(&finished)
        );
        let names = "PAGER GIT_PAGER TERM NO_COLOR GIT_TERMINAL_PROMPT DEBIAN_FRONTEND PIP_PROGRESS_BAR \
                     PIP_DISABLE_PIP_VERSION_CHECK TQDM_DISABLE GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL";
        let told = run
            .sh(&format!("for name in {names}; do eval echo \\$$name; done"))
            .await;
        let values: Vec<String> = out(&told).lines().map(str::to_owned).collect();
        assert_eq!(
            values,
            [
                "cat",
                "cat",
                "dumb",
                "1",
                "0",
                "noninteractive",
                "off",
                "1",
                "1",
                "Sortie agent",
                "agent@sortie.example"
            ]
        );
        if std::path::Path::new("/etc/os-release").exists() {
            let name = run.sh("grep -c ^NAME= /etc/os-release").await;
            assert_eq!(out(&name), "1\n");
        } else {
            bed.not_checked("this host has no /etc/os-release");
        }
        run.end().await;
    })
}
