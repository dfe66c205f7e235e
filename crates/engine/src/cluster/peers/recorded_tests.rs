//! Requests to a node of the version before, and the stream that it sends: nodes of two versions work together while an
//! engine is updated (`docs/OPERATIONS.md#updating`).

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    thread::{self, JoinHandle},
};

use sortie_store::{Actor, By, NodeId};

use super::*;
use sortie_base::MasterKey;

/// A stream as a node of the version before sent it, of a run with zero data retention and with `deltas=true`.
const STREAM: &str = include_str!("recorded/stream.txt");

/// Run of the stream.
const RUN: &str = "run_01m82wgka0fqtbq5j9yqfzybhg";

/// Client that followed the run.
const CLIENT: (&str, &str) = ("org_01m82wgk3xf0j9ztmdtbzhaa23", "key_01m82wgk3xe7yaq2bnpy4vzq5v");

/// Time of the request, in microseconds.
const AT: i64 = 1_795_393_342_801_832;

/// Request of a node of the version before to the node that had the run.
const REQUEST: [&str; 2] = [
    "GET /v1/runs/run_01m82wgka0fqtbq5j9yqfzybhg/events?after=0&deltas=true HTTP/1.1",
    "x-sortie-peer: 1 1795393342801832 org_01m82wgk3xf0j9ztmdtbzhaa23 key_01m82wgk3xe7yaq2bnpy4vzq5v \
     a088d93a3367379c948b15d3a9e8d98fd6bb1e78eb8bba8d655eabb3cf8a2a63",
];

/// Answers one request with the stream, in pieces. Returns the request.
fn node_of_the_version_before() -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let (mut request, mut byte) = (Vec::new(), [0]);
        while !request.ends_with(b"\r\n\r\n") {
            connection.read_exact(&mut byte).unwrap();
            request.push(byte[0]);
        }
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        connection.write_all(head).unwrap();
        for piece in STREAM.as_bytes().chunks(61) {
            connection.write_all(piece).unwrap();
        }
        String::from_utf8(request).unwrap()
    });
    (address, serving)
}

/// The `event` field of a message of the stream, and its data.
fn form(message: &Message) -> (String, String) {
    match message {
        Message::Event(event) => (
            event.kind.clone(),
            format!(
                r#"{{"id":{},"type":"{}","data":{},"created_at":"{}"}}"#,
                event.seq, event.kind, event.data, event.created_at
            ),
        ),
        Message::Delta(delta) => (
            "message_delta".to_owned(),
            sortie_api::json::to_line(delta).unwrap(),
        ),
        Message::Done(run) => ("done".to_owned(), run.get().to_owned()),
        Message::Large(large) => panic!("{large:?}"),
    }
}

#[tokio::test]
async fn a_node_of_the_version_before_is_asked_in_its_form_and_its_stream_is_read_whole() {
    let (address, serving) = node_of_the_version_before();
    let signer = Signer::new(&[MasterKey::new([1; 32])]);
    let peers = Peers::new(signer, Clock::manual(Timestamp::from_micros(AT))).unwrap();
    let holder = ContentHolder {
        node: NodeId(1),
        address: Some(format!("http://{address}")),
        is_lost: false,
        has_answer: true,
    };
    let caller = Caller {
        org: CLIENT.0.parse().unwrap(),
        actor: Actor {
            by: Some(By::Key(CLIENT.1.parse().unwrap())),
            ..Actor::default()
        },
    };
    let stream = peers.follow(&holder, &caller, RUN.parse().unwrap(), (0, Deltas::Live));
    let batches: Vec<Arc<Batch>> = stream.await.unwrap().try_collect().await.unwrap();
    let request = serving.join().unwrap();
    for line in REQUEST {
        assert!(request.lines().any(|sent| sent == line), "{request}");
    }

    let read: Vec<_> = batches
        .iter()
        .flat_map(|batch| batch.messages())
        .map(form)
        .collect();
    let field = |block: &str, name: &str| {
        let mut lines = block.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.to_owned()))
    };
    let sent: Vec<_> = STREAM
        .split("\n\n")
        .filter_map(|block| Some((field(block, "event: ")?, field(block, "data: ")?)))
        .collect();
    assert_eq!(read, sent);
    assert_eq!(read.len(), 12);
    assert!(batches.last().unwrap().is_last());
    // Heartbeats pass unseen; and the test would be none without one, and without pieces of text.
    assert!(STREAM.contains("\n: heartbeat\n") && STREAM.contains("\nevent: message_delta\n"));
}
