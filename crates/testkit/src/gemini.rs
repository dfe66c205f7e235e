//! A streaming model server for the Gemini API that answers from a script, with the same script as
//! [`ScriptedModel`](crate::ScriptedModel). Its tool calls carry signatures. A conversation that does not return them
//! is refused, as by the real server.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    model::data,
    rules::{self, Counted, output_tokens},
    script::{Answer, Script, Streaming},
    scripted::scripted_server,
    turn::{Stop, Turn},
};

scripted_server!(ScriptedGemini, ["/v1beta/models/{method}" => generate], "");

async fn generate(State(script): State<Arc<Script>>, body: Bytes) -> Response {
    match script.next(&body, Streaming::InPath, &rules::gemini::check).await {
        Ok(answer) => {
            if !answer.turn.tool_calls.is_empty() {
                let id = format!("fc_{}", answer.first_call);
                script.rules().require(id, signature(answer.first_call));
            }
            answer.turn.stream(chunks(&answer).iter().map(data).collect())
        }
        Err(refusal) => {
            let error = json!({
                "code": refusal.status.as_u16(), "message": refusal.message,
                "status": if refusal.status.as_u16() == 400 { "INVALID_ARGUMENT" } else { "UNKNOWN" },
            });
            refusal.answer(&json!({ "error": error }))
        }
    }
}

/// The signature of the answer that has this number for its first call.
fn signature(first_call: u64) -> String {
    BASE64_STANDARD.encode(format!("signature {first_call}"))
}

fn chunks(answer: &Answer) -> Vec<Value> {
    let turn = &answer.turn;
    let texts = turn.text.iter().map(|text| json!({ "text": text }));
    let calls = turn.tool_calls.iter().zip(answer.first_call..);
    let calls = calls.map(|((tool, arguments), number)| {
        let mut part =
            json!({"functionCall": {"id": format!("fc_{number}"), "name": tool, "args": arguments}});
        // The first of several calls carries the signature of all.
        if let (true, Some(fields)) = (number == answer.first_call, part.as_object_mut()) {
            fields.insert("thoughtSignature".to_owned(), signature(number).into());
        }
        part
    });
    let piece =
        |part: Value| json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]});
    let mut chunks: Vec<Value> = texts.chain(calls).map(piece).collect();
    let reason = match turn.stop {
        Stop::Whole => "STOP",
        Stop::CutOff => "MAX_TOKENS",
        Stop::Refusal => "SAFETY",
    };
    let (counted, output) = (Counted::of(turn, &answer.seen), output_tokens(turn));
    chunks.push(json!({
        "candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": reason, "index": 0}],
        "usageMetadata": {"promptTokenCount": counted.all(), "cachedContentTokenCount": counted.cache_read,
            "candidatesTokenCount": output, "totalTokenCount": counted.all() + output},
    }));
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;

    #[tokio::test]
    async fn an_answer_comes_in_parts_and_a_call_without_its_signature_is_refused() -> anyhow::Result<()> {
        let turn = || {
            Turn::says(["a", "b"])
                .and_calls("shell", json!({"x": 1}))
                .using(7, 2)
        };
        let model = ScriptedGemini::start([turn(), turn()]).await?;
        let client = Client::new(model.base_url()["http://".len()..].parse()?, None);
        let path = "/v1beta/models/scripted:streamGenerateContent?alt=sse";
        let answer = client.post(path, &json!({"contents": []})).await?;
        assert_eq!(answer.text().matches("data: ").count(), 4);
        assert!(answer.text().contains("\"promptTokenCount\":7"));
        let call = json!({"functionCall": {"name": "shell", "args": {}}});
        let refused = client
            .post(path, &json!({"contents": [{"role": "model", "parts": [call]}]}))
            .await?;
        assert_eq!(refused.status, 400);
        assert_eq!((model.requests().len(), model.left()), (2, 1));
        assert_eq!(model.broken_rules().len(), 1);
        Ok(())
    }
}
