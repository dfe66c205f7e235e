//! Metrics of requests.

use std::{
    hash::{Hash, Hasher},
    time::Duration,
};

use ::http::{Method, StatusCode};
use axum::{
    extract::{MatchedPath, Request},
    middleware::Next,
    response::Response,
};
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::ConnectionMetrics;

/// Histogram buckets of the time to an answer in seconds: from a read of memory to a body of 24 MiB over a slow line, or `wait`.
const SECONDS: [f64; 14] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0,
];

/// Route label of a request without a route: an unknown path, or a request that was refused before the router.
const NO_ROUTE: &str = "none";

/// The template of a route.
#[derive(Clone, Debug)]
struct Route(Option<MatchedPath>);

impl Route {
    fn as_str(&self) -> &str {
        self.0.as_ref().map_or(NO_ROUTE, MatchedPath::as_str)
    }
}

impl PartialEq for Route {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Route {}

impl Hash for Route {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl EncodeLabelValue for Route {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        EncodeLabelValue::encode(&self.as_str(), encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    method: &'static str,
    route: Route,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    route: Route,
    status: &'static str,
}

/// Exhausted quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Quota of a credential.
    Key,
    /// Quota of a network, for requests without a valid credential.
    Network,
}

/// Metrics of one server. Clones share the figures.
#[derive(Clone, Debug)]
pub(crate) struct HttpMetrics {
    requests: Family<Answered, Counter>,
    duration: Family<Asked, Histogram, fn() -> Histogram>,
    refused_keys: Counter,
    refused_networks: Counter,
    refusals: Family<[(&'static str, &'static str); 1], Counter>,
    streams: Gauge,
    /// Metrics of the connections.
    pub(crate) connections: ConnectionMetrics,
}

impl Default for HttpMetrics {
    fn default() -> Self {
        let refusals = Family::<[(&'static str, &'static str); 1], Counter>::default();
        Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            refused_keys: refusals.get_or_create_owned(&[("quota", "key")]),
            refused_networks: refusals.get_or_create_owned(&[("quota", "network")]),
            refusals,
            streams: Gauge::default(),
            connections: ConnectionMetrics::default(),
        }
    }
}

impl HttpMetrics {
    /// Records an answered request; `response` has the route from [`note_route`].
    pub(crate) fn answered(&self, method: &Method, response: &mut Response, took: Duration) {
        let (method, status) = (method_name(method), class(response.status()));
        let route = Route(response.extensions_mut().remove::<MatchedPath>());
        let asked = Asked { method, route };
        self.duration.get_or_create(&asked).observe(took.as_secs_f64());
        let Asked { method, route } = asked;
        let answered = Answered {
            method,
            route,
            status,
        };
        self.requests.get_or_create(&answered).inc();
    }

    /// Counts a request that was refused because its quota was exhausted.
    pub(crate) fn refused(&self, whose: Refused) {
        match whose {
            Refused::Key => self.refused_keys.inc(),
            Refused::Network => self.refused_networks.inc(),
        };
    }

    /// Counts an open event stream until the returned guard is dropped.
    pub(crate) fn stream(&self) -> OpenStream {
        self.streams.inc();
        OpenStream(self.streams.clone())
    }

    /// Registers every figure.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "http_requests",
            "Requests by the template of their route, their method and the class of their answer; the route is `none` where none took it",
            self.requests.clone(),
        );
        registry.register(
            "http_request_duration_seconds",
            "Time from the head of a request to the head of its answer",
            self.duration.clone(),
        );
        registry.register(
            "rate_limit_refusals",
            "Requests that were answered with 429, by the kind of the exhausted quota",
            self.refusals.clone(),
        );
        registry.register(
            "streams_open",
            "Event streams that are open now",
            self.streams.clone(),
        );
        self.connections.register(registry);
    }
}

/// An open event stream.
#[derive(Debug)]
pub(crate) struct OpenStream(Gauge);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Records the route on the response, for [`HttpMetrics::answered`].
pub(crate) async fn note_route(route: MatchedPath, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.extensions_mut().insert(route);
    response
}

/// Clients choose the method: all unknown methods share one label.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() {
        100..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        _ => "5xx",
    }
}
