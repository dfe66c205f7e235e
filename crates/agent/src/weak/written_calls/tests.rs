//! Calls as the templates of models write them, and texts that are none.

use proptest::prelude::*;
use serde_json::{Value, json};
use sortie_testkit::{list, rows};

use super::*;

const SHELL: &str = r#"{"properties":{"command":{"type":"string"},"timeout_seconds":{"type":"integer"},"background":{"type":"boolean"}},"required":["command"]}"#;
const SEARCH: &str = r#"{"properties":{"query":{"type":"string"},"filter":{"type":"object"},"any":{}}}"#;

fn find(name: &str, alias: Alias) -> Option<&'static str> {
    match name {
        "shell" => Some(SHELL),
        "docs__search" => Some(SEARCH),
        "bash" if alias == Alias::Allowed => Some(SHELL),
        _ => None,
    }
}

fn read(text: &str) -> Option<Written> {
    super::read(text, "List the files.", Closing::Implied, &find)
}

/// The calls, and the text before them.
fn calls(text: &str) -> Option<(String, Vec<(String, Value)>)> {
    let written = read(text)?;
    let calls = written.calls.into_iter().map(|call| {
        let arguments = near_json::object(&call.arguments, Closing::Required);
        (
            call.name,
            arguments.map_or(Value::Null, |json| serde_json::from_str(&json).unwrap()),
        )
    });
    Some((text[..written.at].to_owned(), calls.collect()))
}

