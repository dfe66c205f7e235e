//! Arguments as models write them, and how they are read.

use proptest::prelude::*;
use serde_json::json;
use sortie_testkit::rows;

use super::*;

const EDIT: ToolDefinition<'static> = ToolDefinition {
    name: "edit_file",
    description: "",
    parameters: r#"{"type":"object","properties":{"path":{"type":"string"},"old_text":{"type":"string"},"new_text":{"type":"string"},"replace_all":{"type":"boolean"}},"required":["path","old_text","new_text"]}"#,
};
const READ: ToolDefinition<'static> = ToolDefinition {
    name: "read_file",
    description: "",
    parameters: r#"{"type":"object","properties":{"path":{"type":"string"},"start_line":{"type":"integer","minimum":1},"end_line":{"type":"integer","minimum":1},"line_numbers":{"type":"boolean"}},"required":["path"]}"#,
};
const SHELL: ToolDefinition<'static> = ToolDefinition {
    name: "shell",
    description: "",
    parameters: r#"{"type":"object","properties":{"command":{"type":"string"},"timeout_seconds":{"type":"integer","minimum":1},"names":{"type":"array"}},"required":["command"]}"#,
};
const SEARCH: ToolDefinition<'static> = ToolDefinition {
    name: "search_files",
    description: "",
    parameters: r#"{"type":"object","properties":{"regex":{"type":"string"},"path":{"type":"string"},"pattern":{"type":"string"},"ignore_case":{"type":"boolean"},"context":{"type":"integer"},"files_only":{"type":"boolean"}},"required":["regex"]}"#,
};

const REQUEST: ToolDefinition<'static> = ToolDefinition {
    name: "http_request",
    description: "",
    parameters: r#"{"type":"object","properties":{"url":{"type":"string"},"method":{"type":"string","enum":["GET","POST"]},"headers":{"type":"object"},"query":{"type":"object"},"body":{"type":"string"},"json":{}},"required":["url"]}"#,
};

fn read(tool: &ToolDefinition<'_>, sent: &Value) -> Result<Value, String> {
    let raw = RawValue::from_string(sent.to_string()).unwrap();
    arguments_of(tool, &raw).map_err(|error| match error {
        ToolError::NotSent(told) => told,
        ToolError::ToModel(told) | ToolError::Fatal(told) => panic!("{told}"),
    })
}

#[test]
fn fields_are_known_by_the_names_of_other_tools() {
    let edit = json!({"path": "a", "old_text": "b", "new_text": "c"});
    for sent in [
        json!({"file_path": "a", "old_string": "b", "new_string": "c"}),
        json!({"filePath": "a", "oldText": "b", "newText": "c"}),
        json!({"filename": "a", "old_str": "b", "new_str": "c", "description": "why"}),
        json!({"Path": "a", "old-text": "b", "new text": "c", "replace_all": null}),
        json!({"file": "a", "search": "b", "replace": "c", "explanation": "why"}),
    ] {
        assert_eq!(read(&EDIT, &sent), Ok(edit.clone()), "{sent}");
    }
    for (tool, sent, meant) in rows! {
        &SHELL, json!({"cmd": "ls"}), json!({"command": "ls"});
        &SHELL, json!({"command": ["bash", "-lc", "ls | wc"], "timeout_ms": 1500}),
            json!({"command": "ls | wc", "timeout_seconds": 2});
        &SHELL, json!({"command": ["grep", "a b", "it's"], "timeout": 120_000}),
            json!({"command": r"grep 'a b' 'it'\''s'", "timeout_seconds": 120});
        &SHELL, json!({"command": "ls", "timeout": 30}), json!({"command": "ls", "timeout_seconds": 30});
        &SHELL, json!({"command": ["make", "all"], "workdir": "/work/a b"}),
            json!({"command": "cd -- '/work/a b' || exit\nmake all"});
        &READ, json!({"file_path": "a", "offset": 10, "limit": 5}),
            json!({"path": "a", "start_line": 10, "end_line": 14});
        &READ, json!({"path": "a", "offset": 0}), json!({"path": "a", "start_line": 1});
        &READ, json!({"path": "a", "view_range": [3, -1]}), json!({"path": "a", "start_line": 3});
        &READ, json!({"path": "a", "view_range": [3, 9]}), json!({"path": "a", "start_line": 3, "end_line": 9});
        &SEARCH,
            json!({"pattern": "fn main", "glob": "*.rs", "-i": true, "-C": 2, "output_mode": "files_with_matches"}),
            json!({"regex": "fn main", "pattern": "*.rs", "ignore_case": true, "context": 2, "files_only": true});
        &SEARCH, json!({"query": "x", "pattern": "*.rs", "case_sensitive": false}),
            json!({"regex": "x", "pattern": "*.rs", "ignore_case": true});
        &SEARCH, json!({"regex": "x", "include": "*.rs", "output_mode": "content", "-n": true}),
            json!({"regex": "x", "pattern": "*.rs", "files_only": false});
    } {
        assert_eq!(read(tool, &sent), Ok(meant), "{sent}");
    }
}

