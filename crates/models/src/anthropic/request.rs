//! The body of a request, which borrows from the agent's data.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use sortie_agent::{
    Media,
    model::{Content, Request, Task, ToolDefinition, ToolResult, ToolUse, Turn},
};
use sortie_api::{Effort, model::ModelInfo};

use super::{claude::Claude, schema};
use crate::{
    arguments,
    media::{self, Kind},
    provider::Entry,
};

/// Optional parts in the body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extras {
    /// Whether the request sets how the provider treats thinking of a changed conversation.
    pub(super) controls: bool,
    /// Whether the request asks for readable thinking.
    pub(super) display: bool,
    /// Whether the request can forbid tool calls.
    pub(super) tool_choice: bool,
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

impl Thinking {
    const fn is_adaptive(self) -> bool {
        match self {
            Self::Adaptive { .. } => true,
            Self::Enabled { .. } => false,
        }
    }
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
        id: Cow<'a, str>,
        name: &'a str,
        input: &'a RawValue,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
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
        let mut messages = messages(&entry.info, request.task, request.transcript, Thoughts::Kept);
        let thinking = thinks
            .then(|| thinking(claude, effort, request.max_tokens, extras))
            .flatten()
            .filter(|thinking| thinking.is_adaptive() || starts_with_thinking(&messages));
        if thinking.is_none() && claude.is_some_and(|claude| !claude.is_adaptive()) {
            messages = self::messages(&entry.info, request.task, request.transcript, Thoughts::LeftOut);
        }
        mark(&mut messages);
        Self {
            model: &entry.upstream,
            max_tokens: request.max_tokens,
            stream: true,
            thinking,
            output_config: (output_config.effort.is_some() || output_config.format.is_some())
                .then_some(output_config),
            // If the server rejects the field we still send the tools, because thinking can be bound to them.
            tool_choice: match request.tool_use {
                ToolUse::Never if extras.tool_choice && !tools.is_empty() => Some(ToolChoice::None),
                ToolUse::Never | ToolUse::Auto => None,
            },
            tools,
            system: [Block::Text {
                text: Cow::Borrowed(request.system),
                cache_control: Some(CacheControl::Ephemeral),
            }],
            messages,
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

/// Treatment of the thinking in the conversation that we send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thoughts {
    Kept,
    LeftOut,
}

/// Returns the conversation. Merges consecutive turns of one role into one message, and omits empty messages.
fn messages<'a>(
    info: &ModelInfo,
    task: Task<'a>,
    transcript: &'a [Turn],
    thoughts: Thoughts,
) -> Vec<Message<'a>> {
    // Pictures precede the text that asks about them.
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
    for turn in transcript {
        let (role, content): (_, Vec<_>) = match turn {
            Turn::Assistant(pieces) => (Role::Assistant, said(pieces, thoughts)),
            Turn::ToolResults(results) => (Role::User, results.iter().map(|r| result(info, r)).collect()),
            Turn::User(said) => (Role::User, vec![text(Cow::Borrowed(said))]),
        };
        match messages.last_mut() {
            _ if content.is_empty() => {}
            Some(last) if last.role == role => last.content.extend(content),
            Some(_) | None => messages.push(Message { role, content }),
        }
    }
    messages
}

