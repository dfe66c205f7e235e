//! `OpenAI`'s Chat Completions: roles, calls and their results, and the rules of other servers of the protocol.

use std::collections::HashSet;

use serde_json::Value;

use super::{Rules, Seen, items, pictures, text, tools};

/// A server of the protocol that is stricter than the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChatProvider {
    /// The rules for all clients.
    #[default]
    Common,
    /// Ids of nine letters and digits, and the assistant's word between a result and the user's.
    Mistral,
    /// Reasoning comes back with each call.
    Deepseek,
}

/// Maximum length of the id of a call in characters. Sources: openclaw/openclaw#875, camel-ai/camel#2215.
const ID_CHARS: usize = 40;

/// Checks and counts a request.
pub(crate) fn check(rules: &mut Rules, request: &Value) -> Result<Seen, String> {
    // Source: langchain-ai/langgraph#5943.
    if request.get("max_tokens").is_some() && request.get("max_completion_tokens").is_some() {
        return Err(
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.".to_owned(),
        );
    }
    declarations(items(request, "tools"))?;
    let messages = items(request, "messages");
    ordered(messages)?;
    answered(messages)?;
    for (number, message) in messages.iter().enumerate() {
        called(number, message)?;
        shown(number, message)?;
        match rules.provider {
            ChatProvider::Common => {}
            ChatProvider::Mistral => mistral(number, message, messages.get(number.wrapping_sub(1)))?,
            ChatProvider::Deepseek => deepseek(number, message)?,
        }
    }
    let tools = request.get("tools").unwrap_or(&Value::Null);
    let messages = request.get("messages").unwrap_or(&Value::Null);
    Ok(Seen {
        counted: rules.count(&[tools, messages]),
        ..Seen::default()
    })
}

fn declarations(tools: &[Value]) -> Result<(), String> {
    let mut names = HashSet::new();
    for (number, tool) in tools.iter().enumerate() {
        let function = tool.get("function").unwrap_or(&Value::Null);
        let name = text(function, "name");
        tools::openai_name(&format!("tools[{number}].function.name"), name)?;
        if !names.insert(name) {
            return Err(format!("Tool names must be unique. (tools[{number}])"));
        }
        if let Some(schema) = function.get("parameters") {
            tools::openai_schema(name, schema)?;
        }
    }
    Ok(())
}

/// Checks that the order of roles is one that all servers accept, including those with an alternating chat template.
///
/// Sources: vllm-project/vllm#6862 (roles alternate), vllm-project/vllm#41114 (the system), 0xPlaygrounds/rig#1130 (the
/// last one).
fn ordered(messages: &[Value]) -> Result<(), String> {
    let mut before = "";
    for (number, message) in messages.iter().enumerate() {
        let role = text(message, "role");
        if role == "system" && number > 0 {
            return Err("System message must be at the beginning.".to_owned());
        }
        if role == before && matches!(role, "user" | "assistant") {
            return Err(format!(
                "Conversation roles must alternate user/assistant/user/assistant/... (messages[{number}].role)"
            ));
        }
        if role == "assistant" && matches!(before, "" | "system") {
            return Err(
                "After the optional system message, conversation roles must begin with user.".to_owned(),
            );
        }
        before = role;
    }
    if before == "assistant" && items(messages.last().unwrap_or(&Value::Null), "tool_calls").is_empty() {
        return Err("Expected last role User or Tool for serving but got assistant".to_owned());
    }
    Ok(())
}

/// Checks that each call is answered once, directly after it, and that no two calls share an id.
///
/// Sources: the API reference, `tool_call_id`; can1357/oh-my-pi#2055 (ids of different turns).
fn answered(messages: &[Value]) -> Result<(), String> {
    let mut ids = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (number, message) in messages.iter().enumerate() {
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
        if let Some(twice) = open.iter().find(|id| !ids.insert(**id)) {
            return Err(format!(
                "Duplicate value for 'tool_call_id' of {twice} in message[{number}]"
            ));
        }
    }
    unanswered(&open)
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

/// Checks the calls of a message, and that the message is not empty.
fn called(number: usize, message: &Value) -> Result<(), String> {
    let calls = items(message, "tool_calls");
    for (at, call) in calls.iter().enumerate() {
        let place = format!("messages[{number}].tool_calls[{at}]");
        let function = call.get("function").unwrap_or(&Value::Null);
        tools::openai_name(&format!("{place}.function.name"), text(function, "name"))?;
        tools::arguments(
            &format!("{place}.function.arguments"),
            text(function, "arguments"),
        )?;
        let id = text(call, "id");
        tools::shorter(&format!("{place}.id"), id, ID_CHARS)?;
        if id.is_empty() {
            return Err(format!("Invalid '{place}.id': empty string."));
        }
    }
    // Source: docker/docker-agent#333.
    if text(message, "role") == "tool"
        && !message
            .get("content")
            .is_some_and(|it| it.is_string() || it.is_array())
    {
        return Err("Invalid value for 'content': expected a string, got null.".to_owned());
    }
    // Source: OpenHands/OpenHands#8685.
    if text(message, "role") == "assistant" && calls.is_empty() && text(message, "content").trim().is_empty()
    {
        return Err("Assistant message must have either content or tool_calls, but not none.".to_owned());
    }
    Ok(())
}

fn shown(number: usize, message: &Value) -> Result<(), String> {
    for (at, part) in items(message, "content").iter().enumerate() {
        if let Some(picture) = part.get("image_url") {
            let place = format!("messages[{number}].content[{at}].image_url.url");
            pictures::openai(&place, text(picture, "url"))?;
        }
    }
    Ok(())
}

/// Sources: BerriAI/litellm#6323, zed-industries/zed#37021 (roles); karthink/gptel#1203, anomalyco/opencode#1680 (ids).
fn mistral(number: usize, message: &Value, before: Option<&Value>) -> Result<(), String> {
    let role = text(message, "role");
    if role == "user" && before.is_some_and(|before| text(before, "role") == "tool") {
        return Err(format!(
            "Unexpected role 'user' after role 'tool' (message {number})"
        ));
    }
    for call in items(message, "tool_calls") {
        let id = text(call, "id");
        if id.len() != 9 || !id.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(format!(
                "Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."
            ));
        }
    }
    Ok(())
}

/// Sources: api-docs.deepseek.com, "Thinking mode"; deepseek-ai/DeepSeek-V3#1053, MoonshotAI/kimi-cli#2141.
fn deepseek(number: usize, message: &Value) -> Result<(), String> {
    let calls = !items(message, "tool_calls").is_empty();
    if calls && !message.get("reasoning_content").is_some_and(Value::is_string) {
        return Err(format!(
            "Missing `reasoning_content` field in the assistant message at message index {number}."
        ));
    }
    Ok(())
}
