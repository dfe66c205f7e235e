//! Parts of a request that some servers reject.

use sortie_agent::model::ToolUse;
use sortie_testkit::rows;

use super::*;

fn refusal(said: &str) -> String {
    json!({"type": "error", "error": {"type": "invalid_request_error", "message": said}}).to_string()
}

/// Makes two calls. The server answers the first requests with `refusals` and accepts all others.
async fn twice(refusals: &[(&str, &str)], request: Request<'_>) -> Server {
    let refusals = refusals
        .iter()
        .map(|(status, said)| Answer::whole(status, "", &refusal(said)));
    let answers = [0, 1].map(|_| Answer::events(&text_answer("end_turn")));
    let server = Server::start(refusals.chain(answers).collect::<Vec<_>>()).await;
    let model = client(&server.provider, entry("claude-opus-5-5", &["tools", "thinking"])).unwrap();
    for _ in 0..2 {
        ask(&*model, request).await.unwrap();
    }
    server
}

const REFUSED: &str = "400 Bad Request";

#[tokio::test]
async fn a_server_that_does_not_know_the_controls_gets_none_and_still_shows_thinking() {
    for said in [
        "thinking.adaptive.block_binding: Extra inputs are not permitted",
        "Unexpected value(s) `thinking-binding-controls-2026-08-01` for the `anthropic-beta` header.",
        "invalid beta flag",
    ] {
        let server = twice(&[(REFUSED, said)], hello()).await;
        assert!(server.head(0).contains("anthropic-beta"));
        for number in [1, 2] {
            let shown = json!({"type": "adaptive", "display": "summarized"});
            assert_eq!(server.body(number)["thinking"], shown, "{said}");
            assert!(!server.head(number).contains("anthropic-beta"));
        }
    }
}

#[tokio::test]
async fn a_server_that_knows_neither_the_controls_nor_the_display_is_asked_without_both() {
    let refusals = rows! {
        REFUSED, "thinking.adaptive.display: Extra inputs are not permitted";
        REFUSED, "invalid beta flag";
    };
    let server = twice(&refusals, hello()).await;
    assert_eq!(server.body(1)["thinking"].get("display"), None);
    assert!(server.head(1).contains("anthropic-beta"));
    for number in [2, 3] {
        assert_eq!(server.body(number)["thinking"], json!({"type": "adaptive"}));
        assert!(!server.head(number).contains("anthropic-beta"));
    }
}

#[tokio::test]
async fn a_server_that_takes_no_choice_of_tools_is_asked_without_it_and_keeps_the_tools() {
    let never = Request {
        tools: &[SHELL],
        tool_use: ToolUse::Never,
        ..hello()
    };
    for refusal in rows! {
        "500 Internal Server Error", "Incompatible tool choice param submitted - {'type': 'none'}";
        REFUSED, "Invalid value: 'none' at tool_choice.type";
    } {
        let server = twice(&[refusal], never).await;
        let sent = |number| {
            let body = server.body(number);
            (body.get("tool_choice").is_some(), body.get("tools").is_some())
        };
        assert_eq!([0, 1, 2].map(sent), [(true, true), (false, true), (false, true)]);
    }
}