#[test]
fn values_are_read_by_their_meaning() {
    for (tool, sent, meant) in rows! {
        &READ, json!({"path": "a", "start_line": "30", "end_line": 40.0, "line_numbers": "True"}),
            json!({"path": "a", "start_line": 30, "end_line": 40, "line_numbers": true});
        &READ, json!({"path": ["a"], "start_line": null}), json!({"path": "a"});
        &EDIT, json!({"path": "a", "old_text": 1, "new_text": 2.50, "replace_all": 0}),
            json!({"path": "a", "old_text": "1", "new_text": "2.5", "replace_all": false});
        &REQUEST, json!({"uri": "u", "method": "post", "headers": "{\"a\": \"b\"}"}),
            json!({"url": "u", "method": "POST", "headers": {"a": "b"}});
        &REQUEST, json!({"url": "u", "body": {"a": [1]}, "json": null}), json!({"url": "u", "json": {"a": [1]}});
        &REQUEST, json!({"url": "u", "body": [1], "json": [1]}), json!({"url": "u", "json": [1]});
        &REQUEST, json!({"url": "u", "body": "{\"a\": 1}"}), json!({"url": "u", "body": "{\"a\": 1}"});
        &REQUEST, json!({"url": "u", "headers": "Accept: a/b\r\nX-Time: 12:30\n", "query": "?a=1&b=x+%C3%A9&a=2"}),
            json!({"url": "u", "headers": {"Accept": "a/b", "X-Time": "12:30"}, "query": {"a": ["1", "2"], "b": "x é"}});
        &REQUEST, json!({"url": "u", "headers": ["Accept: a/b", {"name": "X-N", "value": 1}], "query": "{'a': 1}"}),
            json!({"url": "u", "headers": {"Accept": "a/b", "X-N": "1"}, "query": {"a": 1}});
        &REQUEST, json!({"url": "u", "headers": {"X-N": 1, "X-On": true, "X-None": null}}),
            json!({"url": "u", "headers": {"X-N": "1", "X-On": "true"}});
        &SHELL, json!({"command": "ls", "names": "a"}), json!({"command": "ls", "names": ["a"]});
        &SHELL, json!({"command": "ls", "names": "[\"a\", \"b\"]"}), json!({"command": "ls", "names": ["a", "b"]});
    } {
        assert_eq!(read(tool, &sent), Ok(meant), "{sent}");
    }
    // A value of any type stays verbatim, and so does a number in place of a string.
    let raw =
        RawValue::from_string(r#"{"url":"u","json":{"b":12345678901234567890123,"a":1.10}}"#.to_owned());
    let read: BTreeMap<String, Box<RawValue>> = arguments_of(&REQUEST, &raw.unwrap()).unwrap();
    assert_eq!(read["json"].get(), r#"{"b":12345678901234567890123,"a":1.10}"#);
    let raw = RawValue::from_string(
        r#"{"path":"a","old_text":12345678901234567890123,"new_text":1.10}"#.to_owned(),
    );
    let read: Value = arguments_of(&EDIT, &raw.unwrap()).unwrap();
    assert_eq!(read["old_text"], "12345678901234567890123");
    assert_eq!(read["new_text"], "1.10");
}

#[test]
fn arguments_that_are_wrapped_once_more_are_unwrapped() {
    let plain = json!({"path": "a"});
    for sent in [
        json!({"arguments": {"path": "a"}}),
        json!({"arguments": "{\"path\": \"a\"}"}),
        json!({"name": "read_file", "arguments": {"path": "a"}}),
        json!({"input": {"params": {"file": "a"}}}),
    ] {
        assert_eq!(read(&READ, &sent), Ok(plain.clone()), "{sent}");
    }
}

#[test]
fn a_refusal_names_the_field_the_type_and_an_example() {
    assert_eq!(
        read(&EDIT, &json!({"path": "a", "new_text": "c"})).unwrap_err(),
        "edit_file: old_text is missing; it must be a string. Fields: path (string), old_text (string), new_text \
         (string), replace_all (true or false, optional). Example: {\"path\": \"src/main.py\", \"old_text\": \"count = \
         1\", \"new_text\": \"count = 2\"}"
    );
    for (tool, sent, problem) in [
        (
            &READ,
            json!({"path": "a", "start_line": "x"}),
            "read_file: start_line must be a whole number from 1; it is a string. ",
        ),
        (
            &READ,
            json!({"path": "a", "start_line": -3}),
            "read_file: start_line must be a whole number from 1. ",
        ),
        (
            &REQUEST,
            json!({"url": "u", "method": "TRACE"}),
            "http_request: method must be one of \"GET\", \"POST\". ",
        ),
        (
            &REQUEST,
            json!({"url": "u", "headers": "a"}),
            "http_request: headers must be an object; it is a string. ",
        ),
        (
            &REQUEST,
            json!({"url": "u", "headers": {"a": ["b"]}}),
            "http_request: headers.a must be a string. ",
        ),
        (
            &REQUEST,
            json!({"url": "u", "body": {"a": 1}, "json": {"a": 2}}),
            "http_request: body must be a string; it is an object. ",
        ),
        (
            &READ,
            json!({"path": {"a": 1}}),
            "read_file: path must be a string; it is an object. ",
        ),
        (
            &READ,
            json!({"path": "a", "start_lime": 1}),
            "read_file: there is no field start_lime; start_line is the nearest. ",
        ),
        (
            &SHELL,
            json!({"command": "ls", "with_escalated_rights": true}),
            "shell: there is no field with_escalated_rights. ",
        ),
        (
            &EDIT,
            json!({"path": "a", "replace_all": "perhaps"}),
            "edit_file: old_text is missing; it must be a string; new_text is missing; it must be a string; \
             replace_all must be true or false; it is a string. ",
        ),
    ] {
        let told = read(tool, &sent).unwrap_err();
        assert!(told.starts_with(problem), "{told}");
        for word in ["expected", "invalid", "serde", "u64", "bool", "column", "struct"] {
            assert!(!told.contains(word), "{told}");
        }
    }
}

#[test]
fn two_values_for_one_field_are_refused() {
    let told = read(&READ, &json!({"path": "a", "file_path": "b"})).unwrap_err();
    assert!(told.contains("there is no field file_path"), "{told}");
}

proptest! {
    #[test]
    fn no_arguments_panic(keys in proptest::collection::vec("[a-z_]{0,12}|path|arguments|offset|limit|view_range", 0..5), value in "[0-9\"\\[\\]{}a,.-]{0,12}") {
        let object: Given = keys
            .into_iter()
            .filter_map(|key| Some((key, RawValue::from_string(value.clone()).ok()?)))
            .collect();
        let raw = serde_json::value::to_raw_value(&object).unwrap();
        let _ = arguments_of::<Value>(&READ, &raw);
    }

    #[test]
    fn what_is_written_as_the_schema_says_is_read_as_it_is(path in any::<String>(), old in any::<String>(), new in any::<String>()) {
        let sent = json!({"path": path, "old_text": old, "new_text": new, "replace_all": true});
        prop_assert_eq!(read(&EDIT, &sent), Ok(sent));
    }
}
