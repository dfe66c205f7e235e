//! Turns that the provider would reject unchanged.

use super::*;

const THINKING: &str = r#"{"type":"thinking","thinking":"t","signature":"s"}"#;

fn thinking() -> Content {
    Content::Opaque(RawValue::from_string(THINKING.to_owned()).unwrap())
}

fn said(text: &str) -> Content {
    Content::Text(text.to_owned())
}

fn told(text: &str) -> Turn {
    Turn::User(text.to_owned())
}

fn body(name: &str, transcript: &[Turn], max_tokens: u64) -> Value {
    let request = Request {
        transcript,
        tools: &[SHELL],
        max_tokens,
        ..hello()
    };
    let entry = entry(name, &["tools", "thinking"]);
    serde_json::to_value(request::Body::new(&entry, &request, PLAIN)).unwrap()
}

/// Roles of the messages, with the types of their blocks.
fn shape(body: &Value) -> Vec<String> {
    let kinds = |message: &Value| {
        let blocks = message["content"].as_array().unwrap().iter();
        let kinds: Vec<_> = blocks.map(|block| block["type"].as_str().unwrap()).collect();
        format!("{}: {}", message["role"].as_str().unwrap(), kinds.join(" "))
    };
    body["messages"].as_array().unwrap().iter().map(kinds).collect()
}

/// Blocks of all messages with their roles, without cache breakpoints.
fn blocks(body: &Value) -> Vec<(Value, Value)> {
    let mut blocks = Vec::new();
    for message in body["messages"].as_array().unwrap() {
        for block in message["content"].as_array().unwrap() {
            let mut block = block.clone();
            block.as_object_mut().unwrap().remove("cache_control");
            blocks.push((message["role"].clone(), block));
        }
    }
    blocks
}

#[test]
fn an_answer_cut_off_while_the_model_thought_goes_back_without_that_thinking() {
    let called = [
        Turn::Assistant(vec![thinking(), tool_call("a", "{}"), thinking()]),
        Turn::ToolResults(vec![tool_result("a", "out", false)]),
    ];
    let cut = |content| {
        called
            .clone()
            .into_iter()
            .chain([Turn::Assistant(content), told("Go on.")])
    };
    let expected = [
        "user: text",
        "assistant: thinking tool_use",
        "user: tool_result text",
    ];
    for content in [
        vec![thinking()],
        vec![thinking(), said("\n")],
        vec![thinking(), thinking()],
    ] {
        let transcript: Vec<_> = cut(content).collect();
        assert_eq!(shape(&body("claude-opus-5-5", &transcript, 1_000)), expected);
    }
    let transcript: Vec<_> = cut(vec![thinking(), said("Well"), thinking()]).collect();
    let sent = body("claude-opus-5-5", &transcript, 1_000);
    assert_eq!(shape(&sent)[3..], ["assistant: thinking text", "user: text"]);
}

#[test]
fn thinking_whose_signature_never_came_is_dropped_where_the_model_signs() {
    let stream = events(&[
        json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Let me"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}),
        json!({"type": "message_stop"}),
    ]);
    let read = |signs| decode(Message::new(signs), stream.as_bytes(), &[]).unwrap();
    assert_eq!(
        (read(true).content.len(), read(true).thinking.as_str()),
        (0, "Let me")
    );
    assert_eq!(
        shown(&read(false))["content"],
        json!([{"opaque": {"type": "thinking", "thinking": "Let me", "signature": ""}}])
    );
}

