//! Rows 56 to 63: output of commands, their end, and the processes that live on.

use std::{
    io::{BufRead, BufReader},
    process::{Command as Process, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Resource, Rlimit, Signal, getpid, getuid, kill_process, prlimit};
use sortie_sandbox::{AtTimeout, Command, Error, ExitKind, Limits, Spec, Workdir};

use crate::harness::{Bed, PROBE, Run, SOON, Section, marked, out, sh, wait_until_gone, wait_until_there};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn marker(bed: &Bed, what: &str) -> String {
    format!(
        "mark-{}-{}-{what}",
        std::process::id(),
        bed.test.replace("::", "-")
    )
}

/// A program that sleeps under the given name.
pub(crate) fn sleeper(marker: &str) -> String {
    format!("sh -c 'sleep 300; :' {marker}")
}

pub(crate) fn output_is_kept_at_both_ends_and_otherwise_thrown_away(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let before = resident();
        let script =
            "echo first; head -c 64000000 /dev/zero; echo; echo last; head -c 32000000 /dev/zero >&2";
        let finished = run.sh(script).await;
        assert_eq!(finished.exit, ExitKind::Code(0));
        assert_eq!(finished.stdout.total_bytes, 6 + 64_000_000 + 1 + 5);
        assert_eq!(finished.stderr.total_bytes, 32_000_000);
        assert_eq!(
            (finished.stdout.head.len(), finished.stdout.tail.len()),
            (32 << 10, 32 << 10)
        );
        assert!(finished.stdout.head.starts_with(b"first\n"));
        assert!(finished.stdout.tail.ends_with(b"\0\nlast\n"));
        let grown = resident().saturating_sub(before);
        assert!(grown < 16 << 20, "the engine grew by {grown} bytes");
        run.end().await;
    })
}

/// Memory of this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4_096
}

pub(crate) fn input_is_empty_and_bytes_stay_as_they_are(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let finished = run.sh("cat; read x; echo \"status $?\"").await;
        assert_eq!(
            (finished.exit, out(&finished).as_str()),
            (ExitKind::Code(0), "status 1\n")
        );
        let finished = run.sh(r"printf 'a\000b\377\376\033[31mc'").await;
        assert_eq!(finished.stdout.head, b"a\0b\xff\xfe\x1b[31mc");
        run.end().await;
    })
}

pub(crate) fn what_ignores_every_signal_ends_with_its_command(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let server = marker(bed, "server");
        assert_eq!(
            run.sh(&format!("{} > /dev/null 2>&1 &", sleeper(&server)))
                .await
                .exit,
            ExitKind::Code(0)
        );
        // The clock that orders processes by start time has a limited resolution.
        run.sh("sleep 0.05").await;
        let finished = run.timed_out("./probe stubborn", 5 * SECOND, 2 * SECOND).await;
        assert_eq!(out(&finished), "here\n");
        assert!(run.processes().await >= 1, "an earlier command's server lives on");
        wait_until_there(&server);
        let left = run.sh("ps ax 2>/dev/null | grep -c 'probe[ ]stubborn'").await;
        assert!(bed.has_namespaces() == (out(&left) == "0\n") || !bed.has_namespaces());
        assert_eq!(run.processes().await, 2, "only the server and its sleep");
        run.end().await;
        assert_eq!(marked(&server), Vec::<i32>::new());
    })
}

pub(crate) fn background_processes_live_until_the_sandbox_is_closed(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let name = marker(bed, "talker");
        // It keeps the command's streams open and continues to write far more than a pipe holds.
        let talker = format!(
            "(trap '' HUP; while [ ! -e go ]; do sleep 0.01; done; n=0; while [ $n -lt 4000 ]; do \
             echo 0123456789012345678901234567890123456789; n=$((n+1)); done; touch done; {}) & echo started; touch go",
            sleeper(&name)
        );
        let finished = run.sh(&talker).await;
        assert_eq!(finished.exit, ExitKind::Code(0));
        assert!(out(&finished).contains("started"));
        let waited = run.sh("while [ ! -e done ]; do sleep 0.01; done").await;
        assert_eq!(
            waited.exit,
            ExitKind::Code(0),
            "what it writes is read and thrown away"
        );
        wait_until_there(&name);
        run.end().await;
        assert_eq!(
            marked(&name),
            Vec::<i32>::new(),
            "closing has killed it before it returned"
        );
    })
}

