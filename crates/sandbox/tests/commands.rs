//! Commands in a sandbox: output, exits, time, background processes, loss.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, also in its helpers"
)]

use std::{path::PathBuf, sync::Arc, time::Duration};

use sortie_sandbox::{Backend, Command, ExitKind, Finished, Level, Options, Sandbox, Spec, Workdir, detect};

struct Open {
    _root: tempfile::TempDir,
    workdir: Workdir,
    sandbox: Box<dyn Sandbox>,
}

async fn backend(root: &tempfile::TempDir) -> Arc<dyn Backend> {
    let launcher = PathBuf::from(env!("CARGO_BIN_EXE_sandbox-probe"));
    detect(&Options {
        launcher,
        ..Options::new(root.path())
    })
    .await
    .unwrap()
}

async fn open() -> Open {
    let root = tempfile::tempdir().unwrap();
    let backend = backend(&root).await;
    assert_eq!(backend.capabilities().level, Level::Namespaces);
    let workdir = Workdir::create(root.path(), "run_1").unwrap();
    let sandbox = backend.open(&workdir, Spec::default()).await.unwrap();
    Open {
        _root: root,
        workdir,
        sandbox,
    }
}

fn sh(script: &str) -> Command {
    Command {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        timeout: Duration::from_secs(20),
        keep_bytes: 4_096,
    }
}

fn out(finished: &Finished) -> String {
    String::from_utf8_lossy(&finished.stdout.head).into_owned()
}

#[tokio::test]
async fn a_command_writes_its_output_and_exits() {
    let mut open = open().await;
    let finished = open
        .sandbox
        .exec(sh("id -u; pwd; echo $HOME $TMPDIR; echo no >&2; exit 3"))
        .await
        .unwrap();
    assert_eq!(finished.exit, ExitKind::Code(3), "{finished:?}");
    assert_eq!(out(&finished), "1000\n/work\n/work /tmp\n");
    assert_eq!(finished.stderr.head, b"no\n");
    open.sandbox.close().await.unwrap();
    open.workdir.delete().unwrap();
}
