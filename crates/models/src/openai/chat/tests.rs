mod answers;
mod bent;
mod extras;
mod failures;

use std::{collections::HashSet, net::SocketAddr};

use axum::{Router, extract::ConnectInfo, routing::post};
use serde_json::{Value, json, value::RawValue};
use sortie_agent::{
    ToolContent,
    model::{Content, Retry, StopReason, Task, ToolResult, Turn, Usage},
};
use tokio::{net::TcpListener, task::JoinSet};

use super::*;
use crate::{
    openai::testing::{request, short, stream, tool_call},
    test_server::{Answer as Says, KEY, RecordedDeltas, Server, ask, entry},
};

const END_TURN: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}"#;

fn text(piece: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": null}]}).to_string()
}

/// This form of the protocol with every optional part.
fn all(form: Form) -> Dialect {
    Dialect {
        form,
        tool_choice: true,
        effort: true,
        reasoning: false,
    }
}

fn body_of(form: Form, capabilities: &[&str], request: &Request<'_>) -> Value {
    serde_json::to_value(Body::new(&entry("theirs", capabilities), all(form), request).unwrap()).unwrap()
}

#[tokio::test]
async fn a_first_call_sends_what_the_protocol_asks_for_and_nothing_else() {
    let server = Server::start([Says::events(&stream([END_TURN, "[DONE]"]))]).await;
    let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
    ask(&*model, request(&[])).await.unwrap();
    let head = server.head(0);
    assert!(head.starts_with("post /chat/completions http/1.1"), "{head}");
    assert!(head.contains(&format!("authorization: bearer {KEY}")), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    assert_eq!(
        server.body(0),
        json!({
            "model": "theirs",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Say hello."},
            ],
            "stream": true,
            "stream_options": {"include_usage": true},
            "max_tokens": 77,
            "tools": [{"type": "function", "function": {
                "name": "shell",
                "description": "Runs a command.",
                "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
            }}],
        })
    );
}

#[test]
fn openai_itself_takes_the_newer_name_of_the_limit() {
    let body = body_of(Form::Openai, &["tools"], &request(&[]));
    assert_eq!(body["max_completion_tokens"], 77);
    assert!(body.get("max_tokens").is_none());
    for (base, is_openai) in [
        ("https://api.openai.com/v1", true),
        ("https://eu.api.openai.com/v1", true),
        ("https://x.openai.azure.com/openai/v1", true),
        ("https://api.openai.com.example/v1", false),
        ("http://localhost:8080/v1", false),
    ] {
        assert_eq!(openai::is_openai(&base.parse().unwrap()), is_openai, "{base}");
    }
}

#[test]
fn a_model_that_calls_no_tools_is_told_of_none() {
    assert!(
        body_of(Form::Compatible, &[], &request(&[]))
            .get("tools")
            .is_none()
    );
}

