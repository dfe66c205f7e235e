//! Interface of the agent to a language model, independent of the provider.
//!
//! A provider's client is one [`Model`]: it turns a [`Request`] into its wire format, passes on the text as it streams, and
//! returns one [`Reply`] with the provider's figures of usage. It neither retries nor counts money.

use std::{borrow::Cow, time::Duration};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sortie_api::{Effort, model::ModelInfo};

use crate::content::{Media, ToolContent};

/// A model of any provider.
pub trait Model: Send + Sync {
    /// Returns the model's entry in the catalog.
    fn info(&self) -> &ModelInfo;

    /// Returns the kind of the model.
    fn kind(&self) -> Kind {
        Kind::Language
    }

    /// Returns the maximum part of a tool output that the model reads, in bytes. The middle of a longer one is left
    /// out.
    fn tool_output_bytes(&self) -> usize {
        32 * 1024
    }

    /// Whether the provider refuses a thinking block once anything before it has changed. The agent then drops the thinking after
    /// each change of the conversation.
    fn binds_thinking(&self) -> bool {
        false
    }

    /// Maximum number of tokens that this picture or document can count for; `None` if the model does not accept it.
    fn media_tokens(&self, _media: &Media) -> Option<u64> {
        None
    }

    /// Makes one call. Dropping the future abandons it.
    fn call<'a>(
        &'a self,
        request: Request<'a>,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>>;
}

/// Kind of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A language model: the conversation is kept within its window, and an empty answer counts as a mistake.
    Language,
    /// A program: it needs the whole conversation, and any answer is intended, even an empty one.
    Program,
}

/// Receiver of a model's text while it is being written.
pub trait Deltas: Send + Sync {
    /// The next piece of text.
    fn text(&self, piece: &str);

    /// Counts other bytes that were written and that the provider charges as well: thinking, the arguments of a tool call. They
    /// matter if the call is abandoned.
    fn written(&self, _bytes: usize) {}
}

/// Request of a call: everything that the model reads.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The system prompt.
    pub system: &'a str,
    /// Task of the run: the first message of the conversation.
    pub task: Task<'a>,
    /// Turns since the task, oldest first.
    pub transcript: &'a [Turn],
    /// The tools it may call.
    pub tools: &'a [ToolDefinition<'a>],
    /// Maximum length of the answer, in tokens.
    pub max_tokens: u64,
    /// Permission to call tools this time.
    pub tool_use: ToolUse,
    /// Effort of the model's thinking; `None` leaves it to the provider.
    pub effort: Option<Effort>,
    /// Key of the run's calls: providers route calls with the same key to the same cache.
    pub cache_key: &'a str,
}

/// Permission of the model to call tools in its next answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolUse {
    /// The model decides.
    #[default]
    Auto,
    /// The next answer is text. The tools stay in the request, because they are part of the cached prefix.
    Never,
}

impl Request<'_> {
    /// Returns the weight of the request, in bytes: all its text, and a constant for each message and tool.
    pub(crate) fn bytes(&self) -> usize {
        let tool = |tool: &ToolDefinition<'_>| tool.description.len() + tool.parameters.len() + PIECE_BYTES;
        let task = &self.task;
        self.system.len()
            + task.prompt.len()
            + task.input.map_or(0, |input| input.get().len() + 2 * PIECE_BYTES)
            + task
                .output_schema
                .map_or(0, |schema| schema.len() + 2 * PIECE_BYTES)
            + task.environment.len()
            + task.media.iter().map(Media::bytes).sum::<usize>()
            + self.transcript.iter().map(Turn::bytes).sum::<usize>()
            + self.tools.iter().map(tool).sum::<usize>()
    }

    /// Maximum number of tokens of the request without its transcript, before the provider has counted any: one for each byte,
    /// except for pairs of lower-case letters or spaces. Tokenizers join those; they may leave every other byte separate.
    pub(crate) fn most_fixed_tokens(&self) -> u64 {
        let fixed = Self {
            transcript: &[],
            ..*self
        };
        let task = &self.task;
        let tools = self
            .tools
            .iter()
            .flat_map(|tool| [tool.description, tool.parameters]);
        let joined: usize = [self.system, task.prompt, task.environment]
            .into_iter()
            .chain(task.input.map(RawValue::get))
            .chain(task.output_schema)
            .chain(tools)
            .map(joined_bytes)
            .sum();
        let media: u64 = task.media.iter().map(|media| media.tokens).sum();
        (fixed.bytes() - joined / 2) as u64 + media + FRAME_TOKENS
    }
}

