//! Interface of the sandbox: a backend that opens one per run, commands in it, and their output.
//!
//! These traits hide host paths, process ids and descriptors, so that a heavier backend can replace this one.

use std::{fmt, fs::File, io, net::TcpListener, time::Duration};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

pub use crate::level::Level;
use crate::workdir::Workdir;

/// Strength of the enforcement of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// Enforced by the kernel: it cannot be exceeded.
    Hard,
    /// Enforced by watching: it can be exceeded for a moment, then everything is killed.
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

/// Users who may share the shell of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenancy {
    /// People who trust each other: a run can use up resources of other runs or of the engine for which there is no limit.
    Single,
    /// Strangers: each run has its user and namespaces, and a memory limit that the kernel enforces.
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
    /// Users who may share the shell of this host.
    pub tenancy: Tenancy,
    /// Whether a sandbox can be opened with [`Egress::Proxy`]. This requires a private network for the run.
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
    /// Only through an HTTP proxy that the engine serves on the socket of [`Sandbox::egress`]. The proxy variables of the
    /// environment point to it; programs that ignore them have no network.
    Proxy,
}

/// Specification of a sandbox.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    /// Resource limits of the run.
    pub limits: Limits,
    /// Variables in addition to the fixed ones and those of the proxy; a variable replaces a fixed one of the same name.
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
    /// Maximum size of the stored beginning of a stream that is longer than `keep_bytes`, in bytes.
    pub store_bytes: u64,
    /// Receiver of the output while the command runs.
    pub watch: Option<OutputWatch>,
}

/// Piece of the output of a running command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPiece {
    /// Whether the command has written it to standard error.
    pub is_stderr: bool,
    /// Position of the first byte in the stream, from 0.
    pub position: u64,
    /// Raw bytes.
    pub bytes: Vec<u8>,
}

/// Sender of the output of a running command. It never waits: pieces for which the receiver has no room are lost.
#[derive(Clone, Debug)]
pub struct OutputWatch(mpsc::Sender<OutputPiece>);

impl OutputWatch {
    /// Number of pieces, of at most 64 KiB each, for which the receiver has room.
    const PIECES: usize = 4;

    /// Creates a sender and its receiver.
    pub fn new() -> (Self, mpsc::Receiver<OutputPiece>) {
        let (sender, receiver) = mpsc::channel(Self::PIECES);
        (Self(sender), receiver)
    }

    /// Sends a piece, if there is room.
    pub(crate) fn send(&self, is_stderr: bool, position: u64, bytes: &[u8]) {
        if let Ok(room) = self.0.try_reserve() {
            room.send(OutputPiece {
                is_stderr,
                position,
                bytes: bytes.to_vec(),
            });
        }
    }
}

/// Action at the timeout of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtTimeout {
    /// The command is killed with everything it started.
    #[default]
    Kill,
    /// The command runs on, concurrently with later commands: [`Finished::released`].
    Release,
}

/// Output stream of a finished command. The bytes are raw and need not be UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamOutput {
    /// The beginning.
    pub head: Vec<u8>,
    /// The end; empty while all of it fits into `head`.
    pub tail: Vec<u8>,
    /// Total bytes written, including those that were not kept.
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
    /// The command timed out, was released and runs on.
    Running,
    /// The run's memory limit was reached.
    Memory,
    /// The run's disk limit was reached.
    Disk,
}

/// A command that has ended or timed out.
#[derive(Debug)]
pub struct Finished {
    /// End of the command.
    pub exit: ExitKind,
    /// Standard output.
    pub stdout: StreamOutput,
    /// Standard error.
    pub stderr: StreamOutput,
    /// The beginnings of standard output and standard error, at most [`Command::store_bytes`] of each, for a stream that is
    /// longer than its kept part. The files have no name and are read from their beginning.
    pub stored: [Option<File>; 2],
    /// From start to end.
    pub duration: Duration,
    /// A command that runs on.
    pub released: Option<Released>,
}

/// A command that runs on concurrently with later ones, under the same limits, until it ends, is dropped, or the sandbox is
/// closed.
///
/// Its streams continue after the part in [`Finished`], and must be read, or the command blocks. Background processes that it
/// leaves live on after its end. Dropping `process` kills it with everything in its session.
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

