//! Runs with a model over HTTP: this program contains a scripted, streaming server for Chat Completions.
//!
//! The request determines the response, so no script is necessary: the prompt contains the number of tool calls and the delay,
//! and the conversation contains the calls so far.

use std::{
    convert::Infallible,
    io::Write as _,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use axum::{Router, body::Body, response::Response, routing::post};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Method, header};
use http_body_util::BodyExt;
use serde_json::json;
use sortie_testkit::{Node, NodeOptions, serve::Serving};
use tempfile::NamedTempFile;
use tokio::{task::JoinSet, time::sleep};

use crate::{
    Bench,
    connection::Connection,
    load::{complete, complete_for, contains, per_second},
    process::{cpu, cpu_each, resident},
    report::Report,
    run::Run,
    samples::{Millis, Samples},
};

/// Number of runs that wait for their model concurrently.
const WAITING: usize = 2_000;
/// Duration of a call of the slow model.
const SLOW: Duration = Duration::from_secs(5);
/// Number of tool calls in the run for the measurement of turns.
const TURNS: u32 = 100;
/// Number of pieces in the text for the measurement of latency.
const DELTAS: usize = 200;
/// Interval between two pieces.
const BETWEEN: Duration = Duration::from_millis(10);

/// Number of requests to the model server so far.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// Reference time of the timestamps in the pieces.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The model server, and the configuration file that defines it for a node.
pub(crate) struct ModelServer {
    _server: Serving,
    config: NamedTempFile,
}

impl ModelServer {
    pub(crate) async fn start() -> Result<Self> {
        let router = Router::new().route("/v1/chat/completions", post(answer));
        let server = Serving::start(router).await?;
        let mut config = NamedTempFile::new()?;
        write!(
            config,
            "default_model = \"scripted\"\n[providers.bench]\napi = \"openai-chat\"\nbase_url = \"{}/v1\"\n\
             [models.scripted]\nprovider = \"bench\"\ncontext_window = 1000000\nmax_output_tokens = 8192\n\
             input_micros_per_mtok = 1000000\noutput_micros_per_mtok = 4000000\n",
            server.base_url()
        )?;
        Ok(Self {
            _server: server,
            config,
        })
    }

    /// Starts a node with this model as default.
    pub(crate) async fn node(&self, bench: &Bench) -> Result<Node> {
        let file = self.config.path().to_str().context("a path that is no text")?;
        bench
            .node_with(NodeOptions::default().env("SORTIE_CONFIG", file))
            .await
    }
}

/// Returns the number of requests so far.
pub(crate) fn calls() -> u64 {
    CALLS.load(Ordering::Relaxed)
}

/// Returns the number after a word of the prompt.
fn told(body: &[u8], word: &str) -> Option<u64> {
    let text = std::str::from_utf8(body).ok()?;
    let rest = text.split_once(word)?.1;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..digits)?.parse().ok()
}

fn count(body: &[u8], part: &[u8]) -> u64 {
    body.windows(part.len()).filter(|window| window == &part).count() as u64
}

