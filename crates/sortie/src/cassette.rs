//! A run as a cassette: the model's answers and the results of the tools, line by line, to replay the run without
//! either.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value, json};
use sortie_api::{Event, Run, RunDefinition, event::TOOL_OUTPUT_BYTES, model::ModelInfo, plain};

use self::content::shown;
use crate::failure::{Failure, Result};

mod content;

/// Version of the format. A reader refuses any other.
const VERSION: u32 = 1;

/// Events that are kept as they are.
const KEPT: [&str; 6] = [
    "output_rejected",
    "context_compacted",
    "answer_requested",
    "budget_warning",
    "budget_reached",
    "resumed",
];

/// Treatment of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Texts {
    /// Texts stay.
    Kept,
    /// `x` replaces each byte of a text, a number or a field name. White space stays.
    Masked,
}

/// The first line.
#[derive(Serialize)]
struct Header {
    cassette: u32,
    engine: &'static str,
    model: Option<ModelInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback_model: Option<ModelInfo>,
    prompt: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<Value>,
    shell: bool,
    /// Tools that were called and were there.
    tools: BTreeSet<String>,
    max_cost_micros: i64,
    timeout_seconds: i64,
    /// Maximum number of bytes of each result. The line of a longer one has its total length.
    tool_output_bytes: usize,
}

/// An answer of the model.
#[derive(Default, Serialize)]
struct Say {
    step: u64,
    /// Model that answered; empty for a call that failed before it was charged.
    #[serde(skip_serializing_if = "String::is_empty")]
    model: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Value>,
    stop_reason: String,
    /// Whether the call wrote notes for a conversation that was shortened: events do not have their text.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    notes: bool,
    /// Failure of the call, if it was repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    usage: Value,
    cost_micros: i64,
    duration_ms: u64,
}

/// A line after the header.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Say(Say),
    Result(Value),
    Event(Value),
    End(Value),
}

/// The lines of a cassette, made from the API's records of a finished run. `catalog` has the run's models.
pub(crate) fn lines(
    definition: &RunDefinition,
    catalog: &[ModelInfo],
    events: &[Event],
    run: &Run,
    texts: Texts,
) -> Result<String> {
    let unreadable = |error: serde_json::Error| {
        Failure::unavailable(format!("cannot read the run: {}", plain::json(&error)))
    };
    let mut tape = Tape::default();
    for event in events {
        let data: Value = serde_json::from_str(event.data.get()).map_err(unreadable)?;
        tape.take(&event.kind, data);
    }
    let request = &definition.request;
    let parsed = |raw: &Option<Box<serde_json::value::RawValue>>| -> Result<Option<Value>> {
        let value = raw.as_deref().map(|raw| serde_json::from_str(raw.get()));
        value.transpose().map_err(unreadable)
    };
    let info = |id: &Option<String>| {
        catalog
            .iter()
            .find(|model| Some(&model.id) == id.as_ref())
            .cloned()
    };
    let header = Header {
        cassette: VERSION,
        engine: env!("CARGO_PKG_VERSION"),
        model: info(&request.model),
        fallback_model: info(&request.fallback_model),
        prompt: request.prompt.clone().unwrap_or_default(),
        instructions: request.instructions.clone(),
        input: parsed(&request.input)?,
        output_schema: parsed(&request.output_schema)?.filter(|_| texts == Texts::Kept),
        shell: request.shell.unwrap_or(true),
        tools: std::mem::take(&mut tape.tools),
        max_cost_micros: run.max_cost_micros.get(),
        timeout_seconds: request.timeout_seconds.unwrap_or_default(),
        tool_output_bytes: TOOL_OUTPUT_BYTES,
    };
    let end = json!({
        "status": run.status, "error": run.error, "output": run.output, "cost_micros": run.cost_micros,
    });
    tape.lines.push(Line::End(end));
    let mut all = vec![serde_json::to_value(header).map_err(unreadable)?];
    for line in tape.lines {
        all.push(serde_json::to_value(line).map_err(unreadable)?);
    }
    let lines = all.into_iter().map(|line| shown(line, texts).to_string() + "\n");
    Ok(lines.collect())
}

/// The lines made of a run's events so far.
#[derive(Default)]
struct Tape {
    lines: Vec<Line>,
    tools: BTreeSet<String>,
    /// Places of the calls in the newest answer, by id.
    called: BTreeMap<String, usize>,
}

