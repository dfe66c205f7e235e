//! MCP over the standard streams of a program: one message per line.
//!
//! The [`StdioLauncher`] determines where the program runs, which is a sandbox. A line has a maximum length. Lines that are not
//! messages are skipped, because programs also print other text. The exception is an unreadable response, which fails its call
//! (docs/CONNECTIONS.md#mcp-servers). If a program fails, the error gives the reason and the end of its standard error.

use std::{
    collections::HashSet,
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::BytesMut;
use futures_util::future::BoxFuture;
use rmcp::{
    model::{ClientJsonRpcMessage, ClientNotification, RequestId, ServerJsonRpcMessage},
    service::RoleClient,
    transport::Transport,
};
use sortie_agent::Redactor;
use sortie_api::Credential;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::Mutex,
    time::timeout,
};

use super::{
    frames::{self, Lines, Unreadable},
    lenient,
    wire::answered,
};
use crate::text;

/// Maximum time to wait until the program exits, after the end of its output and after it was stopped.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of bytes of the standard error in an error message.
const STDERR_BYTES: usize = 600;
/// Maximum number of bytes of a line of standard output in an error message.
const STRAY_BYTES: usize = 200;
/// Maximum number of bytes of the program's name in an error message.
const NAME_BYTES: usize = 100;

/// Starts programs as MCP servers.
pub trait StdioLauncher: Send + Sync {
    /// Starts `command` with the environment `env`, in a separate sandbox. The error is a sentence without credentials.
    fn launch<'a>(
        &'a self,
        command: &'a [String],
        env: &'a [(String, Credential)],
    ) -> BoxFuture<'a, Result<StdioProcess, String>>;
}

/// A started program.
pub struct StdioProcess {
    /// Standard input of the program.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Standard output of the program.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Handle of the program.
    pub program: Box<dyn Program>,
}

/// A started program. Dropping it with its session kills the program and all its children.
pub trait Program: Send {
    /// Waits until the program exits. Cancel-safe.
    fn end(&mut self) -> BoxFuture<'_, ProgramEnd>;

    /// Stops the program and waits until it has exited.
    fn stop(&mut self) -> BoxFuture<'_, ProgramEnd>;
}

/// End of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramEnd {
    /// Description of the exit, as in `ended with exit code 1`.
    pub how: String,
    /// The end of its standard error.
    pub stderr: Vec<u8>,
}

/// Reason why communication with a program has failed, once known.
type Lost = OnceLock<String>;

/// A program, and the reason of its failure.
pub(super) struct Watched {
    name: String,
    redactor: Arc<Redactor>,
    program: Mutex<Box<dyn Program>>,
    lost: Lost,
    /// The last line of standard output since the last request, if it was not a message.
    stray: parking_lot::Mutex<String>,
}

impl Watched {
    /// Returns the error for a call without a response within `limit`.
    pub(super) fn slow(&self, limit: Duration) -> String {
        format!("{} {}", self.name, self.unanswered(limit))
    }

    fn unanswered(&self, limit: Duration) -> String {
        let how = format!("did not answer within {} s", limit.as_secs());
        let stray = self.stray.lock();
        if stray.is_empty() {
            return how;
        }
        format!("{how}, and wrote to standard output: {stray}")
    }

    fn note_stray(&self, line: &str) {
        *self.stray.lock() = text::line(line, STRAY_BYTES);
    }

    /// Returns the reason why communication with the program has failed, once known.
    pub(super) fn lost(&self) -> Option<String> {
        self.lost.get().cloned()
    }

    fn lose(&self, why: impl std::fmt::Display) -> &str {
        self.lost.get_or_init(|| format!("{} {why}", self.name))
    }

    /// Determines why the program has stopped responding.
    async fn find_out(&self) {
        let mut program = self.program.lock().await;
        if self.lost.get().is_some() {
            return;
        }
        let why = match timeout(PATIENCE, program.end()).await {
            Ok(ProgramEnd { how, stderr }) => self.with_words(&self.redactor.redact(&how), &stderr),
            Err(_) => self.stop(&mut **program, "has closed its standard streams").await,
        };
        self.lose(why);
    }

    /// Stops a program that has not responded within `limit`. Returns an error with its name and its standard error. If the
    /// program had already failed, the error has that reason.
    pub(super) async fn silent(&self, limit: Duration) -> String {
        let mut program = self.program.lock().await;
        if let Some(why) = self.lost() {
            return why;
        }
        let why = self.stop(&mut **program, &self.unanswered(limit)).await;
        self.lose(why).to_owned()
    }

    /// Stops a program. Returns `how` with its standard error.
    async fn stop(&self, program: &mut dyn Program, how: &str) -> String {
        // If it does not exit in time, its standard error is unavailable.
        let stderr = timeout(PATIENCE, program.stop())
            .await
            .map_or_else(|_| Vec::new(), |end| end.stderr);
        self.with_words(how, &stderr)
    }

