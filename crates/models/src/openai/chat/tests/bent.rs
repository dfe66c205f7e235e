//! Servers that deviate from the protocol.

use serde_json::json;
use sortie_agent::model::StopReason;

use super::{
    USAGE,
    answers::{calls, finish, read},
    text,
};
use crate::{answer::Failure, openai::testing::short};

#[test]
fn names_and_indexes_of_calls_come_in_any_form() {
    let f = |name: &str, arguments: &str| json!({"name": name, "arguments": arguments});
    let named =
        |name: &str, arguments: &str| json!([{"index": 0, "id": "a", "function": f(name, arguments)}]);
    let more = |arguments: &str| json!([{"index": 0, "function": {"arguments": arguments}}]);
    for pieces in [
        vec![named("she", ""), named("ll", ""), more("{\"n\":1}")],
        vec![named("she", ""), named("ll", "{\"n\""), more(":1}")],
        // The name so far, and the whole name again.
        vec![named("she", ""), named("shell", ""), named("shell", "{\"n\":1}")],
        vec![named("shell", "{\"n\""), named("shell", ":1}")],
        vec![
            json!({"index": "0", "id": "a", "function": f("shell", "{\"n\"")}),
            json!({"index": 0.0, "function": {"arguments": ":1}"}}),
            json!("none"),
        ],
    ] {
        let reply = read(pieces.iter().map(calls).chain([finish("tool_calls")])).unwrap();
        assert_eq!(short(&reply), [r#"shell({"n":1})#a"#], "{pieces:?}");
    }
}

#[test]
fn an_end_that_is_no_success_is_none() {
    for (reason, expected) in [
        ("model_context_window_exceeded", StopReason::MaxTokens),
        ("sensitive", StopReason::Refusal),
    ] {
        assert_eq!(read([text("x"), finish(reason)]).unwrap().stop_reason, expected);
    }
    let (failure, _) = read([text("x"), finish("something_new")]).unwrap_err();
    assert_eq!(
        failure,
        Failure::Garbled("the model ended with something_new".to_owned())
    );
    let (failure, _) = read([text("x"), finish("network_error")]).unwrap_err();
    assert!(matches!(failure, Failure::Reported(..)), "{failure:?}");
}

#[test]
fn figures_are_read_from_everywhere_and_of_any_type() {
    let groq = json!({"choices": [], "x_groq": {"usage": {"prompt_tokens": 15, "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 6}}}});
    let of_another_type = json!({"choices": [], "usage": {"prompt_tokens": 15.0, "completion_tokens": "4", "total_tokens": [],
        "prompt_tokens_details": {"cached_tokens": 6e0}}});
    for figures in [groq, of_another_type] {
        let usage = read([text("x"), finish("stop"), figures.to_string()])
            .unwrap()
            .usage;
        assert_eq!(
            [usage.input_tokens, usage.output_tokens, usage.cache_read_tokens],
            [9, 4, 6]
        );
    }
}

#[test]
fn tokens_written_to_the_cache_are_told_by_any_name() {
    for figures in [
        json!({"prompt_tokens": 1_000, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 700}),
        json!({"prompt_tokens": 1_000, "prompt_tokens_details": {"cached_tokens": 200, "cache_creation_tokens": 700}}),
        json!({"prompt_tokens": 100, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 700}),
    ] {
        let usage = json!({"choices": [], "usage": figures}).to_string();
        let usage = read([text("x"), finish("stop"), usage]).unwrap().usage;
        assert_eq!(
            [
                usage.input_tokens,
                usage.cache_read_tokens,
                usage.cache_write_tokens
            ],
            [100, 200, 700],
            "{figures}"
        );
    }
}

#[test]
fn an_answer_in_one_piece_is_read_like_a_stream() {
    let function = json!({"name": "shell", "arguments": "{}"});
    let whole = json!({
        "object": "chat.completion", "usage": {"prompt_tokens": 9, "completion_tokens": 4},
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "Hi", "tool_calls": [{"id": "a", "type": "function", "function": function}]}}],
    });
    let reply = read([whole.to_string()]).unwrap();
    assert_eq!(short(&reply), ["Hi", "shell({})#a"]);
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (9, 4));
    assert_eq!(reply.stop_reason, StopReason::ToolUse);
}

#[test]
fn halves_of_a_pair_are_joined_over_chunks_and_replaced_alone() {
    let chunks = |delta: fn(&str) -> String| {
        [r"\ud83d", "", r"\ude00\ud99c", "!"]
            .map(|escaped| format!("{{\"choices\":[{{\"delta\":{}}}]}}", delta(escaped)))
    };
    let content = chunks(|escaped| format!("{{\"content\":\"{escaped}\"}}"));
    let arguments = chunks(|escaped| {
        format!(
            "{{\"tool_calls\":[{{\"index\":0,\"id\":\"a\",\"function\":{{\"name\":\"shell\",\"arguments\":\"{escaped}\"}}}}]}}"
        )
    });
    let reasoning = chunks(|escaped| format!("{{\"reasoning_content\":\"{escaped}\"}}"));
    for (chunks, expected) in [
        (content, "😀\u{FFFD}!"),
        (arguments, "shell(😀\u{FFFD}!)#a"),
        (reasoning, "{\"reasoning_content\":\"😀\u{FFFD}!\"}"),
    ] {
        let reply = read(chunks.into_iter().chain([finish("stop")])).unwrap();
        assert_eq!(short(&reply), [expected]);
    }
}

#[test]
fn what_nobody_needs_spoils_nothing() {
    let reply = read([
        r#"{"choices":null,"usage":null,"id":null}"#,
        r#"{"choices":[{"delta":{"content":"Hel"},"logprobs":{"content":[{"logprob":-Infinity},NaN]}}]}"#,
        "ping",
        "",
        "[null]",
        r#"{"choices":[{"delta":{"content":"lo"}}],"timings":{"tps":NaN}}"#,
        &finish("stop"),
        r#"{"choices":[{"del"#,
        r#"{"error":{"message":"late"}}"#,
        USAGE,
        "[DONE]",
    ])
    .unwrap();
    assert_eq!(short(&reply), ["Hello"]);
    assert_eq!(reply.usage.output_tokens, 5);
}

#[test]
fn chunks_that_come_as_one_event_are_all_read() {
    let glued = [text("Hel"), text("lo"), finish("stop")].join("\ndata: ");
    assert_eq!(short(&read([&*glued, "[DONE]"]).unwrap()), ["Hello"]);
}

#[test]
fn arguments_in_many_pieces_take_time_in_proportion() {
    let began = std::time::Instant::now();
    let piece = |arguments: &str| {
        calls(&json!([{"index": 0, "id": "a", "function": {"name": "shell", "arguments": arguments}}]))
    };
    let word = "x".repeat(20);
    let pieces = std::iter::repeat_n(piece(&word), 100_000);
    let whole = [piece("{\"n\":\"")]
        .into_iter()
        .chain(pieces)
        .chain([piece("\"}"), finish("stop")]);
    assert_eq!(
        short(&read(whole).unwrap())[0].len(),
        2_000_000 + "shell({\"n\":\"\"})#a".len()
    );
    // Parsing the arguments again for each piece would take minutes.
    assert!(
        began.elapsed() < std::time::Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
}
