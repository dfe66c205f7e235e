//! Handles requests to the proxy: parses and checks the target, and forwards plain HTTP.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version,
    header::{self, HOST},
    uri::{Authority, Scheme},
};
use http_body_util::{Either, Full};
use hyper::{
    body::{Body, Frame, Incoming, SizeHint},
    client::conn::http1,
    upgrade::OnUpgrade,
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use sortie_net::{NoConnection, Policy, Refused, Stream, policy::parse_host};
use tokio::{task::JoinSet, time::timeout};
use url::Host;

use super::{
    Event, HEAD_BYTES, HEAD_FIELDS, Limits, OnEvent,
    watched::{Counts, Watched},
};

/// Maximum number of characters of a run's text in an event.
const TOLD_CHARS: usize = 255;
/// Header fields that apply only to one connection.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Methods that return the request, with header fields that intermediaries have added.
const ECHOING: [&str; 2] = ["TRACE", "TRACK"];

/// The body of a response: a message of the proxy, or the forwarded body.
type Answer = Response<Either<Full<Bytes>, Passed>>;

/// The proxy of one run.
pub(super) struct Proxy {
    pub(super) policy: Arc<Policy>,
    pub(super) limits: Limits,
    pub(super) on_event: OnEvent,
    /// Number of bytes that the run may still transfer.
    pub(super) left: Arc<AtomicU64>,
}

/// A response of the proxy: its status and its message.
struct Denied(StatusCode, String);

fn malformed(why: &str) -> Denied {
    Denied(StatusCode::BAD_REQUEST, why.to_owned())
}

impl From<Refused> for Denied {
    fn from(refused: Refused) -> Self {
        let status = match refused {
            Refused::Form(_) => StatusCode::BAD_REQUEST,
            Refused::Unknown { .. } | Refused::Unjudged { .. } => StatusCode::BAD_GATEWAY,
            Refused::Port { .. } | Refused::Domain { .. } | Refused::Address { .. } => StatusCode::FORBIDDEN,
        };
        Self(status, refused.to_string())
    }
}

impl From<NoConnection> for Denied {
    fn from(none: NoConnection) -> Self {
        match none {
            NoConnection::Refused(refused) => refused.into(),
            NoConnection::Failed(_) => Self(StatusCode::BAD_GATEWAY, none.to_string()),
        }
    }
}

/// Target of a request.
pub(super) struct Target {
    pub(super) host: Host<String>,
    pub(super) port: u16,
}

/// A connection to the target or to the operator's proxy.
pub(super) struct Upstream {
    pub(super) io: Watched<Box<dyn Stream>>,
    pub(super) visit: Visit,
    /// Whether the connection ends at the operator's proxy, which requires absolute URLs.
    is_to_proxy: bool,
    authorization: Option<HeaderValue>,
}

/// Reports the end of an outgoing connection on drop.
pub(super) struct Visit {
    target: Target,
    counts: Arc<Counts>,
    on_event: OnEvent,
}

/// An accepted tunnel that waits for the upgrade of its connection.
pub(super) struct Tunnel {
    pub(super) upgrade: OnUpgrade,
    pub(super) host: Host<String>,
    pub(super) upstream: Upstream,
}

impl Drop for Visit {
    fn drop(&mut self) {
        (self.on_event)(Event::Closed {
            host: self.target.host.to_string(),
            port: self.target.port,
            sent: self.counts.sent.load(Ordering::Relaxed),
            received: self.counts.received.load(Ordering::Relaxed),
        });
    }
}

impl Proxy {
    /// Handles one request. Stores a requested tunnel in `tunnel`.
    pub(super) async fn answer(&self, request: Request<Incoming>, tunnel: &Mutex<Option<Tunnel>>) -> Answer {
        let asked = named_in(&request);
        let answered = if request.method() == Method::CONNECT {
            self.open_tunnel(request, tunnel).await
        } else {
            self.pass_on(request).await
        };
        answered.unwrap_or_else(|denied| self.denial(&asked, denied))
    }

    /// Refuses a request because the run has reached its maximum of connections.
    pub(super) fn turn_away(&self, request: &Request<Incoming>) -> Answer {
        let why = format!(
            "all {} connections of the run are in use: close some, or open fewer at once",
            self.limits.connections
        );
        self.denial(&named_in(request), Denied(StatusCode::SERVICE_UNAVAILABLE, why))
    }

    fn denial(&self, asked: &str, Denied(status, why): Denied) -> Answer {
        self.refuse(asked, &why);
        // The response contains only the reason, because the command shows it to the agent.
        let mut answer = Response::new(Either::Left(Full::from(format!("egress proxy: {why}\n"))));
        *answer.status_mut() = status;
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        answer.headers_mut().insert(header::CONTENT_TYPE, text);
        answer
    }

    /// Reports a refusal.
    pub(super) fn refuse(&self, target: &str, why: &str) {
        (self.on_event)(Event::Refused {
            target: target.chars().take(TOLD_CHARS).collect(),
            why: why.chars().take(TOLD_CHARS).collect(),
        });
    }

    async fn open_tunnel(
        &self,
        request: Request<Incoming>,
        tunnel: &Mutex<Option<Tunnel>>,
    ) -> Result<Answer, Denied> {
        let Some(authority) = request.uri().authority() else {
            return Err(malformed("CONNECT must name a host and a port"));
        };
        let target = target(authority, None)?;
        if target.port != 443 {
            let why = "CONNECT is for port 443 alone: plain HTTP goes without a tunnel";
            return Err(Denied(StatusCode::FORBIDDEN, why.to_owned()));
        }
        let host = target.host.clone();
        let upstream = self.connect(target).await?;
        let asked = Tunnel {
            upgrade: hyper::upgrade::on(request),
            host,
            upstream,
        };
        *tunnel.lock() = Some(asked);
        Ok(Response::new(Either::Left(Full::default())))
    }

    async fn pass_on(&self, mut request: Request<Incoming>) -> Result<Answer, Denied> {
        if ECHOING.contains(&request.method().as_str()) {
            let why = format!("{} is not passed on", request.method());
            return Err(Denied(StatusCode::METHOD_NOT_ALLOWED, why));
        }
        let target = plain_target(request.uri(), request.headers())?;
        rewrite(&mut request, &target)?;
        let Upstream {
            io,
            visit,
            is_to_proxy,
            authorization,
        } = self.connect(target).await?;
        if is_to_proxy {
            name_whole_url(&mut request, &visit.target)?;
        }
        if let Some(authorization) = authorization {
            let name = header::PROXY_AUTHORIZATION;
            request.headers_mut().insert(name, authorization);
        }
        let broken = |error: hyper::Error| Denied(StatusCode::BAD_GATEWAY, error.to_string());
        let handshake = http1::Builder::new()
            .max_header_size(HEAD_BYTES)
            .max_headers(HEAD_FIELDS)
            .handshake(TokioIo::new(io));
        let (mut sender, connection) = handshake.await.map_err(broken)?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // A failure here also breaks the response, which reports it.
            let _ended = connection.await;
        });
        // The idle timeout of the connection detects silence. This timeout covers a server that keeps sending but never responds.
        let answer = timeout(self.limits.idle, sender.send_request(request)).await;
        let Ok(answer) = answer else {
            let why = "the server does not answer".to_owned();
            return Err(Denied(StatusCode::GATEWAY_TIMEOUT, why));
        };
        let (mut head, body) = answer.map_err(broken)?.into_parts();
        // We do not forward upgrades, so HTTP would not follow.
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            let why = "the server switched protocols, which was not asked for".to_owned();
            return Err(Denied(StatusCode::BAD_GATEWAY, why));
        }
        strip(&mut head.headers);
        let body = Passed {
            body,
            _driver: driver,
            _visit: visit,
        };
        Ok(Response::from_parts(head, Either::Right(body)))
    }

    /// Checks a target and connects to it, or to the operator's proxy.
    async fn connect(&self, target: Target) -> Result<Upstream, Denied> {
        if self.left.load(Ordering::Relaxed) == 0 {
            let why = format!("the run has transferred its {} bytes", self.limits.total_bytes);
            return Err(Denied(StatusCode::FORBIDDEN, why));
        }
        let connected = timeout(self.limits.connect, async {
            let host = target.host.to_string();
            self.policy.connect(&host, target.port).await
        });
        let Ok(connected) = connected.await else {
            let why = format!("{} cannot be reached: time-out", target.host);
            return Err(Denied(StatusCode::GATEWAY_TIMEOUT, why));
        };
        let connection = connected?;
        let counts = Arc::new(Counts::new(self.left.clone()));
        (self.on_event)(Event::Opened {
            host: target.host.to_string(),
            port: target.port,
        });
        Ok(Upstream {
            io: Watched::new(connection.stream, self.limits.idle, Some(counts.clone())),
            is_to_proxy: connection.is_to_proxy,
            authorization: connection.authorization,
            visit: Visit {
                target,
                counts,
                on_event: self.on_event.clone(),
            },
        })
    }
}

