//! MCP over the standard streams of a program: one message a line.
//!
//! The program runs wherever the [`StdioLauncher`] puts it, which is a sandbox. A line is bounded. One that is no message
//! is skipped, because programs print what they like, unless it is an answer that cannot be read: that fails its call
//! (docs/CONNECTIONS.md#mcp-servers). Why a program cannot be talked to any more is told in a
//! sentence, with the last of what it wrote to standard error.

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

/// Time for which the end of a program is waited for: after the end of its output, and when it is ended.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum part of the standard error that is told, in bytes.
const STDERR_BYTES: usize = 600;
/// Maximum part of a line of standard output that is told, in bytes.
const STRAY_BYTES: usize = 200;
/// Maximum part of the program's name that is told, in bytes.
const NAME_BYTES: usize = 100;

/// Starts MCP servers that are programs.
pub trait StdioLauncher: Send + Sync {
    /// Starts `command` with the environment `env`, inside a sandbox of its own. The sentence says why it did not start
    /// and holds no credential.
    fn launch<'a>(
        &'a self,
        command: &'a [String],
        env: &'a [(String, Credential)],
    ) -> BoxFuture<'a, Result<StdioProcess, String>>;
}

/// A program that was started.
pub struct StdioProcess {
    /// Standard input of the program.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Standard output of the program.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// The program itself.
    pub program: Box<dyn Program>,
}

/// A program that was started. Dropped with its session, it is ended with all that it started.
pub trait Program: Send {
    /// Waits for the end of the program. Dropping the future before that loses nothing.
    fn end(&mut self) -> BoxFuture<'_, ProgramEnd>;

    /// Ends the program, and returns once it has ended.
    fn stop(&mut self) -> BoxFuture<'_, ProgramEnd>;
}

/// End of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramEnd {
    /// Manner of the end, as in `ended with exit code 1`.
    pub how: String,
    /// The last of what it wrote to standard error.
    pub stderr: Vec<u8>,
}

/// Reason why a program cannot be talked to any more, once it is known.
type Lost = OnceLock<String>;

/// A program, and the reason of its loss.
pub(super) struct Watched {
    name: String,
    redactor: Arc<Redactor>,
    program: Mutex<Box<dyn Program>>,
    lost: Lost,
    /// The last line of standard output since the last request, where it was no message.
    stray: parking_lot::Mutex<String>,
}

impl Watched {
    /// Returns the sentence about a call that was not answered within `limit`.
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

    /// Returns the reason why the program cannot be talked to any more, once it is known.
    pub(super) fn lost(&self) -> Option<String> {
        self.lost.get().cloned()
    }

    fn lose(&self, why: impl std::fmt::Display) -> &str {
        self.lost.get_or_init(|| format!("{} {why}", self.name))
    }

    /// Finds out why the program does not talk any more.
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

    /// Ends a program that has not answered within `limit`. Returns a sentence that names it, with what it wrote to
    /// standard error. A program that is lost already is named with the reason of that.
    pub(super) async fn silent(&self, limit: Duration) -> String {
        let mut program = self.program.lock().await;
        if let Some(why) = self.lost() {
            return why;
        }
        let why = self.stop(&mut **program, &self.unanswered(limit)).await;
        self.lose(why).to_owned()
    }

    /// Ends a program. Returns `how` with what it wrote to standard error.
    async fn stop(&self, program: &mut dyn Program, how: &str) -> String {
        // One that does not end in time has told nothing either.
        let stderr = timeout(PATIENCE, program.stop())
            .await
            .map_or_else(|_| Vec::new(), |end| end.stderr);
        self.with_words(how, &stderr)
    }

    /// Adds the last of what a program wrote to standard error.
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

/// Returns the name of a program for a sentence, as in "the program `server`".
pub(crate) fn program_name(command: &[String], redactor: &Redactor) -> String {
    let name = command.first().map_or("", String::as_str);
    format!("the program `{}`", text::line(&redactor.redact(name), NAME_BYTES))
}

/// The transport over a program's streams.
pub(super) struct Pipes {
    stdin: Arc<Mutex<Box<dyn AsyncWrite + Send + Unpin>>>,
    stdout: Box<dyn AsyncRead + Send + Unpin>,
    lines: Lines,
    /// Requests that wait for their answer.
    calls: HashSet<RequestId>,
    watched: Arc<Watched>,
}

impl Pipes {
    /// The transport to the program of `command`.
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

    /// The next whole line; `None` at the end of the stream, and when a line is too long to go on. Safe to be dropped
    /// and called again.
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

    /// Interprets a line that is no message: an answer without `jsonrpc` or with other text on its line, or the failure
    /// of the request that it cannot be read as an answer to. `None` for anything else, such as a line of a log.
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
                // A server that could not read a request does not know its id.
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
