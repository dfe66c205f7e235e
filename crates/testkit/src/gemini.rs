//! A model server that speaks the Gemini API, streaming, and says what a script tells it: the same script as that of
//! [`ScriptedModel`](crate::ScriptedModel). Its tool calls carry signatures, and it refuses a conversation that does not
//! bring them back, as the real one does.

use std::{io, sync::Arc};

use axum::{Router, extract::State, response::Response, routing::post};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    http::StatusCode,
    model::{Refusal, Script, Streaming, Turn, data},
    serve::Serving,
};

/// A running model server.
#[derive(Debug)]
pub struct ScriptedGemini {
    server: Serving,
    script: Arc<Script>,
}

impl ScriptedGemini {
    /// Starts a server that gives these answers, one per request; a request beyond them is answered with 500.
    pub async fn start(script: impl IntoIterator<Item = Turn>) -> io::Result<Self> {
        let script = Script::new(script);
        let router = Router::new()
            .route("/v1beta/models/{method}", post(generate))
            .with_state(Arc::clone(&script));
        Ok(Self {
            server: Serving::start(router).await?,
            script,
        })
    }

    /// What `GEMINI_BASE_URL` takes.
    pub fn base_url(&self) -> String {
        self.server.base_url()
    }

    /// The bodies of the requests so far.
    pub fn requests(&self) -> Vec<Value> {
        self.script.requests()
    }

    /// How many answers nobody has asked for yet.
    pub fn left(&self) -> usize {
        self.script.left()
    }
}

async fn generate(State(script): State<Arc<Script>>, body: Bytes) -> Response {
    let answer = match script.next(&body, Streaming::InPath).await {
        Ok(_) if lacks_a_signature(&body) => Err(Refusal {
            status: StatusCode::BAD_REQUEST,
            message: "a function call is missing its thought signature",
            retry_after: None,
        }),
        answer => answer,
    };
    match answer {
        Ok(turn) => turn.stream(chunks(&turn).iter().map(data).collect()),
        Err(refusal) => {
            let error = json!({"code": refusal.status.as_u16(), "message": refusal.message});
            refusal.answer(&json!({ "error": error }))
        }
    }
}

/// Whether the first call of a message has no signature.
fn lacks_a_signature(body: &[u8]) -> bool {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    let messages = request.get("contents").and_then(Value::as_array);
    messages.into_iter().flatten().any(|message| {
        let parts = message.get("parts").and_then(Value::as_array);
        let first = parts
            .into_iter()
            .flatten()
            .find(|part| part.get("functionCall").is_some());
        first.is_some_and(|part| part.get("thoughtSignature").is_none())
    })
}

fn chunks(turn: &Turn) -> Vec<Value> {
    let texts = turn.text.iter().map(|text| json!({ "text": text }));
    let calls = turn
        .tool_calls
        .iter()
        .enumerate()
        .map(|(index, (tool, arguments))| {
            let mut part =
                json!({"functionCall": {"id": format!("fc_{index}"), "name": tool, "args": arguments}});
            // The first of several calls carries the signature of all.
            if let (0, Some(fields)) = (index, part.as_object_mut()) {
                fields.insert("thoughtSignature".to_owned(), json!("c2lnbmF0dXJl"));
            }
            part
        });
    let piece =
        |part: Value| json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]});
    let mut chunks: Vec<Value> = texts.chain(calls).map(piece).collect();
    chunks.push(json!({
        "candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": turn.usage.input, "candidatesTokenCount": turn.usage.output,
            "totalTokenCount": turn.usage.input + turn.usage.output},
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
        assert_eq!((model.requests().len(), model.left()), (2, 0));
        Ok(())
    }
}
