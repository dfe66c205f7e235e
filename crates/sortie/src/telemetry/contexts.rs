//! Converts trace contexts from headers to those of exported spans, and back.

use opentelemetry::{
    Context, SpanId, TraceFlags, TraceId,
    trace::{SpanContext, TraceContextExt as _, TraceState},
};
use sortie_api::TraceContext;
use sortie_engine::SpanExport;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The contexts of exported spans.
#[derive(Debug)]
pub(super) struct Contexts;

impl SpanExport for Contexts {
    fn continue_from(&self, span: &Span, parent: &TraceContext) {
        let Some(parent) = remote(parent) else {
            return;
        };
        if let Err(error) = span.set_parent(Context::new().with_remote_span_context(parent)) {
            tracing::debug!(%error, "a span does not continue its trace");
        }
    }

    fn context_of(&self, span: &Span) -> Option<TraceContext> {
        let context = span.context();
        let own = context.span().span_context().clone();
        let flags = own.trace_flags().to_u8();
        let traceparent = format!("00-{}-{}-{flags:02x}", own.trace_id(), own.span_id());
        // An invalid context, as of a span that is not exported, becomes `None`.
        TraceContext::parse(&traceparent, Some(&own.trace_state().header()))
    }
}

fn remote(parent: &TraceContext) -> Option<SpanContext> {
    let flags = u8::from_str_radix(parent.traceparent().get(53..)?, 16).ok()?;
    let state = parent
        .tracestate()
        .and_then(|state| state.parse().ok())
        .unwrap_or(TraceState::NONE);
    Some(SpanContext::new(
        TraceId::from_hex(parent.trace_id()).ok()?,
        SpanId::from_hex(parent.parent_id()).ok()?,
        TraceFlags::new(flags),
        true,
        state,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_becomes_a_remote_parent() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parent = TraceContext::parse(text, Some("a=1,b=2")).unwrap();
        let context = remote(&parent).unwrap();
        assert!(context.is_remote() && context.is_sampled());
        assert_eq!(context.trace_id().to_string(), parent.trace_id());
        assert_eq!(context.span_id().to_string(), parent.parent_id());
        assert_eq!(context.trace_state().header(), "a=1,b=2");
    }

    #[test]
    fn a_span_that_is_not_exported_has_no_context() {
        assert_eq!(Contexts.context_of(&Span::none()), None);
    }
}
