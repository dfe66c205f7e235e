//! A streaming model server for OpenAI's Chat Completions and Responses protocols that answers from a script: each
//! request takes the next answer. It records every request for the test.

use std::{io, sync::Arc};

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{StatusCode, header};
use serde_json::{Value, json};

use crate::{
    responses,
    rules::{self, Counted, output_tokens},
    script::{Answer, Refusal, Script, Streaming},
    scripted::scripted_server,
    turn::{Fault, Stop},
};
pub use crate::{
    rules::chat::ChatProvider,
    script::Driver,
    turn::{Turn, Usage},
};

fn chunks(answer: &Answer) -> Vec<Value> {
    let turn = &answer.turn;
    let id = |number: u64| match answer.provider {
        ChatProvider::Mistral => format!("call{number:05}"),
        ChatProvider::Common | ChatProvider::Deepseek => format!("call_{number}"),
    };
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    if answer.provider == ChatProvider::Deepseek {
        deltas.push(json!({"reasoning_content": turn.thinking.as_deref().unwrap_or_default()}));
    }
    deltas.extend(turn.text.iter().map(|text| json!({"content": text})));
    for ((index, (tool, arguments)), number) in turn.tool_calls.iter().enumerate().zip(answer.first_call..) {
        let call = |function: Value| json!({"tool_calls": [{"index": index, "function": function}]});
        deltas.push(json!({"tool_calls": [{
            "index": index, "id": id(number), "type": "function",
            "function": {"name": tool, "arguments": ""},
        }]}));
        // The arguments are sent in two halves, as real servers do.
        let arguments = arguments.to_string();
        let (head, tail) = arguments.split_at(arguments.floor_char_boundary(arguments.len() / 2));
        deltas.push(call(json!({"arguments": head})));
        deltas.push(call(json!({"arguments": tail})));
    }
    let reason = match turn.stop {
        Stop::Whole if turn.tool_calls.is_empty() => "stop",
        Stop::Whole => "tool_calls",
        Stop::CutOff => "length",
        Stop::Refusal => "content_filter",
    };
    let mut choices: Vec<Value> = deltas
        .into_iter()
        .map(|delta| json!([{"index": 0, "delta": delta, "finish_reason": null}]))
        .collect();
    choices.push(json!([{"index": 0, "delta": {}, "finish_reason": reason}]));
    let (counted, output) = (Counted::of(turn, &answer.seen), output_tokens(turn));
    let usage = json!({
        "prompt_tokens": counted.all(),
        "prompt_tokens_details": {"cached_tokens": counted.cache_read},
        "completion_tokens": output,
        "total_tokens": counted.all() + output,
    });
    let mut chunks: Vec<Value> = choices
        .iter()
        .map(|choices| chunk(choices, &Value::Null))
        .collect();
    chunks.push(chunk(&json!([]), &usage));
    chunks
}

fn chunk(choices: &Value, usage: &Value) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "scripted",
        "choices": choices, "usage": usage,
    })
}

scripted_server!(
    ScriptedModel,
    ["/v1/chat/completions" => complete, "/v1/responses" => respond],
    "/v1"
);

async fn complete(State(script): State<Arc<Script>>, body: Bytes) -> Response {
    match script.next(&body, Streaming::InBody, &rules::chat::check).await {
        Ok(answer) => {
            let mut events: Vec<String> = chunks(&answer).iter().map(data).collect();
            events.push("data: [DONE]\n\n".to_owned());
            answer.turn.stream(events)
        }
        Err(refusal) => refused(&refusal),
    }
}

async fn respond(State(script): State<Arc<Script>>, body: Bytes) -> Response {
    match script
        .next(&body, Streaming::InBody, &rules::responses::check)
        .await
    {
        Ok(answer) => {
            let (events, required) = responses::events(&answer);
            for (call, piece) in required {
                script.rules().require(call, piece);
            }
            answer.turn.stream(events.iter().map(named).collect())
        }
        Err(refusal) => refused(&refusal),
    }
}

fn refused(refusal: &Refusal) -> Response {
    let kind = if refusal.status == StatusCode::BAD_REQUEST {
        "invalid_request_error"
    } else {
        "scripted"
    };
    let error = json!({"message": refusal.message, "type": kind, "code": refusal.status.as_u16()});
    refusal.answer(&json!({ "error": error }))
}

