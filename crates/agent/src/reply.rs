//! Cleans up a message of a model as it enters the run: without credentials, without empty pieces, each tool call with a unique
//! id and with a name and arguments that every provider accepts.

use std::collections::HashSet;

use crate::{
    Redactor,
    model::{Content, StopReason, ToolCall},
    surrogates::paired,
    text,
};

/// Longest part of an id that is kept before an appended number, in bytes: the strictest provider takes 40 in all.
const ID_STEM_BYTES: usize = 32;
/// Length of an id at Mistral, which takes no other.
const MISTRAL_ID_BYTES: usize = 9;

/// Rules of a run for the replies that enter it.
pub(crate) struct ReplyRules<'a> {
    pub(crate) redactor: &'a Redactor,
    /// Whether the provider binds its thinking to everything before it.
    pub(crate) is_bound: bool,
    /// The ids of all calls of the run so far.
    pub(crate) call_ids: &'a HashSet<String>,
    /// Name of a call as it goes back to the provider.
    pub(crate) name_of_call: &'a dyn Fn(&str) -> String,
}

impl ReplyRules<'_> {
    /// The pieces as the transcript, the journal and the tools get them.
    ///
    /// An opaque piece that contains a credential is left out: it could not be sent back changed. If the provider binds its
    /// thinking, the thinking after a changed piece is left out too.
    pub(crate) fn tidied(&self, content: Vec<Content>, stop_reason: StopReason) -> Vec<Content> {
        let mut ids = HashSet::new();
        let mut tidied = Vec::with_capacity(content.len());
        let mut is_changed = false;
        for piece in content {
            match piece {
                Content::Text(text) if text.is_empty() => {}
                Content::Text(text) => {
                    let bytes = text.clone();
                    let shown = self.redactor.redact_owned(text::clean(text));
                    is_changed |= shown != bytes;
                    tidied.push(Content::Text(shown));
                }
                Content::ToolCall(call) => {
                    let shown = self.tidied_call(&call, &ids);
                    ids.insert(shown.id.clone());
                    is_changed |= shown != call;
                    tidied.push(Content::ToolCall(shown));
                }
                Content::Opaque(raw) => {
                    if self.redactor.redact(raw.get()) != raw.get() {
                        is_changed = true;
                    } else if !(self.is_bound && is_changed) {
                        tidied.push(Content::Opaque(raw));
                    }
                }
            }
        }
        if stop_reason == StopReason::MaxTokens
            && let Some(Content::ToolCall(call)) = tidied.last_mut()
            && call.arguments.trim().is_empty()
        {
            // Cut off before its arguments began; this differs from a call without arguments.
            "{".clone_into(&mut call.arguments);
        }
        tidied
    }

    fn tidied_call(&self, call: &ToolCall, ids: &HashSet<String>) -> ToolCall {
        let id = self.redactor.redact_owned(call.id.clone());
        let name = self.redactor.redact_owned(call.name.clone());
        let arguments = self.redactor.redact_owned(call.arguments.clone());
        ToolCall {
            id: self.unique(id, ids),
            name: (self.name_of_call)(&name),
            arguments: paired(&arguments).into_owned(),
        }
    }

    /// `id`, or a similar one that is used by no earlier call of the run or of this reply (`ids`).
    fn unique(&self, id: String, ids: &HashSet<String>) -> String {
        let is_taken = |id: &String| self.call_ids.contains(id) || ids.contains(id);
        if !id.is_empty() && !is_taken(&id) {
            return id;
        }
        // One more number than there are ids: one of them is free.
        let taken = self.call_ids.len() + ids.len();
        let mut numbered = (taken + 1..=2 * taken + 1).map(|number| numbered(&id, number));
        numbered.find(|id| !is_taken(id)).unwrap_or_default()
    }
}

/// An id like `id` with this number, in its provider's format.
fn numbered(id: &str, number: usize) -> String {
    if id.is_empty() {
        // Mistral accepts no other format.
        return format!("call{number:05}");
    }
    // Kimi reads the name of the tool before the colon, and the number of the call after it.
    if let Some((stem, digits)) = id.rsplit_once(':')
        && digits.bytes().all(|byte| byte.is_ascii_digit())
    {
        return format!("{stem}:{number}");
    }
    let number = number.to_string();
    if id.len() == MISTRAL_ID_BYTES && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return format!(
            "{}{number}",
            text::head(id, MISTRAL_ID_BYTES.saturating_sub(number.len()))
        );
    }
    format!("{}_{number}", text::head(id, ID_STEM_BYTES))
}

