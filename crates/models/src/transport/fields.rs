//! Fields of a request that the server does not know. After its refusal we omit them or use their other name.

use std::collections::BTreeMap;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::value::{RawValue, to_raw_value};

/// Words of a refusal that is about a field itself, and not about its value.
const UNKNOWN: [&str; 22] = [
    "unknown",
    "unrecognized",
    "unrecognised",
    "unsupported",
    "not supported",
    "not support",
    "not permitted",
    "not allowed",
    "unexpected",
    "extra_forbidden",
    "additional propert",
    "cannot find field",
    "no such",
    "not available",
    "unavailable",
    "not implemented",
    "instead",
    "should not exist",
    "not recognized",
    "not accept",
    "invalid parameter",
    "deprecated",
];
/// Fields that are never omitted: without them there is no request or no conversation.
const NEEDED: [&str; 24] = [
    "model",
    "messages",
    "contents",
    "input",
    "system",
    "instructions",
    "systemInstruction",
    "tools",
    "stream",
    "role",
    "content",
    "type",
    "text",
    "name",
    "id",
    "parts",
    "function",
    "tool_calls",
    "tool_call_id",
    "tool_use_id",
    "call_id",
    "output",
    "functionCall",
    "functionResponse",
];
/// Fields that the clients omit themselves, together with dependent fields.
const OF_CLIENTS: [&str; 7] = [
    "tool_choice",
    "reasoning_effort",
    "thinking",
    "display",
    "block_binding",
    "effort",
    "summary",
];
/// Fields with arbitrary values of others: schemas, arguments.
const FOREIGN: [&str; 8] = [
    "parameters",
    "input_schema",
    "parametersJsonSchema",
    "schema",
    "responseJsonSchema",
    "arguments",
    "args",
    "input",
];
/// Maximum depth to search for fields. Deeper ones are opaque data of the provider.
const DEPTH: usize = 16;
/// Alternative names of a field.
const NAMES: [[&str; 2]; 2] = [
    ["max_tokens", "max_completion_tokens"],
    ["max_completion_tokens", "max_tokens"],
];

/// Fields that a server has rejected. The client remembers them until it is dropped.
#[derive(Debug, Default)]
pub(super) struct RefusedFields(Mutex<Vec<Refused>>);

/// A refused field.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refused {
    name: String,
    /// Alternative name to use.
    other: Option<&'static str>,
}

type Fields<'a> = BTreeMap<String, &'a RawValue>;

impl RefusedFields {
    /// Returns the body without the rejected fields.
    pub(super) fn fitted(&self, body: &Bytes) -> Bytes {
        let refused = self.0.lock().clone();
        if refused.is_empty() {
            return body.clone();
        }
        let fitted = serde_json::from_slice(body).and_then(|whole| without(whole, &refused, 0));
        fitted.map_or_else(
            |_| body.clone(),
            |fitted| Bytes::from(Box::<str>::from(fitted).into_string()),
        )
    }

    /// Learns from the refusal of this body. Returns whether the next body will differ.
    pub(super) fn learn(&self, body: &[u8], said: &str) -> bool {
        let Some(name) = refused_field(body, said) else {
            return false;
        };
        let mut known = self.0.lock();
        let is_known = |name: &str| known.iter().any(|field| field.name == name);
        if is_known(&name) {
            return false;
        }
        let other = NAMES
            .into_iter()
            .find(|[own, other]| *own == name && !is_known(other));
        let other = other.map(|[_, other]| other);
        tracing::warn!(
            field = name,
            instead = other,
            "the model's provider refuses a field of requests; requests now omit it"
        );
        known.push(Refused { name, other });
        true
    }
}

