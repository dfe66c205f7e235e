//! Errors of TOML and YAML that people write: the mistake, its place and the rule, in our wording.

use std::borrow::Cow;

use serde_json::{Map, Value};
use sortie_api::plain;

/// Returns the known name that a mistyped one most probably means.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |known: &str| strsim::damerau_levenshtein(name, known);
    let (distance, near) = known.into_iter().map(|known| (distance(known), known)).min()?;
    (distance <= 3 && distance * 2 <= name.chars().count()).then_some(near)
}

/// Reads a text in TOML. The error has the line, the column and the rule.
pub(crate) fn toml(text: &str) -> Result<toml::Table, String> {
    text.parse().map_err(|error: toml::de::Error| {
        let span = error.span().unwrap_or_default();
        let before = text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let of_line = before.rsplit('\n').next().unwrap_or_default();
        let mistake = Mistake {
            told: error.message(),
            before: of_line,
            value: text.get(span).unwrap_or_default(),
        };
        let column = of_line.chars().count() + 1;
        format!("line {line}, column {column}: {}", mistake.rule())
    })
}

const COMMAS: &str = "values in brackets must have one comma between them";
const QUOTES: &str = "a text must begin and end with a quote";
const WORDS: &str = "a text must be in quotes, and true and false in small letters";
const BACKSLASH: &str = "a `\\` in double quotes must be `\\\\`, or the text be in single quotes";
const NUMBER: &str = "a number must be digits without a zero in front, with `.` and `_` only between digits, and a text \
                      must be in quotes";
const DATE: &str = "a date must be as 2026-11-20 and a time as 21:30:00, and a text must be in quotes";
const CONTROL: &str =
    "there must be no control characters; in double quotes they may be escaped, as `\\u0007`";
const BEHIND: &str =
    "nothing but a comment may follow a value or a section on its line, and a text must be in quotes";
const NESTED: &str = "it must not be nested that deeply";

/// Beginnings of the library's messages, and the rules that are broken then. [`Mistake`] handles messages first that
/// the library uses for several mistakes.
const TOML_RULES: [(&str, &str); 38] = [
    ("duplicate key", "each key may be there once"),
    ("cannot extend value", "each key may be there once"),
    ("string values must be quoted", WORDS),
    ("invalid boolean", WORDS),
    ("missing opening quote", QUOTES),
    ("invalid basic string, expected non-", CONTROL),
    ("invalid literal string, expected non-", CONTROL),
    ("invalid comment character", CONTROL),
    ("carriage return must", "a line must end with a line feed"),
    ("invalid basic string", QUOTES),
    ("invalid literal string", QUOTES),
    ("missing escaped value", BACKSLASH),
    ("too few unicode value digits", BACKSLASH),
    ("invalid value, expected unicode", BACKSLASH),
    (
        "invalid multi-line",
        "a text of several lines must begin and end with three quotes",
    ),
    ("unclosed", "a bracket must be closed"),
    (
        "missing array opening",
        "a bracket must be opened before it is closed",
    ),
    (
        "missing inline table opening",
        "a bracket must be opened before it is closed",
    ),
    ("missing comma", COMMAS),
    ("extra comma", COMMAS),
    ("extra assignment between", COMMAS),
    ("extra `=`", "a key and its value must have one `=` between them"),
    ("key with no value", "a key must have `=` and a value behind it"),
    ("missing assignment", "a key must have `=` and a value behind it"),
    ("missing value", "a value must follow `=`"),
    (
        "unquoted keys",
        "a key must be letters, digits, `-` and `_`, or be in quotes",
    ),
    ("unexpected key or value", BEHIND),
    ("unexpected content", BEHIND),
    ("invalid date", DATE),
    ("invalid time", DATE),
    ("invalid offset", DATE),
    ("unexpected leading zero", NUMBER),
    ("invalid fraction", NUMBER),
    ("invalid exponent", NUMBER),
    ("`_` may only", NUMBER),
    ("invalid hexadecimal", NUMBER),
    ("cannot recurse", NESTED),
    ("recursion limit", NESTED),
];

/// Mistake that the library has found.
struct Mistake<'a> {
    /// Words of the library.
    told: &'a str,
    /// Text on the line before it.
    before: &'a str,
    /// Faulty text. Empty if something is missing.
    value: &'a str,
}

