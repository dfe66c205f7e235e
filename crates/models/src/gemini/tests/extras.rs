//! Effort, thoughts, calls without tools, pictures and documents.

use sortie_agent::{
    Media,
    model::{ToolDefinition, ToolUse},
};
use sortie_api::Effort;

use super::*;
use crate::test_server::chart;

const SHELL: ToolDefinition<'static> = ToolDefinition {
    name: "shell",
    description: "Runs a command.",
    parameters: r#"{"type": "object"}"#,
};

fn body(name: &str, capabilities: &[&str], request: &Request<'_>) -> Value {
    serde_json::to_value(request::Body::new(&entry(name, capabilities), request)).unwrap()
}

#[test]
fn thoughts_are_asked_for_and_effort_has_the_form_that_the_model_takes() {
    let asked = |name: &str, capabilities: &[&str], effort, max_tokens| {
        let request = Request {
            effort,
            max_tokens,
            ..hello()
        };
        body(name, capabilities, &request)["generationConfig"]
            .get("thinkingConfig")
            .cloned()
    };
    let max = Some(Effort::Max);
    let of = |name, effort, max_tokens| asked(name, &["thinking"], effort, max_tokens);
    let plain = Some(json!({"includeThoughts": true}));
    assert_eq!(of("gemini-3.8-flash", None, 64_000), plain);
    assert_eq!(
        of("gemini-3.8-flash", max, 64_000),
        Some(json!({"includeThoughts": true, "thinkingLevel": "high"}))
    );
    assert_eq!(
        of("gemini-2.5-pro", max, 64_000),
        Some(json!({"includeThoughts": true, "thinkingBudget": 24_576}))
    );
    assert_eq!(
        of("gemini-2.5-pro", max, 4_000),
        Some(json!({"includeThoughts": true, "thinkingBudget": 2_000}))
    );
    assert_eq!(of("gemini-2.5-pro", max, 1_000), plain);
    assert_eq!(asked("gemini-3.8-flash", &["tools"], max, 64_000), None);
}

#[test]
fn thoughts_are_told_to_people() {
    let reply = decode(Candidate::new(0), WHOLE.as_bytes(), &[]).unwrap();
    assert_eq!(reply.thinking, "I should look.");
}

#[test]
fn a_call_without_tools_keeps_the_tools_and_forbids_their_use() {
    let choice = |tools, tool_use| {
        let request = Request {
            tools,
            tool_use,
            ..hello()
        };
        let body = body("m", &["tools"], &request);
        (body.get("toolConfig").cloned(), body.get("tools").is_some())
    };
    let none = json!({"functionCallingConfig": {"mode": "NONE"}});
    assert_eq!(choice(&[SHELL], ToolUse::Never), (Some(none), true));
    assert_eq!(choice(&[SHELL], ToolUse::Auto), (None, true));
    assert_eq!(choice(&[], ToolUse::Never), (None, false));
}

fn picture(media_type: &str) -> Media {
    Media {
        media_type: media_type.to_owned(),
        ..chart()
    }
}

fn sent(name: &str, capabilities: &[&str], media: Media) -> Value {
    sent_with(name, capabilities, media.clone(), ToolContent::Media(media))
}

fn sent_with(name: &str, capabilities: &[&str], of_task: Media, content: ToolContent) -> Value {
    let of_task = [of_task];
    let call = ToolCall {
        id: "fc1".to_owned(),
        name: "read_file".to_owned(),
        arguments: "{}".to_owned(),
    };
    let result = ToolResult {
        id: "fc1".to_owned(),
        name: "read_file".to_owned(),
        content,
        is_error: false,
        note: None,
    };
    let transcript = [
        Turn::Assistant(vec![Content::ToolCall(call)]),
        Turn::ToolResults(vec![result]),
    ];
    let request = Request {
        task: Task {
            media: &of_task,
            ..hello().task
        },
        transcript: &transcript,
        ..hello()
    };
    body(name, capabilities, &request)["contents"].clone()
}

