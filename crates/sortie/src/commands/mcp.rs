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
/// JSON-RPC: the JSON is no message.
const INVALID_REQUEST: i32 = -32_600;
/// JSON-RPC: the server failed.
const INTERNAL_ERROR: i32 = -32_603;

const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const LISTEN: &str = "subscriptions/listen";

/// Serves the client at standard input until that ends and every request is answered.
pub(super) async fn serve(context: &Context, args: &McpArgs) -> Result<Exit> {
    let config = context.node_config(&args.node)?;
    let connection = context.open(&config, Need::Work).await?;
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
        changes: None,
    };
    let mut interrupted = interruption();
    let mut has_ended = false;
    while !has_ended || !requests.tasks.is_empty() {
        tokio::select! {
            // Answers leave before more messages come in.
            biased;
            () = &mut interrupted => return Err(Failure::left()),
            Some(answer) = answers.recv() => print(&answer)?,
            Some(ended) = requests.tasks.join_next() => {
                if matches!(ended, Ok(Outcome::Unreachable)) && connection.find_again().await? {
                    for unanswered in requests.move_to(connection.client.for_mcp()?) {
                        print(&unanswered)?;
                    }
                }
            }
            message = messages.recv(), if !has_ended => {
                let Some(message) = message else {
                    has_ended = true;
                    requests.end_streams();
                    continue;
                };
                if let Some(answer) = requests.take(&message?) {
                    print(&answer)?;
                }
            }
        }
    }
    while let Ok(answer) = answers.try_recv() {
        print(&answer)?;
    }
    Ok(Exit::Success)
}

fn print(message: &Value) -> Result<()> {
    Ok(terminal::print_line(&message.to_string())?)
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

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The engine has answered, or refused.
    Answered,
    /// The engine could not be reached, or its answer ended early.
    Unreachable,
}

impl Outcome {
    fn of(failure: &Failure) -> Self {
        // A rate limit is an answer.
        if failure.exit == Exit::Unavailable && failure.retry_after.is_none() {
            Self::Unreachable
        } else {
            Self::Answered
        }
    }
}

/// Request without an answer yet.
struct OpenRequest {
    id: Value,
    task: AbortHandle,
    /// Whether it ends only with its connection.
    is_stream: bool,
}

/// Requests to the engine that have no answer yet.
struct Requests {
    client: Client,
    output: mpsc::Sender<Value>,
    /// Revision that the handshake agreed on. Later revisions have none: each request names its own.
    revision: Arc<Mutex<Option<String>>>,
    tasks: JoinSet<Outcome>,
    /// By the text of their IDs.
    open: HashMap<String, OpenRequest>,
    /// Stream of changes, after a handshake.
    changes: Option<AbortHandle>,
}

impl Requests {
    /// Takes a message of the client. Returns the answer if the message is none.
    fn take(&mut self, line: &[u8]) -> Option<Value> {
        if line.trim_ascii().is_empty() {
            return None;
        }
        self.open.retain(|_, request| !request.task.is_finished());
        let message: Value = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(error) => {
                let rule = format!("a line must be one JSON message: {}", plain::json(&error));
                return Some(error_to(&Value::Null, PARSE_ERROR, &rule));
            }
        };
        if !message.is_object() {
            let rule = "a line must be one JSON-RPC message, and an object";
            return Some(error_to(&Value::Null, INVALID_REQUEST, rule));
        }
        match (message.get("method").and_then(Value::as_str), message.get("id")) {
            (Some("notifications/initialized"), None) if self.changes.is_none() => self.follow_changes(),
            (Some("notifications/cancelled"), None) => {
                let request = message.pointer("/params/requestId").map(Value::to_string);
                if let Some(request) = request.and_then(|id| self.open.remove(&id)) {
                    request.task.abort();
                }
            }
            (Some(method), Some(id)) => {
                let (id, is_stream) = (id.clone(), method == LISTEN);
                let revision = Arc::clone(&self.revision);
                let asked = ask(self.client.clone(), message, revision, self.output.clone());
                let task = self.tasks.spawn(asked);
                let request = OpenRequest { id, task, is_stream };
                self.open.insert(request.id.to_string(), request);
            }
            // The engine asks its clients for nothing, so an answer answers nothing.
            (Some(_) | None, None) | (None, Some(_)) => {}
        }
        None
    }

    /// Follows the changes of the list of tools. Clients of revisions without a handshake ask for that themselves.
    fn follow_changes(&mut self) {
        let changes = follow_changes(self.client.clone(), self.output.clone());
        self.changes = Some(self.tasks.spawn(changes));
    }

    /// Sends requests to another engine from now on. Returns answers to the requests that the earlier one did not end.
    fn move_to(&mut self, client: Client) -> Vec<Value> {
        self.client = client;
        let has_handshake = self.changes.is_some();
        let unanswered = self.end_streams();
        if has_handshake {
            self.follow_changes();
        }
        unanswered
    }

    /// Ends the requests that end only with their connection. Returns answers to them.
    fn end_streams(&mut self) -> Vec<Value> {
        if let Some(changes) = self.changes.take() {
            changes.abort();
        }
        let streams = self
            .open
            .extract_if(|_, request| request.is_stream && !request.task.is_finished());
        streams
            .map(|(_, stream)| {
                stream.task.abort();
                error_to(
                    &stream.id,
                    INTERNAL_ERROR,
                    "the engine has ended; subscribe again",
                )
            })
            .collect()
    }
}