impl Tape {
    fn take(&mut self, kind: &str, data: Value) {
        match kind {
            "model_call" => self.model_call(&data),
            "message" => {
                if let Some(say) = self.newest() {
                    text(&data, "text").clone_into(&mut say.text);
                }
            }
            "tool_start" => self.call(&data, data.get("arguments")),
            "tool_end" => self.result(data),
            "retry" if text(&data, "what") == "model_call" => self.failed(text(&data, "reason")),
            kept if KEPT.contains(&kept) => {
                if let (true, Some(say)) = (kept == "context_compacted", self.newest()) {
                    say.notes = say.text.is_empty() && say.calls.is_empty();
                }
                self.lines.push(Line::Event(with_kind(kept, data)));
            }
            _ => {}
        }
    }

    fn newest(&mut self) -> Option<&mut Say> {
        self.lines.iter_mut().rev().find_map(|line| match line {
            Line::Say(say) => Some(say),
            Line::Result(_) | Line::Event(_) | Line::End(_) => None,
        })
    }

    fn model_call(&mut self, data: &Value) {
        self.called.clear();
        let mut usage = Map::new();
        for field in [
            "input_tokens",
            "output_tokens",
            "cache_read_tokens",
            "cache_write_tokens",
        ] {
            usage.insert(field.to_owned(), data.get(field).cloned().unwrap_or_default());
        }
        self.lines.push(Line::Say(Say {
            step: number(data, "step"),
            model: text(data, "model").to_owned(),
            stop_reason: text(data, "stop_reason").to_owned(),
            usage: usage.into(),
            cost_micros: data
                .get("cost_micros")
                .and_then(Value::as_i64)
                .unwrap_or_default(),
            duration_ms: number(data, "duration_ms"),
            ..Say::default()
        }));
    }

    /// A call that failed. If it had a cost, the previous event has that cost.
    fn failed(&mut self, reason: &str) {
        let charged = |say: &&mut Say| say.stop_reason == "error" && say.failed.is_none();
        match self.newest() {
            // A refusal: another model answers instead.
            Some(say) if say.stop_reason == "refusal" => {}
            newest => {
                if let Some(say) = newest.filter(charged) {
                    say.failed = Some(reason.to_owned());
                    return;
                }
                self.lines.push(Line::Say(Say {
                    stop_reason: "error".to_owned(),
                    failed: Some(reason.to_owned()),
                    usage: json!({}),
                    ..Say::default()
                }));
            }
        }
    }

    fn call(&mut self, data: &Value, arguments: Option<&Value>) {
        let (id, name) = (text(data, "id").to_owned(), text(data, "tool").to_owned());
        let call = json!({"id": id, "name": name, "arguments": arguments});
        if let Some(say) = self.newest() {
            say.calls.push(call);
            let place = say.calls.len();
            self.called.insert(id, place);
        }
    }

    fn result(&mut self, data: Value) {
        // A call that could not be read has only a result.
        if !self.called.contains_key(text(&data, "id")) {
            self.call(&data, None);
        } else if !text(&data, "output").starts_with("there is no tool") {
            self.tools.insert(text(&data, "tool").to_owned());
        }
        self.lines.push(Line::Result(data));
    }
}

fn with_kind(kind: &str, mut data: Value) -> Value {
    if let Some(fields) = data.as_object_mut() {
        fields.insert("type".to_owned(), kind.into());
    }
    data
}

