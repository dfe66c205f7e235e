//! Fits arguments for the tools of servers to the server's schema. Values that do not fit but have one fitting meaning are
//! converted: `null` for an optional field, JSON within a string, a number or a boolean as text. Everything else goes to the
//! server, which knows its own rules.

use serde_json::{Map, Value, value::RawValue};

use super::ToolError;
use crate::{model::ToolDefinition, weak::near_json};

/// Levels of a schema that are looked at.
const DEPTH: usize = 32;

/// Reads the arguments of a call of the tool that `definition` describes.
///
/// # Errors
/// The message for the model, if the arguments are not a JSON object that every reader accepts.
pub fn fitted_arguments(
    definition: &ToolDefinition<'_>,
    raw: &RawValue,
) -> Result<Map<String, Value>, ToolError> {
    let Ok(mut arguments) = serde_json::from_str(raw.get()) else {
        return Err(ToolError::NotSent(format!(
            "{}: the arguments must be a JSON object, with numbers below 1e308 and whole characters",
            definition.name
        )));
    };
    let schema: Value = serde_json::from_str(definition.parameters).unwrap_or_default();
    fit_fields(&schema, &mut arguments, DEPTH);
    Ok(arguments)
}

fn fit_fields(schema: &Value, fields: &mut Map<String, Value>, depth: usize) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    let is_required = |name: &str| {
        let required = schema.get("required").and_then(Value::as_array);
        required.is_some_and(|required| required.iter().any(|field| field == name))
    };
    fields.retain(|name, value| {
        let property = properties
            .get(name)
            .filter(|_| value.is_null() && !is_required(name));
        !property.is_some_and(refuses_null)
    });
    for (name, value) in fields {
        if let Some(property) = properties.get(name) {
            fit(property, value, depth);
        }
    }
}

fn fit(schema: &Value, value: &mut Value, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let kinds = kinds(schema);
    if !kinds.is_empty() && !kinds.iter().any(|kind| is_kind(value, kind)) {
        let mut meant = kinds.iter().filter_map(|kind| as_kind(value, kind));
        if let (Some(one), None) = (meant.next(), meant.next()) {
            *value = one;
        }
    }
    match value {
        Value::Object(fields) => fit_fields(schema, fields, depth),
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    fit(schema, item, depth);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The types that a schema names.
fn kinds(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        Some(_) | None => Vec::new(),
    }
}

fn refuses_null(schema: &Value) -> bool {
    let kinds = kinds(schema);
    !kinds.is_empty() && !kinds.contains(&"null") && schema.get("nullable") != Some(&Value::Bool(true))
}

fn is_kind(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true,
    }
}

/// The value converted to another type, if it has a meaning there.
fn as_kind(value: &Value, kind: &str) -> Option<Value> {
    match (value, kind) {
        (Value::Number(_) | Value::Bool(_), "string") => Some(Value::from(value.to_string())),
        (Value::Number(number), "integer") => whole(number.as_f64()?),
        (Value::String(text), "boolean") => match text.trim().to_ascii_lowercase().as_str() {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => None,
        },
        (Value::String(text), "integer" | "number" | "array" | "object") => {
            let json = near_json::whole(text, near_json::Closing::Required).ok()?;
            let read: Value = serde_json::from_str(&json).ok()?;
            if is_kind(&read, kind) {
                return Some(read);
            }
            (kind == "integer").then(|| whole(read.as_f64()?)).flatten()
        }
        _ => None,
    }
}

/// A number without a fraction as a whole number.
fn whole(number: f64) -> Option<Value> {
    let text = format!("{number:.0}");
    let is_whole = text
        .parse::<f64>()
        .is_ok_and(|whole| whole.to_bits() == number.to_bits());
    is_whole
        .then(|| text.parse::<i64>().ok().map(Value::from))
        .flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "required": ["needed"],
            "properties": {
                "needed": {"type": "string"},
                "name": {"type": "string"},
                "count": {"type": "integer"},
                "share": {"type": ["number", "null"]},
                "on": {"type": "boolean"},
                "any": {},
                "either": {"type": ["integer", "string"]},
                "maybe": {"type": "string", "nullable": true},
                "filter": {"type": "object", "properties": {"page": {"type": "integer"}}},
                "labels": {"type": "array", "items": {"type": "string"}},
            }
        })
    }

    fn fitted(arguments: &Value) -> Value {
        let parameters = schema().to_string();
        let definition = ToolDefinition {
            name: "api__list",
            description: "",
            parameters: &parameters,
        };
        let raw = RawValue::from_string(arguments.to_string()).unwrap();
        Value::Object(fitted_arguments(&definition, &raw).unwrap())
    }

    #[test]
    fn values_with_one_meaning_take_the_type_of_the_schema() {
        for (sent, meant) in [
            (json!({"name": null, "count": null}), json!({})),
            (json!({"count": "3"}), json!({"count": 3})),
            (json!({"count": 3.0}), json!({"count": 3})),
            (json!({"count": "3.0"}), json!({"count": 3})),
            (json!({"share": "0.5"}), json!({"share": 0.5})),
            (json!({"on": "True"}), json!({"on": true})),
            (json!({"name": 12}), json!({"name": "12"})),
            (
                json!({"filter": "{\"page\": \"2\"}"}),
                json!({"filter": {"page": 2}}),
            ),
            (json!({"filter": {"page": null}}), json!({"filter": {}})),
            (json!({"labels": "[\"a\"]"}), json!({"labels": ["a"]})),
            (json!({"labels": [1]}), json!({"labels": ["1"]})),
        ] {
            assert_eq!(fitted(&sent), meant, "{sent}");
        }
    }

    #[test]
    fn values_that_fit_and_values_without_a_meaning_stay() {
        for sent in [
            json!({"needed": null}),
            json!({"share": null, "maybe": null, "any": null, "unknown": null}),
            json!({"any": "{\"a\": 1}", "unknown": "3", "either": "3"}),
            json!({"name": "{\"a\": 1}", "maybe": "null"}),
            json!({"count": "three", "on": "yes", "filter": "page 2", "labels": "a, b"}),
            json!({"count": 2.5}),
        ] {
            assert_eq!(fitted(&sent), sent, "{sent}");
        }
    }

    proptest! {
        #[test]
        fn no_arguments_panic(text in "[a-z0-9\\[\\]{}\":,. -]{0,40}", field in "count|share|on|filter|labels|any") {
            let _ = fitted(&json!({ field: text }));
        }
    }
}
