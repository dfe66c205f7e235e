//! The working directory and the sandbox of one run: each created when first needed, both removed by `close`. Also the run's
//! jobs, and its files for long outputs.
//!
//! A run that uses no tool creates neither. File work runs on blocking threads that `close` waits for, so that nothing accesses
//! the directory after it is deleted.

mod jobs;
mod log;
mod outputs;

use std::{net::TcpListener, path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use serde_json::value::RawValue;
use sortie_sandbox::{
    Backend, Command, CommandPaths, Egress, Error, FileError, Finished, Level, Limits, RelPath, Released,
    Sandbox, Spec, Workdir,
};
use tokio::{
    task::{JoinError, JoinHandle, JoinSet},
    time::Instant,
};
use tokio_util::task::TaskTracker;

pub(crate) use self::{
    jobs::{Job, JobEnd, Jobs, Rest},
    outputs::ENGINE_FOLDER,
};
use self::{
    log::{LOG_BYTES, Log},
    outputs::Outputs,
};

use sortie_base::descriptors::{Patience, is_out_of_descriptors};

/// Path of a run's `input` in its working directory.
pub(crate) const INPUT_FILE: &str = "input.json";

/// The working directory and the sandbox of one run, each created when first needed.
pub struct Workspace {
    root: PathBuf,
    name: String,
    backend: Arc<dyn Backend>,
    limits: Limits,
    /// Use of the path `input.json`.
    input_path_state: InputPath,
    /// Serves the egress of the run's commands, if they have one.
    gateway: Option<Arc<dyn Gateway>>,
    state: State,
}

/// Egress of a run's commands.
pub trait Gateway: Send + Sync {
    /// Serves the run's proxy on this listening, non-blocking socket of its sandbox until the future is dropped.
    fn serve(&self, listener: TcpListener) -> BoxFuture<'static, ()>;
}

enum State {
    /// Nothing was needed yet.
    Unmade,
    /// The directory is being created. Kept here so that `close` finds it even if the agent is dropped before the end.
    Making(JoinHandle<std::io::Result<Workdir>>),
    /// The directory is there.
    Made(Box<Open>),
}

/// Use of the path `input.json`: free for the engine, or taken by one of the run's own files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InputPath {
    Free,
    Taken,
}

/// A workspace without processes: its directory. Dropping it keeps the directory, so that another attempt at the run
/// can [`reopen`](Workspace::reopen) it.
#[derive(Debug, Default)]
pub struct StoppedWorkspace(Option<Directory>);

impl StoppedWorkspace {
    /// Runs `work` on the directory, on a blocking thread. `None` if there is no directory. Dropping the future does not stop the
    /// work; `delete` waits for it.
    ///
    /// # Errors
    /// A sentence for people, when the work failed.
    pub async fn inspect<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Workdir) -> T + Send + 'static,
    ) -> Option<Result<T, String>> {
        let directory = self.0.as_ref()?;
        Some(directory.run(work).await.map_err(|error| error.to_string()))
    }

    /// Deletes the directory, if it exists, as soon as there are descriptors for it.
    pub async fn delete(self) -> Result<(), String> {
        let Some(Directory { workdir, tasks }) = self.0 else {
            return Ok(());
        };
        tasks.close();
        tasks.wait().await;
        let workdir = Arc::into_inner(workdir).ok_or("the working directory is still in use")?;
        let deleted = Directory::new(workdir)
            .run_with_descriptors(Workdir::delete, |deleted| {
                deleted.as_ref().is_err_and(is_out_of_descriptors)
            })
            .await;
        deleted
            .map_err(|error| error.to_string())
            .and_then(|deleted| deleted.map_err(|error| error.to_string()))
            .map_err(|error| format!("deleting the working directory: {error}"))
    }
}

/// Content of a staged file.
#[derive(Debug)]
pub enum Source {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The rest of this file. The kernel copies it; it is never shared with files that the run may write.
    File(std::fs::File),
}

