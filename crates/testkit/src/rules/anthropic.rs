//! Anthropic's Messages API: calls and their results, thinking that is bound to the blocks before it, marks of the
//! cache.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Counted, LEAST_CACHED, Rules, Seen, hash, items, pictures, plain, text, tokens, tools};

/// The beta with which a request may ask for blocks to be dropped.
pub(crate) const BINDING_BETA: &str = "thinking-binding-controls-2026-08-01";
/// The most marks of a request.
const MARKS: usize = 4;
/// Number of blocks before a mark in which a provider looks for a cached prefix.
const LOOK_BACK: usize = 20;

/// Checks and counts a request with this `anthropic-beta` header.
pub(crate) fn check(rules: &mut Rules, request: &Value, beta: &str) -> Result<Seen, String> {
    let messages = items(request, "messages");
    declarations(items(request, "tools"))?;
    budget(request)?;
    for (number, message) in messages.iter().enumerate() {
        for (place, block) in items(message, "content").iter().enumerate() {
            formed(&format!("messages.{number}.content.{place}"), block)?;
        }
    }
    paired(messages)?;
    thinking_is_followed(messages, signs(request))?;
    alternate(messages)?;
    if let Some(last) = messages.last()
        && text(last, "role") == "assistant"
    {
        // Models that take a prefill refuse one that ends with white space.
        return Err(
            "This model does not support assistant message prefill. The conversation must end with a user \
                    message."
                .to_owned(),
        );
    }
    let blocks = blocks(request);
    let marks = blocks.iter().filter(|block| block.marked).count();
    if marks > MARKS {
        return Err(format!(
            "A maximum of {MARKS} blocks with cache_control may be provided. Found {marks}."
        ));
    }
    let binding = request.pointer("/thinking/block_binding");
    if binding.is_some() && !beta.contains(BINDING_BETA) {
        return Err("thinking.block_binding: Extra inputs are not permitted".to_owned());
    }
    let drops = binding.is_some_and(|binding| text(binding, "prefix_mismatch_behavior") == "drop_block");
    let (signature, dropped) = bound(&blocks, drops)?;
    rules.dropped += u32::try_from(dropped.len()).unwrap_or(u32::MAX);
    Ok(Seen {
        counted: count(rules, request, &blocks, &dropped),
        dropped,
        signature,
    })
}

fn declarations(tools: &[Value]) -> Result<(), String> {
    let mut names = HashSet::new();
    for (number, tool) in tools.iter().enumerate() {
        tools::anthropic_name(&format!("tools.{number}.custom.name"), text(tool, "name"))?;
        tools::anthropic_schema(number, tool.get("input_schema").unwrap_or(&Value::Null))?;
        if !names.insert(text(tool, "name")) {
            return Err("tools: Tool names must be unique.".to_owned());
        }
    }
    Ok(())
}

/// Checks the room for thinking. Source: platform.claude.com/docs, "Extended thinking".
fn budget(request: &Value) -> Result<(), String> {
    const LEAST: u64 = 1_024;
    let Some(budget) = request.pointer("/thinking/budget_tokens").and_then(Value::as_u64) else {
        return Ok(());
    };
    if budget < LEAST {
        return Err(format!(
            "thinking.enabled.budget_tokens: Input should be greater than or equal to {LEAST}"
        ));
    }
    if request
        .get("max_tokens")
        .and_then(Value::as_u64)
        .is_some_and(|most| most <= budget)
    {
        return Err("`max_tokens` must be greater than `thinking.budget_tokens`.".to_owned());
    }
    Ok(())
}

/// Checks that the user begins and that roles alternate. Anthropic merges turns of one role; other servers of its
/// protocol do not.
///
/// Sources: platform.claude.com/docs, "Messages"; modelcontextprotocol/quickstart-resources#20 and
/// aws-samples/bedrock-access-gateway#25 (Bedrock).
fn alternate(messages: &[Value]) -> Result<(), String> {
    let mut before = "assistant";
    for (number, message) in messages.iter().enumerate() {
        let role = text(message, "role");
        if number == 0 && role != "user" {
            return Err("messages: first message must use the \"user\" role".to_owned());
        }
        if role == before {
            return Err(format!(
                "messages: roles must alternate between \"user\" and \"assistant\", but found multiple \"{role}\" \
                 roles in a row"
            ));
        }
        if message.get("content").is_some_and(|content| content == "")
            || message.get("content") == Some(&json!([]))
        {
            return Err(format!(
                "messages.{number}: all messages must have non-empty content"
            ));
        }
        before = role;
    }
    Ok(())
}

