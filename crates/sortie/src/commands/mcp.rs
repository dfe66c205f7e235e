//! `sortie mcp`: the MCP server of an engine over standard input and standard output.
//!
//! Each line of standard input is a message, and becomes a request to `/mcp`. Each message of the engine becomes a line of
//! standard output. The engine keeps no sessions, so this process knows what a request needs and a line lacks: the revision that
//! the handshake agreed on. Notifications of the client are not sent: they concern the requests of this process.

use std::{
    collections::HashMap,
    io::{BufRead as _, Read as _},
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sortie_api::{limits::BODY_BYTES, plain};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

use super::Context;
use crate::{
    args::McpArgs,
    client::{Client, McpAnswer},
    connect::{Connection, Need},
    failure::{Exit, Failure, Result},
    input::STDIN,
    interruption::interruption,
    terminal,
};

/// Pause before the stream of changes is opened again.
const PAUSE: Duration = Duration::from_secs(2);

/// Number of messages that wait, in each direction.
const WAITING: usize = 16;

/// JSON-RPC: the text is not JSON.
const PARSE_ERROR: i32 = -32_700;
/// JSON-RPC: the server failed.
const INTERNAL_ERROR: i32 = -32_603;

const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const LISTEN: &str = "subscriptions/listen";

/// Serves the client at standard input until that ends and every request is answered.
pub(super) async fn serve(context: &Context, args: &McpArgs) -> Result<Exit> {
    let config = context.node_config(&args.node)?;
    let connection = Connection::open(&args.engine, &config, &context.environment, Need::Work).await?;
    connection.during(bridge).await
}

async fn bridge(connection: &mut Connection) -> Result<Exit> {
    let (output, mut answers) = mpsc::channel(WAITING);
    let mut messages = lines_of_stdin();
    let mut requests = Requests {
        client: connection.client.for_mcp()?,
        output,
        revision: Arc::default(),
        tasks: JoinSet::new(),
        open: HashMap::new(),
        streams: Vec::new(),
        has_handshake: false,
    };
    let mut interrupted = interruption();
    let mut has_ended = false;
    while !has_ended || !requests.tasks.is_empty() {
        tokio::select! {
            // Answers leave before more messages come in.
            biased;
            () = &mut interrupted => return Err(Failure::left()),
            Some(answer) = answers.recv() => terminal::print_line(&answer.to_string())?,
            Some(ended) = requests.tasks.join_next() => {
                if matches!(ended, Ok(Ended::Unreachable)) && connection.find_again().await? {
                    requests.move_to(connection.client.for_mcp()?);
                }
            }
            message = messages.recv(), if !has_ended => match message {
                Some(message) => requests.take(&message?).await?,
                None => {
                    has_ended = true;
                    requests.end_streams();
                }
            },
        }
    }
    while let Ok(answer) = answers.try_recv() {
        terminal::print_line(&answer.to_string())?;
    }
    Ok(Exit::Success)
}

/// Reads the lines of standard input on a thread, which ends after the last line or a failure.
fn lines_of_stdin() -> mpsc::Receiver<Result<Vec<u8>>> {
    let (send, lines) = mpsc::channel(WAITING);
    tokio::task::spawn_blocking(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let limit = BODY_BYTES as u64 + 1;
            let read = match input.by_ref().take(limit).read_until(b'\n', &mut line) {
                Ok(0) => return,
                Ok(_) if line.len() > BODY_BYTES => Err(Failure::usage(format!(
                    "{STDIN}: a message must be at most {BODY_BYTES} bytes"
                ))),
                Ok(_) => Ok(line),
                Err(error) => Err(Failure::usage(format!(
                    "{STDIN}: cannot be read: {}",
                    plain::io(&error)
                ))),
            };
            let is_failure = read.is_err();
            if send.blocking_send(read).is_err() || is_failure {
                return;
            }
        }
    });
    lines
}

/// Reason for the end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// It was answered.
    Answered,
    /// The engine could not be reached, or its answer broke off.
    Unreachable,
}

/// Requests to the engine that have no answer yet.
struct Requests {
    client: Client,
    output: mpsc::Sender<Value>,
    /// Revision that the handshake agreed on. Later revisions have none: each request names its own.
    revision: Arc<Mutex<Option<String>>>,
    tasks: JoinSet<Ended>,
    /// By their IDs. An ID is a text or a number.
    open: HashMap<String, AbortHandle>,
    /// Requests that have no end of their own.
    streams: Vec<AbortHandle>,
    /// Whether the client uses a revision with a handshake, and has made it.
    has_handshake: bool,
}

