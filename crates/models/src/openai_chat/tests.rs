mod answers;
mod bent;
mod extras;

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
    test_server::{Answer as Says, KEY, RecordedDeltas, Server, entry},
};

const END_TURN: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}"#;

fn text(piece: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": null}]}).to_string()
}

/// This form of the protocol, of which the server takes every part.
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
    model
        .call(request(&[]), &RecordedDeltas::default())
        .await
        .unwrap();
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
        // An empty answer is no message.
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
    // What was sent before stays as it was.
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
    // After notes took the place of the turns that had one.
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
        let reply = model
            .call(request(&said), &RecordedDeltas::default())
            .await
            .unwrap();
        replies.push(short(&reply).len());
    }
    // What is null was not sent.
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
    // Once only: it has the field by now.
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
async fn a_broken_connection_loses_nothing_of_an_answer_that_is_whole() {
    let piece = text("12345678");
    let server = Server::start([
        Says::broken(&stream([&*piece, END_TURN])),
        Says::broken(&stream([&*piece])),
    ])
    .await;
    let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
    let reply = model
        .call(request(&[]), &RecordedDeltas::default())
        .await
        .unwrap();
    assert_eq!(
        (short(&reply), reply.usage.output_tokens),
        (vec!["12345678".to_owned()], 2)
    );
    let error = model
        .call(request(&[]), &RecordedDeltas::default())
        .await
        .unwrap_err();
    assert_eq!(
        (error.retry, error.usage.output_tokens),
        (Retry::Soon { after: None }, 2)
    );
    assert!(error.usage.input_tokens > 50, "{:?}", error.usage);
}

#[tokio::test]
async fn an_event_that_is_too_large_ends_the_call() {
    let server = Server::start([Says::events(&stream([text(&"x".repeat(17 << 20))]))]).await;
    let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
    let error = model
        .call(request(&[]), &RecordedDeltas::default())
        .await
        .unwrap_err();
    assert_eq!(error.retry, Retry::Never);
    assert!(error.message.contains("larger than"), "{error}");
}

