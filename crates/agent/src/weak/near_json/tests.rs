//! Arguments as models nearly write them, and their meaning.

use proptest::prelude::*;
use serde_json::{Value, json};
use sortie_testkit::{list, rows};

use super::*;

#[test]
fn a_slip_with_one_meaning_is_read() {
    for (sent, meant) in rows! {
        "{\"a\": \"x\ny\tz\u{1}\"}", json!({"a": "x\ny\tz\u{1}"});
        "{\"a\": [1, 2,], }", json!({"a": [1, 2]});
        "{'a': 'it\\'s \"b\"', 'c': True, 'd': None, 'e': False}",
            json!({"a": "it's \"b\"", "c": true, "d": null, "e": false});
        "{a: 1, $b_c-d: \"x\"}", json!({"a": 1, "$b_c-d": "x"});
        "{“a”: “echo \"b\" \\\"c\\\" it’s”, ‘d’: [‘e’, “é”]}",
            json!({"a": "echo \"b\" \"c\" it’s", "d": ["e", "é"]});
        // Within an ordinary string they are text.
        "{\"a\": \"say “b” and ‘c’\", '“d”': '“'}", json!({"a": "say “b” and ‘c’", "“d”": "“"});
        "```json\n{\"a\": 1}\n```", json!({"a": 1});
        "```\n{\"a\": 1}```", json!({"a": 1});
        r#""{\"a\": \"b\"}""#, json!({"a": "b"});
        r#""{'a': 'b',}""#, json!({"a": "b"});
        r#"{"a": "\d+\.\w \"q\" \\"}"#, json!({"a": "\\d+\\.\\w \"q\" \\"});
        r#"{"a": "it\'s"}"#, json!({"a": "it's"});
        r#"{"a": "\ud83d\ude00 \ud99c b \ude00"}"#, json!({"a": "😀 \u{fffd} b \u{fffd}"});
        r#"{"a": 1}}"#, json!({"a": 1});
        r#"{"a": 1}{"a":1}"#, json!({"a": 1});
        r#"{}{"a": 1}"#, json!({"a": 1});
        "\u{feff} {\"a\": 1}\n", json!({"a": 1});
        "null", json!({});
        "\"\"", json!({});
        "[]", json!({});
    } {
        for closing in [Closing::Required, Closing::Implied] {
            let read = object(sent, closing).unwrap_or_else(|why| panic!("{sent}: {why}"));
            assert_eq!(serde_json::from_str::<Value>(&read).unwrap(), meant, "{sent}");
            assert!(!read.contains('\n'));
        }
    }
}

#[test]
fn an_end_without_brackets_is_read_where_it_is_no_cut() {
    for (sent, meant) in [
        (r#"{"a": "b""#, json!({"a": "b"})),
        (r#"{"a": [{"b": 1}"#, json!({"a": [{"b": 1}]})),
        (r#"{"a": 12"#, json!({"a": 12})),
        ("```json\n{\"a\": 1\n```", json!({"a": 1})),
    ] {
        let read = object(sent, Closing::Implied).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&read).unwrap(), meant, "{sent}");
        assert!(object(sent, Closing::Required).unwrap_err().is_cut, "{sent}");
    }
    // After anything but a complete value the text was cut off.
    for sent in list! {
        "{", "{\"a", "{\"a\"", "{\"a\":", "{\"a\": \"b", "{“a”: “b\"", "{\"a\": 1,", "{\"a\": [", "{\"a\": \"\\",
        "{\"a\": \"\\u12", "{\"",
    } {
        assert!(object(sent, Closing::Implied).unwrap_err().is_cut, "{sent}");
    }
}

#[test]
fn what_has_two_meanings_is_refused_with_its_field_and_the_rule() {
    for (sent, told) in rows! {
        r#"{"command": "echo "hi""}"#, "command: a string ends at its first bare quotation mark";
        "{'a': 'it's'}", "a: a string ends at its first bare quotation mark";
        "{“a”: “say “b”, “c”: 1}", "a: write a quotation mark within a string as \\\"";
        "{‘a’: ‘it’s’}", "a: a string ends at its first bare quotation mark";
        r#"{"a": "\d\t"}"#, "a: write a backslash within a string as \\\\";
        r#"{"a": "\$HOME"}"#, "a: write a backslash within a string as \\\\";
        r#"{"a": "C:\users"}"#, "a: \\u needs four hexadecimal digits";
        r#"{"a": 1 "b": 2}"#, "a: a comma or a closing bracket must follow the value";
        r#"{"a": 1,, "b": 2}"#, "a: the name of a field must be a string";
        r#"{"a": b}"#, "a: must be a JSON value";
        r#"{"a": 1_000}"#, "a: must be a JSON value";
        r#"{"a" 1}"#, "a: a colon must follow";
        r#"{"a": 1} and more"#, "the JSON object: nothing may follow";
        r#"{"a": 1}{"a": 2}"#, "the JSON object: there must be one JSON object";
        "[1]", "the JSON object: must be a JSON object";
        "\"text\"", "the JSON object: must be a JSON object";
        "text", "the JSON object: must be a JSON value";
    } {
        let why = object(sent, Closing::Implied).unwrap_err();
        assert!(why.to_string().starts_with(told), "{sent}: {why}");
        assert!(!why.is_cut, "{sent}");
        for word in ["expected", "invalid", "column", "EOF"] {
            assert!(!why.to_string().contains(word), "{why}");
        }
    }
    let deep = format!("{{\"a\":{}", "[".repeat(200));
    let why = object(&deep, Closing::Implied).unwrap_err();
    assert!(
        why.to_string().starts_with("a: must not be nested deeper"),
        "{why}"
    );
}

#[test]
fn reading_takes_time_linear_in_the_text() {
    for part in list! {
        "[", "{\"a\":", "\"", "{}", "{\"a\":1}", "}", "\\", "```\n", "{'a':'",
    } {
        let text = part.repeat(300_000);
        let _ = object(&text, Closing::Implied);
        let _ = object(&format!("{{\"a\": {text}"), Closing::Implied);
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<String>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((any::<String>(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn json_is_read_as_what_it_is(value in json()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let read = whole(&text, Closing::Required).unwrap();
            prop_assert_eq!(&read, &value.to_string());
        }
    }

    #[test]
    fn whatever_is_read_is_json(text in "[{}\\[\\]\"'“”‘’:,a1 \\\\nutTrue.`\n-]{0,40}") {
        for closing in [Closing::Required, Closing::Implied] {
            if let Ok(read) = object(&text, closing) {
                prop_assert!(serde_json::from_str::<Value>(&read).unwrap().is_object());
            }
        }
    }

    #[test]
    fn no_text_panics(text in any::<String>()) {
        let told = object(&text, Closing::Implied).map_err(|why| why.to_string());
        prop_assert!(told.is_ok() || !told.unwrap_err().is_empty());
    }
}
