use http::StatusCode;
use proptest::prelude::*;
use serde_json::{Value, json, value::RawValue};
use sortie_agent::{
    ToolContent,
    model::{Content, Retry, StopReason, Task, ToolCall, ToolDefinition, ToolResult, Turn, Usage},
};
use sortie_testkit::rows;

use super::{stream::Message, *};
use crate::{
    answer::Failure,
    test_server::{Answer, KEY, RecordedDeltas, Server, ask, decode, entry, events, hello},
};

mod bent;
mod media;
mod optional;
mod thinking;
mod turns;

/// A request to a server that supports only the basic protocol.
pub(super) const PLAIN: Extras = Extras {
    controls: false,
    display: false,
    tool_choice: true,
};
const CONTROLS: Extras = Extras {
    controls: true,
    display: true,
    tool_choice: true,
};

/// An answer with every element of a real one.
const WHOLE: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"usage\":{\"input_tokens\":25,",
    "\"cache_creation_input_tokens\":100,\"cache_read_input_tokens\":2000,\"output_tokens\":1}}}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"So \"}}\n\n",
    "event: ping\ndata: {\"type\": \"ping\"}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"ä.\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"c2ln\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"redacted_thinking\",\"data\":\"ZW5j\"}}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"text_delta\",\"text\":\"Look\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"text_delta\",\"text\":\"ing…\"}}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":3,\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"shell\",\"input\":{}}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":3,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":3,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"command\\\": \\\"l\"}}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":4,\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_2\",\"name\":\"list\",\"input\":{}}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":3,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"s\\\"}\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":3}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":89}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);

fn text_answer(stop: &str) -> String {
    events(&[
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello there."}}),
        json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 3}}),
        json!({"type": "message_stop"}),
    ])
}

/// The reply as JSON, for comparison.
fn shown(reply: &Reply) -> Value {
    json!({"content": reply.content, "stop": reply.stop_reason.as_str(), "usage": [reply.usage.input_tokens,
        reply.usage.output_tokens, reply.usage.cache_read_tokens, reply.usage.cache_write_tokens]})
}

fn whole() -> Value {
    json!({
        "content": [
            {"opaque": {"type": "thinking", "thinking": "So ä.", "signature": "c2ln"}},
            {"opaque": {"type": "redacted_thinking", "data": "ZW5j"}},
            {"text": "Looking…"},
            {"tool_call": {"id": "toolu_1", "name": "shell", "arguments": "{\"command\": \"ls\"}"}},
            {"tool_call": {"id": "toolu_2", "name": "list", "arguments": "{}"}},
        ],
        "stop": "tool_use",
        "usage": [25, 89, 2000, 100],
    })
}

async fn call(answers: impl IntoIterator<Item = Answer>) -> (Result<Reply, ModelError>, Vec<String>) {
    let server = Server::start(answers).await;
    let model = client(&server.provider, entry("claude-x", &["tools"])).unwrap();
    let heard = RecordedDeltas::default();
    let reply = model.call(hello(), &heard).await;
    (reply, heard.pieces())
}

#[tokio::test]
async fn an_answer_becomes_its_pieces_in_order_and_its_text_is_heard_as_it_comes() {
    let (reply, heard) = call([Answer::events(WHOLE)]).await;
    assert_eq!(shown(&reply.unwrap()), whole());
    assert_eq!(heard, ["Look", "ing…"]);
}

#[tokio::test]
async fn thinking_and_arguments_are_told_as_written_though_nobody_sees_them() {
    let server = Server::start([Answer::events(WHOLE)]).await;
    let model = client(&server.provider, entry("claude-x", &["tools"])).unwrap();
    let heard = RecordedDeltas::default();
    model.call(hello(), &heard).await.unwrap();
    assert!(heard.unseen() >= "So ä.".len(), "{heard:?}");
}