/// Number of bytes that tokenizers join in pairs at least: lower-case letters of words without digits and capitals, and spaces.
fn joined_bytes(text: &str) -> usize {
    let joined_in = |letters: usize, is_plain: bool| if is_plain && letters > 1 { letters } else { 0 };
    let (mut joined, mut letters, mut is_plain) = (0, 0, true);
    for byte in text.as_bytes() {
        match byte {
            b'a'..=b'z' => letters += 1,
            b'A'..=b'Z' | b'0'..=b'9' => is_plain = false,
            _ => {
                joined += joined_in(letters, is_plain) + usize::from(*byte == b' ');
                (letters, is_plain) = (0, true);
            }
        }
    }
    joined + joined_in(letters, is_plain)
}

/// Tokens that a provider adds to every request with tools, in addition to its text.
const FRAME_TOKENS: u64 = 512;
/// Bytes of text per token of a picture, in the estimate of a request.
const BYTES_PER_MEDIA_TOKEN: u64 = 3;

/// Weight of a piece of the conversation in addition to its text, in bytes: its frame, its id, the words around it.
const PIECE_BYTES: usize = 128;

/// Task of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Task<'a> {
    /// The task, verbatim.
    pub prompt: &'a str,
    /// Data of the task: JSON, verbatim.
    pub input: Option<&'a RawValue>,
    /// Path of `input` in the working directory, if it is stored there as well.
    pub input_file: Option<&'static str>,
    /// The text of the JSON Schema that the final answer must match.
    pub output_schema: Option<&'a str>,
    /// The environment block; empty if there is none.
    pub environment: &'a str,
    /// Pictures and documents of the run's files, shown with the first message.
    pub media: &'a [Media],
}

/// A tool as described to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolDefinition<'a> {
    /// Name that a call uses.
    pub name: &'a str,
    /// Purpose of the tool, and when to use it.
    pub description: &'a str,
    /// The JSON Schema of its arguments, as text without white space between its parts, because the schema is read and billed
    /// like other text.
    pub parameters: &'a str,
}

/// Part of the conversation after the task.
#[derive(Clone, Debug)]
pub enum Turn {
    /// Message of the model, as it came.
    Assistant(Vec<Content>),
    /// The results of the tool calls of the turn before, in their order.
    ToolResults(Vec<ToolResult>),
    /// Message of the engine: a correction.
    User(String),
}

impl Turn {
    /// Returns the weight of the turn in a request, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let pieces = match self {
            Self::Assistant(pieces) => pieces.iter().map(weight).sum(),
            Self::ToolResults(results) => results.iter().map(ToolResult::bytes).sum(),
            Self::User(text) => text.len(),
        };
        pieces + PIECE_BYTES
    }

    /// Maximum number of tokens of this part: one for each byte of it and of its frame, and those of its pictures. No tokenizer
    /// that works on bytes makes more.
    pub(crate) fn most_tokens(&self) -> u64 {
        let text: u64 = match self {
            Self::Assistant(pieces) => pieces.iter().map(|piece| text_bytes(piece) as u64).sum(),
            Self::ToolResults(results) => results.iter().map(ToolResult::most_tokens).sum(),
            Self::User(text) => text.len() as u64,
        };
        text + self.frame_tokens()
    }

    /// Maximum number of tokens that the provider adds around its pieces: roles, ids, delimiters.
    pub(crate) fn frame_tokens(&self) -> u64 {
        let pieces = match self {
            Self::Assistant(pieces) => pieces.len(),
            Self::ToolResults(results) => results.len(),
            Self::User(_) => 1,
        };
        (pieces as u64 + 1) * PIECE_TOKENS
    }

    /// Whether it contains opaque pieces of the provider, such as signed thinking.
    pub(crate) fn is_opaque(&self) -> bool {
        match self {
            Self::Assistant(pieces) => pieces.iter().any(|piece| matches!(piece, Content::Opaque(_))),
            Self::ToolResults(_) | Self::User(_) => false,
        }
    }
}

/// Maximum number of tokens that the provider adds around a piece: role names, ids, delimiters.
const PIECE_TOKENS: u64 = 64;

fn text_bytes(piece: &Content) -> usize {
    match piece {
        Content::Text(text) => text.len(),
        Content::ToolCall(call) => call.name.len() + call.arguments.len(),
        Content::Opaque(raw) => raw.get().len(),
    }
}

fn weight(piece: &Content) -> usize {
    let frame = if matches!(piece, Content::ToolCall(_)) {
        PIECE_BYTES
    } else {
        0
    };
    text_bytes(piece) + frame
}

/// A piece of a model's message.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Text.
    Text(String),
    /// A request to call a tool.
    ToolCall(ToolCall),
    /// An opaque piece of the provider that has to be sent back unchanged: signed thinking, encrypted reasoning.
    Opaque(Box<RawValue>),
}

/// A request to call a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id of the call.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, verbatim: supposed to be a JSON object.
    pub arguments: String,
}