#[test]
fn a_call_in_the_form_of_any_template_is_read() {
    let ls = || ("shell".to_owned(), json!({"command": "ls"}));
    for text in [
        // Hermes, Qwen
        "<tool_call>\n{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>",
        "<tool_call>{\"arguments\": {\"command\": \"ls\"}, \"name\": \"shell\"}",
        "<tool_call>{\"name\": \"shell\", \"arguments\": \"{\\\"command\\\": \\\"ls\\\"}\"}</tool_call>",
        "<tool_call>\n{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}\n</tool_call>",
        "<tool_call>\n{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}}\n</tool_call>",
        "<tool_call>\n{'name': 'shell', 'arguments': {'command': 'ls'}}\n</tool_call>",
        "<tool_call>[{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}]</tool_call>",
        "<tool_call>{\"name\": \"shell\", \"command\": \"ls\"}</tool_call>",
        "<tool_calls>[{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}]</tool_calls>",
        "<function_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}</function_call>",
        "<functioncall>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}</functioncall>",
        "<functioncall> {\"name\": \"shell\", \"arguments\": '{\"command\": \"ls\"}'} <|endoftext|>",
        // Tags for the name and the arguments
        "<tool_call><name>shell</name><arguments>{\"command\": \"ls\"}</arguments></tool_call>",
        "<tool_call>\n<name>shell</name>\n<parameters>\n{\"command\": \"ls\"\n</parameters>\n</tool_call>",
        "<tool_call><name>functions.shell</name><arguments>{\"command\": \"ls\"}</tool_call>",
        // Qwen3-Coder
        "<tool_call>\n<function=shell>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>",
        "<function=shell>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>",
        "<function=shell><parameter=command>ls</parameter>",
        "<seed:tool_call><function=shell><parameter=command>ls</parameter></function></seed:tool_call>",
        // Llama
        "<function=shell>{\"command\": \"ls\"}</function>",
        "<|python_tag|>{\"name\": \"shell\", \"parameters\": {\"command\": \"ls\"}}<|eom_id|>",
        "{\"name\": \"shell\", \"parameters\": {\"command\": \"ls\"}}",
        "{\"name\": \"shell\", \"parameters\": {\"command\": \"ls\"}}<|eot_id|>",
        "{\"type\": \"function\", \"function\": {\"name\": \"shell\", \"arguments\": \"{\\\"command\\\": \\\"ls\\\"}\"}}",
        "{\"tool_calls\": [{\"id\": \"1\", \"function\": {\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}}]}",
        "[{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}]",
        // Mistral
        "[TOOL_CALLS][{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}, \"id\": \"abc\"}]",
        "[TOOL_CALLS] [{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}]</s>",
        "[TOOL_CALLS]shell[ARGS]{\"command\": \"ls\"}",
        "[TOOL_CALLS]shell[CALL_ID]a1B2c3D4e[ARGS]{\"command\": \"ls\"}",
        "[TOOL_CALLS]shell{\"command\": \"ls\"}",
        // DeepSeek
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>shell\n```json\n{\"command\": \"ls\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>shell<｜tool▁sep｜>{\"command\": \"ls\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"shell\">\n<｜DSML｜parameter name=\"command\" string=\"true\">ls</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        // Anthropic, MiniMax
        "<function_calls>\n<invoke name=\"shell\">\n<parameter name=\"command\">ls</parameter>\n</invoke>\n</function_calls>",
        "<invoke name='shell'><parameter name='command'>ls</parameter></invoke>",
        "<minimax:tool_call>\n<invoke name=\"shell\">\n<parameter name=\"command\">ls</parameter>\n</invoke>\n</minimax:tool_call>",
        "<tool_call name=\"shell\">{\"command\": \"ls\"}</tool_call>",
        // Python
        "[shell(command=\"ls\")]",
        "<|python_tag|>[shell(command='ls')]<|eom_id|>",
        "<|tool_call_start|>[shell(command=\"ls\")]<|tool_call_end|>",
        "<tool_call>shell(command = \"ls\",)</tool_call>",
        // Qwen-Agent, Kimi, GLM, Granite, Command, gpt-oss
        "✿FUNCTION✿: shell\n✿ARGS✿: {\"command\": \"ls\"}",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.shell:0<|tool_call_argument_begin|>{\"command\": \"ls\"}<|tool_call_end|><|tool_calls_section_end|>",
        "<tool_call>shell\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>",
        "<|tool_call|>[{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}]",
        "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"shell\", \"parameters\": {\"command\": \"ls\"}}]<|END_ACTION|>",
        "<|channel|>commentary to=functions.shell <|constrain|>json<|message|>{\"command\": \"ls\"}<|call|>",
    ] {
        assert_eq!(calls(text), Some((String::new(), vec![ls()])), "{text}");
        if text.starts_with('<') {
            let said = format!("I look at the files.\n\n{text}\n");
            assert_eq!(
                calls(&said),
                Some(("I look at the files.\n\n".to_owned(), vec![ls()])),
                "{text}"
            );
        }
    }
}

#[test]
fn values_have_the_types_of_the_schema() {
    for (text, arguments) in rows! {
        "<function=shell>\n<parameter=command>\n  a\n\nb </parameter> c\n</parameter>\n<parameter=timeout_seconds>\n30\n</parameter>\n<parameter=background>True</parameter>\n</function>",
            json!({"command": "  a\n\nb </parameter> c", "timeout_seconds": 30, "background": true});
        "<function=shell><parameter=command>12</parameter><parameter=timeout_seconds>soon</parameter></function>",
            json!({"command": "12", "timeout_seconds": "soon"});
        "<tool_call>docs__search<arg_key>filter</arg_key><arg_value>{\"a\": 1}</arg_value><arg_key>any</arg_key><arg_value>[1]</arg_value><arg_key>query</arg_key><arg_value>{\"a\": 1}</arg_value></tool_call>",
            json!({"filter": {"a": 1}, "any": [1], "query": "{\"a\": 1}"});
        "<invoke name=\"shell\"><parameter name=\"cmd\">\nls &amp; x\n</parameter></invoke>",
            json!({"cmd": "\nls &amp; x\n"});
        "<invoke name=\"docs__search\"></invoke>", json!({});
        "<tool_call>docs__search</tool_call>", json!({});
        "<tool_call>{\"name\": \"docs__search\"}</tool_call>", json!({});
        "<tool_call><name>docs__search</name></tool_call>", json!({});
        "<tool_call><name>docs__search</name><arguments></arguments></tool_call>", json!({});
    } {
        assert_eq!(calls(text).unwrap().1[0].1, arguments, "{text}");
    }
}

#[test]
fn several_calls_are_read_in_their_order() {
    for text in [
        "<tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"a\"}}</tool_call>\n<tool_call>{\"name\": \"bash\", \"arguments\": {\"command\": \"b\"}}</tool_call>",
        "[TOOL_CALLS]shell[ARGS]{\"command\": \"a\"}[TOOL_CALLS]bash[ARGS]{\"command\": \"b\"}",
        "<function_calls><invoke name=\"shell\"><parameter name=\"command\">a</parameter></invoke><invoke name=\"bash\"><parameter name=\"command\">b</parameter></invoke></function_calls>",
        "<tool_call><name>shell</name><arguments>{\"command\": \"a\"}</arguments></tool_call><tool_call><name>bash</name><arguments>{\"command\": \"b\"}</arguments></tool_call>",
        "<functioncall> {\"name\": \"shell\", \"arguments\": {\"command\": \"a\"}}\n<functioncall> {\"name\": \"bash\", \"arguments\": {\"command\": \"b\"}}",
        "<|python_tag|>{\"name\": \"shell\", \"parameters\": {\"command\": \"a\"}}; {\"name\": \"bash\", \"parameters\": {\"command\": \"b\"}}",
    ] {
        let (_, calls) = calls(text).unwrap();
        let expected = [("shell", "a"), ("bash", "b")]
            .map(|(name, command)| (name.to_owned(), json!({"command": command})));
        assert_eq!(calls, expected, "{text}");
    }
}

/// A call on one line, in the form of Hermes.
const CALL: &str = "<tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}</tool_call>";

/// The call of [`CALL`] after these words.
fn ls_behind(said: &str) -> (String, Vec<(String, Value)>) {
    let ls = ("shell".to_owned(), json!({"command": "ls"}));
    (said.to_owned(), vec![ls])
}

#[test]
fn a_token_that_ends_the_text_may_follow_a_call() {
    for token in list! {
        "<|endoftext|>", "<|end_of_text|>", "<|eot|>", "<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|return|>",
        "<|end|>", "<|END_OF_TURN_TOKEN|>", "<end_of_turn>", "<eos>", "</s>",
    } {
        for text in [
            format!("{CALL}{token}"),
            format!("{CALL}\n{token}\n"),
            format!("{}{token}", CALL.replace("}}</tool_call>", "}")),
        ] {
            assert_eq!(calls(&text), Some(ls_behind("")), "{text}");
        }
        for text in [format!("42{token}"), format!("{CALL}{token} ends the answer.")] {
            assert_eq!(read(&text), None, "{text}");
        }
    }
}

#[test]
fn a_call_may_follow_a_sentence_on_its_line() {
    for said in list! {
        "Let me look. ", "Let me look.", "  I look: ", "Sure! ", "Hm… ", "I see `x`. ", "It is a < b. ",
        "First this.\nThen: ", "好的。",
    } {
        assert_eq!(calls(&format!("{said}{CALL}")), Some(ls_behind(said)), "{said}");
    }
    let coder = "I look. <function=shell><parameter=command>ls</parameter></function>";
    assert_eq!(calls(coder), Some(ls_behind("I look. ")));
    for said in list! {
        "Hermes writes ", "Is it ", "It is called a \"call.\" ", "Write `a. ", "> Let me look. ", "1. ",
    } {
        let text = format!("{said}{CALL}");
        assert_eq!(read(&text), None, "{text}");
    }
    let text = format!("It is so: {CALL} is a call.");
    assert_eq!(read(&text), None, "{text}");
    assert_eq!(
        super::read(&text, "What is a <tool_call>?", Closing::Implied, &find),
        None
    );
}

