//! The two HTTP clients: the guarded one for untrusted addresses, and the plain one for addresses of the operator.

use std::{error::Error as StdError, net::IpAddr, sync::Arc, time::Duration};

use reqwest::{
    ClientBuilder, Method, Request, RequestBuilder, StatusCode,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect,
};
use sortie_base::descriptors::{Patience, lacks_descriptor};
use url::{Host, Url};

use crate::{
    Error, Network, Outbound, Policy, Refused,
    address::Reach,
    connecting::{Watch, noticing},
    network::{Resolver as _, SystemResolver},
    policy::{check_form, plain},
    proxy::ProxyServer,
    stale::is_stale,
};

/// Maximum number of stale pooled connections that a request tries before it fails.
const STALE: usize = 4;

/// Makes `ring` the process's default TLS provider, for other users of rustls: the clients here select it explicitly. Further
/// calls have no effect.
fn install_crypto() {
    // An error means that a default is already installed, which is sufficient.
    let _installed = rustls::crypto::ring::default_provider().install_default();
}

/// Product and version, sent as `User-Agent` unless a request sets its own: some servers refuse requests without one.
pub const USER_AGENT: &str = concat!("sortie/", env!("CARGO_PKG_VERSION"));

/// Timeouts of the parts of a request.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Resolution and connection.
    pub connect: Duration,
    /// Maximum silence of the other side.
    pub read: Duration,
    /// The whole exchange; `None` for streams, which `read` limits.
    pub total: Option<Duration>,
}

/// A client for untrusted addresses. It reaches only what its [`Network`] allows, directly or through the proxies of the network.
/// It follows no redirects and keeps no cookies.
#[derive(Clone, Debug)]
pub struct Client {
    ways: Ways,
    network: Arc<Network>,
}

impl Client {
    /// Creates a client with this reach, without a proxy.
    pub fn new(reach: Reach, timeouts: Timeouts) -> Result<Self, Error> {
        Self::on(Arc::new(Network::new(reach, Vec::new())), timeouts)
    }

    /// Creates a client that reaches what `network` allows.
    pub fn on(network: Arc<Network>, timeouts: Timeouts) -> Result<Self, Error> {
        let ways = Ways::new(network.outbound(), timeouts, Some(&network))?;
        Ok(Self { ways, network })
    }

    /// Starts a request of a run, if the run's policy and the client allow the URL. The client follows no redirects, so each step
    /// of a redirect chain passes through here.
    pub fn request_under(&self, policy: &Policy, method: Method, url: &Url) -> Result<RequestBuilder, Error> {
        policy.check_url(url)?;
        self.request(method, url)
    }

    /// Starts a request if the client allows its URL. Host names are checked later: by the resolved addresses, which we then
    /// connect to, or before a proxy receives the name.
    pub fn request(&self, method: Method, url: &Url) -> Result<RequestBuilder, Error> {
        check_form(url).map_err(Error::Url)?;
        // The resolver never sees literal addresses, so we check them here.
        let literal = match url.host() {
            Some(Host::Ipv4(ip)) => Some(IpAddr::V4(ip)),
            Some(Host::Ipv6(ip)) => Some(IpAddr::V6(ip)),
            Some(Host::Domain(_)) | None => None,
        };
        if let Some(ip) = literal.filter(|ip| !self.network.allows(*ip)) {
            return Err(Error::Refused { host: ip.to_string() });
        }
        Ok(self.ways.of(url).request(method, url.clone()))
    }

    /// Sends a request. A forbidden address returns [`Error::Refused`].
    pub async fn send(&self, request: RequestBuilder) -> Result<reqwest::Response, Error> {
        usable(self.judged(request).await?.send().await)
    }

    /// Sends a request like [`send`](Self::send), and waits for a free file descriptor if necessary.
    pub async fn send_patiently(&self, request: RequestBuilder) -> Result<reqwest::Response, Error> {
        usable(send_patiently(self.judged(request).await?).await)
    }

    /// Sends a request that may safely arrive twice. Retries immediately if a pooled connection turns out to be closed.
    pub async fn send_repeatable(&self, request: RequestBuilder) -> Result<reqwest::Response, Error> {
        let mut request = self.judged(request).await?;
        for _ in 1..STALE {
            let again = request.try_clone();
            match (noticing(request.send()).await, again) {
                ((Err(error), false), Some(again)) if is_stale(&error) => request = again,
                ((sent, _), _) => return usable(sent),
            }
        }
        usable(request.send().await)
    }

