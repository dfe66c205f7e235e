//! The body of a request, which borrows from the agent's data.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use sortie_agent::{
    Media,
    model::{Content, Request, ToolCall, ToolDefinition, ToolResult, ToolUse, Turn},
};

use super::{OWN_ID, Signature, thinking};
use crate::{
    arguments,
    provider::{Entry, RESULTS_READ},
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body<'a> {
    system_instruction: SystemInstruction<'a>,
    contents: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[Tools<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig>,
    generation_config: Generation<'a>,
}

#[derive(Debug, Serialize)]
struct SystemInstruction<'a> {
    parts: [Part<'a>; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Function<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters_json_schema: &'a RawValue,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig {
    function_calling_config: FunctionCalling,
}

#[derive(Debug, Serialize)]
struct FunctionCalling {
    mode: Mode,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum Mode {
    None,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Generation<'a> {
    max_output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<thinking::Config>,
    #[serde(flatten)]
    form: Option<Form<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Form<'a> {
    response_mime_type: &'static str,
    response_json_schema: &'a RawValue,
}

#[derive(Debug, Serialize)]
struct Message<'a> {
    role: Role,
    parts: Vec<Part<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    User,
    Model,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<Outcome<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<Inline<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<String>,
}

#[derive(Debug, Serialize)]
struct Call<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    args: &'a RawValue,
}

#[derive(Debug, Serialize)]
struct Outcome<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    response: Response<'a>,
    /// Files of the result, if the model accepts them here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Inline<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Response<'a> {
    Output(Cow<'a, str>),
    Error(Cow<'a, str>),
}

impl<'a> Body<'a> {
    pub(super) fn new(entry: &Entry, request: &Request<'a>) -> Self {
        let functions: Vec<_> = request
            .tools
            .iter()
            .filter(|_| entry.can("tools"))
            .map(function)
            .collect();
        // The API does not support an output schema together with tools.
        let schema = request
            .task
            .output_schema
            .filter(|_| entry.can("structured_output") && functions.is_empty());
        let form = schema.and_then(|schema| {
            Some(Form {
                response_mime_type: "application/json",
                response_json_schema: serde_json::from_str(schema).ok()?,
            })
        });
        let tools = (!functions.is_empty()).then_some([Tools {
            function_declarations: functions,
        }]);
        Self {
            system_instruction: SystemInstruction {
                parts: [text(Cow::Borrowed(request.system))],
            },
            contents: contents(entry, request),
            tool_config: (request.tool_use == ToolUse::Never && tools.is_some()).then_some(ToolConfig {
                function_calling_config: FunctionCalling { mode: Mode::None },
            }),
            tools,
            generation_config: Generation {
                max_output_tokens: request.max_tokens,
                thinking_config: thinking::config(entry, request),
                form,
            },
        }
    }
}

fn function<'a>(tool: &ToolDefinition<'a>) -> Function<'a> {
    Function {
        name: tool.name,
        description: tool.description,
        parameters_json_schema: arguments::object(tool.parameters),
    }
}

impl Message<'_> {
    fn has_results(&self) -> bool {
        self.parts.iter().any(|part| part.function_response.is_some())
    }
}

/// Returns the conversation. Merges consecutive turns of one role into one message, and omits empty messages. Inserts a message
/// of the model between tool results and a following text of the user: Gemini 3 returns an empty answer to a message with both.
fn contents<'a>(entry: &Entry, request: &Request<'a>) -> Vec<Message<'a>> {
    let task = &request.task;
    let mut first: Vec<_> = task
        .media
        .iter()
        .flat_map(|media| labelled(entry, media))
        .collect();
    first.push(text(task.first_message()));
    let mut messages = vec![Message {
        role: Role::User,
        parts: first,
    }];
    for turn in request.transcript {
        let (role, parts) = match turn {
            Turn::Assistant(pieces) => (Role::Model, said(entry, pieces)),
            Turn::ToolResults(results) => (Role::User, outcomes(entry, results)),
            Turn::User(told) => (Role::User, vec![text(Cow::Borrowed(told))]),
        };
        if matches!(turn, Turn::User(_)) && messages.last().is_some_and(Message::has_results) {
            messages.push(Message {
                role: Role::Model,
                parts: vec![text(Cow::Borrowed(RESULTS_READ))],
            });
        }
        match messages.last_mut() {
            _ if parts.is_empty() => {}
            Some(last) if last.role == role => last.parts.extend(parts),
            Some(_) | None => messages.push(Message { role, parts }),
        }
    }
    messages
}

