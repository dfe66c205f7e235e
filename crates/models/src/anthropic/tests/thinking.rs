//! Bound thinking, calls without tools, effort.

use sortie_agent::model::ToolUse;
use sortie_api::Effort;

use super::*;

#[tokio::test]
async fn a_model_that_binds_thinking_is_told_what_becomes_of_thinking_that_has_come_loose() {
    let asked = async |name: &str, capabilities: &[&str]| {
        let server = Server::start([Answer::events(&text_answer("end_turn"))]).await;
        let model = client(&server.provider, entry(name, capabilities)).unwrap();
        ask(&*model, hello()).await.unwrap();
        let has_header = server
            .head(0)
            .contains("anthropic-beta: thinking-binding-controls-2026-08-01\r\n");
        (
            model.binds_thinking(),
            server.body(0).get("thinking").cloned(),
            has_header,
        )
    };
    let binding = json!({"prefix_mismatch_behavior": "drop_block"});
    let controlled = json!({"type": "adaptive", "display": "summarized", "block_binding": binding});
    for name in [
        "claude-opus-5-5",
        "claude-fable-5-2",
        "anthropic.claude-haiku-5-5",
    ] {
        assert_eq!(
            asked(name, &["thinking"]).await,
            (true, Some(controlled.clone()), true)
        );
        assert_eq!(asked(name, &[]).await, (false, None, false));
    }
    let shown = json!({"type": "adaptive", "display": "summarized"});
    assert_eq!(
        asked("claude-opus-5", &["thinking"]).await,
        (false, Some(shown), false)
    );
    let plain = json!({"type": "adaptive"});
    assert_eq!(
        asked("claude-opus-4-6", &["thinking"]).await,
        (false, Some(plain), false)
    );
    assert_eq!(asked("glm-5.5", &["thinking"]).await, (false, None, false));
}

#[tokio::test]
async fn another_refusal_is_no_reason_to_leave_the_controls_out() {
    let other = r#"{"error":{"type":"invalid_request_error","message":"tools.0.name: too long"}}"#;
    let server = Server::start([
        Answer::whole("400 Bad Request", "", other),
        Answer::events(&text_answer("end_turn")),
    ])
    .await;
    let model = client(&server.provider, entry("claude-opus-5-5", &["thinking"])).unwrap();
    assert_eq!(ask(&*model, hello()).await.unwrap_err().retry, Retry::Never);
    ask(&*model, hello()).await.unwrap();
    assert!(server.head(1).contains("anthropic-beta"));
}

