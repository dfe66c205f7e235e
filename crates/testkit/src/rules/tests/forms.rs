//! Tables of requests that strict providers refuse because of one part, and of similar ones that all providers accept.

use crate::rows;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{PNG, assistant, call, messages, refusal, tool_result, tool_use, user};
use crate::{
    model::ChatProvider,
    rules::{Rules, chat, gemini, pictures, responses, tools},
};

fn chat_of(provider: ChatProvider, messages: &Value) -> String {
    let mut rules = Rules {
        provider,
        ..Rules::default()
    };
    refusal(chat::check(&mut rules, &json!({ "messages": messages })))
}

/// Fails if a refusal does not contain these words, or if there is a refusal and `words` is empty.
#[track_caller]
fn refused(refusal: &str, words: &str) {
    assert!(
        refusal.contains(words) && refusal.is_empty() == words.is_empty(),
        "{refusal:?} is not {words:?}"
    );
}

#[test]
fn each_provider_has_its_form_of_names() {
    let long = "n".repeat(65);
    for (name, openai, anthropic, gemini) in rows! {
        "shell", "", "", "";
        "a-B_9", "", "", "";
        "functions.shell", "does not match pattern", "should match pattern", "";
        "get:whoami", "does not match pattern", "should match pattern", "";
        "9lives", "", "", "Invalid function name";
        "-x", "", "", "Invalid function name";
        "wetter_für", "does not match pattern", "should match pattern", "Invalid function name";
        "run it", "does not match pattern", "should match pattern", "Invalid function name";
        "shell<|channel|>json", "does not match pattern", "should match pattern", "Invalid function name";
        "", "does not match pattern", "should match pattern", "Invalid function name";
        &long, "maximum length 64", "should match pattern", "maximum length of 64";
    } {
        let of = |result: Result<(), String>| result.err().unwrap_or_default();
        refused(&of(tools::openai_name("name", name)), openai);
        refused(&of(tools::anthropic_name("name", name)), anthropic);
        refused(&of(tools::gemini_name("name", name)), gemini);
    }
}

#[test]
fn a_name_of_the_conversation_counts_as_one_of_a_declaration() {
    let mut said = call("a");
    said["tool_calls"][0]["function"]["name"] = json!("functions.shell");
    let result = json!({"role": "tool", "tool_call_id": "a", "content": "x"});
    refused(
        &chat_of(ChatProvider::Common, &json!([user("Go."), said, result])),
        "Invalid 'messages[1].tool_calls[0].function.name': string does not match pattern",
    );
    let mut said = tool_use("a");
    said["name"] = json!("functions.shell");
    refused(
        &messages(
            &json!({"messages": [user("Go."), assistant(json!([said])), user(json!([tool_result("a", "x")]))]}),
        ),
        "messages.1.content.0.tool_use.name: String should match pattern",
    );
    let item = json!({"type": "function_call", "call_id": "a", "name": "functions.shell", "arguments": "{}"});
    refused(
        &refusal(responses::check(&mut Rules::default(), &json!({"input": [item]}))),
        "Invalid 'input[0].name'",
    );
}

#[test]
fn arguments_are_a_json_object_without_half_a_surrogate_pair() {
    for (arguments, words) in [
        ("{}", ""),
        (r#"{"a":"\ud83d\ude00"}"#, ""),
        (r#"{"a":"\ud99c"}"#, "hex escape"),
        ("", "EOF"),
        ("[1]", "expected a JSON object"),
        ("\"ls\"", "expected a JSON object"),
    ] {
        refused(
            &tools::arguments("arguments", arguments).err().unwrap_or_default(),
            words,
        );
    }
}

#[test]
fn a_schema_is_an_object_whose_arrays_have_items() {
    let top = "not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level";
    let array = json!({"type": "array"});
    for (schema, words) in rows! {
        json!({"type": "object"}), "";
        json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}), "";
        json!({"type": "object", "properties": {"a": {"type": "array", "items": {}}}}), "";
        // A property may have the name of a keyword.
        json!({"type": "object", "properties": {"items": {"type": "string"}}}), "";
        json!({}), top;
        json!({"type": "object", "anyOf": [{"required": ["a"]}]}), top;
        json!({"type": "object", "not": {}}), top;
        json!({"type": "object", "properties": {"a": array}}),
        "In context=('properties', 'a'), array schema missing items.";
        json!({"type": "object", "properties": {"a": {"type": ["array", "null"]}}}), "('properties', 'a')";
        json!({"type": "object", "properties": {"a": {"type": "array", "items": array}}}), "('properties', 'a', 'items')";
        json!({"type": "object", "$defs": {"A": {"oneOf": [{}, array]}}}), "('$defs', 'A', 'oneOf', '1')";
    } {
        refused(
            &tools::openai_schema("f", &schema).err().unwrap_or_default(),
            words,
        );
    }
    for (schema, words) in rows! {
        json!({"type": "object", "properties": {"a.b-c_9": array}}), "";
        json!({"type": "object", "properties": {"a": {"properties": {"filter[x]": {}}}}}), "";
        json!({"type": "object", "oneOf": []}), "does not support oneOf, allOf, or anyOf";
        json!({"properties": {}}), "input_schema.type: Field required";
        json!({"type": ["object"]}), "Input should be 'object'";
        json!({"type": "object", "properties": {"filter[x]": {}}}), "Property keys should match pattern";
    } {
        refused(
            &tools::anthropic_schema(0, &schema).err().unwrap_or_default(),
            words,
        );
    }
}

