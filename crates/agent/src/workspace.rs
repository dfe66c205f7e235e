//! The working directory and the sandbox of one run: each made when first needed, both gone after `close`.
//!
//! A run that uses no tool makes neither. File work runs on blocking threads that `close` waits for, so that nothing
//! touches the directory once it is deleted.

use std::{path::PathBuf, sync::Arc};

use serde_json::value::RawValue;
use sortie_sandbox::{Backend, Command, Error, FileError, Finished, Limits, RelPath, Sandbox, Spec, Workdir};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::task::TaskTracker;

/// Where a run's `input` lies in its working directory.
pub(crate) const INPUT_FILE: &str = "input.json";

/// The working directory and the sandbox of one run, each made when first needed.
pub struct Workspace {
    root: PathBuf,
    name: String,
    backend: Arc<dyn Backend>,
    limits: Limits,
    /// Whether the run's own files take the place of `input.json`.
    input_place: Place,
    laid: Laid,
    state: State,
}

enum State {
    /// Nothing was needed yet.
    Unmade,
    /// The directory is being made. Kept here so that `close` finds it when the agent is dropped meanwhile.
    Making(JoinHandle<std::io::Result<Workdir>>),
    /// The directory is there.
    Made(Box<Open>),
}

/// Whether a path is free for the engine's own file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Free,
    Taken,
}

/// When the run's own files are laid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Laid {
    Now,
    /// By an earlier attempt at the run.
    Before,
}

struct Open {
    directory: Directory,
    input_laid: bool,
    sandbox: Option<Box<dyn Sandbox>>,
    /// The shell that command lines are run with.
    shell: &'static str,
}

/// A handle on the working directory for work on blocking threads.
#[derive(Clone)]
pub(crate) struct Directory {
    workdir: Arc<Workdir>,
    tasks: TaskTracker,
}

/// The blocking thread of a piece of file work died.
#[derive(Debug, thiserror::Error)]
#[error("file work broke off: {0}")]
pub(crate) struct BrokenOff(#[from] JoinError);

impl Directory {
    /// Does `work` on a blocking thread. Dropping the future does not stop it; `close` waits for it.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Workdir) -> T + Send + 'static,
    ) -> Result<T, BrokenOff> {
        let workdir = Arc::clone(&self.workdir);
        Ok(self.tasks.spawn_blocking(move || work(&workdir)).await?)
    }
}