pub(crate) fn a_command_that_nobody_waits_for_is_killed(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let name = marker(bed, "dropped");
        let script = format!("echo begun > said; {}", sleeper(&name));
        run.let_go_of(&script, "said").await;
        assert_eq!(wait_until_gone(&name, SOON), 0);
        assert_eq!(out(&run.sh("echo next").await), "next\n");

        // Dropping the sandbox itself kills everything, too.
        run.sh(&format!("{} > /dev/null 2>&1 &", sleeper(&name))).await;
        wait_until_there(&name);
        drop(run.sandbox);
        assert_eq!(wait_until_gone(&name, SOON), 0);
        run.workdir.delete().unwrap();
    })
}

pub(crate) fn orphans_are_reaped(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        assert_eq!(run.sh("./probe orphans 50").await.exit, ExitKind::Code(0));
        let began = Instant::now();
        while run.processes().await > 0 {
            assert!(began.elapsed() < SOON, "not even a zombie is to be left");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        run.end().await;
    })
}

pub(crate) fn nothing_outlives_the_engine_or_the_launcher(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let name = marker(bed, "engine");
        let root = bed.root.path().join("engine").to_str().unwrap().to_owned();
        let script = format!("{} > /dev/null 2>&1 & ./nothing; echo", sleeper(&name));
        #[expect(clippy::disallowed_methods, reason = "an engine to be killed")]
        let mut engine = Process::new(PROBE)
            .args(["engine", &root, bed.pass.level.as_str(), &script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(engine.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready Code(0)\n");
        wait_until_there(&name);
        engine.kill().unwrap();
        engine.wait().unwrap();
        assert_eq!(wait_until_gone(&name, SOON), 0, "the engine was killed");

        let mut run = bed.open("run_1", Limits::default()).await;
        run.sh(&format!("{} > /dev/null 2>&1 &", sleeper(&name))).await;
        kill_process(launcher(), Signal::KILL).unwrap();
        // The next command opens another sandbox, or finds that this one is lost and ends its group.
        let next = run.sandbox.exec(sh("true", SECOND)).await;
        assert!(matches!(next, Err(Error::Lost(_)) | Ok(_)), "{next:?}");
        let ends = bed.has_namespaces() || bed.hard_memory();
        let left = wait_until_gone(&name, if ends { SOON } else { SECOND });
        if ends {
            assert_eq!(left, 0, "the launcher was killed");
        } else if left > 0 {
            bed.not_checked(
                "leftovers of a killed launcher: here neither a namespace nor a control group ends them",
            );
            for pid in marked(&name) {
                let _gone = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
            }
        }
        run.workdir.delete().unwrap();
    })
}

/// The only child of a process, of any of its threads, that is alive.
fn only_child(of: Pid) -> Pid {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).unwrap().flatten();
    let children: Vec<Pid> = tasks
        .flat_map(|task| {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap();
            children
                .split_whitespace()
                .map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap())
                .collect::<Vec<_>>()
        })
        .filter(|child| is_alive(*child))
        .collect();
    let [child] = children.as_slice() else {
        panic!("not one child: {children:?}")
    };
    *child
}

/// Whether it is more than a zombie.
fn is_alive(pid: Pid) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        let state = stat.rsplit_once(") ").unwrap().1;
        !state.starts_with(['Z', 'X'])
    })
}

