//! Replies of models with faulty JSON, thinking between tags, and tool calls as text.
//!
//! Repaired JSON is valid for a strict parser. Thinking is the same whether it arrives in pieces or in one text. Calls only use
//! known tools.

use serde::de::IgnoredAny;
use serde_json::Value;

use near_json::Closing;
use thinking::{AnswerText, Tags};
use written_calls::Alias;

use crate::{Bounds, Input, Line};

#[path = "../../../crates/agent/src/weak/near_json/mod.rs"]
mod near_json;
#[path = "../../../crates/agent/src/weak/thinking/mod.rs"]
mod thinking;
#[path = "../../../crates/agent/src/weak/written_calls/mod.rs"]
mod written_calls;

const BOUNDS: Bounds = Bounds {
    memory: Line {
        base: 64 << 10,
        per_byte: 100,
    },
    time: Line {
        base: 10_000_000,
        per_byte: 10_000,
    },
};
/// Maximum size of a text, in bytes.
const MOST: usize = 32 << 10;
const SCHEMA: &str = r#"{"properties":{"command":{"type":"string"},"count":{"type":"integer"},"json":{}}}"#;

#[derive(Clone, Copy)]
enum Way {
    Json,
    Thinking,
    Calls,
}

/// Checks one input.
pub fn check(data: &[u8]) {
    let input = Input::repeated(data, MOST);
    let Ok(text) = str::from_utf8(&input.bytes) else {
        return;
    };
    match input.way([Way::Json, Way::Thinking, Way::Calls]) {
        Some(Way::Json) => json_of(text),
        Some(Way::Thinking) => thinking_of(text, input.chunks().next().map_or(1, <[u8]>::len)),
        Some(Way::Calls) => calls_of(text),
        None => {}
    }
}

fn json_of(text: &str) {
    let closed = BOUNDS.hold(text.len(), || near_json::object(text, Closing::Required));
    let implied = BOUNDS.hold(text.len(), || near_json::object(text, Closing::Implied));
    if let Ok(json) = &closed {
        assert_eq!(implied.as_ref(), Ok(json), "an end that is there is not implied");
    }
    if let Ok(json) = &implied {
        // A strict parser may reject a number that is too large.
        let read = serde_json::from_str::<IgnoredAny>(json);
        assert!(read.is_ok() && json.starts_with('{'), "no object: {json}");
    }
    if let Ok(strict @ Value::Object(_)) = serde_json::from_str::<Value>(text) {
        let read = closed.map(|json| serde_json::from_str::<Value>(&json).ok());
        assert_eq!(read, Ok(Some(strict)));
    }
}

fn thinking_of(text: &str, size: usize) {
    let tags = Tags::of("");
    let mut parts = AnswerText::new(tags.clone());
    let mut shown = String::new();
    let chars: Vec<char> = text.chars().collect();
    for piece in chars.chunks(size) {
        shown.push_str(&parts.push(&piece.iter().collect::<String>()));
    }
    shown.push_str(&parts.finish());
    let split = BOUNDS.hold(text.len(), || tags.split(text));
    assert!(text.ends_with(split.answer) && text.contains(split.thinking));
    // A closing tag without an opening one is recognized only when it arrives: the text before it has already been shown.
    assert!(
        shown == split.answer || shown.ends_with(split.answer) && !text.trim_start().starts_with("<think>")
    );
}

fn calls_of(text: &str) {
    let find = |name: &str, alias: Alias| {
        (name == "shell" || name == "bash" && alias == Alias::Allowed).then_some(SCHEMA)
    };
    for closing in [Closing::Required, Closing::Implied] {
        let read = BOUNDS.hold(text.len(), || written_calls::read(text, "", closing, &find));
        let Some(written) = read else { continue };
        assert!(text.is_char_boundary(written.at) && !written.calls.is_empty());
        for call in written.calls {
            assert!(find(&call.name, Alias::Allowed).is_some(), "{}", call.name);
        }
    }
}
