//! MCP servers of revision 2024-11-05, which send their responses over one event stream.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sortie_connect::{Auth, Connection, Failure, Status};
use sortie_testkit::rows;
use tokio::sync::{Notify, mpsc};

use crate::{
    rig::{Run, Serving, connector, mcp, secret},
    script::{events, reading_tool, tool},
};

/// Behaviour for one message.
enum Reply {
    /// Sends the result over the stream.
    Result(Value),
    /// Ends the stream.
    End,
    /// Sends these bytes over the stream.
    Events(String),
    /// Sends nothing.
    Nothing,
    /// Refuses the message.
    Refused(StatusCode),
}

type Handler = dyn Fn(&Value) -> Reply + Send + Sync;

/// A server of the revision, and its received requests.
struct Older {
    seen: Arc<Seen>,
    serving: Serving,
}

struct Seen {
    handler: Box<Handler>,
    /// Data of the first event.
    endpoint: String,
    /// Newest stream.
    stream: Mutex<Option<mpsc::UnboundedSender<String>>>,
    opened: AtomicUsize,
    opening: Mutex<Vec<HeaderMap>>,
    posted: Mutex<Vec<(HeaderMap, String, Value)>>,
    called: Notify,
}

impl Seen {
    fn posted(&self, method: &str) -> Vec<Value> {
        let posted = self.posted.lock();
        let messages = posted.iter().map(|(_, _, message)| message);
        messages
            .filter(|message| message["method"] == method)
            .cloned()
            .collect()
    }
}

async fn open(State(seen): State<Arc<Seen>>, headers: HeaderMap) -> Response {
    seen.opened.fetch_add(1, Ordering::SeqCst);
    seen.opening.lock().push(headers);
    let (send, receive) = mpsc::unbounded_channel();
    send.send(format!(": hello\n\nevent: endpoint\ndata: {}\n\n", seen.endpoint))
        .unwrap();
    *seen.stream.lock() = Some(send);
    let body = stream::unfold(receive, |mut receive| async move {
        let text = receive.recv().await?;
        Some((Ok::<_, std::io::Error>(text), receive))
    });
    events(Body::from_stream(body))
}

async fn take(
    State(seen): State<Arc<Seen>>,
    uri: axum::http::Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let message: Value = serde_json::from_slice(&body).unwrap();
    seen.posted
        .lock()
        .push((headers, uri.to_string(), message.clone()));
    let reply = match message["method"].as_str() {
        Some("initialize") => Reply::Result(json!({
            "protocolVersion": "2024-11-05",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "older", "version": "1"}
        })),
        Some("tools/list") => Reply::Result(json!({"tools": [tool("write"), reading_tool("read")]})),
        Some("tools/call") => {
            let reply = (seen.handler)(&message);
            seen.called.notify_one();
            reply
        }
        _ => Reply::Nothing,
    };
    let mut stream = seen.stream.lock();
    let sent = match reply {
        Reply::Result(result) => {
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            format!("event: message\ndata: {answer}\n\n")
        }
        Reply::Events(text) => text,
        Reply::End => {
            *stream = None;
            return StatusCode::ACCEPTED.into_response();
        }
        Reply::Nothing => return (StatusCode::ACCEPTED, "Accepted").into_response(),
        Reply::Refused(status) => return (status, "no").into_response(),
    };
    // The receiver is gone after the session has ended.
    let _sent = stream.as_ref().map(|stream| stream.send(sent));
    (StatusCode::ACCEPTED, "Accepted").into_response()
}

impl Older {
    async fn start(handler: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        Self::naming("/message?sessionId=1", handler).await
    }

    async fn naming(endpoint: &str, handler: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        let seen = Arc::new(Seen {
            handler: Box::new(handler),
            endpoint: endpoint.to_owned(),
            stream: Mutex::default(),
            opened: AtomicUsize::default(),
            opening: Mutex::default(),
            posted: Mutex::default(),
            called: Notify::new(),
        });
        let router = Router::new()
            .route("/sse", get(open))
            .route("/message", post(take))
            .with_state(Arc::clone(&seen));
        Self {
            seen,
            serving: Serving::start(router).await,
        }
    }

    async fn run(&self) -> Run {
        Run::open(&[mcp(self.serving.url("/sse"))]).await.unwrap()
    }
}

fn says(text: &str) -> Reply {
    Reply::Result(json!({"content": [{"type": "text", "text": text}]}))
}

