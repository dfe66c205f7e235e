//! Pipeline of every request: id, credential, rate limit, router, headers. A single function, so that every response has its
//! `X-Request-Id` and rate-limit headers, errors and panics included. Each API has a gate; the gates of a
//! server share the counters of its rate limits.
//!
//! A request with a valid credential is counted against the subject of the credential, every other request against the client's
//! network. The credential is looked up first, so that guesses by other clients never block a valid one. The health routes and
//! the metrics are not counted: a probe must not see a node as unhealthy because it polls too often. Neither are the files of the console. Webhooks of the payment
//! provider are counted only if they are refused.

use std::{any::Any, net::IpAddr, panic::AssertUnwindSafe, sync::Arc, time::Instant};

use axum::{
    Router,
    body::Body,
    response::{IntoResponse as _, Response},
};
use futures_util::FutureExt as _;
use http::{
    HeaderMap, HeaderValue, Method, Request, StatusCode, Uri,
    header::{CONNECTION, RETRY_AFTER},
};
use sortie_api::{ErrorBody, ErrorCode, Refusal, Role, secret::Presented};
use sortie_base::network;
use sortie_engine::{Engine, Hop, PEER_HEADER};
use sortie_store::access::{Actor, Principal};
use tower::ServiceExt as _;
use tracing::Instrument;

use crate::{
    Options,
    browsers::{Browsers, transport_of},
    connections::Answers,
    cross_origin::{CrossOrigin, write_cross_origin},
    kit::{
        ApiError, BodyBudget, Challenges, Counting, Credential, CredentialThrottle, DeprecationHeaders,
        Fault, LacksScope, Quota, RateLimits, RequestIds, Standing, Token, Transport, TrustedProxies,
        UnreadBody, X_REQUEST_ID, bearer, error_response, hold, rate_limited,
    },
    metrics::{HttpMetrics, METRICS, Refused},
    org::{EngineDoor, OrganizationDoor, STRIPE_WEBHOOK},
    pages, routes,
    spans::{Spans, redacted_path},
};

/// Gate of one API of a node, shared by its connections.
pub(crate) struct Gate {
    engine: Engine,
    door: Door,
    router: Router,
    ids: RequestIds,
    limits: Arc<RateLimits>,
    bodies: BodyBudget,
    throttle: CredentialThrottle,
    proxies: TrustedProxies,
    deprecation: DeprecationHeaders,
    cross_origin: CrossOrigin,
    metrics: HttpMetrics,
}

/// API of a gate, with the component that looks up its credentials.
pub(crate) enum Door {
    /// Engine API.
    Engine(Box<EngineDoor>),
    /// Organization API.
    Organization(Box<OrganizationDoor>),
}

impl Door {
    /// Challenges of the refusals of this API.
    fn challenges(&self) -> &Challenges {
        const PLAIN: &Challenges = &Challenges::none();
        match self {
            Self::Engine(door) => &door.challenges,
            Self::Organization(_) => PLAIN,
        }
    }

    /// Rules for the browsers at this API; absent if it has no pages.
    fn browsers(&self) -> Option<&Browsers> {
        match self {
            Self::Engine(door) => door.browsers.as_deref(),
            Self::Organization(door) => Some(&door.browsers),
        }
    }
}

/// Quota that a request is counted against.
#[derive(Clone, Copy)]
enum Counted {
    Subject(Standing),
    Network(Standing),
}

impl From<Counted> for Refused {
    fn from(counted: Counted) -> Self {
        match counted {
            Counted::Subject(_) => Self::Key,
            Counted::Network(_) => Self::Network,
        }
    }
}

