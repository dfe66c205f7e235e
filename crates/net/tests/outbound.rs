//! Requests through proxies, and to servers with certificates of private authorities.

#![cfg(test)]

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use reqwest::Method;
use sortie_net::{
    Client, EngineClient, Error, Network, NoConnection, NoProxy, Outbound, Policy, ProxyServer, Reach,
    Refused, Timeouts, TrustedCertificates,
    network::{Resolver, Resolving},
};
use sortie_testkit::{ForwardProxy, ServerCertificate, TlsFront, tls::AUTHORITY};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinSet,
};

const QUICK: Timeouts = Timeouts {
    connect: Duration::from_secs(10),
    read: Duration::from_secs(10),
    total: Some(Duration::from_secs(10)),
};

/// A server that answers the first requests of each connection with `ok`, and closes the connection at the next.
struct Peer {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl Peer {
    async fn answering(answers: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&connections);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut serving = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                serving.spawn(async move {
                    for at in 0..=answers {
                        let read = stream.read(&mut [0; 4096]).await?;
                        if read == 0 || at == answers {
                            break;
                        }
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                        stream.write_all(answer).await?;
                    }
                    Ok::<_, io::Error>(())
                });
            }
        });
        Self {
            address,
            connections,
            _task: task,
        }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn proxied(address: &str) -> Outbound {
    let proxy = ProxyServer::parse(address).unwrap();
    Outbound::default().through(Some(proxy), NoProxy::default())
}

/// Trusts the certificates in this PEM text.
fn trusting(pem: &str) -> TrustedCertificates {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), pem).unwrap();
    TrustedCertificates::default().with_file(file.path()).unwrap()
}

async fn get(outbound: &Outbound, url: &str) -> Result<String, String> {
    let client = EngineClient::through(outbound, QUICK).unwrap();
    let request = client.request(Method::GET, &url.parse().unwrap()).unwrap();
    let text = async { request.send().await?.text().await };
    text.await.map_err(|error| Error::from(error).to_string())
}

#[tokio::test]
async fn a_request_goes_through_the_proxy_of_its_scheme() {
    let peer = Peer::answering(1).await;
    let front = TlsFront::start(peer.address, ServerCertificate::OfAuthority)
        .await
        .unwrap();
    for (scheme, url, asked) in [
        (
            "http",
            "https://api.example.test/x",
            "CONNECT api.example.test:443",
        ),
        (
            "socks5h",
            "https://api.example.test/x",
            "SOCKS api.example.test:443",
        ),
        (
            "http",
            "http://api.example.test/x?y",
            "GET http://api.example.test/x?y",
        ),
        (
            "socks5h",
            "http://api.example.test/x",
            "SOCKS api.example.test:80",
        ),
    ] {
        for user in ["", "u:p%40ss@"] {
            let proxy = if user.is_empty() {
                ForwardProxy::start().await
            } else {
                ForwardProxy::start_for("u", "p@ss").await
            };
            let proxy = proxy
                .unwrap()
                .leading("api.example.test:443", front.address())
                .leading("api.example.test:80", peer.address);
            let mut outbound = proxied(&format!("{scheme}://{user}{}", proxy.address()));
            outbound.trusted = trusting(AUTHORITY);
            assert_eq!(get(&outbound, url).await.as_deref(), Ok("ok"), "{scheme} {url}");
            assert_eq!(proxy.asked(), [asked], "{scheme} {url}");
        }
    }
}