#[test]
fn the_conversation_goes_along_in_its_order() {
    let result = |id: &str, text: &str, is_error| ToolResult {
        id: id.to_owned(),
        name: "shell".to_owned(),
        content: ToolContent::Text(text.to_owned()),
        is_error,
        note: None,
    };
    let transcript = [
        Turn::Assistant(vec![
            Content::Text("I ".to_owned()),
            Content::Text("look.".to_owned()),
            tool_call("a", r#"{"command":"ls"}"#),
            tool_call("b", r#"{"command":"#),
        ]),
        Turn::ToolResults(vec![
            result("a", "x.txt", false),
            result("b", "bad arguments", true),
        ]),
        Turn::Assistant(vec![tool_call("c", " ")]),
        Turn::Assistant(vec![]),
        Turn::User("Again.".to_owned()),
    ];
    let body = body_of(Form::Compatible, &["tools"], &request(&transcript));
    let call = |id: &str, arguments: &str| {
        let function = json!({"name": "shell", "arguments": arguments});
        json!({"type": "function", "id": id, "function": function})
    };
    assert_eq!(
        body["messages"].as_array().unwrap()[2..],
        [
            json!({"role": "assistant", "content": "I look.", "tool_calls": [
                call("a", r#"{"command":"ls"}"#),
                call("b", "{}"),
            ]}),
            json!({"role": "tool", "tool_call_id": "a", "content": "x.txt"}),
            json!({"role": "tool", "tool_call_id": "b", "content": "bad arguments"}),
            json!({"role": "assistant", "content": null, "tool_calls": [call("c", "{}")]}),
            json!({"role": "user", "content": "Again."}),
        ]
    );
}

#[test]
fn a_message_of_the_user_never_stands_right_behind_a_result() {
    let result = || {
        Turn::ToolResults(vec![ToolResult {
            id: "a".to_owned(),
            name: "shell".to_owned(),
            content: ToolContent::Text("x.txt".to_owned()),
            is_error: false,
            note: None,
        }])
    };
    let transcript = [
        Turn::Assistant(vec![tool_call("a", "{}")]),
        result(),
        // An empty answer is omitted.
        Turn::Assistant(vec![]),
        Turn::User("Your last message was empty.".to_owned()),
        Turn::Assistant(vec![Content::Text("So.".to_owned())]),
        Turn::User("Again.".to_owned()),
    ];
    let roles = |form, transcript: &[Turn]| -> Vec<String> {
        let sent = body_of(form, &["tools"], &request(transcript));
        let messages = sent["messages"].as_array().unwrap()[2..].iter();
        messages
            .map(|message| format!("{}: {}", message["role"].as_str().unwrap(), message["content"]))
            .collect()
    };
    let expected = [
        "assistant: null",
        "tool: \"x.txt\"",
        "assistant: \"I have read the results.\"",
        "user: \"Your last message was empty.\"",
        "assistant: \"So.\"",
        "user: \"Again.\"",
    ];
    assert_eq!(roles(Form::Compatible, &transcript), expected);
    // Messages that were already sent do not change.
    assert_eq!(roles(Form::Compatible, &transcript[..2]), expected[..2]);
    let own: Vec<&str> = [&expected[..2], &expected[3..]].concat();
    assert_eq!(roles(Form::Openai, &transcript), own, "its own service takes it");
}

#[test]
fn every_answer_has_its_reasoning_once_the_server_has_sent_one() {
    let reasoning = |json: &str| Content::Opaque(RawValue::from_string(json.to_owned()).unwrap());
    let result = |id: &str| {
        Turn::ToolResults(vec![ToolResult {
            id: id.to_owned(),
            name: "shell".to_owned(),
            content: ToolContent::Text(String::new()),
            is_error: false,
            note: None,
        }])
    };
    let transcript = [
        Turn::Assistant(vec![
            reasoning(r#"{"reasoning_content":"Let me"}"#),
            tool_call("a", "{}"),
        ]),
        result("a"),
        Turn::Assistant(vec![tool_call("b", "{}")]),
        result("b"),
        Turn::User("Answer.".to_owned()),
        Turn::Assistant(vec![Content::Text("So.".to_owned())]),
        Turn::User("Again.".to_owned()),
    ];
    let sent = |transcript: &[Turn], was_sent| -> Vec<Value> {
        let dialect = Dialect {
            reasoning: was_sent,
            ..all(Form::Compatible)
        };
        let entry = entry("theirs", &["tools"]);
        let body = serde_json::to_value(Body::new(&entry, dialect, &request(transcript)).unwrap()).unwrap();
        let messages = body["messages"].as_array().unwrap().iter();
        let answers = messages.filter(|message| message["role"] == "assistant");
        answers
            .map(|answer| answer["reasoning_content"].clone())
            .collect()
    };
    let nothing = json!("");
    assert_eq!(
        sent(&transcript, false),
        [json!("Let me"), nothing.clone(), nothing.clone(), nothing.clone()]
    );
    // After notes replaced the turns that had reasoning.
    assert_eq!(sent(&transcript[2..4], true), [nothing]);
    assert_eq!(
        sent(&transcript[2..4], false),
        [Value::Null],
        "a server that never sent one"
    );
    let details = [Turn::Assistant(vec![
        reasoning(r#"{"reasoning_details":[{"type":"reasoning.text","text":"x"}]}"#),
        tool_call("a", "{}"),
    ])];
    assert_eq!(sent(&details, false), [Value::Null]);
}

#[tokio::test]
async fn reasoning_that_a_server_sends_empty_goes_back_empty() {
    let piece = |reasoning: Value| {
        json!({"choices": [{"index": 0, "delta": {"content": "So.", "reasoning_content": reasoning}}]})
            .to_string()
    };
    let (empty, null) = (piece(json!("")), piece(Value::Null));
    let server = Server::start([
        Says::events(&stream([&*null, END_TURN, "[DONE]"])),
        Says::events(&stream([&*empty, END_TURN, "[DONE]"])),
        Says::events(&stream([&*null, END_TURN, "[DONE]"])),
    ])
    .await;
    let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
    let mut replies = Vec::new();
    let said = [
        Turn::Assistant(vec![Content::Text("So.".to_owned())]),
        Turn::User("More.".to_owned()),
    ];
    for _ in 0..3 {
        let reply = ask(&*model, request(&said)).await.unwrap();
        replies.push(short(&reply).len());
    }
    // Null here means that the field was not sent.
    let sent = [0, 1, 2].map(|number| {
        server.body(number)["messages"][2]
            .get("reasoning_content")
            .cloned()
    });
    assert_eq!(sent, [None, None, Some(json!(""))]);
    assert_eq!(replies, [1, 2, 1]);
}

#[tokio::test]
async fn a_server_that_misses_reasoning_is_asked_again_with_it() {
    let refusal = |said: &str| Says::whole("400 Bad", "", &json!({"error": {"message": said}}).to_string());
    let missed = "The `reasoning_content` in the thinking mode must be passed back to the API.";
    let server = Server::start([
        refusal(missed),
        Says::events(&stream([END_TURN, "[DONE]"])),
        refusal(missed),
    ])
    .await;
    let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
    let said = [
        Turn::Assistant(vec![Content::Text("So.".to_owned())]),
        Turn::User("More.".to_owned()),
    ];
    let nobody = RecordedDeltas::default();
    model.call(request(&said), &nobody).await.unwrap();
    let sent = [0, 1].map(|number| server.body(number)["messages"][2]["reasoning_content"].clone());
    assert_eq!(sent, [Value::Null, json!("")]);
    // We retry only once: the second request already has the field.
    let error = model.call(request(&said), &nobody).await.unwrap_err();
    assert_eq!((error.retry, server.requests()), (Retry::Never, 3));
}

#[test]
fn an_answer_cut_off_while_the_model_thought_is_no_message() {
    let reasoning =
        || Content::Opaque(RawValue::from_string(r#"{"reasoning_content":"Let me"}"#.to_owned()).unwrap());
    let transcript = [
        Turn::Assistant(vec![reasoning()]),
        Turn::User("Go on.".to_owned()),
        Turn::Assistant(vec![Content::Text(" \n".to_owned()), reasoning()]),
        Turn::User("Answer.".to_owned()),
    ];
    let body = body_of(Form::Compatible, &["tools"], &request(&transcript));
    assert_eq!(
        body["messages"].as_array().unwrap()[1..],
        [json!({"role": "user", "content": "Say hello.\n\nGo on.\n\nAnswer."})]
    );
}

#[test]
fn what_the_user_says_in_a_row_is_one_message() {
    let transcript = [
        Turn::User("A summary.".to_owned()),
        Turn::User("A correction.".to_owned()),
        Turn::Assistant(vec![Content::Text("Hello.".to_owned())]),
        Turn::User("Again.".to_owned()),
    ];
    let body = body_of(Form::Compatible, &["tools"], &request(&transcript));
    assert_eq!(
        body["messages"].as_array().unwrap()[1..],
        [
            json!({"role": "user", "content": "Say hello.\n\nA summary.\n\nA correction."}),
            json!({"role": "assistant", "content": "Hello."}),
            json!({"role": "user", "content": "Again."}),
        ]
    );
}

#[test]
fn an_output_schema_binds_the_answer_where_that_leaves_the_tools_usable() {
    let format = |dialect, capabilities: &[&str], schema: &str, tools: usize| {
        let whole = request(&[]);
        let request = Request {
            task: Task {
                output_schema: Some(schema),
                ..whole.task
            },
            tools: &whole.tools[..tools],
            ..whole
        };
        body_of(dialect, capabilities, &request)
            .get("response_format")
            .cloned()
    };
    let able = &["tools", "structured_output"];
    let object = r#"{"type":"object"}"#;
    let expected = json!({"type": "json_schema", "json_schema": {
        "name": "output", "schema": {"type": "object"}, "strict": false,
    }});
    assert_eq!(format(Form::Openai, able, object, 1), Some(expected.clone()));
    assert_eq!(format(Form::Compatible, able, object, 0), Some(expected));
    assert_eq!(format(Form::Compatible, able, object, 1), None);
    assert_eq!(format(Form::Openai, &["tools"], object, 1), None);
    assert_eq!(format(Form::Openai, able, r#"{"type":"array"}"#, 1), None);
    assert_eq!(format(Form::Openai, able, "true", 1), None);
}

#[tokio::test]
async fn text_streams_and_the_last_chunk_counts_the_tokens() {
    let events = [
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}"#,
        &text("Hel"),
        &text("lö\n"),
        END_TURN,
        r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"prompt_tokens_details":{"cached_tokens":64,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":12}}}"#,
        "[DONE]",
    ];
    let server = Server::start([Says::events(&stream(events))]).await;
    let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
    let heard = RecordedDeltas::default();
    let reply = model.call(request(&[]), &heard).await.unwrap();
    assert_eq!(heard.pieces(), ["Hel", "lö\n"]);
    assert_eq!(short(&reply), ["Hellö\n"]);
    assert_eq!(reply.stop_reason, StopReason::EndTurn);
    let usage = Usage {
        input_tokens: 36,
        output_tokens: 20,
        cache_read_tokens: 64,
        cache_write_tokens: 0,
    };
    assert_eq!(reply.usage, usage);
}

#[tokio::test]
async fn calls_one_after_the_other_use_one_connection() {
    let seen = Arc::new(parking_lot::Mutex::new(HashSet::new()));
    let from = Arc::clone(&seen);
    let answer = move |ConnectInfo(address): ConnectInfo<SocketAddr>| async move {
        from.lock().insert(address);
        let events = [END_TURN, USAGE, "[DONE]"].map(|event| Ok::<_, std::io::Error>(stream([event])));
        let body = axum::body::Body::from_stream(futures_util::stream::iter(events));
        ([("content-type", "text/event-stream")], body)
    };
    let router = Router::new().route("/v1/chat/completions", post(answer));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1/", listener.local_addr().unwrap());
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    let mut serving = JoinSet::new();
    serving.spawn(async move { axum::serve(listener, service).await });
    let here = provider(&base);
    let model = client(&here, entry("theirs", &["tools"])).unwrap();
    for _ in 0..5 {
        ask(&*model, request(&[])).await.unwrap();
    }
    assert_eq!(seen.lock().len(), 1);
}

fn provider(base: &str) -> Provider {
    Provider {
        name: "here".to_owned(),
        base: base.parse().unwrap(),
        key: Some(sortie_api::Credential::new(KEY)),
        http: crate::test_server::http(std::time::Duration::from_secs(20)),
        end_wait: crate::test_server::PATIENCE,
    }
}
