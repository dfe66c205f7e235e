//! Test provider that sends exactly the given bytes and records its requests.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::Value;
use sortie_agent::{
    Media, Model,
    model::{Deltas, ModelError, Reply, Request, Task, ToolUse},
};
use sortie_api::{
    Credential, Micros,
    model::{ModelInfo, ModelPrices},
};
use sortie_net::{EngineClient, Timeouts};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::{
    Api,
    provider::{Entry, Provider},
};

/// Returns the protocol with this name.
pub(crate) fn api(name: &str) -> Api {
    Api::named(name).unwrap()
}

/// The key of every provider in these tests.
pub(crate) const KEY: &str = "sk-very-secret";

/// Time to wait for the end of a stream with a complete answer: long enough for a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Answer on a connection.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    bytes: Vec<u8>,
    then: Then,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Close,
    EndLate,
    Hold,
    Repeat,
}

impl Answer {
    /// A complete stream of these events.
    pub(crate) fn events(body: &str) -> Self {
        Self::raw(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    /// A stream of these events that ends shortly after the last one.
    pub(crate) fn ended_late(body: &str) -> Self {
        Self {
            then: Then::EndLate,
            ..Self::raw(format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n",
                body.len()
            ))
        }
    }

    /// A stream that breaks after these events.
    pub(crate) fn broken(body: &str) -> Self {
        Self::raw(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
            body.len() + 1
        ))
    }

    /// A stream that stays open and silent after these events.
    pub(crate) fn held(body: &str) -> Self {
        Self {
            then: Then::Hold,
            ..Self::broken(body)
        }
    }

    /// Sends nothing, not even a status.
    pub(crate) fn silent() -> Self {
        Self {
            then: Then::Hold,
            ..Self::raw(String::new())
        }
    }

    /// A stream that repeats these events forever.
    pub(crate) fn endless(body: &str) -> Self {
        Self {
            then: Then::Repeat,
            ..Self::raw(format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{body}"
            ))
        }
    }

    /// An answer with this status line, these headers (each with its line end) and this body.
    pub(crate) fn whole(status: &str, headers: &str, body: &str) -> Self {
        Self::packed(status, headers, body.as_bytes())
    }

    /// An answer with a binary body.
    pub(crate) fn packed(status: &str, headers: &str, body: &[u8]) -> Self {
        let head = format!(
            "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        );
        Self {
            bytes: [head.as_bytes(), body].concat(),
            then: Then::Close,
        }
    }

    /// Returns this answer with another status.
    pub(crate) fn with_status(self, status: &str) -> Self {
        let text = String::from_utf8(self.bytes).unwrap();
        Self {
            bytes: text.replacen("200 OK", status, 1).into_bytes(),
            ..self
        }
    }

    fn raw(text: String) -> Self {
        Self {
            bytes: text.into_bytes(),
            then: Then::Close,
        }
    }
}

/// The head and the body of a request.
type Asked = (String, Vec<u8>);

/// A running provider; dropping it stops it.
pub(crate) struct Server {
    pub(crate) provider: Provider,
    asked: Arc<Mutex<Vec<Asked>>>,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Sends one answer per connection, in order.
    pub(crate) async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let answers: Vec<Answer> = answers.into_iter().collect();
        Self::serving(async move |listener: TcpListener, kept: Arc<Mutex<Vec<Asked>>>| {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let request = read_request(&mut stream).await;
                kept.lock().push(request);
                give(&mut stream, &answer).await;
            }
        })
        .await
    }

    /// Sends one answer per request, all on the first connection.
    pub(crate) async fn on_one_connection(answers: impl IntoIterator<Item = Answer>) -> Self {
        let answers: Vec<Answer> = answers.into_iter().collect();
        Self::serving(async move |listener: TcpListener, kept: Arc<Mutex<Vec<Asked>>>| {
            let (mut stream, _) = listener.accept().await.unwrap();
            drop(listener);
            for answer in answers {
                let request = read_request(&mut stream).await;
                kept.lock().push(request);
                give(&mut stream, &answer).await;
            }
        })
        .await
    }

    async fn serving<F>(serve: impl FnOnce(TcpListener, Arc<Mutex<Vec<Asked>>>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, Arc::clone(&asked)));
        Self {
            provider: Provider {
                name: "acme".to_owned(),
                base: format!("http://{address}").parse().unwrap(),
                key: Some(Credential::new(KEY)),
                http: http(Duration::from_secs(20)),
                end_wait: PATIENCE,
            },
            asked,
            _tasks: tasks,
        }
    }

    /// Returns the number of requests so far.
    pub(crate) fn requests(&self) -> usize {
        self.asked.lock().len()
    }

    /// Returns the head of a request, in lower case.
    pub(crate) fn head(&self, number: usize) -> String {
        self.asked.lock()[number].0.to_ascii_lowercase()
    }

    /// Returns the body of a request.
    pub(crate) fn body(&self, number: usize) -> Value {
        serde_json::from_slice(&self.asked.lock()[number].1).unwrap()
    }
}

