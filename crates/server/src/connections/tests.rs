use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio_util::task::TaskTracker;

use super::*;
use crate::{kit::BodyBudget, metrics::ConnectionMetrics};

const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

struct Fine;

impl Answers for Fine {
    fn new_request_id(&self) -> String {
        "7".to_owned()
    }

    async fn answers(&self, _peer: IpAddr, _request: Request<Body>) -> Response {
        Response::new(Body::from("fine"))
    }
}

/// Bytes of an answer of [`Large`].
const LARGE: usize = 1024 * 1024;

/// Answers with a memory reservation.
#[derive(Default)]
struct Large {
    bodies: BodyBudget,
    answered: AtomicUsize,
}

impl Large {
    fn has_room(&self) -> bool {
        self.bodies.answer_room_now(127 * LARGE).is_some()
    }
}

impl Answers for Large {
    fn new_request_id(&self) -> String {
        "7".to_owned()
    }

    async fn answers(&self, _peer: IpAddr, request: Request<Body>) -> Response {
        self.answered.fetch_add(1, Ordering::Relaxed);
        if request.method() == http::Method::HEAD {
            return Response::new(Body::empty());
        }
        let mut response = Response::new(Body::from(vec![b'x'; LARGE]));
        let room = self.bodies.answer_room(2 * LARGE).await.unwrap();
        response.extensions_mut().insert(room);
        response
    }
}

fn connections(most: usize) -> Connections {
    Connections::new(
        most,
        Vec::new(),
        Duration::from_secs(30),
        ConnectionMetrics::default(),
    )
}

/// Serves a client. The test controls how much the client reads.
fn served(answers: &Arc<Large>, connections: &Connections) -> DuplexStream {
    let (ours, theirs) = tokio::io::duplex(4096);
    let stop = CancellationToken::new();
    let place = connections.admit(PEER, &stop).unwrap();
    let answers = Arc::clone(answers);
    spawn_short(
        &TaskTracker::new(),
        serve_stream((ours, PEER, place), answers, stop),
    );
    theirs
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

#[tokio::test]
async fn idle_connections_give_way_to_one_that_sends_a_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    // Four connections from one address.
    let served = serve(listener, Arc::new(Fine), connections(8), stop.clone());
    let client = async {
        let mut idle = Vec::new();
        for _ in 0..4 {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        let mut asking = TcpStream::connect(address).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        asking.write_all(request).await.unwrap();
        let mut answer = String::new();
        asking.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("fine"), "{answer}");
        assert_eq!(idle[0].read(&mut [0]).await.unwrap(), 0, "it was the oldest");
        stop.cancel();
    };
    tokio::join!(served, client);
}

#[tokio::test]
async fn an_answer_that_is_not_read_has_its_room_and_its_connection_until_its_last_byte_is_sent() {
    let answers = Arc::new(Large::default());
    // One connection from each address.
    let (connections, stop) = (connections(2), CancellationToken::new());
    let mut theirs = served(&answers, &connections);
    theirs.write_all(GET).await.unwrap();
    // The library has read the whole body once it has written the header.
    let mut read = vec![0; 4096];
    theirs.read_exact(&mut read).await.unwrap();
    assert!(!answers.has_room());
    assert!(
        connections.admit(PEER, &stop).is_none(),
        "it would cut the answer off"
    );
    let mut rest = LARGE;
    let head = String::from_utf8_lossy(&read).find("\r\n\r\n").unwrap() + 4;
    rest -= read.len() - head;
    while rest > 4096 {
        theirs.read_exact(&mut read).await.unwrap();
        rest -= read.len();
        assert!(!answers.has_room());
    }
    theirs.read_exact(&mut read[..rest]).await.unwrap();
    while !answers.has_room() {
        tokio::task::yield_now().await;
    }
    assert!(
        connections.admit(PEER, &stop).is_some(),
        "it waits for its next request"
    );
    assert_eq!(theirs.read(&mut read).await.unwrap(), 0, "and has given way");
}

#[tokio::test]
async fn a_connection_that_ends_gives_the_room_of_its_answer_back() {
    let answers = Arc::new(Large::default());
    let mut theirs = served(&answers, &connections(2));
    theirs.write_all(GET).await.unwrap();
    theirs.read_exact(&mut [0; 100]).await.unwrap();
    assert!(!answers.has_room());
    drop(theirs);
    while !answers.has_room() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn requests_wait_until_the_answers_before_them_are_read() {
    const MOST: usize = 100;
    let answers = Arc::new(Large::default());
    let mut theirs = served(&answers, &connections(2));
    let request = b"HEAD / HTTP/1.1\r\nhost: x\r\n\r\n";
    // The client sends as long as the server reads.
    let sent = async {
        loop {
            theirs.write_all(request).await.unwrap();
        }
    };
    let pause = Duration::from_secs(1);
    assert!(tokio::time::timeout(pause, sent).await.is_err());
    let answered = answers.answered.load(Ordering::Relaxed);
    assert!(answered < MOST, "{answered}");
    let mut read = vec![0; 64 * 1024];
    while answers.answered.load(Ordering::Relaxed) <= MOST {
        let _some = theirs.read(&mut read).await.unwrap();
        let _more = tokio::time::timeout(pause, theirs.write_all(request)).await;
    }
}
