//! Traces across tasks: from a request to the worker that claims the run, also on another node, and to its callback.
//!
//! The engine knows W3C contexts only. The exporter of spans is set at the start ([`Traces`]). Without an exporter,
//! contexts are passed on unchanged. Each part of the work has two spans: one for the log, which puts its fields on
//! every line, and one with the target [`SPANS`], which is exported and which the log leaves out.

use std::{fmt, future::Future, sync::Arc};

use reqwest::RequestBuilder;
use sortie_api::{OrgId, RunStatus, SPANS, ScheduleId, TraceContext, model::ModelInfo};
use sortie_store::{
    outbox::ClaimedDelivery,
    runs::{Claim, Origin},
};
use tracing::{
    Span,
    field::Empty,
    instrument::{Instrument, Instrumented},
};

/// An exporter of spans.
pub trait SpanExport: fmt::Debug + Send + Sync {
    /// Makes a new span that was never entered a child of `parent`.
    fn continue_from(&self, span: &Span, parent: &TraceContext);

    /// Returns the context of a span, or `None` if it is not exported.
    fn context_of(&self, span: &Span) -> Option<TraceContext>;
}

/// Connection of a node's work to traces. The default exports nothing.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<Arc<dyn SpanExport>>);

impl Traces {
    /// Sends spans to `export`.
    pub fn exported(export: Arc<dyn SpanExport>) -> Self {
        Self(Some(export))
    }

    /// Whether spans are exported.
    pub fn are_exported(&self) -> bool {
        self.0.is_some()
    }

    /// Makes a new span a part of the trace of `parent`, or the first span of a new trace. Returns the context to pass
    /// on: that of the span, or that of the parent if nothing is exported.
    pub fn join(&self, span: &Span, parent: Option<&TraceContext>) -> Option<TraceContext> {
        let Some(export) = &self.0 else {
            return parent.cloned();
        };
        if let Some(parent) = parent {
            export.continue_from(span, parent);
        }
        export.context_of(span).or_else(|| parent.cloned())
    }

    /// Creates the spans around the work on a claimed run.
    pub(crate) fn execute(&self, claim: &Claim) -> Spans {
        self.claimed(claim);
        let (run, org, attempt) = (claim.fence.run, claim.org, claim.fence.attempt);
        let exported = tracing::info_span!(
            target: SPANS, parent: None, "run.execute", otel.name = "invoke_agent", gen_ai.operation.name = "invoke_agent",
            gen_ai.conversation.id = %run, run.id = %run, org.id = %org, run.attempt = attempt,
            gen_ai.provider.name = Empty, gen_ai.request.model = Empty, run.status = Empty, error.type = Empty,
            otel.status_code = Empty,
        );
        let context = self.join(&exported, claim.trace.as_ref());
        let trace_id = context.as_ref().map(TraceContext::trace_id);
        let log = tracing::error_span!(parent: None, "run", run.id = %run, org.id = %org, attempt, trace_id);
        Spans {
            exported,
            log,
            context,
        }
    }

    /// Exports a span of the time that a run has waited for a worker.
    fn claimed(&self, claim: &Claim) {
        let (run, org) = (claim.fence.run, claim.org);
        // A run that was taken over has waited for a lease to expire, which does not reflect the queue.
        let began = match claim.origin {
            Origin::Queue(_) => Some(run.made_at().as_micros()),
            Origin::Lost { .. } => None,
        };
        let span = tracing::info_span!(
            target: SPANS, parent: None, "run.claim", run.id = %run, org.id = %org, run.attempt = claim.fence.attempt,
            sortie.began_at_micros = began,
        );
        self.join(&span, claim.trace.as_ref());
    }

    /// Creates the spans around an attempt to deliver a callback.
    pub(crate) fn deliver(&self, delivery: &ClaimedDelivery) -> Spans {
        let (run, org) = (delivery.run, delivery.org);
        let (host, port) = delivery.host.rsplit_once(':').unwrap_or((&delivery.host, ""));
        let exported = tracing::info_span!(
            target: SPANS, parent: None, "callback.deliver", otel.kind = "client", run.id = %run, org.id = %org,
            delivery.attempt = delivery.attempts.saturating_add(1), http.request.method = "POST", server.address = host,
            server.port = port.parse::<i64>().ok(), http.response.status_code = Empty, error.type = Empty,
            otel.status_code = Empty,
        );
        let context = self.join(&exported, delivery.trace.as_ref());
        let trace_id = context.as_ref().map(TraceContext::trace_id);
        let log = tracing::error_span!(parent: None, "callback", run.id = %run, org.id = %org, trace_id);
        Spans {
            exported,
            log,
            context,
        }
    }

    /// Begins the trace of a run that a schedule starts. Returns the context for the run.
    pub(crate) fn fire(&self, schedule: ScheduleId, org: OrgId) -> Option<TraceContext> {
        let span = tracing::info_span!(
            target: SPANS, parent: None, "schedule.fire", schedule.id = %schedule, org.id = %org,
        );
        self.join(&span, None)
    }
}

/// The spans of one piece of work.
pub(crate) struct Spans {
    exported: Span,
    log: Span,
    /// Trace context to pass on.
    pub(crate) context: Option<TraceContext>,
}

impl Spans {
    /// Runs `work` within the spans.
    pub(crate) fn around<F: Future>(self, work: F) -> Instrumented<Instrumented<F>> {
        work.instrument(self.exported).instrument(self.log)
    }
}

/// Adds the trace headers to an outgoing request.
pub(crate) fn with_trace(request: RequestBuilder, trace: Option<&TraceContext>) -> RequestBuilder {
    let Some(trace) = trace else {
        return request;
    };
    let request = request.header("traceparent", trace.traceparent());
    match trace.tracestate() {
        Some(state) => request.header("tracestate", state),
        None => request,
    }
}

/// Records provider and model on the span of a run's execution.
pub(crate) fn uses_model(model: &ModelInfo) {
    let span = Span::current();
    span.record("gen_ai.provider.name", sortie_agent::provider_name(model));
    span.record("gen_ai.request.model", model.id.as_str());
}

/// Records the status on the span of a run's execution.
pub(crate) fn ended(status: RunStatus) {
    tracing::debug!(run.status = status.as_str(), "the run has ended");
    let span = Span::current();
    span.record("run.status", status.as_str());
    if matches!(
        status,
        RunStatus::Failed | RunStatus::TimedOut | RunStatus::Interrupted
    ) {
        span.record("error.type", status.as_str());
        span.record("otel.status_code", "ERROR");
    }
}

/// Records the receiver's response on the span of a delivery.
pub(crate) fn delivered(status: Option<u16>, failed: bool) {
    let span = Span::current();
    if let Some(status) = status {
        span.record("http.response.status_code", i64::from(status));
    }
    if failed {
        let kind = status.map_or_else(|| "no_answer".to_owned(), |status| status.to_string());
        span.record("error.type", kind);
        span.record("otel.status_code", "ERROR");
    }
}