/// Waits for the end of a killed process that is not reaped elsewhere.
async fn until_dead(pid: Pid) {
    while is_alive(pid) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Returns the process that forks launchers for this one.
fn fork_server() -> Pid {
    only_child(getpid())
}

/// The launcher of the one sandbox that this process has open.
fn launcher() -> Pid {
    only_child(fork_server())
}

/// Kills the launcher of a run's sandbox, and runs commands until the engine notices.
pub(crate) async fn lose(run: &mut Run) {
    kill_process(launcher(), Signal::KILL).unwrap();
    let error = loop {
        if let Err(error) = run.sandbox.exec(sh("true", SECOND)).await {
            break error;
        }
    };
    assert!(matches!(error, Error::Lost(_)), "{error:?}");
}

pub(crate) fn sandboxes_outlive_what_forked_them(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let server = fork_server();
        kill_process(server, Signal::KILL).unwrap();
        assert_eq!(run.sh("exit 3").await.exit, ExitKind::Code(3));
        // A new one is started for the next sandbox, even while the killed one is dying.
        let mut next = bed.open("run_2", Limits::default()).await;
        assert_eq!(next.sh("exit 4").await.exit, ExitKind::Code(4));
        until_dead(server).await;
        let second = fork_server();
        assert_ne!(second, server);
        // A stopped fork server has read no request, and pending requests die with it.
        kill_process(second, Signal::STOP).unwrap();
        let (mut last, ()) = tokio::join!(bed.open("run_3", Limits::default()), async {
            kill_process(second, Signal::KILL).unwrap();
        });
        assert_eq!(last.sh("exit 5").await.exit, ExitKind::Code(5));
        assert_eq!(run.sh("exit 6").await.exit, ExitKind::Code(6));
        for run in [run, next, last] {
            run.end().await;
        }
    })
}

pub(crate) fn what_forks_and_does_nothing_is_replaced(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let server = fork_server();
        kill_process(server, Signal::STOP).unwrap();
        // Opened late, and by a new one; the stopped one is gone.
        let mut next = bed.open("run_2", Limits::default()).await;
        assert_eq!(next.sh("exit 3").await.exit, ExitKind::Code(3));
        until_dead(server).await;
        assert_eq!(run.sh("exit 4").await.exit, ExitKind::Code(4));
        for run in [run, next] {
            run.end().await;
        }
    })
}

pub(crate) fn a_launcher_has_nothing_open_but_its_own(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let first = bed.open("run_1", Limits::default()).await;
        let of_first = launcher();
        let second = bed.open("run_2", Limits::default()).await;
        // The first sandbox ends, so that the remaining launcher is the second one's.
        first.end().await;
        let of_second = launcher();
        assert_ne!(of_first, of_second);
        let open: Vec<String> = std::fs::read_dir(format!("/proc/{of_second}/fd"))
            .unwrap()
            .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
            .map(|target| target.to_string_lossy().into_owned())
            .filter(|target| target != "/dev/null")
            .collect();
        // Nothing of the fork server, of the first sandbox, or of the engine's open descriptors when it was executed.
        let count = |kind: &str| open.iter().filter(|target| target.starts_with(kind)).count();
        assert_eq!(
            (open.len(), count("socket:"), count("anon_inode:[pidfd]")),
            (2, 1, 1),
            "{open:?}"
        );
        second.end().await;
    })
}

pub(crate) fn a_host_that_forks_no_more_is_named(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let run = bed.open("run_1", Limits::default()).await;
        let none = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        if getuid().is_root() {
            bed.not_checked("the limit of processes does not count those of root");
        } else {
            prlimit(Some(fork_server()), Resource::Nproc, none).unwrap();
            let workdir = Workdir::create(&bed.runs(), "run_2").unwrap();
            let error = bed.backend.open(&workdir, Spec::default()).await.err().unwrap();
            let text = error.to_string();
            assert!(text.ends_with("fork: Resource temporarily unavailable"), "{text}");
            workdir.delete().unwrap();
        }
        run.end().await;
    })
}

