//! Converts schemas of arguments to a form that every provider accepts.
//!
//! A provider rejects the whole request because of a single invalid schema, so we repair schemas here: unambiguous constructs are
//! rewritten for the strictest provider, and alternatives are merged into one object. The result may allow more than the server's
//! schema, so the arguments are checked against that before a call. A schema without faults stays unchanged. Sources, as of
//! 2026-11-28:
//!
//! - Anthropic: "`input_schema` does not support oneOf, allOf, or anyOf at the top level"; "Property keys should match
//!   pattern '^[a-zA-Z0-9_.-]{1,64}$'"; "JSON schema is invalid. It must match JSON Schema draft 2020-12".
//! - `OpenAI`: "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"; "array
//!   schema missing items".
//! - Gemini: "reference to undefined schema".
//! - Ollama reads no schema that is `true`.

use std::{cell::Cell, collections::HashSet};

use serde_json::{Map, Value, json};

/// Keywords that providers reject at the top level.
const REFUSED_AT_TOP: [&str; 7] = ["anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref"];
/// Keywords that are merged with those of the top level.
const STATED_ANEW: [&str; 4] = ["type", "properties", "required", "discriminator"];
/// Maximum number of consecutive references, and maximum nesting of alternatives.
const LEVELS: usize = 8;
/// Maximum number of subschemas to collect fields from: references may multiply them.
const PARTS: usize = 200;
/// Maximum number of subschemas to repair. A text of maximum size has fewer, unless references multiply them.
const SCHEMAS: usize = 4_000;
/// Maximum nesting depth. Deeper schemas are refused.
const DEPTH: usize = 64;
/// Maximum length of a property name, in bytes.
const NAME_BYTES: usize = 64;
/// Maximum length of the sentence about alternatives, in bytes.
const CHOICE_BYTES: usize = 400;

/// A schema that providers accept.
#[derive(Debug, PartialEq)]
pub(super) struct Repaired {
    pub(super) schema: Map<String, Value>,
    /// Top-level properties with a name that providers reject: the replacement name, and the server's.
    pub(super) renamed: Vec<(String, String)>,
    /// Whether anything was repaired.
    pub(super) is_changed: bool,
}

/// Repairs a schema. The error is the reason why it cannot be repaired.
pub(super) fn repaired(root: Value) -> Result<Repaired, &'static str> {
    let Some(real) = root.as_object() else {
        return Err("it has no schema of its arguments");
    };
    let mut schema = top(real, &root)?;
    if schema.get("type").is_some_and(|kind| !allows_object(kind)) {
        return Err("its arguments are not an object");
    }
    schema.insert("type".to_owned(), Value::from("object"));
    if !schema.get("properties").is_some_and(Value::is_object) {
        schema.insert("properties".to_owned(), json!({}));
    }
    let plain = schema.clone();
    let is_merged = REFUSED_AT_TOP.iter().any(|keyword| real.contains_key(*keyword));
    let renamed = rename(&mut schema);
    let mut schema = Value::Object(schema);
    let places = Places {
        now: schema.clone(),
        before: root,
        left: Cell::new(SCHEMAS),
    };
    places.mend(&mut schema, DEPTH)?;
    let Value::Object(schema) = schema else {
        return Err("its arguments are not an object");
    };
    Ok(Repaired {
        is_changed: is_merged || schema != plain,
        schema,
        renamed,
    })
}