/// Removes or renames these fields in a value at any depth. The order of the remaining fields changes, but deterministically.
fn without(value: &RawValue, refused: &[Refused], depth: usize) -> serde_json::Result<Box<RawValue>> {
    let text = value.get();
    if depth > DEPTH || !refused.iter().any(|field| text.contains(&field.name)) {
        return Ok(value.to_owned());
    }
    if text.starts_with('[') {
        let values: Vec<&RawValue> = serde_json::from_str(text)?;
        let values: serde_json::Result<Vec<_>> = values
            .into_iter()
            .map(|value| without(value, refused, depth + 1))
            .collect();
        return to_raw_value(&values?);
    }
    if !text.starts_with('{') {
        return Ok(value.to_owned());
    }
    let mut fields: Fields<'_> = serde_json::from_str(text)?;
    for Refused { name, other } in refused {
        if let (Some(value), Some(other)) = (fields.remove(name), other) {
            fields.insert((*other).to_owned(), value);
        }
    }
    let fields: serde_json::Result<BTreeMap<_, _>> = fields
        .into_iter()
        .map(|(name, value)| {
            let is_foreign = FOREIGN.contains(&name.as_str()) && !is_list_of_turns(&name, value);
            let value = if is_foreign {
                value.to_owned()
            } else {
                without(value, refused, depth + 1)?
            };
            Ok((name, value))
        })
        .collect();
    to_raw_value(&fields?)
}

/// Returns the innermost field of a body that a refusal names as unknown.
fn refused_field(body: &[u8], said: &str) -> Option<String> {
    let lower = said.to_ascii_lowercase();
    if !UNKNOWN.iter().any(|words| lower.contains(words)) {
        return None;
    }
    let mut depths = BTreeMap::new();
    collect_names(serde_json::from_slice(body).ok()?, 0, &mut depths);
    let named = || depths.iter().filter(|(name, _)| is_named(name, said));
    if named().any(|(name, _)| OF_CLIENTS.contains(&name.as_str())) {
        return None;
    }
    // A refusal of a schema also names the field that contains it.
    let is_kept = |name: &str| NEEDED.contains(&name) || FOREIGN.contains(&name);
    let mut left_out = named().filter(|(name, _)| !is_kept(name));
    let first = left_out.next()?;
    let innermost = left_out.fold(first, |best, next| if next.1 > best.1 { next } else { best });
    Some(innermost.0.clone())
}

/// Collects the names of all fields of a value with their depths.
fn collect_names(value: &RawValue, depth: usize, names: &mut BTreeMap<String, usize>) {
    let text = value.get();
    if depth > DEPTH {
        return;
    }
    if text.starts_with('[') {
        for value in serde_json::from_str::<Vec<&RawValue>>(text).unwrap_or_default() {
            collect_names(value, depth + 1, names);
        }
    } else if text.starts_with('{') {
        for (name, value) in serde_json::from_str::<Fields<'_>>(text).unwrap_or_default() {
            if !FOREIGN.contains(&name.as_str()) || is_list_of_turns(&name, value) {
                collect_names(value, depth + 1, names);
            }
            names.entry(name).or_insert(depth);
        }
    }
}

/// Whether a field is the conversation in Responses. Elsewhere the same name means arguments.
fn is_list_of_turns(name: &str, value: &RawValue) -> bool {
    name == "input" && value.get().starts_with('[')
}

