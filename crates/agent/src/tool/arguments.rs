//! Lenient parsing of a tool's arguments. Models use field names of other tools, write numbers as strings and `null` for absent
//! fields, and wrap the whole object once more.
//!
//! The tool's JSON Schema defines the expected fields. Other arguments are refused in one message that names each field, its type
//! and an example.

mod request;

use std::collections::BTreeMap;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::{
    ToolError,
    names::{FIELDS, distance, folded, is_remark},
};
use crate::{
    model::ToolDefinition,
    weak::near_json::{self, Closing},
};

/// Objects in which models wrap the arguments once more.
const WRAPPERS: [&str; 7] = [
    "arguments",
    "args",
    "parameters",
    "params",
    "input",
    "toolinput",
    "kwargs",
];
/// Fields next to a wrapped object that only repeat the call.
const BESIDE_WRAPPER: [&str; 4] = ["name", "tool", "id", "type"];
/// A timeout of this many seconds and more is meant in milliseconds.
const TIMEOUT_IN_MILLISECONDS_FROM: u64 = 10_000;

/// Reads the arguments of a call of the tool that `definition` describes.
///
/// # Errors
/// The message for the model, when a field is missing, unknown or of another type.
pub fn arguments_of<T: DeserializeOwned>(
    definition: &ToolDefinition<'_>,
    raw: &RawValue,
) -> Result<T, ToolError> {
    let form = Form::of(definition);
    let refused = |problems: &[String]| ToolError::NotSent(form.refusal(definition.name, problems));
    let mut given = form.unwrapped(raw).map_err(|problem| refused(&[problem]))?;
    form.translate(&mut given);
    form.rename(&mut given);
    request::settle(&form, &mut given).map_err(|problem| refused(&[problem]))?;
    let read = form.read(given).map_err(|problems| refused(&problems))?;
    to_raw_value(&read)
        .and_then(|read| serde_json::from_str(read.get()))
        .map_err(|_| refused(&["the arguments do not fit".to_owned()]))
}

/// Fields as the model sent them.
type Given = BTreeMap<String, Box<RawValue>>;

/// The fields of a tool, from its JSON Schema.
#[derive(Default, Deserialize)]
struct Form {
    #[serde(default)]
    properties: BTreeMap<String, Field>,
    #[serde(default)]
    required: Vec<String>,
}

#[derive(Deserialize)]
struct Field {
    #[serde(rename = "type", default)]
    kind: Kind,
    minimum: Option<u64>,
    #[serde(rename = "enum", default)]
    values: Vec<Value>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    String,
    Integer,
    Boolean,
    Array,
    Object,
    #[default]
    #[serde(other)]
    Other,
}

impl Form {
    fn of(definition: &ToolDefinition<'_>) -> Self {
        serde_json::from_str(definition.parameters).unwrap_or_default()
    }

    fn has(&self, field: &str) -> bool {
        self.properties.contains_key(field)
    }

    fn is_kind(&self, field: &str, kind: Kind) -> bool {
        self.properties.get(field).is_some_and(|field| field.kind == kind)
    }

    /// Unwraps the fields from objects or strings in which a model wrapped them.
    fn unwrapped(&self, raw: &RawValue) -> Result<Given, String> {
        let object = |text: &str| serde_json::from_str::<Given>(text);
        let mut given = object(raw.get()).map_err(|_| "the arguments must be a JSON object".to_owned())?;
        for _ in 0..3 {
            let wrapper = given
                .keys()
                .find(|key| !self.has(key) && WRAPPERS.contains(&folded(key).as_str()));
            let Some(wrapper) = wrapper.cloned() else { break };
            let alone = given
                .keys()
                .all(|key| *key == wrapper || BESIDE_WRAPPER.contains(&key.as_str()) && !self.has(key));
            let Some(inner) = given.get(&wrapper).filter(|_| alone) else {
                break;
            };
            let inner = match serde_json::from_str::<String>(inner.get()) {
                Ok(text) => object(&text),
                Err(_) => object(inner.get()),
            };
            let Ok(inner) = inner else { break };
            given = inner;
        }
        given.retain(|field, value| value.get() != "null" && (self.has(field) || !is_remark(field)));
        Ok(given)
    }

