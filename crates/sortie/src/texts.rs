//! Texts that people write, TOML and YAML: what is wrong with one, its place, and the rule, in our words.

use std::borrow::Cow;

use serde_json::{Map, Value};
use sortie_api::plain;

/// Reads a text in TOML. The error has the line, the column and the rule.
pub(crate) fn toml(text: &str) -> Result<toml::Table, String> {
    text.parse().map_err(|error: toml::de::Error| {
        let before = text.get(..error.span().map_or(0, |span| span.start));
        let before = before.unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("line {line}, column {column}: {}", toml_rule(error.message()))
    })
}

/// Beginnings of what the library says, and the rules that are broken then.
const TOML_RULES: [(&str, &str); 14] = [
    ("duplicate key", "each key may be there once"),
    ("cannot extend value", "each key may be there once"),
    (
        "string values must be quoted",
        "a text must be in quotes, and true and false in small letters",
    ),
    ("missing opening quote", "a text must begin and end with a quote"),
    ("invalid basic string", "a text must begin and end with a quote"),
    (
        "missing escaped value",
        "a `\\` in double quotes must be `\\\\`, or the text be in single quotes",
    ),
    (
        "too few unicode value digits",
        "a `\\` in double quotes must be `\\\\`, or the text be in single quotes",
    ),
    ("invalid literal string", "a text must begin and end with a quote"),
    (
        "invalid multi-line",
        "a text of several lines must begin and end with three quotes",
    ),
    ("unclosed", "a bracket must be closed"),
    (
        "missing comma",
        "values in brackets must have one comma between them",
    ),
    (
        "extra comma",
        "values in brackets must have one comma between them",
    ),
    ("cannot recurse", "it must not be nested that deeply"),
    ("recursion limit", "it must not be nested that deeply"),
];

fn toml_rule(told: &str) -> Cow<'_, str> {
    let known = TOML_RULES
        .iter()
        .find(|(beginning, _)| told.starts_with(beginning));
    if let Some((_, rule)) = known {
        return Cow::Borrowed(rule);
    }
    match plain::rule(told) {
        // The rule of a value that is read by its type is in our words already.
        Cow::Owned(rule) => Cow::Owned(rule),
        Cow::Borrowed(_) => Cow::Borrowed(
            "a line must be `key = value` or `[section]`, with texts in quotes and numbers without them",
        ),
    }
}

/// Reads an object in YAML. The error has the line, the column and the rule.
pub(crate) fn yaml(text: &str) -> Result<Map<String, Value>, String> {
    let options = serde_saphyr::options! { with_snippet: false };
    match serde_saphyr::from_str_with_options(text, options) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err("must be fields, each as `name: value`".to_owned()),
        Err(error) => {
            let rule = yaml_rule(&error);
            Err(match error.location().filter(|at| at.line() > 0) {
                Some(at) => format!("line {}, column {}: {rule}", at.line(), at.column()),
                None => rule.to_owned(),
            })
        }
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "one rule is for all other mistakes"
)]
fn yaml_rule(error: &serde_saphyr::Error) -> &'static str {
    use serde_saphyr::Error as Yaml;
    match error {
        Yaml::DuplicateMappingKey { .. } => "each field may be there once",
        Yaml::MultipleDocuments { .. } => "there must be one document, without `---` behind it",
        Yaml::Eof { .. } => "it ends too early",
        Yaml::UnknownAnchor { .. } => "a text that begins with `*` must be in quotes",
        Yaml::Budget { .. }
        | Yaml::AliasExpansionLimitExceeded { .. }
        | Yaml::AliasReplayLimitExceeded { .. } => "it must not be nested or repeated that much",
        _ => {
            "fields must be `name: value` with the same indentation, brackets and quotes closed, and texts with special \
             signs in quotes"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_in_toml_has_its_place_and_the_rule() {
        for (text, told) in [
            ("a = 1\nb = yes\n", "line 2, column 5: a text must be in quotes"),
            (
                "a = 1\n\"ü\" = yes\n",
                "line 2, column 7: a text must be in quotes",
            ),
            ("a = 'x\n", "a text must begin and end with a quote"),
            ("a = \"C:\\d\"", "line 1, column 9: a `\\` in double quotes"),
            ("a = 1\na = 2\n", "line 2, column 1: each key may be there once"),
            ("a = [1 2]", "line 1, column "),
            ("a = [1", "a bracket must be closed"),
            ("[a\nb = 1", "a bracket must be closed"),
            ("a", "a line must be `key = value`"),
            ("a = 01", "a line must be `key = value`"),
            ("a = 1 b = 2", "a line must be `key = value`"),
            ("a = 99999999999999999999", "must be of at most 64 bits"),
        ] {
            let refusal = toml(text).unwrap_err();
            assert!(refusal.contains(told), "{text}: {refusal}");
            assert!(!refusal.contains("expected"), "{refusal}");
        }
        assert_eq!(toml("a = 1").unwrap().len(), 1);
    }

    #[test]
    fn a_mistake_in_yaml_has_its_place_and_the_rule() {
        for (text, place, told) in [
            ("a: 1\na: 2\n", "line 2, column ", "each field may be there once"),
            ("a: 1\n b: 2\n", "line 2, ", "fields must be `name: value`"),
            ("a: [1\n", "line ", ""),
            ("a: *b\n", "line 1, ", "in quotes"),
            ("a: 1\n---\nb: 2\n", "line ", "one document"),
            ("- a\n", "", "must be fields"),
            ("a\n", "", "must be fields"),
        ] {
            let refusal = yaml(text).unwrap_err();
            assert!(
                refusal.starts_with(place) && refusal.contains(told),
                "{text}: {refusal}"
            );
        }
        assert_eq!(yaml("a: 1\n").unwrap().len(), 1);
    }
}