/// Sets two cache breakpoints. The provider writes the last one and reads the one before, which the previous call wrote. The
/// provider would find that one without a mark only within the last twenty blocks.
fn mark(messages: &mut [Message<'_>]) {
    let ends = messages.iter_mut().rev().filter(|m| m.role == Role::User).take(2);
    for end in ends.filter_map(|message| message.content.last_mut()) {
        if let Block::Text { cache_control, .. } | Block::ToolResult { cache_control, .. } = end {
            *cache_control = Some(CacheControl::Ephemeral);
        }
    }
}

/// Whether a model with a thinking budget may think in its next answer. For the provider, an answer with tool calls and the
/// answers to their results form one turn. If a turn does not start with thinking, because another model wrote it or its thinking
/// was dropped, it must continue without thinking.
fn starts_with_thinking(messages: &[Message<'_>]) -> bool {
    let is_result = |block: &Block<'_>| matches!(block, Block::ToolResult { .. });
    let starts_turn = |m: &Message<'_>| m.role == Role::User && !m.content.iter().any(is_result);
    let start = messages.iter().rposition(starts_turn).unwrap_or_default();
    let mut turn = messages.iter().skip(start);
    let first = turn.find(|message| message.role == Role::Assistant);
    first.is_none_or(|answer| matches!(answer.content.first(), Some(Block::Opaque(_))))
}

/// Returns the blocks of an answer without trailing thinking: the provider rejects a message that ends with it. Such an answer
/// was cut off while the model was thinking.
fn said(pieces: &[Content], thoughts: Thoughts) -> Vec<Block<'_>> {
    let mut blocks: Vec<_> = pieces
        .iter()
        .filter(|piece| thoughts == Thoughts::Kept || !matches!(piece, Content::Opaque(_)))
        .filter_map(piece)
        .collect();
    while blocks.pop_if(|block| matches!(block, Block::Opaque(_))).is_some() {}
    blocks
}

fn text(text: Cow<'_, str>) -> Block<'_> {
    Block::Text {
        text,
        cache_control: None,
    }
}

/// Converts a piece of an answer. The provider rejects text that is only white space, so we omit it.
fn piece(piece: &Content) -> Option<Block<'_>> {
    match piece {
        Content::Text(said) if said.trim().is_empty() => None,
        Content::Text(said) => Some(text(Cow::Borrowed(said))),
        Content::ToolCall(call) => Some(Block::ToolUse {
            id: id(&call.id),
            name: &call.name,
            input: arguments::object(&call.arguments),
        }),
        Content::Opaque(raw) => Some(Block::Opaque(raw)),
    }
}

/// Encodes the id of a call with the characters that the provider accepts. Ids of other providers can contain more, such as
/// `functions.shell:0`. Each other byte is written in hexadecimal, identically in every request.
fn id(id: &str) -> Cow<'_, str> {
    let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if id.bytes().all(is_taken) {
        return Cow::Borrowed(id);
    }
    let mut taken = String::with_capacity(id.len() + 8);
    for byte in id.bytes() {
        if is_taken(byte) {
            taken.push(char::from(byte));
        } else {
            taken.push('_');
            let digits = [byte >> 4, byte & 15].map(|digit| char::from_digit(u32::from(digit), 16));
            taken.extend(digits.into_iter().flatten());
        }
    }
    Cow::Owned(taken)
}

/// Returns the label of a file of the run, and the file if the model accepts it.
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
    let media = result.content.media().iter();
    let mut blocks: Vec<Block<'a>> = media.filter_map(|media| shown(info, media)).collect();
    Block::ToolResult {
        tool_use_id: id(&result.id),
        content: if blocks.is_empty() {
            ResultContent::Text(result.text())
        } else {
            blocks.insert(0, text(result.text()));
            ResultContent::Blocks(blocks)
        },
        is_error: result.is_error,
        cache_control: None,
    }
}

/// Thinking budgets of models without adaptive thinking, in tokens. There are few steps because every change invalidates the
/// cache.
const BUDGETS: [u64; 4] = [32_768, 16_384, 8_192, 2_048];
/// The smallest budget that the provider accepts.
const LEAST_BUDGET: u64 = 1_024;

/// Returns the `thinking` field for this model.
fn thinking(
    claude: Option<Claude>,
    effort: Option<Effort>,
    max_tokens: u64,
    extras: Extras,
) -> Option<Thinking> {
    if claude.is_some_and(Claude::is_adaptive) {
        return Some(Thinking::Adaptive {
            display: extras.display.then_some(Display::Summarized),
            block_binding: extras.controls.then_some(BlockBinding {
                prefix_mismatch_behavior: PrefixMismatch::DropBlock,
            }),
        });
    }
    budget(effort, max_tokens).map(|budget_tokens| Thinking::Enabled { budget_tokens })
}

/// Returns the largest budget within this effort that leaves half of the answer for text. `None` if there is no room.
fn budget(effort: Option<Effort>, max_tokens: u64) -> Option<u64> {
    let most = match effort {
        Some(Effort::Minimal) => LEAST_BUDGET,
        Some(Effort::Low) => 2_048,
        None | Some(Effort::Medium) => 8_192,
        Some(Effort::High) => 16_384,
        Some(Effort::Xhigh | Effort::Max) => 32_768,
    };
    // The smallest budget is used only if the caller asks for the lowest effort.
    let least = (most == LEAST_BUDGET).then_some(most);
    let mut steps = BUDGETS.into_iter().chain(least).filter(|budget| *budget <= most);
    steps.find(|budget| budget * 2 <= max_tokens)
}

#[cfg(test)]
mod tests {
    use super::{super::tests::PLAIN, *};

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
                thinking(Claude::of(model), None, max_tokens, PLAIN),
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
