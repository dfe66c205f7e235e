use std::{fmt::Write as _, time::Duration, time::Instant};

use proptest::prelude::*;
use serde_json::{Value, json};
use sortie_testkit::rows;

use super::*;

#[expect(
    clippy::needless_pass_by_value,
    reason = "the callers write the schema in place"
)]
fn compiled(schema: Value) -> Schema {
    Schema::compile(&schema.to_string()).unwrap()
}

fn refused(schema: &Value) -> String {
    Schema::compile(&schema.to_string()).unwrap_err().0
}

fn errors(schema: Value, instance: &Value) -> Vec<String> {
    compiled(schema)
        .check("input", &instance.to_string())
        .unwrap_err()
}

#[test]
fn a_message_names_the_field_and_the_rule() {
    let schema = json!({
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {
                "type": "object", "properties": {"price": {"type": "number", "minimum": 0}}, "required": ["price"],
            }},
            "state": {"enum": ["open", "done"]},
            "zip code": {"type": ["string", "null"], "pattern": "^[0-9]+$"},
        },
        "required": ["items", "name"],
        "additionalProperties": false,
    });
    let instance = json!({
        "items": [{"price": 1}, {}, {"price": "x"}, {"price": -1}], "state": "lost", "zip code": "a", "more": 1,
    });
    let mut messages = errors(schema, &instance);
    messages.sort();
    assert_eq!(
        messages,
        [
            "input.items[1].price: required",
            "input.items[2].price: not of type \"number\"",
            "input.items[3].price: is less than the minimum of 0",
            "input.more: unknown property",
            "input.name: required",
            "input.state: is not one of \"open\" or \"done\"",
            "input[\"zip code\"]: does not match the pattern \"^[0-9]+$\"",
        ]
    );
}