/// The output of a command up to its release.
#[derive(Debug, Default)]
pub(crate) struct SoFar {
    /// Length of the output before the rest that was not kept, in bytes.
    pub(crate) left_out: u64,
    pub(crate) sources: Vec<Source>,
}

struct Open {
    directory: Directory,
    input_written: bool,
    sandbox: Option<Box<dyn Sandbox>>,
    /// The egress proxies of the sandbox.
    proxies: JoinSet<()>,
    /// Commands that run on in its background.
    jobs: Jobs,
    /// The files for long outputs, once they were searched for.
    outputs: Option<Outputs>,
    /// The shell that command lines are run with.
    shell: &'static str,
}

/// A handle on the working directory for work on blocking threads.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    workdir: Arc<Workdir>,
    tasks: TaskTracker,
}

/// The blocking thread of file work died.
#[derive(Debug, thiserror::Error)]
#[error("file work broke off: {0}")]
pub(crate) struct BrokenOff(#[from] JoinError);

impl Directory {
    fn new(workdir: Workdir) -> Self {
        Self {
            workdir: Arc::new(workdir),
            tasks: TaskTracker::new(),
        }
    }

    /// Does `work` on a blocking thread. Dropping the future does not stop it; `close` waits for it.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Workdir) -> T + Send + 'static,
    ) -> Result<T, BrokenOff> {
        let workdir = Arc::clone(&self.workdir);
        Ok(self.tasks.spawn_blocking(move || work(&workdir)).await?)
    }

    /// Does `work` as [`run`](Self::run) does, and repeats it as a whole, for as long as [`Patience`] lasts, while `lacks`
    /// returns that its result found no file descriptor. Partial work must be safe to repeat.
    pub(crate) async fn run_with_descriptors<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&Workdir) -> T + Send + 'static,
        lacks: impl Fn(&T) -> bool,
    ) -> Result<T, BrokenOff> {
        let patience = Patience::default();
        loop {
            let working = self.run(move |workdir| (work(workdir), work));
            let done;
            (done, work) = working.await?;
            if !(lacks(&done) && patience.wait().await) {
                return Ok(done);
            }
        }
    }

    /// Writes a file, as soon as there are descriptors for it.
    async fn write(&self, path: RelPath, mut source: Source) -> Result<Result<(), FileError>, BrokenOff> {
        let write = move |workdir: &Workdir| match &mut source {
            Source::Bytes(content) => workdir.write(&path, content),
            // It is not read before the other file is open.
            Source::File(file) => workdir.copy(&path, file),
        };
        self.run_with_descriptors(write, |written| written.as_ref().is_err_and(lacks_descriptor))
            .await
    }
}

/// Returns true where file work failed because there was no file descriptor.
pub(crate) fn lacks_descriptor(error: &FileError) -> bool {
    matches!(error, FileError::Io(error) if is_out_of_descriptors(error))
}

