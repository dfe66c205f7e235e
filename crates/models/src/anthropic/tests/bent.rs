//! Servers that deviate from the protocol.

use super::*;
use sortie_testkit::rows;

fn reply(stream: &[Value]) -> Reply {
    decode(Message::new(true), events(stream).as_bytes(), &[]).unwrap()
}

fn text_block(index: u64, text: &str) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": text}})
}

fn call_block(index: u64, id: &str) -> Value {
    json!({"type": "content_block_start", "index": index,
        "content_block": {"type": "tool_use", "id": id, "name": "shell", "input": {}}})
}

fn arguments(index: &Value, json: &str) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": json}})
}

fn stop() -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
}

#[test]
fn blocks_that_share_an_index_are_all_there() {
    let whole = reply(&[
        text_block(0, "Hi"),
        call_block(0, "a"),
        arguments(&json!(0), "{\"n\":"),
        arguments(&json!(0), "1}"),
        call_block(0, "b"),
        arguments(&json!("0"), "{\"n\":2}"),
        call_block(1, "c"),
        // Without an index it belongs to the last block.
        arguments(&Value::Null, "{\"n\":3}"),
        stop(),
    ]);
    let call = |id: &str, n: u8| json!({"tool_call": {"id": id, "name": "shell", "arguments": format!("{{\"n\":{n}}}")}});
    assert_eq!(
        shown(&whole)["content"],
        json!([{"text": "Hi"}, call("a", 1), call("b", 2), call("c", 3)])
    );
}

#[test]
fn a_text_whose_block_never_began_is_read() {
    let part =
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}});
    assert_eq!(shown(&reply(&[part, stop()]))["content"], json!([{"text": "Hi"}]));
}

#[test]
fn a_message_that_comes_whole_is_an_answer() {
    let whole = reply(&[json!({
        "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [{"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "a", "name": "shell", "input": {"n": 1}}],
        "usage": {"input_tokens": 9, "output_tokens": 5},
    })]);
    assert_eq!(
        shown(&whole),
        json!({
            "content": [{"text": "Hi"}, {"tool_call": {"id": "a", "name": "shell", "arguments": "{\"n\":1}"}}],
            "stop": "tool_use",
            "usage": [9, 5, 0, 0],
        })
    );
}

#[test]
fn a_later_count_replaces_the_one_before() {
    let start = |usage: Value| json!({"type": "message_start", "message": {"usage": usage}});
    let end =
        |usage: Value| json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage});
    for (first, last, expected) in rows! {
        // Cache tokens are reported only at the end.
        json!({"input_tokens": 10_000, "output_tokens": 1}),
        json!({"input_tokens": 200, "cache_read_input_tokens": 9_800, "output_tokens": 50}),
        [200, 50, 9_800, 0];
        json!({"input_tokens": 30, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 5, "output_tokens": 1}),
        json!({"output_tokens": 50}),
        [30, 50, 7, 5];
        json!({"input_tokens": 0, "output_tokens": 0}), json!({"input_tokens": 30, "output_tokens": 50}), [30, 50, 0, 0];
        // The end reports zeros.
        json!({"input_tokens": 30, "cache_read_input_tokens": 7, "output_tokens": 9}),
        json!({"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0}),
        [30, 9, 7, 0];
        json!({"input_tokens": 30}),
        json!({"input_tokens": 0, "cache_read_input_tokens": 30, "output_tokens": 50}),
        [0, 50, 30, 0];
        // Counts in unusual formats.
        json!({"input_tokens": 100.0, "cache_read_input_tokens": "7", "cache_creation_input_tokens": null}),
        json!({"input_tokens": [], "output_tokens": 5e1}),
        [100, 50, 7, 0];
    } {
        let usage = reply(&[start(first.clone()), end(last.clone())]).usage;
        let figures = [
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
        ];
        assert_eq!(figures, expected, "{first} {last}");
    }
}

#[test]
fn halves_of_a_pair_are_joined_over_parts_and_replaced_alone() {
    let part = |kind: &str, escaped: &str| {
        let field = kind.replace("input_json", "partial_json");
        format!(
            "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"{kind}_delta\",\"{field}\":\"{escaped}\"}}}}\n\n"
        )
    };
    for (block, kind, expected) in rows! {
        text_block(0, ""), "text", json!({"text": "😀\u{FFFD}!"});
        call_block(0, "a"), "input_json", json!({"tool_call": {"id": "a", "name": "shell", "arguments": "😀\u{FFFD}!"}});
    } {
        let stream = [
            events(&[block]),
            part(kind, r"\ud83d"),
            part(kind, r"\ude00\ud99c"),
            part(kind, "!"),
            events(&[stop()]),
        ];
        let reply = decode(Message::new(true), stream.concat().as_bytes(), &[]).unwrap();
        assert_eq!(shown(&reply)["content"][0], expected);
    }
}

#[test]
fn what_nobody_needs_spoils_nothing() {
    let stream = concat!(
        ": keep-alive\n\nevent: ping\ndata:\n\nevent: ping\ndata: pong\n\nevent: ping\ndata: {}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"Hi\",\"score\":NaN}}\n\n",
        "data: {\"type\":\"metrics\",\"tps\":-Infinity}\n\n",
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
        // After the stop reason no event is fatal.
        "data: {\"type\":\n\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"late\"}}\n\ndata: [DONE]\n\n",
    );
    let reply = decode(Message::new(true), stream.as_bytes(), &[]).unwrap();
    assert_eq!(shown(&reply)["content"], json!([{"text": "Hi"}]));
}