/// Whether a `type` allows an object. Invalid types count as yes.
fn allows_object(kind: &Value) -> bool {
    match kind {
        Value::String(kind) => type_named(kind).is_none_or(|kind| kind == "object"),
        Value::Array(kinds) => kinds.is_empty() || kinds.iter().any(allows_object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => true,
    }
}

/// Returns the top level without constructs that providers reject there.
fn top(real: &Map<String, Value>, root: &Value) -> Result<Map<String, Value>, &'static str> {
    if !REFUSED_AT_TOP.iter().any(|keyword| real.contains_key(*keyword)) {
        return Ok(real.clone());
    }
    let mut parts = Parts { root, left: PARTS };
    let whole = parts.resolved(real)?;
    let fields = parts
        .fields(&whole, LEVELS)?
        .ok_or("its arguments are not an object")?;
    let dropped = |keyword: &str| REFUSED_AT_TOP.contains(&keyword) || STATED_ANEW.contains(&keyword);
    let mut schema: Map<String, Value> = whole
        .iter()
        .filter(|(keyword, _)| !dropped(keyword))
        .map(|(keyword, value)| (keyword.clone(), value.clone()))
        .collect();
    schema.insert("properties".to_owned(), Value::Object(fields.properties));
    if !fields.required.is_empty() {
        schema.insert("required".to_owned(), json!(fields.required));
    }
    if let Some(choice) = choice(&fields.choices) {
        let told = schema
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let told = format!("{told} {choice}");
        schema.insert("description".to_owned(), Value::from(told.trim()));
    }
    Ok(schema)
}

/// Returns the sentence about alternative sets of required fields.
fn choice(choices: &[Vec<String>]) -> Option<String> {
    let sets: Vec<String> = choices.iter().map(|set| set.join(" and ")).collect();
    let told = format!("Needed: {}.", sets.join("; or "));
    (choices.len() > 1 && sets.iter().all(|set| !set.is_empty()) && told.len() <= CHOICE_BYTES)
        .then_some(told)
}

/// Fields of an object, merged from all subschemas that define them.
#[derive(Default)]
struct Fields {
    properties: Map<String, Value>,
    required: Vec<String>,
    /// Alternative sets of required fields, of which at least one must be present.
    choices: Vec<Vec<String>>,
}

impl Fields {
    /// Adds the fields of a schema that also applies (conjunction).
    fn and(&mut self, other: Self) {
        for (name, schema) in other.properties {
            match (self.properties.get_mut(&name), schema) {
                (Some(Value::Object(known)), Value::Object(more)) => {
                    for (keyword, value) in more {
                        known.entry(keyword).or_insert(value);
                    }
                }
                (Some(known), schema) if *known == Value::Bool(true) => *known = schema,
                (Some(_), _) => {}
                (None, schema) => {
                    self.properties.insert(name, schema);
                }
            }
        }
        for name in other.required {
            if !self.required.contains(&name) {
                self.required.push(name);
            }
        }
        if self.choices.is_empty() {
            self.choices = other.choices;
        }
    }

    /// Merges the fields of alternatives. A field is required if all alternatives require it.
    fn any(alternatives: Vec<Self>) -> Self {
        let mut required = alternatives
            .first()
            .map_or_else(Vec::new, |first| first.required.clone());
        required.retain(|name| alternatives.iter().all(|fields| fields.required.contains(name)));
        let mut choices: Vec<Vec<String>> = Vec::new();
        for fields in &alternatives {
            let own = fields.required.iter().filter(|name| !required.contains(name));
            let own: Vec<String> = own.cloned().collect();
            if !choices.contains(&own) {
                choices.push(own);
            }
        }
        let mut variants: Vec<(String, Vec<Value>)> = Vec::new();
        for (name, schema) in alternatives.into_iter().flat_map(|fields| fields.properties) {
            match variants.iter_mut().find(|(known, _)| *known == name) {
                Some((_, schemas)) if schemas.contains(&schema) => {}
                Some((_, schemas)) => schemas.push(schema),
                None => variants.push((name, vec![schema])),
            }
        }
        Self {
            properties: variants
                .into_iter()
                .map(|(name, schemas)| (name, either(&schemas)))
                .collect(),
            required,
            choices,
        }
    }
}

