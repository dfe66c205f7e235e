//! The body of a request, borrowed from what the agent holds.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use sortie_agent::model::{Content, Request, ToolDefinition, ToolResult, Turn};

use super::schema;
use crate::{arguments, provider::Entry};

#[derive(Debug, Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    system: [Block<'a>; 1],
    messages: Vec<Message<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    Adaptive,
    Enabled { budget_tokens: u64 },
}

#[derive(Debug, Serialize)]
struct OutputConfig<'a> {
    format: Format<'a>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Format<'a> {
    JsonSchema { schema: &'a RawValue },
}

#[derive(Debug, Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum CacheControl {
    Ephemeral,
}

#[derive(Debug, Serialize)]
struct Message<'a> {
    role: Role,
    content: Vec<Block<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    User,
    Assistant,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a RawValue,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: Cow<'a, str>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    #[serde(untagged)]
    Opaque(&'a RawValue),
}

impl<'a> Body<'a> {
    pub(super) fn new(entry: &'a Entry, request: &Request<'a>) -> Self {
        let can = |what: &str| entry.info.capabilities.iter().any(|can| can == what);
        let offered = request.tools.iter().filter(|_| can("tools"));
        let mut tools: Vec<_> = offered.map(tool).collect();
        if let Some(last) = tools.last_mut() {
            last.cache_control = Some(CacheControl::Ephemeral);
        }
        let schema = request.task.output_schema.filter(|_| can("structured_output"));
        Self {
            model: &entry.upstream,
            max_tokens: request.max_tokens,
            stream: true,
            thinking: can("thinking")
                .then(|| thinking(&entry.upstream, request.max_tokens))
                .flatten(),
            output_config: schema.and_then(schema::enforceable).map(|schema| OutputConfig {
                format: Format::JsonSchema { schema },
            }),
            tools,
            system: [Block::Text {
                text: Cow::Borrowed(request.system),
                cache_control: Some(CacheControl::Ephemeral),
            }],
            messages: messages(request),
        }
    }
}

fn tool<'a>(tool: &ToolDefinition<'a>) -> Tool<'a> {
    Tool {
        name: tool.name,
        description: tool.description,
        input_schema: arguments::object(tool.parameters),
        cache_control: None,
    }
}

/// The conversation. What is said by the same side in a row is one message; an empty message is none.
fn messages<'a>(request: &Request<'a>) -> Vec<Message<'a>> {
    let mut messages = vec![Message {
        role: Role::User,
        content: vec![text(request.task.first_message())],
    }];
    for turn in request.transcript {
        let (role, content): (_, Vec<_>) = match turn {
            Turn::Assistant(pieces) => (Role::Assistant, pieces.iter().filter_map(piece).collect()),
            Turn::ToolResults(results) => (Role::User, results.iter().map(result).collect()),
            Turn::User(said) => (Role::User, vec![text(Cow::Borrowed(said))]),
        };
        match messages.last_mut() {
            _ if content.is_empty() => {}
            Some(last) if last.role == role => last.content.extend(content),
            Some(_) | None => messages.push(Message { role, content }),
        }
    }
    // Two marks: the last one is written, the one before was written by the call before and is read. The provider
    // would find it by itself only if no more than twenty blocks came since.
    let ends = messages.iter_mut().rev().filter(|m| m.role == Role::User).take(2);
    for end in ends.filter_map(|message| message.content.last_mut()) {
        if let Block::Text { cache_control, .. } | Block::ToolResult { cache_control, .. } = end {
            *cache_control = Some(CacheControl::Ephemeral);
        }
    }
    messages
}

fn text(text: Cow<'_, str>) -> Block<'_> {
    Block::Text {
        text,
        cache_control: None,
    }
}

/// A piece of what the model said; text of white space alone is refused by the provider, and means nothing.
fn piece(piece: &Content) -> Option<Block<'_>> {
    match piece {
        Content::Text(said) if said.trim().is_empty() => None,
        Content::Text(said) => Some(text(Cow::Borrowed(said))),
        Content::ToolCall(call) => Some(Block::ToolUse {
            id: &call.id,
            name: &call.name,
            input: arguments::object(&call.arguments),
        }),
        Content::Opaque(raw) => Some(Block::Opaque(raw)),
    }
}

fn result(result: &ToolResult) -> Block<'_> {
    Block::ToolResult {
        tool_use_id: &result.id,
        content: result.text(),
        is_error: result.is_error,
        cache_control: None,
    }
}

/// How much a model of the older form may think, in tokens: in few steps, because every change of it costs the cache.
const BUDGETS: [(u64, u64); 2] = [(16_384, 8_192), (4_096, 2_048)];

/// How the model is told to think. Models since 4.6 decide for themselves, and those since 5 take nothing else; what
/// came before has a budget of its own, for which `max_tokens` has to leave room.
fn thinking(upstream: &str, max_tokens: u64) -> Option<Thinking> {
    if decides_itself(upstream) {
        return Some(Thinking::Adaptive);
    }
    let budget = BUDGETS.iter().find(|(from, _)| max_tokens >= *from);
    budget.map(|&(_, budget_tokens)| Thinking::Enabled { budget_tokens })
}

/// Whether `claude-NAME-MAJOR[-MINOR]` is of version 4.6 or later. Names of another form have the older way, which the
/// servers of others speak too.
fn decides_itself(upstream: &str) -> bool {
    let Some((_, name)) = upstream.rsplit_once("claude-") else {
        return false;
    };
    // A longer number is a date.
    let mut numbers = name
        .split(['-', '.', '@'])
        .skip_while(|part| !is_number(part))
        .take_while(|part| is_number(part) && part.len() < 3)
        .filter_map(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (4, 6)
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_has_the_form_that_the_model_takes() {
        let enabled = |budget_tokens| Some(Thinking::Enabled { budget_tokens });
        for (model, max_tokens, expected) in [
            ("claude-opus-5-5", 1_024, Some(Thinking::Adaptive)),
            ("claude-sonnet-5", 64, Some(Thinking::Adaptive)),
            ("claude-opus-4-6-20260205", 64, Some(Thinking::Adaptive)),
            ("anthropic.claude-opus-4-7", 64, Some(Thinking::Adaptive)),
            ("claude-fable-5-1", 64, Some(Thinking::Adaptive)),
            ("claude-haiku-4-5-20251001", 64_000, enabled(8_192)),
            ("claude-sonnet-4-20250514", 4_096, enabled(2_048)),
            ("claude-3-7-sonnet-20250219", 4_095, None),
            ("glm-5.2", 64_000, enabled(8_192)),
        ] {
            assert_eq!(thinking(model, max_tokens), expected, "{model}");
        }
    }

    #[test]
    fn a_thinking_budget_always_leaves_room_for_an_answer() {
        for (from, budget) in BUDGETS {
            assert!(budget >= 1_024 && budget * 2 <= from);
        }
    }
}