fn text<'a>(data: &'a Value, field: &str) -> &'a str {
    data.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn number(data: &Value, field: &str) -> u64 {
    data.get(field).and_then(Value::as_u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: i64, kind: &str, data: &Value) -> Event {
        serde_json::from_value(
            json!({"id": id, "type": kind, "data": data, "created_at": "2026-11-20T21:30:05.000Z"}),
        )
        .unwrap()
    }

    fn info(id: &str) -> ModelInfo {
        serde_json::from_value(json!({
            "id": id, "provider": "test", "name": id, "context_window": 1_000, "max_output_tokens": 100,
            "prices": {
                "input_micros_per_mtok": 1, "output_micros_per_mtok": 1, "cache_read_micros_per_mtok": 1,
                "cache_write_micros_per_mtok": 1,
            },
            "capabilities": [],
        }))
        .unwrap()
    }

    fn exported(texts: Texts) -> Vec<Value> {
        let definition: RunDefinition = serde_json::from_value(json!({
            "request": {"prompt": "Ask the API.", "instructions": "Be brief.", "timeout_seconds": 60, "input": {"n": 1}, "model": "m", "fallback_model": "spare"},
            "requires_credentials": [],
        }))
        .unwrap();
        let run: Run = serde_json::from_value(json!({
            "id": "run_01kafs6w1cefkstv6qr1ptb0mp", "status": "succeeded", "output": "Done.",
            "created_at": "2026-11-20T21:30:05.000Z", "max_cost_micros": 1_000, "cost_micros": 7, "billing_pending": false,
            "zero_data_retention": false, "timeout_seconds": 300, "last_event_id": 1,
        }))
        .unwrap();
        let call = |step: u32, stop: &str| {
            json!({
                "model": "m", "step": step, "input_tokens": 10, "output_tokens": 2, "cache_read_tokens": 3,
                "cache_write_tokens": 4, "cost_micros": 5, "duration_ms": 6, "stop_reason": stop,
            })
        };
        let headers =
            json!({"headers": {"Authorization": "Bearer hush", "X-Api-Key": "hush", "accept": "text/html"}});
        let events = [
            event(1, "status", &json!({"status": "running"})),
            event(
                2,
                "retry",
                &json!({"what": "model_call", "attempt": 2, "delay_ms": 500, "reason": "overloaded"}),
            ),
            event(3, "model_call", &call(1, "tool_use")),
            event(4, "message", &json!({"text": "I ask.", "step": 1})),
            event(
                5,
                "tool_start",
                &json!({"tool": "http_request", "id": "a", "arguments": headers}),
            ),
            event(
                6,
                "tool_end",
                &json!({"tool": "http_request", "id": "a", "is_error": false, "output": "42 pages", "output_bytes": 8, "duration_ms": 1}),
            ),
            event(
                7,
                "tool_end",
                &json!({"tool": "shell", "id": "b", "is_error": true, "output": "bad arguments", "output_bytes": 13, "duration_ms": 0}),
            ),
            event(8, "model_call", &call(2, "end_turn")),
            event(
                9,
                "context_compacted",
                &json!({"before_tokens": 9, "after_tokens": 1}),
            ),
            event(10, "model_call", &call(2, "end_turn")),
            event(11, "message", &json!({"text": "Done.", "step": 2})),
        ];
        let text = lines(
            &definition,
            &[info("other"), info("spare"), info("m")],
            &events,
            &run,
            texts,
        )
        .unwrap();
        assert!(!text.contains("hush"), "{text}");
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn a_cassette_has_a_header_each_answer_with_its_results_and_the_end() {
        let lines = exported(Texts::Kept);
        let kinds: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.as_object()?.keys().next().map(String::as_str))
            .collect();
        assert_eq!(
            kinds,
            [
                "cassette", "say", "say", "result", "result", "say", "event", "say", "end"
            ]
        );
        assert_eq!(lines[0]["tools"], json!(["http_request"]));
        assert_eq!(
            (&lines[0]["model"]["id"], &lines[0]["fallback_model"]["id"]),
            (&json!("m"), &json!("spare"))
        );
        assert_eq!(
            (&lines[1]["say"]["failed"], &lines[1]["say"]["model"]),
            (&json!("overloaded"), &Value::Null)
        );
        let say = &lines[2]["say"];
        assert_eq!(
            (&say["text"], &say["stop_reason"], &say["model"]),
            (&json!("I ask."), &json!("tool_use"), &json!("m"))
        );
        assert_eq!(say["usage"]["cache_write_tokens"], 4);
        assert_eq!(say["calls"][0]["arguments"]["headers"]["accept"], "text/html");
        assert_eq!(
            say["calls"][0]["arguments"]["headers"]["Authorization"],
            "[redacted]"
        );
        assert_eq!(
            say["calls"][1],
            json!({"id": "b", "name": "shell", "arguments": null})
        );
        assert_eq!(lines[5]["say"]["notes"], true);
        assert_eq!(lines[8]["end"]["cost_micros"], 7);
    }

    #[test]
    fn a_masked_cassette_has_lengths_in_the_place_of_content() {
        let lines = exported(Texts::Masked);
        assert_eq!(lines[0]["prompt"], "xxx xxx xxxx");
        assert_eq!(lines[0]["instructions"], "xx xxxxxx");
        assert_eq!(lines[2]["say"]["text"], "x xxxx");
        assert_eq!(lines[0]["input"], json!({"x": "x"}));
        let call = &lines[2]["say"]["calls"][0];
        assert_eq!(call["name"], "http_request");
        assert!(call["arguments"]["xxxxxxx"].is_object(), "{call}");
        assert_eq!(lines[3]["result"]["output"], "xx xxxxx");
        assert_eq!(lines[8]["end"]["output"], "xxxxx");
    }
}
