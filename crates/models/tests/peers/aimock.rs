//! aimock, a test server for the clients of many providers: how it parses our conversations, and its injected faults.

use std::time::Duration;

use serde_json::{Value, json};
use sortie_agent::{
    ToolContent,
    model::{Content, Model, Retry, StopReason, ToolCall, ToolResult, Turn},
};
use sortie_testkit::rows;
use sortie_testkit::{Client, peers::installed};
use tempfile::NamedTempFile;

use crate::support::{Peer, Streamed, command, model, request};

/// The protocols, with the path that their clients' settings append to the address.
const APIS: [(&str, &str); 3] = [
    ("openai-chat", "/v1"),
    ("openai-responses", "/v1"),
    ("anthropic", ""),
];

/// A server with these fixtures.
struct Aimock {
    peer: Peer,
    control: Client,
    _fixtures: NamedTempFile,
}

impl Aimock {
    fn start(fixtures: &Value) -> Self {
        let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
        serde_json::to_writer(&file, &json!({ "fixtures": fixtures })).unwrap();
        let mut node = command("node/bin/node");
        node.arg(installed("npm/node_modules/@copilotkit/aimock/dist/cli.js").unwrap())
            .args(["--port", "0", "--strict", "--chunk-size", "7", "--fixtures"])
            .arg(file.path());
        let peer = Peer::start(node);
        Self {
            control: Client::new(peer.address, None),
            peer,
            _fixtures: file,
        }
    }

    fn model(&self, api: &str, path: &str) -> std::sync::Arc<dyn Model> {
        model(
            api,
            &format!("http://{}{path}", self.peer.address),
            "sk-peer",
            "theirs",
        )
    }

    /// Returns the last request as the server parsed it. It converts every protocol to Chat Completions.
    async fn understood(&self) -> Value {
        let journal = self
            .control
            .get("/__aimock/journal")
            .await
            .unwrap()
            .json()
            .unwrap();
        journal.as_array().unwrap().last().unwrap()["body"].clone()
    }
}

fn conversation() -> Value {
    let call = |id: &str, command: &str| {
        let arguments = json!({ "command": command }).to_string();
        json!({"id": id, "name": "shell", "arguments": arguments})
    };
    json!([
        {
            "match": {"userMessage": "List the files", "hasToolResult": false},
            "response": {
                "content": "I look at it: grüße.",
                "reasoning": "The files, then.",
                "toolCalls": [call("call_a", "ls -l"), call("call_b", "pwd")],
            },
        },
        {
            "match": {"userMessage": "List the files", "toolResultContains": "/home"},
            "response": {"content": "There is x.txt.", "usage": {
                "prompt_tokens": 31, "completion_tokens": 7, "input_tokens": 31, "output_tokens": 7,
            }},
        },
    ])
}

