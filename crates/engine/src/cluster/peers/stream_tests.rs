//! Event streams of other nodes that this node passes on.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    sync::mpsc,
    thread::{self, JoinHandle},
};

use futures_util::TryStreamExt as _;
use sortie_api::{Refusal, Timestamp};
use sortie_store::{
    access::{Actor, By, Caller},
    nodes::NodeId,
};

use super::*;
use crate::runs::hub::PassedEnd;
use sortie_base::MasterKey;

/// Stream of a run with zero data retention, with `deltas=true`.
const STREAM: &str = r#": connected
retry: 2000
id: 1
event: status
data: {"id":1,"type":"status","data":{"status":"running"},"created_at":"2026-11-23T00:22:22.802Z"}

event: message_delta
data: {"text":"It is \"quoted\",\n","step":1}

: heartbeat
event: message_delta
data: {"text":"über, \u2028 and <b>","step":1}

event: done
data: {"id":"run_01m82wgka0fqtbq5j9yqfzybhg","status":"succeeded"}

"#;

/// Run of the stream.
const RUN: &str = "run_01m82wgka0fqtbq5j9yqfzybhg";

/// Client that follows the run.
const CLIENT: (&str, &str) = ("org_01m82wgk3xf0j9ztmdtbzhaa23", "key_01m82wgk3xe7yaq2bnpy4vzq5v");

/// Time of the request.
const AT: Timestamp = Timestamp::from_micros(1_795_393_342_801_832);

/// Answers one request with these pieces of a stream. Returns the request.
fn node_that_sends(
    pieces: impl Iterator<Item = Vec<u8>> + Send + 'static,
) -> (SocketAddr, JoinHandle<String>) {
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
        for piece in pieces {
            connection.write_all(&piece).unwrap();
        }
        String::from_utf8(request).unwrap()
    });
    (address, serving)
}

fn signer() -> Option<Signer> {
    Signer::new(&[MasterKey::new([1; 32])])
}

fn client() -> Peer {
    Peer {
        org: CLIENT.0.parse().unwrap(),
        by: By::Key(CLIENT.1.parse().unwrap()),
    }
}

/// Follows the run on the node at `address`.
async fn follow(address: SocketAddr) -> BoxStream<'static, Result<Arc<Batch>, Refusal>> {
    let peers = Peers::new(signer(), Clock::manual(AT), &Outbound::default()).unwrap();
    let holder = ContentHolder {
        node: NodeId(1),
        address: Some(format!("http://{address}")),
        is_lost: false,
        has_answer: true,
    };
    let caller = Caller {
        org: client().org,
        actor: Actor {
            by: Some(client().by),
            ..Actor::default()
        },
    };
    let events = PeerStream {
        target: "events?after=0&deltas=true".to_owned(),
        last_line: b"event: done\n",
    };
    let stream = peers.follow(&holder, &caller, RUN.parse().unwrap(), events);
    stream.await.unwrap()
}

/// Text and end of a batch of another node's stream.
fn passed(batch: &Batch) -> (&str, PassedEnd) {
    let passed = batch.passed().unwrap();
    (std::str::from_utf8(&passed.bytes).unwrap(), passed.end)
}

#[tokio::test]
async fn another_node_is_asked_by_a_signed_request_and_its_stream_is_passed_on_whole() {
    let pieces = STREAM.as_bytes().chunks(61).map(<[u8]>::to_vec);
    let (address, serving) = node_that_sends(pieces);
    let batches: Vec<Arc<Batch>> = follow(address).await.try_collect().await.unwrap();
    let request = serving.join().unwrap();
    let target = format!("/v1/runs/{RUN}/events?after=0&deltas=true");
    assert!(
        request.starts_with(&format!("GET {target} HTTP/1.1\r\n")),
        "{request}"
    );
    let signature = request
        .lines()
        .find_map(|line| line.strip_prefix(PEER_HEADER)?.strip_prefix(": "))
        .unwrap();
    let verified = signer().unwrap().verify(("GET", &target), signature, AT);
    assert_eq!(verified, Some(client()));
    let read: String = batches.iter().map(|batch| passed(batch).0).collect();
    // The node that passes the stream on sends its own opening and heartbeats.
    let is_own = |line: &&str| !line.starts_with(':') && !line.starts_with("retry: ");
    let sent: String = STREAM.split_inclusive('\n').filter(is_own).collect();
    assert_eq!(read, sent);
    assert!(batches.last().unwrap().is_last());
}

/// `docs/API.md#large-answers`: the rest of the message is sent after its beginning was read.
#[tokio::test]
async fn a_large_message_of_another_node_is_passed_on_while_it_comes() {
    const LARGE: usize = 1 << 20;
    let (go_on, read) = mpsc::channel();
    let head = b"id: 1\nevent: message\ndata: ".to_vec();
    let half = vec![b'x'; LARGE / 2];
    let pieces = [head, half.clone()].into_iter();
    let rest = read
        .into_iter()
        .chain([b"\n\nevent: done\ndata: {}\n\n".to_vec()]);
    let (address, serving) = node_that_sends(pieces.chain(rest));
    let mut stream = follow(address).await;
    let (mut bytes, mut go_on) = (0, Some(go_on));
    loop {
        let batch = stream.try_next().await.unwrap().unwrap();
        let (text, end) = passed(&batch);
        assert!(text.len() <= PIECE_BYTES + 16, "{}", text.len());
        bytes += text.len();
        if end == PassedEnd::Done {
            break;
        }
        assert_eq!(end, PassedEnd::Within);
        if bytes > LARGE / 2
            && let Some(go_on) = go_on.take()
        {
            go_on.send(half.clone()).unwrap();
        }
    }
    assert!(bytes > LARGE);
    assert!(stream.try_next().await.unwrap().is_none());
    serving.join().unwrap();
}

/// `docs/API.md#large-answers`: a client can see that an answer is incomplete.
#[tokio::test]
async fn a_stream_of_another_node_that_ends_within_a_message_is_broken_off() {
    for (sent, is_whole) in [
        ("id: 1\nevent: status\ndata: {}\n\n", true),
        ("id: 1\nevent: status\ndata: {}\n", false),
        (
            "id: 1\nevent: status\ndata: {}\n\nid: 2\nevent: message\ndata: {\"te",
            false,
        ),
    ] {
        let (address, serving) = node_that_sends([sent.as_bytes().to_vec()].into_iter());
        let all: Result<Vec<_>, Refusal> = follow(address).await.try_collect().await;
        assert_eq!(all.is_ok(), is_whole, "{sent}");
        serving.join().unwrap();
    }
}
