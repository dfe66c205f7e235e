//! MCP over the standard streams of a program: one message a line.
//!
//! The program runs wherever the [`StdioLauncher`] puts it, which is a sandbox. A line is bounded; one that is no
//! message is skipped, because programs print what they like.

use std::{io, sync::Arc};

use bytes::BytesMut;
use futures_util::future::BoxFuture;
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    service::RoleClient,
    transport::Transport,
};
use sortie_agent::Redactor;
use sortie_api::Credential;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::Mutex,
};

use super::frames::{self, Lines, Unreadable};

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
    /// Dropped with the session: ends the program and all it started.
    pub guard: Box<dyn Send>,
}

/// The transport over a program's streams.
pub(super) struct Pipes {
    stdin: Arc<Mutex<Box<dyn AsyncWrite + Send + Unpin>>>,
    stdout: Box<dyn AsyncRead + Send + Unpin>,
    lines: Lines,
    redactor: Arc<Redactor>,
    _guard: Box<dyn Send>,
}

impl Pipes {
    pub(super) fn new(process: StdioProcess, redactor: Arc<Redactor>) -> Self {
        Self {
            stdin: Arc::new(Mutex::new(process.stdin)),
            stdout: process.stdout,
            lines: Lines::default(),
            redactor,
            _guard: process.guard,
        }
    }

    /// The next whole line; `None` at the end of the stream, and when a line is too long to go on. Safe to be dropped
    /// and called again.
    async fn line(&mut self) -> Option<BytesMut> {
        loop {
            match self.lines.next() {
                Ok(Some(line)) => return Some(line),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, "a program's MCP messages cannot be read");
                    return None;
                }
            }
            match self.stdout.read_buf(self.lines.buffer()).await {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "a program's MCP messages cannot be read");
                    return None;
                }
            }
        }
    }
}

impl Transport<RoleClient> for Pipes {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let stdin = Arc::clone(&self.stdin);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut stdin = stdin.lock().await;
            stdin.write_all(&line).await?;
            stdin.flush().await
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let line = self.line().await?;
            match frames::message(&line, |text| self.redactor.redact(text)) {
                Ok(message) => return Some(message),
                Err(Unreadable::NoMessage(_)) => {}
                Err(Unreadable::TooLarge(error)) => {
                    tracing::warn!(%error, "a program's MCP messages cannot be read");
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.stdin.lock().await.shutdown().await
    }
}
