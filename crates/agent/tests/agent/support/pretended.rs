//! A pretended sandbox: a function determines the result of each command.

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sortie_sandbox::{
    AtTimeout, Backend, Capabilities, Command, Enforcement, Error, ExitKind, Finished, Level, Piped, Sandbox,
    Spec, StreamOutput, Tenancy, Usage as SandboxUsage, Workdir,
};

use super::going_on;

/// Behaviour of a command in the pretended sandbox.
pub(crate) enum Does {
    /// The command ends.
    End(ExitKind, &'static str, &'static str),
    /// The command writes much to standard output.
    Print(StreamOutput),
    /// The command outlasts its time. If it may be released it ends like this, if at all.
    Outlast(Option<Result<ExitKind, &'static str>>),
    /// The command never ends.
    Hang,
    /// The sandbox dies.
    Lose,
}

pub(crate) fn prints(stdout: &'static str) -> Does {
    Does::End(ExitKind::Code(0), stdout, "")
}

type Behaviour = dyn Fn(&str) -> Does + Send + Sync;

/// A backend with a function in place of its commands.
pub(crate) struct Pretended {
    capabilities: Capabilities,
    shared: Arc<Shared>,
    pub(crate) opened: AtomicUsize,
}

struct Shared {
    behaviour: Box<Behaviour>,
    /// Programs that are there.
    programs: &'static [&'static str],
    commands: Mutex<Vec<Command>>,
}

impl Pretended {
    pub(crate) fn new(
        programs: &'static [&'static str],
        behaviour: impl Fn(&str) -> Does + Send + Sync + 'static,
    ) -> Arc<Self> {
        let shared = Shared {
            behaviour: Box::new(behaviour),
            programs,
            commands: Mutex::default(),
        };
        Arc::new(Self {
            capabilities: Capabilities {
                level: Level::None,
                memory: Enforcement::Soft,
                disk: Enforcement::Soft,
                tenancy: Tenancy::Single,
                egress: false,
                missing: Vec::new(),
            },
            shared: Arc::new(shared),
            opened: AtomicUsize::new(0),
        })
    }

    /// The commands that were run.
    pub(crate) fn commands(&self) -> Vec<Command> {
        self.shared.commands.lock().clone()
    }
}

impl Backend for Pretended {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn open<'a>(
        &'a self,
        workdir: &'a Workdir,
        _spec: Spec,
    ) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        assert!(
            workdir.list(None, 1, 1).is_ok(),
            "the directory is there before the sandbox"
        );
        let sandbox: Box<dyn Sandbox> = Box::new(PretendedSandbox(Arc::clone(&self.shared)));
        Box::pin(async move { Ok(sandbox) })
    }
}

struct PretendedSandbox(Arc<Shared>);

impl Sandbox for PretendedSandbox {
    fn exec(&mut self, command: Command) -> BoxFuture<'_, Result<Finished, Error>> {
        Box::pin(async move {
            let program = command.argv[0].clone();
            if !self.0.programs.contains(&program.as_str()) {
                return Err(Error::NotExecutable(format!("{program}: not found")));
            }
            let does = (self.0.behaviour)(&command.argv[2]);
            let at_timeout = command.at_timeout;
            self.0.commands.lock().push(command);
            let mut released = None;
            let (exit, stdout, stderr) = match does {
                Does::End(exit, stdout, stderr) => (exit, stream(stdout), stream(stderr)),
                Does::Print(stdout) => (ExitKind::Code(0), stdout, stream("")),
                Does::Outlast(_) if at_timeout == AtTimeout::Kill => {
                    (ExitKind::TimedOut, stream("so far\n"), stream(""))
                }
                Does::Outlast(end) => {
                    released = Some(going_on::released(end));
                    (ExitKind::Running, stream("so far\n"), stream(""))
                }
                Does::Hang => std::future::pending().await,
                Does::Lose => return Err(Error::Lost("its init died".to_owned())),
            };
            Ok(Finished {
                exit,
                stdout,
                stderr,
                stored: [None, None],
                duration: Duration::from_millis(1),
                released,
            })
        })
    }

    fn start(&mut self, _argv: Vec<String>) -> BoxFuture<'_, Result<Piped, Error>> {
        Box::pin(async { Err(Error::Setup("no processes in this test".to_owned())) })
    }

    fn egress(&mut self) -> BoxFuture<'_, Result<Option<TcpListener>, Error>> {
        Box::pin(async { Ok(None) })
    }

    fn usage(&mut self) -> BoxFuture<'_, Result<SandboxUsage, Error>> {
        Box::pin(async { Ok(SandboxUsage::default()) })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }
}

fn stream(text: &str) -> StreamOutput {
    StreamOutput {
        head: text.as_bytes().to_vec(),
        tail: Vec::new(),
        total_bytes: text.len() as u64,
        total_lines: text.matches('\n').count() as u64,
    }
}
