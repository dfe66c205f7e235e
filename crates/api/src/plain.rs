//! Readable messages for library failures that users would not understand: errors of JSON and other typed texts, and of files.

use std::{borrow::Cow, io};

use serde_json::error::Category;

/// Returns the error of a JSON text, with its position if the text is not JSON.
pub fn json(error: &serde_json::Error) -> String {
    let told = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let told = told.strip_suffix(&position).unwrap_or(&told);
    let what = match error.classify() {
        Category::Data => return rule(told).into_owned(),
        Category::Eof => "it ends too early",
        Category::Io | Category::Syntax => match told {
            "trailing characters" => "something follows its end",
            "expected value" => "a value is missing or is not one of JSON",
            "key must be a string" => "the name of a field must be in double quotes",
            told if told.starts_with("control character") => "a string has a control character",
            told => told,
        },
    };
    format!("{what} (line {}, column {})", error.line(), error.column())
}

/// Returns the rule that a value breaks, as `must be …`. `told` is a message of serde without the position.
pub fn rule(told: &str) -> Cow<'_, str> {
    if told.starts_with("data did not match any variant of untagged enum") {
        return Cow::Borrowed("must have one of the allowed forms");
    }
    let Some((mistake, expected)) = told.rsplit_once(", expected ") else {
        return Cow::Borrowed(told);
    };
    let kind = mistake
        .strip_prefix("invalid type: ")
        .or_else(|| mistake.strip_prefix("invalid value: "));
    if let Some(found) = kind {
        return Cow::Owned(format!("must be {}, not {}", wanted(expected), sent(found)));
    }
    if let Some(found) = mistake.strip_prefix("unknown variant ") {
        return Cow::Owned(format!("must be {expected}, not {found}"));
    }
    if mistake.starts_with("invalid length ") {
        return Cow::Owned(format!("must be {}", wanted(expected)));
    }
    Cow::Borrowed(told)
}

/// A type without the words of Rust.
fn wanted(expected: &str) -> &str {
    match expected {
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => "a whole number that is not negative",
        "f32" | "f64" => "a number",
        "a borrowed string" | "string" => "a string",
        "a boolean" => "true or false",
        "a sequence" => "an array",
        "a map" => "an object",
        "string or map" => "a string or an object",
        "any valid TOML value" => "of at most 64 bits",
        expected if expected.starts_with("enum ") => "a string",
        expected if expected.starts_with("struct ") || expected.contains("tagged enum ") => "an object",
        expected => expected,
    }
}

/// The kind of a value. Texts are not repeated: they may be secret.
fn sent(found: &str) -> Cow<'_, str> {
    let quoted = || found.split('`').nth(1).unwrap_or_default();
    match found.split([' ', '`']).next().unwrap_or_default() {
        "string" | "character" => Cow::Borrowed("a string"),
        "sequence" => Cow::Borrowed("an array"),
        "map" => Cow::Borrowed("an object"),
        "unit" | "null" => Cow::Borrowed("null"),
        "boolean" => Cow::Borrowed(quoted()),
        "integer" | "floating" => Cow::Owned(format!("the number {}", quoted())),
        _ => Cow::Borrowed(found),
    }
}

/// Returns why a file cannot be used, without the number of the error.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the system has words of its own for the other kinds"
)]
pub fn io(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => "its disk is read-only".to_owned(),
        io::ErrorKind::StorageFull => "no space left on its disk".to_owned(),
        io::ErrorKind::NotADirectory => "a file exists where a folder is needed".to_owned(),
        io::ErrorKind::IsADirectory => "a folder exists where the file is needed".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        // All other kinds keep the message of the operating system, without its error number.
        _ => {
            let told = error.to_string();
            match told.split_once(" (os error ") {
                Some((words, _)) => words.to_owned(),
                None => told,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only errors are looked at")]
    struct Example {
        #[serde(default)]
        text: String,
        #[serde(default)]
        number: u32,
        #[serde(default)]
        whole: i64,
        #[serde(default)]
        list: Vec<String>,
        #[serde(default)]
        flag: bool,
        #[serde(default)]
        within: Option<Box<Example>>,
        #[serde(default)]
        choice: Option<Choice>,
        #[serde(default)]
        form: Option<Form>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Choice {
        One,
        Two,
        Three,
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only errors are looked at")]
    enum Form {
        Number(i64),
        List(Vec<i64>),
    }

    fn refusal(text: &str) -> String {
        json(&serde_json::from_str::<Example>(text).unwrap_err())
    }

    #[test]
    fn a_value_of_a_wrong_type_is_told_without_words_of_the_library() {
        for (text, rule) in [
            (r#"{"text":7}"#, "must be a string, not the number 7"),
            (r#"{"text":null}"#, "must be a string, not null"),
            (r#"{"text":["a"]}"#, "must be a string, not an array"),
            (
                r#"{"number":-1}"#,
                "must be a whole number that is not negative, not the number -1",
            ),
            (r#"{"whole":1.5}"#, "must be a whole number, not the number 1.5"),
            (r#"{"whole":"hush"}"#, "must be a whole number, not a string"),
            (r#"{"list":{}}"#, "must be an array, not an object"),
            (r#"{"flag":"yes"}"#, "must be true or false, not a string"),
            (r#"{"within":true}"#, "must be an object, not true"),
            (
                r#"{"choice":"four"}"#,
                "must be one of `one`, `two`, `three`, not `four`",
            ),
            (r#"{"form":"x"}"#, "must have one of the allowed forms"),
        ] {
            assert_eq!(refusal(text), rule, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_json_is_told_with_the_place() {
        for (text, words) in [
            (r#"{"text":"x""#, "it ends too early (line 1, column 11)"),
            ("{} x", "something follows its end (line 1, column 4)"),
            (
                "{\n\"text\":x}",
                "a value is missing or is not one of JSON (line 2, column 8)",
            ),
            (
                "{text:1}",
                "the name of a field must be in double quotes (line 1, column 2)",
            ),
            (
                "{\"text\":\"a\tb\"}",
                "a string has a control character (line 1, column 11)",
            ),
            ("{\"text\":\"1\",}", "trailing comma (line 1, column 13)"),
        ] {
            assert_eq!(refusal(text), words, "{text}");
        }
    }

    #[test]
    fn our_own_rules_stay_as_they_are() {
        for told in ["must be from 1 to 5", "unknown field `x`, expected `a` or `b`"] {
            assert_eq!(rule(told), told);
        }
        assert_eq!(
            rule("invalid type: integer `99999999999999999999` as i128, expected any valid TOML value"),
            "must be of at most 64 bits, not the number 99999999999999999999"
        );
    }

    #[test]
    fn failures_of_files_have_no_numbers() {
        for (code, words) in [
            (2, "No such file or directory"),
            (13, "permission denied"),
            (20, "a file exists where a folder is needed"),
            (21, "a folder exists where the file is needed"),
            (28, "no space left on its disk"),
            (30, "its disk is read-only"),
        ] {
            assert_eq!(io(&io::Error::from_raw_os_error(code)), words);
        }
        assert_eq!(io(&io::Error::other("cut off")), "cut off");
    }
}
