use serde_json::{Value, json};
use sortie_api::{
    Timestamp,
    live::{MessageDelta, MessageStart, ToolOutput},
};

use super::*;

fn message() -> RunMessage {
    RunMessage::new(run_id())
}

fn run_id() -> RunId {
    RunId::new(Timestamp::from_micros(1), [1; 10])
}

/// The chunks of events with these types and data, from the first event on.
fn chunks(message: &mut RunMessage, events: &[(&str, Value)]) -> Vec<Value> {
    let mut all = Vec::new();
    for (seq, (kind, data)) in (1..).zip(events) {
        all.extend(message.take(seq, kind, &data.to_string()).unwrap());
    }
    all.iter()
        .map(|chunk| serde_json::to_value(chunk).unwrap())
        .collect()
}

fn start(id: &str) -> (&'static str, Value) {
    let data = json!({"tool": "shell", "id": id, "arguments": {"command": "ls"}});
    ("tool_start", data)
}

fn end(id: &str, is_error: bool) -> (&'static str, Value) {
    let data = json!({
        "tool": "shell", "id": id, "is_error": is_error, "output": "a.txt", "output_bytes": 5, "duration_ms": 3,
    });
    ("tool_end", data)
}

fn model_call(step: u32) -> (&'static str, Value) {
    ("model_call", json!({"model": "runbook", "step": step}))
}

fn status(status: &str) -> (&'static str, Value) {
    ("status", json!({"status": status}))
}

fn tool(kind: &str, id: &str, rest: Value) -> Value {
    let mut chunk = json!({"type": kind, "toolCallId": id, "dynamic": true, "providerExecuted": true});
    let Value::Object(rest) = rest else {
        panic!("{rest}")
    };
    chunk.as_object_mut().unwrap().extend(rest);
    chunk
}

#[test]
fn a_run_becomes_one_message_with_its_steps_texts_and_tool_calls() {
    let mut message = message();
    let events = [
        status("queued"),
        model_call(1),
        ("thinking_summary", json!({"text": "hm", "step": 1})),
        ("message", json!({"text": "I look.", "step": 1})),
        start("a"),
        start("b"),
        end("b", true),
        end("a", false),
        model_call(2),
        ("message", json!({"text": "Done.", "step": 2})),
        ("artifact", json!({"path": "a.txt", "size": 1})),
        ("result", json!({"output": "Done."})),
        status("succeeded"),
    ];
    let input = |id| {
        tool(
            "tool-input-available",
            id,
            json!({"toolName": "shell", "input": {"command": "ls"}}),
        )
    };
    let transient = |name: &str, data: Value| json!({"type": name, "data": data, "transient": true});
    let expected = [
        json!({"type": "start", "messageId": run_id()}),
        json!({"type": "data-status", "id": "status", "data": {"status": "queued"}}),
        transient("data-model-call", model_call(1).1),
        json!({"type": "start-step"}),
        json!({"type": "reasoning-start", "id": "reasoning-1"}),
        json!({"type": "reasoning-delta", "id": "reasoning-1", "delta": "hm"}),
        json!({"type": "reasoning-end", "id": "reasoning-1"}),
        json!({"type": "text-start", "id": "text-1"}),
        json!({"type": "text-delta", "id": "text-1", "delta": "I look."}),
        json!({"type": "text-end", "id": "text-1"}),
        input("a"),
        input("b"),
        tool("tool-output-error", "b", json!({"errorText": "a.txt"})),
        tool("tool-output-available", "a", json!({"output": "a.txt"})),
        json!({"type": "finish-step"}),
        transient("data-model-call", model_call(2).1),
        json!({"type": "start-step"}),
        json!({"type": "text-start", "id": "text-2"}),
        json!({"type": "text-delta", "id": "text-2", "delta": "Done."}),
        json!({"type": "text-end", "id": "text-2"}),
        json!({"type": "data-artifact", "id": "a.txt", "data": {"path": "a.txt", "size": 1}}),
        transient("data-result", json!({"output": "Done."})),
        json!({"type": "finish-step"}),
        json!({"type": "data-status", "id": "status", "data": {"status": "succeeded"}}),
    ];
    assert_eq!(chunks(&mut message, &events), expected);
}

