//! Servers that send the pieces of an item, and an empty or incomplete finished item.

use super::*;

fn added(place: u64, item: &Value) -> String {
    json!({"type": "response.output_item.added", "output_index": place, "item": item}).to_string()
}

fn arguments(place: u64, delta: &str) -> String {
    json!({"type": "response.function_call_arguments.delta", "output_index": place, "delta": delta})
        .to_string()
}

/// Checks the pieces of an answer with these events.
fn check(events: &[String], expected: &[&str]) {
    let reply = read(events).unwrap();
    assert_eq!(short(&reply), expected, "{events:?}");
    let reason = if expected.len() > 1 {
        StopReason::ToolUse
    } else {
        StopReason::EndTurn
    };
    assert_eq!(reply.stop_reason, reason);
}

#[test]
fn a_text_is_made_of_its_pieces_where_its_item_lacks_it() {
    let text_done =
        json!({"type": "response.output_text.done", "output_index": 0, "text": "Hello"}).to_string();
    let part = json!({"type": "output_text", "text": "Hello"});
    let part_done =
        json!({"type": "response.content_part.done", "output_index": 0, "part": part}).to_string();
    let whole = [delta("Hel"), delta("lo")];
    let empty = done(0, &json!({"type": "message", "content": []}));
    for (pieces, response) in [
        (whole.to_vec(), json!({})),
        (whole.to_vec(), json!({"output": null})),
        (whole.to_vec(), json!({"output": [message("Hello")]})),
        ([&whole[..], &[empty]].concat(), json!({})),
        (vec![text_done.clone()], json!({})),
        (vec![part_done.clone()], json!({})),
        ([&whole[..], &[text_done, part_done]].concat(), json!({})),
    ] {
        check(&[pieces, vec![completed(&response)]].concat(), &["Hello"]);
    }
}

#[test]
fn a_call_is_made_of_its_pieces_where_its_item_lacks_them() {
    let call = |place| {
        added(
            place,
            &json!({"type": "function_call", "id": "fc", "call_id": "a", "name": "shell"}),
        )
    };
    let arguments_done =
        json!({"type": "response.function_call_arguments.done", "output_index": 1, "arguments": "{\"n\":1}"})
            .to_string();
    let named = done(
        1,
        &json!({"type": "function_call", "id": "other", "call_id": "a"}),
    );
    for pieces in [
        vec![call(1), arguments(1, "{\"n\":"), arguments(1, "1}")],
        vec![call(1), arguments_done],
        vec![
            call(1),
            arguments(1, "{\"n\":1}"),
            named,
            done(0, &message("Hello")),
        ],
        // With the index of the text.
        vec![call(0), arguments(0, "{\"n\":1}")],
    ] {
        let events = [vec![delta("Hello")], pieces, vec![completed(&json!({}))]].concat();
        check(&events, &["Hello", r#"shell({"n":1})#a"#]);
    }
}

#[test]
fn a_response_in_one_piece_is_read_like_a_stream() {
    let response = |status: &str| {
        json!({"object": "response", "status": status, "error": null, "output": [message("Hi"), function_call("a", "{}")],
            "usage": usage(9, 0, 4), "text": {"format": {"type": "text"}}})
        .to_string()
    };
    let reply = read([response("completed")]).unwrap();
    assert_eq!(short(&reply), ["Hi", "shell({})#a"]);
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (9, 4));
    assert_eq!(
        read([response("incomplete")]).unwrap().stop_reason,
        StopReason::MaxTokens
    );
    for status in ["failed", "cancelled"] {
        let (failure, _) = read([response(status)]).unwrap_err();
        assert!(matches!(failure, Failure::Reported(..)), "{failure:?}");
    }
    assert_eq!(read([response("in_progress")]).unwrap_err().0, Failure::CutOff);
}

#[test]
fn an_answer_that_is_incomplete_for_an_unknown_reason_is_none() {
    let incomplete =
        json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": "gave_up"}}})
            .to_string();
    let (failure, _) = read([done(0, &message("x")), incomplete]).unwrap_err();
    assert!(matches!(failure, Failure::Garbled(_)), "{failure:?}");
    let cancelled = json!({"type": "response.cancelled", "response": {}}).to_string();
    assert!(read([done(0, &message("x")), cancelled]).is_err());
}

#[test]
fn halves_of_a_pair_are_joined_over_pieces_and_replaced_alone() {
    let piece = |kind: &str, escaped: &str| {
        format!("{{\"type\":\"response.{kind}.delta\",\"output_index\":0,\"delta\":\"{escaped}\"}}")
    };
    let pieces = |kind: &str| [r"\ud83d", r"\ude00\ud99c", "!"].map(|escaped| piece(kind, escaped));
    let end = completed(&json!({}));
    let text = read(pieces("output_text").iter().chain([&end])).unwrap();
    assert_eq!(short(&text), ["😀\u{FFFD}!"]);
    let call = added(
        0,
        &json!({"type": "function_call", "call_id": "a", "name": "shell"}),
    );
    let call = read(
        [&call]
            .into_iter()
            .chain(&pieces("function_call_arguments"))
            .chain([&end]),
    )
    .unwrap();
    assert_eq!(short(&call), ["shell(😀\u{FFFD}!)#a"]);
    let item = r#"{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"\ud99c."}]}}"#;
    assert_eq!(short(&read([item, &end]).unwrap()), ["\u{FFFD}."]);
}

#[test]
fn what_nobody_needs_spoils_nothing() {
    let end = completed(&json!({"usage": {"input_tokens": 9.0, "output_tokens": "4", "total_tokens": {}}}));
    let reply = read([
        r#"{"type":"response.metrics","tps":NaN}"#,
        "ok",
        r#"{"type":"response.output_item.done","output_index":"0","item":{"type":"message","content":[{"text":"Hi","logprobs":[{"logprob":-Infinity}]}]}}"#,
        &end,
    ])
    .unwrap();
    assert_eq!(short(&reply), ["Hi"]);
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (9, 4));
}