    /// Checks the host name of a request through a proxy. Other names are checked when they are resolved.
    async fn judged(&self, request: RequestBuilder) -> Result<RequestBuilder, Error> {
        let (http, request) = request.build_split();
        let request: Request = request?;
        let url = request.url();
        if let (Some(_), Some(host)) = (self.network.outbound().proxy_of(url), url.host()) {
            let judged = self.network.judge_for_proxy(&plain(&host.to_owned()), 0).await;
            judged.map_err(|refused| match refused {
                Refused::Address { host } => Error::Refused { host },
                other @ (Refused::Form(_)
                | Refused::Port { .. }
                | Refused::Domain { .. }
                | Refused::Unknown { .. }
                | Refused::Unjudged { .. }) => Error::Policy(other),
            })?;
        }
        Ok(RequestBuilder::from_parts(http, request))
    }
}

/// Sends a request, and retries while no file descriptor is available for its connection: then nothing was sent.
pub async fn send_patiently(mut request: RequestBuilder) -> reqwest::Result<reqwest::Response> {
    let patience = Patience::default();
    loop {
        let again = request.try_clone();
        match (request.send().await, again) {
            (Err(error), Some(again))
                if error.is_connect() && lacks_descriptor(&error) && patience.wait().await =>
            {
                request = again;
            }
            (sent, _) => return sent,
        }
    }
}

fn usable(sent: reqwest::Result<reqwest::Response>) -> Result<reqwest::Response, Error> {
    let response = sent.map_err(unwrap_refusal)?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Error::Switched);
    }
    Ok(response)
}

/// A client for addresses of the operator: any address, no redirects.
#[derive(Clone, Debug)]
pub struct EngineClient {
    ways: Ways,
}

impl EngineClient {
    /// Creates a client with these timeouts, without a proxy.
    pub fn new(timeouts: Timeouts) -> Result<Self, Error> {
        Self::through(&Outbound::default(), timeouts)
    }

    /// Creates a client with the proxies and the trusted certificates of `outbound`.
    pub fn through(outbound: &Outbound, timeouts: Timeouts) -> Result<Self, Error> {
        let ways = Ways::new(outbound, timeouts, None)?;
        Ok(Self { ways })
    }

    /// Starts a request.
    pub fn request(&self, method: Method, url: &Url) -> Result<RequestBuilder, Error> {
        check_form(url).map_err(Error::Url)?;
        Ok(self.ways.of(url).request(method, url.clone()))
    }
}

/// Creates a bare client for the operator's object store: any address, no redirects. The library for the store requires its own
/// client.
pub fn store_client(outbound: &Outbound, timeouts: Timeouts) -> Result<reqwest::Client, Error> {
    let ways = outbound.clone();
    let proxy = reqwest::Proxy::custom(move |url| Some(ways.proxy_of(url)?.expose().to_owned()));
    Ok(base(timeouts, outbound, None)?.proxy(proxy).build()?)
}

/// The connection pools of a client: for direct connections, and for the proxy of each scheme.
#[derive(Clone, Debug)]
struct Ways {
    outbound: Outbound,
    direct: reqwest::Client,
    http: Option<reqwest::Client>,
    https: Option<reqwest::Client>,
}

impl Ways {
    /// Host names are checked by `network` if there is one.
    fn new(outbound: &Outbound, timeouts: Timeouts, network: Option<&Arc<Network>>) -> Result<Self, Error> {
        let guarded = |builder: ClientBuilder, proxy: Option<&ProxyServer>| match network {
            Some(network) => builder.dns_resolver(Arc::new(Guard {
                network: Arc::clone(network),
                proxy: proxy.map(|proxy| proxy.host().to_owned()),
            })),
            None => builder,
        };
        let through = |proxy: &ProxyServer| {
            let builder = base(timeouts, outbound, Some(proxy))?.proxy(reqwest::Proxy::all(proxy.expose())?);
            Ok::<_, Error>(guarded(builder, Some(proxy)).build()?)
        };
        let http = outbound.http.as_ref().map(through).transpose()?;
        let https = match &outbound.https {
            same if *same == outbound.http => http.clone(),
            other => other.as_ref().map(through).transpose()?,
        };
        Ok(Self {
            direct: guarded(base(timeouts, outbound, None)?, None).build()?,
            http,
            https,
            outbound: outbound.clone(),
        })
    }

