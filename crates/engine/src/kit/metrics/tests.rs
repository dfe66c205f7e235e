//! The metrics as they are exported.

#![expect(
    clippy::float_cmp,
    reason = "what is compared are counts, which are whole numbers"
)]

use std::sync::Arc;

use futures_util::future::BoxFuture;
use prometheus_client::encoding::text::encode;
use sortie_agent::{
    Media, Model,
    model::{Content, Deltas, ErrorKind, Kind, ModelError, Reply, Request, StopReason, Task, ToolUse, Usage},
};
use sortie_api::model::{ModelInfo, ModelPrices};
use sortie_testkit::rows;

use super::*;

fn shown(register: impl FnOnce(&mut Registry)) -> String {
    let (mut registry, mut text) = (Registry::with_prefix("sortie"), String::new());
    register(&mut registry);
    encode(&mut text, &registry).unwrap();
    text
}

fn figure(text: &str, series: &str) -> f64 {
    text.lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
        .unwrap_or_else(|| panic!("there is no {series} in\n{text}"))
}

fn tool_end(tool: &str, is_error: bool) -> EventType {
    EventType::ToolEnd(ToolEnd {
        tool: tool.to_owned(),
        id: "1".to_owned(),
        is_error,
        output: "secret".to_owned(),
        output_bytes: 6,
        duration_ms: 1_500,
        cost_micros: Micros::ZERO,
    })
}

#[test]
fn a_tool_counts_under_its_name_or_its_class_and_never_under_what_a_model_made_up() {
    for (name, label) in [
        ("shell", "shell"),
        ("bash", "shell"),
        ("jobs", "jobs"),
        ("web_search", "web_search"),
        ("my-api__request", "http"),
        ("api_example__request_0a1b2c3d", "http"),
        ("github__create_issue", "mcp"),
        ("rm -rf", "unknown"),
        ("", "unknown"),
    ] {
        assert_eq!(tool_label(name), label, "{name}");
    }
    let metrics = Metrics::default();
    metrics.happened(&tool_end("github__create_issue", true));
    metrics.happened(&tool_end("invented by the model", false));
    let text = shown(|registry| metrics.register(registry));
    assert_eq!(figure(&text, "sortie_tool_errors_total{tool=\"mcp\"}"), 1.0);
    assert_eq!(
        figure(&text, "sortie_tool_call_duration_seconds_sum{tool=\"mcp\"}"),
        1.5
    );
    assert_eq!(
        figure(&text, "sortie_tool_call_duration_seconds_count{tool=\"unknown\"}"),
        1.0
    );
    assert!(!text.contains("github") && !text.contains("invented") && !text.contains("secret"));
}

#[test]
fn requests_through_connections_count_by_kind_and_class() {
    let metrics = Metrics::default();
    for (method, status) in [("GET", Some(204)), ("PATCH", None), ("tools/call", Some(503))] {
        metrics.happened(&EventType::ConnectionCall(ConnectionCall {
            connection: "internal".to_owned(),
            method: method.to_owned(),
            path: "/private".to_owned(),
            status,
            bytes: 1,
            duration_ms: 1,
        }));
    }
    let text = shown(|registry| metrics.register(registry));
    for series in [
        "kind=\"http\",status=\"2xx\"",
        "kind=\"http\",status=\"none\"",
        "kind=\"mcp\",status=\"5xx\"",
    ] {
        assert_eq!(
            figure(&text, &format!("sortie_connection_calls_total{{{series}}}")),
            1.0
        );
    }
    assert!(!text.contains("internal") && !text.contains("private"));
}

#[test]
fn every_value_of_a_label_is_there_before_anything_happens() {
    let text = shown(|registry| Metrics::default().register(registry));
    for series in [
        "sortie_runs_accepted_total{trigger=\"schedule\"}",
        "sortie_runs_finished_total{status=\"timed_out\"}",
        "sortie_run_duration_seconds_count{status=\"interrupted\"}",
        "sortie_callback_attempts_total{outcome=\"abandoned\"}",
        "sortie_lease_renewals_total{outcome=\"failed\"}",
        "sortie_sandbox_opens_total{outcome=\"unavailable\"}",
        "sortie_connection_calls_total{kind=\"mcp\",status=\"none\"}",
    ] {
        assert_eq!(figure(&text, series), 0.0, "{series}");
    }
}