pub(crate) fn ends_are_told_apart(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        assert_eq!(run.sh("exit 1").await.exit, ExitKind::Code(1));
        assert_eq!(run.sh("exit 125").await.exit, ExitKind::Code(125));
        for signal in [9, 11, 15] {
            assert_eq!(
                run.sh(&format!("kill -{signal} $$")).await.exit,
                ExitKind::Signal(signal)
            );
        }
        assert_eq!(run.sh("exec ./probe crash").await.exit, ExitKind::Signal(6));
        let dumps = run.sh("ls -a | grep -i core").await;
        assert_eq!(out(&dumps), "", "no crash dump");
        for (program, words) in [
            ("no-such-program", "No such file"),
            ("./gone", "No such file"),
            ("/etc", "denied"),
        ] {
            let command = Command {
                argv: vec![program.to_owned()],
                timeout: 60 * SECOND,
                at_timeout: AtTimeout::Kill,
                keep_bytes: 100,
                store_bytes: 0,
                watch: None,
            };
            let error = run.sandbox.exec(command).await.unwrap_err();
            assert!(matches!(error, Error::NotExecutable(_)), "{error:?}");
            assert!(
                error.to_string().contains(words) && error.to_string().contains(program),
                "{error}"
            );
        }
        run.end().await;
    })
}

pub(crate) fn arguments_and_environment_of_any_size(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let workdir = Workdir::create(&bed.runs(), "run_1").unwrap();
        let long = "x".repeat(100_000);
        let env = (0..10)
            .map(|number| (format!("LONG_{number}"), long.clone()))
            .collect();
        let mut sandbox = bed
            .backend
            .open(
                &workdir,
                Spec {
                    env,
                    ..Spec::default()
                },
            )
            .await
            .unwrap();
        let mut argv = ["sh", "-c", "echo $# ${#LONG_9} ${#1}", "name"]
            .map(str::to_owned)
            .to_vec();
        argv.extend((0..5).map(|_| long.clone()));
        let command = |argv| Command {
            argv,
            timeout: 10 * SECOND,
            at_timeout: AtTimeout::Kill,
            keep_bytes: 1_000,
            store_bytes: 0,
            watch: None,
        };
        let finished = sandbox.exec(command(argv.clone())).await.unwrap();
        assert_eq!(out(&finished), "5 100000 100000\n");
        // The kernel takes 6 MiB at most.
        argv.extend((0..80).map(|_| long.clone()));
        let error = sandbox.exec(command(argv)).await.unwrap_err();
        assert!(
            matches!(&error, Error::NotExecutable(text) if text.contains("Argument list too long")),
            "{error}"
        );
        let error = sandbox
            .exec(command(vec!["echo".to_owned(), "a\0b".to_owned()]))
            .await
            .unwrap_err();
        assert!(matches!(error, Error::NotExecutable(_)), "{error}");
        let error = sandbox.exec(command(Vec::new())).await.unwrap_err();
        assert!(matches!(error, Error::NotExecutable(_)), "{error}");
        let finished = sandbox
            .exec(command(vec!["echo".to_owned(), "é\n☃".to_owned()]))
            .await
            .unwrap();
        assert_eq!(out(&finished), "é\n☃\n");
        sandbox.close().await.unwrap();
        workdir.delete().unwrap();
    })
}

pub(crate) fn a_lost_sandbox_is_opened_again(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let launcher = launcher();
        let command = sh("sleep 30", 20 * SECOND);
        let (lost, ()) = tokio::join!(run.sandbox.exec(command), async {
            tokio::task::yield_now().await;
            kill_process(launcher, Signal::KILL).unwrap();
        });
        assert!(matches!(lost, Err(Error::Lost(_))), "{lost:?}");
        assert_eq!(out(&run.sh("echo again").await), "again\n");
        run.end().await;
    })
}
