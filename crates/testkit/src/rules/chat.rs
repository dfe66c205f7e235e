//! `OpenAI`'s Chat Completions: calls and their results.

use serde_json::Value;

use super::{Rules, Seen, items, text};

/// Checks and counts a request.
pub(crate) fn check(rules: &mut Rules, request: &Value) -> Result<Seen, String> {
    let mut open: Vec<&str> = Vec::new();
    for (number, message) in items(request, "messages").iter().enumerate() {
        if text(message, "role") == "tool" {
            let id = text(message, "tool_call_id");
            let Some(place) = open.iter().position(|call| *call == id) else {
                return Err(format!(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with \
                     'tool_calls'. (messages.[{number}].role)"
                ));
            };
            open.remove(place);
            continue;
        }
        unanswered(&open)?;
        open = items(message, "tool_calls")
            .iter()
            .map(|call| text(call, "id"))
            .collect();
    }
    unanswered(&open)?;
    let tools = request.get("tools").unwrap_or(&Value::Null);
    let messages = request.get("messages").unwrap_or(&Value::Null);
    Ok(Seen {
        counted: rules.count(&[tools, messages]),
        ..Seen::default()
    })
}

fn unanswered(calls: &[&str]) -> Result<(), String> {
    if calls.is_empty() {
        return Ok(());
    }
    Err(format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
         'tool_call_id'. The following tool_call_ids did not have response messages: {}",
        calls.join(", ")
    ))
}