#[tokio::test]
async fn a_proxy_that_fails_is_named_without_its_password() {
    let strict = ForwardProxy::start_for("u", "right").await.unwrap();
    let strict = strict.address();
    let lost = ForwardProxy::start().await.unwrap();
    let lost = lost.address();
    let peer = Peer::answering(1).await;
    let deaf = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    for (address, shown, told) in [
        (
            format!("http://u:hush@{strict}"),
            format!("http://{strict}"),
            "407",
        ),
        (
            format!("socks5h://u:hush@{strict}"),
            format!("socks5h://{strict}"),
            "it refuses the user and the password",
        ),
        (
            format!("http://{lost}"),
            format!("http://{lost}"),
            "it refuses to connect to this host",
        ),
        (
            format!("socks5h://{lost}"),
            format!("socks5h://{lost}"),
            "it cannot connect to this host",
        ),
        (
            format!("socks5h://{}", peer.address),
            format!("socks5h://{}", peer.address),
            "it does not speak SOCKS5",
        ),
        (
            format!("http://u:hush@{deaf}"),
            format!("http://{deaf}"),
            "connection refused",
        ),
    ] {
        let error = get(&proxied(&address), "https://api.example.test/")
            .await
            .unwrap_err();
        assert!(
            error.starts_with(&format!("through the proxy {shown}: ")) && error.contains(told),
            "{address}: {error}"
        );
        assert!(!error.contains("hush"), "{error}");
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_named_with_the_remedy() {
    use ServerCertificate::{AuthorityAsServer, OfAuthority, SelfSigned};
    let peer = Peer::answering(1).await;
    for (shown, told) in [
        (
            OfAuthority,
            r#"the authority "CN=Example Test Authority,O=Example Inc." that issued it is not known"#,
        ),
        (SelfSigned, r#"it is self-signed ("CN=alone.example.test")"#),
        (
            AuthorityAsServer,
            r#"it is that of an authority ("CN=quick.example.test") and not of a server"#,
        ),
    ] {
        let front = TlsFront::start(peer.address, shown).await.unwrap();
        let port = front.address().port();
        let url = format!("https://localhost:{port}/");
        let mut outbound = Outbound::default();
        let error = get(&outbound, &url).await.unwrap_err();
        assert!(error.contains(told) && error.contains("ca_file"), "{error}");
        // A different certificate does not help.
        outbound.trusted = trusting(if shown == OfAuthority {
            SelfSigned.pem()
        } else {
            AUTHORITY
        });
        assert!(get(&outbound, &url).await.is_err(), "{shown:?}");
        outbound.trusted = trusting(if shown == OfAuthority {
            AUTHORITY
        } else {
            shown.pem()
        });
        assert_eq!(get(&outbound, &url).await.as_deref(), Ok("ok"), "{shown:?}");
        // A trusted certificate is still valid only for its names.
        let other = TlsFront::start(peer.address, shown).await.unwrap();
        let proxy = ForwardProxy::start()
            .await
            .unwrap()
            .leading("other.example:443", other.address());
        let through = Outbound {
            trusted: outbound.trusted.clone(),
            ..proxied(&format!("http://{}", proxy.address()))
        };
        let error = get(&through, "https://other.example/").await.unwrap_err();
        assert!(error.ends_with("its certificate is for another name"), "{error}");
    }
}

#[test]
fn certificates_are_read_from_files_and_folders() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let count = |trusted: &TrustedCertificates| trusted.certificates().count();
    let none = TrustedCertificates::default();
    let two = format!("# a bundle\n{AUTHORITY}\n{}", ServerCertificate::SelfSigned.pem());
    let bundle = none.with_file(&write("two.pem", two.as_bytes())).unwrap();
    assert_eq!((count(&none), count(&bundle)), (0, 2));
    let der = bundle.certificates().next().unwrap().to_vec();
    assert_eq!(count(&none.with_file(&write("one.der", &der)).unwrap()), 1);
    // Certificates that are already present are not added again.
    assert_eq!(count(&bundle.with_folder(folder.path())), 2);
    assert_eq!(count(&none.with_folder(&folder.path().join("nowhere"))), 0);
    for bytes in [
        &b""[..],
        b"no certificate",
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        let rule = none.with_file(&write("wrong.pem", bytes)).unwrap_err();
        assert!(rule.contains("must hold certificates in PEM form"), "{rule}");
    }
    let rule = none.with_file(&folder.path().join("nowhere.pem")).unwrap_err();
    assert!(rule.contains("cannot be read"), "{rule}");
}

/// Names of this test.
struct Names;

impl Resolver for Names {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        Box::pin(async move {
            let ip = match host {
                "public.example.test" => "8.8.8.8",
                "private.example.test" => "10.0.0.1",
                "metadata.example.test" => "169.254.169.254",
                _ => return Err(io::Error::other("no such name")),
            };
            Ok(vec![SocketAddr::new(ip.parse().unwrap(), port)])
        })
    }
}

fn network(reach: Reach, outbound: Outbound) -> Arc<Network> {
    let network = Network::new(reach, Vec::new()).with_resolver(Arc::new(Names));
    Arc::new(network.with_outbound(outbound))
}

#[tokio::test]
async fn a_stranger_is_judged_before_the_proxy_is_asked() {
    use Reach::{Private, Public};
    let peer = Peer::answering(1).await;
    for (reach, proxy_resolves, host, passes) in [
        (Public, false, "public.example.test", true),
        (Public, false, "private.example.test", false),
        (Public, true, "private.example.test", false),
        (Public, false, "unknown.example.test", false),
        (Public, true, "unknown.example.test", true),
        (Public, true, "8.8.8.8", true),
        (Public, true, "10.0.0.1", false),
        (Public, true, "[::ffff:10.0.0.1]", false),
        (Private, false, "private.example.test", true),
        (Private, false, "unknown.example.test", true),
        (Private, false, "metadata.example.test", false),
        (Private, true, "169.254.169.254", false),
        // Requests to this machine never use a proxy.
        (Public, true, "127.0.0.1", false),
        (Public, true, "localhost", false),
    ] {
        let proxy = ForwardProxy::start()
            .await
            .unwrap()
            .leading(&format!("{host}:80"), peer.address);
        // The address of the proxy is private.
        let mut outbound = proxied(&format!("http://localhost:{}", proxy.address().port()));
        outbound.proxy_resolves = proxy_resolves;
        let client = Client::on(network(reach, outbound), QUICK).unwrap();
        let url = format!("http://{host}/").parse().unwrap();
        let sent = match client.request(Method::GET, &url) {
            Ok(request) => client.send(request).await,
            Err(error) => Err(error),
        };
        assert_eq!(sent.is_ok(), passes, "{reach:?} {host}: {sent:?}");
        assert_eq!(proxy.asked().is_empty(), !passes, "{reach:?} {host}");
        if host == "unknown.example.test" && !passes {
            let unjudged = sent.unwrap_err();
            assert!(
                unjudged.to_string().contains("network.proxy_resolves"),
                "{unjudged}"
            );
        }
    }
}

#[tokio::test]
async fn a_command_of_a_run_is_connected_through_the_proxy() {
    let peer = Peer::answering(1).await;
    for (scheme, host, port, asked) in [
        (
            "http",
            "public.example.test",
            443,
            Some("CONNECT public.example.test:443"),
        ),
        (
            "socks5h",
            "public.example.test",
            443,
            Some("SOCKS public.example.test:443"),
        ),
        // The proxy receives the checked address.
        ("socks5", "public.example.test", 443, Some("SOCKS 8.8.8.8:443")),
        ("socks5", "public.example.test", 80, Some("SOCKS 8.8.8.8:80")),
        (
            "http",
            "public.example.test",
            80,
            Some("GET http://public.example.test/"),
        ),
        ("http", "private.example.test", 443, None),
        ("socks5", "private.example.test", 443, None),
        ("http", "public.example.test", 22, None),
    ] {
        let proxy = ForwardProxy::start_for("u", "p").await.unwrap();
        let proxy = [
            "public.example.test:443",
            "8.8.8.8:443",
            "8.8.8.8:80",
            "public.example.test:80",
        ]
        .into_iter()
        .fold(proxy, |proxy, target| proxy.leading(target, peer.address));
        let outbound = proxied(&format!("{scheme}://u:p@{}", proxy.address()));
        let policy = Policy::new(network(Reach::Public, outbound), None).unwrap();
        match policy.connect(host, port).await {
            Ok(mut connection) => {
                let authorization = connection
                    .authorization
                    .as_ref()
                    .map(|value| value.to_str().unwrap());
                assert_eq!(authorization.is_some(), connection.is_to_proxy, "{scheme} {port}");
                let fields = authorization
                    .map_or_else(String::new, |value| format!("proxy-authorization: {value}\r\n"));
                let head = format!("GET http://{host}/ HTTP/1.1\r\n{fields}\r\n");
                connection.stream.write_all(head.as_bytes()).await.unwrap();
                let mut answer = [0; 12];
                connection.stream.read_exact(&mut answer).await.unwrap();
                assert_eq!(&answer, b"HTTP/1.1 200", "{scheme} {host}");
            }
            Err(error) => {
                assert!(
                    matches!(error, NoConnection::Refused(_)),
                    "{scheme} {host}: {error}"
                );
            }
        }
        assert_eq!(proxy.asked(), Vec::from_iter(asked), "{scheme} {host}:{port}");
    }
    let outbound = proxied("http://127.0.0.1:1");
    let policy = Policy::new(network(Reach::Public, outbound), None).unwrap();
    let failed = policy.connect("public.example.test", 443).await.err().unwrap();
    assert_eq!(
        failed.to_string(),
        "the host cannot be reached: through the proxy http://127.0.0.1:1: connection refused"
    );
    let unknown = policy.connect("unknown.example.test", 443).await.err().unwrap();
    assert!(
        matches!(unknown, NoConnection::Refused(Refused::Unjudged { .. })),
        "{unknown}"
    );
}

#[tokio::test]
async fn a_request_is_sent_again_only_where_a_kept_connection_was_closed() {
    let send = async |client: &Client, peer: &Peer| {
        let url = format!("http://{}/", peer.address).parse().unwrap();
        let request = client.request(Method::POST, &url).unwrap().body("once");
        client
            .send_repeatable(request)
            .await?
            .text()
            .await
            .map_err(Error::from)
    };
    let client = Client::new(Reach::Private, QUICK).unwrap();
    let peer = Peer::answering(1).await;
    for _ in 0..3 {
        assert_eq!(send(&client, &peer).await.unwrap(), "ok");
    }
    assert_eq!(peer.connections(), 3);
    // If a new connection is closed, we do not retry.
    let peer = Peer::answering(0).await;
    let error = send(&client, &peer).await.unwrap_err().to_string();
    assert_eq!(error, "the connection was closed before the answer");
    assert_eq!(peer.connections(), 1);
}
