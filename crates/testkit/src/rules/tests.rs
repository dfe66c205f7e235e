mod forms;

use crate::rows;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{Rules, Seen, anthropic, chat, gemini, responses, tokens};
use crate::{Client, Parser, ScriptedAnthropic, ScriptedGemini, ScriptedModel, model::Turn, sse::Item};

/// The first bytes of a PNG.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

fn refusal(seen: Result<Seen, String>) -> String {
    seen.err().unwrap_or_default()
}

fn messages(request: &Value) -> String {
    refusal(anthropic::check(&mut Rules::default(), request, ""))
}

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

fn assistant(content: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": content.into()})
}

fn tool_use(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "shell", "input": {}})
}

/// A call in Chat Completions.
fn call(id: &str) -> Value {
    let function = json!({"name": "shell", "arguments": "{}"});
    json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": function}]})
}

fn tool_result(id: &str, content: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": content})
}

#[test]
fn anthropic_takes_no_call_without_its_result_and_no_result_without_its_call() {
    let go = || user(json!([{"type": "text", "text": "Go."}]));
    let said = |content: Value| assistant(content);
    let text = json!({"type": "text", "text": "And?"});
    let cases = rows! {
        json!([go(), said(json!([tool_use("a")]))]), "were found without `tool_result`";
        json!([go(), said(json!([tool_use("a")])), go()]), "were found without `tool_result`";
        json!([
            go(),
            said(json!([tool_use("a")])),
            user(json!([text, tool_result("a", "x")]))
        ]),
        "were found without `tool_result`";
        json!([go(), user(json!([tool_result("a", "x")]))]), "unexpected `tool_use_id`";
        json!([
            go(),
            said(json!([tool_use("a")])),
            user(json!([tool_result("a", "x"), tool_result("a", "x")]))
        ]),
        "unexpected `tool_use_id`";
        json!([
            go(),
            said(json!([tool_use("a")])),
            user(json!([tool_result("a", "x")])),
            said(json!([tool_use("a")])),
            user(json!([tool_result("a", "x")])),
        ]),
        "must be unique";
        json!([user(json!([{"type": "text", "text": " "}]))]), "non-whitespace";
        json!([go(), said(json!([text]))]), "does not support assistant message prefill";
    };
    for (sent, rule) in cases {
        let refused = messages(&json!({"messages": sent}));
        assert!(refused.contains(rule), "{refused:?} is not {rule:?}");
    }
    let fine = json!([
        go(),
        said(json!([tool_use("a"), tool_use("b")])),
        user(json!([tool_result("b", "x"), tool_result("a", ""), text])),
    ]);
    assert_eq!(messages(&json!({"messages": fine})), "");
    let mark = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    let marked = json!({"messages": [user(json!([mark, mark, mark, mark, mark]))]});
    assert!(messages(&marked).contains("Found 5"));
}

/// Asks a server for Anthropic's API, and returns its events or its refusal.
async fn ask(model: &ScriptedAnthropic, request: &Value) -> anyhow::Result<Result<Vec<Value>, String>> {
    let address = model.base_url()["http://".len()..].parse()?;
    let answer = Client::new(address, None).post("/v1/messages", request).await?;
    if answer.status != 200 {
        let refused: Value = serde_json::from_slice(&answer.body)?;
        return Ok(Err(refused["error"]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()));
    }
    let events = Parser::default()
        .push(&answer.body)
        .into_iter()
        .filter_map(|item| match item {
            Item::Message(message) => serde_json::from_str(&message.data).ok(),
            Item::Comment(_) | Item::Retry(_) => None,
        });
    Ok(Ok(events.collect()))
}

fn signature(events: &[Value]) -> String {
    let signatures = events
        .iter()
        .filter_map(|event| event["delta"]["signature"].as_str());
    signatures.collect()
}