    /// Translates fields of other tools with the same meaning in another form.
    fn translate(&self, given: &mut Given) {
        let foreign: Vec<String> = given.keys().filter(|field| !self.has(field)).cloned().collect();
        for field in foreign {
            let Some(value) = given.get(&field).map(|value| value.get().to_owned()) else {
                continue;
            };
            let said: Vec<(&str, String)> = match folded(&field).as_str() {
                "viewrange" | "linerange" | "range" if self.has("end_line") => {
                    let Ok([first, last]) = serde_json::from_str::<[i64; 2]>(&value) else {
                        continue;
                    };
                    let last = (last > 0).then(|| ("end_line", last.to_string()));
                    std::iter::once(("start_line", first.to_string()))
                        .chain(last)
                        .collect()
                }
                "timeoutms" | "timeoutmillis" | "timeoutmilliseconds" if self.has("timeout_seconds") => {
                    let Some(milliseconds) = whole(&value) else {
                        continue;
                    };
                    vec![("timeout_seconds", milliseconds.div_ceil(1_000).to_string())]
                }
                "timeout" if self.has("timeout_seconds") => match whole(&value) {
                    Some(long) if long >= TIMEOUT_IN_MILLISECONDS_FROM => {
                        vec![("timeout_seconds", long.div_ceil(1_000).to_string())]
                    }
                    _ => continue,
                },
                "a" | "b" | "c" if self.has("context") => vec![("context", value)],
                "outputmode" if self.has("files_only") => {
                    let names = value.contains("files") || value.contains("count");
                    vec![("files_only", names.to_string())]
                }
                "casesensitive" if self.has("ignore_case") => {
                    vec![("ignore_case", value.contains("false").to_string())]
                }
                "recursive" if self.has("max_depth") => {
                    let flat = value.contains("false").then(|| ("max_depth", "1".to_owned()));
                    flat.into_iter().collect()
                }
                "respectgitignore" | "respectignore" if self.has("include_ignored") => {
                    vec![("include_ignored", value.contains("false").to_string())]
                }
                _ => continue,
            };
            given.remove(&field);
            for (field, value) in said {
                if let Ok(value) = RawValue::from_string(value) {
                    given.entry(field.to_owned()).or_insert(value);
                }
            }
        }
    }

    /// Renames each field to the tool's name for it. A name that the tool knows stays, unless it is an alias of the one required
    /// field that is missing, as the `pattern` of a search is.
    fn rename(&self, given: &mut Given) {
        for (field, aliases) in FIELDS.iter().filter(|(field, _)| self.has(field)) {
            if given.contains_key(*field) {
                continue;
            }
            let needed = self.required.iter().any(|required| required == field);
            let named = |key: &&String| {
                let name = folded(key);
                name == folded(field) || aliases.contains(&name.as_str())
            };
            let foreign = given.keys().find(|key| !self.has(key) && named(key));
            let alias = foreign.or_else(|| {
                let spare = |key: &&String| needed && !self.required.contains(key) && named(key);
                given.keys().find(spare)
            });
            if let Some(alias) = alias.cloned()
                && let Some(value) = given.remove(&alias)
            {
                given.insert((*field).to_owned(), value);
            }
        }
        self.limit(given);
        self.folder_of_command(given);
    }

    /// A folder that a command is to run in.
    fn folder_of_command(&self, given: &mut Given) {
        if !self.has("command") {
            return;
        }
        let folder = given.keys().find(|key| {
            matches!(
                folded(key).as_str(),
                "workdir" | "workingdirectory" | "cwd" | "directory"
            )
        });
        let Some(folder) = folder.cloned() else { return };
        let read = |given: &Given, field: &str| given.get(field).and_then(|value| text(field, value.get()));
        if let (Some(place), Some(command)) = (read(given, &folder), read(given, "command"))
            && let Some(place) = command_line(&[place])
            && let Ok(line) = to_raw_value(&format!("cd -- {place} || exit\n{command}"))
        {
            given.remove(&folder);
            given.insert("command".to_owned(), line);
        }
    }

    /// A number of lines instead of the last one.
    fn limit(&self, given: &mut Given) {
        if !self.has("end_line") || given.contains_key("end_line") {
            return;
        }
        let limit = given.keys().find(|key| {
            matches!(
                folded(key).as_str(),
                "limit" | "numlines" | "linecount" | "maxlines" | "count"
            )
        });
        let Some(limit) = limit.cloned() else { return };
        let first = given.get("start_line").and_then(|first| whole(first.get()));
        let first = first.unwrap_or(1).max(1);
        if let Some(lines) = given.get(&limit).and_then(|lines| whole(lines.get()))
            && let Some(last) = first.checked_add(lines.max(1) - 1)
            && let Ok(last) = RawValue::from_string(last.to_string())
        {
            given.remove(&limit);
            given.insert("end_line".to_owned(), last);
        }
    }

