//! The Gemini API: as many responses as calls, and the signature of each first call.

use serde_json::Value;

use super::{Rules, Seen, items, text};

/// Checks and counts a request.
pub(crate) fn check(rules: &mut Rules, request: &Value) -> Result<Seen, String> {
    let contents = items(request, "contents");
    let mut called: Vec<&str> = Vec::new();
    for (number, message) in contents.iter().enumerate() {
        let parts = items(message, "parts");
        let named = |kind: &str| -> Vec<&str> {
            parts
                .iter()
                .filter_map(|part| part.get(kind))
                .map(|part| text(part, "name"))
                .collect()
        };
        if named("functionResponse") != called {
            return Err(
                "Please ensure that the number of function response parts is equal to the number of \
                        function call parts of the function call turn."
                    .to_owned(),
            );
        }
        called = named("functionCall");
        if let Some(first) = parts.iter().find(|part| part.get("functionCall").is_some()) {
            signed(rules, first, number)?;
        }
    }
    if !called.is_empty() {
        return Err(
            "Please ensure that function response turn comes immediately after a function call turn."
                .to_owned(),
        );
    }
    let part = |field: &str| request.get(field).unwrap_or(&Value::Null);
    Ok(Seen {
        counted: rules.count(&[part("tools"), part("systemInstruction"), part("contents")]),
        ..Seen::default()
    })
}

/// Checks the signature of the first call of a message.
fn signed(rules: &Rules, part: &Value, message: usize) -> Result<(), String> {
    let signature = text(part, "thoughtSignature");
    let call = part.get("functionCall").unwrap_or(&Value::Null);
    if signature.is_empty() {
        return Err(format!(
            "Function call is missing a thought_signature in functionCall parts. This is required for tools to \
             work correctly, and missing thought_signature may lead to degraded model performance. Additional data, \
             function call `default_api:{}` , position {}.",
            text(call, "name"),
            message + 1
        ));
    }
    match rules.required.get(text(call, "id")) {
        Some(required) if required != signature => Err("Corrupted thought signature.".to_owned()),
        Some(_) | None => Ok(()),
    }
}