impl Gate {
    /// Creates a gate. `seed` is a random number that makes the request ids of this gate unique.
    pub(crate) fn new(
        engine: Engine,
        (door, router): (Door, Router),
        (limits, bodies, proxies): (&Arc<RateLimits>, &BodyBudget, &TrustedProxies),
        options: &Options,
        metrics: HttpMetrics,
        seed: u64,
    ) -> Self {
        Self {
            engine,
            door,
            router,
            ids: RequestIds::new(seed),
            limits: Arc::clone(limits),
            bodies: bodies.clone(),
            throttle: CredentialThrottle::default(),
            proxies: proxies.clone(),
            deprecation: DeprecationHeaders::new(options.deprecation.as_ref()),
            cross_origin: CrossOrigin::new(&options.allowed_origins),
            metrics,
        }
    }

    /// Answers one request of the client at `peer`.
    async fn handle(&self, peer: IpAddr, mut request: Request<Body>) -> Response {
        let began = Instant::now();
        let id = self.ids.of(request.headers());
        let spans = Spans::of(self.engine.traces(), &request, id.as_str());
        let address = self.proxies.client_address(peer, request.headers());
        let network = network(address);
        request.extensions_mut().insert(Actor {
            address: Some(address),
            request_id: Some(id.as_str().to_owned()),
            trace: spans.context.clone(),
            ..Actor::default()
        });
        request.extensions_mut().insert(Hop::First);
        let transport = self.door.browsers().map_or(Transport::Plain, |browsers| {
            browsers.transport(peer, request.headers())
        });
        request.extensions_mut().insert(transport);
        let what = Described::of(&request);
        let unread = UnreadBody::watch(&mut request);
        let sent = bearer(request.headers()).is_some();
        let reader = self.cross_origin.reader(&request);
        let mut counted = None;
        let answer = AssertUnwindSafe(self.answer(network, request, &mut counted))
            .catch_unwind()
            .instrument(spans.exported.clone())
            .instrument(spans.log.clone())
            .await;
        let response = answer
            .unwrap_or_else(|panic| ApiError::from(Refusal::internal(panic_text(&*panic))).into_response());
        let mut response = hold(&self.bodies, &what.method, response).await;

        spans.answered(&response);
        self.metrics
            .answered(&what.method, &mut response, began.elapsed());
        let status = response.status();
        if let Some(Fault(chain)) = response.extensions_mut().remove::<Fault>() {
            let _entered = spans.log.enter();
            if status == StatusCode::INTERNAL_SERVER_ERROR {
                tracing::error!(method = %what.method, path = &*redacted_path(what.uri.path()), error = %chain, "request failed");
                response = if pages::is_html(&response) {
                    pages::internal_error(id.as_str())
                } else {
                    internal_error(id.as_str())
                };
            } else {
                tracing::warn!(method = %what.method, path = &*redacted_path(what.uri.path()), %status, error = %chain, "refused a request");
            }
        }
        let (quota, standing) = match counted {
            Some(Counted::Subject(standing)) => (&self.limits.with_credential, standing),
            Some(Counted::Network(standing)) => (&self.limits.anonymous, standing),
            None => (
                &self.limits.anonymous,
                self.limits.peek_network(network, now_seconds(&self.engine)),
            ),
        };
        let lacks_scope = response.extensions().get::<LacksScope>().is_some();
        let headers = response.headers_mut();
        standing.write(quota, headers);
        if what.uri.path().starts_with("/v1/") {
            self.deprecation.write(headers);
        }
        if status == StatusCode::TOO_MANY_REQUESTS && !headers.contains_key(RETRY_AFTER) {
            headers.insert(RETRY_AFTER, HeaderValue::from(standing.reset));
        } else if status == StatusCode::UNAUTHORIZED {
            self.door
                .challenges()
                .unauthorized(what.uri.path(), sent, headers);
        } else if lacks_scope {
            self.door.challenges().insufficient_scope(headers);
        }
        write_cross_origin(reader, headers);
        headers.insert(X_REQUEST_ID, id.into_header());
        if let Some(unread) = unread {
            unread.finish(&mut response).await;
        }
        response
    }

