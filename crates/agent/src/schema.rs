//! JSON Schemas from untrusted sources: compiled within bounds, without a network, checked with messages that name the field.
//!
//! Inputs that could make a check disproportionately expensive are refused beforehand: a schema with multiplying `$ref`s, or an
//! instance on which the schema would be applied millions of times or nested too deep for a thread's stack.

mod graph;
mod message;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;
use sortie_api::limits::SCHEMA_BYTES;

use self::graph::{Cost, Graph};

/// Messages of one check at most.
const MESSAGES: usize = 10;
/// Compiled size of one `pattern`, in bytes.
const PATTERN_BYTES: usize = 1 << 20;
/// Above this cost, only the mismatch itself is reported: collecting its locations takes memory proportional to the instance.
const EXPLAINED_COST: u64 = 200_000;

/// A compiled schema.
pub struct Schema {
    text: Box<str>,
    parsed: Value,
    validator: Validator,
}

/// Reason why a schema is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSchema(pub String);

impl Schema {
    /// Compiles the text of a schema.
    ///
    /// Refuses: more than 64 KiB, anything but a JSON object, drafts other than 7, 2019-09 and 2020-12 (the default), references
    /// to other documents, references that are unresolved, circular or along more than 10,000 paths, patterns that are not linear
    /// or too large, and schemas that violate the draft's meta-schema.
    pub fn compile(schema: &str) -> Result<Self, InvalidSchema> {
        if schema.len() > SCHEMA_BYTES {
            return Err(InvalidSchema(format!("must be at most {SCHEMA_BYTES} bytes")));
        }
        let value: Value = serde_json::from_str(schema)
            .map_err(|error| InvalidSchema(format!("not JSON: {}", sortie_api::plain::json(&error))))?;
        if !value.is_object() {
            return Err(InvalidSchema("must be a JSON object".to_owned()));
        }
        let draft = draft(&value)?;
        Graph::new(&value).check().map_err(InvalidSchema)?;
        let validator = jsonschema::options()
            .with_draft(draft)
            .offline()
            .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES))
            .build(&value)
            .map_err(|error| InvalidSchema(message::of_schema(&error)))?;
        Ok(Self {
            text: schema.into(),
            parsed: value,
            validator,
        })
    }

    /// The text it was compiled from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Checks a JSON text; messages such as `input.items[2].price: not of type "number"`, at most 10, where `root`
    /// is `input` or `output`. It may take a second of computing for the largest texts: not for an async thread.
    pub fn check(&self, root: &str, instance: &str) -> Result<(), Vec<String>> {
        let instance: Value = serde_json::from_str(instance)
            .map_err(|error| vec![format!("{root}: not JSON: {}", sortie_api::plain::json(&error))])?;
        let Cost::Units(cost) = Graph::new(&self.parsed).cost(&instance) else {
            return Err(vec![format!(
                "{root}: too large or too deep to be checked against the schema"
            )]);
        };
        if self.validator.is_valid(&instance) {
            return Ok(());
        }
        let mut messages = Vec::new();
        if cost <= EXPLAINED_COST {
            for error in self.validator.iter_errors(&instance) {
                messages.extend(message::of_instance(root, &error));
                if messages.len() >= MESSAGES {
                    break;
                }
            }
            messages.truncate(MESSAGES);
        }
        if messages.is_empty() {
            messages.push(format!("{root}: does not match the schema"));
        }
        Err(messages)
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Schema").field(&self.text).finish()
    }
}

/// The draft that `$schema` names.
fn draft(schema: &Value) -> Result<Draft, InvalidSchema> {
    let Some(named) = schema.get("$schema") else {
        return Ok(Draft::Draft202012);
    };
    let named = named.as_str().unwrap_or_default();
    let bare = named.trim_end_matches('#');
    let bare = bare
        .strip_prefix("https://")
        .or_else(|| bare.strip_prefix("http://"))
        .unwrap_or_default();
    match bare {
        "json-schema.org/draft/2020-12/schema" => Ok(Draft::Draft202012),
        "json-schema.org/draft/2019-09/schema" => Ok(Draft::Draft201909),
        "json-schema.org/draft-07/schema" => Ok(Draft::Draft7),
        _ => Err(InvalidSchema(
            "$schema: must name draft 7, 2019-09 or 2020-12".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests;
