//! The two HTTP clients: the guarded one for addresses that others name, and the plain one for what the operator names.

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

/// Most connections that a request finds closed before it fails.
const STALE: usize = 4;

/// Makes `ring` the process's TLS provider, for whoever else needs one: the clients here name it themselves. A second
/// call changes nothing.
fn install_crypto() {
    // Err means that a provider is installed already, which is all that is asked for.
    let _installed = rustls::crypto::ring::default_provider().install_default();
}

/// Product and version, sent as `User-Agent` with every request that sets none: some servers refuse requests without one.
pub const USER_AGENT: &str = concat!("sortie/", env!("CARGO_PKG_VERSION"));

/// Timeouts of the parts of a request.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Resolution and connection.
    pub connect: Duration,
    /// The longest silence of the other side.
    pub read: Duration,
    /// The whole exchange; `None` for streams, which `read` bounds.
    pub total: Option<Duration>,
}

/// A client for addresses that strangers name. It reaches only what its [`Network`] allows, directly or through the
/// proxies of that, follows no redirect and keeps no cookie.
#[derive(Clone, Debug)]
pub struct Client {
    ways: Ways,
    network: Arc<Network>,
}

impl Client {
    /// A client of the given reach, without a proxy.
    pub fn new(reach: Reach, timeouts: Timeouts) -> Result<Self, Error> {
        Self::on(Arc::new(Network::new(reach, Vec::new())), timeouts)
    }

    /// A client that reaches what `network` allows.
    pub fn on(network: Arc<Network>, timeouts: Timeouts) -> Result<Self, Error> {
        let ways = Ways::new(network.outbound(), timeouts, Some(&network))?;
        Ok(Self { ways, network })
    }

    /// Begins a request of a run: where the run's policy allows it and the client reaches. As no redirect is followed,
    /// each step of a chain of redirects comes through here.
    pub fn request_under(&self, policy: &Policy, method: Method, url: &Url) -> Result<RequestBuilder, Error> {
        policy.check_url(url)?;
        self.request(method, url)
    }

    /// Begins a request, where its URL is one that may be reached. The names in it are judged when they are
    /// resolved, by the addresses that are then connected to, or before a proxy is given them.
    pub fn request(&self, method: Method, url: &Url) -> Result<RequestBuilder, Error> {
        check_form(url).map_err(Error::Url)?;
        // The resolver is not asked for literal addresses: they are judged here.
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

    /// Sends a request. A refused address comes out as [`Error::Refused`].
    pub async fn send(&self, request: RequestBuilder) -> Result<reqwest::Response, Error> {
        usable(self.judged(request).await?.send().await)
    }

    /// Sends a request as [`send`](Self::send) does, as soon as there is a file descriptor for its connection.
    pub async fn send_patiently(&self, request: RequestBuilder) -> Result<reqwest::Response, Error> {
        usable(send_patiently(self.judged(request).await?).await)
    }

    /// Sends a request that may arrive twice, and again at once where a connection that was kept turns out to be closed.
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

    /// Judges the name of a request that goes through a proxy. The names of others are judged when they are resolved.
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

/// Sends a request, and again while there is no file descriptor for its connection: nothing of it was sent then.
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

/// A client for what the operator names: any address, no redirect.
#[derive(Clone, Debug)]
pub struct EngineClient {
    ways: Ways,
}

impl EngineClient {
    /// A client with these time limits, without a proxy.
    pub fn new(timeouts: Timeouts) -> Result<Self, Error> {
        Self::through(&Outbound::default(), timeouts)
    }

    /// A client with the proxies and the trusted certificates of `outbound`.
    pub fn through(outbound: &Outbound, timeouts: Timeouts) -> Result<Self, Error> {
        let ways = Ways::new(outbound, timeouts, None)?;
        Ok(Self { ways })
    }

    /// Begins a request.
    pub fn request(&self, method: Method, url: &Url) -> Result<RequestBuilder, Error> {
        check_form(url).map_err(Error::Url)?;
        Ok(self.ways.of(url).request(method, url.clone()))
    }
}

/// A bare client for the object store that the operator named: any address, no redirect. The library that speaks to the
/// store needs one of its own.
pub fn store_client(outbound: &Outbound, timeouts: Timeouts) -> Result<reqwest::Client, Error> {
    let ways = outbound.clone();
    let proxy = reqwest::Proxy::custom(move |url| Some(ways.proxy_of(url)?.expose().to_owned()));
    Ok(base(timeouts, outbound, None)?.proxy(proxy).build()?)
}

/// The connections of a client: direct ones, and those through the proxy of each scheme.
#[derive(Clone, Debug)]
struct Ways {
    outbound: Outbound,
    direct: reqwest::Client,
    http: Option<reqwest::Client>,
    https: Option<reqwest::Client>,
}

impl Ways {
    /// Names are judged by `network` where there is one.
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

/// Gives reqwest the addresses that its network allows, and nothing for a name that has another. The proxy is the
/// operator's, and may be anywhere.
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

    /// Answers one connection with `answer` and returns the port and what was asked.
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
