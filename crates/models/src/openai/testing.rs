//! Helpers for the tests of both protocols: a request with a tool, and events as bytes.

use sortie_agent::{
    Media, ToolContent,
    model::{Content, Reply, Request, ToolCall, ToolDefinition, ToolResult, Turn},
};

use crate::test_server::{chart, hello, report};

pub(crate) const SHELL: ToolDefinition<'_> = ToolDefinition {
    name: "shell",
    description: "Runs a command.",
    parameters: r#"{"type": "object", "properties": {"command": {"type": "string"}}}"#,
};

/// A request with one tool.
pub(crate) fn request(transcript: &[Turn]) -> Request<'_> {
    Request {
        transcript,
        tools: &[SHELL],
        max_tokens: 77,
        ..hello()
    }
}

/// A stream of these events.
pub(crate) fn stream<S: AsRef<str>>(events: impl IntoIterator<Item = S>) -> String {
    events.into_iter().fold(String::new(), |stream, event| {
        stream + "data: " + event.as_ref() + "\n\n"
    })
}

/// The content of a reply in short form: texts unchanged, calls as `name(arguments)#id`.
pub(crate) fn short(reply: &Reply) -> Vec<String> {
    let piece = |piece: &Content| match piece {
        Content::Text(text) => text.clone(),
        Content::ToolCall(call) => format!("{}({})#{}", call.name, call.arguments, call.id),
        Content::Opaque(raw) => raw.get().to_owned(),
    };
    reply.content.iter().map(piece).collect()
}

/// A call of the shell tool.
pub(crate) fn tool_call(id: &str, arguments: &str) -> Content {
    Content::ToolCall(ToolCall {
        id: id.to_owned(),
        name: "shell".to_owned(),
        arguments: arguments.to_owned(),
    })
}

/// The result of a call that has read a file.
pub(crate) fn looked(id: &str, media: Media, note: Option<&str>) -> ToolResult {
    ToolResult {
        id: id.to_owned(),
        name: "read_file".to_owned(),
        content: ToolContent::Media(media),
        is_error: false,
        note: note.map(str::to_owned),
    }
}

/// Calls that have read a picture and a document, and what follows them.
pub(crate) fn looks() -> [Turn; 3] {
    [
        Turn::Assistant(vec![tool_call("a", "{}"), tool_call("b", "{}")]),
        Turn::ToolResults(vec![
            looked("a", chart(), Some("Half of the time is over.")),
            looked("b", report(), None),
        ]),
        Turn::User("Go on.".to_owned()),
    ]
}