#[tokio::test]
async fn a_plain_request_has_the_form_of_the_api() {
    let server = Server::start([Answer::events(&text_answer("end_turn"))]).await;
    let model = client(&server.provider, entry("claude-x", &["tools"])).unwrap();
    ask(&*model, hello()).await.unwrap();
    let head = server.head(0);
    assert!(head.starts_with("post /v1/messages http/1.1\r\n"), "{head}");
    assert!(head.contains("anthropic-version: 2023-06-01") && head.contains(&format!("x-api-key: {KEY}")));
    assert!(head.contains("content-type: application/json"), "{head}");
    assert_eq!(
        server.body(0),
        json!({
            "model": "claude-x", "max_tokens": 1_000, "stream": true,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": [
                {"type": "text", "text": "Say hello.", "cache_control": {"type": "ephemeral"}}]}],
        })
    );
}

fn tool_call(id: &str, arguments: &str) -> Content {
    Content::ToolCall(ToolCall {
        id: id.to_owned(),
        name: "shell".to_owned(),
        arguments: arguments.to_owned(),
    })
}

fn tool_result(id: &str, text: &str, is_error: bool) -> ToolResult {
    ToolResult {
        id: id.to_owned(),
        name: "shell".to_owned(),
        content: ToolContent::Text(text.to_owned()),
        is_error,
        note: None,
    }
}

fn conversation() -> Vec<Turn> {
    let opaque = |text: &str| Content::Opaque(RawValue::from_string(text.to_owned()).unwrap());
    vec![
        Turn::Assistant(vec![
            opaque(r#"{"type":"thinking","thinking":"t","signature":"s"}"#),
            Content::Text("Looking.".to_owned()),
            tool_call("a", "{ \"n\": 1.0 }"),
            tool_call("b", "{\"cut"),
        ]),
        Turn::ToolResults(vec![
            tool_result("a", "out", false),
            tool_result("b", "no JSON", true),
        ]),
        Turn::Assistant(vec![Content::Text(" \n".to_owned())]),
        Turn::User("Answer.".to_owned()),
        Turn::Assistant(vec![Content::Text("42".to_owned())]),
        Turn::User("As JSON.".to_owned()),
    ]
}

const SHELL: ToolDefinition<'static> = ToolDefinition {
    name: "shell",
    description: "Runs a command.",
    parameters: r#"{"type": "object"}"#,
};
const LIST: ToolDefinition<'static> = ToolDefinition {
    name: "list",
    ..SHELL
};

#[test]
fn a_conversation_goes_back_as_it_was_with_four_marks_for_the_cache() {
    let transcript = conversation();
    let request = Request {
        transcript: &transcript,
        tools: &[SHELL, LIST],
        max_tokens: 4_096,
        ..hello()
    };
    let entry = entry("claude-haiku-4-5", &["tools", "thinking"]);
    let body = serde_json::to_value(request::Body::new(&entry, &request, PLAIN)).unwrap();
    let cached = json!({"type": "ephemeral"});
    assert_eq!(
        body["tools"],
        json!([
            {"name": "shell", "description": "Runs a command.", "input_schema": {"type": "object"}},
            {"name": "list", "description": "Runs a command.", "input_schema": {"type": "object"}, "cache_control": cached},
        ])
    );
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "Say hello."}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "t", "signature": "s"},
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "a", "name": "shell", "input": {"n": 1.0}},
                {"type": "tool_use", "id": "b", "name": "shell", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "out"},
                {"type": "tool_result", "tool_use_id": "b", "content": "no JSON", "is_error": true},
                {"type": "text", "text": "Answer.", "cache_control": cached},
            ]},
            {"role": "assistant", "content": [{"type": "text", "text": "42"}]},
            {"role": "user", "content": [{"type": "text", "text": "As JSON.", "cache_control": cached}]},
        ])
    );
    assert_eq!(body.to_string().matches("ephemeral").count(), 4);
    assert_eq!(
        body["thinking"],
        json!({"type": "enabled", "budget_tokens": 2_048})
    );
}

