//! `OpenAI`'s Responses: calls and their outputs, and reasoning that comes back in front of its call.

use std::collections::HashSet;

use serde_json::Value;

use super::{Rules, Seen, items, pictures, text, tools};

/// Most characters of a `call_id`. Source: openclaw/openclaw#875.
const CALL_ID_CHARS: usize = 64;
/// The least `max_output_tokens`. Source: vectorize-io/hindsight#58.
const LEAST_OUTPUT: u64 = 16;

/// Checks and counts a request.
pub(crate) fn check(rules: &mut Rules, request: &Value) -> Result<Seen, String> {
    let input = items(request, "input");
    if let Some(most) = request.get("max_output_tokens").and_then(Value::as_u64)
        && most < LEAST_OUTPUT
    {
        return Err(format!(
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {LEAST_OUTPUT}, but got \
             {most} instead."
        ));
    }
    declarations(items(request, "tools"))?;
    reasoning_is_followed(input)?;
    for (number, item) in input.iter().enumerate() {
        formed(number, item)?;
    }
    let mut ids = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    let mut reasoning: Option<&Value> = None;
    for item in input {
        let kind = text(item, "type");
        let id = text(item, "call_id");
        match kind {
            "function_call" => {
                came_back(rules, id, reasoning)?;
                if !ids.insert(id) {
                    return Err(format!("Duplicate 'call_id' {id} in input."));
                }
                open.push(id);
            }
            "function_call_output" => {
                let Some(place) = open.iter().position(|call| *call == id) else {
                    return Err(format!(
                        "No tool call found for function call output with call_id {id}."
                    ));
                };
                open.remove(place);
            }
            "reasoning" if text(item, "encrypted_content").is_empty() => {
                return Err(format!(
                    "Item with id '{}' not found. Items are not persisted when `store` is set to false.",
                    text(item, "id")
                ));
            }
            _ => {}
        }
        match kind {
            "reasoning" => reasoning = Some(item),
            // Calls of one answer share the reasoning in front of the first.
            "function_call" => {}
            _ => reasoning = None,
        }
    }
    if let Some(id) = open.first() {
        return Err(format!("No tool output found for function call {id}."));
    }
    let part = |field: &str| request.get(field).unwrap_or(&Value::Null);
    Ok(Seen {
        counted: rules.count(&[part("tools"), part("instructions"), part("input")]),
        ..Seen::default()
    })
}

fn declarations(tools: &[Value]) -> Result<(), String> {
    for (number, tool) in tools.iter().enumerate() {
        let name = text(tool, "name");
        tools::openai_name(&format!("tools[{number}].name"), name)?;
        if let Some(schema) = tool.get("parameters") {
            tools::openai_schema(name, schema)?;
        }
    }
    Ok(())
}

/// Checks a single item.
fn formed(number: usize, item: &Value) -> Result<(), String> {
    let place = |field: &str| format!("input[{number}].{field}");
    if text(item, "type") == "function_call" {
        tools::openai_name(&place("name"), text(item, "name"))?;
        tools::arguments(&place("arguments"), text(item, "arguments"))?;
        tools::shorter(&place("call_id"), text(item, "call_id"), CALL_ID_CHARS)?;
    }
    // Source: jlcodes99/cockpit-tools#2090.
    let id = text(item, "id");
    let prefix = match text(item, "type") {
        "function_call" => "fc",
        "message" => "msg",
        "reasoning" => "rs",
        _ => "",
    };
    if !id.is_empty() && !id.starts_with(prefix) {
        return Err(format!(
            "Invalid '{}': '{id}'. Expected an ID that begins with '{prefix}'.",
            place("id")
        ));
    }
    for part in ["content", "output"].iter().flat_map(|field| items(item, field)) {
        if text(part, "type") == "input_image" {
            pictures::openai(&place("content.image_url"), text(part, "image_url"))?;
        }
    }
    Ok(())
}

/// Checks that each reasoning item is followed by another item of its answer.
fn reasoning_is_followed(input: &[Value]) -> Result<(), String> {
    let behind = input.iter().skip(1).map(Some).chain([None]);
    for (item, behind) in input.iter().zip(behind) {
        let is_followed = behind.is_some_and(|behind| match text(behind, "type") {
            "function_call" | "reasoning" => true,
            "message" => text(behind, "role") == "assistant",
            _ => false,
        });
        if text(item, "type") == "reasoning" && !is_followed {
            return Err(format!(
                "Item '{}' of type 'reasoning' was provided without its required following item.",
                text(item, "id")
            ));
        }
    }
    Ok(())
}

/// Checks that the reasoning in front of a call is that of the answer, unchanged.
fn came_back(rules: &Rules, call: &str, reasoning: Option<&Value>) -> Result<(), String> {
    let Some(required) = rules.required.get(call) else {
        return Ok(());
    };
    let Some(reasoning) = reasoning else {
        return Err(format!(
            "Item '{call}' of type 'function_call' was provided without its required 'reasoning' item."
        ));
    };
    if text(reasoning, "encrypted_content") == required {
        return Ok(());
    }
    Err(format!(
        "The encrypted content for item {} could not be verified.",
        text(reasoning, "id")
    ))
}
