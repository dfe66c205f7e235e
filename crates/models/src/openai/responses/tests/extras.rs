//! Effort, summaries, calls without tools, the cache key, pictures and documents.

use sortie_agent::{Media, model::ToolUse};
use sortie_api::Effort;

use super::*;
use crate::{
    openai::testing::{looked, looks},
    test_server::{chart, report},
};

const OWN: Dialect = Dialect {
    is_own: true,
    summary: true,
    effort: true,
    tool_choice: true,
};

fn body(name: &str, capabilities: &[&str], dialect: Dialect, request: &Request<'_>) -> Value {
    let entry = entry(name, capabilities);
    serde_json::to_value(Body::new(&entry, dialect, request).unwrap()).unwrap()
}

#[test]
fn effort_and_summaries_are_asked_of_models_that_think() {
    let asked = |capabilities: &[&str], dialect, effort| {
        let request = Request {
            effort,
            ..request(&[])
        };
        body("gpt-6.1-sol", capabilities, dialect, &request)
            .get("reasoning")
            .cloned()
    };
    let max = Some(Effort::Max);
    assert_eq!(
        asked(&["thinking"], OWN, max),
        Some(json!({"effort": "max", "summary": "auto"}))
    );
    assert_eq!(asked(&["thinking"], OWN, None), Some(json!({"summary": "auto"})));
    assert_eq!(asked(&["thinking"], THEIRS, max), Some(json!({"effort": "max"})));
    assert_eq!(asked(&["thinking"], THEIRS, None), None);
    assert_eq!(asked(&["tools"], OWN, max), None);
}

#[test]
fn the_effort_of_the_settings_counts_where_the_run_names_none() {
    let asked = |effort| {
        let entry = crate::provider::Entry {
            effort: Some(Effort::Low),
            ..entry("gpt-5.5", &["thinking"])
        };
        let request = Request {
            effort,
            ..request(&[])
        };
        serde_json::to_value(Body::new(&entry, THEIRS, &request).unwrap()).unwrap()["reasoning"]["effort"]
            .clone()
    };
    assert_eq!(asked(None), "low");
    assert_eq!(asked(Some(Effort::Max)), "xhigh");
}

#[tokio::test]
async fn an_account_without_summaries_is_asked_again_without_them_and_never_again_with_them() {
    let refusal = r#"{"error":{"message":"Your organization must be verified to generate reasoning summaries.",
        "type":"invalid_request_error","param":"reasoning.summary","code":"unsupported_value"}}"#;
    let answer = stream([done(0, &message("Hi")), completed(&json!({}))]);
    let server = Server::start([
        Says::whole("400 Bad Request", "", refusal),
        Says::events(&answer),
        Says::events(&answer),
    ])
    .await;
    let model = ResponsesModel {
        transport: openai::transport(&server.provider, &["responses"]).unwrap(),
        entry: entry("gpt-6-luna", &["thinking"]),
        is_own: true,
        optionals: optionals(),
    };
    for _ in 0..2 {
        ask(&model, request(&[])).await.unwrap();
    }
    assert_eq!(server.body(0)["reasoning"], json!({"summary": "auto"}));
    for number in [1, 2] {
        assert_eq!(server.body(number).get("reasoning"), None);
    }
}

#[test]
fn summaries_are_told_to_people_and_reasoning_goes_back_as_it_came() {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "x",
        "summary": [{"type": "summary_text", "text": "**One.**"}, {"type": "summary_text", "text": " "}]});
    let other = json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "Two.\n"}]});
    let events = [
        done(0, &reasoning),
        done(1, &other),
        done(2, &message("Hi")),
        completed(&json!({})),
    ];
    let reply = read(events).unwrap();
    assert_eq!(reply.thinking, "**One.**\n\nTwo.");
    assert_eq!(short(&reply), [reasoning.to_string(), "Hi".to_owned()]);
}

#[test]
fn a_call_without_tools_keeps_the_tools_and_forbids_their_use() {
    let never = Request {
        tool_use: ToolUse::Never,
        ..request(&[])
    };
    let sent = body("m", &["tools"], THEIRS, &never);
    assert_eq!(
        (&sent["tool_choice"], sent["tools"].is_array()),
        (&json!("none"), true)
    );
    assert_eq!(body("m", &[], THEIRS, &never).get("tool_choice"), None);
    assert_eq!(
        body("m", &["tools"], THEIRS, &request(&[])).get("tool_choice"),
        None
    );
}

#[test]
fn only_openai_itself_is_told_the_key_of_the_cache() {
    let keyed = Request {
        cache_key: "run_1",
        ..request(&[])
    };
    assert_eq!(body("m", &[], OWN, &keyed)["prompt_cache_key"], "run_1");
    assert_eq!(body("m", &[], THEIRS, &keyed).get("prompt_cache_key"), None);
    assert_eq!(body("m", &[], OWN, &request(&[])).get("prompt_cache_key"), None);
}