async fn answer(body: Bytes) -> Response {
    CALLS.fetch_add(1, Ordering::Relaxed);
    if let Some(millis) = told(&body, "wait-for-") {
        sleep(Duration::from_millis(millis)).await;
    }
    let tools = told(&body, "tools-to-call-").unwrap_or(0);
    let called = count(&body, br#""role":"tool""#);
    let frames = if called < tools {
        vec![
            chunk(
                r#"{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"list_files","arguments":""}}]}"#,
                "null",
            ),
            chunk(
                r#"{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}"#,
                "null",
            ),
            chunk("{}", "\"tool_calls\""),
            usage(),
        ]
    } else if contains(&body, b"say-when") {
        return stamped();
    } else {
        vec![
            chunk(r#"{"role":"assistant","content":""}"#, "null"),
            chunk(r#"{"content":"Hello"}"#, "null"),
            chunk(r#"{"content":", world."}"#, "null"),
            chunk("{}", "\"stop\""),
            usage(),
        ]
    };
    streaming(stream::iter(frames.into_iter().map(Ok::<_, Infallible>)))
}

/// Returns pieces of text that each contain their time of sending.
fn stamped() -> Response {
    let pieces = stream::iter(0..DELTAS).then(|_| async {
        sleep(BETWEEN).await;
        let text = format!(r#"{{"content":"<{}>"}}"#, EPOCH.elapsed().as_nanos());
        chunk(&text, "null")
    });
    let end = stream::iter([chunk("{}", "\"stop\""), usage()]);
    streaming(pieces.chain(end).map(Ok::<_, Infallible>))
}

fn streaming(
    frames: impl futures_util::Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
) -> Response {
    let mut response = Response::new(Body::from_stream(frames));
    let kind = header::HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn chunk(delta: &str, reason: &str) -> Bytes {
    format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"scripted\",\
         \"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{reason}}}]}}\n\n"
    )
    .into()
}

fn usage() -> Bytes {
    Bytes::from_static(
        b"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"scripted\",\"choices\":[],\
          \"usage\":{\"prompt_tokens\":100,\"completion_tokens\":10,\"total_tokens\":110}}\n\ndata: [DONE]\n\n",
    )
}

/// Returns a run without a shell: its tools access the working directory and start no processes.
pub(crate) fn request(prompt: &str) -> Bytes {
    json!({"prompt": prompt, "timeout_seconds": 3600, "shell": false, "max_cost_micros": 100_000_000})
        .to_string()
        .into()
}

/// Runs all measurements.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("streamed model") {
        return Ok(());
    }
    let model = ModelServer::start().await?;
    for concurrency in [1, 16, 64] {
        rate(bench, report, &model, ("tool-free", "hello"), concurrency).await?;
    }
    for concurrency in [16, 64] {
        rate(
            bench,
            report,
            &model,
            ("two-tool", "tools-to-call-2"),
            concurrency,
        )
        .await?;
    }
    turns(bench, report, &model).await?;
    waiting(bench, report, &model).await?;
    deltas(bench, report, &model).await
}

async fn rate(
    bench: &Bench,
    report: &mut Report,
    model: &ModelServer,
    (kind, prompt): (&str, &str),
    concurrency: usize,
) -> Result<()> {
    let node = model.node(bench).await?;
    let before = cpu(&node)?;
    let request = request(prompt);
    let done = complete_for(&[&node], concurrency, bench.seconds, move || request.clone()).await?;
    let each = cpu_each(&node, before, done.completed, bench.seconds)?;
    report.add(
        format!("complete {kind} runs with a streamed model, {concurrency} at once"),
        format!("{:.0}/s", per_second(done.completed, bench.seconds)?),
    );
    report.add(
        format!("… {kind}, {concurrency} at once: CPU of the node a run"),
        Millis(each).to_string(),
    );
    report.add(
        format!("… {kind}, {concurrency} at once: POST to `done`, p50 / p99"),
        done.done.to_string(),
    );
    Ok(())
}

/// Measures a turn of model and tool in a long run.
async fn turns(bench: &Bench, report: &mut Report, model: &ModelServer) -> Result<()> {
    let node = model.node(bench).await?;
    let (mut creating, mut following) = (Connection::to(&node)?, Connection::to(&node)?);
    let (mut short, mut long) = (Samples::default(), Samples::default());
    for _ in 0..10 {
        let plain = complete(&mut creating, &mut following, &request("hello")).await?;
        let many = request(&format!("tools-to-call-{TURNS}"));
        short.add(plain.done);
        long.add(complete(&mut creating, &mut following, &many).await?.done);
    }
    let each = long.percentile(50).saturating_sub(short.percentile(50)) / TURNS;
    report.add(
        "one turn of a streamed model call, a file tool and their events, p50",
        Millis(each).to_string(),
    );
    Ok(())
}

/// Measures thousands of runs that wait for a slow model. Their starts are spread over the duration of its calls.
async fn waiting(bench: &Bench, report: &mut Report, model: &ModelServer) -> Result<()> {
    let node = model.node(bench).await?;
    let prompt = request(&format!("wait-for-{}", SLOW.as_millis()));
    let before = resident(&node)?;
    let mut clients = JoinSet::new();
    for at in 0..WAITING {
        let (mut creating, mut following) = (Connection::to(&node)?, Connection::to(&node)?);
        let prompt = prompt.clone();
        let begin = SLOW * u32::try_from(at)? / u32::try_from(WAITING)?;
        clients.spawn(async move {
            sleep(begin).await;
            let mut added = Vec::new();
            for _ in 0..2 {
                let done = complete(&mut creating, &mut following, &prompt).await?.done;
                added.push(done.saturating_sub(SLOW));
            }
            // The first runs open the connections.
            Ok::<_, anyhow::Error>(added.split_off(1))
        });
    }
    // At this time all runs wait: the earliest clients are in their second run.
    sleep(SLOW + SLOW / 2).await;
    let held = resident(&node)?.saturating_sub(before) / u64::try_from(WAITING)?;
    let mut samples = Samples::default();
    while let Some(added) = clients.join_next().await {
        samples.extend(added??);
    }
    report.add(
        "2,000 runs that wait for a streamed model: added delay, p50 / p99",
        samples.to_string(),
    );
    report.add(
        "… memory of each, with its connections to the model and to its reader",
        format!("{:.1} KiB", f64::from(u32::try_from(held)?) / 1024.0),
    );
    Ok(())
}

/// Measures the latency from the model to a reader of the stream, for each piece.
async fn deltas(bench: &Bench, report: &mut Report, model: &ModelServer) -> Result<()> {
    let node = model.node(bench).await?;
    let (mut creating, mut following) = (Connection::to(&node)?, Connection::to(&node)?);
    let run: Run = creating
        .call(Method::POST, "/v1/runs", request("say-when"), 202)
        .await?;
    let path = format!("/v1/runs/{}/events?deltas=true", run.id);
    let mut body = following
        .send(Method::GET, &path, Bytes::new())
        .await?
        .into_body();
    let mut samples = Samples::default();
    while let Some(frame) = body.frame().await {
        let Ok(bytes) = frame?.into_data() else { continue };
        let now = EPOCH.elapsed();
        if !contains(&bytes, b"event: message_delta") {
            continue;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let stamps = text
            .split('<')
            .skip(1)
            .filter_map(|rest| rest.split_once('>')?.0.parse().ok());
        samples.extend(stamps.map(|nanos| now.saturating_sub(Duration::from_nanos(nanos))));
    }
    anyhow::ensure!(
        samples.len() * 10 > DELTAS * 9,
        "only {} pieces came",
        samples.len()
    );
    report.add(
        "a piece of text from a streamed model to a reader, p50 / p99",
        samples.to_string(),
    );
    Ok(())
}