#[test]
fn calls_that_have_no_end_are_closed_once() {
    let kinds = |events: &[(&str, Value)]| -> Vec<String> {
        chunks(&mut message(), events)
            .iter()
            .map(|chunk| {
                let text = |field| chunk[field].as_str().unwrap_or_default();
                format!("{} {}", text("type"), text("errorText"))
                    .trim_end()
                    .to_owned()
            })
            .skip(3)
            .collect()
    };
    let begun = [status("running"), start("a")];
    let lost = [&begun[..], &[model_call(2), end("a", false)]].concat();
    assert_eq!(
        kinds(&lost),
        list(&[
            "tool-input-available",
            "tool-output-error the worker was lost during this call",
            "finish-step",
            "data-model-call",
        ])
    );
    // The call is started again by the next worker.
    let again = [
        &begun[..],
        &[("resumed", json!({"step": 0})), start("a"), end("a", false)],
    ]
    .concat();
    assert_eq!(
        kinds(&again),
        list(&[
            "tool-input-available",
            "data-resumed",
            "tool-input-available",
            "tool-output-available",
        ])
    );
    // A cancelled run is charged for calls after its end, in part for some without a start.
    let cancelled = [&begun[..], &[status("cancelled"), end("a", true), end("b", true)]].concat();
    assert_eq!(
        kinds(&cancelled),
        list(&[
            "tool-input-available",
            "tool-output-error the run ended during this call",
            "finish-step",
            "data-status",
        ])
    );
}

fn list(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn live_messages_are_parts_that_the_message_does_not_keep() {
    let live = |delta: Delta| serde_json::to_value(Chunk::live(&delta).unwrap()).unwrap();
    for (delta, name, data) in [
        (
            Delta::ModelStart(MessageStart {
                model: "m".to_owned(),
                step: 2,
            }),
            "data-message-start",
            json!({"model": "m", "step": 2}),
        ),
        (
            Delta::Text(MessageDelta {
                text: "a".to_owned(),
                step: 2,
            }),
            "data-message-delta",
            json!({"text": "a", "step": 2}),
        ),
        (
            Delta::Output(ToolOutput {
                id: "c".to_owned(),
                text: "a".to_owned(),
            }),
            "data-tool-output",
            json!({"id": "c", "text": "a"}),
        ),
    ] {
        assert_eq!(
            live(delta),
            json!({"type": name, "data": data, "transient": true})
        );
    }
}

#[test]
fn the_last_chunks_say_how_the_run_ended() {
    let finish = |status: &str, error: Option<&str>| -> Vec<Value> {
        let run = json!({
            "id": run_id(), "status": status, "output": "x", "error": error, "created_at": "2026-11-20T21:30:00.000Z",
            "max_cost_micros": 5, "cost_micros": 3, "billing_pending": false, "zero_data_retention": false,
            "timeout_seconds": 60, "last_event_id": 9,
        });
        let run: Run = serde_json::from_value(run).unwrap();
        let chunks = RunMessage::finish(run).unwrap();
        let mut chunks = chunks.iter().map(|chunk| serde_json::to_value(chunk).unwrap());
        let run = chunks.next().unwrap();
        assert_eq!((&run["type"], &run["id"]), (&json!("data-run"), &json!("run")));
        assert_eq!(
            (&run["data"]["status"], &run["data"]["cost_micros"]),
            (&json!(status), &json!(3))
        );
        assert_eq!((run["data"].get("output"), run.get("transient")), (None, None));
        chunks.collect()
    };
    let finished = |reason: &str| json!({"type": "finish", "finishReason": reason});
    assert_eq!(finish("succeeded", None), [finished("stop")]);
    let abort = json!({"type": "abort", "reason": "cancelled"});
    assert_eq!(finish("cancelled", None), [abort, finished("other")]);
    let error = |text: &str| json!({"type": "error", "errorText": text});
    assert_eq!(
        finish("failed", Some("no model")),
        [error("no model"), finished("error")]
    );
    assert_eq!(finish("timed_out", None), [error("timed out"), finished("error")]);
}