#[tokio::test]
async fn thinking_that_is_bound_elsewhere_is_to_be_left_out() {
    for said in [
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. \
         Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \\\"drop_block\\\". That setting \
         requires the `thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header.",
        "messages.3.content.0: Invalid `signature` in `thinking` block",
        "messages.1.content.2: The block is bound to a different conversation.",
        "messages.1.content.0.thinking.signature: Field required",
    ] {
        let refusal =
            format!(r#"{{"type":"error","error":{{"type":"invalid_request_error","message":"{said}"}}}}"#);
        let server = Server::start([Answer::whole("400 Bad Request", "", &refusal)]).await;
        let model = client(&server.provider, entry("claude-opus-5-5", &["thinking"])).unwrap();
        let error = ask(&*model, hello()).await.unwrap_err();
        assert_eq!(
            (error.retry, error.usage),
            (Retry::WithoutThinking, Usage::default()),
            "{said}"
        );
    }
}

#[test]
fn thinking_is_told_to_people_and_goes_back_as_it_came() {
    let reply = decode(Message::new(true), WHOLE.as_bytes(), &[]).unwrap();
    assert_eq!(reply.thinking, "So ä.");
    let block = |index: u64, text: &str| {
        json!({"type": "content_block_start", "index": index,
            "content_block": {"type": "thinking", "thinking": text, "signature": "s"}})
    };
    let stream = events(&[
        block(0, "One.\n"),
        block(1, ""),
        block(2, "Two."),
        json!({"type": "message_stop"}),
    ]);
    let reply = decode(Message::new(true), stream.as_bytes(), &[]).unwrap();
    assert_eq!(reply.thinking, "One.\n\nTwo.");
    assert_eq!(
        shown(&reply)["content"],
        json!([
            {"opaque": {"type": "thinking", "thinking": "One.\n", "signature": "s"}},
            {"opaque": {"type": "thinking", "thinking": "", "signature": "s"}},
            {"opaque": {"type": "thinking", "thinking": "Two.", "signature": "s"}},
        ])
    );
}

#[test]
fn what_the_provider_left_out_of_the_request_is_read_in_any_form() {
    for told in [
        json!([{"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "prefix_binding_mismatch"}]),
        json!([{"type": "something_new"}, {}]),
        json!([]),
        Value::Null,
    ] {
        let stream = events(&[
            json!({"type": "message_start", "message": {"input_transformations": told, "usage": {"input_tokens": 5}}}),
            json!({"type": "message_stop"}),
        ]);
        let reply = decode(Message::new(true), stream.as_bytes(), &[]).unwrap();
        assert_eq!(reply.usage.input_tokens, 5, "{told}");
    }
}

#[test]
fn what_the_binding_and_the_cache_compare_is_the_same_in_every_call_of_a_conversation() {
    let transcript = conversation();
    let entry = entry("claude-opus-5-5", &["tools", "thinking"]);
    let compared = |request: &Request<'_>| {
        let mut body = serde_json::to_value(request::Body::new(&entry, request, CONTROLS)).unwrap();
        let unmarked = |value: &mut Value| {
            let text = value
                .to_string()
                .replace(r#","cache_control":{"type":"ephemeral"}"#, "");
            *value =
                serde_json::from_str(&text.replace(r#""cache_control":{"type":"ephemeral"},"#, "")).unwrap();
        };
        unmarked(&mut body);
        (
            body["system"].clone(),
            body["tools"].clone(),
            body["messages"].clone(),
        )
    };
    let whole = Request {
        transcript: &transcript,
        tools: &[SHELL, LIST],
        ..hello()
    };
    let (system, tools, messages) = compared(&whole);
    // After two turns the answer is empty, so no thinking is bound to that request.
    for turns in [0, 4, 6] {
        let earlier = Request {
            transcript: &transcript[..turns],
            max_tokens: 64,
            tool_use: ToolUse::Never,
            effort: Some(Effort::Low),
            ..whole
        };
        let (then_system, then_tools, then_messages) = compared(&earlier);
        assert_eq!((&then_system, &then_tools), (&system, &tools));
        let then = then_messages.as_array().unwrap();
        assert_eq!(
            then.as_slice(),
            &messages.as_array().unwrap()[..then.len()],
            "{turns}"
        );
    }
}

#[test]
fn a_call_without_tools_keeps_the_tools_and_forbids_their_use() {
    let entry = entry("claude-opus-5-5", &["tools"]);
    let choice = |tools, tool_use| {
        let request = Request {
            tools,
            tool_use,
            ..hello()
        };
        let body = serde_json::to_value(request::Body::new(&entry, &request, PLAIN)).unwrap();
        (body.get("tool_choice").cloned(), body.get("tools").is_some())
    };
    assert_eq!(
        choice(&[SHELL], ToolUse::Never),
        (Some(json!({"type": "none"})), true)
    );
    assert_eq!(choice(&[SHELL], ToolUse::Auto), (None, true));
    // The provider rejects the field if there are no tools.
    assert_eq!(choice(&[], ToolUse::Never), (None, false));
}

#[test]
fn effort_goes_out_as_the_level_or_the_budget_that_the_model_takes() {
    let asked = |name: &str, capabilities: &[&str], effort| {
        let request = Request {
            max_tokens: 64_000,
            effort,
            ..hello()
        };
        let entry = entry(name, capabilities);
        let body = request::Body::new(&entry, &request, PLAIN);
        let body = serde_json::to_value(body).unwrap();
        (body.get("output_config").cloned(), body.get("thinking").cloned())
    };
    let adaptive = Some(json!({"type": "adaptive"}));
    assert_eq!(
        asked("claude-opus-5-5", &["thinking"], None),
        (None, adaptive.clone())
    );
    assert_eq!(
        asked("claude-opus-5-5", &["thinking"], Some(Effort::Max)),
        (Some(json!({"effort": "max"})), adaptive)
    );
    assert_eq!(asked("claude-opus-5-5", &[], Some(Effort::Max)), (None, None));
    assert_eq!(
        asked("claude-haiku-4-5", &["thinking"], Some(Effort::High)),
        (None, Some(json!({"type": "enabled", "budget_tokens": 16_384})))
    );
}
