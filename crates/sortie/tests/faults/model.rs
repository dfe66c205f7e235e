//! A model server for many concurrent runs. It derives its answers from the conversation, not from a script, and can be
//! made to hang, to flood or to flap.

use std::{
    io,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use axum::{
    Router,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
    routing::post,
};
use futures_util::stream;
use sortie_testkit::{
    http::{StatusCode, header},
    serve::Serving,
};

use crate::prelude::*;

/// Tokens that each complete answer reports, and their cost at the prices of [`CONFIG`], in micros.
const TOKENS: (u64, u64) = (1_000, 10);
pub(crate) const CALL_MICROS: u64 = 3 * TOKENS.0 + 15 * TOKENS.1;
/// Model calls of a run: two tools and the answer.
pub(crate) const CALLS: usize = 3;

/// Behaviour of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// The server answers.
    Well,
    /// The server accepts requests and stays silent until the client disconnects.
    Hangs,
    /// The answer never ends: text upon text.
    Floods,
    /// The answer is an endless line.
    OneLine,
    /// Failures, limits, broken streams and answers, in turn.
    Flaps,
}

const MOODS: [Mood; 5] = [Mood::Well, Mood::Hangs, Mood::Floods, Mood::OneLine, Mood::Flaps];

#[derive(Debug, Default)]
struct Shared {
    mood: AtomicUsize,
    asked: AtomicU64,
    answered: AtomicU64,
    given_up: AtomicU64,
}

/// Text that a flood repeats, 16 bytes.
pub(crate) const FLOOD: &str = "xxxxxxxxxxxxxxxx";

/// An unanswered request: dropped when the client disconnects.
struct Unanswered(Arc<Shared>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.given_up.fetch_add(1, Ordering::SeqCst);
    }
}

/// The server.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) server: Serving,
    shared: Arc<Shared>,
}

impl Model {
    pub(crate) async fn start() -> Result<Self> {
        let shared = Arc::<Shared>::default();
        let router = Router::new()
            .route("/v1/chat/completions", post(answer))
            .with_state(Arc::clone(&shared));
        let server = Serving::start(router).await?;
        Ok(Self { server, shared })
    }

    pub(crate) fn set(&self, mood: Mood) {
        let index = MOODS.iter().position(|known| *known == mood).unwrap_or_default();
        self.shared.mood.store(index, Ordering::SeqCst);
    }

    /// Requests received, and answers that were sent completely as far as the server knows.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        (count(&self.shared.asked), count(&self.shared.answered))
    }

    /// Unanswered requests that the client has abandoned.
    pub(crate) fn given_up(&self) -> u64 {
        self.shared.given_up.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn mood(&self) -> Mood {
        MOODS[self.mood.load(Ordering::SeqCst)]
    }
}

/// The configuration of a node that uses this server as `scripted`, at 3 and 15 dollars a million tokens.
pub(crate) fn config(base_url: &str) -> String {
    format!(
        "default_model = \"runbook\"\n[providers.test]\napi = \"openai-chat\"\nbase_url = \"{base_url}/v1\"\n\
         [models.scripted]\nprovider = \"test\"\nupstream = \"scripted\"\ncontext_window = 100000\n\
         max_output_tokens = 4096\ninput_micros_per_mtok = 3000000\noutput_micros_per_mtok = 15000000\n\
         capabilities = [\"tools\", \"structured_output\"]\n"
    )
}

fn broken() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

fn chunk(delta: &Value, reason: Option<&str>) -> String {
    let choice = json!([{"index": 0, "delta": delta, "finish_reason": reason}]);
    format!("data: {}\n\n", json!({"choices": choice}))
}

fn streamed(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

async fn answer(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let nth = shared.asked.fetch_add(1, Ordering::SeqCst);
    let said = String::from_utf8_lossy(&body).into_owned();
    match (shared.mood(), nth % 4) {
        (Mood::Hangs, _) => {
            let _unanswered = Unanswered(shared);
            std::future::pending().await
        }
        (mood @ (Mood::Floods | Mood::OneLine), _) => flood(mood, shared),
        (Mood::Flaps, 0) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        (Mood::Flaps, 1) => (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "1")]).into_response(),
        (Mood::Flaps, 2) => {
            let begun = Ok(Bytes::from(chunk(&json!({"content": "half an ans"}), None)));
            streamed(Body::from_stream(stream::iter([begun, Err(broken())])))
        }
        (Mood::Well | Mood::Flaps, _) => {
            shared.answered.fetch_add(1, Ordering::SeqCst);
            streamed(Body::from(reply(&said)))
        }
    }
}

/// Writes while the client reads and the mood lasts, 16 KiB at once.
fn flood(mood: Mood, shared: Arc<Shared>) -> Response {
    let piece = match mood {
        Mood::OneLine => Bytes::from("x".repeat(16 << 10)),
        Mood::Floods | Mood::Well | Mood::Hangs | Mood::Flaps => {
            Bytes::from(chunk(&json!({"content": FLOOD.repeat(1 << 10)}), None))
        }
    };
    let first = (mood == Mood::OneLine).then(|| Ok(Bytes::from_static(b"data: ")));
    let rest = stream::unfold(shared, move |shared| {
        let piece = piece.clone();
        async move {
            let next = if shared.mood() == mood {
                Ok(piece)
            } else {
                Err(broken())
            };
            tokio::task::yield_now().await;
            Some((next, shared))
        }
    });
    streamed(Body::from_stream(futures_util::StreamExt::chain(
        stream::iter(first),
        rest,
    )))
}

/// The next step of a conversation: two tools, then the answer, which is the task's own number.
fn reply(said: &str) -> String {
    let results = said.matches("\"role\":\"tool\"").count();
    let task: String = said
        .split("task number ")
        .nth(1)
        .unwrap_or_default()
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect();
    let call = |name: &str, arguments: Value| {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        json!({"tool_calls": [{"index": 0, "id": format!("call_{results}"), "type": "function", "function": function}]})
    };
    let (delta, reason) = match results {
        0 => (
            call("write_file", json!({"path": "note.txt", "content": task})),
            "tool_calls",
        ),
        1 => (call("list_files", json!({})), "tool_calls"),
        _ => (json!({"content": format!("done {task}")}), "stop"),
    };
    let usage = json!({"choices": [], "usage": {"prompt_tokens": TOKENS.0, "completion_tokens": TOKENS.1}});
    let events = [
        chunk(&delta, None),
        chunk(&json!({}), Some(reason)),
        format!("data: {usage}\n\ndata: [DONE]\n\n"),
    ];
    events.concat()
}
