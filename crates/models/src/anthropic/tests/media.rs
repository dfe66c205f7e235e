//! Pictures and documents in the first message and in tool results.

use sortie_agent::{Media, model::Request};

use super::*;
use crate::test_server::{chart, report};

fn sent(capabilities: &[&str]) -> Value {
    let of_task = [chart(), report()];
    let looked = |id: &str, media: Media, note: Option<&str>| ToolResult {
        content: ToolContent::Media(media),
        note: note.map(str::to_owned),
        ..tool_result(id, "", false)
    };
    let transcript = [
        Turn::Assistant(vec![tool_call("a", "{}"), tool_call("b", "{}")]),
        Turn::ToolResults(vec![
            looked("a", chart(), Some("Half of the time is over.")),
            looked("b", report(), None),
        ]),
    ];
    let request = Request {
        task: Task {
            media: &of_task,
            ..hello().task
        },
        transcript: &transcript,
        ..hello()
    };
    let entry = entry("claude-opus-5-5", capabilities);
    serde_json::to_value(request::Body::new(&entry, &request, PLAIN)).unwrap()["messages"].clone()
}

fn image() -> Value {
    json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aWNo"}})
}

#[test]
fn a_model_that_sees_gets_the_files_behind_their_labels() {
    let document = json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "cGRm"}});
    let messages = sent(&["tools", "vision", "documents"]);
    assert_eq!(
        messages[0]["content"],
        json!([
            {"type": "text", "text": "chart.png: 20 x 10 pixels"}, image(),
            {"type": "text", "text": "report.pdf: 1 page"}, document,
            {"type": "text", "text": "Say hello.", "cache_control": {"type": "ephemeral"}},
        ])
    );
    let text = "chart.png: 20 x 10 pixels\n\n[Half of the time is over.]";
    assert_eq!(
        messages[2]["content"],
        json!([
            {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": text}, image()]},
            {"type": "tool_result", "tool_use_id": "b",
                "content": [{"type": "text", "text": "report.pdf: 1 page"}, document],
                "cache_control": {"type": "ephemeral"}},
        ])
    );
}

#[test]
fn a_model_that_does_not_see_gets_the_labels() {
    let messages = sent(&["tools", "documents"]);
    assert!(!messages.to_string().contains("\"image\""), "{messages}");
    assert_eq!(
        messages[0]["content"][0],
        json!({"type": "text", "text": "chart.png: 20 x 10 pixels"})
    );
    let messages = sent(&["tools"]);
    assert_eq!(messages[2]["content"][1]["content"], "report.pdf: 1 page");
}

#[tokio::test]
async fn the_worst_case_of_a_file_is_known_where_the_model_takes_it() {
    let server = Server::start([]).await;
    let tokens = |name: &str, capabilities: &[&str]| {
        let model = client(&server.provider, entry(name, capabilities)).unwrap();
        let large = Media {
            pixels: Some((4_000, 4_000)),
            ..chart()
        };
        (
            model.media_tokens(&large),
            model.media_tokens(&report()).is_some(),
        )
    };
    assert_eq!(
        tokens("claude-opus-5-5", &["vision", "documents"]),
        (Some(4_800), true)
    );
    assert_eq!(tokens("claude-haiku-4-5", &["vision"]), (Some(1_616), false));
    assert_eq!(tokens("other", &["vision"]), (Some(4_800), false));
    assert_eq!(tokens("claude-opus-5-5", &["tools"]), (None, false));
}

#[test]
fn a_result_of_text_and_files_has_the_files_behind_its_text() {
    let content = ToolContent::TextWithMedia {
        text: "Two of them.".to_owned(),
        media: vec![chart(), report()],
    };
    let transcript = [
        Turn::Assistant(vec![tool_call("a", "{}")]),
        Turn::ToolResults(vec![ToolResult {
            content,
            ..tool_result("a", "", false)
        }]),
    ];
    let request = Request {
        transcript: &transcript,
        ..hello()
    };
    let shown = |capabilities: &[&str]| {
        let entry = entry("claude-opus-5-5", capabilities);
        let body = serde_json::to_value(request::Body::new(&entry, &request, PLAIN)).unwrap();
        body["messages"][2]["content"][0]["content"].clone()
    };
    let document = json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "cGRm"}});
    assert_eq!(
        shown(&["tools", "vision", "documents"]),
        json!([{"type": "text", "text": "Two of them."}, image(), document])
    );
    assert_eq!(shown(&["tools"]), "Two of them.");
}