#[test]
fn declarations_are_checked_in_every_protocol() {
    let schema = json!({"type": "object", "anyOf": []});
    let chat = json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]});
    refused(
        &refusal(chat::check(&mut Rules::default(), &chat)),
        "Invalid schema for function 'f'",
    );
    let flat = json!({"tools": [{"type": "function", "name": "f", "parameters": schema}]});
    refused(
        &refusal(responses::check(&mut Rules::default(), &flat)),
        "Invalid schema for function 'f'",
    );
    refused(
        &messages(&json!({"tools": [{"name": "f", "input_schema": schema}]})),
        "tools.0.custom.input_schema",
    );
    let named = json!({"tools": [{"functionDeclarations": [{"name": "f"}, {"name": "9"}]}]});
    refused(
        &refusal(gemini::check(&mut Rules::default(), &named)),
        "tools[0].function_declarations[1].name",
    );
}

#[test]
fn chat_takes_roles_in_an_order_that_every_template_has() {
    let system = json!({"role": "system", "content": "Be brief."});
    let said = assistant("I look.");
    for (messages, words) in rows! {
        json!([system, user("Go."), said, user("And?")]), "";
        json!([user("Go."), system]), "System message must be at the beginning";
        json!([user("Go."), user("Now.")]), "must alternate";
        json!([user("Go."), said, said, user("And?")]), "must alternate";
        json!([system, said, user("Go.")]), "must begin with user";
        json!([user("Go."), said]), "Expected last role User or Tool";
        json!([user("Go."), assistant(" "), user("And?")]), "either content or tool_calls";
        json!([user("Go."), call(""), json!({"role": "tool", "tool_call_id": "", "content": "x"})]), "empty string";
        json!([
            user("Go."),
            call(&"i".repeat(41)),
            json!({"role": "tool", "tool_call_id": "i".repeat(41), "content": "x"})
        ]),
        "maximum length 40";
    } {
        refused(&chat_of(ChatProvider::Common, &messages), words);
    }
    let both = json!({"max_tokens": 1, "max_completion_tokens": 1});
    refused(
        &refusal(chat::check(&mut Rules::default(), &both)),
        "at the same time",
    );
}

#[test]
fn mistral_and_deepseek_have_rules_of_their_own() {
    use ChatProvider::{Common, Deepseek, Mistral};

    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "x"});
    let followed = |id: &str| json!([user("Go."), call(id), result(id), user("And?")]);
    let answered = |id: &str| json!([user("Go."), call(id), result(id)]);
    refused(&chat_of(Common, &followed("call_0")), "");
    refused(&chat_of(Mistral, &answered("abcDEF123")), "");
    refused(
        &chat_of(Mistral, &followed("abcDEF123")),
        "Unexpected role 'user' after role 'tool'",
    );
    refused(
        &chat_of(Mistral, &answered("call_0")),
        "must be a-z, A-Z, 0-9, with a length of 9",
    );
    refused(
        &chat_of(Deepseek, &answered("call_0")),
        "Missing `reasoning_content` field in the assistant message",
    );
    let mut thought = answered("call_0");
    thought[1]["reasoning_content"] = json!("");
    refused(&chat_of(Deepseek, &thought), "");
}

