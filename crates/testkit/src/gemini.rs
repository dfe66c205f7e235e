//! A model server that speaks the Gemini API, streaming, and says what a script tells it: the same script as that of
//! [`ScriptedModel`](crate::ScriptedModel). Its tool calls carry signatures, and it refuses a conversation that does
//! not bring them back, as the real one does.

use std::{io, sync::Arc};

use axum::{Router, extract::State, response::Response, routing::post};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    model::data,
    rules::{self, Counted, output_tokens},
    script::{Answer, Driver, Script, Streaming},
    serve::Serving,
    turn::{Stop, Turn},
};

/// A running model server.
#[derive(Debug)]
pub struct ScriptedGemini {
    server: Serving,
    script: Arc<Script>,
}

impl Drop for ScriptedGemini {
    fn drop(&mut self) {
        self.script.check_at_drop();
    }
}

impl ScriptedGemini {
    /// Starts a server that gives these answers, one per request; a request beyond them is answered with 500.
    pub async fn start(script: impl IntoIterator<Item = Turn>) -> io::Result<Self> {
        Self::serve(Script::new(script)).await
    }

    /// Starts a server whose answers are made of the requests.
    pub async fn driven(driver: Driver) -> io::Result<Self> {
        Self::serve(Script::driven(driver)).await
    }

    async fn serve(script: Arc<Script>) -> io::Result<Self> {
        let router = Router::new()
            .route("/v1beta/models/{method}", post(generate))
            .with_state(Arc::clone(&script));
        Ok(Self {
            server: Serving::start(router).await?,
            script,
        })
    }

    /// Returns the value for `GEMINI_BASE_URL`.
    pub fn base_url(&self) -> String {
        self.server.base_url()
    }

    /// The bodies of the requests so far.
    pub fn requests(&self) -> Vec<Value> {
        self.script.requests()
    }

    /// The rules of the provider that requests have broken. A server that is dropped with some fails its test.
    pub fn broken_rules(&self) -> Vec<String> {
        self.script.broken_rules()
    }

    /// Returns the number of answers that nobody has asked for yet.
    pub fn left(&self) -> usize {
        self.script.left()
    }
}

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

/// The signature of the answer whose first call has this number.
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
