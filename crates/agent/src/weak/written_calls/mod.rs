//! Tool calls that a model wrote as text, because its server does not know the format that the model was trained with.
//!
//! All formats are one grammar: marks around one or more calls, and each call as a JSON object, as a name followed by its
//! arguments, as Python writes it, or as tags with a tag for each argument. A text is read as calls only if it consists of calls
//! up to its end, or up to results that the model made up, and all of them call tools of the run. Code blocks and sentences are
//! never read as calls, and neither are formats that the task itself mentions.

mod json;
mod python;
mod tags;

use self::{json::Naming, tags::Tag};
use super::near_json::{self, Closing};
use crate::fence;

/// Calls at the end of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// Offset of the first mark. The text before it belongs to the answer.
    pub(crate) at: usize,
    pub(crate) calls: Vec<WrittenCall>,
}

/// A call; its arguments may be unreadable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenCall {
    pub(crate) name: String,
    /// JSON of the arguments, or the text that was meant to be that.
    pub(crate) arguments: String,
}

/// The JSON Schema of the arguments of a tool, by the name that a model gives it. Whether another agent's name for the tool
/// counts is said by the second argument.
pub(crate) type Find<'f, 's> = &'f dyn Fn(&str, Alias) -> Option<&'s str>;

/// Treatment of a name that models know from other agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alias {
    Allowed,
    Refused,
}

/// Arguments of a call that is not whole: no JSON, and nothing that is read as some.
const CUT_OFF: &str = "{\"";
/// Places of a text that are tried.
const TRIES: usize = 8;

/// Tokens of chat templates around calls. Those in the first list begin some, also within a line: no sentence has them.
const OPENING_TOKENS: [&str; 11] = [
    "[TOOL_CALLS]",
    "<|python_tag|>",
    "<|tool_call|>",
    "<|tool_call_begin|>",
    "<|tool_call_start|>",
    "<|tool_calls_section_begin|>",
    "✿FUNCTION✿:",
    "<|START_ACTION|>",
    "<|channel|>commentary to=",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
];
const OTHER_TOKENS: [&str; 22] = [
    "[/TOOL_CALLS]",
    "<|/tool_call|>",
    "</|tool_call|>",
    "<|tool_call_end|>",
    "<|tool_calls_section_end|>",
    "<|END_ACTION|>",
    "<|call|>",
    "<|end|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot|>",
    "<|return|>",
    "<|END_OF_TURN_TOKEN|>",
    "<end_of_turn>",
    "<eos>",
    "</s>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁end｜>",
    "<｜end▁of▁sentence｜>",
];
/// Opening tag of a tool result. Some models write a result themselves after their calls.
const RESULT: &str = "<tool_response";
/// Marks between the name of a tool and its arguments.
const SEPARATORS: [&str; 8] = [
    "[ARGS]",
    "✿ARGS✿:",
    "<｜tool▁sep｜>",
    "<|tool_call_argument_begin|>",
    "<|constrain|>",
    "<|message|>",
    "```json",
    "```",
];

/// The calls at the end of `text`, the answer of a model that works on `task`. With [`Closing::Required`] the text may be
/// cut off.
pub(crate) fn read(text: &str, task: &str, closing: Closing, find: Find<'_, '_>) -> Option<Written> {
    let scanner = |at, is_marked| Scanner {
        text,
        at,
        closing,
        find,
        is_marked,
        has_results: !task.contains(RESULT),
        calls: Vec::new(),
    };
    let at = text.len() - text.trim_start().len();
    let is_asked_for =
        || task.contains("name") && ["arguments", "parameters"].iter().any(|key| task.contains(key));
    if text.trim_start().starts_with(['{', '['])
        && !is_asked_for()
        && let Some(calls) = scanner(at, false).calls()
    {
        return Some(Written { at, calls });
    }
    let mut places = marked(text, task).take(TRIES);
    places.find_map(|at| {
        let calls = scanner(at, true).calls()?;
        Some(Written { at, calls })
    })
}