/// Result of a tool call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// Output for the model.
    pub content: ToolContent,
    /// Whether the call failed.
    pub is_error: bool,
    /// A sentence of the engine after the content, such as a warning of time or money. It is set once, before the model first
    /// reads the result, and never changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl ToolResult {
    /// Weight of the result in a request, in bytes; a picture weighs as much as text of as many tokens.
    pub(crate) fn bytes(&self) -> usize {
        let content = match &self.content {
            ToolContent::Media(media) => media.label.len() + media.bytes(),
            ToolContent::TextWithMedia { text, media } => {
                text.len()
                    + media
                        .iter()
                        .map(|one| one.label.len() + one.bytes())
                        .sum::<usize>()
            }
            content @ (ToolContent::Text(_) | ToolContent::Command(_) | ToolContent::Dropped { .. }) => {
                content.held_bytes()
            }
        };
        content + self.note.as_ref().map_or(0, String::len) + 2 * PIECE_BYTES
    }

    fn most_tokens(&self) -> u64 {
        let media = self.content.media();
        // A server that takes only text in results gets the labels a second time, before the pictures that follow.
        let labels = if let ToolContent::TextWithMedia { media, .. } = &self.content {
            media.iter().map(|media| media.label.len() as u64).sum()
        } else {
            0
        };
        self.text().len() as u64 + labels + media.iter().map(|media| media.tokens).sum::<u64>()
    }

    /// The text that the model reads: the content, then the note.
    pub fn text(&self) -> Cow<'_, str> {
        let text = self.content.text();
        match &self.note {
            None => text,
            Some(note) => Cow::Owned(format!("{}\n\n[{note}]", text.trim_end_matches('\n'))),
        }
    }
}

/// Reply of a model to a call.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Content of the reply.
    pub content: Vec<Content>,
    /// Readable thinking, if the provider shows any: a summary for people, never sent back. The pieces of [`Content::Opaque`] are
    /// sent back.
    pub thinking: String,
    /// Reason why the model stopped.
    pub stop_reason: StopReason,
    /// Usage as counted by the provider.
    pub usage: Usage,
}

/// Reason why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The model has finished its answer.
    EndTurn,
    /// The model waits for the results of its tool calls.
    ToolUse,
    /// The answer reached `max_tokens`.
    MaxTokens,
    /// The model, or its provider's filter, refuses.
    Refusal,
}

impl StopReason {
    /// The name in the `model_call` event.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::Refusal => "refusal",
        }
    }
}

/// Tokens of one call. No token is counted in two fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Read, and neither read from nor written to a cache.
    pub input_tokens: u64,
    /// Written, hidden reasoning included.
    pub output_tokens: u64,
    /// Read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Written to the provider's cache.
    pub cache_write_tokens: u64,
}

/// A call without a reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// Message for people, without secrets.
    pub message: String,
    /// Kind of the failure, for metrics.
    pub kind: ErrorKind,
    /// Prospect of another attempt.
    pub retry: Retry,
    /// Usage that the provider charges despite the error, as far as it is known.
    pub usage: Usage,
}

/// The kinds of failures of a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The provider's rate limit was reached (429).
    RateLimit,
    /// The provider is overloaded or broken (5xx).
    Server,
    /// There was no answer in time.
    Timeout,
    /// There was no connection, or it broke.
    Connection,
    /// The provider rejects the key (401, 403).
    Credential,
    /// The request is larger than the model's window.
    TooLarge,
    /// The provider refuses the content of the request.
    Request,
    /// The provider sent no complete answer.
    Answer,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::RateLimit,
        Self::Server,
        Self::Timeout,
        Self::Connection,
        Self::Credential,
        Self::TooLarge,
        Self::Request,
        Self::Answer,
    ];

    /// The name in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RateLimit => "rate_limit",
            Self::Server => "server",
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::Credential => "credential",
            Self::TooLarge => "too_large",
            Self::Request => "request",
            Self::Answer => "answer",
        }
    }
}

/// Prospect of another attempt after a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// No: the request itself is at fault, or an effect has already happened.
    Never,
    /// Yes, with a shorter request: it exceeds the model's window.
    Smaller,
    /// Yes, once, without any thinking blocks: the provider reports that one is bound to a different conversation.
    WithoutThinking,
    /// Yes: overload, rate limit, broken connection.
    Soon {
        /// The minimum wait that the provider asks for.
        after: Option<Duration>,
    },
}

impl ModelError {
    /// A failure that no retry can fix.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            kind: ErrorKind::Request,
            retry: Retry::Never,
            usage: Usage::default(),
        }
    }

    /// A failure that a retry may fix, after the wait that the provider asks for.
    pub fn retryable(message: impl Into<String>, after: Option<Duration>) -> Self {
        Self {
            message: message.into(),
            kind: ErrorKind::Answer,
            retry: Retry::Soon { after },
            usage: Usage::default(),
        }
    }
}

impl Media {
    /// Weight in the estimate of a request, in bytes of text.
    fn bytes(&self) -> usize {
        usize::try_from(self.tokens.saturating_mul(BYTES_PER_MEDIA_TOKEN)).unwrap_or(usize::MAX)
    }
}