#[test]
fn a_result_that_the_model_made_up_is_dropped_behind_its_call() {
    let result = "<tool_response>\nx.txt\n</tool_response>";
    for call in [
        CALL,
        "<tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}",
        "<function=shell><parameter=command>ls</parameter></function>",
        "{\"name\": \"shell\", \"parameters\": {\"command\": \"ls\"}}",
    ] {
        for behind in [
            "",
            "\nThere is one file.",
            "\n<tool_call>{\"name\": \"bash\", \"arguments\": {}}",
        ] {
            let text = format!("{call}\n{result}{behind}");
            assert_eq!(calls(&text), Some(ls_behind("")), "{text}");
        }
    }
    let written = CALL.replace("ls", "echo <tool_response>");
    let (_, made) = calls(&written).unwrap();
    assert_eq!(made[0].1, json!({"command": "echo <tool_response>"}));
    for text in [
        result.to_owned(),
        format!("I look.\n{result}"),
        format!("{CALL}\nIt gives:\n{result}"),
        format!("```\n{CALL}\n{result}\n```"),
    ] {
        assert_eq!(read(&text), None, "{text}");
    }
    let text = format!("{CALL}\n{result}");
    let task = "Where does <tool_response> stand?";
    assert_eq!(super::read(&text, task, Closing::Implied, &find), None);
}

