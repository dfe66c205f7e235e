//! The body of a request, which is serialized once from the agent's data.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use sortie_agent::{
    Media,
    model::{Content, ModelError, Request, ToolDefinition, ToolResult, Turn},
};
use sortie_api::model::ModelInfo;

use crate::{
    arguments,
    media::{self, Kind},
    openai,
    provider::{Entry, RESULTS_READ},
};

use super::reasoning::Returned;

/// Maximum length of a call id at `OpenAI`, in bytes.
const ID_BYTES: usize = 40;

/// Variant of the protocol that the server supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) form: Form,
    /// Whether the server supports `tool_choice`.
    pub(super) tool_choice: bool,
    /// Whether the server supports `reasoning_effort`.
    pub(super) effort: bool,
    /// Whether the server may reject an answer that comes back without `reasoning_content`.
    pub(super) reasoning: bool,
}

/// Form of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `OpenAI`'s own form.
    Openai,
    /// The form of all other servers.
    Compatible,
}

/// Body of a request.
#[derive(Debug, Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
}

#[derive(Debug, Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Message<'a> {
    System {
        content: &'a str,
    },
    User {
        content: UserContent<'a>,
    },
    Assistant {
        /// Null, rather than empty, if there are tool calls.
        content: Option<Cow<'a, str>>,
        #[serde(flatten)]
        reasoning: Returned<'a>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: Cow<'a, str>,
    },
}

/// Content of a user message: text, which every server accepts, or parts if there are files.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum UserContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
    File { file: File },
}

#[derive(Debug, Serialize)]
struct ImageUrl {
    url: String,
    /// Bounds the tokens of a picture. Without it newer models use the full resolution.
    detail: &'static str,
}

#[derive(Debug, Serialize)]
struct File {
    filename: &'static str,
    file_data: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum ToolChoice {
    None,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "function")]
struct Call<'a> {
    id: Cow<'a, str>,
    function: CalledFunction<'a>,
}

#[derive(Debug, Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "function")]
struct Tool<'a> {
    function: Function<'a>,
}

#[derive(Debug, Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "json_schema")]
struct ResponseFormat<'a> {
    json_schema: JsonSchema<'a>,
}

#[derive(Debug, Serialize)]
struct JsonSchema<'a> {
    name: &'static str,
    schema: &'a RawValue,
    strict: bool,
}

impl<'a> Body<'a> {
    /// Creates the body of this request to this model.
    pub(super) fn new(entry: &'a Entry, dialect: Dialect, request: &Request<'a>) -> Result<Self, ModelError> {
        let form = dialect.form;
        let info = &entry.info;
        let mut messages = Vec::with_capacity(request.transcript.len() * 2 + 2);
        messages.push(Message::System {
            content: request.system,
        });
        let task = &request.task;
        let files: Vec<_> = task
            .media
            .iter()
            .flat_map(|media| labelled(info, media))
            .collect();
        said_by_user(files, &mut messages);
        said_by_user(text(task.first_message()), &mut messages);
        for turn in request.transcript {
            match turn {
                Turn::Assistant(content) => messages.extend(assistant(content)?),
                Turn::ToolResults(results) => {
                    messages.extend(results.iter().map(tool_message));
                    said_by_user(files_of(info, results), &mut messages);
                }
                Turn::User(said) => said_by_user(text(Cow::Borrowed(said)), &mut messages),
            }
        }
        if form == Form::Compatible {
            messages = with_results_answered(messages);
        }
        return_reasoning(&mut messages, dialect.reasoning);
        let tools: Vec<Tool<'a>> = openai::tools(entry, request, dialect.tool_choice)
            .iter()
            .map(tool)
            .collect::<Result<_, _>>()?;
        let (max_tokens, max_completion_tokens) = match form {
            Form::Openai => (None, Some(request.max_tokens)),
            Form::Compatible => (Some(request.max_tokens), None),
        };
        // On other servers the schema applies to every answer, which prevents tool calls, or they reject the combination.
        let bound = entry.can("structured_output") && (form == Form::Openai || tools.is_empty());
        let schema = openai::object_schema(request.task.output_schema.filter(|_| bound))?;
        Ok(Self {
            model: &entry.upstream,
            messages,
            stream: true,
            stream_options: StreamOptions { include_usage: true },
            max_tokens,
            max_completion_tokens,
            reasoning_effort: entry
                .effort_of(request)
                .filter(|_| dialect.effort)
                .map(|effort| openai::level(&entry.upstream, effort)),
            prompt_cache_key: openai::cache_key(form == Form::Openai, request),
            tool_choice: (dialect.tool_choice && openai::forbids_tools(entry, request))
                .then_some(ToolChoice::None),
            tools,
            response_format: schema.map(|schema| ResponseFormat {
                json_schema: JsonSchema {
                    name: "output",
                    schema,
                    strict: false,
                },
            }),
        })
    }
}