impl Mistake<'_> {
    fn rule(&self) -> Cow<'_, str> {
        if let Some(rule) = self.apart() {
            return Cow::Borrowed(rule);
        }
        let known = TOML_RULES
            .iter()
            .find(|(beginning, _)| self.told.starts_with(beginning));
        if let Some((_, rule)) = known {
            return Cow::Borrowed(rule);
        }
        match plain::rule(self.told) {
            // Our own deserializers already word the rule of a value.
            Cow::Owned(rule) => Cow::Owned(rule),
            Cow::Borrowed(_) => Cow::Borrowed(
                "a line must be `key = value` or `[section]`, with texts in quotes and numbers without them",
            ),
        }
    }

    /// Distinguishes mistakes for which the library has the same message. `None` if its message is enough.
    fn apart(&self) -> Option<&'static str> {
        let before = self.before.trim_end();
        let is_closed = self.told.contains("opening, expected");
        if self.value.is_empty() && before.ends_with('=') && !is_closed {
            return Some("a value must follow `=`");
        }
        if self.told.starts_with("duplicate key") && before.starts_with('[') {
            return Some("a section must not have the name of another section or of a key");
        }
        let is_open = ["unclosed", "key with no value"]
            .iter()
            .any(|words| self.told.starts_with(words));
        if is_open && self.before.matches('"').count() % 2 == 1 {
            return Some(QUOTES);
        }
        if !self.told.starts_with("string values must be quoted") {
            return None;
        }
        // Several numbers in a row are read as one text.
        let mut words = self.value.split_whitespace();
        let first = words.next().is_some_and(is_value);
        let (count, rest) = words.fold((1, true), |(count, all), word| (count + 1, all && is_value(word)));
        match before.chars().last() {
            Some('[' | ',') if count > 1 && first && rest => Some(COMMAS),
            Some('=') if count > 1 && first => Some(BEHIND),
            _ => None,
        }
    }
}

/// Whether a word is a value without quotes.
fn is_value(word: &str) -> bool {
    format!("x = {word}").parse::<toml::Table>().is_ok()
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
            ("a = True", "true and false in small letters"),
            ("a = [yes, no]", "line 1, column 6: a text must be in quotes"),
            // A missing comma.
            (
                "a = [1 2]",
                "line 1, column 6: values in brackets must have one comma",
            ),
            ("a = [true 1.5]", "values in brackets must have one comma"),
            ("a = [\"b\" \"c\"]", "values in brackets must have one comma"),
            ("a = {b = 1 c = 2}", "values in brackets must have one comma"),
            ("a = [1,,2]", "values in brackets must have one comma"),
            // A bracket or a quote that is not closed.
            ("a = [1", "a bracket must be closed"),
            ("a = {b = 1", "a bracket must be closed"),
            ("[a\nb = 1", "a bracket must be closed"),
            ("a = ]", "a bracket must be opened"),
            ("a = 'x\n", "a text must begin and end with a quote"),
            ("a = \"x\nb = 1", "a text must begin and end with a quote"),
            ("a = [\"x]", "a text must begin and end with a quote"),
            ("\"a = 1", "a text must begin and end with a quote"),
            ("a = \"\"\"x\n", "three quotes"),
            // A key or a section twice.
            ("a = 1\na = 2\n", "line 2, column 1: each key may be there once"),
            ("[a]\n[a]\n", "line 2, column 2: a section must not have the name"),
            ("a = 1\n[a]\n", "a section must not have the name"),
            // Dates.
            ("a = 2026-13-40", "a date must be as 2026-11-20"),
            ("a = 2026-11-20 21", "a date must be as 2026-11-20"),
            // Signs in texts.
            ("a = \"C:\\d\"", "line 1, column 9: a `\\` in double quotes"),
            ("a = \"\\u12\"", "a `\\` in double quotes"),
            ("a = \"\u{7}\"", "no control characters"),
            ("# \u{7}", "no control characters"),
            // A missing value.
            ("a =", "a value must follow `=`"),
            ("a =\nb = 1", "line 1, column 4: a value must follow `=`"),
            ("a = {b = }", "a value must follow `=`"),
            ("a", "a key must have `=` and a value"),
            ("a: 1", "a key must have `=` and a value"),
            ("a == 1", "must have one `=`"),
            ("= 1", "a key must be letters"),
            // Stray text.
            ("a = 1 b = 2", "nothing but a comment may follow"),
            ("a = 10 MB", "nothing but a comment may follow"),
            ("a = 'it's'", "nothing but a comment may follow"),
            ("[a] b = 1", "nothing but a comment may follow"),
            ("a = 01", "a number must be digits"),
            ("a = 1.", "a number must be digits"),
            ("a = 99999999999999999999", "must be of at most 64 bits"),
        ] {
            let refusal = toml(text).unwrap_err();
            assert!(refusal.contains(told), "{text}: {refusal}");
            assert!(!refusal.contains("expected"), "{refusal}");
        }
        assert_eq!(toml("a = 1").unwrap().len(), 1);
        // Tabs may be anywhere.
        assert_eq!(toml("a\t= \"b\tc\"").unwrap().len(), 1);
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