/// Returns all text of a reply.
pub(crate) fn joined(content: &[Content]) -> String {
    let texts = content.iter().filter_map(|piece| match piece {
        Content::Text(text) => Some(text.as_str()),
        Content::ToolCall(_) | Content::Opaque(_) => None,
    });
    texts.collect()
}

/// Returns the text of a reply without credentials, even if one spans two pieces.
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
    use sortie_testkit::rows;

    use super::*;
    use crate::compact::compact_object;

    fn call(id: &str, arguments: &str) -> Content {
        Content::ToolCall(ToolCall {
            id: id.to_owned(),
            name: "shell".to_owned(),
            arguments: arguments.to_owned(),
        })
    }

    /// The pieces as they enter a run that has made calls with the ids `before`.
    fn entering(content: Vec<Content>, before: &[&str]) -> Vec<ToolCall> {
        let rules = ReplyRules {
            redactor: &Redactor::default(),
            is_bound: false,
            call_ids: &before.iter().map(|id| (*id).to_owned()).collect(),
            name_of_call: &str::to_owned,
        };
        tool_calls(&rules.tidied(content, StopReason::ToolUse))
    }

    fn ids(ids: &[&str], before: &[&str]) -> Vec<String> {
        let content = ids.iter().map(|id| call(id, "{}")).collect();
        entering(content, before)
            .into_iter()
            .map(|call| call.id)
            .collect()
    }

    #[test]
    fn every_call_has_an_id_of_its_own_in_the_whole_run() {
        for (reply, before, expected) in rows! {
            &["a", "a", "", "", "a_2"][..], &[][..], &["a", "a_2", "call00003", "call00004", "a_2_5"][..];
            &["x", "y"], &[], &["x", "y"];
            &["call_0", "call_1"], &["call_0"], &["call_0_2", "call_1"];
            // Kimi and Ollama begin anew in each reply.
            &["functions.shell:0", "functions.shell:1"], &["functions.shell:0", "functions.shell:3"],
                &["functions.shell:4", "functions.shell:1"];
            // Mistral takes nine letters and digits.
            &["aB3xK9pQz"], &["aB3xK9pQz", "b"], &["aB3xK9pQ3"];
            &["", ""], &["call00002"], &["call00003", "call00004"];
            &["call00001"], &["call00001"], &["call00002"];
        } {
            assert_eq!(ids(reply, before), expected, "{reply:?} after {before:?}");
        }
        let long = "x".repeat(40);
        assert_eq!(ids(&[&long], &[&long]), [format!("{}_2", "x".repeat(32))]);
    }

    #[test]
    fn half_a_surrogate_pair_in_arguments_becomes_a_character() {
        let arguments = |json: &str| entering(vec![call("a", json)], &[])[0].arguments.clone();
        assert_eq!(arguments(r#"{"path":"\ud99c.txt"}"#), r#"{"path":"\ufffd.txt"}"#);
        for whole in [r#"{"path":"\ud83d\ude00"}"#, r#"{"path":"\\ud99c"}"#] {
            assert_eq!(arguments(whole), whole);
        }
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
        let no_ids = HashSet::new();
        let rules = |is_bound| ReplyRules {
            redactor: &redactor,
            is_bound,
            call_ids: &no_ids,
            name_of_call: &str::to_owned,
        };
        let bound = rules(true).tidied(content.clone(), StopReason::ToolUse);
        assert_eq!(bound.len(), 2, "thinking behind a changed piece is void");
        let shown = rules(false).tidied(content, StopReason::ToolUse);
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
            let rules = ReplyRules {
                redactor: &Redactor::default(),
                is_bound: false,
                call_ids: &HashSet::new(),
                name_of_call: &str::to_owned,
            };
            tool_calls(&rules.tidied(vec![call("1", ""), call("2", "")], stop_reason))
                .iter()
                .map(|call| compact_object(&call.arguments).is_ok())
                .collect::<Vec<_>>()
        };
        assert_eq!(cut(StopReason::MaxTokens), [true, false]);
        assert_eq!(cut(StopReason::ToolUse), [true, true]);
    }
}
