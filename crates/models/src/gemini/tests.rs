use http::StatusCode;
use proptest::prelude::*;
use serde_json::{Value, json, value::RawValue};
use sortie_agent::{
    ToolContent,
    model::{Retry, StopReason, Task, ToolCall, ToolDefinition, ToolResult, Usage},
};
use sortie_testkit::rows;

use super::{stream::Candidate, *};
use crate::{
    answer::Failure,
    test_server::{Answer, KEY, RecordedDeltas, Server, ask, decode, entry, events, hello},
};

mod extras;

/// An answer with every element of a real one.
const WHOLE: &str = concat!(
    "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"I should look.\",\"thought\": true}],\"role\": \"model\"},\"index\": 0}],",
    "\"usageMetadata\": {\"promptTokenCount\": 1200,\"cachedContentTokenCount\": 1000,\"totalTokenCount\": 1210,\"thoughtsTokenCount\": 10}}\r\n\r\n",
    "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"Look\"}],\"role\": \"model\"},\"index\": 0}]}\r\n\r\n",
    "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"ing…\"}],\"role\": \"model\"},\"index\": 0}]}\r\n\r\n",
    "data: {\"candidates\": [{\"content\": {\"parts\": [{\"functionCall\": {\"name\": \"shell\",\"args\": {\"command\": \"ls\"},\"id\": \"fc1\"},\"thoughtSignature\": \"c2ln\"},",
    "{\"functionCall\": {\"name\": \"list\"}}],\"role\": \"model\"},\"index\": 0}]}\r\n\r\n",
    "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"\",\"thoughtSignature\": \"ZW5k\"}],\"role\": \"model\"},\"finishReason\": \"STOP\",\"index\": 0}],",
    "\"usageMetadata\": {\"promptTokenCount\": 1200,\"candidatesTokenCount\": 20,\"totalTokenCount\": 1245,\"cachedContentTokenCount\": 1000,\"thoughtsTokenCount\": 25},",
    "\"modelVersion\": \"gemini-3.8-flash\",\"responseId\": \"x\"}\r\n\r\n",
);

fn ended(parts: &Value, reason: &str) -> String {
    events(&[json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": reason, "finishMessage": "why"}],
        "usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": 2},
    })])
}

/// The reply as JSON, for comparison.
fn shown(reply: &Reply) -> Value {
    json!({"content": reply.content, "stop": reply.stop_reason.as_str(), "usage": [reply.usage.input_tokens,
        reply.usage.output_tokens, reply.usage.cache_read_tokens, reply.usage.cache_write_tokens]})
}

fn whole() -> Value {
    json!({
        "content": [
            {"text": "Looking…"},
            {"opaque": {"thoughtSignature": "c2ln"}},
            {"tool_call": {"id": "fc1", "name": "shell", "arguments": "{\"command\": \"ls\"}"}},
            {"tool_call": {"id": "own_call_4", "name": "list", "arguments": "{}"}},
            {"opaque": {"thoughtSignature": "ZW5k", "text": ""}},
        ],
        "stop": "tool_use",
        "usage": [200, 45, 1000, 0],
    })
}

async fn call(answer: Answer) -> (Result<Reply, ModelError>, Vec<String>) {
    let server = Server::start([answer]).await;
    let model = client(&server.provider, entry("gemini-x", &["tools"])).unwrap();
    let heard = RecordedDeltas::default();
    let reply = model.call(hello(), &heard).await;
    (reply, heard.pieces())
}

#[test]
fn an_answer_becomes_its_pieces_with_each_signature_before_its_own() {
    let reply = decode(Candidate::new(3), WHOLE.as_bytes(), &[]).unwrap();
    assert_eq!(shown(&reply), whole());
}

#[tokio::test]
async fn text_is_heard_as_it_comes_and_thoughts_are_not() {
    let (reply, heard) = call(Answer::events(WHOLE)).await;
    assert_eq!(reply.unwrap().content.len(), 5);
    assert_eq!(heard, ["Look", "ing…"]);
}

