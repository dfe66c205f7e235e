//! Calls as JSON objects: `{"name": …, "arguments": {…}}` under the names that models have for these fields.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{Alias, Find, WrittenCall};

/// Fields that name the tool.
const NAMES: [&str; 6] = [
    "name",
    "tool_name",
    "tool",
    "function",
    "recipient_name",
    "action",
];
/// Fields that hold the arguments.
const ARGUMENTS: [&str; 7] = [
    "arguments",
    "parameters",
    "args",
    "params",
    "input",
    "tool_input",
    "action_input",
];
/// Fields that are irrelevant for the call.
const BESIDE: [&str; 6] = ["id", "type", "index", "tool_call_id", "role", "content"];
/// Fields within which a call is wrapped.
const WRAPPERS: [&str; 3] = ["tool_calls", "function_call", "function"];
/// Wrappers around a call, at most.
const WRAPPED: u32 = 3;

type Fields = BTreeMap<String, Box<RawValue>>;

/// Names of tools in JSON.
#[derive(Clone, Copy)]
pub(super) struct Naming<'f, 's> {
    pub(super) find: Find<'f, 's>,
    /// Whether marks are around the call.
    pub(super) is_marked: bool,
}

impl Naming<'_, '_> {
    /// Adds the calls in a JSON object or list. `None` for anything else.
    pub(super) fn calls(self, json: &str, calls: &mut Vec<WrittenCall>) -> Option<()> {
        self.wrapped_calls(json, calls, 0)
    }

    fn wrapped_calls(self, json: &str, calls: &mut Vec<WrittenCall>, depth: u32) -> Option<()> {
        if depth > WRAPPED {
            return None;
        }
        if json.starts_with('[') {
            let list: Vec<&RawValue> = serde_json::from_str(json).ok()?;
            return list
                .into_iter()
                .try_for_each(|one| self.wrapped_calls(one.get(), calls, depth + 1));
        }
        let fields: Fields = serde_json::from_str(json).ok()?;
        let wrapper = WRAPPERS.iter().find_map(|wrapper| {
            let inner = fields.get(*wrapper)?.get();
            let is_alone = fields
                .keys()
                .all(|key| key == wrapper || BESIDE.contains(&key.as_str()));
            (inner.starts_with(['{', '[']) && is_alone).then_some(inner)
        });
        if let Some(inner) = wrapper {
            return self.wrapped_calls(inner, calls, depth + 1);
        }
        calls.push(self.call(fields)?);
        Some(())
    }

    fn call(self, mut fields: Fields) -> Option<WrittenCall> {
        let name = NAMES.iter().find_map(|key| {
            let name: String = serde_json::from_str(fields.get(*key)?.get()).ok()?;
            fields.remove(*key);
            Some(name)
        })?;
        let alias = if self.is_marked {
            Alias::Allowed
        } else {
            Alias::Refused
        };
        let (name, _) = known(&name, self.find, alias)?;
        let given = ARGUMENTS.iter().find_map(|key| fields.remove(*key));
        fields.retain(|key, _| !BESIDE.contains(&key.as_str()));
        let arguments = match given {
            Some(given) if given.get().starts_with('{') => given.get().to_owned(),
            Some(given) if given.get() == "null" => "{}".to_owned(),
            Some(given) => serde_json::from_str(given.get()).ok()?,
            None if self.is_marked => serde_json::to_string(&std::mem::take(&mut fields)).ok()?,
            None => return None,
        };
        fields.is_empty().then_some(WrittenCall { name, arguments })
    }

    /// A call with unreadable JSON: its name, and the raw text as its arguments.
    pub(super) fn broken_call(self, meant: &str) -> Option<WrittenCall> {
        let behind = |keys: &[&str]| {
            keys.iter().find_map(|key| {
                let (_, rest) = meant.split_once(&format!("\"{key}\""))?;
                Some(rest.trim_start().strip_prefix(':')?.trim_start())
            })
        };
        let name = behind(&NAMES)?.strip_prefix('"')?.split_once('"')?.0;
        let (name, _) = known(name, self.find, Alias::Allowed)?;
        let arguments = behind(&ARGUMENTS).unwrap_or(super::CUT_OFF);
        Some(WrittenCall {
            name,
            arguments: arguments.trim_end().to_owned(),
        })
    }
}

/// The name by which the run knows a tool, without the decorations of some servers, with the schema of its arguments.
pub(super) fn known<'s>(name: &str, find: Find<'_, 's>, alias: Alias) -> Option<(String, &'s str)> {
    let bare = name.strip_prefix("functions.").unwrap_or(name);
    let bare = match bare.rsplit_once(':') {
        Some((bare, number)) if !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()) => {
            bare
        }
        Some(_) | None => bare,
    };
    [name, bare]
        .into_iter()
        .find_map(|name| Some((name.to_owned(), find(name, alias)?)))
}
