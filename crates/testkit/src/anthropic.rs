//! A streaming model server for Anthropic's Messages API that answers from a script, with the same script as
//! [`ScriptedModel`](crate::ScriptedModel).

use std::sync::Arc;

use axum::{extract::State, response::Response};
use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};

use crate::{
    model::named,
    rules::{self, Counted, Rules, output_tokens},
    script::{Answer, Script, Streaming},
    scripted::scripted_server,
    turn::{Stop, Turn},
};

scripted_server!(ScriptedAnthropic, ["/v1/messages" => message], "");

async fn message(State(script): State<Arc<Script>>, headers: HeaderMap, body: Bytes) -> Response {
    let beta = headers
        .get("anthropic-beta")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let check = |rules: &mut Rules, request: &Value| rules::anthropic::check(rules, request, beta);
    match script.next(&body, Streaming::InBody, &check).await {
        Ok(mut answer) => {
            if let Some(raw) = &mut answer.turn.raw {
                raw.sign(&answer.seen.signature);
            }
            answer.turn.stream(events(&answer).iter().map(named).collect())
        }
        Err(refusal) => {
            let kind = match refusal.status.as_u16() {
                400 => "invalid_request_error",
                401 => "authentication_error",
                429 => "rate_limit_error",
                529 => "overloaded_error",
                _ => "api_error",
            };
            let error = json!({"type": kind, "message": refusal.message});
            refusal.answer(&json!({"type": "error", "error": error, "request_id": "req_1"}))
        }
    }
}

fn events(answer: &Answer) -> Vec<Value> {
    let turn = &answer.turn;
    let mut blocks = Vec::new();
    if let Some(thinking) = &turn.thinking {
        let start = json!({"type": "thinking", "thinking": "", "signature": ""});
        let mut deltas = vec![json!({"type": "thinking_delta", "thinking": thinking})];
        // The signature is the last piece of a thinking block: a block that is cut off has none.
        if !turn.is_cut_off_in_thinking() {
            deltas.push(json!({"type": "signature_delta", "signature": answer.seen.signature}));
        }
        blocks.push((start, deltas));
    }
    if !turn.text.is_empty() {
        let deltas = turn
            .text
            .iter()
            .map(|text| json!({"type": "text_delta", "text": text}));
        blocks.push((json!({"type": "text", "text": ""}), deltas.collect::<Vec<_>>()));
    }
    for ((tool, arguments), number) in turn.tool_calls.iter().zip(answer.first_call..) {
        let start = json!({"type": "tool_use", "id": format!("toolu_{number}"), "name": tool, "input": {}});
        // The arguments are sent in two halves, as the real server does.
        let arguments = arguments.to_string();
        let (head, tail) = arguments.split_at(arguments.floor_char_boundary(arguments.len() / 2));
        let part = |json: &str| json!({"type": "input_json_delta", "partial_json": json});
        blocks.push((start, vec![part(head), part(tail)]));
    }
    let stop = match turn.stop {
        Stop::Whole if turn.tool_calls.is_empty() => "end_turn",
        Stop::Whole => "tool_use",
        Stop::CutOff => "max_tokens",
        Stop::Refusal => "refusal",
    };
    let counted = Counted::of(turn, &answer.seen);
    let mut message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": {
            "input_tokens": counted.input, "output_tokens": 1,
            "cache_read_input_tokens": counted.cache_read, "cache_creation_input_tokens": counted.cache_write,
        },
    });
    if let (false, Some(message)) = (answer.seen.dropped.is_empty(), message.as_object_mut()) {
        message.insert("input_transformations".to_owned(), json!(answer.seen.dropped));
    }
    let mut events = vec![
        json!({"type": "message_start", "message": message}),
        json!({"type": "ping"}),
    ];
    for (index, (start, deltas)) in blocks.into_iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        let deltas = deltas.into_iter();
        events.extend(
            deltas.map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({
        "type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
        "usage": {"output_tokens": output_tokens(turn)},
    }));
    events.push(json!({"type": "message_stop"}));
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, Client, Parser, http::StatusCode, sse::Item};

    async fn ask(model: &ScriptedAnthropic) -> anyhow::Result<Answer> {
        let address = model.base_url()["http://".len()..].parse()?;
        let request = json!({"model": "scripted", "stream": true, "messages": []});
        Client::new(address, None).post("/v1/messages", &request).await
    }

    #[tokio::test]
    async fn an_answer_has_its_text_and_its_calls_in_blocks_and_its_usage_at_both_ends() -> anyhow::Result<()>
    {
        let turn = Turn::says(["Hel", "lo"])
            .and_calls("shell", json!({"command": "ä"}))
            .using(7, 2);
        let model = ScriptedAnthropic::start([turn]).await?;
        let items = Parser::default().push(&ask(&model).await?.body);
        let events: Vec<(String, Value)> = items
            .into_iter()
            .filter_map(|item| match item {
                Item::Message(message) => Some((message.event, serde_json::from_str(&message.data).ok()?)),
                Item::Comment(_) | Item::Retry(_) => None,
            })
            .collect();
        assert!(
            events.iter().all(|(name, data)| data["type"] == name.as_str()),
            "{events:?}"
        );
        let joined = |field: &str| -> String {
            events
                .iter()
                .filter_map(|(_, data)| data["delta"][field].as_str())
                .collect()
        };
        assert_eq!(
            (joined("text").as_str(), joined("partial_json").as_str()),
            ("Hello", "{\"command\":\"ä\"}")
        );
        assert_eq!(events[0].1["message"]["usage"]["input_tokens"], 7);
        let end = &events[events.len() - 2].1;
        assert_eq!(
            (&end["delta"]["stop_reason"], &end["usage"]["output_tokens"]),
            (&json!("tool_use"), &json!(2))
        );
        assert_eq!((model.requests().len(), model.left()), (1, 0));
        Ok(())
    }

    #[tokio::test]
    async fn a_failure_and_a_cut_come_as_scripted() -> anyhow::Result<()> {
        let script = [
            Turn::fails(StatusCode::TOO_MANY_REQUESTS, Some(3)),
            Turn::says(["a"]).cut_after(2),
        ];
        let model = ScriptedAnthropic::start(script).await?;
        let limited = ask(&model).await?;
        assert_eq!((limited.status, limited.header("retry-after")?), (429, "3"));
        assert!(limited.text().contains("rate_limit_error"));
        assert!(ask(&model).await.is_err(), "the cut stream reads as whole");
        assert_eq!(ask(&model).await?.status, 500);
        Ok(())
    }
}