    /// The fields in their types, or all of their mistakes.
    fn read(&self, given: Given) -> Result<Given, Vec<String>> {
        let mut problems = Vec::new();
        for required in &self.required {
            if !given.contains_key(required)
                && let Some(field) = self.properties.get(required)
            {
                problems.push(format!("{required} is missing; it must be {}", field.wanted()));
            }
        }
        let mut read = Given::new();
        for (name, value) in given {
            let Some(field) = self.properties.get(&name) else {
                problems.push(self.unknown(&name));
                continue;
            };
            match field.read(&name, value) {
                Ok(value) => drop(read.insert(name, value)),
                Err(value) => problems.push(match type_of(value.get()) {
                    "a number" => format!("{name} must be {}", field.wanted()),
                    _ if !field.values.is_empty() => format!("{name} must be {}", field.wanted()),
                    other => format!("{name} must be {}; it is {other}", field.wanted()),
                }),
            }
        }
        if problems.is_empty() {
            Ok(read)
        } else {
            Err(problems)
        }
    }

    fn unknown(&self, name: &str) -> String {
        let name: String = name.chars().take(60).filter(|c| !c.is_control()).collect();
        let nearest = self
            .properties
            .keys()
            .map(|field| (distance(field, &name), field))
            .min()
            .filter(|(distance, field)| *distance <= field.len() / 2);
        match nearest {
            Some((_, field)) => format!("there is no field {name}; {field} is the nearest"),
            None => format!("there is no field {name}"),
        }
    }

    fn refusal(&self, tool: &str, problems: &[String]) -> String {
        let optional = self
            .properties
            .keys()
            .filter(|name| !self.required.contains(name));
        let fields: Vec<String> = self
            .required
            .iter()
            .chain(optional)
            .filter_map(|name| {
                let field = self.properties.get(name)?;
                let optional = if self.required.contains(name) {
                    ""
                } else {
                    ", optional"
                };
                Some(format!("{name} ({}{optional})", field.kind.name()))
            })
            .collect();
        let example: Vec<String> = self
            .required
            .iter()
            .map(|name| format!("{name:?}: {}", example(name)))
            .collect();
        format!(
            "{tool}: {}. Fields: {}. Example: {{{}}}",
            problems.join("; "),
            fields.join(", "),
            example.join(", ")
        )
    }
}

impl Field {
    fn wanted(&self) -> String {
        match (self.kind, self.minimum) {
            _ if !self.values.is_empty() => {
                let values: Vec<String> = self.values.iter().map(Value::to_string).collect();
                format!("one of {}", values.join(", "))
            }
            (Kind::String, _) => "a string".to_owned(),
            (Kind::Integer, None) => "a whole number".to_owned(),
            (Kind::Integer, Some(least)) => format!("a whole number from {least}"),
            (Kind::Boolean, _) => "true or false".to_owned(),
            (Kind::Array, _) => "a list".to_owned(),
            (Kind::Object, _) => "an object".to_owned(),
            (Kind::Other, _) => "of the type in the tool's description".to_owned(),
        }
    }