#[test]
fn files_stand_in_the_outcomes_of_calls_or_behind_them() {
    let inline = json!({"inlineData": {"mimeType": "image/png", "data": "aWNo"}});
    let label = json!({"text": "chart.png: 20 x 10 pixels"});
    let outcome =
        json!({"id": "fc1", "name": "read_file", "response": {"output": "chart.png: 20 x 10 pixels"}});
    let mut with_file = outcome.clone();
    with_file["parts"] = json!([inline]);

    let newer = sent("gemini-3.8-flash", &["vision"], picture("image/png"));
    assert_eq!(newer[0]["parts"], json!([label, inline, {"text": "Say hello."}]));
    assert_eq!(newer[2]["parts"], json!([{"functionResponse": with_file}]));

    let older = sent("gemini-2.5-flash", &["vision"], picture("image/png"));
    assert_eq!(
        older[2]["parts"],
        json!([{"functionResponse": outcome}, label, inline])
    );

    for unseen in [
        sent("gemini-3.8-flash", &["tools"], picture("image/png")),
        sent("gemini-3.8-flash", &["vision"], picture("image/gif")),
    ] {
        assert_eq!(unseen[0]["parts"], json!([label, {"text": "Say hello."}]));
        assert_eq!(unseen[2]["parts"], json!([{"functionResponse": outcome}]));
    }
}

#[test]
fn a_result_of_text_and_files_has_them_in_its_outcome() {
    let content = ToolContent::TextWithMedia {
        text: "Two of them.".to_owned(),
        media: vec![chart(), chart()],
    };
    let inline = json!({"inlineData": {"mimeType": "image/png", "data": "aWNo"}});
    let outcome = json!({"id": "fc1", "name": "read_file", "response": {"output": "Two of them."}});
    let mut with_files = outcome.clone();
    with_files["parts"] = json!([inline, inline]);
    let newer = sent_with("gemini-3.8-flash", &["vision"], chart(), content.clone());
    assert_eq!(newer[2]["parts"], json!([{"functionResponse": with_files}]));
    let label = json!({"text": "chart.png: 20 x 10 pixels"});
    let older = sent_with("gemini-2.5-flash", &["vision"], chart(), content);
    assert_eq!(
        older[2]["parts"],
        json!([{"functionResponse": outcome}, label, inline, label, inline])
    );
}

#[tokio::test]
async fn the_worst_case_of_a_file_is_known_where_the_model_takes_it() {
    let server = Server::start([]).await;
    let tokens = |name: &str, media_type: &str| {
        let model = client(&server.provider, entry(name, &["vision", "documents"])).unwrap();
        model.media_tokens(&picture(media_type))
    };
    assert_eq!(tokens("gemini-3.8-flash", "image/png"), Some(2_256));
    assert_eq!(tokens("gemini-2.5-flash", "image/png"), Some(274));
    assert!(tokens("gemini-3.8-flash", "application/pdf").is_some());
    assert_eq!(tokens("gemini-3.8-flash", "image/gif"), None);
}

#[test]
fn calls_of_another_model_go_out_with_what_stands_for_a_signature() {
    let call = |id: &str| {
        Content::ToolCall(ToolCall {
            id: id.to_owned(),
            name: "shell".to_owned(),
            arguments: "{}".to_owned(),
        })
    };
    let signed = RawValue::from_string(r#"{"thoughtSignature":"s"}"#.to_owned()).unwrap();
    let transcript = [
        Turn::Assistant(vec![Content::Text("Looking.".to_owned()), call("a"), call("b")]),
        Turn::User("Go on.".to_owned()),
        Turn::Assistant(vec![Content::Opaque(signed), call("c"), call("d")]),
    ];
    let request = Request {
        transcript: &transcript,
        ..hello()
    };
    let signatures = |name: &str, capabilities: &[&str]| {
        let contents = body(name, capabilities, &request)["contents"].clone();
        let parts = [&contents[1]["parts"], &contents[3]["parts"]];
        let parts = parts.iter().flat_map(|parts| parts.as_array().unwrap());
        let calls = parts.filter(|part| part.get("functionCall").is_some());
        calls
            .map(|part| part["thoughtSignature"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    let stand_in = "skip_thought_signature_validator";
    assert_eq!(
        signatures("gemini-3.8-flash", &["thinking"]),
        [stand_in, "", "s", ""]
    );
    assert_eq!(signatures("gemini-2.5-pro", &["thinking"]), ["", "", "s", ""]);
    assert_eq!(signatures("gemini-3.8-flash", &["tools"]), ["", "", "s", ""]);
}

#[test]
fn an_answer_of_signatures_alone_is_no_message() {
    let signature = r#"{"thoughtSignature":"c2ln","text":""}"#.to_owned();
    let transcript = [
        Turn::Assistant(vec![Content::Opaque(RawValue::from_string(signature).unwrap())]),
        Turn::User("Go on.".to_owned()),
    ];
    let request = Request {
        transcript: &transcript,
        ..hello()
    };
    assert_eq!(
        body("gemini-3.8-flash", &["thinking"], &request)["contents"],
        json!([{"role": "user", "parts": [{"text": "Say hello."}, {"text": "Go on."}]}])
    );
}
