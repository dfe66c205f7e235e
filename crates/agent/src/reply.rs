//! Message of a model, put in order as it enters the run: without credentials, without empty pieces, each tool call
//! with an id of its own.

use std::collections::HashSet;

use crate::{
    Redactor,
    model::{Content, StopReason, ToolCall},
    text,
};

/// The pieces as the transcript, the journal and the tools have them.
///
/// A piece of the provider's own that holds a credential is left out: it could not be sent back changed. Where the
/// provider binds its thinking to all that stands before it (`is_bound`), those behind a piece that is changed are left
/// out too.
pub(crate) fn tidied(
    content: Vec<Content>,
    stop_reason: StopReason,
    redactor: &Redactor,
    is_bound: bool,
) -> Vec<Content> {
    let mut ids = HashSet::new();
    let mut tidied = Vec::with_capacity(content.len());
    let mut is_changed = false;
    for piece in content {
        match piece {
            Content::Text(text) if text.is_empty() => {}
            Content::Text(text) => {
                let bytes = text.clone();
                let shown = redactor.redact_owned(text::clean(text));
                is_changed |= shown != bytes;
                tidied.push(Content::Text(shown));
            }
            Content::ToolCall(call) => {
                let id = unique(redactor.redact_owned(call.id.clone()), &ids);
                ids.insert(id.clone());
                let shown = ToolCall {
                    id,
                    name: redactor.redact_owned(call.name.clone()),
                    arguments: redactor.redact_owned(call.arguments.clone()),
                };
                is_changed |= shown != call;
                tidied.push(Content::ToolCall(shown));
            }
            Content::Opaque(raw) => {
                if redactor.redact(raw.get()) != raw.get() {
                    is_changed = true;
                } else if !(is_bound && is_changed) {
                    tidied.push(Content::Opaque(raw));
                }
            }
        }
    }
    if stop_reason == StopReason::MaxTokens
        && let Some(Content::ToolCall(call)) = tidied.last_mut()
        && call.arguments.trim().is_empty()
    {
        // Cut off before its arguments began, which is not a call without arguments.
        "{".clone_into(&mut call.arguments);
    }
    tidied
}

/// `id`, or something like it that no call before it has.
fn unique(id: String, taken: &HashSet<String>) -> String {
    if !id.is_empty() && !taken.contains(&id) {
        return id;
    }
    let stem = if id.is_empty() { "call" } else { &id };
    // One more number than there are ids: one of them is free.
    let numbers = taken.len() + 1..=2 * taken.len() + 1;
    let mut numbered = numbers.map(|number| format!("{stem}_{number}"));
    numbered.find(|id| !taken.contains(id)).unwrap_or_default()
}

/// Returns all text of a reply.
pub(crate) fn joined(content: &[Content]) -> String {
    let texts = content.iter().filter_map(|piece| match piece {
        Content::Text(text) => Some(text.as_str()),
        Content::ToolCall(_) | Content::Opaque(_) => None,
    });
    texts.collect()
}

/// Returns the text of a reply without credentials, also where one lies across two pieces.
pub(crate) fn redacted_text(content: &[Content], redactor: &Redactor) -> String {
    redactor.redact_owned(joined(content))
}

/// The tool calls of a reply.
pub(crate) fn tool_calls(content: &[Content]) -> Vec<ToolCall> {
    let calls = content.iter().filter_map(|piece| match piece {
        Content::ToolCall(call) => Some(call.clone()),
        Content::Text(_) | Content::Opaque(_) => None,
    });
    calls.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::compact::compact_object;

    fn call(id: &str, arguments: &str) -> Content {
        Content::ToolCall(ToolCall {
            id: id.to_owned(),
            name: "shell".to_owned(),
            arguments: arguments.to_owned(),
        })
    }

    fn ids(content: Vec<Content>) -> Vec<String> {
        let tidied = tidied(content, StopReason::ToolUse, &Redactor::default(), false);
        tool_calls(&tidied).into_iter().map(|call| call.id).collect()
    }

    #[test]
    fn every_call_of_a_reply_has_an_id_of_its_own() {
        let content = vec![
            call("a", "{}"),
            call("a", "{}"),
            call("", "{}"),
            call("", "{}"),
            call("a_2", "{}"),
        ];
        assert_eq!(ids(content), ["a", "a_2", "call_3", "call_4", "a_2_5"]);
        assert_eq!(ids(vec![call("x", "{}"), call("y", "{}")]), ["x", "y"]);
    }

    #[test]
    fn no_piece_holds_a_credential() {
        let raw = |text: &str| Content::Opaque(RawValue::from_string(text.to_owned()).unwrap());
        let redactor = Redactor::new(["top-secret"]);
        let content = vec![
            Content::Text("it is top-secret".to_owned()),
            raw(r#"{"thinking":"top-secret"}"#),
            raw(r#"{"thinking":"of other things"}"#),
            call("1", r#"{"command":"echo top-secret"}"#),
        ];
        let bound = tidied(content.clone(), StopReason::ToolUse, &redactor, true);
        assert_eq!(bound.len(), 2, "thinking behind a changed piece is void");
        let shown = tidied(content, StopReason::ToolUse, &redactor, false);
        assert_eq!(shown.len(), 3);
        assert_eq!(redacted_text(&shown, &redactor), "it is [redacted]");
        assert_eq!(
            tool_calls(&shown)[0].arguments,
            r#"{"command":"echo [redacted]"}"#
        );
    }

    #[test]
    fn a_credential_across_two_pieces_is_not_said() {
        let redactor = Redactor::new(["top-secret"]);
        let content = vec![
            Content::Text("top-".to_owned()),
            Content::Text("secret".to_owned()),
        ];
        assert_eq!(redacted_text(&content, &redactor), "[redacted]");
    }

    #[test]
    fn a_call_that_was_cut_off_before_its_arguments_cannot_be_read() {
        let cut = |stop_reason| {
            let tidied = tidied(
                vec![call("1", ""), call("2", "")],
                stop_reason,
                &Redactor::default(),
                false,
            );
            tool_calls(&tidied)
                .iter()
                .map(|call| compact_object(&call.arguments).is_ok())
                .collect::<Vec<_>>()
        };
        assert_eq!(cut(StopReason::MaxTokens), [true, false]);
        assert_eq!(cut(StopReason::ToolUse), [true, true]);
    }
}