#[tokio::test]
async fn anthropic_takes_thinking_only_behind_what_was_before_it() -> anyhow::Result<()> {
    let thinks = || Turn::calls("shell", json!({})).thinks("Hm.");
    let model =
        ScriptedAnthropic::start([thinks(), thinks(), thinks(), Turn::says(["a"]), Turn::says(["b"])])
            .await?;
    let thought = |signature: &str| json!({"type": "thinking", "thinking": "Hm.", "signature": signature});
    let request = |messages: Value| json!({"stream": true, "system": [{"type": "text", "text": "Be brief."}], "messages": messages});
    let go = user(json!([{"type": "text", "text": "Go."}]));
    let first = signature(&ask(&model, &request(json!([go]))).await?.unwrap());
    let said = |id: &str, signature: &str| assistant(json!([thought(signature), tool_use(id)]));
    let done = |id: &str, text: &str| user(json!([tool_result(id, text)]));
    let one = json!([go, said("a", &first), done("a", "long")]);
    let second = signature(&ask(&model, &request(one)).await?.unwrap());
    assert_ne!(first, second);
    let both = |output: &str| {
        json!([
            go,
            said("a", &first),
            done("a", output),
            said("b", &second),
            done("b", "x")
        ])
    };
    // A cache mark does not count as a change.
    let mut marked = both("long");
    marked[2]["content"][0]["cache_control"] = json!({"type": "ephemeral"});
    ask(&model, &request(marked)).await?.unwrap();

    let trimmed = request(both("dropped"));
    let refused = ask(&model, &trimmed).await?.unwrap_err();
    assert_eq!(
        refused,
        "messages.3.content.0: Invalid `signature` in `thinking` block. The block is bound to a different \
         conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
    );
    assert_eq!(model.broken_rules(), [refused]);
    // Without the thinking after the change the request is accepted.
    let mut stripped = trimmed.clone();
    stripped["messages"][3]["content"]
        .as_array_mut()
        .unwrap()
        .remove(0);
    ask(&model, &stripped).await?.unwrap();
    // A block between two others is missing.
    let mut gap = request(both("long"));
    gap["messages"]
        .as_array_mut()
        .unwrap()
        .extend([said("c", &second), done("c", "x")]);
    assert!(ask(&model, &gap).await?.is_err());
    assert_eq!(model.broken_rules().len(), 1);

    let mut dropping = trimmed;
    dropping["thinking"] =
        json!({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}});
    assert!(
        ask(&model, &dropping)
            .await?
            .unwrap_err()
            .contains("Extra inputs"),
        "the header is missing"
    );
    assert_eq!(model.broken_rules().len(), 1);
    let mut rules = Rules::default();
    let seen = anthropic::check(&mut rules, &dropping, anthropic::BINDING_BETA).unwrap();
    assert_eq!(
        (seen.dropped[0]["path"].as_str(), rules.dropped),
        (Some("messages.3.content.0"), 1)
    );
    Ok(())
}

#[test]
fn anthropic_takes_thinking_only_with_a_signature_and_in_front_of_something() {
    let thought = json!({"type": "thinking", "thinking": "Hm.", "signature": "s"});
    let said = json!({"type": "text", "text": "So?"});
    let sent_to = |model: &str, content: Value| {
        let go = user(json!([{"type": "text", "text": "Go."}]));
        messages(&json!({"model": model, "messages": [go, assistant(content), go]}))
    };
    let sent = |content: Value| sent_to("claude-x", content);
    for content in [json!([thought]), json!([said, thought])] {
        assert_eq!(
            sent(content),
            "messages.1: The final block in an assistant message cannot be `thinking`."
        );
    }
    let unsigned = json!({"type": "thinking", "thinking": "Hm."});
    assert_eq!(
        sent(json!([unsigned, said])),
        "messages.1.content.0.thinking.signature: Field required"
    );
    assert_eq!(
        sent_to("m", json!([unsigned, said])),
        "",
        "a model that does not sign"
    );
    let empty = json!({"type": "thinking", "thinking": "Hm.", "signature": ""});
    assert_eq!(
        sent(json!([empty, said])),
        "messages.1.content.0: Invalid `signature` in `thinking` block"
    );
    assert_eq!(sent(json!([said])), "");
}

#[tokio::test]
async fn a_thinking_block_of_anthropic_that_is_cut_off_has_no_signature() -> anyhow::Result<()> {
    let whole = Turn::says(["Half of"]).thinks("Hm.").cut_off();
    let cut = Turn::says([] as [&str; 0]).thinks("Hm").cut_off();
    let model = ScriptedAnthropic::start([whole, cut]).await?;
    let request = json!({"stream": true, "messages": []});
    let whole = ask(&model, &request).await?.unwrap();
    assert!(!signature(&whole).is_empty());
    let cut = ask(&model, &request).await?.unwrap();
    assert_eq!(signature(&cut), "");
    assert!(
        cut.iter()
            .any(|event| event["delta"]["stop_reason"] == "max_tokens"),
        "{cut:?}"
    );
    Ok(())
}

/// A request with parts of these lengths in bytes, and with marks after the system text and the last message.
fn marked(system: &str, outputs: &[&str]) -> Value {
    let mark = json!({"type": "ephemeral"});
    let mut messages = vec![user(json!([{"type": "text", "text": "Go."}]))];
    for (number, output) in outputs.iter().enumerate() {
        messages.push(assistant(json!([tool_use(&number.to_string())])));
        messages.push(user(json!([tool_result(&number.to_string(), output)])));
    }
    if let Some(last) = messages.last_mut() {
        last["content"][0]["cache_control"] = mark.clone();
    }
    json!({"system": [{"type": "text", "text": system, "cache_control": mark}], "messages": messages})
}