#[tokio::test]
async fn a_conversation_with_tools_is_understood_as_it_was_meant() {
    let aimock = Aimock::start(&conversation());
    for (api, path) in APIS {
        let model = aimock.model(api, path);
        let streamed = Streamed::default();
        let reply = model
            .call(request("List the files", &[]), &streamed)
            .await
            .unwrap();
        assert_eq!(streamed.text(), "I look at it: grüße.", "{api:?}");
        assert_eq!(reply.stop_reason, StopReason::ToolUse, "{api:?}");
        let calls: Vec<ToolCall> = reply
            .content
            .iter()
            .filter_map(|piece| match piece {
                Content::ToolCall(call) => Some(call.clone()),
                Content::Text(_) | Content::Opaque(_) => None,
            })
            .collect();
        let said: Vec<_> = calls.iter().map(|call| (&*call.name, &*call.arguments)).collect();
        let expected = [
            ("shell", r#"{"command":"ls -l"}"#),
            ("shell", r#"{"command":"pwd"}"#),
        ];
        assert_eq!(said, expected, "{api:?}");
        assert!(
            reply.usage.input_tokens > 0 && reply.usage.output_tokens > 0,
            "{api:?}: {:?}",
            reply.usage
        );

        let result = |call: &ToolCall, text: &str| ToolResult {
            id: call.id.clone(),
            name: call.name.clone(),
            content: ToolContent::Text(text.to_owned()),
            is_error: false,
            note: None,
        };
        let transcript = [
            Turn::Assistant(reply.content),
            Turn::ToolResults(vec![result(&calls[0], "x.txt"), result(&calls[1], "/home")]),
        ];
        let whole = request("List the files", &transcript);
        let reply = model.call(whole, &Streamed::default()).await.unwrap();
        let said: String = reply
            .content
            .iter()
            .filter_map(|piece| match piece {
                Content::Text(text) => Some(text.as_str()),
                Content::ToolCall(_) | Content::Opaque(_) => None,
            })
            .collect();
        assert_eq!(
            (&*said, reply.stop_reason),
            ("There is x.txt.", StopReason::EndTurn),
            "{api:?}"
        );
        assert_eq!(
            (reply.usage.input_tokens, reply.usage.output_tokens),
            (31, 7),
            "{api:?}"
        );
        understood_whole(&aimock.understood().await, &calls, api);
    }
}

/// Checks that the server parsed all messages in order.
fn understood_whole(body: &Value, calls: &[ToolCall], api: &str) {
    assert_eq!(body["model"], "theirs", "{api:?}");
    let tool = &body["tools"][0]["function"];
    assert_eq!(tool["name"], "shell", "{api:?}");
    assert_eq!(tool["description"], "Runs a command.", "{api:?}");
    assert_eq!(tool["parameters"]["required"], json!(["command"]), "{api:?}");
    let messages = body["messages"].as_array().unwrap();
    let of = |role: &'static str| messages.iter().filter(move |message| message["role"] == role);
    let texts = |role: &'static str| -> Vec<String> {
        of(role).map(|message| text_of(&message["content"])).collect()
    };
    assert_eq!(texts("system"), ["Be brief."], "{api:?}");
    assert_eq!(texts("user"), ["List the files"], "{api:?}");
    assert_eq!(texts("assistant").concat(), "I look at it: grüße.", "{api:?}");
    assert_eq!(texts("tool"), ["x.txt", "/home"], "{api:?}");
    let answered: Vec<&str> = of("tool")
        .map(|message| message["tool_call_id"].as_str().unwrap())
        .collect();
    let ids: Vec<&str> = calls.iter().map(|call| &*call.id).collect();
    assert_eq!(answered, ids, "{api:?}");
    let called: Vec<&Value> = of("assistant")
        .filter_map(|message| message["tool_calls"].as_array())
        .flatten()
        .collect();
    for (called, call) in called.iter().zip(calls) {
        assert_eq!(called["id"], *call.id, "{api:?}");
        let arguments: Value =
            serde_json::from_str(called["function"]["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(
            arguments,
            serde_json::from_str::<Value>(&call.arguments).unwrap(),
            "{api:?}"
        );
    }
    assert_eq!(called.len(), calls.len(), "{api:?}");
}

/// A text, or its parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

#[tokio::test]
async fn failures_say_whether_they_may_be_tried_again() {
    let failing = |says: &str, status: u16, message: &str, kind: &str| {
        json!({"match": {"userMessage": says}, "response": {
            "error": {"message": message, "type": kind}, "status": status, "retryAfter": 3,
        }})
    };
    let aimock = Aimock::start(&json!([
        failing("too fast", 429, "Slow down.", "rate_limit_error"),
        failing("too much", 529, "Overloaded.", "overloaded_error"),
        failing(
            "too long",
            400,
            "prompt is too long: 300000 tokens > 200000 maximum",
            "invalid_request_error"
        ),
        failing("no entry", 401, "Who are you?", "authentication_error"),
    ]));
    let after = Some(Duration::from_secs(3));
    for (api, path) in APIS {
        let model = aimock.model(api, path);
        for (prompt, retry, words) in rows! {
            "too fast", Retry::Soon { after }, "answered 429: Slow down.";
            "too much", Retry::Soon { after: None }, "answered 529: Overloaded.";
            "too long", Retry::Smaller, "prompt is too long";
            "no entry", Retry::Never, "answered 401: Who are you?";
            // In strict mode the server refuses requests without a fixture.
            "anything else", Retry::Soon { after: None }, "answered 503";
        } {
            let error = model
                .call(request(prompt, &[]), &Streamed::default())
                .await
                .unwrap_err();
            assert_eq!(error.retry, retry, "{api:?}: {error}");
            assert!(error.message.contains(words), "{api:?}: {error}");
        }
    }
}

#[tokio::test]
async fn chaos_ends_calls_in_errors_and_leaves_the_client_well() {
    let aimock = Aimock::start(&json!([{"match": {"userMessage": "hello"}, "response": {"content": "Hi."}}]));
    for (api, path) in APIS {
        let model = aimock.model(api, path);
        for (chaos, retry) in rows! {
            json!({"dropRate": 1}), Retry::Soon { after: None };
            json!({"rateLimitRate": 1}), Retry::Soon { after: Some(Duration::from_secs(1)) };
            json!({"disconnectRate": 1}), Retry::Soon { after: None };
            json!({"malformedRate": 1}), Retry::Soon { after: None };
        } {
            aimock
                .control
                .post("/__aimock/chaos", &chaos)
                .expect(200)
                .await
                .unwrap();
            let error = model
                .call(request("hello", &[]), &Streamed::default())
                .await
                .unwrap_err();
            assert_eq!(error.retry, retry, "{api:?}, {chaos}: {error}");
        }
        let calm = aimock.control.send(
            sortie_testkit::http::Method::DELETE,
            "/__aimock/chaos",
            Vec::new().into(),
        );
        calm.await.unwrap();
        let streamed = Streamed::default();
        model.call(request("hello", &[]), &streamed).await.unwrap();
        assert_eq!(streamed.text(), "Hi.", "{api:?}");
    }
}
