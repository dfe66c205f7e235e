//! The Gemini API: as many responses as calls, and the signature of each first call.

use serde_json::Value;

use super::{Rules, Seen, items, pictures, text, tools};

/// Checks and counts a request.
pub(crate) fn check(rules: &mut Rules, request: &Value) -> Result<Seen, String> {
    let contents = items(request, "contents");
    declarations(request)?;
    ordered(contents)?;
    for (number, message) in contents.iter().enumerate() {
        for (at, part) in items(message, "parts").iter().enumerate() {
            formed(&format!("contents[{number}].parts[{at}]"), part)?;
        }
    }
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

fn declarations(request: &Value) -> Result<(), String> {
    for (number, group) in items(request, "tools").iter().enumerate() {
        for (at, function) in items(group, "functionDeclarations").iter().enumerate() {
            let place = format!("tools[{number}].function_declarations[{at}].name");
            tools::gemini_name(&place, text(function, "name"))?;
        }
    }
    Ok(())
}

/// Checks that a call follows the user, and that the user speaks last.
///
/// Sources: google-gemini/gemini-cli#26486 (calls), pipecat-ai/pipecat#5821 (the last turn).
fn ordered(contents: &[Value]) -> Result<(), String> {
    let mut before = "";
    for (number, message) in contents.iter().enumerate() {
        let role = text(message, "role");
        if !matches!(role, "user" | "model") {
            return Err("Please use a valid role: user, model.".to_owned());
        }
        let calls = items(message, "parts")
            .iter()
            .any(|part| part.get("functionCall").is_some());
        if calls && before != "user" {
            return Err(
                "Please ensure that function call turn comes immediately after a user turn or after a function \
                 response turn."
                    .to_owned(),
            );
        }
        if items(message, "parts").is_empty() {
            return Err(format!(
                "* GenerateContentRequest.contents[{number}].parts: contents.parts must not be empty."
            ));
        }
        before = role;
    }
    if before == "model" {
        return Err("Requests ending with a model turn are not supported.".to_owned());
    }
    Ok(())
}

/// Checks a single part. Source: router-for-me/CLIProxyAPI#1293.
fn formed(place: &str, part: &Value) -> Result<(), String> {
    const DATA: [&str; 4] = ["text", "functionCall", "functionResponse", "inlineData"];
    if DATA.iter().filter(|kind| part.get(**kind).is_some()).count() != 1 {
        return Err(format!(
            "* GenerateContentRequest.{place}.data: required oneof field 'data' must have one initialized field"
        ));
    }
    for kind in ["functionCall", "functionResponse"] {
        if let Some(call) = part.get(kind) {
            tools::gemini_name(&format!("{place}.{kind}.name"), text(call, "name"))?;
        }
    }
    let within = part
        .get("functionResponse")
        .map_or(&[][..], |response| items(response, "parts"));
    for data in within
        .iter()
        .chain([part])
        .filter_map(|part| part.get("inlineData"))
    {
        let media_type = text(data, "mimeType");
        if media_type.starts_with("image/") {
            pictures::gemini(place, media_type, text(data, "data"))?;
        }
    }
    Ok(())
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
