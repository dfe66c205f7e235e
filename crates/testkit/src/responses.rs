//! The events of `OpenAI`'s Responses protocol for a scripted turn.

use serde_json::{Value, json};

use crate::{
    rules::{Counted, output_tokens},
    script::Answer,
    turn::{Stop, Turn},
};

/// Every event of the answer, in order and numbered as in the protocol, and the item that has to come back with each
/// call.
pub(crate) fn events(answer: &Answer) -> (Vec<Value>, Vec<(String, String)>) {
    let turn = &answer.turn;
    let mut events =
        vec![json!({"type": "response.created", "response": response(answer, "in_progress", &[])})];
    let (mut output, mut required) = (Vec::new(), Vec::new());
    if let Some(thinking) = &turn.thinking {
        let item = json!({
            "type": "reasoning", "id": format!("rs_{}", answer.first_call), "summary": [],
            "encrypted_content": encrypted(answer, thinking),
        });
        events.push(added(0, &item));
        events.push(finished(0, &item));
        output.push(item);
    }
    if !turn.text.is_empty() {
        output.push(message(turn, output.len(), &mut events));
    }
    for ((tool, arguments), number) in turn.tool_calls.iter().zip(answer.first_call..) {
        let call = call(number, tool, &arguments.to_string(), output.len(), &mut events);
        output.push(call);
        // If there is text in between, reasoning belongs to the text.
        if let (Some(thinking), true) = (&turn.thinking, turn.text.is_empty()) {
            required.push((format!("call_{number}"), encrypted(answer, thinking)));
        }
    }
    let status = match turn.stop {
        Stop::Whole => "completed",
        Stop::CutOff | Stop::Refusal => "incomplete",
    };
    events.push(json!({"type": format!("response.{status}"), "response": response(answer, status, &output)}));
    for (number, event) in events.iter_mut().enumerate() {
        if let Value::Object(event) = event {
            event.insert("sequence_number".to_owned(), number.into());
        }
    }
    (events, required)
}

fn encrypted(answer: &Answer, thinking: &str) -> String {
    format!("{}-{thinking}", answer.first_call)
}

fn message(turn: &Turn, place: usize, events: &mut Vec<Value>) -> Value {
    let whole = turn.text.concat();
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
    let item = |status: &str, content: Value| json!({"type": "message", "id": "msg_0", "role": "assistant", "status": status, "content": content});
    let at = |kind: &str, field: &str, value: &Value| json!({"type": kind, "item_id": "msg_0", "output_index": place, "content_index": 0, "logprobs": [], field: value});
    let done = item("completed", json!([part(&whole)]));
    events.push(added(place, &item("in_progress", json!([]))));
    events.push(at("response.content_part.added", "part", &part("")));
    events.extend(
        turn.text
            .iter()
            .map(|piece| at("response.output_text.delta", "delta", &json!(piece))),
    );
    events.push(at("response.output_text.done", "text", &json!(whole)));
    events.push(at("response.content_part.done", "part", &part(&whole)));
    events.push(finished(place, &done));
    done
}

fn call(number: u64, tool: &str, arguments: &str, place: usize, events: &mut Vec<Value>) -> Value {
    let id = format!("fc_{number}");
    let item = |status: &str, arguments: &str| {
        json!({"type": "function_call", "id": id, "call_id": format!("call_{number}"), "name": tool,
            "arguments": arguments, "status": status})
    };
    let at = |kind: &str, field: &str, value: &str| json!({"type": kind, "item_id": id, "output_index": place, "name": tool, field: value});
    let done = item("completed", arguments);
    events.push(added(place, &item("in_progress", "")));
    // The arguments are sent in two halves, as real servers do.
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

fn response(answer: &Answer, status: &str, output: &[Value]) -> Value {
    let (counted, written) = (
        Counted::of(&answer.turn, &answer.seen),
        output_tokens(&answer.turn),
    );
    let usage = json!({
        "input_tokens": counted.all(),
        "input_tokens_details": {"cached_tokens": counted.cache_read, "cache_write_tokens": counted.cache_write},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": counted.all() + written,
    });
    let reason = match answer.turn.stop {
        Stop::CutOff if status == "incomplete" => json!({"reason": "max_output_tokens"}),
        Stop::Refusal if status == "incomplete" => json!({"reason": "content_filter"}),
        Stop::Whole | Stop::CutOff | Stop::Refusal => Value::Null,
    };
    json!({
        "id": "resp_1", "object": "response", "created_at": 1_700_000_000, "status": status, "model": "scripted",
        "output": output, "error": null, "incomplete_details": reason, "instructions": null, "metadata": {},
        "parallel_tool_calls": true, "tool_choice": "auto", "tools": [], "temperature": null, "top_p": null,
        "usage": if status == "in_progress" { Value::Null } else { usage },
    })
}
