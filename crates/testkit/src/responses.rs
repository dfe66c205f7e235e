//! The events of `OpenAI`'s Responses protocol for a scripted turn.

use serde_json::{Value, json};

use crate::model::Turn;

/// Every event of the answer, in order, numbered as the protocol does.
pub(crate) fn events(turn: &Turn) -> Vec<Value> {
    let mut events =
        vec![json!({"type": "response.created", "response": response(turn, "in_progress", &[])})];
    let mut output = Vec::new();
    if !turn.text.is_empty() {
        output.push(message(turn, &mut events));
    }
    for (number, (tool, arguments)) in turn.tool_calls.iter().enumerate() {
        let call = call(number, tool, &arguments.to_string(), output.len(), &mut events);
        output.push(call);
    }
    events.push(json!({"type": "response.completed", "response": response(turn, "completed", &output)}));
    for (number, event) in events.iter_mut().enumerate() {
        if let Value::Object(event) = event {
            event.insert("sequence_number".to_owned(), number.into());
        }
    }
    events
}

fn message(turn: &Turn, events: &mut Vec<Value>) -> Value {
    let whole = turn.text.concat();
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
    let item = |status: &str, content: Value| json!({"type": "message", "id": "msg_0", "role": "assistant", "status": status, "content": content});
    let at = |kind: &str, field: &str, value: &Value| json!({"type": kind, "item_id": "msg_0", "output_index": 0, "content_index": 0, "logprobs": [], field: value});
    let done = item("completed", json!([part(&whole)]));
    events.push(added(0, &item("in_progress", json!([]))));
    events.push(at("response.content_part.added", "part", &part("")));
    events.extend(
        turn.text
            .iter()
            .map(|piece| at("response.output_text.delta", "delta", &json!(piece))),
    );
    events.push(at("response.output_text.done", "text", &json!(whole)));
    events.push(at("response.content_part.done", "part", &part(&whole)));
    events.push(finished(0, &done));
    done
}

fn call(number: usize, tool: &str, arguments: &str, place: usize, events: &mut Vec<Value>) -> Value {
    let id = format!("fc_{number}");
    let item = |status: &str, arguments: &str| {
        json!({"type": "function_call", "id": id, "call_id": format!("call_{number}"), "name": tool,
            "arguments": arguments, "status": status})
    };
    let at = |kind: &str, field: &str, value: &str| json!({"type": kind, "item_id": id, "output_index": place, "name": tool, field: value});
    let done = item("completed", arguments);
    events.push(added(place, &item("in_progress", "")));
    // The arguments come in two halves, as real servers send them.
    let (head, tail) = arguments.split_at(arguments.floor_char_boundary(arguments.len() / 2));
    for half in [head, tail] {
        events.push(at("response.function_call_arguments.delta", "delta", half));
    }
    events.push(at(
        "response.function_call_arguments.done",
        "arguments",
        arguments,
    ));
    events.push(finished(place, &done));
    done
}

fn added(place: usize, item: &Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": place, "item": item})
}

fn finished(place: usize, item: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": place, "item": item})
}

fn response(turn: &Turn, status: &str, output: &[Value]) -> Value {
    let usage = json!({
        "input_tokens": turn.usage.input,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": turn.usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": turn.usage.input + turn.usage.output,
    });
    json!({
        "id": "resp_1", "object": "response", "created_at": 1_700_000_000, "status": status, "model": "scripted",
        "output": output, "error": null, "incomplete_details": null, "instructions": null, "metadata": {},
        "parallel_tool_calls": true, "tool_choice": "auto", "tools": [], "temperature": null, "top_p": null,
        "usage": if status == "completed" { usage } else { Value::Null },
    })
}
