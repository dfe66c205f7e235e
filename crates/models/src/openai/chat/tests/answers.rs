//! Answers in every known dialect of the protocol.

use http::StatusCode;
use proptest::prelude::*;
use serde_json::{Value, json};
use sortie_agent::model::{Content, Reply, StopReason, Turn, Usage};
use sortie_testkit::rows;

use super::{
    super::{
        reply::Answer,
        request::{Body, Form},
    },
    END_TURN, USAGE, all, body_of, text,
};
use crate::{
    answer::Failure,
    openai::testing::{request, short, stream},
    test_server::{decode, entry},
};

fn delta(delta: &Value) -> String {
    json!({"choices": [{"index": 0, "delta": delta}]}).to_string()
}

pub(super) fn calls(calls: &Value) -> String {
    delta(&json!({ "tool_calls": calls }))
}

pub(super) fn finish(reason: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

/// Reads these events.
pub(super) fn read<S: AsRef<str>>(events: impl IntoIterator<Item = S>) -> Result<Reply, (Failure, Usage)> {
    let entry = entry("theirs", &["tools"]);
    let body = Body::new(&entry, all(Form::Compatible), &request(&[])).unwrap();
    decode(Answer::new(&body, 0), stream(events).as_bytes(), &[])
}

/// Chunks of each dialect, and the calls in them.
fn dialects() -> Vec<(&'static str, Vec<Value>, Vec<&'static str>)> {
    let f = |name: &str, arguments: &str| json!({"name": name, "arguments": arguments});
    let more = |arguments: &str| json!({ "arguments": arguments });
    let at = |index: u8, function: Value| json!({"index": index, "function": function});
    let named =
        |index: u8, id: &str, function: Value| json!({"index": index, "id": id, "function": function});
    vec![
        (
            "in pieces",
            vec![
                json!([named(0, "a", f("shell", ""))]),
                json!([at(0, more("{\"n\""))]),
                json!([at(0, more(":1}"))]),
                json!([named(1, "b", f("read", "")), at(1, more("{}"))]),
            ],
            vec![r#"shell({"n":1})#a"#, "read({})#b"],
        ),
        (
            "whole, all with index 0",
            vec![
                json!([named(0, "a", f("shell", "{}"))]),
                json!([named(0, "b", f("shell", "{}"))]),
            ],
            vec!["shell({})#a", "shell({})#b"],
        ),
        (
            "whole, without index or id",
            vec![json!([{"function": f("shell", "{}")}, {"function": f("shell", "{}")}])],
            vec!["shell({})#c00000000", "shell({})#c00000001"],
        ),
        (
            "in pieces, without index",
            vec![
                json!([{"id": "a", "function": f("shell", "{")}]),
                json!([{"function": more("}")}]),
            ],
            vec!["shell({})#a"],
        ),
        (
            "the same id for all",
            vec![
                json!([named(0, "x", f("shell", "{}"))]),
                json!([named(1, "x", f("shell", "{}"))]),
            ],
            vec!["shell({})#x", "shell({})#c00000001"],
        ),
        (
            "another id for each piece",
            vec![
                json!([named(0, "a", f("shell", ""))]),
                json!([named(0, "b", more("{}"))]),
            ],
            vec!["shell({})#a"],
        ),
        (
            "the name with each piece",
            vec![
                json!([named(0, "a", f("shell", "{\"n\""))]),
                json!([named(0, "a", f("shell", ":1}"))]),
                json!([named(0, "a", f("shell", ""))]),
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
            vec![r#"shell({"n":1})#a"#, "read({ \n})#c00000001"],
        ),
    ]
}

#[test]
fn calls_are_put_together_from_what_each_server_makes_of_them() {
    for (dialect, pieces, expected) in dialects() {
        let events = pieces.iter().map(calls).chain([finish("tool_calls")]);
        let reply = read(events).unwrap();
        assert_eq!(short(&reply), expected, "{dialect}");
        assert_eq!(reply.stop_reason, StopReason::ToolUse, "{dialect}");
    }
}

#[test]
fn a_call_without_a_name_and_too_many_calls_are_no_reply() {
    let nameless = calls(&json!([{"index": 0, "id": "a", "function": {"arguments": "{}"}}]));
    let (failure, _) = read([nameless, finish("stop")]).unwrap_err();
    assert_eq!(
        failure,
        Failure::Garbled("the model called a tool without a name".to_owned())
    );
    let many = (0..=crate::answer::CALLS)
        .map(|n| calls(&json!([{"index": n, "function": {"name": "x", "arguments": ""}}])));
    let (failure, usage) = read(many).unwrap_err();
    assert_eq!(
        failure,
        Failure::Garbled("the model made more than 1024 calls at once".to_owned())
    );
    assert_eq!(usage.output_tokens, 256);
}

#[test]
fn the_reason_of_the_end_is_read_in_every_dialect() {
    let a_call =
        calls(&json!([{"index": 0, "id": "a", "function": {"name": "shell", "arguments": "{\"com"}}]));
    for (reason, with_call, expected) in [
        ("stop", false, StopReason::EndTurn),
        ("stop", true, StopReason::ToolUse),
        ("eos", false, StopReason::EndTurn),
        ("tool_calls", true, StopReason::ToolUse),
        // The agent repeats the request if a call did not arrive.
        ("tool_calls", false, StopReason::ToolUse),
        ("function_call", true, StopReason::ToolUse),
        ("function_call", false, StopReason::ToolUse),
        ("length", false, StopReason::MaxTokens),
        ("length", true, StopReason::MaxTokens),
        ("content_filter", false, StopReason::Refusal),
    ] {
        let a_call = with_call.then(|| a_call.clone());
        let reply = read(a_call.into_iter().chain([text("x"), finish(reason)])).unwrap();
        assert_eq!(reply.stop_reason, expected, "{reason}");
    }
    let refusal = delta(&json!({"content": null, "refusal": "I will not."}));
    let reply = read([refusal, finish("stop")]).unwrap();
    assert_eq!(
        (short(&reply), reply.stop_reason),
        (vec!["I will not.".to_owned()], StopReason::Refusal)
    );
    for reason in ["error", "abort"] {
        let (failure, _) = read([text("x"), finish(reason)]).unwrap_err();
        let said = format!("the answer was broken off: {reason}");
        assert_eq!(
            failure,
            Failure::Reported(StatusCode::INTERNAL_SERVER_ERROR, said)
        );
    }
}

#[test]
fn usage_is_taken_from_where_servers_put_it() {
    let within = r#"{"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":9,"completion_tokens":4}}]}"#;
    let growing = |tokens: u64| {
        let usage = json!({"prompt_tokens": 9, "completion_tokens": tokens});
        json!({"choices": [{"delta": {"content": "x"}}], "usage": usage}).to_string()
    };
    let cached =
        r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_cache_hit_tokens":6}}"#;
    let reasoned = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":50}}"#;
    for (events, expected) in rows! {
        vec![within.to_owned()], [9, 4, 0];
        vec![growing(1), growing(2), finish("stop"), growing(4)], [9, 4, 0];
        vec![finish("stop"), cached.to_owned()], [3, 4, 6];
        vec![finish("stop"), reasoned.to_owned()], [9, 41, 0];
    } {
        let usage = read(&events).unwrap().usage;
        let figures = [usage.input_tokens, usage.output_tokens, usage.cache_read_tokens];
        assert_eq!(figures, expected, "{events:?}");
    }
}

#[test]
fn a_server_that_counts_nothing_is_charged_by_the_bytes() {
    let usage = read([&text("12345678"), END_TURN, "[DONE]"]).unwrap().usage;
    let entry = entry("theirs", &["tools"]);
    let sent = Body::new(&entry, all(Form::Compatible), &request(&[])).unwrap();
    let sent = serde_json::to_string(&sent).unwrap();
    assert_eq!(usage.input_tokens, (sent.len() as u64).div_ceil(4));
    assert_eq!(usage.output_tokens, 2);
}

#[test]
fn an_answer_that_breaks_off_is_none_and_costs_what_has_come() {
    let piece = text("12345678");
    for events in [vec![&*piece], vec![&piece, "[DONE]"]] {
        let (failure, usage) = read(events).unwrap_err();
        assert_eq!((failure, usage.output_tokens), (Failure::CutOff, 2));
        assert!(usage.input_tokens > 50, "{usage:?}");
    }
    let (failure, usage) = read([&*piece, r#"{"choices":[{"del"#]).unwrap_err();
    assert!(
        matches!((&failure, usage.output_tokens), (Failure::Unreadable(_), 2)),
        "{failure:?}"
    );
    assert_eq!(
        read([] as [&str; 0]).unwrap_err(),
        (Failure::CutOff, Usage::default())
    );
}

#[test]
fn a_failure_inside_of_the_stream_has_the_status_of_one_instead_of_it() {
    for (error, status, words) in rows! {
        r#"{"message":"busy","code":502,"metadata":{}}"#, 502, "busy (502)";
        r#"{"message":"no","type":"BadRequestError","code":null}"#, 400, "no";
        r#"{"message":"slow","code":"rate_limit_exceeded"}"#, 429, "slow (rate_limit_exceeded)";
        r#"{"message":"long","code":"context_length_exceeded"}"#, 400, "long (context_length_exceeded)";
        r#"{"message":"pay","type":"insufficient_quota","code":""}"#, 402, "pay";
        r#"{"message":"?","type":"invalid_request_error"}"#, 400, "?";
        r#"{"message":"?","code":7}"#, 500, "? (7)";
        r#"{"type":"server_error"}"#, 500, "no reason given";
        r#""out of memory""#, 500, "out of memory";
        "7", 500, "7";
    } {
        let chunk = format!(r#"{{"error":{error},"choices":[{{"delta":{{}},"finish_reason":"error"}}]}}"#);
        let (failure, usage) = read([text("12345678"), chunk]).unwrap_err();
        let status = StatusCode::from_u16(status).unwrap();
        assert_eq!(failure, Failure::Reported(status, words.to_owned()), "{error}");
        assert_eq!(usage.output_tokens, 2, "{error}");
    }
}

#[test]
fn reasoning_that_its_server_wants_back_goes_back_and_other_does_not() {
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
        let reply = read(pieces.into_iter().chain([text("So."), finish("stop")])).unwrap();
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
        let kept = expected
            .into_iter()
            .flat_map(|kept| kept.as_object().unwrap().clone());
        message.as_object_mut().unwrap().extend(kept);
        let body = body_of(Form::Compatible, &[], &request(&transcript));
        assert_eq!(body["messages"][2], message);
    }
}

/// Valid and invalid values of a chunk.
fn chunk() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "", "a", "stop", "length", "shell", "{}", "{\"", "text", "é\n"
        ])
        .prop_map(Value::from),
    ];
    let names = "choices delta content tool_calls index id function name arguments finish_reason usage \
                 prompt_tokens total_tokens error code message type text reasoning_details signature refusal";
    let names: Vec<&str> = names.split_whitespace().collect();
    let value = leaf.prop_recursive(7, 40, 5, move |inner| {
        let field = (prop::sample::select(names.clone()), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..3).prop_map(Value::from),
            prop::collection::vec(field, 0..5).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    });
    value.prop_flat_map(|value| {
        let text = value.to_string();
        let wrapped = format!(r#"{{"choices":[{{"delta":{text}}}],"usage":{text}}}"#);
        let calls =
            format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{text}],"reasoning_details":[{text}]}}}}]}}"#);
        prop::sample::select(vec![text, wrapped, calls, END_TURN.to_owned()])
    })
}