/// Why the workspace failed under the agent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkspaceError {
    #[error("the working directory cannot be made: {0}")]
    Directory(std::io::Error),
    #[error("input.json cannot be written: {0}")]
    Input(FileError),
    #[error(transparent)]
    BrokenOff(#[from] BrokenOff),
    #[error(transparent)]
    Sandbox(#[from] Error),
}

impl Workspace {
    /// A workspace that would live in the folder `name` below `root`, with sandboxes by `backend`.
    pub fn new(root: PathBuf, name: String, backend: Arc<dyn Backend>, limits: Limits) -> Self {
        Self {
            root,
            name,
            backend,
            limits,
            input_place: Place::Free,
            laid: Laid::Now,
            state: State::Unmade,
        }
    }

    /// Takes over the working directory that an earlier attempt at the run has left; `None` where there is none. What the
    /// run brings lies in it already.
    pub async fn reopen(
        root: PathBuf,
        name: String,
        backend: Arc<dyn Backend>,
        limits: Limits,
    ) -> std::io::Result<Option<Self>> {
        let mut workspace = Self::new(root, name, backend, limits);
        let (root, name) = (workspace.root.clone(), workspace.name.clone());
        let opened = tokio::task::spawn_blocking(move || Workdir::reopen(&root, &name)).await;
        let Some(workdir) = opened.map_err(std::io::Error::other)?? else {
            return Ok(None);
        };
        let mut open = Open::over(workdir);
        open.input_laid = true;
        workspace.laid = Laid::Before;
        workspace.state = State::Made(Box::new(open));
        Ok(Some(workspace))
    }

    /// Lays files before the agent begins; makes the directory.
    pub async fn lay(&mut self, files: Vec<(RelPath, Vec<u8>)>) -> Result<(), FileError> {
        if files
            .iter()
            .any(|(path, _)| path.as_str().split('/').next() == Some(INPUT_FILE))
        {
            self.input_place = Place::Taken;
        }
        if self.laid == Laid::Before {
            return Ok(());
        }
        let directory = self.make().await.map_err(FileError::Io)?.directory.clone();
        let laid = directory
            .run(move |workdir| {
                files
                    .iter()
                    .try_for_each(|(path, content)| workdir.write(path, content))
            })
            .await;
        laid.map_err(|error| FileError::Io(std::io::Error::other(error)))?
    }

    /// Kills what still runs and deletes the directory. Returns when nothing is left. Cheap when nothing was opened.
    pub async fn close(self) -> Result<(), String> {
        let (workdir, closed) = self.end().await;
        let Some(workdir) = workdir? else {
            return closed;
        };
        let deleted = tokio::task::spawn_blocking(move || workdir.delete()).await;
        let deleted = deleted
            .map_err(|error| error.to_string())
            .and_then(|r| r.map_err(|e| e.to_string()));
        closed.and(deleted.map_err(|error| format!("deleting the working directory: {error}")))
    }

    /// Kills what still runs and leaves the directory for another attempt at the run.
    pub async fn keep(self) -> Result<(), String> {
        let (workdir, closed) = self.end().await;
        workdir.and(closed)
    }

    /// Ends everything that works on the directory: the directory, if there is one, and how its sandbox ended.
    async fn end(self) -> (Result<Option<Workdir>, String>, Result<(), String>) {
        let open = match self.state {
            State::Unmade => return (Ok(None), Ok(())),
            State::Making(making) => match joined(making.await) {
                Ok(workdir) => Box::new(Open::over(workdir)),
                Err(_) => return (Ok(None), Ok(())),
            },
            State::Made(open) => open,
        };
        let Open {
            directory: Directory { workdir, tasks },
            sandbox,
            ..
        } = *open;
        let closed = match sandbox {
            Some(sandbox) => sandbox
                .close()
                .await
                .map_err(|error| format!("closing the sandbox: {error}")),
            None => Ok(()),
        };
        tasks.close();
        tasks.wait().await;
        let workdir = Arc::into_inner(workdir).ok_or("the working directory is still in use".to_owned());
        (workdir.map(Some), closed)
    }

    /// Whether `input.json` is the engine's to write.
    pub(crate) fn takes_input_file(&self) -> bool {
        self.input_place == Place::Free
    }

    /// The working directory, with `input` in `input.json`.
    pub(crate) async fn directory(&mut self, input: Option<&RawValue>) -> Result<Directory, WorkspaceError> {
        let taken = self.input_place == Place::Taken;
        let open = self.make().await.map_err(WorkspaceError::Directory)?;
        if let Some(input) = input
            && !open.input_laid
            && !taken
        {
            let content = input.get().as_bytes().to_vec();
            let written = open
                .directory
                .run(move |workdir| write_input(workdir, &content))
                .await?;
            written.map_err(WorkspaceError::Input)?;
            open.input_laid = true;
        }
        Ok(open.directory.clone())
    }

    /// Runs a command in the sandbox, which is opened for the first one and again after it was lost.
    pub(crate) async fn exec(
        &mut self,
        input: Option<&RawValue>,
        command: Command,
    ) -> Result<Finished, WorkspaceError> {
        self.directory(input).await?;
        let (backend, limits) = (Arc::clone(&self.backend), self.limits);
        let open = self.make().await.map_err(WorkspaceError::Directory)?;
        let sandbox = match &mut open.sandbox {
            Some(sandbox) => sandbox,
            empty @ None => {
                let spec = Spec {
                    limits,
                    env: Vec::new(),
                };
                empty.insert(backend.open(&open.directory.workdir, spec).await?)
            }
        };
        let finished = sandbox.exec(command).await;
        if matches!(finished, Err(Error::Lost(_))) {
            open.sandbox = None;
        }
        Ok(finished?)
    }

    /// The shell that command lines are run with.
    pub(crate) fn shell(&self) -> &'static str {
        match &self.state {
            State::Made(open) => open.shell,
            State::Unmade | State::Making(_) => "bash",
        }
    }

    /// Takes `sh` from now on: there is no bash.
    pub(crate) fn use_sh(&mut self) {
        if let State::Made(open) = &mut self.state {
            open.shell = "sh";
        }
    }

    async fn make(&mut self) -> std::io::Result<&mut Open> {
        if matches!(self.state, State::Unmade) {
            let (root, name) = (self.root.clone(), self.name.clone());
            self.state = State::Making(tokio::task::spawn_blocking(move || Workdir::create(&root, &name)));
        }
        if let State::Making(making) = &mut self.state {
            let made = joined(making.await);
            // Whatever came of it, the handle must not be awaited again.
            self.state = State::Unmade;
            self.state = State::Made(Box::new(Open::over(made?)));
        }
        match &mut self.state {
            State::Made(open) => Ok(open),
            State::Unmade | State::Making(_) => Err(std::io::Error::other("not made")),
        }
    }
}

impl Open {
    fn over(workdir: Workdir) -> Self {
        let directory = Directory {
            workdir: Arc::new(workdir),
            tasks: TaskTracker::new(),
        };
        Self {
            directory,
            input_laid: false,
            sandbox: None,
            shell: "bash",
        }
    }
}

fn joined(made: Result<std::io::Result<Workdir>, JoinError>) -> std::io::Result<Workdir> {
    made.map_err(std::io::Error::other)?
}

fn write_input(workdir: &Workdir, content: &[u8]) -> Result<(), FileError> {
    match RelPath::new(INPUT_FILE) {
        Ok(path) => workdir.write(&path, content),
        Err(error) => Err(FileError::Io(std::io::Error::other(error))),
    }
}