/// Placeholder for the signature of calls from another model. Since Gemini 3 the API rejects a step without a signature on its
/// first call ("Thought signatures", ai.google.dev/gemini-api/docs/thought-signatures, read on 2026-11-22).
const FOREIGN: &str = "skip_thought_signature_validator";

/// Returns the parts of an answer, each with its signature. Empty if the answer has only signatures: it was cut off while the
/// model was thinking.
fn said<'a>(entry: &Entry, pieces: &'a [Content]) -> Vec<Part<'a>> {
    if pieces.iter().all(|piece| matches!(piece, Content::Opaque(_))) {
        return Vec::new();
    }
    let mut parts = Vec::new();
    let mut signature = None;
    for piece in pieces {
        let part = match piece {
            Content::Text(said) => text(Cow::Borrowed(said)),
            Content::ToolCall(call) => Part {
                function_call: Some(called(call)),
                ..Part::default()
            },
            Content::Opaque(raw) => match serde_json::from_str(raw.get()) {
                Ok(Signature {
                    thought_signature,
                    text: None,
                }) => {
                    signature = Some(thought_signature);
                    continue;
                }
                Ok(Signature {
                    thought_signature,
                    text,
                }) => Part {
                    text: text.map(Cow::Owned),
                    thought_signature: Some(thought_signature),
                    ..Part::default()
                },
                // An opaque piece of another provider, which this API does not understand.
                Err(_) => continue,
            },
        };
        parts.push(Part {
            thought_signature: part.thought_signature.or_else(|| signature.take()),
            ..part
        });
    }
    let first = parts.iter_mut().find(|part| part.function_call.is_some());
    if let Some(first) = first
        && entry.can("thinking")
        && thinking::is_since_3(&entry.upstream)
    {
        first.thought_signature.get_or_insert_with(|| FOREIGN.to_owned());
    }
    parts
}

fn text(text: Cow<'_, str>) -> Part<'_> {
    Part {
        text: Some(text),
        ..Part::default()
    }
}

fn called(call: &ToolCall) -> Call<'_> {
    Call {
        id: their_id(&call.id),
        name: &call.name,
        args: arguments::object(&call.arguments),
    }
}

/// Returns the label of a file of the run, and the file if the model accepts it.
fn labelled<'a>(entry: &Entry, media: &'a Media) -> impl Iterator<Item = Part<'a>> {
    let label = text(Cow::Borrowed(&media.label));
    [label].into_iter().chain(shown(entry, media))
}

fn shown<'a>(entry: &Entry, media: &'a Media) -> Option<Part<'a>> {
    super::taken(entry, media)?;
    Some(Part {
        inline_data: Some(Inline {
            mime_type: &media.media_type,
            data: &media.data,
        }),
        ..Part::default()
    })
}

/// Returns the results of calls. Models since Gemini 3 accept files in them; for others the files follow the results.
fn outcomes<'a>(entry: &Entry, results: &'a [ToolResult]) -> Vec<Part<'a>> {
    let mut parts = Vec::new();
    let mut behind = Vec::new();
    for result in results {
        let mut files = Vec::new();
        for media in result.content.media() {
            let Some(file) = shown(entry, media) else { continue };
            if thinking::is_since_3(&entry.upstream) {
                files.push(file);
            } else {
                behind.extend([text(Cow::Borrowed(&media.label)), file]);
            }
        }
        parts.push(outcome(result, files));
    }
    parts.extend(behind);
    parts
}

fn outcome<'a>(result: &'a ToolResult, files: Vec<Part<'a>>) -> Part<'a> {
    let told = result.text();
    Part {
        function_response: Some(Outcome {
            id: their_id(&result.id),
            name: &result.name,
            response: if result.is_error {
                Response::Error(told)
            } else {
                Response::Output(told)
            },
            parts: files,
        }),
        ..Part::default()
    }
}

fn their_id(id: &str) -> Option<&str> {
    (!id.starts_with(OWN_ID)).then_some(id)
}
