use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json, value::RawValue};
use sortie_agent::{
    ToolContent,
    model::{Content, Retry, StopReason, Task, ToolCall, ToolResult, Turn, Usage},
};
use sortie_net::install_crypto;

use super::*;
use crate::openai::testing::{KEY, Said, Server, Streamed, call, entry, provider, request};

const END_TURN: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}"#;

fn text(piece: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": null}]}).to_string()
}

fn delta(delta: &Value) -> String {
    json!({"choices": [{"index": 0, "delta": delta}]}).to_string()
}

fn calls(calls: &Value) -> String {
    delta(&json!({ "tool_calls": calls }))
}

fn finish(reason: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

async fn chat(server: &Server) -> Arc<dyn Model> {
    client(&server.provider(), entry(&["tools"])).unwrap()
}

/// The content of a reply, short: texts as they are, calls as `name(arguments)#id`.
fn short(reply: &Reply) -> Vec<String> {
    let piece = |piece: &Content| match piece {
        Content::Text(text) => text.clone(),
        Content::ToolCall(call) => format!("{}({})#{}", call.name, call.arguments, call.id),
        Content::Opaque(raw) => raw.get().to_owned(),
    };
    reply.content.iter().map(piece).collect()
}

fn body_of(dialect: Dialect, capabilities: &[&str], request: &Request<'_>) -> Value {
    serde_json::to_value(Body::new(&entry(capabilities), dialect, request).unwrap()).unwrap()
}

fn tool_call(id: &str, arguments: &str) -> Content {
    Content::ToolCall(ToolCall {
        id: id.to_owned(),
        name: "shell".to_owned(),
        arguments: arguments.to_owned(),
    })
}

#[tokio::test]
async fn a_first_call_sends_what_the_protocol_asks_for_and_nothing_else() {
    let server = Server::start().await;
    call(&server, &*chat(&server).await, Said::events([END_TURN, "[DONE]"]))
        .await
        .unwrap();
    let asked = &server.asked()[0];
    assert_eq!(asked.path, "/v1/chat/completions");
    assert_eq!(asked.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(asked.headers["content-type"], "application/json");
    assert_eq!(
        asked.body,
        json!({
            "model": "theirs",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "List the files."},
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
    let body = body_of(Dialect::Openai, &["tools"], &request(&[]));
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
fn the_conversation_goes_along_in_its_order() {
    let transcript = [
        Turn::Assistant(vec![
            Content::Text("I ".to_owned()),
            Content::Text("look.".to_owned()),
            tool_call("a", r#"{"command":"ls"}"#),
            tool_call("b", r#"{"command":"#),
        ]),
        Turn::ToolResults(vec![
            ToolResult {
                id: "a".to_owned(),
                name: "shell".to_owned(),
                content: ToolContent::Text("x.txt".to_owned()),
                is_error: false,
            },
            ToolResult {
                id: "b".to_owned(),
                name: "shell".to_owned(),
                content: ToolContent::Text("bad arguments".to_owned()),
                is_error: true,
            },
        ]),
        Turn::Assistant(vec![tool_call("c", " ")]),
        Turn::Assistant(vec![]),
        Turn::User("Again.".to_owned()),
    ];
    let body = body_of(Dialect::Compatible, &["tools"], &request(&transcript));
    let call = |id: &str, arguments: &str| json!({"type": "function", "id": id, "function": {"name": "shell", "arguments": arguments}});
    assert_eq!(
        body["messages"].as_array().unwrap()[2..],
        [
            json!({"role": "assistant", "content": "I look.", "tool_calls": [
                call("a", r#"{"command":"ls"}"#),
                call("b", r#"{"malformed":"{\"command\":"}"#),
            ]}),
            json!({"role": "tool", "tool_call_id": "a", "content": "x.txt"}),
            json!({"role": "tool", "tool_call_id": "b", "content": "bad arguments"}),
            json!({"role": "assistant", "content": null, "tool_calls": [call("c", "{}")]}),
            json!({"role": "assistant", "content": ""}),
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
    assert_eq!(format(Dialect::Openai, able, object, 1), Some(expected.clone()));
    assert_eq!(format(Dialect::Compatible, able, object, 0), Some(expected));
    assert_eq!(format(Dialect::Compatible, able, object, 1), None);
    assert_eq!(format(Dialect::Openai, &["tools"], object, 1), None);
    assert_eq!(format(Dialect::Openai, able, r#"{"type":"array"}"#, 1), None);
    assert_eq!(format(Dialect::Openai, able, "true", 1), None);
}

#[tokio::test]
async fn text_streams_and_the_last_chunk_counts_the_tokens() {
    let server = Server::start().await;
    server.says(Said::events([
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}"#,
        &text("Hel"),
        &text("lö\n"),
        END_TURN,
        r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,
            "prompt_tokens_details":{"cached_tokens":64,"audio_tokens":0},
            "completion_tokens_details":{"reasoning_tokens":12}}}"#,
        "[DONE]",
    ].map(|event| event.replace('\n', " "))));
    let streamed = Streamed::default();
    let reply = chat(&server).await.call(request(&[]), &streamed).await.unwrap();
    assert_eq!(streamed.pieces(), ["Hel", "lö\n"]);
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
async fn calls_are_put_together_from_what_each_server_makes_of_them() {
    let server = Server::start().await;
    let model = chat(&server).await;
    let f = |name: &str, arguments: &str| json!({"name": name, "arguments": arguments});
    let cases: Vec<(&str, Vec<Value>, Vec<&str>)> = vec![
        (
            "in pieces",
            vec![
                json!([{"index": 0, "id": "a", "type": "function", "function": f("shell", "")}]),
                json!([{"index": 0, "function": {"arguments": "{\"n\""}}]),
                json!([{"index": 0, "function": {"arguments": ":1}"}}]),
                json!([{"index": 1, "id": "b", "function": f("read", "")}, {"index": 1, "function": {"arguments": "{}"}}]),
            ],
            vec![r#"shell({"n":1})#a"#, "read({})#b"],
        ),
        (
            "whole, all with index 0",
            vec![
                json!([{"index": 0, "id": "a", "function": f("shell", "{}")}]),
                json!([{"index": 0, "id": "b", "function": f("shell", "{}")}]),
            ],
            vec!["shell({})#a", "shell({})#b"],
        ),
        (
            "whole, without index or id",
            vec![json!([{"function": f("shell", "{}")}, {"function": f("shell", "{}")}])],
            vec!["shell({})#call_0_0", "shell({})#call_0_1"],
        ),
        (
            "in pieces, without index",
            vec![
                json!([{"id": "a", "function": f("shell", "{")}]),
                json!([{"function": {"arguments": "}"}}]),
            ],
            vec!["shell({})#a"],
        ),
        (
            "the same id for all",
            vec![
                json!([{"index": 0, "id": "x", "function": f("shell", "{}")}]),
                json!([{"index": 1, "id": "x", "function": f("shell", "{}")}]),
            ],
            vec!["shell({})#x", "shell({})#call_0_1"],
        ),
        (
            "another id for each piece",
            vec![
                json!([{"index": 0, "id": "a", "function": f("shell", "")}]),
                json!([{"index": 0, "id": "b", "function": {"arguments": "{}"}}]),
            ],
            vec!["shell({})#a"],
        ),
        (
            "the name with each piece",
            vec![
                json!([{"index": 0, "id": "a", "function": f("shell", "{\"n\"")}]),
                json!([{"index": 0, "id": "a", "function": f("shell", ":1}")}]),
                json!([{"index": 0, "id": "a", "function": f("shell", "")}]),
            ],
            vec![r#"shell({"n":1})#a"#],
        ),
        (
            "an object, null fields, odd white space and an empty call",
            vec![
                json!([{"index": 0, "id": "a", "function": {"name": "shell", "arguments": {"n": 1}}}]),
                json!([{"index": 1, "id": null, "function": {"name": "read", "arguments": "{ \n}"}}]),
                json!([{"index": 2, "id": "", "function": {"name": null, "arguments": null}}]),
                json!([{"index": 3, "function": null}]),
            ],
            vec![r#"shell({"n":1})#a"#, "read({ \n})#call_0_1"],
        ),
    ];
    for (case, pieces, expected) in cases {
        let events = pieces
            .iter()
            .map(calls)
            .chain([finish("tool_calls"), "[DONE]".to_owned()]);
        let reply = call(&server, &*model, Said::events(events)).await.unwrap();
        assert_eq!(short(&reply), expected, "{case}");
        assert_eq!(reply.stop_reason, StopReason::ToolUse, "{case}");
    }
}

#[tokio::test]
async fn a_call_without_a_name_and_too_many_calls_are_no_reply() {
    let server = Server::start().await;
    let model = chat(&server).await;
    let nameless = calls(&json!([{"index": 0, "id": "a", "function": {"arguments": "{}"}}]));
    let error = call(&server, &*model, Said::events([nameless, finish("stop")]))
        .await
        .unwrap_err();
    assert_eq!(error.retry, Retry::Soon { after: None });
    let many = (0..=openai::CALLS)
        .map(|n| calls(&json!([{"index": n, "function": {"name": "x", "arguments": ""}}])));
    let error = call(&server, &*model, Said::events(many)).await.unwrap_err();
    assert_eq!(
        (error.retry, &*error.message),
        (Retry::Never, "the model made more than 1024 calls at once")
    );
}

#[tokio::test]
async fn the_reason_of_the_end_is_read_in_every_dialect() {
    let server = Server::start().await;
    let model = chat(&server).await;
    let a_call =
        calls(&json!([{"index": 0, "id": "a", "function": {"name": "shell", "arguments": "{\"com"}}]));
    for (reason, with_call, expected) in [
        ("stop", false, StopReason::EndTurn),
        ("stop", true, StopReason::ToolUse),
        ("eos", false, StopReason::EndTurn),
        ("tool_calls", true, StopReason::ToolUse),
        ("tool_calls", false, StopReason::EndTurn),
        ("function_call", true, StopReason::ToolUse),
        ("length", false, StopReason::MaxTokens),
        ("length", true, StopReason::MaxTokens),
        ("content_filter", false, StopReason::Refusal),
    ] {
        let events = with_call
            .then(|| a_call.clone())
            .into_iter()
            .chain([text("x"), finish(reason)]);
        let reply = call(&server, &*model, Said::events(events)).await.unwrap();
        assert_eq!(reply.stop_reason, expected, "{reason}");
    }
    let refusal = delta(&json!({"content": null, "refusal": "I will not."}));
    let reply = call(&server, &*model, Said::events([refusal, finish("stop")]))
        .await
        .unwrap();
    assert_eq!(
        (short(&reply), reply.stop_reason),
        (vec!["I will not.".to_owned()], StopReason::Refusal)
    );
    for reason in ["error", "abort"] {
        let error = call(&server, &*model, Said::events([text("x"), finish(reason)]))
            .await
            .unwrap_err();
        assert_eq!(error.retry, Retry::Soon { after: None }, "{reason}");
    }
}

#[tokio::test]
async fn usage_is_taken_from_where_servers_put_it() {
    let server = Server::start().await;
    let model = chat(&server).await;
    let within = r#"{"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":9,"completion_tokens":4}}]}"#;
    let growing = |tokens: u64| {
        json!({"choices": [{"delta": {"content": "x"}}], "usage": {"prompt_tokens": 9, "completion_tokens": tokens}})
            .to_string()
    };
    let cached =
        r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_cache_hit_tokens":6}}"#;
    let reasoned = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":50}}"#;
    for (events, expected) in [
        (vec![within.to_owned()], [9, 4, 0]),
        (
            vec![growing(1), growing(2), finish("stop"), growing(4)],
            [9, 4, 0],
        ),
        (vec![finish("stop"), cached.to_owned()], [3, 4, 6]),
        (vec![finish("stop"), reasoned.to_owned()], [9, 41, 0]),
    ] {
        let usage = call(&server, &*model, Said::events(&events)).await.unwrap().usage;
        let figures = [usage.input_tokens, usage.output_tokens, usage.cache_read_tokens];
        assert_eq!(figures, expected, "{events:?}");
    }
}

#[tokio::test]
async fn a_server_that_counts_nothing_is_charged_by_the_bytes() {
    let server = Server::start().await;
    let reply = call(
        &server,
        &*chat(&server).await,
        Said::events([text("12345678").as_str(), END_TURN, "[DONE]"]),
    )
    .await
    .unwrap();
    let sent = server.asked()[0].body.to_string().len() as u64;
    assert_eq!(reply.usage.input_tokens, sent.div_ceil(4));
    assert_eq!(reply.usage.output_tokens, 2);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_tried_again_and_costs_what_has_come() {
    let server = Server::start().await;
    let model = chat(&server).await;
    let broken = |events: &[&str]| Said {
        breaks: true,
        ..Said::events(events)
    };
    let piece = text("12345678");
    for said in [
        Said::events([&piece]),
        Said::events([&piece, "[DONE]"]),
        broken(&[&piece]),
        Said::events([&piece, r#"{"choices":[{"del"#]),
    ] {
        let error = call(&server, &*model, said).await.unwrap_err();
        assert_eq!(error.retry, Retry::Soon { after: None }, "{error}");
        assert_eq!(error.usage.output_tokens, 2, "{error}");
        assert!(error.usage.input_tokens > 50, "{error}");
    }
    let error = call(&server, &*model, broken(&[])).await.unwrap_err();
    assert_eq!(
        (error.retry, error.usage),
        (Retry::Soon { after: None }, Usage::default())
    );
    for said in [
        Said::events([&piece, END_TURN]),
        broken(&[&piece, END_TURN]),
        broken(&[&piece, END_TURN, USAGE]),
    ] {
        assert_eq!(short(&call(&server, &*model, said).await.unwrap()), ["12345678"]);
    }
}

#[tokio::test]
async fn an_event_that_is_too_large_ends_the_call() {
    let server = Server::start().await;
    let said = Said::events([text(&"x".repeat(17 << 20))]);
    let error = call(&server, &*chat(&server).await, said).await.unwrap_err();
    assert_eq!(error.retry, Retry::Never);
    assert!(error.message.contains("larger than"), "{error}");
}

#[tokio::test]
async fn a_failure_inside_of_the_stream_is_judged_like_one_instead_of_it() {
    let server = Server::start().await;
    let model = chat(&server).await;
    let soon = Retry::Soon { after: None };
    for (error, retry, words) in [
        (
            r#"{"message":"busy","code":502,"metadata":{}}"#,
            soon,
            "answered 502: busy",
        ),
        (
            r#"{"message":"no","type":"BadRequestError","code":400}"#,
            Retry::Never,
            "answered 400: no (400)",
        ),
        (
            r#"{"message":"slow down","code":"rate_limit_exceeded"}"#,
            soon,
            "answered 429: slow down",
        ),
        (
            r#"{"message":"the request exceeds the available context size","code":400}"#,
            Retry::Smaller,
            "400",
        ),
        (
            r#"{"message":"too long","code":"context_length_exceeded"}"#,
            Retry::Smaller,
            "400",
        ),
        (
            r#"{"message":"pay","type":"insufficient_quota","code":null}"#,
            Retry::Never,
            "answered 402: pay",
        ),
        (
            r#"{"message":"?","type":"invalid_request_error"}"#,
            Retry::Never,
            "400",
        ),
        (
            r#"{"type":"server_error"}"#,
            soon,
            "answered 500: no reason given",
        ),
        (
            r#""out of memory, said sk-hush""#,
            soon,
            "answered 500: out of memory, said [redacted]",
        ),
        ("7", soon, "500"),
    ] {
        let chunk = format!(r#"{{"error":{error},"choices":[{{"delta":{{}},"finish_reason":"error"}}]}}"#);
        let failed = call(&server, &*model, Said::events([text("12345678"), chunk]))
            .await
            .unwrap_err();
        assert_eq!(failed.retry, retry, "{error}");
        assert!(failed.message.contains(words), "{error}: {failed}");
        assert_eq!(failed.usage.output_tokens, 2, "{error}");
    }
}

#[tokio::test]
async fn a_refused_request_says_whether_it_may_be_tried_again() {
    let server = Server::start().await;
    let model = chat(&server).await;
    let limited = Said {
        headers: vec![("retry-after", "7")],
        ..Said::failure(429, r#"{"error":{"message":"slow down"}}"#)
    };
    let after = Some(Duration::from_secs(7));
    let too_long = "This model's maximum context length is 8192 tokens.";
    for (said, retry, words) in [
        (limited, Retry::Soon { after }, "answered 429: slow down"),
        (
            Said::failure(503, "down"),
            Retry::Soon { after: None },
            "answered 503: down",
        ),
        (
            Said::failure(
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens."}}"#,
            ),
            Retry::Smaller,
            too_long,
        ),
        (
            Said::failure(401, r#"{"error":{"message":"Incorrect API key: sk-hush"}}"#),
            Retry::Never,
            "key: [redacted]",
        ),
        (
            Said::failure(400, r#"{"error":"bad"}"#),
            Retry::Never,
            "answered 400: bad",
        ),
    ] {
        let error = call(&server, &*model, said).await.unwrap_err();
        assert_eq!((error.retry, error.usage), (retry, Usage::default()), "{error}");
        assert!(error.message.contains(words), "{error}");
    }
}

#[tokio::test]
async fn reasoning_that_its_server_wants_back_goes_back_and_other_does_not() {
    let server = Server::start().await;
    let model = chat(&server).await;
    let detail =
        |detail: Value| delta(&json!({"content": "", "reasoning": "x", "reasoning_details": [detail]}));
    let details = vec![
        detail(json!({"type": "reasoning.text", "text": "I ", "index": 0, "signature": null, "format": "f"})),
        detail(json!({"type": "reasoning.text", "text": "think\n", "index": 0, "signature": null})),
        detail(json!({"type": "reasoning.text", "text": null, "index": 0, "signature": "s"})),
        detail(json!({"type": "reasoning.encrypted", "data": "e", "index": 1})),
        detail(json!({"type": "reasoning.encrypted", "data": "f", "index": 1})),
    ];
    let whole = json!({"reasoning_details": [
        {"type": "reasoning.text", "text": "I think\n", "index": 0, "signature": "s", "format": "f"},
        {"type": "reasoning.encrypted", "data": "e", "index": 1},
        {"type": "reasoning.encrypted", "data": "f", "index": 1},
    ]});
    let content = ["I ", "think\n"].map(|piece| delta(&json!({"content": null, "reasoning_content": piece})));
    let bare = vec![delta(&json!({"reasoning": "I think"}))];
    for (pieces, expected) in [
        (details, Some(whole)),
        (content.to_vec(), Some(json!({"reasoning_content": "I think\n"}))),
        (bare, None),
    ] {
        let events = pieces.into_iter().chain([text("So."), finish("stop")]);
        let reply = call(&server, &*model, Said::events(events)).await.unwrap();
        let kept = reply.content.iter().find_map(|piece| match piece {
            Content::Opaque(raw) => Some(serde_json::from_str::<Value>(raw.get()).unwrap()),
            Content::Text(_) | Content::ToolCall(_) => None,
        });
        assert_eq!(kept, expected);
        assert!(
            reply.usage.output_tokens > 2,
            "reasoning is counted: {:?}",
            reply.usage
        );
        let transcript = [Turn::Assistant(reply.content)];
        let mut message = json!({"role": "assistant", "content": "So."});
        message.as_object_mut().unwrap().extend(
            expected
                .into_iter()
                .flat_map(|kept| kept.as_object().unwrap().clone()),
        );
        assert_eq!(
            body_of(Dialect::Compatible, &[], &request(&transcript))["messages"][2],
            message
        );
    }
}

#[tokio::test]
async fn calls_one_after_the_other_use_one_connection() {
    let server = Server::start().await;
    let model = chat(&server).await;
    for _ in 0..5 {
        call(
            &server,
            &*model,
            Said::events([&text("x"), END_TURN, USAGE, "[DONE]"]),
        )
        .await
        .unwrap();
    }
    let from: std::collections::HashSet<_> = server.asked().iter().map(|asked| asked.from).collect();
    assert_eq!(from.len(), 1);
}

#[test]
fn a_key_that_no_header_can_hold_is_refused_by_the_name_of_its_provider() {
    let unusable = Provider {
        key: Some(sortie_api::Credential::new("a\nb")),
        ..provider("http://127.0.0.1:9/v1")
    };
    let refused = client(&unusable, entry(&[])).err().unwrap().to_string();
    assert_eq!(
        refused,
        "the provider `here`: its key has characters that no header can hold"
    );
}

#[test]
fn any_split_of_the_bytes_gives_the_same_reply() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (server, model) = runtime.block_on(async {
        let server = Server::start().await;
        let model = chat(&server).await;
        (server, model)
    });
    let whole = Said::events([
        text("Grüße, "),
        text("\"Welt\" 🌍"),
        calls(&json!([{"index": 0, "id": "a", "function": {"name": "shell", "arguments": "{\"c\":\"é"}}])),
        calls(&json!([{"index": 0, "function": {"arguments": "\"}"}}])),
        finish("tool_calls"),
        USAGE.to_owned(),
        "[DONE]".to_owned(),
    ]);
    let expected = ["Grüße, \"Welt\" 🌍", r#"shell({"c":"é"})#a"#];
    proptest!(ProptestConfig::with_cases(64), |(cuts in prop::collection::vec(any::<usize>(), 0..20))| {
        let reply = runtime.block_on(call(&server, &*model, whole.clone().cut_at(&cuts))).unwrap();
        prop_assert_eq!(short(&reply), expected);
        prop_assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (10, 5));
    });
}

/// What could stand in a chunk.
fn chunk() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec!["", "a", "stop", "length", "shell", "{}", "{\"", "text"])
            .prop_map(Value::from),
    ];
    let names = vec![
        "choices",
        "delta",
        "content",
        "tool_calls",
        "index",
        "id",
        "function",
        "name",
        "arguments",
        "finish_reason",
        "usage",
        "prompt_tokens",
        "total_tokens",
        "error",
        "code",
        "message",
        "type",
        "text",
        "reasoning_details",
        "signature",
        "refusal",
    ];
    let value = leaf.prop_recursive(7, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(names.clone()), inner), 0..5).prop_map(|fields| {
                fields
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect()
            }),
        ]
    });
    value.prop_flat_map(|value| {
        let text = value.to_string();
        let wrapped = format!(r#"{{"choices":[{{"delta":{text}}}],"usage":{text}}}"#);
        let calls =
            format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{text}],"reasoning_details":[{text}]}}}}]}}"#);
        prop::sample::select(vec![text, wrapped, calls])
    })
}

proptest! {
    #[test]
    fn no_chunks_make_it_panic_and_every_reply_goes_back_as_a_conversation(chunks in prop::collection::vec(chunk(), 0..6)) {
        install_crypto();
        let transport = openai::transport(&provider("http://127.0.0.1:9/v1"), &[]).unwrap();
        let mut answer = Answer::default();
        for chunk in chunks {
            if answer.take(&transport, &chunk, &Streamed::default()).is_err() {
                break;
            }
        }
        let usage = answer.usage(&"");
        if let Ok(reply) = answer.into_reply(usage, 0) {
            let transcript = [Turn::Assistant(reply.content)];
            let body = body_of(Dialect::Compatible, &[], &request(&transcript));
            prop_assert_eq!(&body["messages"][2]["role"], "assistant");
        }
    }
}

#[test]
fn foreign_reasoning_in_the_conversation_is_an_error() {
    let raw = RawValue::from_string("[1]".to_owned()).unwrap();
    let transcript = [Turn::Assistant(vec![Content::Opaque(raw)])];
    let error = Body::new(&entry(&[]), Dialect::Compatible, &request(&transcript))
        .err()
        .unwrap();
    assert_eq!(error.retry, Retry::Never);
}