    async fn answer(
        &self,
        network: IpAddr,
        mut request: Request<Body>,
        counted: &mut Option<Counted>,
    ) -> Response {
        if let Some(console) = self
            .door
            .browsers()
            .and_then(|browsers| browsers.console.as_ref())
            && let Some(file) = console
                .answer((request.method(), request.uri().path()), request.headers())
                .await
        {
            return file;
        }
        if let Some(peer) = self.peer(&request) {
            // The node that received the request has counted the client.
            request.extensions_mut().insert(Credential::Principal(peer));
            request.extensions_mut().insert(Hop::Second);
        } else if self.is_webhook(request.uri()) {
            return self.webhook(network, request, counted).await;
        } else if !matches!(request.uri().path(), routes::HEALTHZ | routes::READYZ | METRICS) {
            let (sent, by_cookie) = self.sent(&request);
            let sent = sent.map(Presented::from);
            let token = sent.map(Token::of);
            let credential = self.look_up(sent).await;
            let clock = || now_seconds(&self.engine);
            let by = match credential.subject() {
                Some(subject) => Counted::Subject(self.limits.count_subject(subject, &clock).await),
                None => Counted::Network(self.limits.count_network(network, &clock).await),
            };
            *counted = Some(by);
            let (Counted::Subject(standing) | Counted::Network(standing)) = by;
            if !standing.admitted {
                self.metrics.refused(by.into());
                return if pages::wants_page(request.headers()) {
                    pages::rate_limited(standing.reset)
                } else {
                    rate_limited(standing.reset).into_response()
                };
            }
            if let Some(browsers) = by_cookie
                && let Err(refusal) = browsers.check(&request)
            {
                return ApiError::from(refusal).into_response();
            }
            request.extensions_mut().insert(credential);
            if let Some(token) = token {
                request.extensions_mut().insert(token);
            }
        }
        if let Some(answer) = self.cross_origin.preflight(&request) {
            return answer;
        }
        match &self.door {
            Door::Organization(door) if OrganizationDoor::leads_to_engine(request.uri()) => {
                door.engine(request).await
            }
            Door::Organization(_) => pass(&self.router, request).await,
            Door::Engine(door) => door.answer(request, &self.router).await,
        }
    }

    /// Returns true for the path to which the payment provider sends its events.
    fn is_webhook(&self, uri: &Uri) -> bool {
        matches!(self.door, Door::Organization(_)) && uri.path() == STRIPE_WEBHOOK
    }

    /// Answers a webhook. It has no credential, and counts against its network only if it is refused: the payment provider sends
    /// all webhooks from a few addresses.
    async fn webhook(
        &self,
        network: IpAddr,
        request: Request<Body>,
        counted: &mut Option<Counted>,
    ) -> Response {
        let answer = pass(&self.router, request).await;
        if !answer.status().is_client_error() {
            return answer;
        }
        let clock = || now_seconds(&self.engine);
        let standing = self.limits.count_network(network, &clock).await;
        let by = Counted::Network(standing);
        *counted = Some(by);
        if standing.admitted {
            return answer;
        }
        self.metrics.refused(by.into());
        rate_limited(standing.reset).into_response()
    }