    fn of(&self, url: &Url) -> &reqwest::Client {
        let proxied = match self.outbound.proxy_of(url) {
            Some(_) if url.scheme() == "https" => self.https.as_ref(),
            Some(_) => self.http.as_ref(),
            None => None,
        };
        proxied.unwrap_or(&self.direct)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where HTTP clients are made"
)]
fn base(
    timeouts: Timeouts,
    outbound: &Outbound,
    proxy: Option<&ProxyServer>,
) -> Result<ClientBuilder, Error> {
    install_crypto();
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(outbound.trusted.client_config()?)
        .user_agent(USER_AGENT)
        .no_proxy()
        .redirect(redirect::Policy::none())
        .connect_timeout(timeouts.connect)
        .read_timeout(timeouts.read)
        .connector_layer(Watch {
            proxy: proxy.cloned(),
        });
    Ok(match timeouts.total {
        Some(total) => builder.timeout(total),
        None => builder,
    })
}

/// Resolver for reqwest that returns only allowed addresses, and nothing for a name that has a forbidden one. The operator's
/// proxy can have any address.
struct Guard {
    network: Arc<Network>,
    proxy: Option<String>,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let network = self.network.clone();
        let is_proxy = self.proxy.as_deref() == Some(name.as_str());
        Box::pin(async move {
            let name = name.as_str();
            let found = if is_proxy {
                SystemResolver.resolve(name, 0).await?
            } else {
                let host = plain(&Host::Domain(name.to_owned()));
                network.resolve(&host, 0).await?
            };
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

fn unwrap_refusal(error: reqwest::Error) -> Error {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(&error);
    while let Some(inner) = cause {
        if let Some(Refused::Address { host }) = inner.downcast_ref() {
            return Error::Refused { host: host.clone() };
        }
        cause = inner.source();
    }
    Error::from(error)
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;
    use crate::read_body;

    const QUICK: Timeouts = Timeouts {
        connect: Duration::from_secs(5),
        read: Duration::from_secs(5),
        total: Some(Duration::from_secs(5)),
    };

    fn client(reach: Reach) -> Client {
        install_crypto();
        Client::new(reach, QUICK).unwrap()
    }

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    /// Sends `answer` on one connection. Returns the port and the received request.
    async fn answering(answer: impl Into<Vec<u8>>) -> (u16, tokio::sync::oneshot::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer = answer.into();
        let (tell, asked) = tokio::sync::oneshot::channel();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let _told = tell.send(String::from_utf8_lossy(&request[..length]).into_owned());
            stream.write_all(&answer).await.unwrap();
        });
        tasks.detach_all();
        (port, asked)
    }

    #[test]
    fn every_spelling_of_a_local_address_is_refused() {
        let client = client(Reach::Public);
        for text in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:7f00:1::]/",
            "http://169.254.169.254/latest/meta-data/",
            "https://10.0.0.1:8443/",
            "http://127.0.0.1./",
        ] {
            let refused = client.request(Method::GET, &url(text));
            assert!(
                matches!(refused, Err(Error::Refused { .. })),
                "{text}: {refused:?}"
            );
        }
    }

    #[test]
    fn only_plain_web_addresses_are_taken() {
        let client = client(Reach::Private);
        for text in [
            "ftp://example.com/",
            "file:///etc/passwd",
            "http://a:b@example.com/",
            "http://a@example.com/",
            "data:,x",
            "http://example.com../",
            "http://a..example.com/",
            "http://.example.com/",
            "http://./",
            "http://example.com:0/",
        ] {
            let refused = client.request(Method::GET, &url(text));
            assert!(matches!(refused, Err(Error::Url(_))), "{text}: {refused:?}");
        }
        let at_most = format!("http://example.com/{}", "a".repeat(crate::policy::URL_BYTES - 19));
        assert!(client.request(Method::GET, &url(&at_most)).is_ok());
        let refused = client.request(Method::GET, &url(&(at_most + "a")));
        assert!(matches!(refused, Err(Error::Url(_))), "{refused:?}");
    }

    #[tokio::test]
    async fn an_answer_that_switches_protocols_is_none() {
        let (port, _asked) =
            answering("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nx").await;
        let client = client(Reach::Private);
        let request = client.request(Method::GET, &url(&format!("http://127.0.0.1:{port}/")));
        let refused = client.send(request.unwrap()).await;
        assert!(matches!(refused, Err(Error::Switched)), "{refused:?}");
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_a_local_address_is_refused_before_a_connection() {
        let client = client(Reach::Public);
        let request = client.request(Method::GET, &url("http://localhost:9/")).unwrap();
        let refused = client.send(request).await;
        assert!(
            matches!(&refused, Err(Error::Refused { host }) if host == "localhost"),
            "{refused:?}"
        );
    }

    #[tokio::test]
    async fn the_private_reach_gets_an_answer_and_follows_no_redirect() {
        let (port, asked) =
            answering("HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n")
                .await;
        let client = client(Reach::Private);
        let request = client
            .request(Method::GET, &url(&format!("http://127.0.0.1:{port}/x")))
            .unwrap();
        let response = client.send(request).await.unwrap();
        assert_eq!(response.status(), 302);
        assert!(asked.await.unwrap().starts_with("GET /x HTTP/1.1"));
    }

    #[tokio::test]
    async fn a_request_names_the_engine_unless_it_names_something_else() {
        for (own, sent) in [(None, USER_AGENT), (Some("other/1"), "other/1")] {
            let (port, asked) = answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
            let url = url(&format!("http://127.0.0.1:{port}/"));
            let mut request = EngineClient::new(QUICK)
                .unwrap()
                .request(Method::GET, &url)
                .unwrap();
            if let Some(own) = own {
                request = request.header("user-agent", own);
            }
            send_patiently(request).await.unwrap();
            let asked = asked.await.unwrap();
            let names: Vec<&str> = asked
                .lines()
                .filter_map(|line| line.strip_prefix("user-agent: "))
                .collect();
            assert_eq!(names, [sent]);
        }
    }

    #[tokio::test]
    async fn a_compressed_body_is_unpacked_up_to_the_limit_and_another_coding_is_refused() {
        let packed = miniz_oxide::deflate::compress_to_vec_zlib(&[b'a'; 2_000], 6);
        for (coding, limit, told) in [
            ("deflate", 2_000, Ok(2_000)),
            ("deflate", 1_999, Err("the answer is larger than 1999 bytes")),
            (
                "br",
                2_000,
                Err("the answer is compressed as `br`, which was not asked for"),
            ),
        ] {
            let mut answer =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-encoding: {coding}\r\n\r\n")
                    .into_bytes();
            answer.extend_from_slice(&packed);
            let (port, _asked) = answering(answer).await;
            let client = client(Reach::Private);
            let request = client.request(Method::GET, &url(&format!("http://127.0.0.1:{port}/")));
            let body = read_body(client.send(request.unwrap()).await.unwrap(), limit).await;
            let body = body.map(|body| body.len()).map_err(|error| error.to_string());
            assert_eq!(body, told.map_err(str::to_owned));
        }
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused_with_and_without_a_length() {
        for answer in [
            "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nabcdef",
            "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nabcdef",
        ] {
            let client = client(Reach::Private);
            for (limit, fits) in [(5, false), (6, true)] {
                let (port, _asked) = answering(answer).await;
                let request = client
                    .request(Method::GET, &url(&format!("http://127.0.0.1:{port}/")))
                    .unwrap();
                let body = read_body(client.send(request).await.unwrap(), limit).await;
                assert_eq!(body.is_ok(), fits, "{limit}: {body:?}");
                assert!(fits || matches!(body, Err(Error::TooLarge { limit: 5 })));
            }
        }
    }

    #[tokio::test]
    async fn an_error_does_not_repeat_the_url() {
        let client = client(Reach::Private);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let request = client
            .request(Method::GET, &url(&format!("http://127.0.0.1:{port}/?token=hush")))
            .unwrap();
        let text = client.send(request).await.unwrap_err().to_string();
        assert!(!text.contains("hush"), "{text}");
        assert!(text.contains("refused"), "{text}");
    }
}