proptest! {
    #[test]
    fn any_split_of_the_bytes_gives_the_same_reply(cuts in prop::collection::vec(0_usize..900, 0..20)) {
        let events = stream([
            text("Grüße, "),
            text("\"Welt\" 🌍"),
            calls(&json!([{"index": 0, "id": "a", "function": {"name": "shell", "arguments": "{\"c\":\"é"}}])),
            calls(&json!([{"index": 0, "function": {"arguments": "\"}"}}])),
            finish("tool_calls"),
            USAGE.to_owned(),
            "[DONE]".to_owned(),
        ]);
        let entry = entry("theirs", &["tools"]);
        let body = Body::new(&entry, all(Form::Compatible), &request(&[])).unwrap();
        let reply = decode(Answer::new(&body, 0), events.as_bytes(), &cuts).unwrap();
        prop_assert_eq!(short(&reply), ["Grüße, \"Welt\" 🌍", r#"shell({"c":"é"})#a"#]);
        prop_assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (10, 5));
    }

    #[test]
    fn no_chunks_make_it_panic_and_every_reply_goes_back_as_a_conversation(
        chunks in prop::collection::vec(chunk(), 0..6)
    ) {
        if let Ok(reply) = read(chunks) {
            let is_empty = reply.content.iter().all(|piece| match piece {
                Content::Text(text) => text.trim().is_empty(),
                Content::ToolCall(_) => false,
                Content::Opaque(_) => true,
            });
            let transcript = [Turn::Assistant(reply.content), Turn::User("Go on.".to_owned())];
            let body = body_of(Form::Compatible, &[], &request(&transcript));
            let roles = body["messages"].as_array().unwrap().iter().map(|message| &message["role"]);
            let expected: &[_] = if is_empty {
                &["system", "user"]
            } else {
                &["system", "user", "assistant", "user"]
            };
            prop_assert_eq!(roles.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>()) {
        let entry = entry("theirs", &[]);
        let body = Body::new(&entry, all(Form::Compatible), &request(&[])).unwrap();
        let whole = [b"data: ", &bytes[..], b"\n\n"].concat();
        let _ = decode(Answer::new(&body, 0), &whole, &[]);
    }
}