/// Whether a refusal names this field: as a separate word that is recognizable as an identifier or quoted.
fn is_named(name: &str, said: &str) -> bool {
    let is_identifier = name.contains(|c: char| c == '_' || c.is_ascii_uppercase());
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    said.match_indices(name).any(|(at, _)| {
        let before = said.get(..at).and_then(|text| text.chars().next_back());
        let after = said.get(at + name.len()..).and_then(|text| text.chars().next());
        let is_whole = !before.is_some_and(is_of_name) && !after.is_some_and(is_of_name);
        let is_quoted = matches!(before, Some('\'' | '"' | '`' | '(' | '.'))
            && matches!(after, Some('\'' | '"' | '`' | ')' | '.' | ':'));
        let is_first = at == 0 && after == Some(':');
        is_whole && (is_identifier || is_quoted || is_first)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns a body after these refusals, and whether each led to another attempt.
    fn after(body: &Value, refusals: &[&str]) -> (Value, Vec<bool>) {
        let refused = RefusedFields::default();
        let whole = Bytes::from(serde_json::to_vec(body).unwrap());
        let learned = refusals.iter().map(|said| {
            let sent = refused.fitted(&whole);
            refused.learn(&sent, said)
        });
        let learned = learned.collect();
        (serde_json::from_slice(&refused.fitted(&whole)).unwrap(), learned)
    }

    #[test]
    fn a_field_that_a_server_does_not_know_is_left_out_or_renamed() {
        let chat = json!({"model": "m", "max_tokens": 7, "store": false, "stream_options": {"include_usage": true},
            "messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_schema"}});
        let without = |names: &[&str]| {
            let mut body = chat.clone();
            for name in names {
                body.as_object_mut().unwrap().remove(*name);
            }
            body
        };
        let mut renamed = without(&["max_tokens"]);
        renamed["max_completion_tokens"] = json!(7);
        for (said, expected) in [
            (
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                &renamed,
            ),
            (
                "Unrecognized request argument supplied: stream_options",
                &without(&["stream_options"]),
            ),
            (
                "body.stream_options: Extra inputs are not permitted",
                &without(&["stream_options"]),
            ),
            (
                r#"{"detail":[{"type":"extra_forbidden","loc":["body","store"],"msg":"Extra inputs are not permitted"}]}"#,
                &without(&["store"]),
            ),
            ("store: Extra inputs are not permitted", &without(&["store"])),
            ("Unknown parameter. (store)", &without(&["store"])),
            (
                "property 'response_format' is unsupported",
                &without(&["response_format"]),
            ),
        ] {
            assert_eq!(after(&chat, &[said]), (expected.clone(), vec![true]), "{said}");
        }
    }

    #[test]
    fn a_field_within_another_is_left_out_alone() {
        let gemini = json!({"contents": [], "generationConfig": {"maxOutputTokens": 7, "thinkingConfig": {"thinkingLevel": "low"}}});
        let said = "Invalid JSON payload received. Unknown name \"thinkingConfig\" at 'generation_config': Cannot find field.";
        let (body, learned) = after(&gemini, &[said, said]);
        assert_eq!(
            body,
            json!({"contents": [], "generationConfig": {"maxOutputTokens": 7}})
        );
        assert_eq!(learned, [true, false]);
    }

    #[test]
    fn a_field_is_left_out_wherever_it_is_and_what_is_not_ours_stays() {
        let schema = json!({"properties": {"cache_control": {"type": "string"}}});
        let anthropic = json!({
            "system": [{"text": "cache_control", "cache_control": {"type": "ephemeral"}}],
            "tools": [{"input_schema": schema, "cache_control": {"type": "ephemeral"}}],
            "messages": [{"content": [{"type": "tool_use", "input": {"cache_control": 1.50}, "cache_control": null}]}],
        });
        let (body, learned) = after(
            &anthropic,
            &["tools.6.cache_control: Extra inputs are not permitted"],
        );
        assert_eq!(
            body,
            json!({
                "system": [{"text": "cache_control"}],
                "tools": [{"input_schema": schema}],
                "messages": [{"content": [{"type": "tool_use", "input": {"cache_control": 1.5}}]}],
            })
        );
        assert_eq!(learned, [true]);
    }

    #[test]
    fn a_field_whose_other_name_is_refused_too_is_left_out() {
        let (body, learned) = after(
            &json!({"model": "m", "max_tokens": 7}),
            &[
                "unknown field `max_tokens`",
                "unknown field `max_completion_tokens`",
            ],
        );
        assert_eq!((body, learned), (json!({"model": "m"}), vec![true, true]));
    }

    #[test]
    fn another_refusal_changes_nothing() {
        let body = json!({"model": "m", "max_tokens": 7, "store": false, "tool_choice": "none", "messages": [], "stream": true,
            "reasoning": {"effort": "low"}});
        for said in [
            "max_tokens: 200000 > 128000, which is the maximum allowed number of output tokens",
            "max_tokens is too large: 8192. This model supports at most 4096 completion tokens.",
            "The model store is unavailable",
            "Unknown parameter: 'tool_choice'",
            "Unsupported value: 'reasoning.effort' does not support 'minimal' with this model.",
            "Unknown model 'm'",
            "'messages' is not supported",
            "unknown variant `tool`, expected one of `user`, `system` in messages[2].role",
            "'stream' is not supported",
            "",
        ] {
            assert_eq!(after(&body, &[said]), (body.clone(), vec![false]), "{said}");
        }
    }

    #[test]
    fn a_body_is_left_alone_until_a_field_is_refused() {
        let body = Bytes::from_static(br#"{ "z": 1, "a": 2 }"#);
        assert_eq!(RefusedFields::default().fitted(&body), body);
    }
}