async fn give(stream: &mut TcpStream, answer: &Answer) {
    let body = answer.bytes.windows(4).position(|w| w == b"\r\n\r\n");
    let body = body.map_or(0, |end| end + 4);
    let mut rest = answer.bytes.as_slice();
    // An endless answer ends when the client closes the connection.
    while stream.write_all(rest).await.is_ok() {
        match answer.then {
            Then::Close => return,
            Then::EndLate => {
                for _ in 0..1_000 {
                    tokio::task::yield_now().await;
                }
                stream.write_all(b"0\r\n\r\n").await.unwrap();
                return;
            }
            Then::Hold => std::future::pending().await,
            Then::Repeat => rest = &answer.bytes[body..],
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Asked {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 8192];
        let length = stream.read(&mut chunk).await.unwrap();
        assert!(length > 0, "the request is cut off");
        bytes.extend_from_slice(&chunk[..length]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let length: usize = head
            .lines()
            .find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length: ")?
                    .parse()
                    .ok()
            })
            // A GET has no body.
            .unwrap_or_else(|| {
                assert!(head.starts_with("GET "), "a body of unknown length");
                0
            });
        if bytes.len() >= end + 4 + length {
            return (head, bytes[end + 4..].to_vec());
        }
    }
}

/// Calls a model and discards the deltas.
pub(crate) async fn ask(model: &dyn Model, request: Request<'_>) -> Result<Reply, ModelError> {
    model.call(request, &RecordedDeltas::default()).await
}

/// Creates a client that times out after this silence.
pub(crate) fn http(silence: Duration) -> EngineClient {
    let timeouts = Timeouts {
        connect: Duration::from_secs(20),
        read: silence,
        total: None,
    };
    EngineClient::new(timeouts).unwrap()
}

/// Creates an entry of the model `upstream` with these capabilities.
pub(crate) fn entry(upstream: &str, capabilities: &[&str]) -> Entry {
    let price = |micros| Micros::new(micros).unwrap();
    Entry {
        info: ModelInfo {
            id: "m".to_owned(),
            provider: "acme".to_owned(),
            name: "M".to_owned(),
            context_window: 200_000,
            max_output_tokens: 64_000,
            prices: ModelPrices {
                input_micros_per_mtok: price(3),
                output_micros_per_mtok: price(15),
                cache_read_micros_per_mtok: price(1),
                cache_write_micros_per_mtok: price(4),
            },
            capabilities: capabilities.iter().map(|&what| what.to_owned()).collect(),
        },
        upstream: upstream.to_owned(),
        effort: None,
    }
}

/// Encodes these values as the events of a body.
pub(crate) fn events(events: &[Value]) -> String {
    let lines: Vec<String> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    lines.concat()
}

/// A request with only the prompt "Say hello.".
pub(crate) const fn hello() -> Request<'static> {
    Request {
        system: "Be brief.",
        task: Task {
            prompt: "Say hello.",
            input: None,
            input_file: None,
            output_schema: None,
            environment: "",
            media: &[],
        },
        transcript: &[],
        tools: &[],
        max_tokens: 1_000,
        tool_use: ToolUse::Auto,
        effort: None,
        cache_key: "",
    }
}

/// Records the deltas of text.
#[derive(Debug, Default)]
pub(crate) struct RecordedDeltas(Mutex<Vec<String>>, Mutex<usize>);

impl RecordedDeltas {
    pub(crate) fn pieces(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    /// Number of bytes other than text.
    pub(crate) fn unseen(&self) -> usize {
        *self.1.lock()
    }
}

impl Deltas for RecordedDeltas {
    fn text(&self, piece: &str) {
        self.0.lock().push(piece.to_owned());
    }

    fn written(&self, bytes: usize) {
        *self.1.lock() += bytes;
    }
}

/// Splits `bytes` at these positions and passes the chunks through the event parser to a decoder, like a connection does.
pub(crate) fn decode<D: crate::answer::Decoder>(
    mut decoder: D,
    bytes: &[u8],
    cuts: &[usize],
) -> Result<sortie_agent::model::Reply, (crate::answer::Failure, sortie_agent::model::Usage)> {
    let mut parser = sortie_net::sse::Parser::new(1 << 20);
    let mut cuts: Vec<usize> = cuts.iter().map(|&at| at.min(bytes.len())).collect();
    cuts.push(bytes.len());
    cuts.sort_unstable();
    let mut from = 0;
    'stream: for to in cuts {
        let mut events = Vec::new();
        parser.push(&bytes[from..to], &mut events).unwrap();
        for event in events {
            match crate::answer::take(&mut decoder, &event, &RecordedDeltas::default()) {
                Ok(crate::answer::Flow::On) => {}
                Ok(crate::answer::Flow::Done) => break 'stream,
                Err(failure) => return Err((failure, decoder.usage())),
            }
        }
        from = to;
    }
    let usage = decoder.usage();
    decoder.finish().map_err(|failure| (failure, usage))
}

/// A picture of 20 by 10 pixels.
pub(crate) fn chart() -> Media {
    Media {
        media_type: "image/png".to_owned(),
        data: "aWNo".to_owned(),
        label: "chart.png: 20 x 10 pixels".to_owned(),
        pixels: Some((20, 10)),
        tokens: 0,
    }
}

/// A document.
pub(crate) fn report() -> Media {
    Media {
        media_type: "application/pdf".to_owned(),
        data: "cGRm".to_owned(),
        label: "report.pdf: 1 page".to_owned(),
        pixels: None,
        ..chart()
    }
}