#[test]
fn files_stand_in_the_outputs_of_calls_or_in_a_message_behind_them() {
    let of_task = [chart()];
    let transcript = looks();
    let seeing = Request {
        task: Task {
            media: &of_task,
            ..request(&[]).task
        },
        ..request(&transcript)
    };
    let can = ["tools", "vision", "documents"];
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,aWNo", "detail": "high"});
    let file = json!({"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,cGRm"});
    let text = |text: &str| json!({"type": "input_text", "text": text});
    let (label, noted) = (
        "chart.png: 20 x 10 pixels",
        "chart.png: 20 x 10 pixels\n\n[Half of the time is over.]",
    );
    let own = body("m", &can, OWN, &seeing);
    assert_eq!(
        own["input"][0]["content"],
        json!([text(label), image, text("Say hello.")])
    );
    assert_eq!(own["input"][3]["output"], json!([text(noted), image]));
    assert_eq!(
        own["input"][4]["output"],
        json!([text("report.pdf: 1 page"), file])
    );
    assert_eq!(own["input"][5]["content"], json!([text("Go on.")]));

    let theirs = body("m", &can, THEIRS, &seeing);
    assert_eq!(theirs["input"][3]["output"], noted);
    assert_eq!(theirs["input"][4]["output"], "report.pdf: 1 page");
    assert_eq!(
        theirs["input"][5]["content"],
        json!([text(label), image, text("report.pdf: 1 page"), file])
    );

    let blind = body("m", &["tools"], OWN, &seeing);
    assert_eq!(
        blind["input"][0]["content"],
        json!([text(label), text("Say hello.")])
    );
    assert_eq!(blind["input"][3]["output"], noted);
}

#[tokio::test]
async fn the_worst_case_of_a_file_is_known_where_the_model_takes_it() {
    let server = Server::start([]).await;
    let large = Media {
        pixels: Some((8_000, 8_000)),
        ..chart()
    };
    let tokens = |name: &str, is_own| {
        let model = ResponsesModel {
            transport: openai::transport(&server.provider, &["responses"]).unwrap(),
            entry: entry(name, &["vision"]),
            is_own,
            optionals: optionals(),
        };
        (model.media_tokens(&large), model.media_tokens(&report()))
    };
    assert_eq!(tokens("gpt-6.1-sol", true), (Some(3_016), None));
    assert_eq!(tokens("gpt-5.5", true), (Some(6_166), None));
    assert_eq!(tokens("gpt-6.1-sol", false), (Some(16_400), None));
}

#[tokio::test]
async fn a_field_that_the_server_names_beside_its_refusal_is_left_out() {
    for (param, expected) in [
        ("tool_choice.type", (Some(json!({"effort": "high"})), None)),
        ("reasoning.effort", (None, Some(json!("none")))),
    ] {
        let refusal = json!({"error": {"message": "Unsupported value", "type": "invalid_request_error", "param": param}});
        let answer = stream([done(0, &message("Hi")), completed(&json!({}))]);
        let server = Server::start([
            Says::whole("400 Bad Request", "", &refusal.to_string()),
            Says::events(&answer),
        ])
        .await;
        let model = client(&server.provider, entry("theirs", &["tools", "thinking"])).unwrap();
        let called = [Turn::Assistant(vec![tool_call("a", "{}")])];
        let request = Request {
            effort: Some(Effort::High),
            tool_use: ToolUse::Never,
            ..request(&called)
        };
        ask(&*model, request).await.unwrap();
        let body = server.body(1);
        let sent = (body.get("reasoning").cloned(), body.get("tool_choice").cloned());
        assert_eq!(sent, expected, "{param}");
    }
}

#[test]
fn a_result_of_text_and_files_has_the_files_behind_its_text() {
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
    let input = |dialect| {
        body(
            "m",
            &["tools", "vision", "documents"],
            dialect,
            &request(&transcript),
        )["input"]
            .clone()
    };
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,aWNo", "detail": "high"});
    let file = json!({"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,cGRm"});
    let text = |text: &str| json!({"type": "input_text", "text": text});
    assert_eq!(
        input(OWN)[2]["output"],
        json!([text("Two of them."), image, file])
    );
    let theirs = input(THEIRS);
    assert_eq!(theirs[2]["output"], "Two of them.");
    assert_eq!(
        theirs[3]["content"],
        json!([
            text("chart.png: 20 x 10 pixels"),
            image,
            text("report.pdf: 1 page"),
            file
        ])
    );
}
