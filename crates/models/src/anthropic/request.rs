//! The body of a request, borrowed from what the agent holds.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use sortie_agent::{
    Media, ToolContent,
    model::{Content, Request, ToolDefinition, ToolResult, ToolUse, Turn},
};
use sortie_api::{Effort, model::ModelInfo};

use super::{claude::Claude, schema};
use crate::{
    arguments,
    media::{self, Kind},
    provider::Entry,
};

/// Parts of `thinking` that only newer models and servers know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extras {
    None,
    /// How thinking is shown.
    Display,
    /// That, and what becomes of thinking whose conversation has changed.
    Controls,
}

#[derive(Debug, Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    system: [Block<'a>; 1],
    messages: Vec<Message<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    Adaptive {
        #[serde(skip_serializing_if = "Option::is_none")]
        display: Option<Display>,
        #[serde(skip_serializing_if = "Option::is_none")]
        block_binding: Option<BlockBinding>,
    },
    Enabled {
        budget_tokens: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Display {
    Summarized,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct BlockBinding {
    prefix_mismatch_behavior: PrefixMismatch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum PrefixMismatch {
    DropBlock,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ToolChoice {
    None,
}

#[derive(Debug, Default, Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format<'a>>,
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
        content: ResultContent<'a>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
    },
    #[serde(untagged)]
    Opaque(&'a RawValue),
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ResultContent<'a> {
    Text(Cow<'a, str>),
    Blocks(Vec<Block<'a>>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
}

impl<'a> Body<'a> {
    pub(super) fn new(entry: &'a Entry, request: &Request<'a>, extras: Extras) -> Self {
        let offered = request.tools.iter().filter(|_| entry.can("tools"));
        let mut tools: Vec<_> = offered.map(tool).collect();
        if let Some(last) = tools.last_mut() {
            last.cache_control = Some(CacheControl::Ephemeral);
        }
        let thinks = entry.can("thinking");
        let claude = Claude::of(&entry.upstream);
        let effort = entry.effort_of(request);
        let schema = request
            .task
            .output_schema
            .filter(|_| entry.can("structured_output"));
        let output_config = OutputConfig {
            effort: effort.and_then(|effort| claude?.effort(effort)),
            format: schema
                .and_then(schema::enforceable)
                .map(|schema| Format::JsonSchema { schema }),
        };
        Self {
            model: &entry.upstream,
            max_tokens: request.max_tokens,
            stream: true,
            thinking: thinks
                .then(|| thinking(claude, effort, request.max_tokens, extras))
                .flatten(),
            output_config: (output_config.effort.is_some() || output_config.format.is_some())
                .then_some(output_config),
            tool_choice: match request.tool_use {
                ToolUse::Never if !tools.is_empty() => Some(ToolChoice::None),
                ToolUse::Never | ToolUse::Auto => None,
            },
            tools,
            system: [Block::Text {
                text: Cow::Borrowed(request.system),
                cache_control: Some(CacheControl::Ephemeral),
            }],
            messages: messages(&entry.info, request),
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
fn messages<'a>(info: &ModelInfo, request: &Request<'a>) -> Vec<Message<'a>> {
    let task = &request.task;
    // Pictures before the text that asks about them.
    let mut first: Vec<_> = task
        .media
        .iter()
        .flat_map(|media| labelled(info, media))
        .collect();
    first.push(text(task.first_message()));
    let mut messages = vec![Message {
        role: Role::User,
        content: first,
    }];
    for turn in request.transcript {
        let (role, content): (_, Vec<_>) = match turn {
            Turn::Assistant(pieces) => (Role::Assistant, pieces.iter().filter_map(piece).collect()),
            Turn::ToolResults(results) => (Role::User, results.iter().map(|r| result(info, r)).collect()),
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

/// A file of the run's: its label, and the file where the model takes it.
fn labelled<'a>(info: &ModelInfo, media: &'a Media) -> impl Iterator<Item = Block<'a>> {
    let label = text(Cow::Borrowed(&media.label));
    [label].into_iter().chain(shown(info, media))
}

fn shown<'a>(info: &ModelInfo, media: &'a Media) -> Option<Block<'a>> {
    let source = Source::Base64 {
        media_type: &media.media_type,
        data: &media.data,
    };
    Some(match media::taken(info, media)? {
        Kind::Picture => Block::Image { source },
        Kind::Document => Block::Document { source },
    })
}

fn result<'a>(info: &ModelInfo, result: &'a ToolResult) -> Block<'a> {
    let media = match &result.content {
        ToolContent::Media(media) => shown(info, media),
        ToolContent::Text(_) | ToolContent::Command(_) | ToolContent::Dropped { .. } => None,
    };
    Block::ToolResult {
        tool_use_id: &result.id,
        content: match media {
            Some(media) => ResultContent::Blocks(vec![text(result.text()), media]),
            None => ResultContent::Text(result.text()),
        },
        is_error: result.is_error,
        cache_control: None,
    }
}

/// Tokens that a model of the older form may think: few steps, because every change of it costs the cache.
const BUDGETS: [u64; 4] = [32_768, 16_384, 8_192, 2_048];
/// The smallest budget that the provider takes.
const LEAST_BUDGET: u64 = 1_024;

/// The form in which the model is told to think.
fn thinking(
    claude: Option<Claude>,
    effort: Option<Effort>,
    max_tokens: u64,
    extras: Extras,
) -> Option<Thinking> {
    if claude.is_some_and(Claude::is_adaptive) {
        return Some(Thinking::Adaptive {
            display: (extras != Extras::None).then_some(Display::Summarized),
            block_binding: (extras == Extras::Controls).then_some(BlockBinding {
                prefix_mismatch_behavior: PrefixMismatch::DropBlock,
            }),
        });
    }
    budget(effort, max_tokens).map(|budget_tokens| Thinking::Enabled { budget_tokens })
}

/// The largest budget within this effort that leaves half of the answer for text; `None` where there is no room.
fn budget(effort: Option<Effort>, max_tokens: u64) -> Option<u64> {
    let most = match effort {
        Some(Effort::Minimal) => LEAST_BUDGET,
        Some(Effort::Low) => 2_048,
        None | Some(Effort::Medium) => 8_192,
        Some(Effort::High) => 16_384,
        Some(Effort::Xhigh | Effort::Max) => 32_768,
    };
    // Only who asks for the least gets the least.
    let least = (most == LEAST_BUDGET).then_some(most);
    let mut steps = BUDGETS.into_iter().chain(least).filter(|budget| *budget <= most);
    steps.find(|budget| budget * 2 <= max_tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_has_the_form_that_the_model_takes() {
        let adaptive = Some(Thinking::Adaptive {
            display: None,
            block_binding: None,
        });
        let enabled = |budget_tokens| Some(Thinking::Enabled { budget_tokens });
        for (model, max_tokens, expected) in [
            ("claude-opus-5-5", 1_024, adaptive),
            ("claude-sonnet-5", 64, adaptive),
            ("claude-opus-4-6-20260205", 64, adaptive),
            ("anthropic.claude-opus-4-7", 64, adaptive),
            ("claude-fable-5-1", 64, adaptive),
            ("claude-haiku-4-5-20251001", 64_000, enabled(8_192)),
            ("claude-sonnet-4-20250514", 4_096, enabled(2_048)),
            ("claude-3-7-sonnet-20250219", 4_095, None),
            ("glm-5.2", 64_000, enabled(8_192)),
        ] {
            assert_eq!(
                thinking(Claude::of(model), None, max_tokens, Extras::None),
                expected,
                "{model}"
            );
        }
    }

    #[test]
    fn a_thinking_budget_follows_the_effort_and_always_leaves_room_for_an_answer() {
        use Effort::{High, Low, Max, Medium, Minimal, Xhigh};
        let all = [Minimal, Low, Medium, High, Xhigh, Max];
        let budgets = |max_tokens| all.map(|effort| budget(Some(effort), max_tokens).unwrap_or(0));
        assert_eq!(budgets(65_536), [1_024, 2_048, 8_192, 16_384, 32_768, 32_768]);
        assert_eq!(budgets(16_384), [1_024, 2_048, 8_192, 8_192, 8_192, 8_192]);
        assert_eq!(budgets(2_048), [1_024, 0, 0, 0, 0, 0]);
        assert_eq!(budgets(2_047), [0; 6]);
    }
}