#[test]
fn a_text_that_is_no_call_stays() {
    let call = "<tool_call>\n{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>";
    for text in list! {
        String::new(), "42".to_owned(), format!("```\n{call}\n```"),
        format!("Models write:\n\n```xml\n{call}\n```\n"), format!("Models write:\n\n~~~\n{call}"),
        format!("Hermes writes {}", call.replace('\n', "")), format!("{call}\nThis is how Hermes writes a call."),
        format!("`{call}`"), format!("> {call}"), "Mistral writes `[TOOL_CALLS]shell[ARGS]{}`".to_owned(),
        "`[TOOL_CALLS]` begins it".to_owned(), "[TOOL_CALLS] begins it".to_owned(), call.replace("shell", "launch"),
        call.replace("\"name\"", "\"title\""), "<tool_call></tool_call>".to_owned(),
        "<tool_call>I call the shell</tool_call>".to_owned(),
        "<function=launch><parameter=command>ls</parameter></function>".to_owned(),
        "<invoke>shell</invoke>".to_owned(), "<functioncall> is the tag of Glaive.".to_owned(),
        "Glaive writes <functioncall> {\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}".to_owned(),
        "<functioncall> {\"name\": \"launch\", \"arguments\": {}}".to_owned(),
        "<name>shell</name><arguments>{\"command\": \"ls\"}</arguments>".to_owned(),
        "<tool_call><name>launch</name><arguments>{}</arguments></tool_call>".to_owned(),
        "<tool_call><name>shell</name> is a tool</tool_call>".to_owned(),
        "{\"name\": \"bash\", \"parameters\": {\"command\": \"ls\"}}".to_owned(),
        "{\"name\": \"shell\"}".to_owned(), "{\"name\": \"shell\", \"parameters\": {}, \"price\": 3}".to_owned(),
        "{\"name\": \"Ann\", \"parameters\": {\"age\": 3}}".to_owned(),
        "The call is {\"name\": \"shell\", \"parameters\": {\"command\": \"ls\"}}".to_owned(),
        "```json\n{\"name\": \"shell\", \"parameters\": {\"command\": \"ls\"}}\n```".to_owned(),
        "{\"name\": \"shell\", \"parameters\": {\"command\": \"ls\"}} is a call".to_owned(),
        "[shell(command=\"ls\")] is a call".to_owned(), "[bash(command=\"ls\")]".to_owned(),
        "[shell(\"ls\")]".to_owned(), "shell(command=\"ls\")".to_owned(), "[]".to_owned(), "{}".to_owned(),
    } {
        assert_eq!(read(&text), None, "{text}");
    }
}