#[tokio::test]
async fn a_failure_says_whether_it_may_be_tried_again_and_nothing_of_the_key() {
    let failed = |said: &str| Says::events(&stream([format!(r#"{{"error":{said}}}"#)]));
    let whole = |status, headers, body| Says::whole(status, headers, body);
    let after = Some(std::time::Duration::from_secs(7));
    let cases = [
        (
            whole(
                "429 Busy",
                "retry-after: 7\r\n",
                r#"{"error":{"message":"slow down"}}"#,
            ),
            Retry::Soon { after },
            "answered 429: slow down",
        ),
        (
            whole("503 Down", "", "down"),
            Retry::Soon { after: None },
            "answered 503: down",
        ),
        (
            whole(
                "400 Bad",
                "",
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens."}}"#,
            ),
            Retry::Smaller,
            "8192",
        ),
        (
            whole(
                "401 No",
                "",
                r#"{"error":{"message":"Incorrect API key: sk-very-secret"}}"#,
            ),
            Retry::Never,
            "key: [redacted]",
        ),
        (
            whole("400 Bad", "", r#"{"error":"bad"}"#),
            Retry::Never,
            "answered 400: bad",
        ),
        (
            failed(r#"{"message":"the request exceeds the available context size","code":400}"#),
            Retry::Smaller,
            "context size",
        ),
        (
            failed(r#"{"message":"sk-very-secret is over","code":"context_length_exceeded"}"#),
            Retry::Smaller,
            "[redacted] is over",
        ),
        (
            failed(r#"{"code":503}"#),
            Retry::Soon { after: None },
            "answered 503",
        ),
        (
            failed(r#"{"code":"insufficient_quota"}"#),
            Retry::Never,
            "answered 402",
        ),
    ];
    let server = Server::start(cases.iter().map(|(says, ..)| says.clone())).await;
    let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
    for (_, retry, words) in cases {
        let error = model
            .call(request(&[]), &RecordedDeltas::default())
            .await
            .unwrap_err();
        assert_eq!(error.retry, retry, "{error}");
        // A refusal costs nothing, also as the first event of a stream.
        assert_eq!(error.usage, Usage::default(), "{error}");
        assert!(error.message.contains(words), "{error}");
        assert!(!error.message.contains(KEY), "{error}");
    }
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
        model
            .call(request(&[]), &RecordedDeltas::default())
            .await
            .unwrap();
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

#[test]
fn a_key_that_no_header_can_hold_is_refused_by_the_name_of_its_provider() {
    let unusable = Provider {
        key: Some(sortie_api::Credential::new("a\nb")),
        ..provider("http://127.0.0.1:9/v1")
    };
    let refused = client(&unusable, entry("theirs", &[])).err().unwrap().to_string();
    assert!(refused.contains("\"here\""), "{refused}");
}

#[test]
fn foreign_reasoning_in_the_conversation_is_an_error() {
    let raw = RawValue::from_string("[1]".to_owned()).unwrap();
    let transcript = [Turn::Assistant(vec![Content::Opaque(raw)])];
    let entry = entry("theirs", &[]);
    let refused = Body::new(&entry, all(Form::Compatible), &request(&transcript));
    assert_eq!(refused.err().unwrap().retry, Retry::Never);
}

#[tokio::test]
async fn an_answer_that_goes_on_beyond_the_length_asked_for_is_cut() {
    let server = Server::start([Says::endless(&stream([text(&"na ".repeat(100))]))]).await;
    let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
    let heard = RecordedDeltas::default();
    let asked = request(&[]);
    let reply = model.call(asked, &heard).await.unwrap();
    assert_eq!(reply.stop_reason, StopReason::MaxTokens);
    let bytes = heard.pieces().iter().map(String::len).sum::<usize>() as u64;
    let most = 4 * asked.max_tokens + (4 * asked.max_tokens).max(64 << 10);
    assert!((most..most + 1_000).contains(&bytes), "{bytes} of {most}");
    assert_eq!(reply.usage.output_tokens, bytes.div_ceil(4));
}

#[tokio::test]
async fn usage_and_the_last_mark_end_an_answer_that_gives_no_reason() {
    let call = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"shell","arguments":"{}"}}]}}]}"#;
    for (piece, reason) in [
        (text("Hello."), StopReason::EndTurn),
        (call.to_owned(), StopReason::ToolUse),
    ] {
        let server = Server::start([
            Says::events(&stream([&*piece, USAGE, "[DONE]"])),
            Says::events(&stream([&*piece, "[DONE]"])),
            Says::events(&stream([&*piece, USAGE])),
        ])
        .await;
        let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
        let reply = model
            .call(request(&[]), &RecordedDeltas::default())
            .await
            .unwrap();
        assert_eq!((reply.content.len(), reply.stop_reason), (1, reason));
        // Charged once, as the model has counted.
        assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (10, 5));
        assert_eq!(server.requests(), 1);
        // Without its usage, or without the mark, something may be missing.
        for _ in 0..2 {
            let error = model
                .call(request(&[]), &RecordedDeltas::default())
                .await
                .unwrap_err();
            assert_eq!(error.retry, Retry::Soon { after: None });
        }
    }
}

#[tokio::test]
async fn a_filter_of_the_provider_refuses_as_a_model_does() {
    let azure = r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400}}"#;
    let server = Server::start([
        Says::whole("400 E", "", azure),
        Says::events(&stream([
            r#"{"error":{"message":"stopped","code":"content_filter"}}"#,
        ])),
        Says::whole(
            "400 E",
            "",
            r#"{"error":{"message":"no such field","param":"prompt"}}"#,
        ),
    ])
    .await;
    let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
    for words in ["content management policy", "stopped"] {
        let reply = model
            .call(request(&[]), &RecordedDeltas::default())
            .await
            .unwrap();
        assert_eq!(reply.stop_reason, StopReason::Refusal);
        assert!(short(&reply)[0].contains(words));
        assert_eq!(reply.usage, Usage::default());
    }
    let other = model.call(request(&[]), &RecordedDeltas::default()).await;
    assert_eq!(other.unwrap_err().retry, Retry::Never);
}
