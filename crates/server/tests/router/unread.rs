//! Refusals that leave a body unread: the connection stays open, or the answer announces that it is closed.

use sortie_api::{Run, limits::BODY_BYTES};
use sortie_server::Options;
use sortie_testkit::{PATIENCE, processes::in_use, until_within};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

use crate::prelude::*;

/// Time limit for the close of a connection. A client that does not read is closed after 30 seconds, and an idle one after a
/// minute.
const CLOSES: Duration = Duration::from_secs(20);

/// Refused requests: their line and headers, and their status.
fn refused(key: &str) -> [(String, u16); 4] {
    let json = "content-type: application/json\r\n";
    let key = format!("authorization: Bearer {key}\r\n");
    rows! {
        format!("POST /v1/runs HTTP/1.1\r\n{key}content-type: text/plain\r\n"), 400;
        format!("POST /v1/runs HTTP/1.1\r\n{json}"), 401;
        format!("POST /v1/nothing HTTP/1.1\r\n{key}{json}"), 404;
        format!("DELETE /v1/runs HTTP/1.1\r\n{key}{json}"), 405;
    }
}

/// Reads one answer: its status, its headers and its body.
async fn answer(stream: &mut TcpStream) -> (u16, String, String) {
    let read = async {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let length = head.split("content-length: ").nth(1).unwrap();
        let length = length.split("\r\n").next().unwrap().parse().unwrap();
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head, String::from_utf8(body).unwrap())
    };
    tokio::time::timeout(PATIENCE, read).await.unwrap()
}

