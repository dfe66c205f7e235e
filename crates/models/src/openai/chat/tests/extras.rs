//! Effort, readable reasoning, calls without tools, the cache key, pictures and documents.

use sortie_agent::{Media, model::ToolUse};
use sortie_api::Effort;
use sortie_testkit::rows;

use super::*;
use crate::{
    openai::testing::{looked, looks},
    test_server::{chart, report},
};

fn never(transcript: &[Turn]) -> Request<'_> {
    Request {
        tool_use: ToolUse::Never,
        ..request(transcript)
    }
}

#[test]
fn effort_is_asked_of_models_that_think() {
    let asked = |dialect, capabilities: &[&str], effort| {
        let request = Request {
            effort,
            ..request(&[])
        };
        body_of(dialect, capabilities, &request)
            .get("reasoning_effort")
            .cloned()
    };
    let max = Some(Effort::Max);
    assert_eq!(asked(Form::Openai, &["thinking"], max), Some(json!("high")));
    assert_eq!(asked(Form::Compatible, &["thinking"], max), Some(json!("high")));
    assert_eq!(asked(Form::Openai, &["thinking"], None), None);
    assert_eq!(asked(Form::Openai, &["tools"], max), None);
}

#[test]
fn only_openai_itself_is_told_the_key_of_the_cache() {
    let keyed = Request {
        cache_key: "run_1",
        ..request(&[])
    };
    assert_eq!(body_of(Form::Openai, &[], &keyed)["prompt_cache_key"], "run_1");
    assert_eq!(
        body_of(Form::Compatible, &[], &keyed).get("prompt_cache_key"),
        None
    );
}

#[tokio::test]
async fn reasoning_is_told_to_people_from_whatever_field_it_comes_in() {
    for (delta, expected) in rows! {
        json!({"reasoning_content": "One. "}), "One.";
        json!({"reasoning": "Two."}), "Two.";
        json!({"reasoning": "Three.", "reasoning_details": [{"type": "reasoning.text", "text": "Three."}]}), "Three.";
        json!({"reasoning_details": [{"type": "reasoning.summary", "summary": "Four."}]}), "Four.";
        json!({"content": "x"}), "";
    } {
        let chunk = json!({"choices": [{"index": 0, "delta": delta}]}).to_string();
        let server = Server::start([Says::events(&stream([&chunk, END_TURN, "[DONE]"]))]).await;
        let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
        let reply = ask(&*model, request(&[])).await.unwrap();
        assert_eq!(reply.thinking, expected, "{chunk}");
    }
}

#[test]
fn a_call_without_tools_keeps_the_tools_and_forbids_their_use() {
    for dialect in [Form::Openai, Form::Compatible] {
        let sent = body_of(dialect, &["tools"], &never(&[]));
        assert_eq!(
            (&sent["tool_choice"], sent["tools"].is_array()),
            (&json!("none"), true)
        );
        assert_eq!(body_of(dialect, &[], &never(&[])).get("tool_choice"), None);
        assert_eq!(
            body_of(dialect, &["tools"], &request(&[])).get("tool_choice"),
            None
        );
    }
}

#[tokio::test]
async fn a_server_that_takes_no_choice_of_tools_is_asked_without_it() {
    for (status, refusal) in rows! {
        "400 Bad Request", r#"{"object":"error","message":"tool_choice: value 'none' is not supported","code":400}"#;
        "500 Internal Server Error",
        r#"{"error":{"message":"Incompatible tool choice param submitted - none","type":"None","code":"500"}}"#;
    } {
        let answer = stream([END_TURN, "[DONE]"]);
        let server = Server::start([
            Says::whole(status, "", refusal),
            Says::events(&answer),
            Says::events(&answer),
            Says::events(&answer),
        ])
        .await;
        let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
        let called = [
            Turn::Assistant(vec![tool_call("a", "{}")]),
            Turn::ToolResults(vec![looked("a", chart(), None)]),
        ];
        ask(&*model, never(&[])).await.unwrap();
        ask(&*model, never(&called)).await.unwrap();
        ask(&*model, request(&[])).await.unwrap();
        let sent = |number| {
            let body = server.body(number);
            (body.get("tool_choice").is_some(), body.get("tools").is_some())
        };
        assert_eq!(
            [0, 1, 2, 3].map(sent),
            [(true, true), (false, false), (false, true), (false, true)],
            "{status}"
        );
    }
}

