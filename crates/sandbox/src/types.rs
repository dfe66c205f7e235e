//! Interface of the sandbox: a backend that opens one per run, commands in it, and their output.
//!
//! Host paths, process ids and descriptors stay behind these traits, so that a heavier backend can stand in.

use std::{fmt, fs::File, io, net::TcpListener, time::Duration};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};

pub use crate::level::Level;
use crate::workdir::Workdir;

/// Enforcement of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// By the kernel: it cannot be passed.
    Hard,
    /// By watching: it can be passed for a moment, then everything is killed.
    Soft,
}

impl Enforcement {
    /// The name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Soft => "soft",
        }
    }
}

/// Users who may use the shell of one node beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenancy {
    /// People who trust each other: a run can take from other runs, or from the engine, what no limit keeps for them.
    Single,
    /// Strangers: each run has a user of its own, namespaces, and a memory limit that the kernel keeps.
    Multi,
}

impl Tenancy {
    /// The name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Multi => "multi",
        }
    }
}

/// Capabilities of the host, found by a real probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The level in use.
    pub level: Level,
    /// Enforcement of the memory limit.
    pub memory: Enforcement,
    /// Enforcement of the disk limit.
    pub disk: Enforcement,
    /// Users who may use the shell of this host beside each other.
    pub tenancy: Tenancy,
    /// Whether a sandbox can be opened with [`Egress::Proxy`]. That takes a network of the run's own.
    pub egress: bool,
    /// Missing capabilities, a sentence each, for the log and `sortie doctor`.
    pub missing: Vec<String>,
}

/// Resource limits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads at once.
    pub processes: u32,
    /// Open files of one process.
    pub open_files: u32,
    /// Size of one file, in bytes.
    pub file_bytes: u64,
    /// Memory of all processes together, in bytes.
    pub memory_bytes: u64,
    /// The working directory, in bytes.
    pub disk_bytes: u64,
    /// Files and folders in the working directory.
    pub disk_entries: u64,
    /// `/tmp`, in bytes.
    pub tmp_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            processes: 256,
            open_files: 1_024,
            file_bytes: 256 << 20,
            memory_bytes: 1 << 30,
            disk_bytes: 1 << 30,
            disk_entries: 100_000,
            tmp_bytes: 128 << 20,
        }
    }
}

/// Egress of a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Egress {
    /// Not at all.
    #[default]
    None,
    /// Only through an HTTP proxy that the engine serves on the socket of [`Sandbox::egress`]. The proxy variables of
    /// the environment name it; what does not heed them gets nowhere.
    Proxy,
}

/// Specification of a sandbox.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    /// Resource limits of the run.
    pub limits: Limits,
    /// Variables beside the fixed ones and those of the proxy; one of the same name takes the place of a fixed one.
    pub env: Vec<(String, String)>,
    /// Egress of the run.
    pub egress: Egress,
}

/// Command for a sandbox.
#[derive(Clone, Debug)]
pub struct Command {
    /// Program and arguments. The program is looked up in the sandbox's `PATH`.
    pub argv: Vec<String>,
    /// Maximum running time.
    pub timeout: Duration,
    /// The action when it runs longer.
    pub at_timeout: AtTimeout,
    /// Maximum part of each of the two streams that is kept, in bytes: half of it from the beginning, half from the
    /// end.
    pub keep_bytes: usize,
    /// Length of the beginning that is stored besides, of a stream longer than `keep_bytes`, in bytes.
    pub store_bytes: u64,
}

/// The action when the time of a command is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtTimeout {
    /// The command is killed with everything it started.
    #[default]
    Kill,
    /// The command runs on beside later commands: [`Finished::released`].
    Release,
}

/// Output stream of a finished command. The bytes are as they came: they need not be UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamOutput {
    /// The beginning.
    pub head: Vec<u8>,
    /// The end; empty while all of it fits into `head`.
    pub tail: Vec<u8>,
    /// Everything that was written, in bytes, also what was not kept.
    pub total_bytes: u64,
    /// The line breaks in everything that was written.
    pub total_lines: u64,
}

/// End of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitKind {
    /// The command exited with this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// The command ran longer than its time and was killed.
    TimedOut,
    /// The command runs on: its time is up and it was released.
    Running,
    /// The run's memory limit was reached.
    Memory,
    /// The run's disk limit was reached.
    Disk,
}

/// A command that has ended, or whose time is up.
#[derive(Debug)]
pub struct Finished {
    /// End of the command.
    pub exit: ExitKind,
    /// Standard output.
    pub stdout: StreamOutput,
    /// Standard error.
    pub stderr: StreamOutput,
    /// The beginnings of standard output and standard error, at most [`Command::store_bytes`] of each, for a stream
    /// that is longer than what was kept of it. The files have no name and are read from their beginning.
    pub stored: [Option<File>; 2],
    /// From start to end.
    pub duration: Duration,
    /// A command that runs on.
    pub released: Option<Released>,
}

/// A command that runs on beside later ones, under the same limits, until it ends, is let go of, or the sandbox is
/// closed.
///
/// Its streams go on where those of [`Finished`] end, and must be read, or the command blocks. Processes that it leaves
/// in the background live on after its end. Dropping `process` kills it with everything in its session.
pub struct Released {
    /// Standard output from now on.
    pub stdout: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// Standard error from now on.
    pub stderr: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// The life of the command. [`ProcessEnd::stderr`] is empty.
    pub process: Box<dyn Process>,
}

