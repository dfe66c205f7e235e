//! The spans of a request: one for the log, which adds its id to every log line, and one for export, which follows
//! OpenTelemetry's semantic conventions for HTTP servers. Both omit the query, the headers and the body, and the names of files
//! in the path.

use std::borrow::Cow;

use axum::{extract::MatchedPath, response::Response};
use http::{HeaderMap, Request};
use sortie_api::{SPANS, TraceContext};
use sortie_engine::Traces;
use tracing::{Span, field::Empty};

use crate::{metrics::METRICS, routes};

/// The spans of one request.
pub(crate) struct Spans {
    pub(crate) exported: Span,
    pub(crate) log: Span,
    /// Trace context for the work that the request starts.
    pub(crate) context: Option<TraceContext>,
}

impl Spans {
    /// Begins the spans. A valid `traceparent` of the request is continued. Probes and scrapes are not exported.
    pub(crate) fn of<B>(traces: &Traces, request: &Request<B>, request_id: &str) -> Self {
        let path = request.uri().path();
        let method = request.method().as_str();
        let exported = if matches!(path, routes::HEALTHZ | routes::READYZ | METRICS) {
            Span::none()
        } else {
            tracing::info_span!(
                target: SPANS, parent: None, "request", otel.name = method, otel.kind = "server",
                http.request.method = method, url.path = &*redacted_path(path), url.scheme = "http", http.route = Empty,
                http.response.status_code = Empty, error.type = Empty, otel.status_code = Empty, request_id,
            )
        };
        let context = traces.join(&exported, incoming(request.headers()).as_ref());
        let trace_id = context.as_ref().map(TraceContext::trace_id);
        let log = tracing::error_span!(parent: None, "request", request_id, trace_id);
        Self {
            exported,
            log,
            context,
        }
    }

    /// Records the status, and the route that names the exported span. Only server errors count as failures.
    pub(crate) fn answered(&self, response: &Response) {
        if let Some(route) = response.extensions().get::<MatchedPath>() {
            self.exported.record("http.route", route.as_str());
        }
        let status = response.status();
        let code = status.as_u16();
        self.exported.record("http.response.status_code", i64::from(code));
        if status.is_server_error() {
            self.exported.record("error.type", status.as_str());
            self.exported.record("otel.status_code", "ERROR");
        }
    }
}

/// Redacts a path for spans and the log: it is cut where the name of a file of an organization may begin. Names that an operator
/// chose (workflows, connections) are kept.
pub(crate) fn redacted_path(path: &str) -> Cow<'_, str> {
    let end = ["/artifacts/", "/files/"]
        .iter()
        .filter_map(|above| path.find(above).map(|at| at + above.len()))
        .min();
    match end.and_then(|end| path.get(..end)) {
        Some(above) => Cow::Owned(format!("{above}*")),
        None => Cow::Borrowed(path),
    }
}

/// Returns the trace context that a client sent, or `None` if the header is repeated.
fn incoming(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all("traceparent").iter();
    let parent = parents.next()?.to_str().ok()?;
    if parents.next().is_some() {
        return None;
    }
    let states: Vec<&str> = headers
        .get_all("tracestate")
        .iter()
        .filter_map(|state| state.to_str().ok())
        .collect();
    TraceContext::parse(parent, (!states.is_empty()).then(|| states.join(",")).as_deref())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_trace_is_continued_where_one_valid_parent_is_sent() {
        let states = [
            ("traceparent", PARENT),
            ("tracestate", "a=1"),
            ("tracestate", "b=2"),
        ];
        let context = incoming(&headers(&states)).unwrap();
        assert_eq!(context.tracestate(), Some("a=1,b=2"));
        for none in [
            &[("tracestate", "a=1")][..],
            &[("traceparent", "00-0-0-00")],
            &[("traceparent", PARENT), ("traceparent", PARENT)],
        ] {
            assert_eq!(incoming(&headers(none)), None, "{none:?}");
        }
    }

    #[test]
    fn a_path_is_shown_without_the_names_of_files() {
        for (path, expected) in [
            (
                "/v1/runs/run_1/artifacts/layoffs-2027.pdf",
                "/v1/runs/run_1/artifacts/*",
            ),
            (
                "/v1/runs/run_1/artifacts/a/artifacts/b",
                "/v1/runs/run_1/artifacts/*",
            ),
            ("/v1/runs/run_1/artifacts", "/v1/runs/run_1/artifacts"),
            ("/v1/files/layoffs-2027.pdf/content", "/v1/files/*"),
            ("/v1/files/artifacts/content", "/v1/files/*"),
            ("/v1/files", "/v1/files"),
            ("/v1/workflows/daily", "/v1/workflows/daily"),
        ] {
            assert_eq!(redacted_path(path), expected);
        }
    }

    #[test]
    fn without_an_export_the_trace_of_a_client_is_handed_on_as_it_came() {
        let request = Request::get("/v1/runs")
            .header("traceparent", PARENT)
            .body(())
            .unwrap();
        let spans = Spans::of(&Traces::default(), &request, "req-1");
        assert_eq!(spans.context.unwrap().traceparent(), PARENT);
    }
}