/// Returns the host and the port of a request's target. We omit path and query because they can contain secrets.
fn named_in(request: &Request<Incoming>) -> String {
    let authority = request.uri().authority();
    authority.map_or_else(String::new, Authority::to_string)
}

/// Parses the host and the port of an authority.
fn target(authority: &Authority, default: Option<u16>) -> Result<Target, Denied> {
    if authority.as_str().contains('@') {
        return Err(malformed("the target must not carry a user name"));
    }
    let written_port = authority.as_str().len() > authority.host().len();
    // `parse` also accepts a sign, which a port cannot have.
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let port = authority
        .port()
        .filter(|port| digits(port.as_str()))
        .map(|port| port.as_u16());
    let port = match (port, default) {
        (Some(port), _) => port,
        (None, Some(port)) if !written_port => port,
        (None, _) => return Err(malformed("the target must name a port, in digits")),
    };
    Ok(Target {
        host: parse_host(authority.host())?,
        port,
    })
}

/// Returns the target of a plain HTTP request. Its URL and its `Host` must agree.
fn plain_target(uri: &Uri, headers: &HeaderMap) -> Result<Target, Denied> {
    let Some(authority) = uri.authority() else {
        return Err(malformed(
            "this is a proxy: the request must name a whole URL, or be a CONNECT",
        ));
    };
    if uri.scheme() != Some(&Scheme::HTTP) {
        return Err(malformed("only http URLs come this way: https goes by CONNECT"));
    }
    let target = target(authority, Some(80))?;
    if target.port != 80 {
        let why = "plain HTTP is for port 80 alone".to_owned();
        return Err(Denied(StatusCode::FORBIDDEN, why));
    }
    let mut hosts = headers.get_all(HOST).iter();
    let named = match (hosts.next(), hosts.next()) {
        (Some(host), None) => Authority::try_from(host.as_bytes()).ok(),
        (Some(_), Some(_)) => return Err(malformed("the request has more than one Host")),
        (None, _) => return Err(malformed("the request has no Host")),
    };
    let named = named.map(|named| self::target(&named, Some(80))).transpose()?;
    if named.is_none_or(|named| named.host != target.host || named.port != target.port) {
        let why = "the Host of the request is another than that of its URL".to_owned();
        return Err(Denied(StatusCode::FORBIDDEN, why));
    }
    Ok(target)
}

