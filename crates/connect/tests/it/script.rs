//! A scripted MCP server over streamable HTTP, of the newest revision or an older one.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::any,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::rig::Serving;

/// Handler of requests that the server does not handle; `None` for a 404.
type Handler = dyn Fn(&Value, &Seen) -> Option<Response> + Send + Sync;

/// A server and its received requests.
pub(crate) struct Script {
    pub(crate) seen: Arc<Seen>,
    pub(crate) serving: Serving,
}

/// Requests to a server, and its known sessions.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) requests: Mutex<Vec<(HeaderMap, Value)>>,
    pub(crate) sessions: AtomicUsize,
    pub(crate) deleted: AtomicUsize,
    pub(crate) streams: AtomicUsize,
}

impl Seen {
    pub(crate) fn count(&self, method: &str) -> usize {
        let requests = self.requests.lock();
        requests
            .iter()
            .filter(|(_, body)| body["method"] == method)
            .count()
    }

    pub(crate) fn header(&self, method: &str, name: &str) -> Option<String> {
        let requests = self.requests.lock();
        let (headers, _) = requests.iter().rfind(|(_, body)| body["method"] == method)?;
        Some(headers.get(name)?.to_str().unwrap().to_owned())
    }
}

/// Revision of a server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2026-07-28: no handshake, no session.
    Modern,
    /// A revision with `initialize` and sessions.
    Older(&'static str),
}

struct Server {
    era: Era,
    handler: Box<Handler>,
    seen: Arc<Seen>,
}

impl Script {
    /// A server with `tools`, which answers calls with `call`.
    pub(crate) async fn start(
        era: Era,
        tools: Value,
        call: impl Fn(&Value, &Seen) -> Response + Send + Sync + 'static,
    ) -> Self {
        Self::handling(era, move |request, seen| match request["method"].as_str() {
            Some("tools/list") => Some(result(
                request,
                &json!({"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}),
            )),
            Some("tools/call") => Some(call(request, seen)),
            _ => None,
        })
        .await
    }

    /// A server that passes everything except the handshake to a handler.
    pub(crate) async fn handling(
        era: Era,
        handler: impl Fn(&Value, &Seen) -> Option<Response> + Send + Sync + 'static,
    ) -> Self {
        let seen = Arc::new(Seen::default());
        let server = Arc::new(Server {
            era,
            handler: Box::new(handler),
            seen: Arc::clone(&seen),
        });
        let router = Router::new().route("/mcp", any(answer)).with_state(server);
        Self {
            seen,
            serving: Serving::start(router).await,
        }
    }
}

async fn answer(
    State(server): State<Arc<Server>>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if method == Method::DELETE {
        server.seen.deleted.fetch_add(1, Ordering::SeqCst);
        return StatusCode::OK.into_response();
    }
    if method == Method::GET {
        server.seen.streams.fetch_add(1, Ordering::SeqCst);
    }
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let session = headers.get("mcp-session-id").cloned();
    server.seen.requests.lock().push((headers, request.clone()));
    match (request["method"].as_str(), server.era) {
        (Some("server/discover"), Era::Modern) => {
            let found = json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
                "ttlMs": 0,
                "cacheScope": "private"
            });
            result(&request, &found)
        }
        (Some("initialize"), Era::Older(version)) => {
            let session = server.seen.sessions.fetch_add(1, Ordering::SeqCst) + 1;
            let started = json!({
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "script", "version": "1"}
            });
            let mut response = result(&request, &started);
            response
                .headers_mut()
                .insert("mcp-session-id", session.to_string().parse().unwrap());
            response
        }
        (Some("notifications/initialized"), Era::Older(_)) => StatusCode::ACCEPTED.into_response(),
        (Some("server/discover"), Era::Older(_)) if session.is_none() => {
            (StatusCode::BAD_REQUEST, "no session").into_response()
        }
        _ => {
            (server.handler)(&request, &server.seen).unwrap_or_else(|| StatusCode::NOT_FOUND.into_response())
        }
    }
}

/// A JSON response with `value`.
pub(crate) fn json_response(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

/// The JSON-RPC result of a request.
pub(crate) fn result(request: &Value, result: &Value) -> Response {
    json_response(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
}

/// A tool result with one text.
pub(crate) fn text(request: &Value, text: &str) -> Response {
    result(
        request,
        &json!({"resultType": "complete", "content": [{"type": "text", "text": text}]}),
    )
}

/// An event stream with this text.
pub(crate) fn events(body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, "text/event-stream")], body.into()).into_response()
}

/// A tool that accepts any arguments.
pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "description": format!("does {name}"), "inputSchema": {"type": "object"}})
}

/// A tool that declares to be read-only.
pub(crate) fn reading_tool(name: &str) -> Value {
    let mut tool = tool(name);
    tool["annotations"] = json!({"readOnlyHint": true});
    tool
}