impl Requests {
    /// Takes a message of the client.
    async fn take(&mut self, line: &[u8]) -> Result<()> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        self.open.retain(|_, request| !request.is_finished());
        let message: Value = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(error) => {
                let rule = format!("a line must be one JSON message: {}", plain::json(&error));
                let _closed = self.output.send(error_to(&Value::Null, PARSE_ERROR, &rule)).await;
                return Ok(());
            }
        };
        match (message.get("method").and_then(Value::as_str), message.get("id")) {
            (Some("notifications/initialized"), None) if !self.has_handshake => {
                self.has_handshake = true;
                self.follow_changes();
            }
            (Some("notifications/cancelled"), None) => {
                let request = message.pointer("/params/requestId").map(Value::to_string);
                if let Some(request) = request.and_then(|id| self.open.remove(&id)) {
                    request.abort();
                }
            }
            (Some(method), Some(id)) => {
                let (id, is_stream) = (id.to_string(), method == LISTEN);
                let revision = Arc::clone(&self.revision);
                let asked = ask(self.client.clone(), message, revision, self.output.clone());
                let request = self.tasks.spawn(asked);
                if is_stream {
                    self.streams.push(request.clone());
                }
                self.open.insert(id, request);
            }
            // The engine asks its clients for nothing, so an answer answers nothing.
            (Some(_) | None, None) | (None, Some(_)) => {}
        }
        Ok(())
    }

    /// Follows the changes of the list of tools. Clients of revisions without a handshake ask for that themselves.
    fn follow_changes(&mut self) {
        let changes = follow_changes(self.client.clone(), self.output.clone());
        self.streams.push(self.tasks.spawn(changes));
    }

    /// Sends requests to another engine from now on.
    fn move_to(&mut self, client: Client) {
        self.client = client;
        self.end_streams();
        if self.has_handshake {
            self.follow_changes();
        }
    }

    /// Ends the requests that have no end of their own.
    fn end_streams(&mut self) {
        for stream in self.streams.drain(..) {
            stream.abort();
        }
    }
}

/// Sends a request and passes its answers on.
async fn ask(
    client: Client,
    message: Value,
    revision: Arc<Mutex<Option<String>>>,
    output: mpsc::Sender<Value>,
) -> Ended {
    let headers = headers_of(&message, revision.lock().clone());
    let is_handshake = message.get("method").and_then(Value::as_str) == Some("initialize");
    let asked = async {
        let mut answer: McpAnswer = client.mcp(&message, &headers).await?;
        while let Some(answer) = answer.next().await? {
            if is_handshake && let Some(agreed) = answer.pointer("/result/protocolVersion") {
                *revision.lock() = agreed.as_str().map(str::to_owned);
            }
            if output.send(answer).await.is_err() {
                break;
            }
        }
        Ok::<(), Failure>(())
    };
    match asked.await {
        Ok(()) => Ended::Answered,
        Err(failure) => {
            let id = message.get("id").unwrap_or(&Value::Null);
            let _closed = output
                .send(error_to(id, INTERNAL_ERROR, &failure.to_string()))
                .await;
            if failure.exit == Exit::Unavailable {
                Ended::Unreachable
            } else {
                Ended::Answered
            }
        }
    }
}

/// Passes the changes on, across lost connections. Ends when the engine refuses.
async fn follow_changes(client: Client, output: mpsc::Sender<Value>) -> Ended {
    loop {
        let followed = async {
            let mut changes = client.mcp_changes().await?;
            while let Some(change) = changes.next().await? {
                if output.send(change).await.is_err() {
                    break;
                }
            }
            Ok::<(), Failure>(())
        };
        match followed.await {
            Err(failure) if failure.exit != Exit::Unavailable => return Ended::Answered,
            Ok(()) | Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Makes the answer to a request that failed.
fn error_to(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// Returns the headers that repeat parts of a request (MCP 2026-07-28, Streamable HTTP). `agreed` is the revision of the
/// handshake.
fn headers_of(message: &Value, agreed: Option<String>) -> Vec<(&'static str, String)> {
    let text = |pointer: &str| {
        message
            .pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let method = text("/method").unwrap_or_default();
    let own = message
        .pointer("/params/_meta")
        .and_then(|meta| meta.get(PROTOCOL_VERSION));
    let revision = own.and_then(Value::as_str).map(str::to_owned).or(agreed);
    let name = match method.as_str() {
        "tools/call" | "prompts/get" => text("/params/name"),
        "resources/read" => text("/params/uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => text("/params/taskId"),
        _ => None,
    };
    let headers = [
        ("mcp-protocol-version", revision),
        ("mcp-method", Some(method)),
        ("mcp-name", name),
    ];
    headers
        .into_iter()
        .filter_map(|(header, value)| Some((header, in_header(&value?))))
        .collect()
}

/// Returns a text as the value of a header: as it is, or in Base64 if a header cannot have it.
fn in_header(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && text.trim() == text;
    if is_plain && !text.starts_with("=?") {
        text.to_owned()
    } else {
        format!("=?base64?{}?=", STANDARD.encode(text))
    }
}