    /// Appends the end of a program's standard error.
    fn with_words(&self, how: &str, stderr: &[u8]) -> String {
        let stderr = String::from_utf8_lossy(stderr);
        let stderr = self.redactor.redact(&stderr);
        let last = stderr.ceil_char_boundary(stderr.len().saturating_sub(STDERR_BYTES));
        match text::line(stderr.get(last..).unwrap_or_default(), STDERR_BYTES) {
            words if words.is_empty() => how.to_owned(),
            words => format!("{how}, and wrote to standard error: {words}"),
        }
    }
}

/// Returns the name of a program for a message, as in "the program `server`".
pub(crate) fn program_name(command: &[String], redactor: &Redactor) -> String {
    let name = command.first().map_or("", String::as_str);
    format!("the program `{}`", text::line(&redactor.redact(name), NAME_BYTES))
}

/// The transport over a program's streams.
pub(super) struct Pipes {
    stdin: Arc<Mutex<Box<dyn AsyncWrite + Send + Unpin>>>,
    stdout: Box<dyn AsyncRead + Send + Unpin>,
    lines: Lines,
    /// Pending requests.
    calls: HashSet<RequestId>,
    watched: Arc<Watched>,
}

impl Pipes {
    /// Creates the transport to the program of `command`.
    pub(super) fn new(process: StdioProcess, command: &[String], redactor: Arc<Redactor>) -> Self {
        Self {
            stdin: Arc::new(Mutex::new(process.stdin)),
            stdout: process.stdout,
            lines: Lines::default(),
            calls: HashSet::new(),
            watched: Arc::new(Watched {
                name: program_name(command, &redactor),
                redactor,
                program: Mutex::new(process.program),
                lost: Lost::default(),
                stray: parking_lot::Mutex::default(),
            }),
        }
    }

    /// Returns the program, which outlives the transport.
    pub(super) fn program(&self) -> Arc<Watched> {
        Arc::clone(&self.watched)
    }

    /// Returns the next complete line; `None` at the end of the stream and if a line is too long. Cancel-safe.
    async fn line(&mut self) -> Option<BytesMut> {
        loop {
            match self.lines.next() {
                Ok(Some(line)) => return Some(line),
                Ok(None) => {}
                Err(error) => {
                    self.watched.lose(format_args!("cannot be understood: {error}"));
                    return None;
                }
            }
            let read = self.stdout.read_buf(self.lines.buffer()).await;
            if matches!(read, Ok(0) | Err(_)) {
                self.watched.find_out().await;
                return None;
            }
        }
    }

    /// Interprets a line that is not a message. Returns a response without `jsonrpc` or with other text on its line, or the
    /// failure of a request if the line is an unreadable response to it. `None` for anything else, such as a log line.
    fn odd(&self, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        let line = String::from_utf8_lossy(line);
        let line = self.watched.redactor.redact(&line);
        let within = lenient::within(&line)
            .filter(|answer| answered(answer).is_some_and(|id| self.calls.contains(id)));
        if within.is_some() {
            return within;
        }
        let Some(id) = lenient::spoiled_answer(&line, self.calls.iter()).cloned() else {
            self.watched.note_stray(&line);
            return None;
        };
        Some(frames::unreadable(&line, id))
    }
}

async fn write(stdin: &Mutex<Box<dyn AsyncWrite + Send + Unpin>>, line: &[u8]) -> io::Result<()> {
    let mut stdin = stdin.lock().await;
    stdin.write_all(line).await?;
    stdin.flush().await
}

impl Transport<RoleClient> for Pipes {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        match &message {
            ClientJsonRpcMessage::Request(request) => {
                self.calls.insert(request.id.clone());
                self.watched.note_stray("");
            }
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.calls.remove(id);
                }
            }
            ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_) => {}
        }
        let (stdin, watched) = (Arc::clone(&self.stdin), Arc::clone(&self.watched));
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let sent = write(&stdin, &line).await;
            if sent.is_err() {
                watched.find_out().await;
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let line = self.line().await?;
            let message = match frames::message(&line, |text| self.watched.redactor.redact(text)) {
                Ok(message) => Some(message),
                Err(Unreadable::NoMessage(_)) => self.odd(&line),
                Err(Unreadable::TooLarge(error)) => {
                    self.watched.lose(format_args!("cannot be understood: {error}"));
                    return None;
                }
            };
            if let Some(mut message) = message {
                // A server that could not parse a request does not know its id.
                if let ServerJsonRpcMessage::Error(error) = &mut message
                    && error.id.is_none()
                    && let [only] = self.calls.iter().collect::<Vec<_>>()[..]
                {
                    error.id = Some(only.clone());
                }
                if let Some(id) = answered(&message) {
                    self.calls.remove(id);
                }
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.stdin.lock().await.shutdown().await
    }
}