/// Checks a single block. Source of the ids' form: tailcallhq/forgecode#1142.
fn formed(place: &str, block: &Value) -> Result<(), String> {
    let id = |field: &str| {
        let id = text(block, field);
        if !id.is_empty() && id.chars().all(tools::is_plain) {
            return Ok(());
        }
        let kind = text(block, "type");
        Err(format!(
            "{place}.{kind}.{field}: String should match pattern '^[a-zA-Z0-9_-]+$'"
        ))
    };
    match text(block, "type") {
        "tool_use" => {
            id("id")?;
            tools::anthropic_name(&format!("{place}.tool_use.name"), text(block, "name"))?;
            if !block.get("input").is_some_and(Value::is_object) {
                return Err(format!(
                    "{place}.tool_use.input: Input should be a valid dictionary"
                ));
            }
        }
        "tool_result" => {
            id("tool_use_id")?;
            // Source: aws-samples/sample-multi-agent-orchestration-chat-on-agentcore#15.
            let is_empty = text(block, "content").is_empty() && items(block, "content").is_empty();
            if is_empty && block.get("is_error") == Some(&Value::Bool(true)) {
                return Err(format!(
                    "{place}.tool_result: content cannot be empty if `is_error` is true"
                ));
            }
            for (inside, piece) in items(block, "content").iter().enumerate() {
                formed(&format!("{place}.tool_result.content.{inside}"), piece)?;
            }
        }
        "image" => {
            let source = block.get("source").unwrap_or(&Value::Null);
            let place = format!("{place}.image.source");
            pictures::anthropic(&place, text(source, "media_type"), text(source, "data"))?;
        }
        _ => {}
    }
    Ok(())
}

fn paired(messages: &[Value]) -> Result<(), String> {
    let mut ids = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (number, message) in messages.iter().enumerate() {
        let content = items(message, "content");
        let mut answered = HashSet::new();
        for (place, block) in content.iter().enumerate() {
            match text(block, "type") {
                "tool_result" => {
                    let id = text(block, "tool_use_id");
                    if !open.contains(&id) || !answered.insert(id) || text(message, "role") != "user" {
                        return Err(format!(
                            "messages.{number}.content.{place}: unexpected `tool_use_id` found in `tool_result` \
                             blocks: {id}. Each `tool_result` block must have a corresponding `tool_use` block in \
                             the previous message."
                        ));
                    }
                }
                "text" if text(block, "text").trim().is_empty() => {
                    return Err("messages: text content blocks must contain non-whitespace text".to_owned());
                }
                _ => {}
            }
            let results_behind = || {
                content
                    .iter()
                    .skip(place)
                    .any(|block| text(block, "type") == "tool_result")
            };
            if !open.is_empty() && text(block, "type") != "tool_result" && results_behind() {
                return Err(without_result(number - 1, &open));
            }
        }
        let missing: Vec<&str> = open.into_iter().filter(|id| !answered.contains(id)).collect();
        if !missing.is_empty() {
            return Err(without_result(number.saturating_sub(1), &missing));
        }
        let calls = content.iter().filter(|block| text(block, "type") == "tool_use");
        open = calls.map(|call| text(call, "id")).collect();
        if open.iter().any(|id| !ids.insert(*id)) {
            return Err(format!("messages.{number}: `tool_use` ids must be unique"));
        }
    }
    if open.is_empty() {
        return Ok(());
    }
    Err(without_result(messages.len().saturating_sub(1), &open))
}

/// Whether the model signs its thinking. Others speak the same protocol and may sign nothing.
fn signs(request: &Value) -> bool {
    text(request, "model").contains("claude")
}

/// Checks that each thinking block has a signature, if the model `signs`, and that another block follows it in its
/// message.
fn thinking_is_followed(messages: &[Value], signs: bool) -> Result<(), String> {
    for (number, message) in messages.iter().enumerate() {
        let content = items(message, "content");
        let thinks = |block: &Value| text(block, "type") == "thinking";
        let unsigned = content
            .iter()
            .position(|block| signs && thinks(block) && block.get("signature").is_none());
        if let Some(place) = unsigned {
            return Err(format!(
                "messages.{number}.content.{place}.thinking.signature: Field required"
            ));
        }
        if content.last().is_some_and(thinks) {
            return Err(format!(
                "messages.{number}: The final block in an assistant message cannot be `thinking`."
            ));
        }
    }
    Ok(())
}

fn without_result(message: usize, ids: &[&str]) -> String {
    format!(
        "messages.{message}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
         `tool_use` block must have a corresponding `tool_result` block in the next message.",
        ids.join(", ")
    )
}

