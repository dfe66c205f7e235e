//! Credentials and content of a cassette: credentials are redacted always, content is masked on request.

use serde_json::{Map, Value};

use super::Texts;

/// Endings of field names that mark a credential, in lower case without `-` and `_`.
const SECRET_FIELDS: [&str; 13] = [
    "accesskey",
    "apikey",
    "authorization",
    "cookie",
    "credential",
    "credentials",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "secret",
    "secretkey",
    "token",
];
/// Endings of header names that mark a credential, as they appear in commands and in their output.
const SECRET_HEADERS: [&str; 4] = ["authorization:", "cookie:", "api-key:", "-token:"];
const REDACTED: &str = "[redacted]";

/// Parts of a line that hold content.
const CONTENT: [&str; 9] = [
    "/prompt",
    "/instructions",
    "/input",
    "/say/text",
    "/say/failed",
    "/result/output",
    "/event/errors",
    "/end/output",
    "/end/error",
];

/// The line without credentials, and without content if that is masked.
pub(super) fn shown(mut line: Value, texts: Texts) -> Value {
    // A field of a schema is a rule for a value, not a value.
    let schema = line
        .as_object_mut()
        .and_then(|fields| fields.remove("output_schema"));
    redact(&mut line, is_secret);
    if let (Some(mut schema), Some(fields)) = (schema, line.as_object_mut()) {
        redact(&mut schema, |_| false);
        fields.insert("output_schema".to_owned(), schema);
    }
    if texts == Texts::Masked {
        for path in CONTENT {
            if let Some(content) = line.pointer_mut(path) {
                mask(content);
            }
        }
        let calls = line.pointer_mut("/say/calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten() {
            if let Some(arguments) = call.get_mut("arguments") {
                mask(arguments);
            }
        }
    }
    line
}

fn is_secret(name: &str) -> bool {
    let plain: String = name
        .to_lowercase()
        .chars()
        .filter(|c| !matches!(c, '-' | '_'))
        .collect();
    SECRET_FIELDS.iter().any(|secret| plain.ends_with(secret))
}