#[test]
fn what_matches_passes() {
    let schema = compiled(json!({"type": "object", "required": ["a"]}));
    assert_eq!(schema.check("output", r#"{"a": 1}"#), Ok(()));
    assert_eq!(schema.check("output", "{}").unwrap_err(), ["output.a: required"]);
    assert_eq!(
        schema.check("output", "3").unwrap_err(),
        ["output: not of type \"object\""]
    );
    assert!(schema.check("output", "{").unwrap_err()[0].starts_with("output: not JSON: "));
}

#[test]
fn at_most_ten_messages_are_given_and_none_is_long() {
    let schema = json!({"additionalProperties": false, "properties": {}});
    let instance: Value = (0..50)
        .map(|i| (format!("{i}{}", "x".repeat(1_000)), json!(1)))
        .collect();
    let messages = errors(schema, &instance);
    assert_eq!(messages.len(), 10);
    assert!(messages.iter().all(|message| message.len() <= 303));
}

#[test]
fn only_the_three_drafts_are_taken() {
    for named in [
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema#",
    ] {
        compiled(json!({"$schema": named, "type": "object"}));
    }
    for named in [
        json!("http://json-schema.org/draft-04/schema#"),
        json!("https://example.com/own"),
        json!(7),
    ] {
        assert_eq!(
            refused(&json!({"$schema": named})),
            "$schema: must name draft 7, 2019-09 or 2020-12"
        );
    }
}

#[test]
fn the_draft_decides_what_a_keyword_means() {
    let schema = |draft: &str| json!({"$schema": draft, "items": [{"type": "string"}]});
    let old = compiled(schema("http://json-schema.org/draft-07/schema#"));
    assert!(old.check("input", "[1]").is_err());
    assert!(refused(&schema("https://json-schema.org/draft/2020-12/schema")).starts_with("items: "));
}

#[test]
fn invalid_schemas_are_refused_with_the_reason() {
    assert_eq!(Schema::compile("[]").unwrap_err().0, "must be a JSON object");
    assert_eq!(Schema::compile("true").unwrap_err().0, "must be a JSON object");
    assert!(Schema::compile("{").unwrap_err().0.starts_with("not JSON: "));
    assert_eq!(
        Schema::compile(&" ".repeat(70_000)).unwrap_err().0,
        "must be at most 65536 bytes"
    );
    assert!(refused(&json!({"properties": {"a": {"type": "strin"}}})).starts_with("properties.a.type: "));
    for pattern in ["(a{1000}){1000}", "(?=a)b", r"(a)\1"] {
        for schema in [
            json!({"properties": {"a": {"pattern": pattern}}}),
            json!({"patternProperties": {pattern: {"type": "string"}}}),
        ] {
            let refused = refused(&schema);
            assert!(refused.contains("pattern"), "{refused}");
            assert!(
                refused.contains("without look-around and back-references, and not a large one"),
                "{refused}"
            );
        }
    }
}

#[test]
fn references_stay_within_the_schema_and_lead_somewhere() {
    for (reference, error) in rows! {
        "https://example.com/s.json", "$ref: must stay within the schema, beginning with `#`";
        "file:///etc/passwd", "$ref: must stay within the schema, beginning with `#`";
        "other.json#/a", "$ref: must stay within the schema, beginning with `#`";
        "#/$defs/none", "$ref: \"#/$defs/none\" leads to nothing";
        "#none", "$ref: \"#none\" leads to nothing";
    } {
        assert_eq!(refused(&json!({"properties": {"a": {"$ref": reference}}})), error);
    }
    assert_eq!(
        refused(&json!({"properties": {"a": {"$id": "https://example.com/a"}}})),
        "$id: only at the top of the schema"
    );
    let schema = compiled(json!({
        "$id": "https://example.com/s",
        "$defs": {"a/b c": {"type": "string"}, "n": {"$anchor": "n", "type": "null"}},
        "properties": {"a": {"$ref": "#/$defs/a~1b%20c"}, "n": {"$ref": "#n"}},
    }));
    assert_eq!(schema.check("input", r#"{"a": "", "n": null}"#), Ok(()));
    assert_eq!(
        schema.check("input", r#"{"a": 1}"#).unwrap_err(),
        ["input.a: not of type \"string\""]
    );
}

#[test]
fn references_in_a_circle_are_refused_and_recursion_through_children_is_not() {
    let circle = json!({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"});
    assert_eq!(refused(&circle), "$ref: a part refers to itself without end");
    let tree = compiled(json!({
        "type": "object", "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["v"],
    }));
    assert_eq!(
        tree.check("input", r#"{"v":1,"kids":[{"v":2,"kids":[{"v":3}]}]}"#),
        Ok(())
    );
    assert_eq!(
        tree.check("input", r#"{"v":1,"kids":[{}]}"#).unwrap_err(),
        ["input.kids[0].v: required"]
    );
}

/// `n` definitions; `step` returns the way in which one applies the next.
fn chain(n: usize, step: impl Fn(Value) -> Value) -> Value {
    let next = |i: usize| json!({"$ref": format!("#/$defs/d{}", i + 1)});
    let mut defs: serde_json::Map<_, _> = (0..n).map(|i| (format!("d{i}"), step(next(i)))).collect();
    defs.insert(format!("d{n}"), json!({"type": "object"}));
    json!({"$defs": defs, "$ref": "#/$defs/d0"})
}

fn nested(depth: usize) -> String {
    (0..depth).fold("{}".to_owned(), |inner, _| format!("{{\"x\":{inner}}}"))
}

#[test]
fn references_that_double_at_each_step_are_refused_at_once() {
    let began = Instant::now();
    let doubling = chain(40, |next| json!({"allOf": [next, next]}));
    assert_eq!(
        refused(&doubling),
        "$ref: more than 10000 paths through the references"
    );
    compiled(chain(10, |next| json!({"anyOf": [next, next]})));
    assert!(began.elapsed() < Duration::from_mins(1));
}

#[test]
fn references_that_double_with_the_depth_of_the_instance_are_not_followed() {
    let began = Instant::now();
    let both = |next: Value| json!({"properties": {"x": {"allOf": [next, next]}}});
    let recursive = json!({"$defs": {"n": both(json!({"$ref": "#/$defs/n"}))}, "$ref": "#/$defs/n"});
    for schema in [chain(60, both), recursive] {
        let schema = compiled(schema);
        assert_eq!(schema.check("input", &nested(5)), Ok(()));
        assert_eq!(
            schema.check("input", &nested(60)).unwrap_err(),
            ["input: too large or too deep to be checked against the schema"]
        );
    }
    assert!(began.elapsed() < Duration::from_mins(1));
}

#[test]
fn a_check_never_needs_more_stack_than_a_thread_has() {
    // A long chain of references at each level of an instance.
    let mut schema = chain(90, |next| json!({"allOf": [next]}));
    schema["$defs"]["d90"] = json!({"properties": {"x": {"$ref": "#/$defs/d0"}, "y": {"type": "null"}}});
    let schema = compiled(schema);
    let wrong = nested(4).replace("{}", r#"{"y":1}"#);
    assert_eq!(
        schema.check("input", &wrong).unwrap_err(),
        ["input.x.x.x.x.y: not of type \"null\""]
    );
    assert_eq!(
        schema.check("input", &nested(100)).unwrap_err(),
        ["input: too large or too deep to be checked against the schema"]
    );
    assert!(refused(&chain(300, |next| json!({"allOf": [next]}))).starts_with("$ref: a chain of more than"));
    // And one that just fits, with the keywords that take the most stack.
    let step = |next: Value| json!({"anyOf": [{"patternProperties": {"": next}}, {"oneOf": [false]}]});
    let recursive = json!({"$defs": {"n": step(json!({"$ref": "#/$defs/n"}))}, "$ref": "#/$defs/n"});
    assert_eq!(compiled(recursive).check("input", &nested(120)), Ok(()));
}

#[test]
fn deep_nesting_is_refused() {
    let deep = format!("{}1{}", "{\"not\":".repeat(5_000), "}".repeat(5_000));
    assert!(Schema::compile(&deep).unwrap_err().0.contains("recursion limit"));
    let schema = compiled(json!({"items": {"$ref": "#"}}));
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    assert!(schema.check("input", &deep).unwrap_err()[0].contains("recursion limit"));
}

#[test]
fn a_large_instance_that_does_not_match_is_told_without_collecting_every_place() {
    let schema = compiled(json!({"items": {"type": "string"}}));
    let mut instance = "[".to_owned();
    for _ in 0..400_000 {
        instance.push_str("1,");
    }
    let _ = write!(instance, "1]");
    assert_eq!(
        schema.check("input", &instance).unwrap_err(),
        ["input: does not match the schema"]
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let keyword = prop_oneof![
        Just("$ref"),
        Just("$id"),
        Just("$anchor"),
        Just("$schema"),
        Just("$defs"),
        Just("allOf"),
        Just("items"),
        Just("properties"),
        Just("type"),
        Just("enum"),
        Just("pattern"),
        Just("not"),
        Just("required"),
        Just("a"),
        Just("dependencies"),
        Just("$dynamicRef"),
        Just("unevaluatedProperties"),
        Just("minimum"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        prop_oneof![
            Just("#".to_owned()),
            Just("#/$defs/a".to_owned()),
            Just("#a".to_owned()),
            Just("string".to_owned()),
            Just("object".to_owned()),
            "[a-z(+*{%#/]{0,6}",
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((keyword.clone(), inner), 0..4).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn no_schema_and_no_instance_panics(schema in any_json(), instance in any_json(), text in any::<String>()) {
        let _ = Schema::compile(&text);
        if let Ok(schema) = Schema::compile(&schema.to_string()) {
            let _ = schema.check("input", &instance.to_string());
            let _ = schema.check("input", &text);
        }
    }
}