#[tokio::test]
async fn a_plain_request_has_the_form_of_the_api() {
    let server = Server::start([Answer::events(&ended(&json!([{"text": "Hello."}]), "STOP"))]).await;
    let model = client(&server.provider, entry("models/gemini-x", &["tools"])).unwrap();
    let reply = ask(&*model, hello()).await.unwrap();
    assert_eq!(
        shown(&reply),
        json!({"content": [{"text": "Hello."}], "stop": "end_turn", "usage": [8, 2, 0, 0]})
    );
    let head = server.head(0);
    assert!(
        head.starts_with("post /v1beta/models/gemini-x:streamgeneratecontent?alt=sse http/1.1\r\n"),
        "{head}"
    );
    assert!(head.contains(&format!("x-goog-api-key: {KEY}")), "{head}");
    assert_eq!(
        server.body(0),
        json!({
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [{"role": "user", "parts": [{"text": "Say hello."}]}],
            "generationConfig": {"maxOutputTokens": 1_000},
        })
    );
}

const SHELL: ToolDefinition<'static> = ToolDefinition {
    name: "shell",
    description: "Runs a command.",
    parameters: r#"{"type": "object", "additionalProperties": false}"#,
};

#[test]
fn a_conversation_goes_back_with_its_signatures_and_without_our_own_ids() {
    let opaque = |text: &str| Content::Opaque(RawValue::from_string(text.to_owned()).unwrap());
    let tool_call = |id: &str, arguments: &str| {
        Content::ToolCall(ToolCall {
            id: id.to_owned(),
            name: "shell".to_owned(),
            arguments: arguments.to_owned(),
        })
    };
    let result = |id: &str, is_error| ToolResult {
        id: id.to_owned(),
        name: "shell".to_owned(),
        content: ToolContent::Text("out".to_owned()),
        is_error,
        note: None,
    };
    let transcript = [
        Turn::Assistant(vec![
            Content::Text("Looking.".to_owned()),
            opaque(r#"{"thoughtSignature":"s1"}"#),
            tool_call("fc1", "{ \"n\": 1.0 }"),
            tool_call("own_call_1", "{\"cut"),
            opaque(r#"{"thoughtSignature":"s2","text":""}"#),
            opaque(r#"{"type":"thinking"}"#),
        ]),
        Turn::ToolResults(vec![result("fc1", false), result("own_call_1", true)]),
        Turn::User("Answer.".to_owned()),
        Turn::Assistant(vec![]),
        Turn::User("Now.".to_owned()),
    ];
    let schema = Some(r#"{"type":"object"}"#);
    let request = Request {
        task: Task {
            output_schema: schema,
            ..hello().task
        },
        transcript: &transcript,
        tools: &[SHELL],
        ..hello()
    };
    let entry = entry("gemini-x", &["tools", "structured_output"]);
    let body = serde_json::to_value(request::Body::new(&entry, &request)).unwrap();
    assert_eq!(
        body["tools"],
        json!([{"functionDeclarations": [{"name": "shell", "description": "Runs a command.",
            "parametersJsonSchema": {"type": "object", "additionalProperties": false}}]}])
    );
    assert_eq!(body["generationConfig"], json!({"maxOutputTokens": 1_000}));
    assert_eq!(
        body["contents"].as_array().unwrap()[1..],
        [
            json!({"role": "model", "parts": [
                {"text": "Looking."},
                {"functionCall": {"id": "fc1", "name": "shell", "args": {"n": 1.0}}, "thoughtSignature": "s1"},
                {"functionCall": {"name": "shell", "args": {}}},
                {"text": "", "thoughtSignature": "s2"},
            ]}),
            json!({"role": "user", "parts": [
                {"functionResponse": {"id": "fc1", "name": "shell", "response": {"output": "out"}}},
                {"functionResponse": {"name": "shell", "response": {"error": "out"}}},
            ]}),
            json!({"role": "model", "parts": [{"text": "I have read the results."}]}),
            json!({"role": "user", "parts": [{"text": "Answer."}, {"text": "Now."}]}),
        ]
    );
}

#[test]
fn the_form_of_the_answer_is_asked_for_where_there_are_no_tools() {
    let request = Request {
        task: Task {
            output_schema: Some(r#"{"type":"object"}"#),
            ..hello().task
        },
        ..hello()
    };
    let config = |capabilities: &[&str]| {
        let entry = entry("gemini-x", capabilities);
        serde_json::to_value(request::Body::new(&entry, &request)).unwrap()["generationConfig"].clone()
    };
    assert_eq!(
        config(&["structured_output"]),
        json!({"maxOutputTokens": 1_000, "responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}})
    );
    assert_eq!(config(&[]), json!({"maxOutputTokens": 1_000}));
}

#[test]
fn a_model_without_tools_is_told_of_none() {
    let request = Request {
        tools: &[SHELL],
        ..hello()
    };
    let body = serde_json::to_value(request::Body::new(&entry("gemini-x", &[]), &request)).unwrap();
    assert_eq!(body.get("tools"), None);
}

#[test]
fn what_a_reply_holds_is_sent_back_as_it_came() {
    let reply = decode(Candidate::new(0), WHOLE.as_bytes(), &[]).unwrap();
    let transcript = [Turn::Assistant(reply.content)];
    let request = Request {
        transcript: &transcript,
        ..hello()
    };
    let body = serde_json::to_value(request::Body::new(&entry("gemini-x", &[]), &request)).unwrap();
    assert_eq!(
        body["contents"][1]["parts"],
        json!([
            {"text": "Looking…"},
            {"functionCall": {"name": "shell", "args": {"command": "ls"}, "id": "fc1"}, "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "list", "args": {}}},
            {"text": "", "thoughtSignature": "ZW5k"},
        ])
    );
}

#[test]
fn text_with_a_signature_is_a_part_of_its_own() {
    let parts = json!([{"text": "a"}, {"text": "b", "thoughtSignature": "s"}, {"text": "c"}, {"text": "d"}]);
    let reply = decode(Candidate::new(0), ended(&parts, "STOP").as_bytes(), &[]).unwrap();
    assert_eq!(
        shown(&reply)["content"],
        json!([{"text": "a"}, {"opaque": {"thoughtSignature": "s"}}, {"text": "b"}, {"text": "cd"}])
    );
}

#[test]
fn the_reason_to_stop_is_read_in_all_its_forms() {
    for (reason, expected) in [
        ("STOP", Some(StopReason::EndTurn)),
        ("MAX_TOKENS", Some(StopReason::MaxTokens)),
        ("SAFETY", Some(StopReason::Refusal)),
        ("RECITATION", Some(StopReason::Refusal)),
        ("PROHIBITED_CONTENT", Some(StopReason::Refusal)),
        ("MALFORMED_FUNCTION_CALL", None),
        ("UNEXPECTED_TOOL_CALL", None),
        ("OTHER", None),
    ] {
        let stream = ended(&json!([{"text": "x"}]), reason);
        let reply = decode(Candidate::new(0), stream.as_bytes(), &[]);
        assert_eq!(reply.ok().map(|reply| reply.stop_reason), expected, "{reason}");
    }
    let blocked = events(&[json!({"promptFeedback": {"blockReason": "SAFETY"}})]);
    let reply = decode(Candidate::new(0), blocked.as_bytes(), &[]).unwrap();
    assert_eq!(reply.stop_reason, StopReason::Refusal);
}

#[test]
fn what_nobody_needs_and_figures_of_another_type_spoil_nothing() {
    let stream = concat!(
        "data: ping\n\ndata:\n\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\\ud83d\"}]},\"avgLogprobs\":NaN}]}\n\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":{\"text\":\"\\ude00\\ud99c!\",\"thought\":\"no\"}}}]}\n\n",
        "data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":9.0,",
        "\"candidatesTokenCount\":\"4\",\"thoughtsTokenCount\":null}}\n\n",
        "data: {\"candidates\":\n\ndata: {\"error\":{\"code\":500,\"message\":\"late\"}}\n\ndata: [DONE]\n\n",
    );
    let reply = decode(Candidate::new(0), stream.as_bytes(), &[]).unwrap();
    assert_eq!(shown(&reply)["content"], json!([{"text": "😀\u{FFFD}!"}]));
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (9, 4));
}

#[tokio::test]
async fn an_answer_in_one_piece_is_read_like_a_stream() {
    let value = |text: &str, end: &str| {
        format!("{{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}]}}{end}}}]}}")
    };
    let end = ",\"finishReason\":\"STOP\"";
    for body in [
        value("Hello", end),
        format!("[{},\n{}]", value("Hel", ""), value("lo", end)),
    ] {
        let (reply, _) = call(Answer::whole(
            "200 OK",
            "content-type: application/json\r\n",
            &body,
        ))
        .await;
        assert_eq!(shown(&reply.unwrap())["content"], json!([{"text": "Hello"}]));
    }
}

#[tokio::test]
async fn a_half_of_a_pair_in_arguments_is_replaced() {
    let call_of = |args: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"functionCall\":{{\"name\":\"shell\",\"args\":{args}}}}}]}},\"finishReason\":\"STOP\"}}]}}\n\n"
        )
    };
    for (args, expected) in rows! {
        r#"{"a":"\ud99c!"}"#, r#"{"a":"\ufffd!"}"#;
        r#"{"a":"\ud83d\ude00", "b":1.0}"#, r#"{"a":"\ud83d\ude00", "b":1.0}"#;
    } {
        let (reply, _) = call(Answer::events(&call_of(args))).await;
        assert_eq!(
            shown(&reply.unwrap())["content"][0]["tool_call"]["arguments"],
            expected
        );
    }
}

#[tokio::test]
async fn a_call_that_the_model_garbled_is_tried_again_and_charged() {
    let stream = ended(&json!([]), "MALFORMED_FUNCTION_CALL");
    let error = call(Answer::events(&stream)).await.0.unwrap_err();
    assert_eq!(error.retry, Retry::Soon { after: None });
    assert_eq!((error.usage.input_tokens, error.usage.output_tokens), (8, 2));
    assert!(error.message.contains("MALFORMED_FUNCTION_CALL: why"), "{error}");
}

#[tokio::test]
async fn failures_inside_of_a_stream_are_judged_as_those_before_it() {
    for (code, retry) in [
        (503, Retry::Soon { after: None }),
        (429, Retry::Soon { after: None }),
        (400, Retry::Never),
    ] {
        let stream =
            events(&[json!({"error": {"code": code, "message": format!("no, {KEY}"), "status": "X"}})]);
        let error = call(Answer::events(&stream)).await.0.unwrap_err();
        assert_eq!(error.retry, retry, "{code}");
        assert!(!error.message.contains(KEY), "{error}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_is_tried_again_and_charged_for_what_came() {
    let half = WHOLE.split_inclusive("\r\n\r\n").take(3).collect::<String>();
    for answer in [Answer::events(&half), Answer::broken(&half)] {
        let error = call(answer).await.0.unwrap_err();
        assert_eq!(error.retry, Retry::Soon { after: None });
        assert_eq!(
            error.usage,
            Usage {
                input_tokens: 200,
                output_tokens: 10,
                cache_read_tokens: 1_000,
                cache_write_tokens: 0,
            }
        );
    }
}

#[tokio::test]
async fn a_stream_that_breaks_after_the_reason_for_the_end_has_lost_nothing() {
    let (reply, _) = call(Answer::broken(WHOLE)).await;
    assert_eq!(reply.unwrap().content.len(), 5);
}

#[test]
fn too_many_calls_are_no_reply() {
    let read = |calls: usize| {
        let parts = vec![json!({"functionCall": {"name": "shell"}}); calls];
        // Calls of earlier turns do not count towards the limit.
        decode(
            Candidate::new(5_000),
            ended(&json!(parts), "STOP").as_bytes(),
            &[],
        )
    };
    assert_eq!(read(1_024).unwrap().content.len(), 1_024);
    assert!(matches!(read(1_025).unwrap_err().0, Failure::Garbled(_)));
}

#[tokio::test]
async fn a_side_that_nobody_counted_is_estimated_and_the_other_keeps_its_figure() {
    for (counts, input, output) in rows! {
        json!({"candidatesTokenCount": 9}), None, 9;
        json!({"promptTokenCount": 7}), Some(7), 3;
        json!({"promptTokenCount": 50, "cachedContentTokenCount": 50}), Some(0), 3;
    } {
        let parts = json!([{"text": "Hello there."}]);
        let stream = events(&[json!({
            "candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}], "usageMetadata": counts,
        })]);
        let server = Server::start([Answer::events(&stream)]).await;
        let model = client(&server.provider, entry("gemini-x", &["tools"])).unwrap();
        let charged = ask(&*model, hello()).await.unwrap().usage;
        let sent = server.body(0).to_string().len() as u64;
        let expected = (input.unwrap_or(sent.div_ceil(4)), output);
        assert_eq!(
            (charged.input_tokens, charged.output_tokens),
            expected,
            "{counts}"
        );
    }
}

#[tokio::test]
async fn what_is_no_event_of_the_protocol_is_a_clean_failure() {
    for body in [
        "data: {\"candidates\":\n\n",
        "data: []\n\n",
        "data: {\"candidates\": {}}\n\n",
        "",
        "<html>",
    ] {
        let error = call(Answer::events(body)).await.0.unwrap_err();
        assert_eq!(error.retry, Retry::Soon { after: None }, "{body}: {error}");
    }
}

#[test]
fn an_answer_cut_off_at_any_byte_is_a_failure() {
    for cut in 0..WHOLE.len() {
        let cut_off = decode(Candidate::new(3), &WHOLE.as_bytes()[..cut], &[]);
        // Only the final line feed is missing, which carries no information.
        if cut + 1 == WHOLE.len() {
            assert_eq!(shown(&cut_off.unwrap()), whole());
        } else {
            assert_eq!(cut_off.unwrap_err().0, Failure::CutOff, "{cut}");
        }
    }
}

#[test]
fn a_failure_without_a_code_is_one_of_the_provider() {
    let stream = events(&[json!({"error": {}})]);
    let (failure, _) = decode(Candidate::new(0), stream.as_bytes(), &[]).unwrap_err();
    assert_eq!(
        failure,
        Failure::Reported(StatusCode::INTERNAL_SERVER_ERROR, String::new())
    );
}

proptest! {
    #[test]
    fn any_cutting_of_the_bytes_gives_the_same_reply(cuts in prop::collection::vec(0..WHOLE.len(), 0..40)) {
        let reply = decode(Candidate::new(3), WHOLE.as_bytes(), &cuts).unwrap();
        prop_assert_eq!(shown(&reply), whole());
    }

    #[test]
    fn no_events_make_it_panic(lines in prop::collection::vec(
        prop::sample::select(WHOLE.split("\r\n\r\n").collect::<Vec<_>>()), 0..30), noise in any::<String>()) {
        let stream = lines.join("\n\n") + "\n\n";
        let _ = decode(Candidate::new(usize::MAX / 2), format!("{stream}data: {noise}\n\n").as_bytes(), &[]);
    }

    #[test]
    fn no_token_is_counted_twice_and_none_is_lost(prompt in 0_u64..1 << 40, cached in 0_u64..1 << 40,
        tools in 0_u64..1 << 40, said in 0_u64..1 << 40, thought in 0_u64..1 << 40) {
        let cached = cached.min(prompt);
        let stream = events(&[json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {
            "promptTokenCount": prompt, "cachedContentTokenCount": cached, "toolUsePromptTokenCount": tools,
            "candidatesTokenCount": said, "thoughtsTokenCount": thought}})]);
        let usage = decode(Candidate::new(0), stream.as_bytes(), &[]).unwrap().usage;
        prop_assert_eq!(usage.input_tokens + usage.cache_read_tokens, prompt + tools);
        prop_assert_eq!(usage.cache_read_tokens, cached);
        prop_assert_eq!(usage.output_tokens, said + thought);
    }
}

#[tokio::test]
async fn an_answer_that_goes_on_beyond_the_length_asked_for_is_cut() {
    let part = json!({"candidates": [{"content": {"parts": [{"text": "na ".repeat(100)}]}}]});
    let (reply, heard) = call(Answer::endless(&events(&[part]))).await;
    let reply = reply.unwrap();
    assert_eq!(reply.stop_reason, StopReason::MaxTokens);
    let bytes = heard.iter().map(String::len).sum::<usize>();
    assert!((69_000..71_000).contains(&bytes), "{bytes}");
    assert!(
        (17_000..18_000).contains(&reply.usage.output_tokens),
        "{:?}",
        reply.usage
    );
}