    /// Returns the credential of a request, and the rules for browsers if it comes from the cookie. If the request has an
    /// `Authorization` header, its cookie is ignored.
    fn sent<'a>(&self, request: &'a Request<Body>) -> (Option<&'a str>, Option<&Browsers>) {
        let headers = request.headers();
        match (bearer(headers), self.door.browsers()) {
            (None, Some(browsers)) => {
                let token = browsers.cookie.token(headers, transport_of(request.extensions()));
                (token, token.map(|_| browsers))
            }
            (credential, _) => (credential, None),
        }
    }

    /// The client for which another node of this engine forwards the request. `None` if the request does not come from a node: it
    /// needs a credential like any other then.
    fn peer(&self, request: &Request<Body>) -> Option<Principal> {
        if matches!(self.door, Door::Organization(_)) {
            return None;
        }
        let header = request.headers().get(PEER_HEADER)?.to_str().ok()?;
        let target = request.uri().path_and_query()?.as_str();
        let peer = self.engine.peer(request.method().as_str(), target, header)?;
        Some(Principal {
            by: peer.by,
            org: peer.org,
            role: Role::Member,
            until: None,
            user: None,
            suspended: false,
            scope: None,
            session_key: None,
        })
    }

    /// Finds a credential. Returns `None` if it is not valid.
    async fn find(&self, credential: Presented<'_>) -> Result<Option<Credential>, Refusal> {
        match &self.door {
            Door::Organization(door) => door.find(credential).await,
            Door::Engine(door) => {
                if let Some(sign_in) = &door.sign_in
                    && let Some(person) = sign_in.find(credential).await?
                {
                    return Ok(Some(person));
                }
                if let Some((grant, key)) = self.engine.authenticate_run_token(credential).await? {
                    return Ok(Some(Credential::RunToken(grant, key)));
                }
                let found = self.engine.authenticate(credential).await?;
                let has_console = door
                    .browsers
                    .as_ref()
                    .is_some_and(|browsers| browsers.console.is_some());
                let found = found.filter(|principal| has_console || principal.session_key.is_none());
                Ok(found.map(Credential::Principal))
            }
        }
    }

    /// Looks a credential up, unless a look-up in this window found it to be unknown.
    async fn look_up(&self, sent: Option<Presented<'_>>) -> Credential {
        let Some(credential) = sent else {
            return Credential::Missing;
        };
        let token = Token::of(credential);
        if self.throttle.is_unknown(token, now_seconds(&self.engine)) {
            return Credential::Invalid;
        }
        match self.find(credential).await {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.throttle.remember(token, now_seconds(&self.engine));
                Credential::Invalid
            }
            Err(failure) => Credential::Unchecked(failure),
        }
    }
}

/// Creates the counters of the rate limits of a server.
pub(crate) fn rate_limits(engine: &Engine, options: &Options) -> RateLimits {
    let counting = if engine.store().is_shared() {
        Counting::Together {
            patience: options.rate_limit_patience,
        }
    } else {
        Counting::Alone
    };
    RateLimits::new(
        Quota::per_minute(options.requests_per_minute),
        Quota::per_minute(options.anonymous_requests_per_minute),
        counting,
    )
}

/// Synchronizes the rate limits with other nodes, until the future is dropped.
pub(crate) async fn share_limits(limits: &RateLimits, engine: &Engine) {
    limits.keep_leased(engine, &|| now_seconds(engine)).await;
}

impl Answers for Gate {
    fn new_request_id(&self) -> String {
        self.ids.of(&HeaderMap::new()).as_str().to_owned()
    }

    async fn answers(&self, peer: IpAddr, request: Request<Body>) -> Response {
        let mut response = self.handle(peer, request).await;
        if self.engine.is_draining() {
            // The client opens a new connection for its next request, which reaches another node.
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        response
    }
}

/// Answer to an internal error, with the id of the request for the operator.
fn internal_error(request_id: &str) -> Response {
    let body = ErrorBody {
        error: format!("internal error, request id {request_id}"),
        code: ErrorCode::Internal,
    };
    error_response(StatusCode::INTERNAL_SERVER_ERROR, &body)
}

/// Passes a request to a router, which is always ready and never fails.
pub(crate) async fn pass(router: &Router, request: Request<Body>) -> Response {
    router
        .clone()
        .oneshot(request)
        .await
        .unwrap_or_else(|never| match never {})
}

/// Log fields of a failed request: never the query, the headers or the name of a file.
struct Described {
    method: Method,
    uri: Uri,
}

impl Described {
    fn of(request: &Request<Body>) -> Self {
        Self {
            method: request.method().clone(),
            uri: request.uri().clone(),
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panic: {}", text.unwrap_or_default())
}

/// Seconds since 1970: windows of rate limits begin with the minutes of the clock.
fn now_seconds(engine: &Engine) -> u64 {
    u64::try_from(engine.clock().now().as_micros()).unwrap_or_default() / 1_000_000
}

#[cfg(test)]
mod tests;