/// Merges the schemas of a field. If each lists its values, like a discriminator field, the result lists all values.
fn either(schemas: &[Value]) -> Value {
    let values: Option<Vec<&Value>> = schemas
        .iter()
        .map(|schema| match (schema.get("const"), schema.get("enum")) {
            (Some(value), _) => Some(std::slice::from_ref(value)),
            (None, Some(Value::Array(values))) => Some(values.as_slice()),
            (None, _) => None,
        })
        .collect::<Option<Vec<_>>>()
        .map(|values| values.into_iter().flatten().collect());
    match (schemas.first(), values) {
        (Some(Value::Object(first)), Some(values)) if schemas.len() > 1 => {
            let mut one = first.clone();
            one.remove("const");
            let mut all: Vec<Value> = Vec::new();
            for value in values {
                if !all.contains(value) {
                    all.push(value.clone());
                }
            }
            one.insert("enum".to_owned(), Value::from(all));
            Value::Object(one)
        }
        (Some(only), _) if schemas.len() == 1 => only.clone(),
        _ => json!({"anyOf": schemas}),
    }
}

/// Subschemas from which fields are collected.
struct Parts<'a> {
    root: &'a Value,
    left: usize,
}

impl Parts<'_> {
    /// Returns a schema with the target of its reference merged in; its own keywords have priority.
    fn resolved(&self, schema: &Map<String, Value>) -> Result<Map<String, Value>, &'static str> {
        let mut whole = schema.clone();
        for _level in 0..LEVELS {
            let Some(reference) = whole.remove("$ref") else {
                return Ok(whole);
            };
            let reference = reference.as_str().unwrap_or_default();
            if !reference.starts_with('#') {
                return Err("its schema refers to another document");
            }
            let Some(Value::Object(target)) = target(self.root, reference) else {
                return Err("its schema refers to nothing");
            };
            for (keyword, value) in target {
                whole.entry(keyword).or_insert_with(|| value.clone());
            }
        }
        Err("its schema refers to itself")
    }

    /// Returns the fields of a schema. `None` if it does not allow an object.
    fn fields(&mut self, schema: &Map<String, Value>, levels: usize) -> Result<Option<Fields>, &'static str> {
        const TOO_LARGE: &str = "its schema has too many alternatives";
        self.left = self.left.checked_sub(1).ok_or(TOO_LARGE)?;
        let levels = levels.checked_sub(1).ok_or(TOO_LARGE)?;
        let schema = self.resolved(schema)?;
        if schema.get("type").is_some_and(|kind| !allows_object(kind)) {
            return Ok(None);
        }
        let list = |keyword: &str| {
            schema
                .get(keyword)
                .and_then(Value::as_array)
                .map_or(&[][..], Vec::as_slice)
        };
        let mut fields = Fields {
            properties: schema
                .get("properties")
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default(),
            required: list("required")
                .iter()
                .filter_map(|name| name.as_str().map(str::to_owned))
                .collect(),
            choices: Vec::new(),
        };
        for part in list("allOf").iter().filter_map(Value::as_object) {
            fields.and(self.fields(part, levels)?.unwrap_or_default());
        }
        for keyword in ["anyOf", "oneOf"] {
            let mut alternatives = Vec::new();
            for part in list(keyword).iter().filter_map(Value::as_object) {
                alternatives.extend(self.fields(part, levels)?);
            }
            if alternatives.is_empty() && !list(keyword).is_empty() {
                return Ok(None);
            }
            fields.and(Fields::any(alternatives));
        }
        for part in ["then", "else"]
            .iter()
            .filter_map(|keyword| schema.get(*keyword)?.as_object())
        {
            let conditional = self.fields(part, levels)?.unwrap_or_default();
            fields.and(Fields {
                properties: conditional.properties,
                ..Fields::default()
            });
        }
        Ok(Some(fields))
    }
}

/// Returns the target of a reference such as `#/$defs/Item`.
fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(reference.strip_prefix('#')?)
}