#[test]
fn a_turn_that_began_without_thinking_goes_on_without_it_on_a_model_with_a_budget() {
    let budget = |transcript: &[Turn]| {
        let asked = |name| body(name, transcript, 64_000)["thinking"]["type"].clone();
        assert_eq!(asked("claude-opus-5-5"), "adaptive");
        asked("claude-haiku-4-5")
    };
    let results = || Turn::ToolResults(vec![tool_result("a", "out", false)]);
    let call = || tool_call("a", "{}");
    // Another model called the tool, or its thinking was dropped.
    let foreign = [Turn::Assistant(vec![said("Looking."), call()]), results()];
    assert_eq!(budget(&foreign), Value::Null);
    // A correction in the same message as the results does not start a turn.
    let corrected: Vec<_> = foreign.iter().cloned().chain([told("Mind the time.")]).collect();
    assert_eq!(budget(&corrected), Value::Null);
    // The next turn can think.
    let answered: Vec<_> = foreign
        .iter()
        .cloned()
        .chain([Turn::Assistant(vec![said("Done.")]), told("As JSON.")])
        .collect();
    assert_eq!(budget(&answered), "enabled");
    // With a thinking budget, a turn contains thinking only at its start.
    let own = [
        Turn::Assistant(vec![thinking(), call()]),
        results(),
        Turn::Assistant(vec![call()]),
        results(),
    ];
    assert_eq!(budget(&own), "enabled");
    assert_eq!(budget(&[]), "enabled");
}

#[test]
fn thinking_does_not_go_back_to_a_model_with_a_budget_in_a_call_that_has_none() {
    let transcript = [
        Turn::Assistant(vec![thinking(), tool_call("a", "{}")]),
        Turn::ToolResults(vec![tool_result("a", "out", false)]),
    ];
    let sent = body("claude-haiku-4-5", &transcript, 1_000);
    assert_eq!(sent.get("thinking"), None);
    assert_eq!(shape(&sent)[1..], ["assistant: tool_use", "user: tool_result"]);
}

#[test]
fn ids_of_other_providers_are_written_in_the_letters_that_the_provider_takes() {
    let transcript = [
        Turn::Assistant(vec![
            tool_call("functions.shell:0", "{}"),
            tool_call("toolu_1-A", "{}"),
            tool_call("ä", "{}"),
        ]),
        Turn::ToolResults(
            ["functions.shell:0", "toolu_1-A", "ä"]
                .map(|id| tool_result(id, "out", false))
                .into(),
        ),
    ];
    let sent = body("claude-opus-5-5", &transcript, 1_000);
    let ids = |message: usize, field: &str| {
        let blocks = sent["messages"][message]["content"].as_array().unwrap().iter();
        blocks.map(|block| block[field].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(1, "id"), ["functions_2eshell_3a0", "toolu_1-A", "_c3_a4"]);
    assert_eq!(ids(2, "tool_use_id"), ids(1, "id"));
}

proptest! {
    #[test]
    fn every_conversation_has_a_form_that_the_provider_takes(
        answers in prop::collection::vec(prop::collection::vec(0_u8..5, 0..5), 0..6),
        max_tokens in prop::sample::select(vec![1_000_u64, 64_000]),
        name in prop::sample::select(vec!["claude-haiku-4-5", "claude-opus-5-5"]),
    ) {
        let mut transcript = Vec::new();
        for answer in answers {
            let content: Vec<_> = answer.iter().enumerate().map(|(number, kind)| match kind {
                0 | 1 => thinking(),
                2 => said("text"),
                3 => said(" \n"),
                _ => tool_call(&format!("call.{number}"), "{}"),
            }).collect();
            let results: Vec<_> = content.iter().filter_map(|piece| match piece {
                Content::ToolCall(call) => Some(tool_result(&call.id, "out", false)),
                Content::Text(_) | Content::Opaque(_) => None,
            }).collect();
            transcript.push(Turn::Assistant(content));
            transcript.push(if results.is_empty() { told("Go on.") } else { Turn::ToolResults(results) });
        }
        let sent = body(name, &transcript, max_tokens);
        for (place, message) in shape(&sent).iter().enumerate() {
            let (role, kinds) = message.split_once(": ").unwrap();
            prop_assert_eq!(role, ["user", "assistant"][place % 2]);
            prop_assert!(!kinds.is_empty() && !kinds.ends_with("thinking"), "{}", message);
        }
        // A later request starts with the same blocks.
        let earlier = body(name, &transcript[..transcript.len() / 4 * 2], max_tokens);
        if sent["thinking"] == earlier["thinking"] {
            let (whole, front) = (blocks(&sent), blocks(&earlier));
            prop_assert_eq!(&whole[..front.len()], &front);
        }
    }
}