/// Converts a proxy request to a request for the server.
fn rewrite(request: &mut Request<Incoming>, target: &Target) -> Result<(), Denied> {
    let path = request.uri().path_and_query().cloned();
    let path = path.unwrap_or_else(|| http::uri::PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
    *request.version_mut() = Version::HTTP_11;
    strip(request.headers_mut());
    request.headers_mut().remove(header::EXPECT);
    let host = HeaderValue::from_str(&target.host.to_string());
    let host = host.map_err(|_| malformed("the host must be a plain name or address"))?;
    request.headers_mut().insert(HOST, host);
    Ok(())
}

/// Restores the absolute URL, which the operator's proxy requires.
fn name_whole_url(request: &mut Request<Incoming>, target: &Target) -> Result<(), Denied> {
    let mut parts = request.uri().clone().into_parts();
    parts.scheme = Some(Scheme::HTTP);
    parts.authority = Authority::try_from(target.host.to_string()).ok();
    *request.uri_mut() =
        Uri::from_parts(parts).map_err(|_| malformed("the host must be a plain name or address"))?;
    Ok(())
}

/// Removes header fields that apply only to one connection, including those that `Connection` names.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // `Connection` must not remove the fields that frame the body.
        .filter(|name| !matches!(*name, header::CONTENT_LENGTH | HOST))
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// A forwarded body. Dropping it closes the connection to the server.
pub(super) struct Passed {
    body: Incoming,
    _driver: JoinSet<()>,
    _visit: Visit,
}

impl Body for Passed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
