use http::StatusCode;
use proptest::prelude::*;
use serde_json::{Value, json};
use sortie_agent::{
    ToolContent,
    model::{Content, Retry, StopReason, Task, ToolResult, Turn, Usage},
};
use sortie_testkit::rows;

use super::*;
use crate::{
    answer::Failure,
    openai::testing::{request, short, stream, tool_call},
    test_server::{Answer as Says, KEY, RecordedDeltas, Server, ask, decode, entry},
};

mod extras;
mod pieces;

const THEIRS: Dialect = Dialect {
    is_own: false,
    summary: false,
    effort: true,
    tool_choice: true,
};

fn delta(piece: &str) -> String {
    json!({"type": "response.output_text.delta", "output_index": 0, "delta": piece}).to_string()
}

fn done(place: u64, item: &Value) -> String {
    json!({"type": "response.output_item.done", "output_index": place, "item": item}).to_string()
}

fn message(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn function_call(id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": id, "name": "shell", "arguments": arguments})
}

fn completed(response: &Value) -> String {
    json!({"type": "response.completed", "response": response}).to_string()
}

fn usage(input: u64, cached: u64, output: u64) -> Value {
    json!({"input_tokens": input, "input_tokens_details": {"cached_tokens": cached}, "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": 1}, "total_tokens": input + output})
}

fn body_of(capabilities: &[&str], request: &Request<'_>) -> Value {
    serde_json::to_value(Body::new(&entry("theirs", capabilities), THEIRS, request).unwrap()).unwrap()
}

/// Reads these events.
fn read<S: AsRef<str>>(events: impl IntoIterator<Item = S>) -> Result<Reply, (Failure, Usage)> {
    let entry = entry("theirs", &["tools"]);
    let body = Body::new(&entry, THEIRS, &request(&[])).unwrap();
    decode(Answer::new(&body, 0), stream(events).as_bytes(), &[])
}

#[tokio::test]
async fn a_first_call_sends_what_the_protocol_asks_for_and_nothing_else() {
    let events = [
        json!({"type": "response.created", "response": {"usage": null, "error": null, "output": []}})
            .to_string(),
        delta("Hel"),
        delta("lö"),
        done(0, &message("Hellö")),
        completed(&json!({"usage": usage(100, 64, 20), "error": null, "output": [message("Hellö")]})),
    ];
    let server = Server::start([Says::events(&stream(events))]).await;
    let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
    let heard = RecordedDeltas::default();
    let reply = model.call(request(&[]), &heard).await.unwrap();
    assert_eq!(heard.pieces(), ["Hel", "lö"]);
    assert_eq!(
        (short(&reply), reply.stop_reason),
        (vec!["Hellö".to_owned()], StopReason::EndTurn)
    );
    let usage = Usage {
        input_tokens: 36,
        output_tokens: 20,
        cache_read_tokens: 64,
        cache_write_tokens: 0,
    };
    assert_eq!(reply.usage, usage);
    let asked = server.head(0);
    assert!(asked.starts_with("post /responses http/1.1"), "{asked}");
    assert!(asked.contains(&format!("authorization: bearer {KEY}")), "{asked}");
    assert_eq!(
        server.body(0),
        json!({
            "model": "theirs",
            "instructions": "Be brief.",
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Say hello."}]}],
            "tools": [{
                "type": "function",
                "name": "shell",
                "description": "Runs a command.",
                "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
                "strict": false,
            }],
            "max_output_tokens": 77,
            "stream": true,
            "store": false,
        })
    );
}

#[test]
fn reasoning_is_asked_for_only_where_the_model_thinks() {
    let include = |capabilities: &[&str]| body_of(capabilities, &request(&[])).get("include").cloned();
    let expected = json!(["reasoning.encrypted_content"]);
    assert_eq!(include(&["tools", "thinking"]), Some(expected));
    assert_eq!(include(&["tools", "structured_output"]), None);
}

