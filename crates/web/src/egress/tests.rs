use std::{
    collections::HashMap,
    io,
    sync::atomic::{AtomicUsize, Ordering},
};

use sortie_net::{
    Network, Reach,
    network::{Resolver, Resolving},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
};

use super::{
    hello::tests::{fragmented_hello_for, hello_for, nameless_hello},
    *,
};

const HOST: &str = "site.example";
/// A limit that a test waits for. It is long enough for the steps before it, even on a busy machine.
const WAITED_OUT: Duration = Duration::from_secs(3);

/// Resolves the names of a test to its servers. Other names are unknown.
#[derive(Default)]
struct Names {
    /// The answers for each name, in order. The last one repeats.
    known: HashMap<&'static str, Vec<std::net::SocketAddr>>,
    asked: AtomicUsize,
}

impl Resolver for Names {
    fn resolve<'a>(&'a self, host: &'a str, _port: u16) -> Resolving<'a> {
        let at = self.asked.fetch_add(1, Ordering::SeqCst);
        let answers = self.known.get(host);
        let answer = answers.map(|answers| vec![answers[at.min(answers.len() - 1)]]);
        Box::pin(async move { answer.ok_or_else(|| io::ErrorKind::NotFound.into()) })
    }
}

/// A proxy, and a server that acts as `site.example` on both ports.
struct Rig {
    proxy: std::net::SocketAddr,
    server: TcpListener,
    names: Arc<Names>,
    events: mpsc::UnboundedReceiver<Event>,
    tasks: JoinSet<()>,
}

impl Rig {
    async fn new(allow: Option<&[&str]>, limits: Limits) -> Self {
        Self::with(Reach::Private, allow, limits, None).await
    }

    /// `later` is the address of the name from the second query on.
    async fn with(
        reach: Reach,
        allow: Option<&[&str]>,
        limits: Limits,
        later: Option<std::net::SocketAddr>,
    ) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut answers = vec![server.local_addr().unwrap()];
        answers.extend(later);
        let names = Arc::new(Names {
            known: HashMap::from([(HOST, answers)]),
            asked: AtomicUsize::new(0),
        });
        let network = Network::new(reach, Vec::new()).with_resolver(names.clone());
        let allow: Option<Vec<_>> = allow.map(|list| list.iter().map(|text| (*text).to_owned()).collect());
        let policy = Policy::new(Arc::new(network), allow.as_deref()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = listener.local_addr().unwrap();
        let (tell, events) = mpsc::unbounded_channel();
        let on_event: OnEvent = Arc::new(move |event| {
            // The receiver is gone if the test has ended.
            let _told = tell.send(event);
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            serve(listener, Arc::new(policy), limits, on_event).await;
        });
        Self {
            proxy,
            server,
            names,
            events,
            tasks,
        }
    }

    async fn client(&self) -> TcpStream {
        TcpStream::connect(self.proxy).await.unwrap()
    }

    /// Sends `request` and returns the whole response.
    async fn ask(&self, request: &str) -> String {
        let mut client = self.client().await;
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = head(&mut client).await;
        let length = answer
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        let begun = answer.find("\r\n\r\n").map_or(answer.len(), |at| at + 4);
        let mut missing = vec![0; (begun + length).saturating_sub(answer.len())];
        client.read_exact(&mut missing).await.unwrap();
        answer.push_str(std::str::from_utf8(&missing).unwrap());
        answer
    }

    /// An accepted tunnel to the site, and its other end.
    async fn tunnel(&self) -> (TcpStream, TcpStream) {
        let mut client = self.client().await;
        let connect = format!("CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\n\r\n");
        client.write_all(connect.as_bytes()).await.unwrap();
        let (answer, accepted) = tokio::join!(head(&mut client), self.server.accept());
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        (client, accepted.unwrap().0)
    }

    /// Returns the next refusal.
    async fn refusal(&mut self) -> String {
        loop {
            if let Event::Refused { why, .. } = self.events.recv().await.unwrap() {
                return why;
            }
        }
    }
}

