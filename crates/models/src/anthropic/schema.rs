//! JSON Schemas that the provider enforces while the model writes.
//!
//! The provider rejects the whole request if a schema uses anything outside its subset, so we send a schema only if it is
//! certainly inside. The agent validates every answer in any case.

use serde_json::{Value, value::RawValue};

/// Maximum nesting depth.
const DEPTH: usize = 8;
/// Maximum number of subschemas. A larger schema may be too complex for the provider.
const NODES: usize = 64;
/// Maximum number of subschemas with more than one type.
const UNIONS: usize = 8;

/// Returns `text` if the provider can enforce all of it.
pub(super) fn enforceable(text: &str) -> Option<&RawValue> {
    let schema: Value = serde_json::from_str(text).ok()?;
    let mut check = Check { nodes: 0, unions: 0 };
    let is_object = schema.get("type").is_some_and(|kind| kind == "object");
    if !is_object || !check.schema(&schema, 0) {
        return None;
    }
    serde_json::from_str(text).ok()
}

struct Check {
    nodes: usize,
    unions: usize,
}

impl Check {
    fn schema(&mut self, schema: &Value, depth: usize) -> bool {
        self.nodes += 1;
        let Some(fields) = schema.as_object() else {
            return false;
        };
        if depth > DEPTH || self.nodes > NODES {
            return false;
        }
        let known = fields.iter().all(|(keyword, value)| match keyword.as_str() {
            "type" => value
                .as_str()
                .is_some_and(|kind| TYPES.contains(&kind) && has_its_fields(kind, schema)),
            "title" | "description" => value.is_string(),
            "$schema" => depth == 0 && value.is_string(),
            "enum" => value.as_array().is_some_and(|values| {
                !values.is_empty() && values.iter().all(|v| !v.is_object() && !v.is_array())
            }),
            "const" => !value.is_object() && !value.is_array(),
            "anyOf" => {
                self.unions += 1;
                let all = value.as_array().filter(|all| !all.is_empty());
                self.unions <= UNIONS && all.is_some_and(|all| all.iter().all(|s| self.schema(s, depth + 1)))
            }
            "items" => self.schema(value, depth + 1),
            "properties" => value
                .as_object()
                .is_some_and(|all| all.values().all(|s| self.schema(s, depth + 1))),
            "required" => value.is_array(),
            "additionalProperties" => *value == Value::Bool(false),
            _ => false,
        });
        known
            && ["type", "enum", "const", "anyOf"]
                .iter()
                .any(|k| fields.contains_key(*k))
    }
}

const TYPES: [&str; 7] = [
    "object", "array", "string", "integer", "number", "boolean", "null",
];

/// Requires closed objects with only required fields, because the provider allows few optional ones, and arrays with an item
/// type.
fn has_its_fields(kind: &str, schema: &Value) -> bool {
    match kind {
        "object" => {
            let required = schema.get("required").and_then(Value::as_array);
            let properties = schema.get("properties").and_then(Value::as_object);
            schema.get("additionalProperties") == Some(&Value::Bool(false))
                && properties.zip(required).is_some_and(|(properties, required)| {
                    required.len() == properties.len()
                        && required
                            .iter()
                            .all(|name| name.as_str().is_some_and(|name| properties.contains_key(name)))
                })
        }
        "array" => schema.get("items").is_some(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn object(field: &Value) -> Value {
        json!({"type": "object", "properties": {"a": field}, "required": ["a"], "additionalProperties": false})
    }

    fn is_sent(schema: &Value) -> bool {
        enforceable(&schema.to_string()).is_some()
    }

    #[test]
    fn a_closed_schema_of_plain_parts_is_sent_as_it_was_written() {
        let text = r#"{ "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "properties": {"n": {"type": "number"}, "k": {"enum": ["a", null]}, "l": {"type": "array",
            "items": {"anyOf": [{"type": "string", "description": "d"}, {"const": 1}]}}},
            "required": ["n", "k", "l"], "additionalProperties": false }"#;
        assert_eq!(enforceable(text).unwrap().get(), text);
    }

    #[test]
    fn a_schema_with_anything_else_is_left_to_the_agents_own_check() {
        assert!(is_sent(&object(&json!({"type": "string"}))));
        for field in [
            json!({"type": "string", "minLength": 1}),
            json!({"type": "integer", "minimum": 0}),
            json!({"type": "string", "pattern": "a"}),
            json!({"type": ["string", "null"]}),
            json!({"type": "array"}),
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"b": {"type": "null"}}, "required": [], "additionalProperties": false}),
            json!({"type": "object", "properties": {}, "required": [], "additionalProperties": true}),
            json!({"$ref": "#"}),
            json!({"allOf": [{"type": "string"}]}),
            json!({"enum": [[1]]}),
            json!({"const": {}}),
            json!({"anyOf": []}),
            json!({}),
            json!(true),
        ] {
            assert!(!is_sent(&object(&field)), "{field}");
        }
        for schema in [
            json!({"type": "array", "items": {"type": "null"}}),
            json!(true),
            json!({}),
        ] {
            assert!(!is_sent(&schema), "{schema}");
        }
    }

    #[test]
    fn a_schema_that_is_deep_or_large_is_not_sent() {
        let deep = |levels: usize| (0..levels).fold(json!({"type": "null"}), |inner, _| object(&inner));
        assert!(is_sent(&deep(8)));
        assert!(!is_sent(&deep(9)));
        let wide = |fields: usize| {
            let names: Vec<String> = (0..fields).map(|i| format!("f{i}")).collect();
            let properties: serde_json::Map<_, _> = names
                .iter()
                .map(|name| (name.clone(), json!({"type": "null"})))
                .collect();
            json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
        };
        assert!(is_sent(&wide(63)));
        assert!(!is_sent(&wide(64)));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _ = enforceable(&text);
        }
    }
}