/// Fails with `Err`, replies with `Ok`, or never returns.
struct Scripted(ModelInfo, Option<Result<(), ErrorKind>>);

impl Model for Scripted {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn kind(&self) -> Kind {
        Kind::Program
    }

    fn tool_output_bytes(&self) -> usize {
        7
    }

    fn binds_thinking(&self) -> bool {
        true
    }

    fn media_tokens(&self, _media: &Media) -> Option<u64> {
        Some(8)
    }

    fn call<'a>(
        &'a self,
        _: Request<'a>,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            match self.1 {
                Some(Ok(())) => {
                    deltas.text("a");
                    deltas.text("b");
                    Ok(Reply {
                        content: vec![Content::Text("ab".to_owned())],
                        thinking: String::new(),
                        stop_reason: StopReason::EndTurn,
                        usage: Usage::default(),
                    })
                }
                Some(Err(kind)) => Err(ModelError {
                    kind,
                    ..ModelError::retryable("x", None)
                }),
                None => std::future::pending().await,
            }
        })
    }
}

struct Nowhere;

impl Deltas for Nowhere {
    fn text(&self, _: &str) {}
}

fn info() -> ModelInfo {
    ModelInfo {
        id: "m".to_owned(),
        provider: "p".to_owned(),
        name: "M".to_owned(),
        context_window: 1,
        max_output_tokens: 1,
        prices: ModelPrices::default(),
        capabilities: Vec::new(),
    }
}

#[test]
fn a_model_whose_calls_are_counted_says_of_itself_what_it_has_said_before() {
    let media = Media {
        media_type: "image/png".to_owned(),
        data: String::new(),
        label: String::new(),
        pixels: None,
        tokens: 0,
    };
    let model: Arc<dyn Model> = Arc::new(Scripted(info(), None));
    let counted = measured(vec![model], &Metrics::default().models).remove(0);
    assert_eq!((counted.kind(), counted.tool_output_bytes()), (Kind::Program, 7));
    assert_eq!(
        (counted.binds_thinking(), counted.media_tokens(&media)),
        (true, Some(8))
    );
}

#[tokio::test]
async fn model_calls_count_by_what_came_of_them() {
    let info = info();
    let metrics = Metrics::default();
    let request = Request {
        system: "",
        task: Task {
            prompt: "",
            input: None,
            input_file: None,
            output_schema: None,
            environment: "",
            media: &[],
        },
        transcript: &[],
        tools: &[],
        max_tokens: 1,
        tool_use: ToolUse::Auto,
        effort: None,
        cache_key: "",
    };
    for script in [Some(Ok(())), Some(Err(ErrorKind::RateLimit)), None] {
        let model: Arc<dyn Model> = Arc::new(Scripted(info.clone(), script));
        let model = measured(vec![model], &metrics.models).remove(0);
        let mut call = model.call(request, &Nowhere);
        let polled = futures_util::poll!(&mut call);
        assert_eq!(polled.is_pending(), script.is_none());
        if polled.is_pending() {
            let text = shown(|registry| metrics.register(registry));
            assert_eq!(figure(&text, "sortie_model_calls_under_way"), 1.0);
        }
    }
    metrics.models.clamped("m");
    metrics.models.clamped("unknown");
    let text = shown(|registry| metrics.register(registry));
    let of = "provider=\"p\",model=\"m\"";
    for (series, value) in rows! {
        format!("sortie_model_calls_total{{{of},outcome=\"ok\"}}"), 1.0;
        format!("sortie_model_calls_total{{{of},outcome=\"error\"}}"), 1.0;
        format!("sortie_model_calls_total{{{of},outcome=\"given_up\"}}"), 1.0;
        format!("sortie_model_errors_total{{{of},kind=\"rate_limit\"}}"), 1.0;
        format!("sortie_model_errors_total{{{of},kind=\"server\"}}"), 0.0;
        format!("sortie_model_call_duration_seconds_count{{{of}}}"), 2.0;
        format!("sortie_model_first_output_seconds_count{{{of}}}"), 1.0;
        format!("sortie_model_usage_clamped_total{{{of}}}"), 1.0;
        "sortie_model_calls_under_way".to_owned(), 0.0;
    } {
        assert_eq!(figure(&text, &series), value, "{series}");
    }
}