/// Reads the head of a request or response, and bytes that arrive with it. Shorter if the peer closes.
async fn head(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            break;
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// Reads until the peer closes.
async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset is as good as an orderly close.
    let _ended = stream.read_to_end(&mut bytes).await;
    bytes
}

#[tokio::test]
async fn a_tunnel_carries_both_ways_once_its_handshake_names_the_host() {
    for hello in [hello_for("SITE.example"), fragmented_hello_for(HOST)] {
        let mut rig = Rig::new(Some(&["example"]), Limits::default()).await;
        let (mut client, mut server) = rig.tunnel().await;
        client.write_all(&hello).await.unwrap();
        let mut arrived = vec![0; hello.len()];
        server.read_exact(&mut arrived).await.unwrap();
        assert_eq!(arrived, hello);
        server.write_all(b"answer").await.unwrap();
        let mut answer = [0; 6];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"answer");
        drop((client, server));
        let opened = Event::Opened {
            host: HOST.to_owned(),
            port: 443,
        };
        assert_eq!(rig.events.recv().await, Some(opened));
        let closed = Event::Closed {
            host: HOST.to_owned(),
            port: 443,
            sent: hello.len() as u64,
            received: 6,
        };
        assert_eq!(rig.events.recv().await, Some(closed));
    }
}

#[tokio::test]
async fn nothing_is_passed_on_of_a_handshake_for_another_host_or_for_none() {
    for hello in [
        hello_for("other.example"),
        hello_for("site.example.evil.net"),
        hello_for("site.example.."),
        nameless_hello(),
        b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: other.example\r\n\r\n".to_vec(),
    ] {
        let mut rig = Rig::new(None, Limits::default()).await;
        let (mut client, mut server) = rig.tunnel().await;
        client.write_all(&hello).await.unwrap();
        assert_eq!(rest(&mut server).await, b"");
        assert_eq!(rest(&mut client).await, b"");
        let why = rig.refusal().await;
        assert!(why.contains("handshake"), "{why}");
    }
}