async fn send(rig: &Rig, head: &str, length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(rig.address).await.unwrap();
    let head = format!("{head}host: x\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn a_connection_goes_on_behind_a_refusal_of_a_short_body() {
    let rig = Rig::start().await;
    for (head, status) in refused(&rig.member_key) {
        let mut stream = send(&rig, &head, 60_000).await;
        stream.write_all(&vec![b' '; 60_000]).await.unwrap();
        let (seen, headers, body) = answer(&mut stream).await;
        assert_eq!(seen, status, "{body}");
        assert!(!headers.contains("connection: close"), "{headers}");
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        assert_eq!(answer(&mut stream).await.0, 200, "{head}");
    }
}

#[tokio::test]
async fn a_refusal_of_a_long_body_closes_its_connection_and_says_so() {
    let rig = Rig::start().await;
    for (head, status) in refused(&rig.member_key) {
        let mut stream = send(&rig, &head, 700_000).await;
        // A client that sends the whole body before it reads.
        stream.write_all(&vec![b' '; 700_000]).await.unwrap();
        let (seen, headers, body) = answer(&mut stream).await;
        assert_eq!(seen, status, "{body}");
        assert!(headers.contains("connection: close"), "{headers}");
        let ended = tokio::time::timeout(CLOSES, stream.read(&mut [0])).await;
        assert_eq!(ended.unwrap().unwrap(), 0, "{head}");
    }
    let head = refused(&rig.member_key)[0]
        .0
        .replace("text/plain", "application/json");
    let mut stream = send(&rig, &head, BODY_BYTES + 1).await;
    let (seen, headers, _) = {
        let (read, mut write) = stream.split();
        let body = vec![b' '; BODY_BYTES + 1];
        let (_sent, ready) = tokio::join!(write.write_all(&body), read.readable());
        ready.unwrap();
        answer(&mut stream).await
    };
    assert_eq!(seen, 413);
    assert!(!headers.contains("connection: close"), "it was read to its end");
}

#[tokio::test]
async fn a_client_that_waits_to_be_asked_for_its_body_is_refused_without_it() {
    let rig = Rig::start().await;
    for (head, status) in refused(&rig.member_key) {
        let head = format!("{head}expect: 100-continue\r\n");
        let mut stream = send(&rig, &head, 1_000).await;
        let (seen, headers, _) = answer(&mut stream).await;
        assert_eq!(seen, status, "nothing else comes first");
        assert!(headers.contains("connection: close"), "{headers}");
    }
}

/// Value of a metric.
async fn metric(rig: &Rig, name: &str) -> u64 {
    let text = rig.admin.get("/metrics").await.unwrap().text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().parse().unwrap()
}

/// Waits until this number of connections is open.
async fn until_open(rig: &Rig, limit: Duration, count: u64) {
    let look = async || Ok(metric(rig, "sortie_connections_open").await);
    let open = until_within(limit, "other connections", look, |open| *open == count).await;
    open.unwrap();
}

/// A client that has requested this path and reads nothing. Its receive buffer holds 4 KiB.
async fn asked(rig: &Rig, path: &str) -> TcpStream {
    asked_with(rig, path, "HTTP/1.1").await
}

/// Client like that of [`asked`], with this version of the protocol. The answer of `HTTP/1.0` is not in chunks.
pub(crate) async fn asked_with(rig: &Rig, path: &str, version: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut stream = socket.connect(rig.address).await.unwrap();
    let request = format!(
        "GET {path} {version}\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n",
        rig.member_key
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// `docs/API.md#large-answers`: the default limit is 30 seconds.
#[tokio::test]
async fn a_client_that_does_not_read_is_closed() {
    assert_eq!(Options::default().stall, Duration::from_secs(30));
    let stall = Duration::from_millis(100);
    let rig = Rig::start_with(sortie_api::Mode::SelfHosted, Options { stall, ..options() }).await;
    let content = "x".repeat(4 << 20);
    let definition = json!({"prompt": "x", "files": [{"path": "a", "content": content}]});
    let body = Bytes::from(definition.to_string());
    let saved = rig.admin.send(Method::PUT, "/v1/workflows/large", body).await;
    saved.unwrap().expect(201).unwrap();
    let mut stream = asked(&rig, "/v1/workflows/large").await;
    stream.readable().await.unwrap();
    // The other connection is that of the metrics request.
    until_open(&rig, CLOSES, 1).await;
    let mut answer = Vec::new();
    let _broken_off = stream.read_to_end(&mut answer).await;
    assert!(answer.len() < 4 << 20, "{}", answer.len());
}

/// Connects 300 clients that request these paths in turn and read nothing. Returns once the node has closed them all.
async fn unread(rig: &Rig, paths: &[String; 2]) -> Vec<TcpStream> {
    let mut clients = Vec::new();
    for path in paths.iter().cycle().take(300) {
        clients.push(asked(rig, path).await);
    }
    for client in &clients {
        client.readable().await.unwrap();
    }
    until_open(rig, 3 * CLOSES, 1).await;
    clients
}

/// `docs/API.md#large-answers`: no memory of an answer is kept once its connection is closed.
#[tokio::test]
async fn what_clients_that_do_not_read_have_held_is_free_once_they_are_closed() {
    // The allocator has the settings of a node.
    sortie_sandbox::give_back_large_blocks();
    let stall = Duration::from_millis(500);
    let rig = Rig::start_with(sortie_api::Mode::SelfHosted, Options { stall, ..options() }).await;
    let content = "x".repeat(4 << 20);
    let definition = json!({"prompt": "x", "shell": false, "files": [{"path": "a", "content": content}]});
    let body = Bytes::from(definition.to_string());
    let saved = rig.admin.send(Method::PUT, "/v1/workflows/large", body).await;
    saved.unwrap().expect(201).unwrap();
    let (_, run) = rig.member.complete(&json!({"workflow": "large"})).await.unwrap();
    let paths = [
        "/v1/workflows/large".to_owned(),
        format!("/v1/runs/{}/definition", run.id),
    ];
    let mut clients = unread(&rig, &paths).await;
    // Some stand for all, of both paths: what the kernel has of an answer comes in small pieces.
    for client in clients.iter_mut().step_by(29) {
        let mut answer = Vec::new();
        let _broken_off = client.read_to_end(&mut answer).await;
        assert!(answer.starts_with(b"HTTP/1.1 200"));
        assert!(answer.len() < 4 << 20, "{}", answer.len());
    }
    // The process keeps a part of what the first ones have held. It is free for the next ones.
    let own = std::process::id();
    let before = in_use(own).unwrap().memory;
    for _ in 0..2 {
        unread(&rig, &paths).await;
    }
    // The server notices after a moment that the last ones are closed.
    let rise = async || Ok(in_use(own).unwrap().memory.saturating_sub(before));
    let freed = sortie_testkit::until("free memory", rise, |rise| *rise < 32 << 20).await;
    freed.unwrap();
}

/// `docs/API.md#large-answers`: a text sent in pieces is identical to one sent whole.
#[tokio::test]
async fn a_stream_of_large_events_has_what_their_array_has() {
    let rig = Rig::start().await;
    // The answer of the run repeats its prompt, and JSON escapes most of it.
    let prompt = "x\u{2028}\"".repeat(26_000);
    let (events, done) = rig.member.complete(&plain(&prompt)).await.unwrap();
    let longest = events.iter().map(|event| event.data.get().len()).max().unwrap();
    assert!(longest > 128 * 1024, "{longest}");
    let stored = rig.engine.store().get_run(rig.org, done.id).await.unwrap();
    assert_eq!(json!(done), json!(stored));
    let listed = array_of_events(&rig, &done).await;
    // During the run, and afterwards.
    assert_eq!(json!(events), listed);
    let (events, again) = rig.member.finished(&done.id.to_string()).await.unwrap();
    assert_eq!((json!(events), json!(again)), (listed, json!(stored)));
}

async fn array_of_events(rig: &Rig, run: &Run) -> Value {
    let array = rig.member.with_header("accept", "application/json");
    let path = format!("/v1/runs/{}/events", run.id);
    array.get(&path).must_json(200).await
}

/// `docs/API.md#large-answers`: events that are in memory alone are sent as those of the store are.
#[tokio::test]
async fn a_stream_of_large_events_that_are_not_stored_has_what_their_array_has() {
    let rig = Rig::start_in_memory().await;
    let mut request = plain(&"x\u{2028}\"".repeat(26_000));
    request["zero_data_retention"] = json!(true);
    let (events, done) = rig.member.complete(&request).await.unwrap();
    let longest = events.iter().map(|event| event.data.get().len()).max().unwrap();
    assert!(longest > 128 * 1024, "{longest}");
    assert_eq!(json!(events), array_of_events(&rig, &done).await);
    let (events, _) = rig.member.finished(&done.id.to_string()).await.unwrap();
    assert_eq!(json!(events), array_of_events(&rig, &done).await);
}

/// `docs/OPERATIONS.md#how-large`: half of the descriptors are reserved.
#[tokio::test]
async fn metrics_tell_the_open_connections_and_the_reserved_descriptors() {
    let rig = Rig::start().await;
    assert_eq!(metric(&rig, "sortie_connections_open").await, 1);
    let mut idle = Vec::new();
    for _ in 0..3 {
        idle.push(TcpStream::connect(rig.address).await.unwrap());
    }
    until_open(&rig, PATIENCE, 4).await;
    drop(idle);
    let limit = sortie_engine::Descriptors::of_process().limit.unwrap();
    assert_eq!(
        metric(&rig, "sortie_descriptors_reserved").await,
        limit - limit / 2
    );
    for reason in ["gave_way", "refused"] {
        let name = format!("sortie_connections_closed_total{{reason=\"{reason}\"}}");
        assert_eq!(metric(&rig, &name).await, 0);
    }
}

/// `docs/API.md#unread-bodies`: where the next request would begin is unknown.
#[tokio::test]
async fn a_refusal_of_a_body_that_cannot_be_read_closes_its_connection_and_says_so() {
    let rig = Rig::start().await;
    let head = refused(&rig.member_key)[0]
        .0
        .replace("text/plain", "application/json");
    for chunks in ["ZZ\r\n", "2\r\n{ 9\r\n"] {
        let mut stream = TcpStream::connect(rig.address).await.unwrap();
        let request = format!("{head}host: x\r\ntransfer-encoding: chunked\r\n\r\n{chunks}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let (seen, headers, body) = answer(&mut stream).await;
        assert_eq!(seen, 400, "{body}");
        assert!(headers.contains("connection: close"), "{headers}");
        let ended = tokio::time::timeout(CLOSES, stream.read(&mut [0])).await;
        assert_eq!(ended.unwrap().unwrap(), 0, "{chunks}");
    }
}

/// `docs/API.md#unread-bodies`: the library gives no answer that could be replaced.
#[tokio::test]
async fn the_preface_of_http_2_closes_the_connection() {
    let rig = Rig::start().await;
    let mut stream = TcpStream::connect(rig.address).await.unwrap();
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let ended = tokio::time::timeout(CLOSES, stream.read_to_end(&mut answer)).await;
    ended.unwrap().unwrap();
    assert!(answer.is_empty());
}

/// The routes never see such a request.
#[tokio::test]
async fn a_malformed_request_is_refused_with_a_body_and_an_id() {
    let rig = Rig::start().await;
    let fields = "x: y\r\n".repeat(120);
    let long = "y".repeat(200_000);
    for (request, status) in rows! {
        "NONSENSE\r\n\r\n".to_owned(), 400;
        "GET / HTTP/9.9\r\nhost: x\r\n\r\n".to_owned(), 400;
        "GET / HTTP/1.1\r\nho st: x\r\n\r\n".to_owned(), 400;
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n".to_owned(), 400;
        format!("GET / HTTP/1.1\r\nhost: x\r\n{fields}\r\n"), 431;
        format!("GET / HTTP/1.1\r\nhost: x\r\nx: {long}\r\n\r\n"), 431;
        format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"), 431;
        // An address may have 65,534 bytes.
        format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "y".repeat(65_534)), 414;
    } {
        let mut stream = TcpStream::connect(rig.address).await.unwrap();
        // Also after a successful answer.
        let first = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
        stream.write_all(first).await.unwrap();
        assert_eq!(answer(&mut stream).await.0, 200);
        stream.write_all(request.as_bytes()).await.unwrap();
        let (seen, headers, body) = answer(&mut stream).await;
        let shown: String = request.chars().take(60).collect();
        assert_eq!(seen, status, "{shown}: {headers}");
        let body: sortie_api::ErrorBody = serde_json::from_str(&body).unwrap();
        assert_eq!(body.code, sortie_api::ErrorCode::InvalidRequest);
        for header in [
            "x-request-id: ",
            "content-type: application/json",
            "connection: close",
            "date: ",
        ] {
            assert!(headers.contains(header), "{shown}: {headers}");
        }
        let ended = tokio::time::timeout(CLOSES, stream.read(&mut [0])).await;
        assert_eq!(ended.unwrap().unwrap(), 0, "{shown}");
    }
}

#[tokio::test]
async fn the_refusal_of_a_request_too_many_says_so_as_well() {
    let rig = Rig::start_with(
        sortie_api::Mode::SelfHosted,
        Options {
            anonymous_requests_per_minute: 0,
            ..options()
        },
    )
    .await;
    let head = "POST /v1/runs HTTP/1.1\r\n";
    let mut stream = send(&rig, head, 500_000).await;
    let (seen, headers, _) = answer(&mut stream).await;
    assert_eq!(seen, 429);
    assert!(headers.contains("connection: close"), "{headers}");
    // The client never sends the rest: the connection is still closed.
    let ended = tokio::time::timeout(CLOSES, stream.read(&mut [0])).await;
    assert_eq!(ended.unwrap().unwrap(), 0);
}