/// A block of a request, in the order in which the provider reads it.
struct Block {
    bytes: Vec<u8>,
    marked: bool,
    /// The signature of a thinking block.
    signature: Option<String>,
    place: String,
}

fn blocks(request: &Value) -> Vec<Block> {
    let mut blocks = Vec::new();
    for tool in items(request, "tools") {
        blocks.push(block("tool", tool, String::new()));
    }
    for system in items(request, "system") {
        blocks.push(block("system", system, String::new()));
    }
    for (number, message) in items(request, "messages").iter().enumerate() {
        let role = text(message, "role");
        match message.get("content") {
            Some(Value::Array(content)) => {
                for (place, piece) in content.iter().enumerate() {
                    blocks.push(block(role, piece, format!("messages.{number}.content.{place}")));
                }
            }
            Some(content) => blocks.push(block(role, content, format!("messages.{number}"))),
            None => {}
        }
    }
    blocks
}

fn block(role: &str, value: &Value, place: String) -> Block {
    let thinks = text(value, "type") == "thinking";
    Block {
        bytes: format!("{role} {}", plain(value)).into_bytes(),
        marked: value.get("cache_control").is_some(),
        signature: value
            .get("signature")
            .filter(|_| thinks)
            .map(|signature| signature.as_str().unwrap_or_default().to_owned()),
        place,
    }
}

/// Checks each thinking block, and returns the signature of the next one and the notices of those that are dropped.
///
/// A signature holds the hash of everything before the block except thinking, and that of the previous thinking block.
/// The oldest blocks may be left out, but none between two others.
fn bound(blocks: &[Block], drops: bool) -> Result<(String, Vec<Value>), String> {
    let (mut prefix, mut last, mut dropped) = (0, 0, Vec::new());
    for block in blocks {
        let Some(signature) = &block.signature else {
            prefix = hash(&(prefix, &block.bytes));
            continue;
        };
        let place = &block.place;
        let Some((before, behind)) = parsed(signature) else {
            return Err(format!("{place}: Invalid `signature` in `thinking` block"));
        };
        if before == prefix && (last == 0 || last == behind) {
            last = hash(signature);
        } else if drops {
            dropped.push(
                json!({"type": "thinking_dropped", "path": place, "reason": "prefix_binding_mismatch"}),
            );
        } else {
            return Err(format!(
                "{place}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. \
                 Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
            ));
        }
    }
    Ok((format!("{prefix:016x}{last:016x}"), dropped))
}

fn parsed(signature: &str) -> Option<(u64, u64)> {
    let (before, behind) = signature.split_at_checked(16)?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some((number(before)?, number(behind)?))
}

/// Counts a request. The longest prefix that ends at a mark of this or an earlier request is read from the cache.
fn count(rules: &mut Rules, request: &Value, blocks: &[Block], dropped: &[Value]) -> Counted {
    // Either of these changes the prefix of the messages, but not that of tools and system.
    let settings = json!([request.get("tool_choice"), request.pointer("/thinking/type")]).to_string();
    let kept = |block: &&Block| !dropped.iter().any(|notice| text(notice, "path") == block.place);
    let (mut length, mut prefix) = (0, 0);
    let prefixes: Vec<(u64, u64, bool)> = blocks
        .iter()
        .filter(|block| block.place.is_empty() || kept(block))
        .map(|block| {
            length += block.bytes.len();
            let settings = if block.place.is_empty() { "" } else { &settings };
            prefix = hash(&(prefix, settings, &block.bytes));
            (prefix, tokens(length), block.marked)
        })
        .collect();
    let all = tokens(length);
    let marks: Vec<usize> = (0..prefixes.len())
        .filter(|at| prefixes.get(*at).is_some_and(|it| it.2))
        .collect();
    let found = marks
        .iter()
        .flat_map(|mark| mark.saturating_sub(LOOK_BACK)..=*mark)
        .rev();
    let read = found
        .filter_map(|at| prefixes.get(at))
        .filter(|(prefix, ..)| rules.marked.contains(prefix))
        .map(|(_, tokens, _)| *tokens)
        .max()
        .unwrap_or(0);
    let long = marks
        .iter()
        .filter_map(|mark| prefixes.get(*mark))
        .filter(|mark| mark.1 >= LEAST_CACHED);
    let mut written = read;
    for (prefix, tokens, _) in long {
        rules.marked.insert(*prefix);
        written = written.max(*tokens);
    }
    Counted {
        input: all - written,
        cache_read: read,
        cache_write: written - read,
    }
}
