//! Piped processes: their output, their end, and that they are confined as commands are.

use std::time::Duration;

use sortie_sandbox::{Error, ExitKind, Finished, Limits, Piped, StreamOutput};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};

use crate::{
    escapes::{Outside, attempts, nothing_worked},
    harness::{Bed, Run, SOON, Section, marked, out, wait_for_one, wait_until_gone, wait_until_there},
    lifetimes::{lose, marker, sleeper},
};

const SECOND: Duration = Duration::from_secs(1);

async fn start(run: &mut Run, script: &str) -> Piped {
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    run.sandbox.start(argv).await.unwrap()
}

/// Sends a line and waits for one.
async fn exchange(piped: &mut Piped, line: &str) -> String {
    piped.stdin.write_all(line.as_bytes()).await.unwrap();
    let mut answer = String::new();
    BufReader::with_capacity(1, &mut piped.stdout)
        .read_line(&mut answer)
        .await
        .unwrap();
    answer
}

/// Waits until the process reports that it is ready for the test.
async fn until_ready(piped: &mut Piped) {
    let mut line = String::new();
    BufReader::new(&mut piped.stdout)
        .read_line(&mut line)
        .await
        .unwrap();
    assert_eq!(line, "ready\n");
}

async fn everything_of(stdout: &mut (dyn AsyncRead + Send + Sync + Unpin)) -> Vec<u8> {
    let mut all = Vec::new();
    stdout.read_to_end(&mut all).await.unwrap();
    all
}

pub(crate) fn a_process_answers_while_commands_run(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let mut echo = start(&mut run, "exec cat").await;
        let mut other = start(&mut run, "while read x; do echo \"<$x>\"; done").await;
        assert_eq!(exchange(&mut echo, "first\n").await, "first\n");
        assert_eq!(exchange(&mut other, "one\n").await, "<one>\n");
        let messages = async {
            for number in 0..5_000 {
                let line = format!("message {number}\n");
                assert_eq!(exchange(&mut echo, &line).await, line);
            }
        };
        let commands = async {
            for _ in 0..10 {
                assert_eq!(out(&run.sh("echo command").await), "command\n");
            }
        };
        tokio::join!(messages, commands);

        // One message far larger than a pipe, in both directions at once.
        let large: Vec<u8> = (0..8_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let Piped {
            mut stdin,
            mut stdout,
            mut process,
        } = echo;
        let mut received = vec![0; large.len()];
        let (sent, got) = tokio::join!(stdin.write_all(&large), stdout.read_exact(&mut received));
        sent.unwrap();
        got.unwrap();
        assert_eq!(received, large);

        // It ends at the end of its input.
        drop(stdin);
        assert_eq!(stdout.read(&mut [0; 8]).await.unwrap(), 0);
        assert_eq!(process.wait().await.unwrap().exit, ExitKind::Code(0));
        assert_eq!(exchange(&mut other, "two\n").await, "<two>\n");
        run.end().await;
    })
}

pub(crate) fn a_process_that_does_not_read_holds_up_only_who_writes_to_it(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let mut deaf = start(&mut run, "while [ ! -e go ]; do sleep 0.01; done; exec wc -c").await;
        let piece = vec![0; 16 << 10];
        let mut written = 0;
        while let Ok(length) = tokio::time::timeout(SECOND / 5, deaf.stdin.write(&piece)).await {
            written += length.unwrap();
            assert!(written <= 1 << 20, "nobody reads, and still it takes more");
        }
        assert!(written > 0);
        assert_eq!(run.sh("touch go").await.exit, ExitKind::Code(0));
        deaf.stdin.write_all(&piece).await.unwrap();
        drop(deaf.stdin);
        let counted = String::from_utf8(everything_of(&mut deaf.stdout).await).unwrap();
        assert_eq!(counted.trim(), (written + piece.len()).to_string());

        // Output that is not read waits in the pipe; standard error is read even if no one waits for the process.
        let mut loud = start(
            &mut run,
            "head -c 3000000 /dev/zero >&2; echo done; head -c 3000000 /dev/zero; exit 4",
        )
        .await;
        let said = everything_of(&mut loud.stdout).await;
        assert_eq!(said.len(), 5 + 3_000_000);
        assert_eq!(loud.process.wait().await.unwrap().exit, ExitKind::Code(4));
        run.end().await;
    })
}

pub(crate) fn the_end_of_a_process_is_told_with_its_last_words(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let name = marker(bed, "left");
        // The process that it leaves holds its streams open, and is killed with its session.
        let script = format!(
            "{} & head -c 100000 /dev/zero >&2; echo 'no such setting' >&2; exit 3",
            sleeper(&name)
        );
        let mut failing = start(&mut run, &script).await;
        assert_eq!(everything_of(&mut failing.stdout).await, b"");
        let end = failing.process.wait().await.unwrap();
        assert_eq!(end.exit, ExitKind::Code(3));
        assert_eq!(end.stderr.len(), 8 << 10);
        assert!(end.stderr.ends_with(b"\0no such setting\n"));
        assert_eq!(marked(&name), Vec::<i32>::new());

        let mut silent = start(&mut run, "kill -TERM $$").await;
        let end = silent.process.wait().await.unwrap();
        assert_eq!((end.exit, end.stderr), (ExitKind::Signal(15), Vec::new()));
        assert!(
            silent.stdin.write_all(&vec![0; 1 << 20]).await.is_err(),
            "nobody reads"
        );

        for program in ["no-such-program", "./gone", "/etc"] {
            let mut missing = run.sandbox.start(vec![program.to_owned()]).await.unwrap();
            assert_eq!(everything_of(&mut missing.stdout).await, b"");
            let error = missing.process.wait().await.unwrap_err();
            assert!(
                matches!(&error, Error::NotExecutable(reason) if reason.starts_with(program)),
                "{error:?}"
            );
        }
        let mut nothing = run.sandbox.start(Vec::new()).await.unwrap();
        assert!(matches!(
            nothing.process.wait().await,
            Err(Error::NotExecutable(_))
        ));
        assert_eq!(out(&run.sh("echo next").await), "next\n");
        run.end().await;
    })
}