/// Inserts an assistant message between tool results and a user message, because servers of Mistral's models reject that
/// sequence. We do not merge the two: messages that were already sent stay unchanged, so that cached prefixes stay valid.
fn with_results_answered(messages: Vec<Message<'_>>) -> Vec<Message<'_>> {
    let mut answered = Vec::with_capacity(messages.len());
    for message in messages {
        if let (Some(Message::Tool { .. }), Message::User { .. }) = (answered.last(), &message) {
            answered.push(Message::Assistant {
                content: Some(Cow::Borrowed(RESULTS_READ)),
                reasoning: Returned::default(),
                tool_calls: Vec::new(),
            });
        }
        answered.push(message);
    }
    answered
}

/// Adds `reasoning_content` to every answer if one has it. `DeepSeek` rejects a conversation with an answer that lacks the field,
/// even if the model did not reason for it.
fn return_reasoning(messages: &mut [Message<'_>], is_wanted: bool) {
    let has_content = |message: &Message<'_>| match message {
        Message::Assistant { reasoning, .. } => reasoning.has_content(),
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => false,
    };
    if !is_wanted && !messages.iter().any(has_content) {
        return;
    }
    for message in messages {
        if let Message::Assistant { reasoning, .. } = message {
            reasoning.add_content();
        }
    }
}

/// Merges consecutive user messages, because the chat templates of some models reject them. Text without files is sent as a
/// string, which every server accepts.
fn said_by_user<'a>(parts: Vec<Part<'a>>, messages: &mut Vec<Message<'a>>) {
    for part in parts {
        match (messages.last_mut(), part) {
            (
                Some(Message::User {
                    content: UserContent::Text(said),
                }),
                Part::Text { text },
            ) => {
                let said = said.to_mut();
                said.push_str("\n\n");
                said.push_str(&text);
            }
            (Some(Message::User { content }), part) => {
                let mut parts = match std::mem::replace(content, UserContent::Parts(Vec::new())) {
                    UserContent::Text(said) => text(said),
                    UserContent::Parts(parts) => parts,
                };
                parts.push(part);
                *content = UserContent::Parts(parts);
            }
            (_, Part::Text { text }) => messages.push(Message::User {
                content: UserContent::Text(text),
            }),
            (_, part @ (Part::ImageUrl { .. } | Part::File { .. })) => messages.push(Message::User {
                content: UserContent::Parts(vec![part]),
            }),
        }
    }
}

fn text(text: Cow<'_, str>) -> Vec<Part<'_>> {
    vec![Part::Text { text }]
}

/// Returns the label of a file of the run, and the file if the model accepts it.
fn labelled<'a>(info: &ModelInfo, media: &'a Media) -> impl Iterator<Item = Part<'a>> {
    let label = Part::Text {
        text: Cow::Borrowed(&media.label),
    };
    [label].into_iter().chain(shown(info, media))
}

fn shown<'a>(info: &ModelInfo, media: &Media) -> Option<Part<'a>> {
    Some(match media::taken(info, media)? {
        Kind::Picture => Part::ImageUrl {
            image_url: ImageUrl {
                url: media::data_url(media),
                detail: "high",
            },
        },
        Kind::Document => Part::File {
            file: File {
                filename: "document.pdf",
                file_data: media::data_url(media),
            },
        },
    })
}

/// Returns the files of these results, for a separate message after them: tool messages accept only text.
fn files_of<'a>(info: &ModelInfo, results: &'a [ToolResult]) -> Vec<Part<'a>> {
    let media = results.iter().flat_map(|result| result.content.media());
    let taken = media.filter(|media| media::taken(info, media).is_some());
    taken.flat_map(|media| labelled(info, media)).collect()
}

/// Returns the message of an answer. `None` if it has neither text nor calls, which servers reject. Such an answer was cut off
/// while the model was thinking.
fn assistant(content: &[Content]) -> Result<Option<Message<'_>>, ModelError> {
    let mut text = Cow::Borrowed("");
    let mut reasoning = Returned::default();
    let mut tool_calls = Vec::new();
    for piece in content {
        match piece {
            Content::Text(piece) if text.is_empty() => text = Cow::Borrowed(piece),
            Content::Text(piece) => text.to_mut().push_str(piece),
            Content::ToolCall(call) => tool_calls.push(Call {
                id: openai::call_id(&call.id, ID_BYTES),
                function: CalledFunction {
                    name: &call.name,
                    arguments: arguments::object(&call.arguments).get(),
                },
            }),
            Content::Opaque(raw) => reasoning = Returned::of(raw)?,
        }
    }
    if text.trim().is_empty() && tool_calls.is_empty() {
        return Ok(None);
    }
    Ok(Some(Message::Assistant {
        content: (!text.is_empty()).then_some(text),
        reasoning,
        tool_calls,
    }))
}

fn tool_message(result: &ToolResult) -> Message<'_> {
    Message::Tool {
        tool_call_id: openai::call_id(&result.id, ID_BYTES),
        content: result.text(),
    }
}

fn tool<'a>(tool: &ToolDefinition<'a>) -> Result<Tool<'a>, ModelError> {
    Ok(Tool {
        function: Function {
            name: tool.name,
            description: tool.description,
            parameters: openai::schema(tool.parameters)?,
        },
    })
}