/// The offsets at which calls can begin, in their order: at a tag that begins its line or follows a sentence in it, or
/// at a token. Each line has one at most.
fn marked<'t>(text: &'t str, task: &'t str) -> impl Iterator<Item = usize> + 't {
    let tokens = OPENING_TOKENS.iter().filter(|token| !task.contains(**token));
    let tokens: Vec<&str> = tokens.copied().collect();
    fence::lines_outside(text).filter_map(move |(from, line)| {
        let tag = tag_in(text, from, line, task);
        let token = tokens.iter().filter_map(|token| line.find(token)).min();
        let token = token.filter(|at| {
            let before = line.get(..*at).unwrap_or_default();
            before.matches('`').count().is_multiple_of(2)
        });
        let first = tag.into_iter().chain(token).min()?;
        Some(from + first)
    })
}

/// The offset in a line of the first tag that begins calls: at the beginning of the line, or after the end of a sentence. In
/// code, in a quoted line and after the number of an item a tag is text. The line begins at the offset `from`.
fn tag_in(text: &str, from: usize, line: &str, task: &str) -> Option<usize> {
    let begin = line.len() - line.trim_start().len();
    let is_quoted = line.trim_start().starts_with('>');
    let word = line.find(char::is_alphabetic).filter(|_| !is_quoted);
    let (mut ticks, mut counted) = (0, 0);
    let mut places = line.match_indices('<').map(|(at, _)| at);
    places.find(|at| {
        let before = line.get(..*at).unwrap_or_default();
        ticks += before.get(counted..).unwrap_or_default().matches('`').count();
        counted = *at;
        let is_code = ticks % 2 == 1;
        let is_behind_words = word.is_some_and(|word| word < *at);
        let is_place = *at == begin || is_behind_words && !is_code && ends_sentence(before);
        is_place && Tag::at(text, from + at).is_some_and(|tag| begins_calls(&tag, task))
    })
}

fn ends_sentence(text: &str) -> bool {
    text.trim_end().ends_with(['.', ':', '!', '…', '。', '：', '！'])
}

/// Whether calls begin with this tag, and the task does not mention it.
fn begins_calls(tag: &Tag<'_>, task: &str) -> bool {
    let is_opening = !tag.is_closing && (tag.is_wrapper() || tag.is_call());
    is_opening && !task.contains(&format!("<{}", tag.name))
}

/// The length of the mark that begins here: a token, or a tag around calls.
fn mark_length(text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let token = OPENING_TOKENS
        .iter()
        .chain(&OTHER_TOKENS)
        .find(|token| rest.starts_with(**token));
    token
        .map(|token| token.len())
        .or_else(|| Some(Tag::at(text, at).filter(Tag::is_wrapper)?.end - at))
}

/// Reads calls to the end of a text.
struct Scanner<'t, 'f, 's> {
    text: &'t str,
    at: usize,
    closing: Closing,
    find: Find<'f, 's>,
    /// Whether marks are around the calls. Without any, only whole JSON with the exact name of a tool is a call.
    is_marked: bool,
    /// Whether a result after a call is made up, because the task does not mention results.
    has_results: bool,
    calls: Vec<WrittenCall>,
}

