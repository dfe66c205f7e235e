//! MCP servers that are programs. Each has its own sandbox and directory, which are removed when its run releases it.
//!
//! A program gets the variables it was saved with and nothing of the engine's. It has no network. Directories that an
//! earlier process of the node left are removed before the first program starts.

use std::{path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use sortie_agent::open_sandbox;
use sortie_api::Credential;
use sortie_connect::{Program, ProgramEnd, StdioLauncher, StdioProcess};
use sortie_sandbox::{Backend, Egress, ExitKind, Limits, Process, ProcessEnd, Sandbox, Spec, Workdir};
use tokio::{runtime::Handle, sync::OnceCell};
use tokio_util::task::TaskTracker;

use crate::kit::random::random;
use sortie_base::{
    descriptors::{Patience, is_out_of_descriptors},
    hex,
};

/// Starts programs in sandboxes.
pub(super) struct Programs {
    sandbox: Arc<dyn Backend>,
    limits: Limits,
    /// Folder of the programs' directories.
    root: PathBuf,
    swept: OnceCell<()>,
    tracker: TaskTracker,
}

impl Programs {
    pub(super) fn new(
        sandbox: Arc<dyn Backend>,
        limits: Limits,
        root: PathBuf,
        tracker: TaskTracker,
    ) -> Self {
        Self {
            sandbox,
            limits,
            root,
            swept: OnceCell::new(),
            tracker,
        }
    }

    async fn start(&self, command: &[String], env: &[(String, Credential)]) -> Result<StdioProcess, String> {
        let failed = |error: &dyn std::fmt::Display| format!("the program could not be started: {error}");
        self.swept
            .get_or_try_init(|| async {
                let root = self.root.clone();
                in_background(move || Workdir::sweep(&root, |_| false))
                    .await
                    .map(drop)
            })
            .await?;
        let name = hex(&random::<16>().map_err(|error| failed(&error))?);
        let root = self.root.clone();
        let workdir = in_background(move || Workdir::create(&root, &name)).await?;
        // From here on, any failure also removes the directory.
        let mut running = Running {
            sandbox: None,
            process: None,
            workdir: Some(workdir),
            tracker: self.tracker.clone(),
            runtime: Handle::current(),
        };
        let spec = Spec {
            limits: self.limits,
            env: env
                .iter()
                .map(|(name, value)| (name.clone(), value.expose().to_owned()))
                .collect(),
            egress: Egress::None,
        };
        let Some(workdir) = &running.workdir else {
            return Err("the program has no directory".to_owned());
        };
        let opened = open_sandbox(&*self.sandbox, workdir, spec).await;
        let mut sandbox = opened.map_err(|error| failed(&error))?;
        let patience = Patience::default();
        let started = loop {
            match sandbox.start(command.to_vec()).await {
                Err(error) if error.is_out_of_descriptors() && patience.wait().await => {}
                started => break started,
            }
        };
        running.sandbox = Some(sandbox);
        let piped = started.map_err(|error| failed(&error))?;
        running.process = Some(piped.process);
        Ok(StdioProcess {
            stdin: piped.stdin,
            stdout: piped.stdout,
            program: Box::new(running),
        })
    }
}

impl StdioLauncher for Programs {
    fn launch<'a>(
        &'a self,
        command: &'a [String],
        env: &'a [(String, Credential)],
    ) -> BoxFuture<'a, Result<StdioProcess, String>> {
        Box::pin(self.start(command, env))
    }
}

/// Does work on a blocking thread, as soon as file descriptors are available for it.
async fn in_background<T: Send + 'static>(
    work: impl Fn() -> std::io::Result<T> + Clone + Send + 'static,
) -> Result<T, String> {
    let patience = Patience::default();
    loop {
        let done = tokio::task::spawn_blocking(work.clone()).await;
        let failure = match done.map_err(|error| error.to_string()) {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) if is_out_of_descriptors(&error) && patience.wait().await => continue,
            Ok(Err(error)) => error.to_string(),
            Err(failure) => failure,
        };
        return Err(format!("the program's directory could not be made: {failure}"));
    }
}

/// A running program. Dropping it kills the process at once and removes its directory in the background.
struct Running {
    process: Option<Box<dyn Process>>,
    sandbox: Option<Box<dyn Sandbox>>,
    workdir: Option<Workdir>,
    tracker: TaskTracker,
    runtime: Handle,
}

impl Program for Running {
    fn end(&mut self) -> BoxFuture<'_, ProgramEnd> {
        Box::pin(async {
            let ended = match &mut self.process {
                Some(process) => process.wait().await,
                None => Err(not_running()),
            };
            end_of(ended)
        })
    }

    fn stop(&mut self) -> BoxFuture<'_, ProgramEnd> {
        Box::pin(async {
            let ended = match self.process.take() {
                Some(process) => process.kill().await,
                None => Err(not_running()),
            };
            end_of(ended)
        })
    }
}

fn not_running() -> sortie_sandbox::Error {
    sortie_sandbox::Error::Lost("it is not running".to_owned())
}

fn end_of(ended: Result<ProcessEnd, sortie_sandbox::Error>) -> ProgramEnd {
    match ended {
        Ok(ended) => ProgramEnd {
            how: how(ended.exit),
            stderr: ended.stderr,
        },
        Err(error) => ProgramEnd {
            how: format!("cannot be run in its sandbox: {error}"),
            stderr: Vec::new(),
        },
    }
}

fn how(exit: ExitKind) -> String {
    match exit {
        ExitKind::Code(code) => format!("ended with exit code {code}"),
        ExitKind::Signal(signal) => format!("was ended by signal {signal}"),
        ExitKind::Memory => "was ended because it used too much memory".to_owned(),
        ExitKind::Disk => "was ended because it used too much of the disk".to_owned(),
        ExitKind::TimedOut | ExitKind::Running => "was left".to_owned(),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.process.take());
        let (sandbox, workdir) = (self.sandbox.take(), self.workdir.take());
        let removal = async move {
            if let Some(sandbox) = sandbox
                && let Err(error) = sandbox.close().await
            {
                tracing::warn!(%error, "cannot close the sandbox of a program");
            }
            let Some(workdir) = workdir else { return };
            let removed = tokio::task::spawn_blocking(move || workdir.delete()).await;
            if let Ok(Err(error)) = removed {
                tracing::error!(%error, "cannot remove the directory of a program");
            }
        };
        self.tracker.spawn_on(removal, &self.runtime);
    }
}