#[test]
fn anthropic_reads_from_the_cache_what_was_marked_and_is_unchanged() {
    let mut rules = Rules::default();
    let mut count = |request: &Value| anthropic::check(&mut rules, request, "").unwrap().counted;
    let (system, long) = ("s".repeat(7_000), "x".repeat(3_500));
    let first = count(&marked(&system, &[&long]));
    assert_eq!((first.input, first.cache_read), (0, 0));
    assert!((3_000..3_200).contains(&first.cache_write), "{first:?}");
    let second = count(&marked(&system, &[&long, "y"]));
    assert_eq!((second.input, second.cache_read), (0, first.cache_write));
    assert!(second.cache_write < 100, "{second:?}");
    // A change in the messages leaves the system prompt.
    let third = count(&marked(&system, &["dropped", "y"]));
    assert!((2_000..2_100).contains(&third.cache_read), "{third:?}");
    // Another choice of tools as well.
    let mut chosen = marked(&system, &[&long, "y"]);
    chosen["tool_choice"] = json!({"type": "none"});
    assert_eq!(count(&chosen).cache_read, third.cache_read);
    assert_eq!(count(&marked("other", &[&long])).cache_read, 0);
}

#[test]
fn a_short_prefix_is_not_cached() {
    let mut rules = Rules::default();
    for _ in 0..2 {
        let counted = anthropic::check(&mut rules, &marked("short", &["x"]), "")
            .unwrap()
            .counted;
        assert_eq!((counted.cache_read, counted.cache_write), (0, 0));
        assert!(counted.input > 0);
    }
}

#[test]
fn a_picture_is_not_counted_by_its_base64() {
    let picture = |data: String| {
        json!({"messages": [user(json!([
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
        ]))]})
    };
    let counted = |request: &Value| {
        anthropic::check(&mut Rules::default(), request, "")
            .unwrap()
            .counted
            .input
    };
    let png = |bytes: usize| STANDARD.encode([PNG, &vec![0; bytes]].concat());
    let (small, large) = (picture(png(1_000)), picture(png(1_000_000)));
    assert_eq!(counted(&small), counted(&large));
    assert!((1_500..1_600).contains(&counted(&small)));
}

#[test]
fn chat_takes_results_only_behind_their_calls() {
    let go = || user("Go.");
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "x"});
    let check = |messages: Value| refusal(chat::check(&mut Rules::default(), &json!({"messages": messages})));
    assert_eq!(
        check(json!([go(), call("a"), result("a"), call("b"), result("b")])),
        ""
    );
    for (messages, rule) in rows! {
        json!([go(), call("a"), go(), result("a")]), "did not have response messages: a";
        json!([go(), call("a")]), "did not have response messages: a";
        json!([go(), result("a")]), "must be a response to a preceeding message";
        json!([go(), call("a"), result("a"), result("a")]), "must be a response";
        json!([go(), call("a"), result("a"), call("a"), result("a")]), "Duplicate value";
    } {
        let refused = check(messages);
        assert!(refused.contains(rule), "{refused:?} is not {rule:?}");
    }
}

#[tokio::test]
async fn responses_takes_a_call_only_behind_its_reasoning() -> anyhow::Result<()> {
    let model =
        ScriptedModel::start([Turn::calls("shell", json!({})).thinks("Hm."), Turn::says(["a"])]).await?;
    let address = model.base_url()["http://".len()..]
        .trim_end_matches("/v1")
        .parse()?;
    let client = Client::new(address, None);
    let ask = async |input: Value| {
        client
            .post("/v1/responses", &json!({"stream": true, "input": input}))
            .await
    };
    let go = json!({"type": "message", "role": "user", "content": "Go."});
    let answer = ask(json!([go])).await?.text();
    assert!(answer.contains("\"encrypted_content\":\"0-Hm.\""), "{answer}");
    let reasoning = |content: &str| json!({"type": "reasoning", "id": "rs_0", "summary": [], "encrypted_content": content});
    let call = json!({"type": "function_call", "call_id": "call_0", "name": "shell", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "call_0", "output": "x"});
    for (input, rule) in rows! {
        json!([go, call, output]), "without its required 'reasoning' item";
        json!([go, reasoning("1-Hm."), call, output]), "could not be verified";
        json!([go, reasoning(""), call, output]), "not persisted when `store` is set to false";
        json!([go, reasoning("0-Hm."), call]), "No tool output found for function call call_0.";
        json!([go, output]), "No tool call found";
    } {
        let refused = ask(input).await?;
        assert_eq!(refused.status, 400);
        assert!(refused.text().contains(rule), "{} is not {rule}", refused.text());
    }
    assert_eq!(model.broken_rules().len(), 5);
    assert_eq!(
        ask(json!([go, reasoning("0-Hm."), call, output])).await?.status,
        200
    );
    assert_eq!(
        refusal(responses::check(
            &mut Rules::default(),
            &json!({"input": [go, call, output]})
        )),
        ""
    );
    Ok(())
}

