//! MCP over the standard streams of a program: one message a line.
//!
//! The program runs wherever the [`StdioLauncher`] puts it, which is a sandbox. A line is bounded; one that is no message
//! is skipped, because programs print what they like.

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

use super::wire::MESSAGE_BYTES;

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
    /// What it reads.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// What it writes.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Dropped with the session: ends the program and all it started.
    pub guard: Box<dyn Send>,
}

/// The transport over a program's streams.
pub(super) struct Pipes {
    stdin: Arc<Mutex<Box<dyn AsyncWrite + Send + Unpin>>>,
    stdout: Box<dyn AsyncRead + Send + Unpin>,
    unread: BytesMut,
    redactor: Arc<Redactor>,
    _guard: Box<dyn Send>,
}

impl Pipes {
    pub(super) fn new(process: StdioProcess, redactor: Arc<Redactor>) -> Self {
        Self {
            stdin: Arc::new(Mutex::new(process.stdin)),
            stdout: process.stdout,
            unread: BytesMut::new(),
            redactor,
            _guard: process.guard,
        }
    }

    /// The next whole line; `None` at the end of the stream, and when a line is too long to go on. Safe to be dropped
    /// and called again.
    async fn line(&mut self) -> Option<BytesMut> {
        let mut searched = 0;
        loop {
            let rest = self.unread.get(searched..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                return Some(self.unread.split_to(searched + end + 1));
            }
            searched = self.unread.len();
            if searched > MESSAGE_BYTES {
                tracing::warn!(limit = MESSAGE_BYTES, "a program's MCP message is too long");
                return None;
            }
            match self.stdout.read_buf(&mut self.unread).await {
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
            let line = String::from_utf8_lossy(&line);
            if let Ok(message) = serde_json::from_str(&self.redactor.redact(&line)) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.stdin.lock().await.shutdown().await
    }
}