/// A process with standard input and output piped to the engine, such as a server that communicates over them.
///
/// Its streams and its handle are separate, so that each can have a different owner. Dropping `process` kills it, with everything
/// in its session; dropping `stdin` only closes its input.
pub struct Piped {
    /// Standard input of the process. Writes wait while the process does not read, and fail once the process has ended.
    pub stdin: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// Standard output of the process. It ends with the process.
    pub stdout: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// Handle to wait for the process and to end it.
    pub process: Box<dyn Process>,
}

/// Handle of a [`Piped`] process or a [`Released`] command. Dropping it kills the process, without waiting; once the process has
/// ended, dropping it kills nothing.
pub trait Process: Send + Sync {
    /// Waits for the process to end. Processes that a [`Piped`] process left in its session are killed then. Call it until it has
    /// returned once. Cancel-safe.
    ///
    /// # Errors
    /// [`Error::NotExecutable`] for a program that does not exist or cannot be executed; [`Error::Lost`] when the sandbox was
    /// closed or died, and the process with it.
    fn wait(&mut self) -> BoxFuture<'_, Result<ProcessEnd, Error>>;

    /// Kills the process with everything in its session, and returns when they are dead. After the end of the process, kills the
    /// rest of its session.
    ///
    /// # Errors
    /// The errors of [`wait`](Self::wait).
    fn kill(self: Box<Self>) -> BoxFuture<'static, Result<ProcessEnd, Error>>;
}

/// End of a [`Piped`] process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessEnd {
    /// Exit of the process. Never [`ExitKind::TimedOut`]: its time has no limit except the sandbox's. If the kernel enforces the
    /// memory limit, a process that exceeded it ended by a signal.
    pub exit: ExitKind,
    /// The last 8 KiB of standard error, as bytes.
    pub stderr: Vec<u8>,
    /// Whether processes of its session live on, which is possible for a [`Released`] command. [`Process::kill`] kills them.
    pub left: bool,
}

/// Resources that a run has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in the working directory.
    pub disk_bytes: u64,
    /// Memory in use, in bytes, if the host reports it.
    pub memory_bytes: Option<u64>,
    /// Processes alive.
    pub processes: Option<u32>,
}

/// Failure of the sandbox itself; a command's own failure is a [`Finished`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The host does not allow the configured level. `hint` is the remedy.
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
    /// Creates the error of a set-up that the system has refused, with the given message.
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
    /// Also [`Error::Unavailable`] for [`Egress::Proxy`] if the capabilities do not include it.
    fn open<'a>(&'a self, workdir: &'a Workdir, spec: Spec)
    -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>>;
}

/// The open sandbox of one run. Dropping it kills everything in it at once, without waiting.
pub trait Sandbox: Send {
    /// Runs a command until it ends or is released. A lost sandbox is reopened first. Background processes that the command
    /// leaves live on until [`close`](Self::close). Dropping the future kills the command.
    fn exec(&mut self, command: Command) -> BoxFuture<'_, Result<Finished, Error>>;

    /// Starts a piped process. It runs concurrently with the commands, under the same limits, until it ends, is dropped, or the
    /// sandbox is closed; it is not restarted when a sandbox is lost. A sandbox that was lost before is reopened first. The first
    /// item of `argv` is looked up in the sandbox's `PATH`; [`Process::wait`] reports a program that cannot be executed.
    fn start(&mut self, argv: Vec<String>) -> BoxFuture<'_, Result<Piped, Error>>;

    /// The non-blocking socket for the run's proxy, which listens on the sandbox's loopback address. Returned once per opening of
    /// the sandbox; `None` without [`Egress::Proxy`]. Reopens a lost sandbox, so that a caller that asks before each command
    /// misses no socket.
    ///
    /// The socket is closed with the sandbox: a pending accept then fails.
    fn egress(&mut self) -> BoxFuture<'_, Result<Option<TcpListener>, Error>>;

    /// Returns the resources that the run uses now.
    fn usage(&mut self) -> BoxFuture<'_, Result<Usage, Error>>;

    /// Kills everything in the sandbox and returns when everything is dead.
    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>>;
}
