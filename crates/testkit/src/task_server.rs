//! An MCP server that works on each call as a task.

use std::{collections::BTreeMap, io};

use anyhow::Context as _;
use axum::{
    Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::post,
};
use bytes::Bytes;
use http::{StatusCode, header::CONTENT_TYPE};
use serde_json::{Value, json};
use tokio::{sync::watch, time::timeout};

use crate::{PATIENCE, serve::Serving};

/// Result of each task.
pub const TASK_RESULT: &str = "the task is done";

/// A server with the tool `work`. Its tasks work until [`finish`](Self::finish).
#[derive(Debug)]
pub struct TaskServer {
    serving: Serving,
    state: watch::Sender<Tasks>,
}

/// Requests so far, and the present state of all tasks.
#[derive(Debug, Default)]
struct Tasks {
    requests: BTreeMap<String, usize>,
    status: TaskStatus,
}

#[derive(Clone, Copy, Debug, Default)]
enum TaskStatus {
    #[default]
    Working,
    Completed,
    Unknown,
}

impl TaskServer {
    /// Starts the server.
    pub async fn start() -> io::Result<Self> {
        let state = watch::Sender::default();
        let router = Router::new()
            .route("/mcp", post(answer))
            .with_state(state.clone());
        let serving = Serving::start(router).await?;
        Ok(Self { serving, state })
    }

    /// Returns the URL for a connection.
    pub fn url(&self) -> String {
        format!("{}/mcp", self.serving.base_url())
    }

    /// Completes all tasks, also those that are unknown.
    pub fn finish(&self) {
        self.state
            .send_modify(|tasks| tasks.status = TaskStatus::Completed);
    }

    /// Forgets all tasks.
    pub fn forget(&self) {
        self.state.send_modify(|tasks| tasks.status = TaskStatus::Unknown);
    }

    /// The number of requests with this method.
    pub fn count(&self, method: &str) -> usize {
        self.state.borrow().count(method)
    }

    /// Waits until there were so many requests with this method.
    pub async fn asked(&self, method: &str, count: usize) -> anyhow::Result<()> {
        let mut state = self.state.subscribe();
        let asked = timeout(PATIENCE, state.wait_for(|tasks| tasks.count(method) >= count)).await;
        asked.with_context(|| format!("there were not {count} requests {method}"))??;
        Ok(())
    }
}

impl Tasks {
    fn count(&self, method: &str) -> usize {
        self.requests.get(method).copied().unwrap_or_default()
    }
}

async fn answer(State(state): State<watch::Sender<Tasks>>, body: Bytes) -> Response {
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
    let mut status = TaskStatus::default();
    state.send_modify(|tasks| {
        *tasks.requests.entry(method.to_owned()).or_default() += 1;
        status = tasks.status;
    });
    let id = request.get("id");
    let answer = match answer_to(method, status) {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
    };
    ([(CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
}

fn answer_to(method: &str, status: TaskStatus) -> Result<Value, Value> {
    let result = match (method, status) {
        ("server/discover", _) => json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
            "ttlMs": 0,
            "cacheScope": "private"
        }),
        ("tools/list", _) => {
            let tool = json!({"name": "work", "description": "Works.", "inputSchema": {"type": "object"}});
            json!({"resultType": "complete", "tools": [tool], "ttlMs": 0, "cacheScope": "private"})
        }
        ("tools/call", _) => task("task", "working", &Value::Null),
        ("tasks/get", TaskStatus::Working) => task("complete", "working", &Value::Null),
        ("tasks/get", TaskStatus::Completed) => {
            let result = json!({"content": [{"type": "text", "text": TASK_RESULT}]});
            task("complete", "completed", &result)
        }
        ("tasks/get", TaskStatus::Unknown) => {
            return Err(json!({"code": -32602, "message": "unknown task"}));
        }
        ("tasks/cancel", _) => json!({"resultType": "complete"}),
        _ => return Err(json!({"code": -32601, "message": "unknown method"})),
    };
    Ok(result)
}

fn task(kind: &str, status: &str, result: &Value) -> Value {
    json!({
        "resultType": kind, "taskId": "task-1", "status": status, "createdAt": "2026-11-30T10:00:00Z",
        "lastUpdatedAt": "2026-11-30T10:00:00Z", "ttlMs": null, "pollIntervalMs": 100, "result": result
    })
}
