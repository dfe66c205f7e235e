//! The spans of model calls and tool calls, by OpenTelemetry's semantic conventions for generative AI.
//!
//! They record the called model or tool, the duration, the result and the usage; never any content. A tool name that the model
//! made up is content.

use sortie_api::{SPANS, model::ModelInfo};
use tracing::{Span, field::Empty};

use crate::{
    Owner,
    model::{ModelError, Reply, Retry, Usage},
    tool::ToolError,
};

/// The convention's name of a provider (`gen_ai.provider.name`), or the provider's own if the conventions have none.
pub fn provider_name(model: &ModelInfo) -> &str {
    match model.provider.as_str() {
        "gemini" => "gcp.gemini",
        other => other,
    }
}

/// The span of one attempt at a model call.
pub(crate) fn model_call(owner: Owner, model: &ModelInfo, step: u32, max_tokens: u64) -> Span {
    tracing::info_span!(
        target: SPANS, "model.call", otel.name = format_args!("chat {}", model.id), otel.kind = "client",
        gen_ai.operation.name = "chat", gen_ai.provider.name = provider_name(model), gen_ai.request.model = model.id,
        gen_ai.request.max_tokens = signed(max_tokens), gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty, gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty, gen_ai.usage.cache_creation.input_tokens = Empty,
        run.id = %owner.run, org.id = %owner.org, gen_ai.conversation.id = %owner.run, run.step = i64::from(step), error.type = Empty, otel.status_code = Empty,
    )
}

/// Records the result of a model call.
pub(crate) fn model_called(span: &Span, called: &Result<Reply, ModelError>) {
    let usage = match called {
        Ok(reply) => {
            span.record("gen_ai.response.finish_reasons", reply.stop_reason.as_str());
            reply.usage
        }
        Err(error) => {
            let kind = match error.retry {
                Retry::Never | Retry::WithoutThinking => "model_error",
                Retry::Smaller => "context_length_exceeded",
                Retry::Soon { .. } => "temporary_model_error",
            };
            failed(span, kind);
            error.usage
        }
    };
    let Usage {
        input_tokens,
        output_tokens,
        cache_read_tokens,
        cache_write_tokens,
    } = usage;
    // The conventions count cached input as input too.
    let input = input_tokens
        .saturating_add(cache_read_tokens)
        .saturating_add(cache_write_tokens);
    span.record("gen_ai.usage.input_tokens", signed(input));
    span.record("gen_ai.usage.output_tokens", signed(output_tokens));
    span.record("gen_ai.usage.cache_read.input_tokens", signed(cache_read_tokens));
    span.record(
        "gen_ai.usage.cache_creation.input_tokens",
        signed(cache_write_tokens),
    );
}

/// The span of a call of the tool `name`; `None` for an unknown tool.
pub(crate) fn tool_call(owner: Owner, name: Option<&str>, id: &str, step: u32) -> Span {
    let title = name.map_or_else(
        || "execute_tool".to_owned(),
        |name| format!("execute_tool {name}"),
    );
    tracing::info_span!(
        target: SPANS, "tool.call", otel.name = title, gen_ai.operation.name = "execute_tool", gen_ai.tool.name = name,
        gen_ai.tool.call.id = id, gen_ai.tool.type = "function", run.id = %owner.run, org.id = %owner.org, gen_ai.conversation.id = %owner.run, run.step = i64::from(step), error.type = Empty,
        otel.status_code = Empty,
    )
}

/// Records the result of a tool call; `is_error` as the model reads it.
pub(crate) fn tool_called(span: &Span, error: Option<&ToolError>, is_error: bool) {
    match error {
        Some(ToolError::ToModel(_)) => failed(span, "tool_error"),
        Some(ToolError::NotSent(_)) => failed(span, "not_sent"),
        Some(ToolError::Fatal(_)) => failed(span, "fatal"),
        None if is_error => failed(span, "command_failed"),
        None => {}
    }
}

fn failed(span: &Span, kind: &str) {
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
}

/// Counts travel as signed numbers; an unsigned one would be exported as text.
fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
