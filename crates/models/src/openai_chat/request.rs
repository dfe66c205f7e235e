//! The body of a request, serialized once from what the agent holds.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use sortie_agent::model::{Content, ModelError, Request, ToolDefinition, ToolResult, Turn};

use crate::{arguments, openai, provider::Entry};

use super::reasoning::Returned;

/// Whose form of the protocol is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `OpenAI`'s own.
    Openai,
    /// That of all others.
    Compatible,
}

/// What is sent.
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
        content: Cow<'a, str>,
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
        tool_call_id: &'a str,
        content: Cow<'a, str>,
    },
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "function")]
struct Call<'a> {
    id: &'a str,
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
        let mut messages = Vec::with_capacity(request.transcript.len() * 2 + 2);
        messages.push(Message::System {
            content: request.system,
        });
        messages.push(Message::User {
            content: request.task.first_message(),
        });
        for turn in request.transcript {
            match turn {
                Turn::Assistant(content) => messages.push(assistant(content)?),
                Turn::ToolResults(results) => messages.extend(results.iter().map(tool_message)),
                Turn::User(text) => said_by_user(text, &mut messages),
            }
        }
        let tools: Vec<Tool<'a>> = openai::tools(entry, request)
            .iter()
            .map(tool)
            .collect::<Result<_, _>>()?;
        let (max_tokens, max_completion_tokens) = match dialect {
            Dialect::Openai => (None, Some(request.max_tokens)),
            Dialect::Compatible => (Some(request.max_tokens), None),
        };
        // Other servers bind the whole answer to the schema: no tool could be called any more, or they refuse both.
        let bound = entry.can("structured_output") && (dialect == Dialect::Openai || tools.is_empty());
        let schema = openai::object_schema(request.task.output_schema.filter(|_| bound))?;
        Ok(Self {
            model: &entry.upstream,
            messages,
            stream: true,
            stream_options: StreamOptions { include_usage: true },
            max_tokens,
            max_completion_tokens,
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

/// Two messages of the user in a row become one: the chat templates of some models refuse them.
fn said_by_user<'a>(text: &'a str, messages: &mut Vec<Message<'a>>) {
    if let Some(Message::User { content }) = messages.last_mut() {
        let content = content.to_mut();
        content.push_str("\n\n");
        content.push_str(text);
    } else {
        messages.push(Message::User {
            content: Cow::Borrowed(text),
        });
    }
}

fn assistant(content: &[Content]) -> Result<Message<'_>, ModelError> {
    let mut text = Cow::Borrowed("");
    let mut reasoning = Returned::default();
    let mut tool_calls = Vec::new();
    for piece in content {
        match piece {
            Content::Text(piece) if text.is_empty() => text = Cow::Borrowed(piece),
            Content::Text(piece) => text.to_mut().push_str(piece),
            Content::ToolCall(call) => tool_calls.push(Call {
                id: &call.id,
                function: CalledFunction {
                    name: &call.name,
                    arguments: arguments::object(&call.arguments).get(),
                },
            }),
            Content::Opaque(raw) => reasoning = Returned::of(raw)?,
        }
    }
    Ok(Message::Assistant {
        content: (!text.is_empty() || tool_calls.is_empty()).then_some(text),
        reasoning,
        tool_calls,
    })
}

fn tool_message(result: &ToolResult) -> Message<'_> {
    Message::Tool {
        tool_call_id: &result.id,
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
