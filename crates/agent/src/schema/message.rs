//! Message of a mismatch: one line that names the field and repeats nothing large.

use std::fmt::Write as _;

use jsonschema::{
    ValidationError,
    error::{TypeKind, ValidationErrorKind},
    paths::{Location, LocationSegment},
};

use crate::text;

/// Longest message, in bytes.
const MESSAGE_BYTES: usize = 300;

/// Rule for the patterns of a schema.
const PATTERN_RULE: &str =
    "must be a regular expression without look-around and back-references, and not a large one";

/// Messages for one error: an error about several properties names each.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the library's own sentence does for all other kinds"
)]
pub(super) fn of_instance(root: &str, error: &ValidationError<'_>) -> Vec<String> {
    let at = path(root, error.instance_path());
    let message = |what: String| cut(&format!("{at}: {what}"));
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let property = property.as_str().unwrap_or_default();
            vec![cut(&format!("{}: required", with_property(at, property)))]
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => unexpected
            .iter()
            .map(|name| cut(&format!("{}: unknown property", with_property(at.clone(), name))))
            .collect(),
        ValidationErrorKind::Type { kind } => vec![message(not_of_type(kind))],
        ValidationErrorKind::AnyOf { .. } => vec![message("must match a schema of anyOf".to_owned())],
        ValidationErrorKind::OneOfNotValid { .. } => {
            vec![message("must match a schema of oneOf".to_owned())]
        }
        ValidationErrorKind::OneOfMultipleValid { .. } => {
            vec![message(
                "matches more than one of the schemas of oneOf".to_owned(),
            )]
        }
        ValidationErrorKind::Not { .. } => vec![message("matches the schema of not".to_owned())],
        ValidationErrorKind::FalseSchema => vec![message("not allowed".to_owned())],
        ValidationErrorKind::Pattern { pattern } => {
            vec![message(format!("does not match the pattern {pattern:?}"))]
        }
        _ => vec![message(without_value(&error.masked().to_string()))],
    }
}

/// Returns the mistake of a schema itself.
pub(super) fn of_schema(error: &ValidationError<'_>) -> String {
    let at = path("", error.instance_path());
    let what = if let ValidationErrorKind::Type { kind } = error.kind() {
        not_of_type(kind)
    } else if let ValidationErrorKind::Format { format } = error.kind()
        && format == "regex"
    {
        PATTERN_RULE.to_owned()
    } else if let ValidationErrorKind::AnyOf { .. } = error.kind() {
        // The meta-schema allows several forms of `type`, `items` and other keywords.
        "has a form that JSON Schema does not allow there".to_owned()
    } else {
        error.to_string()
    };
    let at = at.trim_start_matches('.');
    if at.is_empty() {
        cut(&what)
    } else {
        cut(&format!("{at}: {what}"))
    }
}

fn not_of_type(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => format!("not of type \"{one}\""),
        TypeKind::Multiple(several) => {
            let names: Vec<String> = several.iter().map(|one| format!("\"{one}\"")).collect();
            format!("not of type {}", names.join(" or "))
        }
    }
}

/// The library's message is about "value"; ours is about the path before it.
fn without_value(message: &str) -> String {
    message.strip_prefix("value ").unwrap_or(message).to_owned()
}

/// `input.items[2].price`
fn path(root: &str, location: &Location) -> String {
    location
        .segments()
        .fold(root.to_owned(), |mut path, segment| match segment {
            LocationSegment::Property(name) => with_property(path, &name),
            LocationSegment::Index(index) => {
                // Writing to a String cannot fail.
                let _ = write!(path, "[{index}]");
                path
            }
        })
}

fn with_property(mut path: String, name: &str) -> String {
    let plain = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
    let _ = if plain {
        write!(path, ".{name}")
    } else {
        write!(path, "[{name:?}]")
    };
    path
}

fn cut(message: &str) -> String {
    let message = text::clean(message.to_owned());
    if message.len() <= MESSAGE_BYTES {
        return message;
    }
    format!("{}…", text::head(&message, MESSAGE_BYTES))
}