pub(crate) fn a_process_that_is_let_go_of_is_killed_with_its_session(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let (name, kept) = (marker(bed, "let-go"), marker(bed, "kept"));
        let mut staying = start(&mut run, &format!("exec sh -c 'cat; :' {kept}")).await;
        // It ignores what can be ignored, and has an orphan.
        let script = format!(
            "trap '' TERM HUP PIPE; ({} & ); echo ready; sleep 300; :",
            sleeper(&name)
        );
        let mut dropped = start(&mut run, &script).await;
        until_ready(&mut dropped).await;
        wait_until_there(&name);
        drop(dropped.process);
        assert_eq!(everything_of(&mut dropped.stdout).await, b"");
        assert_eq!(wait_until_gone(&name, SOON), 0);

        let script = format!("echo why >&2; echo ready; exec {}", sleeper(&name));
        let mut killed = start(&mut run, &script).await;
        until_ready(&mut killed).await;
        let end = killed.process.kill().await.unwrap();
        assert_eq!(
            (end.exit, end.stderr.as_slice()),
            (ExitKind::Signal(9), &b"why\n"[..])
        );
        assert_eq!(marked(&name), Vec::<i32>::new(), "dead before it returned");

        let ended = start(&mut run, "exit 7").await;
        let mut ended = ended.process;
        assert_eq!(ended.wait().await.unwrap().exit, ExitKind::Code(7));
        assert!(matches!(ended.kill().await, Ok(end) if end.exit == ExitKind::Code(7)));

        assert_eq!(exchange(&mut staying, "still\n").await, "still\n");
        wait_for_one(&kept);
        assert_eq!(out(&run.sh("echo next").await), "next\n");
        run.end().await;
        assert_eq!(marked(&kept), Vec::<i32>::new());
    })
}

pub(crate) fn a_command_that_is_killed_leaves_processes_alone(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        // Started at the same tick of the clock as the command, with its children and an orphan.
        let mut server = start(&mut run, "(cat & ); while read x; do sh -c \"echo '<$x>'\"; done").await;
        let finished = run.sh_for("./probe stubborn", SECOND / 2).await;
        assert_eq!(finished.exit, ExitKind::TimedOut);
        assert_eq!(exchange(&mut server, "here\n").await, "<here>\n");
        run.let_go_of("echo begun > said; sleep 300", "said").await;
        assert_eq!(out(&run.sh("echo next").await), "next\n");
        assert_eq!(exchange(&mut server, "again\n").await, "<again>\n");
        run.end().await;
    })
}

pub(crate) fn processes_end_with_the_sandbox(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let name = marker(bed, "server");
        let mut closed = start(&mut run, &format!("exec {}", sleeper(&name))).await;
        wait_for_one(&name);
        run.end().await;
        assert_eq!(marked(&name), Vec::<i32>::new());
        assert_eq!(everything_of(&mut closed.stdout).await, b"");
        let error = closed.process.wait().await.unwrap_err();
        assert!(matches!(error, Error::Lost(_)), "{error:?}");

        let mut run = bed.open("run_2", Limits::default()).await;
        let mut lost = start(&mut run, "exec cat").await;
        lose(&mut run).await;
        let error = lost.process.wait().await.unwrap_err();
        assert!(matches!(error, Error::Lost(_)), "{error:?}");
        let mut again = start(&mut run, "exec cat").await;
        assert_eq!(exchange(&mut again, "again\n").await, "again\n");
        run.end().await;
    })
}

pub(crate) fn a_process_is_confined_and_limited_as_a_command_is(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let outside = Outside::make(bed);
        let mut run = bed
            .open_within("run_1", |limits| limits.memory_bytes = 64 << 20)
            .await;
        let argv = ["./probe", "escape"].map(str::to_owned).into_iter();
        let argv = argv.chain(outside.facts.clone()).collect();
        let mut escaping = run.sandbox.start(argv).await.unwrap();
        let head = everything_of(&mut escaping.stdout).await;
        let end = escaping.process.wait().await.unwrap();
        let finished = Finished {
            exit: end.exit,
            stdout: StreamOutput {
                total_bytes: u64::try_from(head.len()).unwrap(),
                head,
                ..StreamOutput::default()
            },
            stderr: StreamOutput {
                head: end.stderr,
                ..StreamOutput::default()
            },
            stored: [None, None],
            duration: Duration::ZERO,
            released: None,
        };
        nothing_worked(bed, &finished, attempts(bed));
        outside.heard_nothing();

        let mut greedy = start(&mut run, "exec ./probe heap 200").await;
        let end = greedy.process.wait().await;
        let stopped = match &end {
            Ok(end) if bed.hard_memory() => end.exit == ExitKind::Signal(9),
            Ok(end) => end.exit == ExitKind::Memory,
            // If the kernel kills the whole group at once.
            Err(error) => bed.hard_memory() && matches!(error, Error::Lost(_)),
        };
        assert!(stopped, "{end:?}");
        run.sandbox.close().await.unwrap();
        run.workdir.delete().unwrap();
    })
}
