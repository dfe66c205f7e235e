//! The body of a request, which is serialized once from the agent's data.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
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
    provider::Entry,
    wire::Text,
};

/// Maximum length of a call id at `OpenAI`, in bytes.
const ID_BYTES: usize = 64;

/// Body of a request.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    /// Requests the reasoning, so that we can send it back. Models that do not reason reject this field.
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextSettings<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum ToolChoice {
    None,
}

#[derive(Debug, Serialize)]
struct Reasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

/// An item of the conversation.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Own(OwnItem<'a>),
    /// Reasoning, unchanged.
    Opaque(&'a RawValue),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OwnItem<'a> {
    Message {
        role: Role,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a RawValue>,
        content: Vec<Part<'a>>,
    },
    FunctionCall {
        call_id: Cow<'a, str>,
        name: &'a str,
        arguments: &'a str,
    },
    FunctionCallOutput {
        call_id: Cow<'a, str>,
        output: Output<'a>,
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
    InputText {
        text: Cow<'a, str>,
    },
    OutputText {
        text: &'a str,
    },
    InputImage {
        image_url: String,
        /// Bounds the tokens of a picture. Without it newer models use the full resolution.
        detail: &'static str,
    },
    InputFile {
        filename: &'static str,
        file_data: String,
    },
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

/// Parts of the protocol that the server supports.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a part of its own")]
pub(super) struct Dialect {
    /// Whether it is `OpenAI`'s own service, where the output of a call can contain files and calls have a cache key.
    pub(super) is_own: bool,
    /// Whether we ask it for summaries of reasoning.
    pub(super) summary: bool,
    /// Whether it supports an effort.
    pub(super) effort: bool,
    /// Whether it supports `tool_choice`.
    pub(super) tool_choice: bool,
}

/// A tool. We disable strict mode, the default of this protocol, because it supports only a subset of JSON Schema.
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

/// Fields of an opaque piece that determine how we send it back.
#[derive(Deserialize)]
struct Opaque<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    phase: Option<&'a RawValue>,
}

impl<'a> Body<'a> {
    /// Creates the body of this request to this model.
    pub(super) fn new(entry: &'a Entry, dialect: Dialect, request: &Request<'a>) -> Result<Self, ModelError> {
        let info = &entry.info;
        let mut input = Vec::with_capacity(request.transcript.len() * 2 + 1);
        let task = &request.task;
        let mut first: Vec<_> = task
            .media
            .iter()
            .flat_map(|media| labelled(info, media))
            .collect();
        first.push(Part::InputText {
            text: task.first_message(),
        });
        input.push(said_by_user(first));
        for turn in request.transcript {
            match turn {
                Turn::Assistant(content) => said_by_model(content, &mut input)?,
                Turn::ToolResults(results) => outputs(info, dialect, results, &mut input),
                Turn::User(text) => input.push(said_by_user(vec![Part::InputText {
                    text: Cow::Borrowed(text),
                }])),
            }
        }
        let bound = entry.can("structured_output");
        let schema = openai::object_schema(request.task.output_schema.filter(|_| bound))?;
        let tools: Vec<_> = openai::tools(entry, request, dialect.tool_choice)
            .iter()
            .map(tool)
            .collect::<Result<_, _>>()?;
        let thinks = entry.can("thinking");
        let reasoning = Reasoning {
            effort: entry
                .effort_of(request)
                .filter(|_| dialect.effort)
                .map(|effort| openai::level(&entry.upstream, effort)),
            summary: (thinks && dialect.summary).then_some("auto"),
        };
        Ok(Self {
            model: &entry.upstream,
            instructions: request.system,
            input,
            tool_choice: (dialect.tool_choice && openai::forbids_tools(entry, request))
                .then_some(ToolChoice::None),
            prompt_cache_key: openai::cache_key(dialect.is_own, request),
            reasoning: (reasoning.effort.is_some() || reasoning.summary.is_some()).then_some(reasoning),
            tools,
            max_output_tokens: request.max_tokens,
            stream: true,
            store: false,
            include: thinks.then_some(["reasoning.encrypted_content"]),
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

fn said_by_user(content: Vec<Part<'_>>) -> Item<'_> {
    Item::Own(OwnItem::Message {
        role: Role::User,
        phase: None,
        content,
    })
}

/// Returns the label of a file of the run, and the file if the model accepts it.
fn labelled<'a>(info: &ModelInfo, media: &'a Media) -> impl Iterator<Item = Part<'a>> {
    let label = Part::InputText {
        text: Cow::Borrowed(&media.label),
    };
    [label].into_iter().chain(shown(info, media))
}

fn shown<'a>(info: &ModelInfo, media: &Media) -> Option<Part<'a>> {
    Some(match media::taken(info, media)? {
        Kind::Picture => Part::InputImage {
            image_url: media::data_url(media),
            detail: "high",
        },
        Kind::Document => Part::InputFile {
            filename: "document.pdf",
            file_data: media::data_url(media),
        },
    })
}

/// Adds the outputs of the calls. If a server accepts only text in them, a message after them carries the files.
fn outputs<'a>(info: &ModelInfo, dialect: Dialect, results: &'a [ToolResult], input: &mut Vec<Item<'a>>) {
    let mut behind = Vec::new();
    for result in results {
        let text = result.text();
        let media = result.content.media();
        let output = if dialect.is_own {
            let files: Vec<Part<'a>> = media.iter().filter_map(|media| shown(info, media)).collect();
            if files.is_empty() {
                Output::Text(text)
            } else {
                Output::Parts([Part::InputText { text }].into_iter().chain(files).collect())
            }
        } else {
            let taken = media.iter().filter(|media| media::taken(info, media).is_some());
            behind.extend(taken.flat_map(|media| labelled(info, media)));
            Output::Text(text)
        };
        input.push(Item::Own(OwnItem::FunctionCallOutput {
            call_id: openai::call_id(&result.id, ID_BYTES),
            output,
        }));
    }
    if !behind.is_empty() {
        input.push(said_by_user(behind));
    }
}

/// Adds the items of one answer in their order. Reasoning belongs to the item after it, and the provider rejects it without one.
/// If an answer was cut off while the model was thinking, the trailing reasoning is omitted.
fn said_by_model<'a>(content: &'a [Content], input: &mut Vec<Item<'a>>) -> Result<(), ModelError> {
    let mut phase = None;
    let is_opaque = |piece: &Content| matches!(piece, Content::Opaque(_));
    let end = content.iter().rposition(|piece| !is_opaque(piece));
    for piece in content.iter().take(end.map_or(0, |last| last + 1)) {
        input.push(match piece {
            Content::Text(text) => Item::Own(OwnItem::Message {
                role: Role::Assistant,
                phase: phase.take(),
                content: vec![Part::OutputText { text }],
            }),
            Content::ToolCall(call) => Item::Own(OwnItem::FunctionCall {
                call_id: openai::call_id(&call.id, ID_BYTES),
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
