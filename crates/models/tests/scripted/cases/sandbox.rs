//! A sandbox in which every command prints `ok`.

use std::{net::TcpListener, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use sortie_agent::Workspace;
use sortie_sandbox::{
    Backend, Capabilities, Command, Enforcement, Error, ExitKind, Finished, Level, Limits, Piped, Sandbox,
    Spec, StreamOutput, Tenancy, Usage, Workdir,
};
use tempfile::TempDir;

/// A workspace, and the folder that it is in.
pub(super) fn workspace() -> (Workspace, TempDir) {
    let root = tempfile::tempdir().unwrap();
    let backend = Arc::new(Compliant(Capabilities {
        level: Level::None,
        memory: Enforcement::Soft,
        disk: Enforcement::Soft,
        tenancy: Tenancy::Single,
        egress: false,
        missing: Vec::new(),
    }));
    let workspace = Workspace::new(
        root.path().to_owned(),
        "run".to_owned(),
        backend,
        Limits::default(),
    );
    (workspace, root)
}

struct Compliant(Capabilities);

impl Backend for Compliant {
    fn capabilities(&self) -> &Capabilities {
        &self.0
    }

    fn open<'a>(
        &'a self,
        _workdir: &'a Workdir,
        _spec: Spec,
    ) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>> {
        Box::pin(async { Ok(Box::new(CompliantSandbox) as Box<dyn Sandbox>) })
    }
}

struct CompliantSandbox;

impl Sandbox for CompliantSandbox {
    fn exec(&mut self, _command: Command) -> BoxFuture<'_, Result<Finished, Error>> {
        let stream = |text: &str| StreamOutput {
            head: text.as_bytes().to_vec(),
            tail: Vec::new(),
            total_bytes: text.len() as u64,
            total_lines: text.lines().count() as u64,
        };
        Box::pin(async move {
            Ok(Finished {
                exit: ExitKind::Code(0),
                stdout: stream("ok\n"),
                stderr: stream(""),
                stored: [None, None],
                duration: Duration::from_millis(1),
                released: None,
            })
        })
    }

    fn start(&mut self, _argv: Vec<String>) -> BoxFuture<'_, Result<Piped, Error>> {
        Box::pin(async { Err(Error::Setup("no processes here".to_owned())) })
    }

    fn egress(&mut self) -> BoxFuture<'_, Result<Option<TcpListener>, Error>> {
        Box::pin(async { Ok(None) })
    }

    fn usage(&mut self) -> BoxFuture<'_, Result<Usage, Error>> {
        Box::pin(async { Ok(Usage::default()) })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }
}