#[tokio::test]
async fn a_server_is_listed_and_called_over_its_stream() {
    let server = Older::start(|message| says(&message["params"]["arguments"].to_string())).await;
    let report = connector().test(&mcp(server.serving.url("/sse"))).await;
    assert_eq!(report.status, Status::Ready, "{report:?}");
    assert_eq!(report.protocol_version.as_deref(), Some("2024-11-05"));
    let run = server.run().await;
    assert_eq!(run.names(), ["tools__write", "tools__read"]);
    let told = run.call("tools__write", &json!({"a": 1})).await;
    assert_eq!(told.as_deref(), Ok("{\"a\":1}"));
    let calls = run.recorder.calls();
    assert_eq!((calls[0].path.as_str(), calls[0].status), ("write", Some(202)));
    assert!(calls[0].bytes > 50 && calls[0].bytes < 200, "{}", calls[0].bytes);
    let stream = server.seen.stream.lock().clone().unwrap();
    run.opened.close().await;
    stream.closed().await;
}

#[tokio::test]
async fn credentials_go_with_the_stream_and_with_every_message_and_come_back_hidden() {
    let server = Older::start(|_| says("it was tok-secret-1")).await;
    let connection = Connection {
        auth: Auth::Bearer(secret("tok-secret-1")),
        ..mcp(server.serving.url("/sse"))
    };
    let run = Run::open(&[connection]).await.unwrap();
    let told = run.call("tools__read", &json!({})).await;
    assert_eq!(told.as_deref(), Ok("it was [redacted]"));
    let has_key = |headers: &HeaderMap| {
        headers
            .get("authorization")
            .is_some_and(|v| v == "Bearer tok-secret-1")
    };
    let opened = server.seen.opening.lock();
    assert!(!opened.is_empty() && opened.iter().all(has_key));
    let posted = server.seen.posted.lock();
    assert!(
        posted.len() == 4
            && posted
                .iter()
                .all(|(headers, uri, _)| { has_key(headers) && uri == "/message?sessionId=1" })
    );
}

/// A part of the URL counts as a credential, and the endpoint repeats it.
#[tokio::test]
async fn an_endpoint_with_a_credential_of_the_url_in_it_is_used_as_it_is() {
    let server = Older::naming("/message?key=key-0123456789abcdef01", |_| says("here")).await;
    let mut url = server.serving.url("/sse");
    url.set_query(Some("key=key-0123456789abcdef01"));
    let run = Run::open(&[mcp(url)]).await.unwrap();
    assert_eq!(run.call("tools__read", &json!({})).await.as_deref(), Ok("here"));
    let posted = server.seen.posted.lock();
    assert!(!posted.is_empty());
    for (_, uri, _) in posted.iter() {
        assert_eq!(uri, "/message?key=key-0123456789abcdef01");
    }
}