#[tokio::test]
async fn a_strict_server_that_knows_no_effort_is_asked_without_it() {
    let refusal =
        r#"{"object":"error","message":"reasoning_effort: Extra inputs are not permitted","code":422}"#;
    let answer = stream([END_TURN, "[DONE]"]);
    let server = Server::start([
        Says::whole("422 Unprocessable Entity", "", refusal),
        Says::events(&answer),
        Says::events(&answer),
    ])
    .await;
    let model = client(&server.provider, entry("theirs", &["thinking"])).unwrap();
    for _ in 0..2 {
        let request = Request {
            effort: Some(Effort::High),
            ..request(&[])
        };
        ask(&*model, request).await.unwrap();
    }
    let sent = |number| server.body(number).get("reasoning_effort").cloned();
    assert_eq!([0, 1, 2].map(sent), [Some(json!("high")), None, None]);
}

#[tokio::test]
async fn a_model_of_the_other_protocol_is_refused_with_what_to_do() {
    for said in [
        "This model is only supported in v1/responses and not in v1/chat/completions.",
        "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. Please use \
         /v1/responses instead.",
    ] {
        let refusal = json!({"error": {"message": said, "type": "invalid_request_error"}}).to_string();
        for status in ["400 Bad Request", "404 Not Found"] {
            let server = Server::start([Says::whole(status, "", &refusal)]).await;
            let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
            let error = ask(&*model, request(&[])).await.unwrap_err();
            let expected =
                "model \"m\" needs the Responses API: set api = \"openai-responses\" for its provider (";
            assert!(error.message.starts_with(expected), "{error}");
            assert_eq!(error.retry, Retry::Never);
        }
    }
}

#[test]
fn files_stand_in_the_first_message_and_in_one_behind_the_outputs() {
    let of_task = [chart()];
    let transcript = looks();
    let seeing = Request {
        task: Task {
            media: &of_task,
            ..request(&[]).task
        },
        ..request(&transcript)
    };
    let image =
        json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,aWNo", "detail": "high"}});
    let file = json!({"type": "file",
        "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,cGRm"}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let label = "chart.png: 20 x 10 pixels";
    let sent = body_of(Form::Openai, &["tools", "vision", "documents"], &seeing);
    assert_eq!(
        sent["messages"][1]["content"],
        json!([text(label), image, text("Say hello.")])
    );
    assert_eq!(
        (&sent["messages"][3]["content"], &sent["messages"][4]["content"]),
        (
            &json!("chart.png: 20 x 10 pixels\n\n[Half of the time is over.]"),
            &json!("report.pdf: 1 page")
        )
    );
    assert_eq!(
        sent["messages"][5]["content"],
        json!([
            text(label),
            image,
            text("report.pdf: 1 page"),
            file,
            text("Go on.")
        ])
    );

    let blind = body_of(Form::Compatible, &["tools"], &seeing);
    assert_eq!(
        blind["messages"][1]["content"],
        "chart.png: 20 x 10 pixels\n\nSay hello."
    );
    assert_eq!(blind["messages"][6]["content"], "Go on.");
}

#[tokio::test]
async fn the_worst_case_of_a_file_is_known_where_the_model_takes_it() {
    let server = Server::start([]).await;
    let model = |capabilities: &[&str]| client(&server.provider, entry("theirs", capabilities)).unwrap();
    let unknown = Media {
        pixels: None,
        ..chart()
    };
    assert_eq!(model(&["vision"]).media_tokens(&unknown), Some(16_400));
    assert_eq!(model(&["vision"]).media_tokens(&report()), None);
    assert_eq!(model(&["tools"]).media_tokens(&chart()), None);
}

#[test]
fn the_files_of_a_result_of_text_and_files_stand_in_a_message_behind_it() {
    let result = ToolResult {
        content: ToolContent::TextWithMedia {
            text: "Two of them.".to_owned(),
            media: vec![chart(), report()],
        },
        ..looked("a", chart(), None)
    };
    let transcript = [
        Turn::Assistant(vec![tool_call("a", "{}")]),
        Turn::ToolResults(vec![result]),
    ];
    let can = ["tools", "vision", "documents"];
    let messages = body_of(Form::Openai, &can, &request(&transcript))["messages"].clone();
    assert_eq!(messages[3]["content"], "Two of them.");
    let types: Vec<&Value> = messages[4]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| &part["type"])
        .collect();
    assert_eq!(types, ["text", "image_url", "text", "file"]);
}