impl<'t, 's> Scanner<'t, '_, 's> {
    fn calls(mut self) -> Option<Vec<WrittenCall>> {
        loop {
            self.skip_marks();
            let rest = self.rest();
            if rest.is_empty() || self.is_result(self.at) {
                return (!self.calls.is_empty()).then_some(self.calls);
            }
            if self.is_python_list() {
                self.python_calls()?;
            } else if rest.starts_with(['{', '[']) {
                self.json_calls()?;
            } else if !self.is_marked {
                return None;
            } else if rest.starts_with('<') {
                self.tagged_call()?;
            } else {
                self.named_call()?;
            }
        }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_white(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Skips white space, marks, and separators of calls.
    fn skip_marks(&mut self) {
        loop {
            let rest = self.rest();
            let separates = |c: char| c.is_whitespace() || matches!(c, ',' | ';') && !self.calls.is_empty();
            let bare = rest.trim_start_matches(separates);
            self.at += rest.len() - bare.len();
            match mark_length(self.text, self.at).filter(|_| self.is_marked || !self.calls.is_empty()) {
                Some(length) => self.at += length,
                None => return,
            }
        }
    }

    /// Whether a result that is made up begins at this offset.
    fn is_result(&self, at: usize) -> bool {
        let rest = self.text.get(at..).unwrap_or_default();
        self.has_results && rest.starts_with(RESULT)
    }

    /// The offset of the next mark, or the end of the text.
    fn next_mark(&self, from: usize) -> usize {
        let rest = self.text.get(from..).unwrap_or_default();
        let mut places = rest.match_indices(['<', '[']).map(|(at, _)| from + at);
        let is_mark = |at: &usize| {
            mark_length(self.text, *at).is_some()
                || self.is_result(*at)
                || Tag::at(self.text, *at).is_some_and(|tag| tag.is_call() || tag.is_end_of_arguments())
        };
        places.find(is_mark).unwrap_or(self.text.len())
    }

    /// Reads the JSON value here, up to the next mark if it lacks closing brackets. An error has the malformed text, which is
    /// skipped.
    fn json(&mut self) -> Result<String, &'t str> {
        let from = self.at;
        let (end, closing) = match near_json::value(self.text, from, Closing::Required) {
            Ok((json, end)) => {
                let rest = self.text.get(end..).unwrap_or_default();
                let surplus = rest.len() - rest.trim_start_matches(['}', ']']).len();
                self.at = end + surplus;
                return Ok(json);
            }
            Err(why) => {
                let end = self.next_mark(why.at.max(from));
                let is_ended = end < self.text.len();
                (end, if is_ended { Closing::Implied } else { self.closing })
            }
        };
        self.at = end;
        let meant = self.text.get(from..end).unwrap_or_default();
        near_json::whole(meant.trim_end(), closing).map_err(|_| meant)
    }

    /// Reads calls that are JSON objects, or a list of them.
    fn json_calls(&mut self) -> Option<()> {
        let naming = Naming {
            find: self.find,
            is_marked: self.is_marked,
        };
        match self.json() {
            Ok(json) => naming.calls(&json, &mut self.calls),
            Err(meant) if self.is_marked => {
                self.calls.push(naming.broken_call(meant)?);
                Some(())
            }
            Err(_) => None,
        }
    }

    /// Reads a name, a separator, and the arguments.
    fn named_call(&mut self) -> Option<()> {
        let mut name = self.word()?;
        self.skip_separators();
        // DeepSeek's kind of the call, before its name.
        if name == "function" {
            name = self.word()?;
            self.skip_separators();
        }
        let (name, schema) = self.named(name)?;
        let rest = self.rest();
        let arguments = if rest.starts_with('{') {
            self.json().unwrap_or_else(str::to_owned)
        } else if rest.starts_with('(') {
            self.python_arguments()?
        } else if rest.starts_with("<arg_key>") {
            self.keyed_arguments(schema)
        } else if mark_length(self.text, self.at).is_some() {
            "{}".to_owned()
        } else if rest.is_empty() && self.closing == Closing::Required {
            CUT_OFF.to_owned()
        } else {
            return None;
        };
        self.calls.push(WrittenCall { name, arguments });
        let rest = self.rest().trim_start();
        if let Some(behind) = rest.strip_prefix("```") {
            self.at = self.text.len() - behind.len();
        }
        Some(())
    }

    fn word(&mut self) -> Option<&'t str> {
        let rest = self.rest();
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/');
        let word = rest.get(..rest.len() - rest.trim_start_matches(is_word).len())?;
        self.at += word.len();
        (!word.is_empty()).then_some(word)
    }

    fn skip_separators(&mut self) {
        loop {
            let rest = self.rest();
            let bare = rest.trim_start();
            let separator = SEPARATORS.iter().find(|separator| bare.starts_with(*separator));
            self.at += rest.len() - bare.len() + separator.map_or(0, |separator| separator.len());
            match separator {
                Some(&"<|constrain|>") => drop(self.word()),
                Some(_) => {}
                None if bare.starts_with("[CALL_ID]") => {
                    self.at += "[CALL_ID]".len();
                    self.word();
                }
                None => return,
            }
        }
    }

    /// The name of a tool of the run, and the schema of its arguments.
    fn named(&self, name: &str) -> Option<(String, &'s str)> {
        json::known(name, self.find, Alias::Allowed)
    }
}

#[cfg(test)]
mod tests;