#[test]
fn thinking_and_the_form_of_the_answer_are_asked_for_only_where_the_model_can() {
    let schema = r#"{"type":"object","properties":{},"required":[],"additionalProperties":false}"#;
    let request = Request {
        task: Task {
            output_schema: Some(schema),
            ..hello().task
        },
        ..hello()
    };
    let body = |capabilities: &[&str]| {
        let entry = entry("claude-opus-5-5", capabilities);
        let body = serde_json::to_value(request::Body::new(&entry, &request, PLAIN)).unwrap();
        (body.get("thinking").cloned(), body.get("output_config").cloned())
    };
    assert_eq!(body(&["tools"]), (None, None));
    let format =
        json!({"format": {"type": "json_schema", "schema": serde_json::from_str::<Value>(schema).unwrap()}});
    assert_eq!(
        body(&["thinking", "structured_output"]),
        (Some(json!({"type": "adaptive"})), Some(format))
    );
}

#[test]
fn a_model_without_tools_is_told_of_none() {
    let request = Request {
        tools: &[SHELL],
        ..hello()
    };
    let body = serde_json::to_value(request::Body::new(&entry("claude-x", &[]), &request, PLAIN)).unwrap();
    assert_eq!(body.get("tools"), None);
}

#[test]
fn the_reason_to_stop_is_read_in_all_its_forms() {
    for (reason, expected) in [
        ("end_turn", StopReason::EndTurn),
        ("stop_sequence", StopReason::EndTurn),
        ("pause_turn", StopReason::MaxTokens),
        ("tool_use", StopReason::ToolUse),
        ("max_tokens", StopReason::MaxTokens),
        ("model_context_window_exceeded", StopReason::MaxTokens),
        ("refusal", StopReason::Refusal),
    ] {
        let reply = decode(Message::new(true), text_answer(reason).as_bytes(), &[]).unwrap();
        assert_eq!(reply.stop_reason, expected, "{reason}");
    }
    let (failure, _) = decode(Message::new(true), text_answer("something_new").as_bytes(), &[]).unwrap_err();
    assert!(matches!(failure, Failure::Garbled(_)), "{failure:?}");
}

#[test]
fn arguments_cut_off_at_the_limit_come_as_they_are() {
    let stream = events(&[
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "a", "name": "shell", "input": {}}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"comma"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}),
        json!({"type": "message_stop"}),
    ]);
    let reply = shown(&decode(Message::new(true), stream.as_bytes(), &[]).unwrap());
    assert_eq!(reply["content"][0]["tool_call"]["arguments"], "{\"comma");
    assert_eq!(reply["stop"], "max_tokens");
}

#[test]
fn servers_that_bend_the_protocol_are_understood() {
    // Arguments that arrive in the start of their block, data without an event name, unknown blocks and deltas, a call with the
    // stop reason of an ordinary turn, and no last event.
    let stream = concat!(
        "event: content_block_start\ndata: {\"index\":0,\"content_block\":{\"type\":\"hologram\",\"x\":[1]}}\n\n",
        "event: content_block_delta\ndata: {\"index\":0,\"delta\":{\"type\":\"hologram_delta\",\"text\":\"?\"}}\n\n",
        "event: content_block_start\ndata: {\"index\":1,\"content_block\":{\"type\":\"text\",\"text\":\"Hi\"}}\n\n",
        "event: content_block_start\ndata: {\"index\":2,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"shell\",\"input\":{ \"b\": 1 }}}\n\n",
        "event: content_block_delta\ndata: {\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\" \\n\"}}\n\n",
        "event: soon\ndata: {}\n\n",
        "event: message_delta\ndata: {\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"input_tokens\":9,\"output_tokens\":null}}\n\n",
    );
    let reply = decode(Message::new(true), stream.as_bytes(), &[]).unwrap();
    assert_eq!(
        shown(&reply),
        json!({
            "content": [{"text": "Hi"}, {"tool_call": {"id": "a", "name": "shell", "arguments": "{ \"b\": 1 }"}}],
            "stop": "tool_use",
            "usage": [9, 0, 0, 0],
        })
    );
}

