//! The body of a request, serialized once from what the agent holds.

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

/// Length of the longest id of a call that `OpenAI` takes, in bytes.
const ID_BYTES: usize = 40;

/// Form of the protocol that the server takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) form: Form,
    /// Whether the server takes `tool_choice`.
    pub(super) tool_choice: bool,
    /// Whether the server takes `reasoning_effort`.
    pub(super) effort: bool,
    /// Whether the server may refuse an answer that comes back without `reasoning_content`.
    pub(super) reasoning: bool,
}

/// Form of the protocol, by its speakers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `OpenAI`'s own.
    Openai,
    /// That of all others.
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
        /// Null, rather than empty, beside tool calls.
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

/// Content of a user's message: text, which every server takes, or parts where there are files.
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
    /// Bounds what a picture counts for: without it newer models take every pixel.
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
    /// The body of this request to this model.
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
        // Other servers bind the whole answer to the schema: no tool could be called any more, or they refuse both.
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

/// Servers of Mistral's models refuse a message of the user right behind the result of a tool. Neither is part of the
/// other: a result that was sent stays as it was, so that the caches of what is before it stay valid.
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

/// Gives every answer its `reasoning_content` where one has it: `DeepSeek` refuses a conversation in which an answer comes
/// back without the field, also one for which the model did not reason.
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

/// Two messages of the user in a row become one: the chat templates of some models refuse them. Text alone is sent as
/// text, which every server takes.
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

/// A file of the run's: its label, and the file where the model takes it.
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

/// The files of these results, for a message behind them: messages of tools take text only.
fn files_of<'a>(info: &ModelInfo, results: &'a [ToolResult]) -> Vec<Part<'a>> {
    let media = results.iter().flat_map(|result| result.content.media());
    let taken = media.filter(|media| media::taken(info, media).is_some());
    taken.flat_map(|media| labelled(info, media)).collect()
}

/// Returns the message of an answer; `None` for one without text and calls, which servers refuse. Such an answer was cut
/// off while the model thought.
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