/// An event with the name of its type.
pub(crate) fn named(event: &Value) -> String {
    let name = event.get("type").and_then(Value::as_str).unwrap_or_default();
    format!("event: {name}\ndata: {event}\n\n")
}

/// An event without a name.
pub(crate) fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

impl Turn {
    /// The stream of these events, cut off if the script says so.
    pub(crate) fn stream(&self, events: Vec<String>) -> Response {
        if let Some(raw) = &self.raw {
            return raw.response();
        }
        let cut = match self.fault {
            Some(Fault::CutAfter(kept)) => Some(kept),
            Some(Fault::Status(..)) | None => None,
        };
        let kept = cut.unwrap_or(events.len());
        let mut frames: Vec<io::Result<Bytes>> = events
            .into_iter()
            .take(kept)
            .map(|event| Ok(event.into()))
            .collect();
        if cut.is_some() {
            frames.push(Err(io::ErrorKind::ConnectionReset.into()));
        }
        // One frame per turn of the runtime, so that a client receives them one by one.
        let body = stream::iter(frames).then(|frame| async move {
            tokio::task::yield_now().await;
            frame
        });
        let content_type = [(header::CONTENT_TYPE, "text/event-stream")];
        (content_type, Body::from_stream(body)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::{Client, Parser, sse::Item};

    async fn ask(model: &ScriptedModel) -> anyhow::Result<crate::Answer> {
        let address = model.base_url()["http://".len()..]
            .trim_end_matches("/v1")
            .parse()?;
        let request = json!({"model": "scripted", "stream": true, "messages": []});
        Client::new(address, None)
            .post("/v1/chat/completions", &request)
            .await
    }

    fn chunks(answer: &crate::Answer) -> Vec<Value> {
        let items = Parser::default().push(&answer.body);
        let data = items.into_iter().filter_map(|item| match item {
            Item::Message(message) => serde_json::from_str(&message.data).ok(),
            Item::Comment(_) | Item::Retry(_) => None,
        });
        data.collect()
    }

    #[tokio::test]
    async fn text_comes_in_its_deltas_with_usage_in_the_last_chunk() -> anyhow::Result<()> {
        let model = ScriptedModel::start([Turn::says(["Hel", "lo"]).using(7, 2)]).await?;
        let answer = ask(&model).await?;
        let chunks = chunks(&answer);
        let text: String = chunks
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
            .collect();
        assert_eq!(text, "Hello");
        assert_eq!(chunks.last().unwrap()["usage"]["total_tokens"], 9);
        assert!(answer.text().ends_with("data: [DONE]\n\n"));
        assert_eq!((model.requests().len(), model.left()), (1, 0));
        Ok(())
    }

    #[tokio::test]
    async fn the_arguments_of_a_tool_call_add_up() -> anyhow::Result<()> {
        let arguments = json!({"command": "ls ä"});
        let model = ScriptedModel::start([Turn::calls("shell", arguments.clone())]).await?;
        let chunks = chunks(&ask(&model).await?);
        let joined: String = chunks
            .iter()
            .filter_map(|chunk| {
                chunk["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str()
            })
            .collect();
        assert_eq!(serde_json::from_str::<Value>(&joined)?, arguments);
        assert_eq!(
            chunks[chunks.len() - 2]["choices"][0]["finish_reason"],
            "tool_calls"
        );
        Ok(())
    }

    #[tokio::test]
    async fn a_held_answer_comes_when_it_is_released() -> anyhow::Result<()> {
        let model = ScriptedModel::start([Turn::says(["a"]).held()]).await?;
        let mut asked = Box::pin(ask(&model));
        while model.left() > 0 {
            let answered = timeout(Duration::from_millis(1), &mut asked).await;
            assert!(answered.is_err(), "it came by itself");
        }
        model.release();
        assert_eq!(asked.await?.status, 200);
        Ok(())
    }

    #[tokio::test]
    async fn a_failure_a_cut_stream_and_the_end_of_the_script_come_as_scripted() -> anyhow::Result<()> {
        let script = [
            Turn::fails(StatusCode::TOO_MANY_REQUESTS, Some(3)),
            Turn::says(["a", "b"]).cut_after(2),
        ];
        let model = ScriptedModel::start(script).await?;
        let limited = ask(&model).await?;
        assert_eq!((limited.status, limited.header("retry-after")?), (429, "3"));
        assert!(ask(&model).await.is_err(), "the cut stream reads as whole");
        assert_eq!(ask(&model).await?.status, 500);
        Ok(())
    }
}