#[tokio::test]
async fn a_connection_goes_to_the_address_that_was_judged_though_the_name_moves() {
    let metadata = "169.254.169.254:443".parse().unwrap();
    let rig = Rig::with(Reach::Private, None, Limits::default(), Some(metadata)).await;
    let (mut client, mut server) = rig.tunnel().await;
    assert_eq!(rig.names.asked.load(Ordering::SeqCst), 1);
    client.write_all(&hello_for(HOST)).await.unwrap();
    let mut byte = [0];
    server.read_exact(&mut byte).await.unwrap();
    let again = rig.ask(&format!("CONNECT {HOST}:443 HTTP/1.1\r\n\r\n")).await;
    assert!(again.starts_with("HTTP/1.1 403"), "{again}");
    assert_eq!(rig.names.asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn targets_that_may_not_be_reached_are_refused() {
    let rig = Rig::with(Reach::Public, None, Limits::default(), None).await;
    for (target, status) in [
        ("127.0.0.1:443", 403),
        ("0x7f.1:443", 400),
        ("2130706433:443", 400),
        ("127.1:443", 400),
        ("[::1]:443", 403),
        ("[::ffff:127.0.0.1]:443", 403),
        ("[64:ff9b::7f00:1]:443", 403),
        ("169.254.169.254:443", 403),
        ("site.example:443", 403),
        ("user@8.8.8.8:443", 400),
        ("8.8.8.8:22", 403),
        ("8.8.8.8:80", 403),
        ("8.8.8.8:", 400),
        ("8.8.8.8:+443", 400),
        ("unknown.example:+443", 400),
        ("[::1]:+443", 400),
        ("unknown.example:443", 502),
        ("site.example..:443", 400),
        ("site..example:443", 400),
        (".site.example:443", 400),
    ] {
        let answer = rig.ask(&format!("CONNECT {target} HTTP/1.1\r\n\r\n")).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{target}: {answer}"
        );
    }
    for (url, status) in [
        ("http://127.0.0.1/", 403),
        ("http://0x7f.1/", 400),
        ("http://[::ffff:127.0.0.1]/", 403),
        ("http://site.example/", 403),
        ("http://site.example../", 400),
        ("http://8.8.8.8:8080/", 403),
        ("http://8.8.8.8:443/", 403),
        ("http://8.8.8.8:+80/", 400),
        ("https://8.8.8.8/", 400),
        ("/", 400),
    ] {
        let host = url.split('/').nth(2).unwrap_or(HOST);
        let answer = rig
            .ask(&format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
            .await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{url}: {answer}"
        );
    }
}

#[tokio::test]
async fn a_host_outside_of_the_domains_is_refused_with_the_reason() {
    let mut rig = Rig::new(Some(&["other.example"]), Limits::default()).await;
    let answer = rig.ask(&format!("CONNECT {HOST}:443 HTTP/1.1\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    let secret = rig
        .ask(&format!(
            "GET http://{HOST}/?key=hush HTTP/1.1\r\nHost: {HOST}\r\n\r\n"
        ))
        .await;
    assert!(secret.starts_with("HTTP/1.1 403"), "{secret}");
    let why = "site.example is not one of the domains that this run may reach";
    assert!(answer.ends_with(&format!("egress proxy: {why}\n")), "{answer}");
    for target in ["site.example:443", "site.example"] {
        let refused = Event::Refused {
            target: target.to_owned(),
            why: why.to_owned(),
        };
        assert_eq!(rig.events.recv().await, Some(refused));
    }
    assert_eq!(rig.names.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn plain_http_is_passed_on_without_what_concerns_one_connection() {
    let rig = Rig::new(None, Limits::default()).await;
    let mut client = rig.client().await;
    let request = "POST http://SITE.example/a?b=c HTTP/1.1\r\nHost: site.example:80\r\nContent-Length: 4\r\n\
                   Proxy-Authorization: Basic eDp5\r\nProxy-Connection: keep-alive\r\nConnection: x-mine, \
                   content-length\r\nX-Mine: 1\r\nX-Other: 2\r\nUpgrade: h2c\r\n\r\nbody";
    client.write_all(request.as_bytes()).await.unwrap();
    let (mut server, _) = rig.server.accept().await.unwrap();
    let mut arrived = head(&mut server).await;
    while !arrived.ends_with("body") {
        let mut more = [0; 64];
        let length = server.read(&mut more).await.unwrap();
        assert_ne!(length, 0, "{arrived}");
        arrived.push_str(std::str::from_utf8(&more[..length]).unwrap());
    }
    let lower = arrived.to_ascii_lowercase();
    assert!(lower.starts_with("post /a?b=c http/1.1\r\n"), "{arrived}");
    for kept in [
        "host: site.example\r\n",
        "x-other: 2\r\n",
        "content-length: 4\r\n",
    ] {
        assert!(lower.contains(kept), "{kept}: {arrived}");
    }
    for gone in ["proxy-", "x-mine", "upgrade", "connection:"] {
        assert!(!lower.contains(gone), "{gone}: {arrived}");
    }
    let answer =
        "HTTP/1.1 201 Created\r\nContent-Length: 2\r\nConnection: x-hop\r\nX-Hop: 1\r\nX-Kept: 1\r\n\r\nok";
    server.write_all(answer.as_bytes()).await.unwrap();
    let got = head(&mut client).await.to_ascii_lowercase();
    assert!(
        got.starts_with("http/1.1 201") && got.contains("x-kept: 1"),
        "{got}"
    );
    assert!(!got.contains("x-hop"), "{got}");
}

#[tokio::test]
async fn an_answer_that_switches_protocols_is_not_passed_on() {
    let mut rig = Rig::new(None, Limits::default()).await;
    let mut client = rig.client().await;
    let request =
        format!("GET http://{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let (mut server, _) = rig.server.accept().await.unwrap();
    let _request = head(&mut server).await;
    let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nnot HTTP";
    server.write_all(answer.as_bytes()).await.unwrap();
    let got = head(&mut client).await;
    assert!(got.starts_with("HTTP/1.1 502 "), "{got}");
    let why = rig.refusal().await;
    assert!(why.contains("switched protocols"), "{why}");
}

#[tokio::test]
async fn a_request_whose_host_is_not_that_of_its_url_goes_nowhere() {
    let rig = Rig::new(None, Limits::default()).await;
    for (fields, status) in [
        ("Host: other.example\r\n", 403),
        ("Host: site.example:8080\r\n", 403),
        ("Host: site.example\r\nHost: other.example\r\n", 400),
        ("Host: site.example\r\nHost: site.example\r\n", 400),
        ("Host: \r\n", 403),
        ("", 400),
    ] {
        let answer = rig
            .ask(&format!("GET http://{HOST}/ HTTP/1.1\r\n{fields}\r\n"))
            .await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{fields:?}: {answer}"
        );
    }
    assert_eq!(rig.names.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_second_request_on_a_connection_is_judged_like_the_first() {
    let rig = Rig::new(None, Limits::default()).await;
    let mut client = rig.client().await;
    let both = format!(
        "GET http://{HOST}/1 HTTP/1.1\r\nHost: {HOST}\r\n\r\nGET http://{HOST}/2 HTTP/1.1\r\nHost: other.example\r\n\
         Connection: close\r\n\r\n"
    );
    client.write_all(both.as_bytes()).await.unwrap();
    let (mut server, _) = rig.server.accept().await.unwrap();
    assert!(head(&mut server).await.starts_with("GET /1 "));
    server
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        .await
        .unwrap();
    let answers = String::from_utf8(rest(&mut client).await).unwrap();
    let statuses: Vec<_> = answers
        .lines()
        .filter(|line| line.starts_with("HTTP/1.1"))
        .collect();
    assert_eq!(
        statuses,
        ["HTTP/1.1 200 OK", "HTTP/1.1 403 Forbidden"],
        "{answers}"
    );
    assert_eq!(rig.names.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_head_that_comes_too_slowly_or_is_too_large_is_given_up() {
    let quick = Limits {
        head: WAITED_OUT,
        ..Limits::default()
    };
    let rig = Rig::new(None, quick).await;
    let mut slow = rig.client().await;
    slow.write_all(b"GET http://site.example/ HTTP/1.1\r\nX-")
        .await
        .unwrap();
    let (mut client, mut server) = rig.tunnel().await;
    client.write_all(&hello_for(HOST)[..9]).await.unwrap();
    let (ended, answer, arrived) = tokio::join!(rest(&mut slow), rest(&mut client), rest(&mut server));
    assert!(
        ended.is_empty() || ended.starts_with(b"HTTP/1.1 408"),
        "{ended:?}"
    );
    assert_eq!((answer, arrived), (Vec::new(), Vec::new()));

    let rig = Rig::new(None, Limits::default()).await;
    let many = "X-Many: 1\r\n".repeat(200);
    let large = format!("X-Large: {}\r\n", "x".repeat(HEAD_BYTES));
    for fields in [many, large] {
        let answer = rig
            .ask(&format!(
                "GET http://{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\n{fields}\r\n"
            ))
            .await;
        assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    }
    assert_eq!(rig.names.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_silent_connection_is_given_up() {
    let limits = Limits {
        idle: WAITED_OUT,
        ..Limits::default()
    };
    let rig = Rig::new(None, limits).await;
    let (mut tunnel, mut server) = rig.tunnel().await;
    tunnel.write_all(&hello_for(HOST)).await.unwrap();
    // The command has sent everything and only waits.
    tunnel.shutdown().await.unwrap();
    assert_eq!(rest(&mut server).await, hello_for(HOST));

    let mut unanswered = rig.client().await;
    let request = format!("GET http://{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    unanswered.write_all(request.as_bytes()).await.unwrap();
    let (mut silent, _) = rig.server.accept().await.unwrap();
    assert!(head(&mut silent).await.starts_with("GET / "));

    let mut cut = rig.client().await;
    cut.write_all(request.as_bytes()).await.unwrap();
    let (mut stuck, _) = rig.server.accept().await.unwrap();
    stuck
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart")
        .await
        .unwrap();

    // Wait for all three concurrently.
    let (tunnel, unanswered, cut) = tokio::join!(rest(&mut tunnel), rest(&mut unanswered), rest(&mut cut));
    assert_eq!(tunnel, b"");
    let answer = String::from_utf8(unanswered).unwrap();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 50"), "{answer}");
    let answer = String::from_utf8(cut).unwrap();
    assert!(answer.ends_with("part"), "{answer}");
}

#[tokio::test]
async fn what_the_run_may_transfer_is_an_end() {
    let limits = Limits {
        total_bytes: 1000,
        ..Limits::default()
    };
    let mut rig = Rig::new(None, limits).await;
    let (mut client, mut server) = rig.tunnel().await;
    client.write_all(&hello_for(HOST)).await.unwrap();
    let mut byte = [0];
    server.read_exact(&mut byte).await.unwrap();
    server.write_all(&[b'x'; 4000]).await.unwrap();
    assert!(rest(&mut client).await.len() < 4000);
    loop {
        if let Event::Closed { received, .. } = rig.events.recv().await.unwrap() {
            assert!(received >= 900, "{received}");
            break;
        }
    }
    let answer = rig.ask(&format!("CONNECT {HOST}:443 HTTP/1.1\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert!(
        answer.contains("the run has transferred its 1000 bytes"),
        "{answer}"
    );
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_a_place() {
    let limits = Limits {
        connections: 1,
        ..Limits::default()
    };
    let rig = Rig::new(None, limits).await;
    let (mut client, mut server) = rig.tunnel().await;
    let mut second = rig.client().await;
    second.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    // The proxy keeps running, so it would have had time to respond.
    client.write_all(&hello_for(HOST)).await.unwrap();
    for _ in 0..10 {
        let mut byte = [0];
        server.read_exact(&mut byte).await.unwrap();
        server.write_all(&byte).await.unwrap();
        client.read_exact(&mut byte).await.unwrap();
    }
    let early = second.try_read(&mut [0]);
    assert!(
        early
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock),
        "{early:?}"
    );
    drop((client, server));
    assert!(head(&mut second).await.starts_with("HTTP/1.1 400"));
}

#[tokio::test]
async fn a_connection_that_finds_no_place_is_answered() {
    let limits = Limits {
        connections: 1,
        wait: Duration::from_millis(50),
        ..Limits::default()
    };
    let mut rig = Rig::new(None, limits).await;
    let _held = rig.tunnel().await;
    for request in [
        format!("CONNECT {HOST}:443 HTTP/1.1\r\n\r\n"),
        format!("GET http://{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\n\r\n"),
    ] {
        let answer = rig.ask(&request).await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(
            answer.contains("all 1 connections of the run are in use"),
            "{answer}"
        );
        assert!(rig.refusal().await.contains("in use"));
    }
}

#[tokio::test]
async fn a_request_that_would_be_echoed_is_not_passed_on() {
    let mut rig = Rig::new(None, Limits::default()).await;
    for method in ["TRACE", "TRACK"] {
        let request = format!("{method} http://{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
        let answer = rig.ask(&request).await;
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
        assert_eq!(rig.refusal().await, format!("{method} is not passed on"));
    }
    assert_eq!(rig.names.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn dropping_the_proxy_ends_its_connections() {
    let mut rig = Rig::new(None, Limits::default()).await;
    let (mut client, mut server) = rig.tunnel().await;
    client.write_all(&hello_for(HOST)).await.unwrap();
    let mut byte = [0];
    server.read_exact(&mut byte).await.unwrap();
    rig.tasks.shutdown().await;
    rest(&mut server).await;
    rest(&mut client).await;
}

#[test]
fn a_real_clients_handshake_is_understood() {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let config = Arc::new(config);
    for (name, expected) in [(HOST, Some(HOST.to_owned())), ("8.8.8.8", None)] {
        let name = rustls::pki_types::ServerName::try_from(name).unwrap();
        let mut client = rustls::ClientConnection::new(config.clone(), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        let parsed = hello::Reader::default().push(&bytes);
        assert_eq!(parsed, Ok(hello::Hello::Whole(expected)));
    }
}
