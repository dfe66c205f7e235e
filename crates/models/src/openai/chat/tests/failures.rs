//! Calls that fail, break off or are refused.

use super::*;
use sortie_testkit::rows;

#[tokio::test]
async fn a_broken_connection_loses_nothing_of_an_answer_that_is_whole() {
    let piece = text("12345678");
    let server = Server::start([
        Says::broken(&stream([&*piece, END_TURN])),
        Says::broken(&stream([&*piece])),
    ])
    .await;
    let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
    let reply = ask(&*model, request(&[])).await.unwrap();
    assert_eq!(
        (short(&reply), reply.usage.output_tokens),
        (vec!["12345678".to_owned()], 2)
    );
    let error = ask(&*model, request(&[])).await.unwrap_err();
    assert_eq!(
        (error.retry, error.usage.output_tokens),
        (Retry::Soon { after: None }, 2)
    );
    assert!(error.usage.input_tokens > 50, "{:?}", error.usage);
}

#[tokio::test]
async fn an_event_that_is_too_large_ends_the_call() {
    let server = Server::start([Says::events(&stream([text(&"x".repeat(17 << 20))]))]).await;
    let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
    let error = ask(&*model, request(&[])).await.unwrap_err();
    assert_eq!(error.retry, Retry::Never);
    assert!(error.message.contains("larger than"), "{error}");
}

#[tokio::test]
async fn a_failure_says_whether_it_may_be_tried_again_and_nothing_of_the_key() {
    let failed = |said: &str| Says::events(&stream([format!(r#"{{"error":{said}}}"#)]));
    let whole = |status, headers, body| Says::whole(status, headers, body);
    let after = Some(std::time::Duration::from_secs(7));
    let cases = rows! {
        whole(
            "429 Busy",
            "retry-after: 7\r\n",
            r#"{"error":{"message":"slow down"}}"#,
        ),
        Retry::Soon { after },
        "answered 429: slow down";
        whole("503 Down", "", "down"), Retry::Soon { after: None }, "answered 503: down";
        whole(
            "400 Bad",
            "",
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens."}}"#,
        ),
        Retry::Smaller,
        "8192";
        whole(
            "401 No",
            "",
            r#"{"error":{"message":"Incorrect API key: sk-very-secret"}}"#,
        ),
        Retry::Never,
        "key: [redacted]";
        whole("400 Bad", "", r#"{"error":"bad"}"#), Retry::Never, "answered 400: bad";
        failed(r#"{"message":"the request exceeds the available context size","code":400}"#),
        Retry::Smaller,
        "context size";
        failed(r#"{"message":"sk-very-secret is over","code":"context_length_exceeded"}"#),
        Retry::Smaller,
        "[redacted] is over";
        failed(r#"{"code":503}"#), Retry::Soon { after: None }, "answered 503";
        failed(r#"{"code":"insufficient_quota"}"#), Retry::Never, "answered 402";
    };
    let server = Server::start(cases.iter().map(|(says, ..)| says.clone())).await;
    let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
    for (_, retry, words) in cases {
        let error = ask(&*model, request(&[])).await.unwrap_err();
        assert_eq!(error.retry, retry, "{error}");
        // A refusal costs nothing, even as the first event of a stream.
        assert_eq!(error.usage, Usage::default(), "{error}");
        assert!(error.message.contains(words), "{error}");
        assert!(!error.message.contains(KEY), "{error}");
    }
}

#[test]
fn a_key_that_no_header_can_hold_is_refused_by_the_name_of_its_provider() {
    let unusable = Provider {
        key: Some(sortie_api::Credential::new("a\nb")),
        ..provider("http://127.0.0.1:9/v1")
    };
    let refused = client(&unusable, entry("theirs", &[])).err().unwrap().to_string();
    assert!(refused.contains("\"here\""), "{refused}");
}

#[test]
fn foreign_reasoning_in_the_conversation_is_an_error() {
    let raw = RawValue::from_string("[1]".to_owned()).unwrap();
    let transcript = [Turn::Assistant(vec![Content::Opaque(raw)])];
    let entry = entry("theirs", &[]);
    let refused = Body::new(&entry, all(Form::Compatible), &request(&transcript));
    assert_eq!(refused.err().unwrap().retry, Retry::Never);
}

#[tokio::test]
async fn an_answer_that_goes_on_beyond_the_length_asked_for_is_cut() {
    let server = Server::start([Says::endless(&stream([text(&"na ".repeat(100))]))]).await;
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

#[tokio::test]
async fn usage_and_the_last_mark_end_an_answer_that_gives_no_reason() {
    let call = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"shell","arguments":"{}"}}]}}]}"#;
    for (piece, reason) in [
        (text("Hello."), StopReason::EndTurn),
        (call.to_owned(), StopReason::ToolUse),
    ] {
        let server = Server::start([
            Says::events(&stream([&*piece, USAGE, "[DONE]"])),
            Says::events(&stream([&*piece, "[DONE]"])),
            Says::events(&stream([&*piece, USAGE])),
        ])
        .await;
        let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
        let reply = ask(&*model, request(&[])).await.unwrap();
        assert_eq!((reply.content.len(), reply.stop_reason), (1, reason));
        // Charged once, with the reported usage.
        assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (10, 5));
        assert_eq!(server.requests(), 1);
        // Without usage or the end marker, something may be missing.
        for _ in 0..2 {
            let error = ask(&*model, request(&[])).await.unwrap_err();
            assert_eq!(error.retry, Retry::Soon { after: None });
        }
    }
}

#[tokio::test]
async fn a_filter_of_the_provider_refuses_as_a_model_does() {
    let azure = r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400}}"#;
    let server = Server::start([
        Says::whole("400 E", "", azure),
        Says::events(&stream([
            r#"{"error":{"message":"stopped","code":"content_filter"}}"#,
        ])),
        Says::whole(
            "400 E",
            "",
            r#"{"error":{"message":"no such field","param":"prompt"}}"#,
        ),
    ])
    .await;
    let model = client(&server.provider, entry("theirs", &["tools"])).unwrap();
    for words in ["content management policy", "stopped"] {
        let reply = ask(&*model, request(&[])).await.unwrap();
        assert_eq!(reply.stop_reason, StopReason::Refusal);
        assert!(short(&reply)[0].contains(words));
        assert_eq!(reply.usage, Usage::default());
    }
    let other = ask(&*model, request(&[])).await;
    assert_eq!(other.unwrap_err().retry, Retry::Never);
}
