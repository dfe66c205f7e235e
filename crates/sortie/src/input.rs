//! Texts and definitions that a command reads from a file or from standard input, up to a limit.

use std::{collections::BTreeMap, fs::File, io::Read, path::Path};

use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};
use sortie_api::{limits, plain};

use crate::{
    failure::{Failure, Result},
    texts,
};

/// Fields of a definition. The values keep their text: a number of any size is sent as it was written.
pub(crate) type Fields = BTreeMap<String, Box<RawValue>>;

/// Largest definition of a connection and largest token: every field at its limit fits.
pub(crate) const DEFINITION_BYTES: usize = 1 << 20;

/// Name of standard input in messages.
pub(crate) const STDIN: &str = "standard input";

/// Reads a file, or standard input for `-`. Returns the name of the source for messages, and the text.
pub(crate) fn file_or_stdin(path: &Path, stdin: &mut impl Read, limit: usize) -> Result<(String, String)> {
    if path == Path::new("-") {
        return Ok((STDIN.to_owned(), text(stdin, STDIN, limit)?));
    }
    Ok((path.display().to_string(), file(path, limit)?))
}

pub(crate) fn file(path: &Path, limit: usize) -> Result<String> {
    let name = path.display().to_string();
    match File::open(path) {
        Ok(mut file) => text(&mut file, &name, limit),
        Err(error) => Err(unreadable(&name, &error)),
    }
}

/// Reads a text of at most `limit` bytes.
pub(crate) fn text(source: &mut impl Read, name: &str, limit: usize) -> Result<String> {
    let mut text = String::new();
    source
        .take(limit as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|error| unreadable(name, &error))?;
    if text.len() > limit {
        return Err(Failure::usage(format!("{name}: larger than {limit} bytes")));
    }
    Ok(text)
}

fn unreadable(name: &str, error: &std::io::Error) -> Failure {
    Failure::usage(format!("{name}: cannot be read: {}", plain::io(error)))
}

/// Reads the fields of a definition from a JSON, YAML or TOML file, or as JSON from standard input for `-`. Returns the
/// name of the source for messages, and the fields.
///
/// # Errors
/// Fails if the source cannot be read, has another ending, or is not an object of its format. The error names the place.
pub(crate) fn object(path: &Path, stdin: &mut impl Read) -> Result<(String, Fields)> {
    let (place, text) = file_or_stdin(path, stdin, limits::BODY_BYTES)?;
    let wrong = |rule: String| Failure::usage(format!("{place}: {rule}"));
    let ending = if path == Path::new("-") {
        Some("json")
    } else {
        path.extension().and_then(|ending| ending.to_str())
    };
    let fields = match ending {
        Some("json") => serde_json::from_str(&text)
            .map_err(|error| wrong(format!("not JSON: {}", plain::json(&error))))?,
        Some("yaml" | "yml") => {
            let read = texts::yaml(&text).map_err(|rule| wrong(format!("not YAML: {rule}")))?;
            fields_of(&read)?
        }
        Some("toml") => fields_of(&toml(&text).map_err(wrong)?)?,
        Some(_) | None => return Err(wrong("name it .toml, .yaml, .yml or .json".to_owned())),
    };
    Ok((place, fields))
}

/// Returns the fields of a value that is an object in JSON.
pub(crate) fn fields_of(object: &impl Serialize) -> Result<Fields> {
    let unwritable = |error: serde_json::Error| {
        Failure::internal(format!("the request cannot be written: {}", plain::json(&error)))
    };
    let text = serde_json::to_string(object).map_err(unwritable)?;
    serde_json::from_str(&text).map_err(unwritable)
}

pub(crate) fn toml(text: &str) -> std::result::Result<Map<String, Value>, String> {
    texts::toml(text)
        .map_err(|rule| format!("not TOML: {rule}"))?
        .into_iter()
        .map(|(name, value)| {
            let value = json(value).ok_or_else(|| format!("{name}: has a number that JSON does not have"))?;
            Ok((name, value))
        })
        .collect()
}

/// A value of TOML in JSON, with times as texts; `None` for infinities and NaN.
fn json(value: toml::Value) -> Option<Value> {
    Some(match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => serde_json::Number::from_f64(number)?.into(),
        toml::Value::Boolean(on) => on.into(),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(items) => items.into_iter().map(json).collect::<Option<Vec<_>>>()?.into(),
        toml::Value::Table(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, value)| Some((name, json(value)?)))
                .collect::<Option<_>>()?,
        ),
    })
}