/// Renames top-level properties with names that providers reject, and returns the changes.
fn rename(schema: &mut Map<String, Value>) -> Vec<(String, String)> {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else {
        return Vec::new();
    };
    let is_taken = |name: &str| {
        (1..=NAME_BYTES).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
    };
    if properties.keys().all(|name| is_taken(name)) {
        return Vec::new();
    }
    let mut names: HashSet<String> = properties.keys().filter(|name| is_taken(name)).cloned().collect();
    let mut renamed = Vec::new();
    let mut anew = Map::new();
    for (name, value) in std::mem::take(properties) {
        let shown = if is_taken(&name) {
            name
        } else {
            let shown = unique(&name, &names);
            names.insert(shown.clone());
            renamed.push((shown.clone(), name));
            shown
        };
        anew.insert(shown, value);
    }
    *properties = anew;
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        for name in required {
            if let Some((shown, _)) = renamed.iter().find(|(_, real)| name.as_str() == Some(real)) {
                *name = Value::from(shown.as_str());
            }
        }
    }
    renamed
}

/// Returns a unique valid name for `real`.
fn unique(real: &str, names: &HashSet<String>) -> String {
    let letters = real.chars().map(|c| {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') {
            c
        } else {
            '_'
        }
    });
    let plain: String = letters.take(NAME_BYTES - 4).collect();
    let plain = match plain.trim_matches('_') {
        "" => "field",
        plain => plain,
    };
    let mut name = plain.to_owned();
    let mut number = 2_usize;
    while names.contains(&name) {
        name = format!("{plain}_{number}");
        number += 1;
    }
    name
}

/// Documents to resolve references in: the repaired one, and the server's.
struct Places {
    now: Value,
    before: Value,
    /// Number of schemas that may still be repaired. Inlined references multiply them.
    left: Cell<usize>,
}

impl Places {
    /// Repairs a schema and all its subschemas.
    fn mend(&self, schema: &mut Value, depth: usize) -> Result<(), &'static str> {
        let depth = depth.checked_sub(1).ok_or("its schema is nested too deep")?;
        let left = self.left.get().checked_sub(1).ok_or("its schema is too large")?;
        self.left.set(left);
        // A shorthand such as `"name": "string"`, or a value that allows everything.
        if let Value::String(kind) = schema {
            *schema = type_named(kind).map_or_else(|| json!({}), |kind| json!({"type": kind}));
        }
        let fields = match schema {
            Value::Object(fields) => fields,
            Value::Bool(false) => return Ok(()),
            Value::Bool(true) | Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                *schema = json!({});
                return Ok(());
            }
        };
        self.place(fields);
        tuple(fields);
        bounds(fields);
        types(fields);
        fields.retain(|keyword, value| fits(keyword, value));
        if is_array(fields) && !fields.contains_key("items") {
            fields.insert("items".to_owned(), json!({}));
        }
        for (keyword, value) in fields {
            match (keyword.as_str(), value) {
                (
                    "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
                    Value::Object(schemas),
                ) => schemas
                    .values_mut()
                    .try_for_each(|schema| self.mend(schema, depth))?,
                ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                    schemas
                        .iter_mut()
                        .try_for_each(|schema| self.mend(schema, depth))?;
                }
                ("items" | "contains" | "not" | "if" | "then" | "else" | "propertyNames", schema) => {
                    self.mend(schema, depth)?;
                }
                ("additionalProperties" | "unevaluatedProperties" | "unevaluatedItems", schema)
                    if !schema.is_boolean() =>
                {
                    self.mend(schema, depth)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Inlines the target of a reference if repairing the top level has removed it. Removes a reference without a target.
    fn place(&self, fields: &mut Map<String, Value>) {
        for level in 0..LEVELS {
            let reference = match fields.get("$ref") {
                Some(Value::String(reference)) if reference.starts_with("#/") => reference.clone(),
                Some(_) | None => return,
            };
            if reference.contains('%') || target(&self.now, &reference).is_some() {
                return;
            }
            fields.remove("$ref");
            if let Some(Value::Object(gone)) = target(&self.before, &reference)
                && level + 1 < LEVELS
            {
                for (keyword, value) in gone {
                    fields.entry(keyword).or_insert_with(|| value.clone());
                }
            }
        }
    }
}

fn is_array(fields: &Map<String, Value>) -> bool {
    match fields.get("type") {
        Some(Value::String(kind)) => kind == "array",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "array"),
        Some(_) | None => false,
    }
}