#[test]
fn responses_takes_reasoning_only_in_front_of_its_item() {
    let reasoning = json!({"type": "reasoning", "id": "rs_7", "summary": [], "encrypted_content": "x"});
    let message = |role: &str| json!({"type": "message", "role": role, "content": "Go."});
    let call = json!({"type": "function_call", "call_id": "a", "name": "shell", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "a", "output": "x"});
    let check = |input: Value| refusal(responses::check(&mut Rules::default(), &json!({"input": input})));
    for input in [
        json!([message("user"), reasoning]),
        json!([message("user"), reasoning, message("user")]),
        json!([call, reasoning, output]),
    ] {
        assert_eq!(
            check(input),
            "Item 'rs_7' of type 'reasoning' was provided without its required following item."
        );
    }
    for input in [
        json!([reasoning, message("assistant"), message("user")]),
        json!([reasoning, call, output]),
        json!([reasoning, reasoning, call, output]),
    ] {
        assert_eq!(check(input), "");
    }
}

#[tokio::test]
async fn gemini_takes_a_call_only_with_its_signature_and_its_response() -> anyhow::Result<()> {
    let turn = Turn::calls("shell", json!({})).and_calls("shell", json!({}));
    let model = ScriptedGemini::start([turn, Turn::says(["a"])]).await?;
    let client = Client::new(model.base_url()["http://".len()..].parse()?, None);
    let path = "/v1beta/models/scripted:streamGenerateContent?alt=sse";
    let answer = client.post(path, &json!({"contents": []})).await?.text();
    let signature = answer
        .split("thoughtSignature\":\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let signature = signature.unwrap_or_default();
    let call = |id: &str| json!({"functionCall": {"id": id, "name": "shell", "args": {}}});
    let signed = |signature: &str| {
        json!({
            "functionCall": {"id": "fc_0", "name": "shell", "args": {}}, "thoughtSignature": signature,
        })
    };
    let response = json!({"functionResponse": {"name": "shell", "response": {"output": "x"}}});
    let go = json!({"role": "user", "parts": [{"text": "Go."}]});
    let contents = |first: Value, responses: usize| {
        json!({"contents": [
            go,
            {"role": "model", "parts": [first, call("fc_1")]},
            {"role": "user", "parts": vec![response.clone(); responses]},
        ]})
    };
    for (request, rule) in rows! {
        contents(call("fc_0"), 2), "missing a thought_signature";
        contents(signed("c2lnbmF0dXJl"), 2), "Corrupted thought signature.";
        contents(signed(signature), 1), "number of function response parts";
        json!({"contents": [go, {"role": "model", "parts": [signed(signature)]}, go]}), "number of function response parts";
    } {
        let refused = client.post(path, &request).await?;
        assert_eq!(refused.status, 400);
        assert!(refused.text().contains(rule), "{} is not {rule}", refused.text());
    }
    assert_eq!(model.broken_rules().len(), 4);
    assert_eq!(
        client.post(path, &contents(signed(signature), 2)).await?.status,
        200
    );
    assert_eq!(
        refusal(gemini::check(&mut Rules::default(), &json!({"contents": []}))),
        ""
    );
    Ok(())
}

#[test]
fn a_provider_that_caches_by_itself_reads_the_common_prefix_in_steps() {
    let mut rules = Rules::default();
    let mut count = |text: &str, more: &str| {
        let messages = json!({"messages": [user(text), assistant("Hm."), user(more)]});
        chat::check(&mut rules, &messages).unwrap().counted
    };
    let long = "x".repeat(7_000);
    assert_eq!(count(&long, "a").cache_read, 0);
    let second = count(&long, "b");
    assert_eq!((second.cache_read, second.cache_write), (1_920, 0));
    assert!(second.input < 200 && second.all() > tokens(7_000));
    assert_eq!(count("other", "b").cache_read, 0);
}

#[tokio::test]
#[should_panic(expected = "have broken the rules of the provider")]
async fn a_server_whose_rules_were_broken_fails_its_test() {
    let model = ScriptedModel::start([]).await.unwrap();
    let address = model.base_url()["http://".len()..]
        .trim_end_matches("/v1")
        .parse()
        .unwrap();
    let request =
        json!({"stream": true, "messages": [{"role": "tool", "tool_call_id": "a", "content": "x"}]});
    let refused = Client::new(address, None)
        .post("/v1/chat/completions", &request)
        .await
        .unwrap();
    assert_eq!(refused.status, 400);
}