/// Sends a request and passes its answers on.
async fn ask(
    client: Client,
    message: Value,
    revision: Arc<Mutex<Option<String>>>,
    output: mpsc::Sender<Value>,
) -> Outcome {
    let headers = headers_of(&message, revision.lock().clone());
    let is_handshake = message.get("method").and_then(Value::as_str) == Some("initialize");
    let id = message.get("id").unwrap_or(&Value::Null);
    let asked = async {
        let mut answers: McpAnswer = client.mcp(&message, &headers).await?;
        while let Some(answer) = answers.next().await? {
            if is_handshake && let Some(agreed) = answer.pointer("/result/protocolVersion") {
                *revision.lock() = agreed.as_str().map(str::to_owned);
            }
            let is_last = answer.get("id") == Some(id) && answer.get("method").is_none();
            if output.send(answer).await.is_err() || is_last {
                return Ok(());
            }
        }
        Err(Failure::unavailable("the engine ended its answer early"))
    };
    match asked.await {
        Ok(()) => Outcome::Answered,
        Err(failure) => {
            let error = error_to(id, INTERNAL_ERROR, &failure.to_string());
            // It fails when this program ends.
            let _ends = output.send(error).await;
            Outcome::of(&failure)
        }
    }
}

/// Passes the changes on, across lost connections. Ends when the engine refuses.
async fn follow_changes(client: Client, output: mpsc::Sender<Value>) -> Outcome {
    let mut was_open = false;
    loop {
        let followed = async {
            let mut changes = client.mcp_changes().await?;
            // A change while nothing was open has no message.
            if std::mem::replace(&mut was_open, true) {
                let missed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                let _ends = output.send(missed).await;
            }
            while let Some(change) = changes.next().await? {
                if output.send(change).await.is_err() {
                    break;
                }
            }
            Ok::<(), Failure>(())
        };
        let pause = match followed.await {
            Ok(()) => PAUSE,
            Err(failure) if failure.exit == Exit::Unavailable => failure.retry_after.unwrap_or(PAUSE),
            Err(_) => return Outcome::Answered,
        };
        tokio::time::sleep(pause).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_its_revision_its_method_and_its_name_in_headers() {
        let legacy = json!({"method": "tools/call", "params": {"name": "größe"}});
        assert_eq!(
            headers_of(&legacy, Some("2025-06-18".to_owned())),
            [
                ("mcp-protocol-version", "2025-06-18".to_owned()),
                ("mcp-method", "tools/call".to_owned()),
                ("mcp-name", "=?base64?Z3LDtsOfZQ==?=".to_owned()),
            ]
        );
        let modern = json!({"method": "tasks/get", "params": {
            "taskId": "run_1", "_meta": {PROTOCOL_VERSION: "2026-07-28"}
        }});
        assert_eq!(
            headers_of(&modern, None),
            [
                ("mcp-protocol-version", "2026-07-28".to_owned()),
                ("mcp-method", "tasks/get".to_owned()),
                ("mcp-name", "run_1".to_owned()),
            ]
        );
        let first = json!({"method": "initialize", "params": {"name": "x"}});
        assert_eq!(
            headers_of(&first, None),
            [("mcp-method", "initialize".to_owned())]
        );
    }

    #[test]
    fn a_text_that_a_header_cannot_have_is_encoded() {
        for plain in ["a", "a b", "sortie://runs/x", "~"] {
            assert_eq!(in_header(plain), plain);
        }
        for other in [" a", "a ", "\n", "\u{7f}", "ü", "=?base64?YQ==?="] {
            assert_eq!(in_header(other), format!("=?base64?{}?=", STANDARD.encode(other)));
        }
    }
}