#[tokio::test]
async fn failures_inside_of_a_stream_are_judged_as_those_before_it() {
    let soon = Retry::Soon { after: None };
    for (kind, retry) in [
        ("overloaded_error", soon),
        ("api_error", soon),
        ("rate_limit_error", soon),
        ("timeout_error", soon),
        ("something_new", soon),
        ("invalid_request_error", Retry::Never),
        ("authentication_error", Retry::Never),
        ("permission_error", Retry::Never),
        ("not_found_error", Retry::Never),
        ("billing_error", Retry::Never),
        ("request_too_large", Retry::Smaller),
    ] {
        let stream = events(&[
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 30, "output_tokens": 1}}}),
            json!({"type": "error", "error": {"type": kind, "message": format!("sorry, {KEY}")}}),
        ]);
        let error = call([Answer::events(&stream)]).await.0.unwrap_err();
        assert_eq!(error.retry, retry, "{kind}");
        assert_eq!(error.usage.input_tokens, 30);
        assert!(
            error.message.contains(kind) && !error.message.contains(KEY),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_stream_that_breaks_is_tried_again_and_charged_for_what_came() {
    let half = WHOLE.split_inclusive("\n\n").take(11).collect::<String>();
    for answer in [Answer::events(&half), Answer::broken(&half)] {
        let (reply, heard) = call([answer]).await;
        let error = reply.unwrap_err();
        assert_eq!(error.retry, Retry::Soon { after: None });
        assert_eq!(
            error.usage,
            Usage {
                input_tokens: 25,
                // 16 bytes of thinking and text at four a token.
                output_tokens: 4,
                cache_read_tokens: 2_000,
                cache_write_tokens: 100,
            }
        );
        assert_eq!(heard, ["Look", "ing…"]);
    }
}

#[tokio::test]
async fn an_answer_is_whole_with_its_last_event_even_if_the_stream_stays_open() {
    let mut server = Server::start([Answer::held(WHOLE)]).await;
    server.provider.end_wait = std::time::Duration::from_millis(1);
    let model = client(&server.provider, entry("claude-x", &["tools"])).unwrap();
    let reply = ask(&*model, hello()).await;
    assert_eq!(shown(&reply.unwrap()), whole());
}

#[tokio::test]
async fn a_stream_that_breaks_after_the_reason_to_stop_has_lost_nothing() {
    let end = WHOLE.find("event: message_stop").unwrap();
    let (reply, _) = call([Answer::broken(&WHOLE[..end])]).await;
    assert_eq!(shown(&reply.unwrap()), whole());
}

#[test]
fn too_many_calls_are_no_reply() {
    let call = |index| {
        json!({"type": "content_block_start", "index": index,
            "content_block": {"type": "tool_use", "id": "a", "name": "shell", "input": {}}})
    };
    let read = |calls: usize| {
        let mut stream: Vec<Value> = (0..calls).map(call).collect();
        stream.push(json!({"type": "message_stop"}));
        decode(Message::new(true), events(&stream).as_bytes(), &[])
    };
    assert_eq!(read(1_024).unwrap().content.len(), 1_024);
    assert!(matches!(read(1_025).unwrap_err().0, Failure::Garbled(_)));
}

#[tokio::test]
async fn an_answer_that_nobody_counted_is_charged_by_its_bytes() {
    let stream = events(&[
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hello there."}}),
        json!({"type": "message_stop"}),
    ]);
    let server = Server::start([Answer::events(&stream)]).await;
    let model = client(&server.provider, entry("claude-x", &["tools"])).unwrap();
    let usage = ask(&*model, hello()).await.unwrap().usage;
    let sent = server.body(0).to_string().len() as u64;
    assert_eq!((usage.input_tokens, usage.output_tokens), (sent.div_ceil(4), 3));
}

#[tokio::test]
async fn a_side_that_nobody_counted_is_estimated_and_the_other_keeps_its_figure() {
    for (usage, input, output) in rows! {
        json!({"output_tokens": 9}), None, 9;
        json!({"input_tokens": 7}), Some(7), 3;
        json!({"input_tokens": 0, "cache_read_input_tokens": 50}), Some(0), 3;
    } {
        let stream = events(&[
            json!({"type": "message_start", "message": {"usage": usage}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hello there."}}),
            json!({"type": "message_stop"}),
        ]);
        let server = Server::start([Answer::events(&stream)]).await;
        let model = client(&server.provider, entry("claude-x", &["tools"])).unwrap();
        let charged = ask(&*model, hello()).await.unwrap().usage;
        let sent = server.body(0).to_string().len() as u64;
        let expected = (input.unwrap_or(sent.div_ceil(4)), output);
        assert_eq!((charged.input_tokens, charged.output_tokens), expected, "{usage}");
    }
}

#[tokio::test]
async fn the_next_call_goes_through_the_same_connection() {
    let server = Server::on_one_connection([Answer::ended_late(WHOLE), Answer::ended_late(WHOLE)]).await;
    let model = client(&server.provider, entry("claude-x", &["tools"])).unwrap();
    for _ in 0..2 {
        let reply = ask(&*model, hello()).await;
        assert_eq!(shown(&reply.unwrap()), whole());
    }
}

#[tokio::test]
async fn what_is_no_event_of_the_protocol_is_a_clean_failure() {
    for body in [
        "data: {\"type\":\n\n",
        "data: [DONE]\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"text\":\"x\"}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":-1,\"content_block\":{}}\n\n",
        "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1e99}}}\n\n",
        "",
        "<html>",
    ] {
        let error = call([Answer::events(body)]).await.0.unwrap_err();
        assert_eq!(error.retry, Retry::Soon { after: None }, "{body}: {error}");
    }
}

#[test]
fn an_answer_cut_off_at_any_byte_is_a_failure_that_knows_what_was_counted() {
    // The answer is complete at the stop reason, so nothing after it can be missing.
    let end = WHOLE.find("event: message_stop").unwrap();
    let started = WHOLE.find("\n\n").unwrap() + 2;
    for cut in 0..WHOLE.len() {
        match decode(Message::new(true), &WHOLE.as_bytes()[..cut], &[]) {
            Ok(reply) => {
                assert!(cut >= end, "{cut}");
                assert_eq!(shown(&reply), whole());
            }
            Err((failure, usage)) => {
                assert!(cut < end, "{cut}");
                assert_eq!(failure, Failure::CutOff);
                assert_eq!(usage.cache_read_tokens, if cut < started { 0 } else { 2_000 });
            }
        }
    }
}

#[test]
fn a_kind_of_failure_without_a_name_is_one_of_the_provider() {
    let stream = events(&[json!({"type": "error", "error": {}})]);
    let (failure, _) = decode(Message::new(true), stream.as_bytes(), &[]).unwrap_err();
    assert_eq!(
        failure,
        Failure::Reported(StatusCode::INTERNAL_SERVER_ERROR, "no reason given".to_owned())
    );
}

proptest! {
    #[test]
    fn any_cutting_of_the_bytes_gives_the_same_reply(cuts in prop::collection::vec(0..WHOLE.len(), 0..40)) {
        let reply = decode(Message::new(true), WHOLE.as_bytes(), &cuts).unwrap();
        prop_assert_eq!(shown(&reply), whole());
    }

    #[test]
    fn no_events_make_it_panic(lines in prop::collection::vec(
        prop::sample::select(WHOLE.split("\n\n").collect::<Vec<_>>()), 0..30), noise in any::<String>()) {
        let stream = lines.join("\n\n") + "\n\n";
        let _ = decode(Message::new(true), stream.as_bytes(), &[]);
        let _ = decode(Message::new(true), format!("{stream}data: {noise}\n\n").as_bytes(), &[]);
    }
}

#[tokio::test]
async fn an_answer_that_goes_on_beyond_the_length_asked_for_is_cut() {
    let text = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "na ".repeat(100)}});
    let open =
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
    // Each turn opens further blocks, and their frames count as well.
    let thinking = json!({"type": "content_block_start", "index": 1, "content_block": {"type": "thinking", "thinking": ""}});
    let thought = json!({"type": "content_block_delta", "index": 1, "delta": {"type": "thinking_delta", "thinking": "hm ".repeat(100)}});
    let (reply, heard) = call([Answer::endless(&events(&[open, text, thinking, thought]))]).await;
    let reply = reply.unwrap();
    assert_eq!(reply.stop_reason, StopReason::MaxTokens);
    // 1,000 tokens of four bytes, and 64 KiB.
    let bytes = heard.iter().map(String::len).sum::<usize>();
    assert!((34_000..36_000).contains(&bytes), "{bytes}");
    assert!(
        (17_000..19_000).contains(&reply.usage.output_tokens),
        "{:?}",
        reply.usage
    );
}