    /// The value in the field's type; `None` if it cannot be read as such. A value of the right type stays verbatim.
    fn read(&self, name: &str, value: Box<RawValue>) -> Result<Box<RawValue>, Box<RawValue>> {
        let raw = value.get();
        let first = raw.as_bytes().first();
        let read = match self.kind {
            Kind::String if self.values.is_empty() && first == Some(&b'"') => return Ok(value),
            Kind::String => text(name, raw)
                .and_then(|text| self.named(text))
                .map(Value::String),
            Kind::Integer => {
                // A first line of 0 comes from a tool that counts from 0.
                let number = whole(raw).map(|number| {
                    if name == "start_line" {
                        number.max(1)
                    } else {
                        number
                    }
                });
                number
                    .filter(|number| self.minimum.is_none_or(|least| *number >= least))
                    .map(Value::from)
            }
            Kind::Boolean => truth(raw).map(Value::Bool),
            Kind::Array if first == Some(&b'[') => return Ok(value),
            Kind::Object if first == Some(&b'{') => return Ok(value),
            Kind::Array | Kind::Object => {
                let open = if self.kind == Kind::Array { '[' } else { '{' };
                // Unwraps a value within a string, or wraps a single value if a list is expected.
                let inner = near_json::decoded(raw).filter(|inner| inner.trim_start().starts_with(open));
                if let Some(inner) = inner {
                    let json = near_json::whole(&inner, Closing::Required).ok();
                    return json
                        .and_then(|json| RawValue::from_string(json).ok())
                        .ok_or(value);
                }
                let one = (self.kind == Kind::Array).then(|| format!("[{raw}]"));
                return one.and_then(|one| RawValue::from_string(one).ok()).ok_or(value);
            }
            Kind::Other => return Ok(value),
        };
        match read.and_then(|read| to_raw_value(&read).ok()) {
            Some(read) => Ok(read),
            None => Err(value),
        }
    }

    /// The text as one of the field's values, if the field is an enumeration.
    fn named(&self, text: String) -> Option<String> {
        if self.values.is_empty() {
            return Some(text);
        }
        let mut values = self.values.iter().filter_map(Value::as_str);
        values
            .find(|value| value.eq_ignore_ascii_case(text.trim()))
            .map(str::to_owned)
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "whole number",
            Self::Boolean => "true or false",
            Self::Array => "list",
            Self::Object => "object",
            Self::Other => "JSON",
        }
    }
}

/// A string or its equivalent: a number verbatim, a list of one string, a command as a list of words.
fn text(field: &str, raw: &str) -> Option<String> {
    match serde_json::from_str(raw).ok()? {
        Value::String(text) => Some(text),
        Value::Number(_) | Value::Bool(_) => Some(raw.to_owned()),
        Value::Array(_) => {
            let mut words: Vec<String> = serde_json::from_str(raw).ok()?;
            if words.len() == 1 {
                return words.pop();
            }
            (field == "command").then(|| command_line(&words)).flatten()
        }
        Value::Null | Value::Object(_) => None,
    }
}

/// A command given as a list: the script of `bash -c`, else the words, quoted if necessary.
fn command_line(words: &[String]) -> Option<String> {
    if let [shell, flag, script] = words
        && matches!(shell.rsplit('/').next(), Some("bash" | "sh" | "zsh"))
        && matches!(flag.as_str(), "-c" | "-lc" | "-ic" | "-cl")
    {
        return Some(script.clone());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%+".contains(c);
    let quoted: Vec<String> = words
        .iter()
        .map(|word| {
            if !word.is_empty() && word.chars().all(plain) {
                word.clone()
            } else {
                format!("'{}'", word.replace('\'', r"'\''"))
            }
        })
        .collect();
    (!quoted.is_empty()).then(|| quoted.join(" "))
}

/// A whole number, also as `30.0`, `"30"` or `"30.0"`.
fn whole(raw: &str) -> Option<u64> {
    let text = serde_json::from_str::<String>(raw).unwrap_or_else(|_| raw.to_owned());
    let text = text.trim();
    let digits = match text.split_once('.') {
        Some((digits, zeros)) if zeros.chars().all(|c| c == '0') => digits,
        Some(_) => return None,
        None => text,
    };
    digits.parse().ok()
}

fn truth(raw: &str) -> Option<bool> {
    let text = serde_json::from_str::<String>(raw).unwrap_or_else(|_| raw.to_owned());
    match text.trim().to_lowercase().as_str() {
        "true" | "yes" | "1" | "on" => Some(true),
        "false" | "no" | "0" | "off" | "" => Some(false),
        _ => None,
    }
}

fn type_of(raw: &str) -> &'static str {
    match raw.as_bytes().first() {
        Some(b'"') => "a string",
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b't' | b'f') => "a truth value",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// An example value of a required field, as JSON.
fn example(field: &str) -> &'static str {
    match field {
        "path" => r#""src/main.py""#,
        "old_text" => r#""count = 1""#,
        "new_text" => r#""count = 2""#,
        "content" => r#""line 1\nline 2\n""#,
        "command" => r#""ls -la""#,
        "regex" => r#""def main|class Main""#,
        "url" => r#""https://example.org/""#,
        "query" => r#""words to look for""#,
        _ => r#""…""#,
    }
}

#[cfg(test)]
mod tests;
