//! Rules of tools that several providers have: names, arguments and schemas.

use serde_json::Value;

use super::text;

/// Most characters of a name.
const NAME_CHARS: usize = 64;

/// Checks a name in a request of `OpenAI`'s protocols, in a declaration or in a call of the conversation.
///
/// Sources: the API reference of Chat Completions, "tools.function.name"; mcp-use/mcp-use#90 (calls of the conversation);
/// run-llama/llama_index#16093 (declarations).
pub(super) fn openai_name(place: &str, name: &str) -> Result<(), String> {
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(format!(
            "Invalid '{place}': string does not match pattern. Expected a string that matches the pattern \
             '^[a-zA-Z0-9_-]+$'."
        ));
    }
    shorter(place, name, NAME_CHARS)
}

/// Checks the length of a text in a request of `OpenAI`'s protocols.
pub(super) fn shorter(place: &str, text: &str, most: usize) -> Result<(), String> {
    let length = text.chars().count();
    if length <= most {
        return Ok(());
    }
    Err(format!(
        "Invalid '{place}': string too long. Expected a string with maximum length {most}, but got a string with \
         length {length} instead."
    ))
}

/// Checks a name in a request to Anthropic. The documented maximum is 64 or 128 characters, depending on the model.
///
/// Sources: platform.claude.com/docs, "Define tools"; docker/docker-agent#3974 (calls of the conversation).
pub(super) fn anthropic_name(place: &str, name: &str) -> Result<(), String> {
    let length = name.chars().count();
    if (1..=NAME_CHARS).contains(&length) && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(format!(
        "{place}: String should match pattern '^[a-zA-Z0-9_-]{{1,{NAME_CHARS}}}$'"
    ))
}

/// Checks a name in a request to Gemini.
///
/// Sources: ai.google.dev/api/caching, `FunctionDeclaration`; kaitranntt/ccs#25; google-gemini/gemini-cli#7869.
pub(super) fn gemini_name(place: &str, name: &str) -> Result<(), String> {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_taken = |c: char| is_plain(c) || matches!(c, '.' | ':');
    if starts_well && name.chars().all(is_taken) && name.chars().count() <= NAME_CHARS {
        return Ok(());
    }
    Err(format!(
        "* GenerateContentRequest.{place}: Invalid function name. Must start with a letter or an underscore. Must be \
         alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of \
         {NAME_CHARS}."
    ))
}

pub(super) const fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// Checks the arguments of a call, which `OpenAI`'s protocols carry as text. Servers that parse them accept only a JSON
/// object, without half of a surrogate pair.
///
/// Sources: anthropics/claude-code#68325, anomalyco/opencode#17758 (surrogates); mudler/LocalAI#10256, xorbitsai/inference#5060 (objects).
pub(super) fn arguments(place: &str, arguments: &str) -> Result<(), String> {
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(_)) => Ok(()),
        Ok(_) => Err(format!("Invalid '{place}': expected a JSON object.")),
        Err(error) => Err(format!("Invalid '{place}': {error}.")),
    }
}

/// Checks a schema of `OpenAI`'s protocols.
///
/// Sources: makenotion/notion-mcp-server#340 (top level); sigoden/aichat#1049 and gumloop/guMCP#136 (arrays).
pub(super) fn openai_schema(tool: &str, schema: &Value) -> Result<(), String> {
    const COMBINED: [&str; 5] = ["oneOf", "anyOf", "allOf", "enum", "not"];
    let refused = |what: &str| Err(format!("Invalid schema for function '{tool}': {what}"));
    if text(schema, "type") != "object" || COMBINED.iter().any(|word| schema.get(word).is_some()) {
        return refused(
            "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
        );
    }
    match array_without_items(schema, &mut Vec::new()) {
        Some(place) => refused(&format!("In context=({place}), array schema missing items.")),
        None => Ok(()),
    }
}

/// The place of an array that has no schema for its elements.
fn array_without_items(schema: &Value, place: &mut Vec<String>) -> Option<String> {
    let is_array = match schema.get("type") {
        Some(Value::String(name)) => name == "array",
        Some(Value::Array(names)) => names.iter().any(|name| name == "array"),
        Some(_) | None => false,
    };
    if is_array && schema.get("items").is_none() {
        return Some(place.join(", "));
    }
    let mut inside = |steps: &[&str], schema: &Value| {
        place.extend(steps.iter().map(|step| format!("'{step}'")));
        let found = array_without_items(schema, place);
        place.truncate(place.len() - steps.len());
        found
    };
    for (word, value) in schema.as_object().into_iter().flatten() {
        let found = match (word.as_str(), value) {
            ("properties" | "$defs" | "definitions", Value::Object(named)) => named
                .iter()
                .find_map(|(name, schema)| inside(&[word, name], schema)),
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => schemas
                .iter()
                .enumerate()
                .find_map(|(at, schema)| inside(&[word, &at.to_string()], schema)),
            ("items" | "additionalProperties" | "not", Value::Object(_)) => inside(&[word], value),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Checks a schema of Anthropic's.
///
/// Sources: marianfoo/mcp-sap-docs#51, zereight/gitlab-mcp#550 (top level); decocms/studio#6874 (keys).
pub(super) fn anthropic_schema(number: usize, schema: &Value) -> Result<(), String> {
    let place = format!("tools.{number}.custom.input_schema");
    if ["oneOf", "anyOf", "allOf"]
        .iter()
        .any(|word| schema.get(word).is_some())
    {
        return Err(format!(
            "{place}: input_schema does not support oneOf, allOf, or anyOf at the top level"
        ));
    }
    match schema.get("type") {
        Some(Value::String(name)) if name == "object" => {}
        Some(_) => return Err(format!("{place}.type: Input should be 'object'")),
        None => return Err(format!("{place}.type: Field required")),
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for name in properties.into_iter().flatten().map(|(name, _)| name) {
        let is_taken = |c: char| is_plain(c) || c == '.';
        if !(1..=NAME_CHARS).contains(&name.chars().count()) || !name.chars().all(is_taken) {
            return Err(format!(
                "{place}.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,{NAME_CHARS}}}$'"
            ));
        }
    }
    Ok(())
}