impl fmt::Debug for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Released").finish_non_exhaustive()
    }
}

/// A process that the engine talks to, such as a server that speaks over standard input and output.
///
/// Its streams and its life are apart, so that each can go where it is needed. Dropping `process` kills it, with
/// everything in its session; dropping `stdin` only tells it that there is no more to read.
pub struct Piped {
    /// Standard input of the process. Writing waits while the process does not read; it fails once the process has
    /// ended.
    pub stdin: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// Standard output of the process. It ends with the process.
    pub stdout: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// Handle to wait for the process and to end it.
    pub process: Box<dyn Process>,
}

/// The life of a [`Piped`] process or a [`Released`] command. Dropping it kills the process, without waiting; once the
/// process has ended, dropping it kills nothing.
pub trait Process: Send + Sync {
    /// Waits for the process to end. What a [`Piped`] process left in its session is killed then. To be called until it
    /// has returned once; dropping the future before that loses nothing.
    ///
    /// # Errors
    /// [`Error::NotExecutable`] for a program that does not exist or cannot be executed; [`Error::Lost`] when the sandbox
    /// was closed or died, and the process with it.
    fn wait(&mut self) -> BoxFuture<'_, Result<ProcessEnd, Error>>;

    /// Kills the process with everything in its session, and returns when that is done. After the end of the process,
    /// kills what is left in its session.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    fn kill(self: Box<Self>) -> BoxFuture<'static, Result<ProcessEnd, Error>>;
}

/// End of a [`Piped`] process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessEnd {
    /// Exit of the process. Never [`ExitKind::TimedOut`]: its time has no limit but the sandbox's. Where the kernel
    /// keeps the memory limit, a process that passed it ended by a signal.
    pub exit: ExitKind,
    /// The last 8 KiB of what it wrote to standard error, as bytes.
    pub stderr: Vec<u8>,
    /// Whether processes of its session live on, as may be for a [`Released`] command. [`Process::kill`] kills them.
    pub left: bool,
}

/// Resources that a run has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in the working directory.
    pub disk_bytes: u64,
    /// Memory in use, in bytes, where the host tells.
    pub memory_bytes: Option<u64>,
    /// Processes alive.
    pub processes: Option<u32>,
}

/// Failure of the sandbox itself; a command's own failure is a [`Finished`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The host does not allow the configured level. `hint` is what to do about it.
    #[error("{reason}. {hint}")]
    Unavailable {
        /// Refusal of the host.
        reason: String,
        /// Remedy for the operator.
        hint: String,
    },
    /// A sandbox could not be set up.
    #[error("sandbox setup failed: {0}")]
    Setup(String),
    /// A sandbox could not be set up, because the engine or its host has no file descriptor left.
    #[error("sandbox setup failed: {0}")]
    NoDescriptor(String),
    /// The program does not exist or cannot be executed.
    #[error("{0}")]
    NotExecutable(String),
    /// The sandbox died under the command.
    #[error("the sandbox was lost: {0}")]
    Lost(String),
}

impl Error {
    /// Creates the error of a set-up that the system has refused, in the given words.
    pub fn of_setup(error: &io::Error, words: String) -> Self {
        match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => Self::NoDescriptor(words),
            Some(_) | None => Self::Setup(words),
        }
    }

    /// Returns true where a sandbox could not be set up because the engine or its host has no file descriptor left.
    pub const fn is_out_of_descriptors(&self) -> bool {
        matches!(self, Self::NoDescriptor(_))
    }
}

/// Opens sandboxes at one level.
pub trait Backend: Send + Sync {
    /// Returns the capabilities of the host.
    fn capabilities(&self) -> &Capabilities;

    /// Opens the sandbox of one run over its working directory.
    ///
    /// # Errors
    /// [`Error::Unavailable`] also for [`Egress::Proxy`] where the capabilities say that there is none.
    fn open<'a>(&'a self, workdir: &'a Workdir, spec: Spec)
    -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>>;
}

/// The open sandbox of one run. Dropping it kills everything in it at once, without waiting.
pub trait Sandbox: Send {
    /// Runs a command to its end, or until it is released. A sandbox that was lost is opened again first. Background
    /// processes that the command leaves live on until [`close`](Self::close). Dropping the future kills the command.
    fn exec(&mut self, command: Command) -> BoxFuture<'_, Result<Finished, Error>>;

    /// Starts a program that the engine talks to. It lives beside the commands, under the same limits, until it ends,
    /// is let go of, or the sandbox is closed; it is not started again when a sandbox is lost. A sandbox that was lost
    /// before is opened again first. The first of `argv` is looked up in the sandbox's `PATH`; that it cannot be
    /// executed is told by [`Process::wait`].
    fn start(&mut self, argv: Vec<String>) -> BoxFuture<'_, Result<Piped, Error>>;

    /// The socket that the run's proxy is served on, non-blocking, listening on the sandbox's own loopback address:
    /// once each time that the sandbox was opened, and `None` without [`Egress::Proxy`]. Opens a sandbox that was lost
    /// again, so that whoever asks before each command misses none.
    ///
    /// It is closed with the sandbox: whoever accepts on it then gets an error.
    fn egress(&mut self) -> BoxFuture<'_, Result<Option<TcpListener>, Error>>;

    /// Returns the resources that the run uses now.
    fn usage(&mut self) -> BoxFuture<'_, Result<Usage, Error>>;

    /// Kills everything in the sandbox and returns when nothing of it is left alive.
    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>>;
}