/// Redacts the value of every field with a secret name, whatever its type, and the values of headers within texts.
fn redact(value: &mut Value, is_secret: fn(&str) -> bool) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if is_secret(name) && !field.is_null() {
                    *field = REDACTED.into();
                } else {
                    redact(field, is_secret);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, is_secret)),
        Value::String(text) => redact_headers(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Redacts the text after the name of such a header, to the end of the line or to a quotation mark.
fn redact_headers(text: &mut String) {
    for header in SECRET_HEADERS {
        let mut from = 0;
        while let Some(at) = text
            .to_ascii_lowercase()
            .get(from..)
            .and_then(|rest| rest.find(header))
        {
            let start = from + at + header.len();
            let value = text.get(start..).unwrap_or_default();
            let end = start + value.find(['\n', '"', '\'']).unwrap_or(value.len());
            text.replace_range(start..end, &format!(" {REDACTED}"));
            from = start;
        }
    }
}

/// Replaces every text, number, boolean and name of a field. Only `null` and the nesting stay.
fn mask(value: &mut Value) {
    match value {
        Value::String(text) => *text = masked(text),
        Value::Number(number) => *value = masked(&number.to_string()).into(),
        // The length would distinguish true from false.
        Value::Bool(_) => *value = "xxxx".into(),
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::Object(fields) => {
            let named = std::mem::take(fields).into_iter().enumerate();
            *fields = named
                .map(|(place, (name, mut field))| {
                    mask(&mut field);
                    (masked_name(&name, place), field)
                })
                .collect::<Map<_, _>>();
        }
        Value::Null => {}
    }
}

/// An `x` for each byte. White space stays, so that lines and words can be counted.
fn masked(text: &str) -> String {
    let bytes = text.bytes();
    bytes
        .map(|byte| {
            if byte.is_ascii_whitespace() {
                char::from(byte)
            } else {
                'x'
            }
        })
        .collect()
}

/// The masked name of the field at this place. Each but the first ends with its place: two names of an object differ.
fn masked_name(name: &str, place: usize) -> String {
    if place == 0 {
        "x".repeat(name.len())
    } else {
        format!("{place:x>width$}", width = name.len())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_credentials_of_a_command_line_are_redacted() {
        let command = "curl -H 'Authorization: Bearer hush' -H \"X-Api-Key: hush\" -H 'X-Vault-Token: hush' \
                       https://x.example # cookie: none\nls";
        assert_eq!(
            shown(json!(command), Texts::Kept),
            "curl -H 'Authorization: [redacted]' -H \"X-Api-Key: [redacted]\" -H 'X-Vault-Token: [redacted]' \
             https://x.example # cookie: [redacted]\nls"
        );
    }

    #[test]
    fn every_value_of_a_secret_field_is_redacted() {
        for name in [
            "token",
            "access_token",
            "GITHUB-TOKEN",
            "private_key",
            "privateKey",
            "X-Api-Key",
            "Set-Cookie",
            "AWS_SECRET_ACCESS_KEY",
            "client_secret",
            "db_password",
        ] {
            for value in [
                json!("hush"),
                json!(4711),
                json!(true),
                json!(["hush", {"more": "hush"}]),
                json!({"hush": "hush"}),
            ] {
                let line = json!({"input": {"list": [{name: value}]}});
                let expected = json!({"input": {"list": [{name: "[redacted]"}]}});
                assert_eq!(shown(line.clone(), Texts::Kept), expected, "{line}");
            }
        }
    }

    #[test]
    fn a_field_that_only_sounds_secret_stays() {
        let line = json!({"say": {"usage": {"input_tokens": 7}, "calls": [
            {"arguments": {"max_tokens": 5, "tokenizer": "a", "secretary": "Ann", "token": null}},
        ]}});
        assert_eq!(shown(line.clone(), Texts::Kept), line);
    }

    #[test]
    fn a_schema_keeps_the_rules_of_its_secret_fields() {
        let line = json!({"output_schema": {"properties": {"password": {"type": "string"}}}});
        assert_eq!(shown(line.clone(), Texts::Kept), line);
    }

    #[test]
    fn a_mask_hides_numbers_booleans_and_the_names_of_fields() {
        let line = json!({"input": {"ssn": 123_456_789, "zip": "1020", "married": true, "spouse": null}});
        let masked = shown(line, Texts::Masked);
        let mut values: Vec<Value> = masked["input"].as_object().unwrap().values().cloned().collect();
        values.sort_by_key(Value::to_string);
        assert_eq!(json!(values), json!(["xxxx", "xxxx", "xxxxxxxxx", null]));
        let text = masked.to_string();
        for content in ["ssn", "123456789", "zip", "1020", "married", "true", "spouse"] {
            assert!(!text.contains(content), "{content} is in {text}");
        }
        let call = json!({"say": {"calls": [{"id": "a", "name": "shell", "arguments": {"command": "ls"}}]}});
        assert_eq!(
            shown(call, Texts::Masked),
            json!({"say": {"calls": [{"id": "a", "name": "shell", "arguments": {"xxxxxxx": "xx"}}]}})
        );
    }

    #[test]
    fn a_mask_keeps_every_field_and_the_length_of_every_name() {
        let fields = |names: &[&str]| -> Value { names.iter().map(|name| (*name, 1)).collect() };
        let names = [
            "aa",
            "ab",
            "ac",
            "b",
            "c",
            "ä",
            "d",
            "e",
            "f",
            "g",
            "h",
            "long name",
        ];
        let masked = shown(json!({ "input": fields(&names) }), Texts::Masked);
        let masked = masked["input"].as_object().unwrap();
        assert_eq!(masked.len(), names.len());
        let few = shown(json!({"input": fields(&["aa", "ab", "ä"])}), Texts::Masked);
        let lengths: Vec<usize> = few["input"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::len)
            .collect();
        assert_eq!(lengths, [2, 2, 2]);
    }

    #[test]
    fn a_masked_text_has_the_bytes_of_the_text_and_its_lines() {
        let text = "Größe: 5 €\n\tover\u{a0}there";
        let masked = shown(json!({ "prompt": text }), Texts::Masked);
        let masked = masked["prompt"].as_str().unwrap();
        assert_eq!(masked, "xxxxxxxx x xxx\n\txxxxxxxxxxx");
        assert_eq!(masked.len(), text.len());
    }
}