/// Converts a list of schemas to draft 2020-12. Drafts up to 2019-09 have it in `items`.
fn tuple(fields: &mut Map<String, Value>) {
    if let Some(Value::Array(schemas)) = fields.get("items") {
        let schemas = Value::Array(schemas.clone());
        let rest = fields.remove("additionalItems").unwrap_or_else(|| json!({}));
        fields.insert("prefixItems".to_owned(), schemas);
        fields.insert("items".to_owned(), rest);
    }
}

/// Converts exclusive bounds to numbers. In draft 4 they are booleans that modify the bound.
fn bounds(fields: &mut Map<String, Value>) {
    for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if fields.get(exclusive) == Some(&Value::Bool(true))
            && let Some(limit) = fields.remove(bound)
        {
            fields.insert(exclusive.to_owned(), limit);
        }
    }
}

/// Normalizes types to the names of JSON Schema.
fn types(fields: &mut Map<String, Value>) {
    match fields.get_mut("type") {
        Some(Value::String(kind)) => match type_named(kind) {
            Some(named) if named == kind.as_str() => {}
            Some(named) => named.clone_into(kind),
            None => drop(fields.remove("type")),
        },
        Some(Value::Array(kinds)) => {
            let mut known: Vec<Value> = Vec::new();
            for kind in kinds.iter().filter_map(|kind| kind.as_str().and_then(type_named)) {
                if !known.iter().any(|other| other == kind) {
                    known.push(Value::from(kind));
                }
            }
            *kinds = known;
        }
        Some(_) | None => {}
    }
}

/// Returns the type for a name, including names from other languages. `None` for an unknown name.
fn type_named(name: &str) -> Option<&'static str> {
    Some(match name.to_ascii_lowercase().as_str() {
        "object" | "dict" | "map" => "object",
        "array" | "list" | "tuple" => "array",
        "string" | "str" => "string",
        "integer" | "int" => "integer",
        "number" | "float" | "double" => "number",
        "boolean" | "bool" => "boolean",
        "null" | "none" => "null",
        _ => return None,
    })
}

/// Whether a value of a keyword conforms to the meta-schema of draft 2020-12. Unknown keywords can have any value.
fn fits(keyword: &str, value: &Value) -> bool {
    let is_count = || {
        value
            .as_f64()
            .is_some_and(|count| count >= 0.0 && count.fract() == 0.0)
    };
    let is_schema = || value.is_object() || value.is_boolean();
    match keyword {
        "description" | "title" | "format" | "pattern" | "$comment" | "$schema" | "$id" | "$ref"
        | "$anchor" => value.is_string(),
        "type" => value.is_string() || value.as_array().is_some_and(|kinds| !kinds.is_empty()),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "multipleOf" => value.as_f64().is_some_and(|step| step > 0.0),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => is_count(),
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => value.is_boolean(),
        "required" => value.as_array().is_some_and(|names| {
            let mut known = HashSet::new();
            names
                .iter()
                .all(|name| name.as_str().is_some_and(|name| known.insert(name)))
        }),
        "enum" | "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
            value.as_array().is_some_and(|all| !all.is_empty())
        }
        "examples" => value.is_array(),
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
        | "dependentRequired" => value.is_object(),
        "items"
        | "contains"
        | "not"
        | "if"
        | "then"
        | "else"
        | "propertyNames"
        | "additionalProperties"
        | "unevaluatedProperties"
        | "unevaluatedItems" => is_schema(),
        _ => true,
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
