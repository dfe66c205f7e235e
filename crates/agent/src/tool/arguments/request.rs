//! Fields of HTTP requests as models write them: a body that is JSON, headers as lines, a query as text.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, value::to_raw_value};

use super::{Form, Given, Kind};

/// Converts the fields of a request into the form that the tool expects.
///
/// # Errors
/// The rule that a header breaks.
pub(super) fn settle(form: &Form, given: &mut Given) -> Result<(), String> {
    if form.has("json") && form.has("body") {
        settle_body(given);
    }
    for (field, read) in [("headers", headers as fn(&Value) -> _), ("query", query)] {
        if !form.is_kind(field, Kind::Object) {
            continue;
        }
        let value = given
            .get(field)
            .and_then(|value| serde_json::from_str(value.get()).ok());
        if let Some(fields) = value.as_ref().and_then(read)
            && let Ok(fields) = to_raw_value(&fields)
        {
            given.insert(field.to_owned(), fields);
        }
    }
    if form.is_kind("headers", Kind::Object) {
        settle_headers(given)?;
    }
    Ok(())
}

/// Moves a body that is not text into the field for JSON.
fn settle_body(given: &mut Given) {
    let Some(body) = given
        .get("body")
        .filter(|body| body.get().starts_with(['{', '[']))
    else {
        return;
    };
    let is_repeated = given.get("json").map(|json| json.get() == body.get());
    if is_repeated != Some(false)
        && let Some(body) = given.remove("body")
    {
        given.insert("json".to_owned(), body);
    }
}

/// Headers that are lines of text, a list of these, or a list of objects with name and value.
fn headers(value: &Value) -> Option<Map<String, Value>> {
    let mut fields = Map::new();
    match value {
        Value::String(text) => {
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                let (name, value) = line.split_once(':')?;
                let is_name =
                    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || "{}\"".contains(c));
                fields.insert(is_name.then(|| name.to_owned())?, Value::from(value.trim()));
            }
        }
        Value::Array(list) => {
            for one in list {
                match one {
                    Value::Object(one) => {
                        let name = one.get("name").or_else(|| one.get("key"))?.as_str()?;
                        fields.insert(name.to_owned(), one.get("value")?.clone());
                    }
                    line @ Value::String(_) => fields.extend(headers(line)?),
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
    }
    Some(fields)
}

/// Header values that are numbers or booleans become text; headers with null are dropped.
fn settle_headers(given: &mut Given) -> Result<(), String> {
    let fields = given
        .get("headers")
        .map(|value| serde_json::from_str::<Map<String, Value>>(value.get()));
    let Some(Ok(mut fields)) = fields else {
        return Ok(());
    };
    if fields.values().all(Value::is_string) {
        return Ok(());
    }
    fields.retain(|_, value| !value.is_null());
    for (name, value) in &mut fields {
        match value {
            Value::Number(_) | Value::Bool(_) => *value = Value::from(value.to_string()),
            Value::String(_) | Value::Null => {}
            Value::Array(_) | Value::Object(_) => {
                let name: String = name.chars().take(60).collect();
                return Err(format!("headers.{name} must be a string"));
            }
        }
    }
    if let Ok(fields) = to_raw_value(&fields) {
        given.insert("headers".to_owned(), fields);
    }
    Ok(())
}

/// A query in the form of a URL.
fn query(value: &Value) -> Option<Map<String, Value>> {
    let text = value.as_str()?.trim();
    if text.starts_with('{') {
        return None;
    }
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        percent_decode_str(&text).decode_utf8().ok().map(String::from)
    };
    let mut fields: Map<String, Value> = Map::new();
    for pair in text
        .trim_start_matches('?')
        .split('&')
        .filter(|pair| !pair.is_empty())
    {
        let (name, value) = pair.split_once('=')?;
        let (name, value) = (decoded(name)?, Value::from(decoded(value)?));
        match fields.get_mut(&name) {
            None => drop(fields.insert(name, value)),
            Some(Value::Array(list)) => list.push(value),
            Some(other) => *other = Value::from(vec![other.take(), value]),
        }
    }
    Some(fields)
}