#[test]
fn an_output_schema_binds_the_answer_where_the_model_can() {
    let whole = request(&[]);
    let request = Request {
        task: Task {
            output_schema: Some(r#"{"type":"object"}"#),
            ..whole.task
        },
        ..whole
    };
    let expected = json!({"format": {
        "type": "json_schema", "name": "output", "schema": {"type": "object"}, "strict": false,
    }});
    assert_eq!(body_of(&["structured_output"], &request)["text"], expected);
    assert!(body_of(&[], &request).get("text").is_none());
}

#[test]
fn reasoning_and_phases_go_back_unchanged_in_their_places() {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"});
    let bare = json!({"type": "reasoning", "id": "rs_2", "summary": [], "content": [{"text": "x"}]});
    let mut commentary = message("I look.");
    commentary["phase"] = json!("commentary");
    // Items arrive in any order; their indexes determine the order.
    let reply = read([
        done(2, &function_call("call_1", r#"{"command":"ls"}"#)),
        done(0, &reasoning),
        done(1, &commentary),
        done(3, &bare),
        done(4, &function_call("call_2", r#"{"comm"#)),
        completed(&json!({"usage": usage(10, 0, 5)})),
    ])
    .unwrap();
    assert_eq!(reply.stop_reason, StopReason::ToolUse);
    let result = |id: &str, text: &str| ToolResult {
        id: id.to_owned(),
        name: "shell".to_owned(),
        content: ToolContent::Text(text.to_owned()),
        is_error: false,
        note: None,
    };
    let transcript = [
        Turn::Assistant(reply.content),
        Turn::ToolResults(vec![result("call_1", "x.txt"), result("call_2", "bad arguments")]),
        Turn::Assistant(vec![Content::Text("x".to_owned()), tool_call("c", "")]),
        Turn::User("Again.".to_owned()),
    ];
    let call = |id: &str, arguments: &str| json!({"type": "function_call", "call_id": id, "name": "shell", "arguments": arguments});
    let said = |text: &str| json!([{"type": "output_text", "text": text}]);
    assert_eq!(
        body_of(&[], &request(&transcript))["input"].as_array().unwrap()[1..],
        [
            reasoning,
            json!({"type": "message", "role": "assistant", "phase": "commentary", "content": said("I look.")}),
            call("call_1", r#"{"command":"ls"}"#),
            call("call_2", "{}"),
            json!({"type": "function_call_output", "call_id": "call_1", "output": "x.txt"}),
            json!({"type": "function_call_output", "call_id": "call_2", "output": "bad arguments"}),
            json!({"type": "message", "role": "assistant", "content": said("x")}),
            call("c", "{}"),
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Again."}]}),
        ]
    );
}

#[test]
fn reasoning_that_was_cut_off_before_its_item_does_not_go_back() {
    let reasoning =
        |id: &str| json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "gAAA"});
    let incomplete = |items: &[Value]| {
        let mut events: Vec<_> = (0..).zip(items).map(|(place, item)| done(place, item)).collect();
        let response = json!({"incomplete_details": {"reason": "max_output_tokens"}});
        events.push(json!({"type": "response.incomplete", "response": response}).to_string());
        Turn::Assistant(read(events).unwrap().content)
    };
    let transcript = [
        incomplete(&[reasoning("rs_1")]),
        Turn::User("Go on.".to_owned()),
        incomplete(&[
            reasoning("rs_2"),
            function_call("call_1", "{}"),
            reasoning("rs_3"),
        ]),
        Turn::User("Go on.".to_owned()),
    ];
    let body = body_of(&["tools", "thinking"], &request(&transcript));
    let kinds: Vec<_> = body["input"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["type"])
        .collect();
    assert_eq!(
        kinds,
        ["message", "message", "reasoning", "function_call", "message"]
    );
    assert_eq!(body["input"][2]["id"], "rs_2");
}

#[test]
fn the_end_tells_whether_the_answer_is_whole() {
    let incomplete = |reason: &str| {
        json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": reason}}})
            .to_string()
    };
    let refusal = json!({"type": "message", "content": [{"type": "refusal", "refusal": "I will not."}]});
    for (events, expected) in rows! {
        vec![done(0, &message("x")), completed(&json!({}))], StopReason::EndTurn;
        vec![done(0, &message("x")), incomplete("max_output_tokens")], StopReason::MaxTokens;
        vec![done(0, &message("x")), incomplete("content_filter")], StopReason::Refusal;
        vec![done(0, &refusal), completed(&json!({}))], StopReason::Refusal;
        vec![done(0, &function_call("a", "{}")), completed(&json!({}))], StopReason::ToolUse;
    } {
        assert_eq!(read(&events).unwrap().stop_reason, expected, "{events:?}");
    }
    // A server that sends its items only at the end.
    let late = completed(&json!({"output": [message("x"), function_call("", "{}")]}));
    assert_eq!(short(&read([late]).unwrap()), ["x", "shell({})#c00000000"]);
}

#[test]
fn an_answer_that_breaks_off_is_none_and_costs_what_has_come() {
    for events in [
        vec![delta("12345678")],
        vec![delta("12345678"), done(0, &message("12345678"))],
    ] {
        let (failure, usage) = read(events).unwrap_err();
        assert_eq!((failure, usage.output_tokens), (Failure::CutOff, 2));
        assert!(usage.input_tokens > 50, "{usage:?}");
    }
    assert_eq!(
        read([] as [&str; 0]).unwrap_err(),
        (Failure::CutOff, Usage::default())
    );
    let usage = read([done(0, &message("12345678")), completed(&json!({}))])
        .unwrap()
        .usage;
    assert_eq!(usage.output_tokens, 2);
    assert!(usage.input_tokens > 50, "{usage:?}");
}

#[test]
fn failures_come_in_three_forms() {
    let failed = |error: Value| {
        json!({"type": "response.failed", "response": {"error": error, "usage": usage(9, 0, 4)}}).to_string()
    };
    for (event, status, words, counted) in rows! {
        r#"{"type":"error","code":"rate_limit_exceeded","message":"slow","param":null}"#.to_owned(),
        429,
        "slow (rate_limit_exceeded)",
        false;
        r#"{"type":"error","error":{"type":"server_error","message":"down"}}"#.to_owned(), 500, "down", false;
        failed(
            json!({"code": "context_length_exceeded", "message": "Your input exceeds the context window"}),
        ),
        400,
        "Your input exceeds the context window (context_length_exceeded)",
        true;
        failed(json!({"code": "server_error", "message": "down"})), 500, "down (server_error)", true;
        failed(json!({"code": "invalid_prompt", "message": "no"})), 400, "no (invalid_prompt)", true;
        failed(Value::Null), 500, "no reason given", true;
    } {
        let (failure, usage) = read([&event]).unwrap_err();
        let status = StatusCode::from_u16(status).unwrap();
        assert_eq!(failure, Failure::Reported(status, words.to_owned()), "{event}");
        assert_eq!(
            (usage.input_tokens, usage.output_tokens),
            if counted { (9, 4) } else { (0, 0) },
            "{event}"
        );
    }
}

#[tokio::test]
async fn a_failure_says_whether_it_may_be_tried_again() {
    let too_long = json!({"type": "response.failed", "response": {
        "error": {"code": "context_length_exceeded", "message": "Your input exceeds the context window"}}});
    let cases = rows! {
        Says::whole("429 Busy", "", r#"{"error":{"message":"slow down"}}"#), Retry::Soon { after: None };
        Says::whole("401 No", "", r#"{"error":{"message":"no"}}"#), Retry::Never;
        Says::events(&stream([too_long.to_string()])), Retry::Smaller;
        Says::broken(&stream([delta("x")])), Retry::Soon { after: None };
    };
    let server = Server::start(cases.iter().map(|(says, _)| says.clone())).await;
    let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
    for (_, retry) in cases {
        let error = ask(&*model, request(&[])).await.unwrap_err();
        assert_eq!(error.retry, retry, "{error}");
    }
}

#[test]
fn too_many_items_are_no_reply() {
    let many = (0..=crate::answer::CALLS as u64).map(|place| done(place, &message("x")));
    let (failure, _) = read(many).unwrap_err();
    assert!(matches!(failure, Failure::Garbled(_)), "{failure:?}");
}

/// Valid and invalid values of an event.
fn event() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "a",
            "message",
            "function_call",
            "reasoning",
            "{}",
            "{\"",
            "commentary"
        ])
        .prop_map(Value::from),
    ];
    let names = "content text refusal name arguments call_id phase encrypted_content type usage output error code \
                 incomplete_details reason input_tokens";
    let names: Vec<&str> = names.split_whitespace().collect();
    let value = leaf.prop_recursive(5, 40, 5, move |inner| {
        let field = (prop::sample::select(names.clone()), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..3).prop_map(Value::from),
            prop::collection::vec(field, 0..6).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    });
    (value, 0_u64..4).prop_flat_map(|(value, place)| {
        prop::sample::select(vec![
            value.to_string(),
            done(place, &value),
            completed(&value),
            json!({"type": "error", "error": value}).to_string(),
        ])
    })
}

proptest! {
    #[test]
    fn any_split_of_the_bytes_gives_the_same_reply(cuts in prop::collection::vec(0_usize..700, 0..20)) {
        let events = stream([
            delta("Grüße 🌍"),
            done(0, &message("Grüße 🌍")),
            done(1, &function_call("a", "{\"c\":\"é\"}")),
            completed(&json!({"usage": usage(10, 0, 5)})),
        ]);
        let entry = entry("theirs", &["tools"]);
        let body = Body::new(&entry, THEIRS, &request(&[])).unwrap();
        let reply = decode(Answer::new(&body, 0), events.as_bytes(), &cuts).unwrap();
        prop_assert_eq!(short(&reply), ["Grüße 🌍", r#"shell({"c":"é"})#a"#]);
        prop_assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (10, 5));
    }

    #[test]
    fn no_events_make_it_panic_and_every_reply_goes_back_as_a_conversation(
        events in prop::collection::vec(event(), 0..6)
    ) {
        if let Ok(reply) = read(events) {
            let transcript = [Turn::Assistant(reply.content)];
            let body = body_of(&[], &request(&transcript));
            prop_assert!(body["input"].is_array());
        }
    }
}

#[tokio::test]
async fn an_answer_that_goes_on_beyond_the_length_asked_for_is_cut() {
    let server = Server::start([Says::endless(&stream([delta(&"na ".repeat(100))]))]).await;
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