#[test]
fn a_form_that_the_task_speaks_of_is_an_answer() {
    for (task, text) in rows! {
        "Show a <tool_call> of Hermes.",
            "<tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}</tool_call>";
        "How does Mistral use [TOOL_CALLS]?", "[TOOL_CALLS]shell[ARGS]{\"command\": \"ls\"}";
        "What is <function=f> for?", "<function=shell><parameter=command>ls</parameter></function>";
        "Answer with name and parameters.", "{\"name\": \"shell\", \"parameters\": {\"command\": \"ls\"}}";
    } {
        assert_eq!(super::read(text, task, Closing::Implied, &find), None, "{task}");
    }
}

#[test]
fn a_call_that_is_not_whole_has_arguments_that_cannot_be_read() {
    for text in [
        "<tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls",
        "<tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"echo \"hi\"\"}}</tool_call>",
        "<function=shell>\n<parameter=command>\nls",
        "<invoke name=\"shell\"><parameter name=\"command\">ls</invoke>",
        "<tool_call>shell<arg_key>command</arg_key><arg_value>ls",
        "[TOOL_CALLS]shell[ARGS]{\"command\": \"ls",
        "<tool_call>{\"name\": \"shell\", \"arg",
        "<|python_tag|>[shell(command=\"ls",
        "<|python_tag|>[shell(command=\"ls\"",
        "<tool_call><name>shell</name><arguments>{\"command\": \"ls",
        "<tool_call><name>shell</name><arguments>{\"command\": \"echo \"hi\"\"}</arguments></tool_call>",
    ] {
        let (_, calls) = calls(text).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(calls, [("shell".to_owned(), Value::Null)], "{text}");
    }
    // At a limit of length an end without its tags may be a part.
    for text in [
        "<function=shell>",
        "<function=shell><parameter=command>ls</parameter>",
        "[TOOL_CALLS]shell",
        "<tool_call><name>shell</name>",
        "<tool_call><name>shell</name><arguments>",
    ] {
        let written = super::read(text, "", Closing::Required, &find).unwrap();
        assert!(
            near_json::object(&written.calls[0].arguments, Closing::Implied).is_err(),
            "{text}"
        );
    }
}

#[test]
fn reading_takes_time_linear_in_the_text() {
    for part in list! {
        "<tool_call>", "<function=shell>", "<tool_call>{\"name\": \"shell\"", "[TOOL_CALLS]", "<", "</",
        "\n<tool_call>x", "<parameter=a>", "```\n", "{\"name\":", "[shell(", "<|python_tag|>[shell(command=1)]",
        "<tool_call><name>", "<tool_call><name>shell</name><arguments>{}", "a. <tool_call>", "`a. <b", "1. <",
        "<tool_response>",
    } {
        let text = part.repeat(20_000);
        let _ = read(&text);
        let _ = read(&format!("<function=shell><parameter=command>{text}"));
        let _ = read(&format!(
            "<tool_call>shell<arg_key>command</arg_key><arg_value>{text}"
        ));
    }
}

proptest! {
    #[test]
    fn no_text_panics(parts in proptest::collection::vec(prop_oneof![
        Just("<tool_call>"), Just("</tool_call>"), Just("<function=shell>"), Just("<parameter=command>"), Just("</parameter>"),
        Just("</function>"), Just("{\"name\": \"shell\", \"arguments\": {"), Just("}}"), Just("[TOOL_CALLS]"), Just("shell"), Just("[ARGS]"), Just("[shell("), Just("command="), Just(")]"),
        Just("<name>"), Just("</name>"), Just("<arguments>"), Just("</arguments>"), Just("<functioncall>"), Just("<tool_response>"), Just("a. "),
        Just("<arg_key>"), Just("</arg_key>"), Just("<arg_value>"), Just("</arg_value>"), Just("\n"), Just("```"), Just("é"), Just("\""),
    ], 0..12)) {
        let text = parts.concat();
        for closing in [Closing::Required, Closing::Implied] {
            if let Some(written) = super::read(&text, "", closing, &find) {
                prop_assert!(written.at <= text.len() && !written.calls.is_empty());
                prop_assert!(written.calls.iter().all(|call| find(&call.name, Alias::Allowed).is_some()));
            }
        }
    }
}
