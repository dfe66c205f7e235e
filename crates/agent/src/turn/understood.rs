//! Corrects replies of language models: arguments that are nearly JSON become JSON, and calls that the model wrote as text become
//! calls. This happens before a reply is kept, so that the journal, a resumed run and the provider have the same calls as the
//! tools.

use serde_json::value::RawValue;

use super::Agent;
use crate::{
    model::{Content, Reply, StopReason, ToolCall},
    reply,
    schema::Schema,
    weak::{
        near_json::{self, Closing},
        written_calls::{self, Alias},
    },
};

impl Agent<'_> {
    /// Corrects the calls of a reply. Returns whether any text in it has changed.
    pub(super) fn understand(&self, reply: &mut Reply) -> bool {
        let Some(changed) = self.first_changed(reply) else {
            return false;
        };
        if self.caller.model.binds_thinking() {
            let mut index = 0;
            reply.content.retain(|piece| {
                index += 1;
                index <= changed || !matches!(piece, Content::Opaque(_))
            });
        }
        true
    }

    /// Corrects the calls. Returns the index of the first piece that is changed.
    fn first_changed(&self, reply: &mut Reply) -> Option<usize> {
        let is_cut = reply.stop_reason == StopReason::MaxTokens;
        let is_call = |piece: &Content| matches!(piece, Content::ToolCall(_));
        let Some(last) = reply.content.iter().rposition(is_call) else {
            return match reply.stop_reason {
                StopReason::Refusal => None,
                StopReason::EndTurn | StopReason::ToolUse | StopReason::MaxTokens => {
                    self.take_written_calls(reply)
                }
            };
        };
        let mut changed = None;
        for (index, piece) in reply.content.iter_mut().enumerate() {
            let closing = if is_cut && index == last {
                Closing::Required
            } else {
                Closing::Implied
            };
            if let Content::ToolCall(call) = piece
                && let Some(json) = repaired(&call.arguments, closing)
            {
                call.arguments = json;
                changed.get_or_insert(index);
            }
        }
        changed
    }

    /// Extracts calls from the end of a reply's text. Returns the index of the first piece that contained one, if any.
    fn take_written_calls(&self, reply: &mut Reply) -> Option<usize> {
        let schema = self.spec.output_schema.as_deref().map_or("", Schema::text);
        if ["\"arguments\"", "\"parameters\""]
            .iter()
            .any(|field| schema.contains(field))
        {
            return None;
        }
        let closing = if reply.stop_reason == StopReason::MaxTokens {
            Closing::Required
        } else {
            Closing::Implied
        };
        // A call may begin in a part that was cut off.
        let whole = self.cut.concat() + &reply::joined(&reply.content);
        let answer = self.tags.split(&whole).answer;
        let find = |name: &str, alias: Alias| {
            let tool = self.tools.find(name)?.definition();
            (alias == Alias::Allowed || tool.name == name).then_some(tool.parameters)
        };
        let written = written_calls::read(answer, &self.spec.prompt, closing, &find)?;
        let changed = drop_end(&mut reply.content, answer.len() - written.at);
        let calls = written.calls.into_iter().map(|call| {
            Content::ToolCall(ToolCall {
                id: String::new(),
                arguments: repaired(&call.arguments, closing).unwrap_or(call.arguments),
                name: call.name,
            })
        });
        reply.content.extend(calls);
        Some(changed)
    }
}

/// Drops so many bytes from the end of the text. Returns the index of the first piece that is changed.
fn drop_end(content: &mut [Content], mut bytes: usize) -> usize {
    let mut changed = content.len();
    for (index, piece) in content.iter_mut().enumerate().rev() {
        let Content::Text(text) = piece else { continue };
        if bytes == 0 {
            break;
        }
        changed = index;
        let dropped = bytes.min(text.len());
        text.truncate(text.floor_char_boundary(text.len() - dropped));
        bytes -= dropped;
        text.truncate(text.trim_end().len());
    }
    changed
}

/// The JSON object that arguments are meant to be; `None` where they are one already, or have no single meaning.
fn repaired(arguments: &str, closing: Closing) -> Option<String> {
    let is_object = match serde_json::from_str::<&RawValue>(arguments) {
        Ok(value) => value.get().starts_with('{'),
        Err(_) => arguments.trim().is_empty(),
    };
    if is_object {
        return None;
    }
    near_json::object(arguments, closing).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_are_an_object_stay_as_they_came() {
        for arguments in ["", " ", "{}", "{ \"n\" : 1.0e0 }\n", r#"{"a":"\ud83d\ude00"}"#] {
            assert_eq!(repaired(arguments, Closing::Implied), None, "{arguments}");
        }
        assert_eq!(repaired(r#"{"a":"x "y""}"#, Closing::Implied), None);
    }

    #[test]
    fn the_end_of_a_text_is_dropped_across_its_pieces() {
        let text = |text: &str| Content::Text(text.to_owned());
        let mut content = vec![text("I look.\n\n<tool"), text("_call>{}")];
        assert_eq!(drop_end(&mut content, 13), 0);
        assert_eq!(reply::joined(&content), "I look.");
        let mut content = vec![text("é{}")];
        assert_eq!(drop_end(&mut content, 100), 0);
        let mut content = vec![text("I look."), text("{}")];
        assert_eq!(drop_end(&mut content, 2), 1);
        let mut content = vec![text("é{}")];
        drop_end(&mut content, 100);
        assert_eq!(reply::joined(&content), "");
    }
}
