//! The body of a request, serialized once from what the agent holds.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sortie_agent::model::{Content, ModelError, Request, ToolDefinition, Turn};

use crate::{
    arguments,
    openai::{self, Text},
    provider::Entry,
};

/// What is sent.
#[derive(Debug, Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    instructions: &'a str,
    input: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    max_output_tokens: u64,
    stream: bool,
    store: bool,
    /// The reasoning, to be sent back: models that do not reason refuse to be asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextSettings<'a>>,
}

/// A part of the conversation.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Own(OwnItem<'a>),
    /// Reasoning, as it came.
    Opaque(&'a RawValue),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OwnItem<'a> {
    Message {
        role: Role,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a RawValue>,
        content: [Part<'a>; 1],
    },
    FunctionCall {
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: Cow<'a, str>,
    },
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    User,
    Assistant,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText { text: Cow<'a, str> },
    OutputText { text: &'a str },
}

/// Not strict, which would be this protocol's default: it takes only a part of JSON Schema.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "function")]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
    strict: bool,
}

#[derive(Debug, Serialize)]
struct TextSettings<'a> {
    format: Format<'a>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "json_schema")]
struct Format<'a> {
    name: &'static str,
    schema: &'a RawValue,
    strict: bool,
}

/// What an opaque piece may be.
#[derive(Deserialize)]
struct Opaque<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    phase: Option<&'a RawValue>,
}

impl<'a> Body<'a> {
    /// The body of this request to this model.
    pub(super) fn new(entry: &'a Entry, request: &Request<'a>) -> Result<Self, ModelError> {
        let mut input = Vec::with_capacity(request.transcript.len() * 2 + 1);
        input.push(said_by_user(request.task.first_message()));
        for turn in request.transcript {
            match turn {
                Turn::Assistant(content) => said_by_model(content, &mut input)?,
                Turn::ToolResults(results) => input.extend(results.iter().map(|result| {
                    Item::Own(OwnItem::FunctionCallOutput {
                        call_id: &result.id,
                        output: result.text(),
                    })
                })),
                Turn::User(text) => input.push(said_by_user(Cow::Borrowed(text))),
            }
        }
        let bound = entry.can("structured_output");
        let schema = openai::object_schema(request.task.output_schema.filter(|_| bound))?;
        Ok(Self {
            model: &entry.upstream,
            instructions: request.system,
            input,
            tools: openai::tools(entry, request)
                .iter()
                .map(tool)
                .collect::<Result<_, _>>()?,
            max_output_tokens: request.max_tokens,
            stream: true,
            store: false,
            include: entry.can("thinking").then_some(["reasoning.encrypted_content"]),
            text: schema.map(|schema| TextSettings {
                format: Format {
                    name: "output",
                    schema,
                    strict: false,
                },
            }),
        })
    }
}

fn said_by_user(text: Cow<'_, str>) -> Item<'_> {
    Item::Own(OwnItem::Message {
        role: Role::User,
        phase: None,
        content: [Part::InputText { text }],
    })
}

/// The items of one answer, in the order in which they came: reasoning belongs to the item after it.
fn said_by_model<'a>(content: &'a [Content], input: &mut Vec<Item<'a>>) -> Result<(), ModelError> {
    let mut phase = None;
    for piece in content {
        input.push(match piece {
            Content::Text(text) => Item::Own(OwnItem::Message {
                role: Role::Assistant,
                phase: phase.take(),
                content: [Part::OutputText { text }],
            }),
            Content::ToolCall(call) => Item::Own(OwnItem::FunctionCall {
                call_id: &call.id,
                name: &call.name,
                arguments: arguments::object(&call.arguments).get(),
            }),
            Content::Opaque(raw) => {
                let opaque: Opaque<'a> = serde_json::from_str(raw.get()).map_err(|error| {
                    ModelError::fatal(format!("the conversation holds foreign reasoning: {error}"))
                })?;
                if opaque.kind.0.is_empty() {
                    phase = opaque.phase;
                    continue;
                }
                Item::Opaque(raw)
            }
        });
    }
    Ok(())
}

fn tool<'a>(tool: &ToolDefinition<'a>) -> Result<Tool<'a>, ModelError> {
    Ok(Tool {
        name: tool.name,
        description: tool.description,
        parameters: openai::schema(tool.parameters)?,
        strict: false,
    })
}