#[test]
fn anthropic_takes_turns_that_alternate_and_room_for_its_thinking() {
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let said = |messages: Value| super::messages(&json!({ "messages": messages }));
    refused(
        &said(json!([assistant(text("I look."))])),
        "first message must use the \"user\" role",
    );
    refused(
        &said(json!([user(text("Go.")), user(text("Now."))])),
        "roles must alternate",
    );
    refused(&said(json!([user(json!([]))])), "must have non-empty content");
    let mut odd = tool_use("call.1");
    refused(
        &said(json!([user(text("Go.")), assistant(json!([odd]))])),
        "tool_use.id: String should match pattern",
    );
    odd = tool_use("a");
    odd["input"] = json!("{}");
    refused(
        &said(json!([user(text("Go.")), assistant(json!([odd]))])),
        "valid dictionary",
    );
    let budget = |most: u64, budget: u64| {
        messages(&json!({"max_tokens": most, "thinking": {"type": "enabled", "budget_tokens": budget}}))
    };
    refused(&budget(2_000, 1_024), "");
    refused(&budget(1_024, 1_024), "must be greater than");
    refused(&budget(2_000, 1_000), "greater than or equal to 1024");
}

#[test]
fn gemini_takes_calls_behind_the_user_who_has_the_last_word() {
    let go = json!({"role": "user", "parts": [{"text": "Go."}]});
    let said = json!({"role": "model", "parts": [{"text": "I look."}]});
    let called =
        json!({"role": "model", "parts": [{"functionCall": {"name": "f"}, "thoughtSignature": "x"}]});
    let done = json!({"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]});
    for (contents, words) in rows! {
        json!([go, called, done]), "";
        json!([called, done]), "comes immediately after a user turn";
        json!([go, said, called, done]), "comes immediately after a user turn";
        json!([go, said]), "ending with a model turn";
        json!([{"role": "user", "parts": []}]), "must not be empty";
        json!([{"role": "user", "parts": [{}]}]), "one initialized field";
        json!([{"role": "assistant", "parts": [{"text": "a"}]}]), "valid role";
    } {
        let request = json!({ "contents": contents });
        refused(&refusal(gemini::check(&mut Rules::default(), &request)), words);
    }
}

#[test]
fn responses_takes_ids_of_their_kind_and_room_for_an_answer() {
    let check = |request: Value| refusal(responses::check(&mut Rules::default(), &request));
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"});
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "x"});
    let mut named = call("a");
    named["id"] = json!("call_a");
    refused(
        &check(json!({"input": [named, output("a")]})),
        "Expected an ID that begins with 'fc'",
    );
    named["id"] = json!("fc_a");
    refused(&check(json!({"input": [named, output("a")]})), "");
    refused(
        &check(json!({"input": [call("a"), output("a"), call("a"), output("a")]})),
        "Duplicate 'call_id' a",
    );
    refused(
        &check(json!({"input": [call(&"a".repeat(65))]})),
        "maximum length 64",
    );
    refused(&check(json!({"max_output_tokens": 15})), "Expected a value >= 16");
    refused(&check(json!({"max_output_tokens": 16})), "");
}

#[test]
fn a_picture_is_encoded_of_a_known_type_and_not_too_large() {
    let png = STANDARD.encode(PNG);
    let large = STANDARD.encode([PNG, &vec![0; 4 << 20]].concat());
    let of = |result: Result<(), String>| result.err().unwrap_or_default();
    for (media_type, data, words) in rows! {
        "image/png", png.as_str(), "";
        "image/jpeg", &png, "does not match the provided media type image/jpeg";
        "image/bmp", &png, "media_type: Input should be";
        "image/png", "no base64", "invalid base64 data";
        "image/png", "aWNo", "Could not process image";
        "image/png", &large, "image exceeds 5 MB maximum";
    } {
        refused(&of(pictures::anthropic("image.source", media_type, data)), words);
    }
    for (url, words) in rows! {
        format!("data:image/png;base64,{large}"), "";
        format!("data:image/heic;base64,{png}"), "unsupported MIME type";
        format!("data:image/gif;base64,{png}"), "a picture of another type";
        png.clone(), "without the 'data:' prefix";
    } {
        refused(&of(pictures::openai("url", &url)), words);
    }
    for (media_type, data, words) in [
        ("image/png", png.as_str(), ""),
        ("image/gif", "R0lGODlh", "Unsupported MIME type: image/gif"),
        ("image/webp", &png, "a picture of another type"),
    ] {
        refused(&of(pictures::gemini("part", media_type, data)), words);
    }
}
