//! A server that answers with the bytes a test gives it, and what a call to it needs.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, State},
    http::{HeaderMap, Response, StatusCode},
};
use futures_util::{StreamExt, stream};
use serde_json::Value;
use sortie_agent::model::{Deltas, Model, ModelError, Reply, Request, Task, ToolDefinition, Turn};
use sortie_api::{
    Credential,
    model::{ModelInfo, ModelPrices},
};
use sortie_net::{EngineClient, Timeouts, install_crypto};
use tokio::{net::TcpListener, task::JoinSet};

use crate::provider::{Entry, Provider};

pub(crate) const KEY: &str = "sk-hush";

/// What the server says to one request.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) chunks: Vec<Bytes>,
    /// Whether the connection breaks after the chunks.
    pub(crate) breaks: bool,
}

impl Said {
    /// A stream of these events, one chunk each.
    pub(crate) fn events<S: AsRef<str>>(events: impl IntoIterator<Item = S>) -> Self {
        let chunks = events
            .into_iter()
            .map(|event| Bytes::from(format!("data: {}\n\n", event.as_ref())));
        Self {
            status: 200,
            headers: vec![("content-type", "text/event-stream")],
            chunks: chunks.collect(),
            breaks: false,
        }
    }

    /// A failure with this body.
    pub(crate) fn failure(status: u16, body: &'static str) -> Self {
        Self {
            status,
            headers: vec![("content-type", "application/json")],
            chunks: vec![Bytes::from_static(body.as_bytes())],
            breaks: false,
        }
    }

    /// The same bytes in other pieces, which end at `cuts`.
    pub(crate) fn cut_at(mut self, cuts: &[usize]) -> Self {
        let mut whole = Bytes::from(self.chunks.concat());
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (whole.len() + 1)).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let mut taken = 0;
        self.chunks = cuts
            .into_iter()
            .map(|cut| {
                let piece = whole.split_to(cut - taken);
                taken = cut;
                piece
            })
            .collect();
        self.chunks.push(whole);
        self
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    pub(crate) from: SocketAddr,
}

#[derive(Default)]
struct Shared {
    script: Mutex<VecDeque<Said>>,
    asked: Mutex<Vec<Asked>>,
}

/// A running server; it stops with its handle.
pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    _task: JoinSet<io::Result<()>>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        install_crypto();
        let shared = Arc::new(Shared::default());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut task = JoinSet::new();
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        task.spawn(async move { axum::serve(listener, service).await });
        Self {
            address,
            shared,
            _task: task,
        }
    }

    /// The next request gets this.
    pub(crate) fn says(&self, said: Said) {
        self.shared.script.lock().unwrap().push_back(said);
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    pub(crate) fn provider(&self) -> Provider {
        provider(&format!("http://{}/v1", self.address))
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    request: axum::extract::Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    shared.asked.lock().unwrap().push(Asked {
        path: parts.uri.path().to_owned(),
        headers: parts.headers,
        body: serde_json::from_slice(&body).unwrap(),
        from,
    });
    let said = shared.script.lock().unwrap().pop_front();
    let said = said.unwrap_or_else(|| Said::failure(500, "the script is over"));
    let end = said
        .breaks
        .then(|| Err(io::Error::from(io::ErrorKind::ConnectionReset)));
    let frames: Vec<io::Result<Bytes>> = said.chunks.into_iter().map(Ok).chain(end).collect();
    let body = Body::from_stream(stream::iter(frames).then(|frame| async move {
        tokio::task::yield_now().await;
        frame
    }));
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(said.status).unwrap();
    for (name, value) in said.headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}

/// A provider at this address.
pub(crate) fn provider(base: &str) -> Provider {
    install_crypto();
    let patient = Duration::from_secs(30);
    Provider {
        name: "here".to_owned(),
        base: base.parse().unwrap(),
        key: Some(Credential::new(KEY)),
        http: EngineClient::new(Timeouts {
            connect: patient,
            read: patient,
            total: None,
        })
        .unwrap(),
    }
}

/// A model that can do these things.
pub(crate) fn entry(capabilities: &[&str]) -> Entry {
    Entry {
        info: ModelInfo {
            id: "ours".to_owned(),
            provider: "here".to_owned(),
            name: "Ours".to_owned(),
            context_window: 100_000,
            max_output_tokens: 1_000,
            prices: ModelPrices::default(),
            capabilities: capabilities.iter().map(|&name| name.to_owned()).collect(),
        },
        upstream: "theirs".to_owned(),
    }
}

pub(crate) const SHELL: ToolDefinition<'_> = ToolDefinition {
    name: "shell",
    description: "Runs a command.",
    parameters: r#"{"type": "object", "properties": {"command": {"type": "string"}}}"#,
};

/// A request with one tool.
pub(crate) fn request(transcript: &[Turn]) -> Request<'_> {
    Request {
        system: "Be brief.",
        task: Task {
            prompt: "List the files.",
            input: None,
            input_file: None,
            output_schema: None,
        },
        transcript,
        tools: &[SHELL],
        max_tokens: 77,
    }
}

/// Keeps the text as it streams.
#[derive(Default)]
pub(crate) struct Streamed(Mutex<Vec<String>>);

impl Streamed {
    pub(crate) fn pieces(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Deltas for Streamed {
    fn text(&self, piece: &str) {
        self.0.lock().unwrap().push(piece.to_owned());
    }
}

/// Calls a model once, after the server was told what to say.
pub(crate) async fn call(server: &Server, model: &dyn Model, said: Said) -> Result<Reply, ModelError> {
    server.says(said);
    model.call(request(&[]), &Streamed::default()).await
}