#[tokio::test]
async fn an_endpoint_of_another_origin_gets_nothing() {
    let reached = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reached);
    let elsewhere = Serving::start(Router::new().fallback(any(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async { "hello" }
    })))
    .await;
    let target = elsewhere.url("/message");
    for endpoint in [
        target.to_string(),
        format!("//127.0.0.1:{}/message", target.port().unwrap()),
    ] {
        let server = Older::naming(&endpoint, |_| Reply::Nothing).await;
        let error = Run::open(&[mcp(server.serving.url("/sse"))]).await.err().unwrap();
        assert_eq!(
            error.failure,
            Failure::Error(
                "the server names an endpoint of another origin than the connection has".to_owned()
            )
        );
        assert!(server.seen.posted.lock().is_empty());
    }
    assert_eq!(reached.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_stream_that_ends_costs_a_new_session_and_repeats_only_what_reads() {
    let calls = AtomicUsize::new(0);
    let server = Older::start(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => Reply::End,
        _ => says("done"),
    })
    .await;
    let run = server.run().await;
    let told = run.call("tools__write", &json!({})).await.unwrap_err();
    assert_eq!(
        told,
        "connection `tools`: the server ended its event stream; it is unknown whether the call took place"
    );
    assert_eq!(server.seen.posted("tools/call").len(), 1);
    assert_eq!(run.call("tools__read", &json!({})).await.as_deref(), Ok("done"));
    assert_eq!(server.seen.posted("tools/call").len(), 3);
    assert_eq!(server.seen.opened.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_message_that_the_endpoint_refuses_is_a_failed_call_and_the_next_opens_another_session() {
    let calls = AtomicUsize::new(0);
    let server = Older::start(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::Refused(StatusCode::NOT_FOUND),
        _ => says("done"),
    })
    .await;
    let run = server.run().await;
    let told = run.call("tools__write", &json!({})).await.unwrap_err();
    assert!(told.starts_with("connection `tools`: HTTP 404: no"), "{told}");
    assert_eq!(run.call("tools__write", &json!({})).await.as_deref(), Ok("done"));
    assert_eq!(server.seen.opened.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_call_without_an_answer_is_cancelled_and_its_session_given_up() {
    let calls = AtomicUsize::new(0);
    let server = Older::start(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::Nothing,
        _ => says("done"),
    })
    .await;
    let run = server.run().await;
    let clock = async {
        server.seen.called.notified().await;
        tokio::time::pause();
    };
    let nothing = json!({});
    let (told, ()) = tokio::join!(run.call("tools__write", &nothing), clock);
    assert_eq!(told, Err("the server did not answer within 120 s".to_owned()));
    tokio::time::resume();
    let cancelled = server.seen.posted("notifications/cancelled");
    let call = &server.seen.posted("tools/call")[0];
    assert_eq!(cancelled[0]["params"]["requestId"], call["id"]);
    assert_eq!(run.call("tools__write", &json!({})).await.as_deref(), Ok("done"));
    assert_eq!(server.seen.opened.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_endpoint_that_never_comes_fails_the_start_within_fifteen_seconds() {
    let asked = Arc::new(Notify::new());
    let tell = Arc::clone(&asked);
    let router = Router::new().route(
        "/sse",
        get(move || {
            tell.notify_one();
            async {
                events(Body::from_stream(
                    stream::pending::<Result<Bytes, std::io::Error>>(),
                ))
            }
        }),
    );
    let server = Serving::start(router).await;
    let connections = [mcp(server.url("/sse"))];
    let clock = async {
        asked.notified().await;
        tokio::time::pause();
        tokio::time::Instant::now()
    };
    let (opened, asked_at) = tokio::join!(Run::open(&connections), clock);
    assert_eq!(
        opened.err().unwrap().failure,
        Failure::Error("the server did not answer within 15 s".to_owned())
    );
    assert!(asked_at.elapsed() <= Duration::from_secs(16));
}

#[tokio::test]
async fn a_stream_that_brings_too_much_is_cut_off_at_the_start_and_in_a_call() {
    for (piece, why) in rows! {
        "data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "4194304 bytes";
        ": keep alive keep alive keep alive keep alive keep alive keep alive\n", "16777216 bytes";
    } {
        let router = Router::new().route(
            "/sse",
            get(move || async move {
                let endless = stream::repeat(Bytes::from_static(piece.as_bytes()));
                events(Body::from_stream(endless.map(Ok::<_, std::io::Error>)))
            }),
        );
        let server = Serving::start(router).await;
        let error = Run::open(&[mcp(server.url("/sse"))]).await.err().unwrap();
        let told = error.to_string();
        assert!(told.contains(&format!("larger than {why}")), "{told}");
    }
    let server = Older::start(|_| {
        let notification = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {
            "level": "info", "data": "x".repeat(1 << 20)
        }});
        Reply::Events(format!("data: {notification}\n\n").repeat(17))
    })
    .await;
    let run = server.run().await;
    let told = run.call("tools__write", &json!({})).await.unwrap_err();
    assert!(told.contains("larger than 16777216 bytes"), "{told}");
}

#[tokio::test]
async fn many_calls_together_may_bring_more_than_one() {
    let server = Older::start(|_| says(&"x".repeat(3 << 20))).await;
    let run = server.run().await;
    for _call in 0..7 {
        assert!(
            run.call("tools__read", &json!({}))
                .await
                .unwrap()
                .ends_with("left out …]")
        );
    }
    assert_eq!(server.seen.opened.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn messages_that_are_none_and_a_second_endpoint_are_skipped() {
    let server = Older::start(|message| {
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": "it"}]}});
        Reply::Events(format!(
            "event: endpoint\ndata: /elsewhere\n\ndata: {{\"no\": \"message\"}}\n\nevent: ping\ndata: 1\n\ndata: {answer}\n\n"
        ))
    })
    .await;
    let run = server.run().await;
    for _call in 0..2 {
        assert_eq!(run.call("tools__read", &json!({})).await.as_deref(), Ok("it"));
    }
}

#[tokio::test]
async fn a_url_that_is_neither_is_told_by_its_answer_to_the_message() {
    let router = Router::new().route("/sse", get(|| async { "<html>hello</html>" }));
    let server = Serving::start(router).await;
    let error = Run::open(&[mcp(server.url("/sse"))]).await.err().unwrap();
    assert_eq!(error.to_string(), "connection `tools`: HTTP 405");
}