/// Failure of the workspace under the agent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkspaceError {
    #[error("the working directory cannot be made: {0}")]
    Directory(std::io::Error),
    #[error("input.json cannot be written: {0}")]
    Input(FileError),
    #[error("the kept outputs cannot be looked for: {0}")]
    Outputs(FileError),
    #[error(transparent)]
    BrokenOff(#[from] BrokenOff),
    #[error(transparent)]
    Sandbox(#[from] Error),
}

impl Workspace {
    /// Creates a workspace in the folder `name` below `root`, with sandboxes by `backend`.
    pub fn new(root: PathBuf, name: String, backend: Arc<dyn Backend>, limits: Limits) -> Self {
        Self {
            root,
            name,
            backend,
            limits,
            input_path_state: InputPath::Free,
            gateway: None,
            state: State::Unmade,
        }
    }

    /// The working directory as the run's commands see it.
    pub(crate) fn shown_path(&self) -> String {
        let paths = CommandPaths::new(&self.root, &self.name, self.level());
        paths.work.to_string_lossy().into_owned()
    }

    /// Gives the run's commands egress through this gateway. To be called before the first command.
    pub fn open_egress(&mut self, gateway: Arc<dyn Gateway>) {
        self.gateway = Some(gateway);
    }

    /// Opens the folder that an earlier attempt at the run left, with everything in it; `None` if it does not exist. The run's
    /// files are there and not staged again: [`set_own_files`](Self::set_own_files) names them.
    ///
    /// # Errors
    /// When the folder cannot be taken over.
    pub async fn reopen(
        root: PathBuf,
        name: String,
        backend: Arc<dyn Backend>,
        limits: Limits,
    ) -> std::io::Result<Option<Self>> {
        let mut workspace = Self::new(root, name, backend, limits);
        let patience = Patience::default();
        let reopened = loop {
            let (root, name) = (workspace.root.clone(), workspace.name.clone());
            let reopening = tokio::task::spawn_blocking(move || Workdir::reopen(&root, &name));
            match reopening.await.map_err(std::io::Error::other)? {
                Err(error) if is_out_of_descriptors(&error) && patience.wait().await => {}
                reopened => break reopened?,
            }
        };
        let Some(workdir) = reopened else {
            return Ok(None);
        };
        let mut open = Open::over(workdir);
        // An existing file with that name belongs to the run by now.
        let there = open.directory.run(|workdir| match input_path() {
            Ok(path) => !matches!(workdir.size(&path), Err(FileError::NotFound)),
            Err(_) => false,
        });
        open.input_written = there.await.map_err(std::io::Error::other)?;
        workspace.state = State::Made(Box::new(open));
        Ok(Some(workspace))
    }

    /// Sets the paths of the run's own files, so that the engine does not overwrite one with `input.json`.
    pub fn set_own_files<'p>(&mut self, paths: impl IntoIterator<Item = &'p RelPath>) {
        let mut paths = paths.into_iter();
        if paths.any(|path| path.as_str().split('/').next() == Some(INPUT_FILE)) {
            self.input_path_state = InputPath::Taken;
        }
    }

    /// Stages files before the agent begins. Creates the directory.
    pub async fn stage(&mut self, files: Vec<(RelPath, Source)>) -> Result<(), FileError> {
        self.set_own_files(files.iter().map(|(path, _)| path));
        let directory = self.make().await.map_err(FileError::Io)?.directory.clone();
        for (path, source) in files {
            let staged = directory.write(path, source).await;
            staged.map_err(|error| FileError::Io(std::io::Error::other(error)))??;
        }
        Ok(())
    }

    /// Kills all running processes and deletes the directory. Returns when everything is gone. Cheap if nothing was opened.
    pub async fn close(self) -> Result<(), String> {
        let (workspace, stopped) = self.stop().await;
        stopped.and(workspace.delete().await)
    }

    /// Kills the run's processes, and waits until nothing uses the directory. Returns the stopped workspace, and the error of a
    /// sandbox that did not close cleanly.
    pub async fn stop(self) -> (StoppedWorkspace, Result<(), String>) {
        let open = match self.state {
            State::Unmade => return (StoppedWorkspace::default(), Ok(())),
            State::Making(making) => match joined(making.await) {
                Ok(workdir) => Box::new(Open::over(workdir)),
                Err(_) => return (StoppedWorkspace::default(), Ok(())),
            },
            State::Made(open) => open,
        };
        let Open {
            directory: Directory { workdir, tasks },
            sandbox,
            jobs,
            ..
        } = *open;
        // The tasks that write logs must stop before the directory is read.
        drop(jobs);
        let closed = match sandbox {
            Some(sandbox) => sandbox
                .close()
                .await
                .map_err(|error| format!("closing the sandbox: {error}")),
            None => Ok(()),
        };
        tasks.close();
        tasks.wait().await;
        match Arc::into_inner(workdir) {
            Some(workdir) => (StoppedWorkspace(Some(Directory::new(workdir))), closed),
            None => (
                StoppedWorkspace::default(),
                closed.and(Err("the working directory is still in use".to_owned())),
            ),
        }
    }

    /// Isolation level of commands, which determines their path of the directory.
    pub(crate) fn level(&self) -> Level {
        self.backend.capabilities().level
    }

    /// Whether the engine may write `input.json`.
    pub(crate) fn takes_input_file(&self) -> bool {
        self.input_path_state == InputPath::Free
    }

    /// The working directory, with `input` in `input.json`.
    pub(crate) async fn directory(&mut self, input: Option<&RawValue>) -> Result<Directory, WorkspaceError> {
        let taken = self.input_path_state == InputPath::Taken;
        let open = self.make().await.map_err(WorkspaceError::Directory)?;
        if let Some(input) = input
            && !open.input_written
            && !taken
        {
            let content = Source::Bytes(input.get().as_bytes().to_vec());
            let path = input_path().map_err(WorkspaceError::Input)?;
            let written = open.directory.write(path, content).await?;
            written.map_err(WorkspaceError::Input)?;
            open.input_written = true;
        }
        Ok(open.directory.clone())
    }

    /// Runs a command in the sandbox to its end or its release, as soon as there are descriptors for it. The sandbox is opened
    /// for the first command, and reopened after it was lost.
    pub(crate) async fn exec(
        &mut self,
        input: Option<&RawValue>,
        command: Command,
    ) -> Result<Finished, WorkspaceError> {
        self.directory(input).await?;
        let patience = Patience::default();
        loop {
            match self.try_exec(command.clone()).await {
                // The command has not started: it takes descriptors before it is sent.
                Err(WorkspaceError::Sandbox(error))
                    if error.is_out_of_descriptors() && patience.wait().await => {}
                done => return done,
            }
        }
    }

    async fn try_exec(&mut self, command: Command) -> Result<Finished, WorkspaceError> {
        let (backend, limits, gateway) = (Arc::clone(&self.backend), self.limits, self.gateway.clone());
        let open = self.make().await.map_err(WorkspaceError::Directory)?;
        let sandbox = match &mut open.sandbox {
            Some(sandbox) => sandbox,
            empty @ None => {
                let spec = Spec {
                    limits,
                    egress: if gateway.is_some() {
                        Egress::Proxy
                    } else {
                        Egress::None
                    },
                    ..Spec::default()
                };
                empty.insert(backend.open(&open.directory.workdir, spec).await?)
            }
        };
        if let Some(gateway) = gateway
            && let Some(listener) = sandbox.egress().await?
        {
            open.proxies.spawn(gateway.serve(listener));
        }
        let finished = sandbox.exec(command).await;
        if matches!(finished, Err(Error::Lost(_))) {
            open.sandbox = None;
        }
        Ok(finished?)
    }

    /// The jobs of the run; none before the first command.
    pub(crate) fn jobs(&self) -> Option<&Jobs> {
        match &self.state {
            State::Made(open) => Some(&open.jobs),
            State::Unmade | State::Making(_) => None,
        }
    }

    /// Lets a released command continue as a job with a log that begins with its output `so_far`. Returns the number of the job
    /// and the path of its log, if it has one.
    pub(crate) async fn adopt(
        &mut self,
        command: (String, Instant),
        released: Released,
        so_far: SoFar,
    ) -> Result<(u32, Option<String>), WorkspaceError> {
        let number = self.outputs().await?.0.number();
        let path = outputs::log_path(number);
        let log = self.open_log(&path, so_far).await;
        let named = log.is_some().then(|| path.clone());
        let open = self.make().await.map_err(WorkspaceError::Directory)?;
        open.jobs
            .adopt(number, command, released, log.map(|log| (path, log)));
        Ok((number, named))
    }

    /// Returns `None` if the log cannot be created or written.
    async fn open_log(&mut self, path: &str, so_far: SoFar) -> Option<Log> {
        let limits = self.limits;
        let (outputs, directory) = self.outputs().await.ok()?;
        let room = outputs.reserve(LOG_BYTES)?;
        let path = path.to_owned();
        let file = directory.run_with_descriptors(
            move |workdir| outputs::make(workdir, &limits, &path, LOG_BYTES),
            |made| made.as_ref().is_err_and(lacks_descriptor),
        );
        let mut log = Log::new(file.await.ok()?.ok()?, room);
        log.leave_out(so_far.left_out).await.ok()?;
        for source in so_far.sources {
            match source {
                Source::Bytes(bytes) => log.write(&bytes).await.ok()?,
                Source::File(file) => log.copy(file).await.ok()?,
            }
        }
        Some(log)
    }

    /// Keeps an output of so many bytes in a file of the run; returns its path. `None` if the run's outputs are too large, or if
    /// its directory does not allow it.
    pub(crate) async fn keep_output(
        &mut self,
        what: &'static str,
        mut source: Source,
        bytes: u64,
    ) -> Option<String> {
        let limits = self.limits;
        let (outputs, directory) = self.outputs().await.ok()?;
        if !outputs.have_room(bytes) {
            return None;
        }
        let stored = directory.run_with_descriptors(
            move |workdir| outputs::store(workdir, &limits, (what, bytes), &mut source),
            |stored| stored.as_ref().is_err_and(lacks_descriptor),
        );
        let (path, new) = stored.await.ok()?.ok()?;
        outputs.take(new);
        Some(path)
    }

    async fn outputs(&mut self) -> Result<(&mut Outputs, Directory), WorkspaceError> {
        let limits = self.limits;
        let open = self.make().await.map_err(WorkspaceError::Directory)?;
        let directory = open.directory.clone();
        let outputs = match &mut open.outputs {
            Some(outputs) => outputs,
            empty @ None => {
                let found = directory.run_with_descriptors(
                    move |workdir| Outputs::find(workdir, &limits),
                    |found| found.as_ref().is_err_and(lacks_descriptor),
                );
                empty.insert(found.await?.map_err(WorkspaceError::Outputs)?)
            }
        };
        Ok((outputs, directory))
    }

    /// The shell that command lines are run with.
    pub(crate) fn shell(&self) -> &'static str {
        match &self.state {
            State::Made(open) => open.shell,
            State::Unmade | State::Making(_) => "bash",
        }
    }

    /// Uses `sh` from now on, because there is no bash.
    pub(crate) fn use_sh(&mut self) {
        if let State::Made(open) = &mut self.state {
            open.shell = "sh";
        }
    }

    async fn make(&mut self) -> std::io::Result<&mut Open> {
        let patience = Patience::default();
        while !matches!(self.state, State::Made(_)) {
            if matches!(self.state, State::Unmade) {
                let (root, name) = (self.root.clone(), self.name.clone());
                self.state =
                    State::Making(tokio::task::spawn_blocking(move || Workdir::create(&root, &name)));
            }
            if let State::Making(making) = &mut self.state {
                let made = joined(making.await);
                // Whatever the result, the handle must not be awaited again.
                self.state = State::Unmade;
                match made {
                    Ok(workdir) => self.state = State::Made(Box::new(Open::over(workdir))),
                    Err(error) if is_out_of_descriptors(&error) && patience.wait().await => {}
                    Err(error) => return Err(error),
                }
            }
        }
        match &mut self.state {
            State::Made(open) => Ok(open),
            State::Unmade | State::Making(_) => Err(std::io::Error::other("not made")),
        }
    }
}

impl Open {
    fn over(workdir: Workdir) -> Self {
        Self {
            directory: Directory::new(workdir),
            input_written: false,
            sandbox: None,
            proxies: JoinSet::new(),
            jobs: Jobs::default(),
            outputs: None,
            shell: "bash",
        }
    }
}

fn joined(made: Result<std::io::Result<Workdir>, JoinError>) -> std::io::Result<Workdir> {
    made.map_err(std::io::Error::other)?
}

fn input_path() -> Result<RelPath, FileError> {
    RelPath::new(INPUT_FILE).map_err(|error| FileError::Io(std::io::Error::other(error)))
}
