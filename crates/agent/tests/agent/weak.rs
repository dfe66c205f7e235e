//! Replies of weaker models: calls written as text, arguments that are nearly JSON, thinking and words around the answer.

use sortie_testkit::rows;

use crate::prelude::*;

const CALL: &str = "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"n\": 1}}\n</tool_call>";

fn with_get(spec: RunSpec) -> (Arc<Probe>, RunSpec) {
    let probe = Arc::new(Probe::new("get", Order::OneByOne, Effect::Outside));
    let tools: Vec<Arc<dyn Tool>> = vec![probe.clone()];
    (probe, RunSpec { tools, ..spec })
}

/// A call with these arguments, as text.
fn call(name: &str, arguments: &str) -> Reply {
    reply(vec![Content::ToolCall(ToolCall {
        id: "a".to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    })])
}

/// The pieces of the model's message in this turn of a transcript.
fn assistant(turns: &[Turn], turn: usize) -> Value {
    match &turns[turn] {
        Turn::Assistant(pieces) => serde_json::to_value(pieces).unwrap(),
        other @ (Turn::ToolResults(_) | Turn::User(_)) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_call_written_as_text_is_made_and_goes_back_as_a_call() {
    for said in [
        CALL.to_owned(),
        format!("<think>\nI look.\n</think>\n\nFirst I look.\n{CALL}"),
    ] {
        let (probe, spec) = with_get(spec("Go."));
        let model = scripted![says(&said), says("ok")];
        let recorder = play(spec, &model).await.succeeds("ok");
        assert_eq!(probe.calls(), [1]);
        let sent = assistant(&model.transcripts()[1], 0);
        let call = json!({"tool_call": {"id": "call00001", "name": "get", "arguments": "{\"n\":1}"}});
        assert_eq!(sent.as_array().unwrap().last(), Some(&call));
        assert!(!sent.to_string().contains("<tool_call>"), "{sent}");
        assert!(!recorder.everything().contains("<tool_call>"));
        assert_eq!(recorder.data("message").len(), 1 + usize::from(said != CALL));
    }
}

#[tokio::test]
async fn a_run_that_resumes_has_the_same_calls() {
    let (probe, first) = with_get(spec("Go."));
    let model = scripted![says(CALL), says("ok")];
    let (_, recorder) = run_in(first, &model, &untouched(), &[]).await;
    assert_eq!(
        recorder.steps(),
        ["1 reply", "1 intent call00001", "1 result call00001"]
    );
    let sent = assistant(&model.transcripts()[1], 0);
    let is_reply = |entry: &Entry| matches!(entry.what, What::Reply { .. });
    let entries = recorder.entries();
    let kept = entries.iter().position(is_reply).unwrap() + 1;
    let (again, spec) = with_get(spec("Go."));
    let model = scripted![says("ok")];
    let resumed = RunSpec {
        resume: Some(Journal::new(entries[..kept].to_vec())),
        ..spec
    };
    let (outcome, _) = run_in(resumed, &model, &untouched(), &[]).await;
    assert_eq!(succeeded(&outcome), "ok");
    assert_eq!(probe.calls(), again.calls());
    assert_eq!(assistant(&model.transcripts()[0], 0), sent);
}

#[tokio::test]
async fn a_call_that_begins_in_a_part_that_was_cut_off_is_made() {
    let (probe, spec) = with_get(spec("Go."));
    let (head, tail) = CALL.split_at(20);
    let cut = Reply {
        stop_reason: StopReason::MaxTokens,
        ..says(head)
    };
    let model = scripted![cut, says(tail), says("ok")];
    play(spec, &model).await.succeeds("ok");
    assert_eq!(probe.calls().len(), 1);
}

#[tokio::test]
async fn a_written_call_that_is_not_whole_is_asked_for_again() {
    let (probe, spec) = with_get(spec("Go."));
    let broken = "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"n\": \"a \"b\"\"}}\n</tool_call>";
    let model = scripted![says(broken), says(CALL), says("ok")];
    play(spec, &model).await.succeeds("ok");
    assert_eq!(probe.calls().len(), 1);
    let told = &model.asked()[1].last;
    assert!(
        told.starts_with("bad arguments: n: a string ends at its first bare quotation mark"),
        "{told}"
    );
}

#[tokio::test]
async fn an_answer_that_shows_a_call_is_an_answer() {
    for said in [
        format!("```\n{CALL}\n```"),
        format!("Hermes writes it so:\n{CALL}\nand waits."),
        CALL.replace("get", "launch"),
    ] {
        let (probe, spec) = with_get(spec("Go."));
        let model = scripted![says(&said)];
        play(spec, &model).await.succeeds(said);
        assert_eq!(probe.calls().len(), 0);
    }
    let wanted = json!({"type": "object", "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}}});
    let (probe, spec) = with_get(with_schema("Which tool?", &wanted));
    let answer = "{\"name\": \"get\", \"arguments\": {\"n\": 1}}";
    let model = scripted![says(answer)];
    play(spec, &model).await.succeeds(answer);
    assert_eq!(probe.calls().len(), 0);
}

#[tokio::test]
async fn arguments_that_are_nearly_json_are_made_and_go_back_as_json() {
    for sent in [
        "{'command': 'ls',}",
        "```json\n{\"command\": \"ls\"}\n```",
        "\"{\\\"command\\\": \\\"ls\\\"}\"",
        "{\"command\": \"ls\"",
        "{\"command\": \"ls\"}}",
    ] {
        let model = scripted![call("shell", sent), says("ok")];
        let backend = Pretended::new(&["bash"], |_| prints("a\n"));
        let recorder = play_in(spec("Go."), &model, &backend, &[]).await.succeeds("ok");
        assert_eq!(
            recorder.data("tool_start")[0]["arguments"],
            json!({"command": "ls"}),
            "{sent}"
        );
        let back = assistant(&model.transcripts()[1], 0);
        assert_eq!(back[0]["tool_call"]["arguments"], "{\"command\":\"ls\"}");
    }
    // At the limit of length an end without a bracket may be a part of the arguments.
    let cut = Reply {
        stop_reason: StopReason::MaxTokens,
        ..call("shell", "{\"command\": \"ls\"")
    };
    let model = scripted![cut, says("ok")];
    run_in(spec("Go."), &model, &untouched(), &[]).await;
    assert_eq!(
        model.asked()[1].last,
        "bad arguments: they are cut off in command; write less in one call, for instance a large file in several parts"
    );
}

#[tokio::test]
async fn thinking_between_tags_is_no_answer() {
    for (said, deltas) in [
        ("<think>\nI add.\n</think>\n\n42", "42"),
        ("I add.\n</think>\n\n42", "I add.\n</think>\n\n42"),
    ] {
        let model = Scripted::new(vec![Line {
            deltas: said,
            ..says(said).into()
        }]);
        let recorder = play(spec("Add."), &model).await.succeeds("42");
        assert_eq!(recorder.data("message"), [json!({"text": "42", "step": 1})]);
        assert_eq!(
            recorder.data("thinking_summary"),
            [json!({"text": "I add.", "step": 1})]
        );
        assert_eq!(recorder.deltas(), deltas);
    }
    let schema = json!({"type": "object", "required": ["total"]});
    let said = "<think>\nIs it {\"total\": 1}?\n</think>\n{\"total\": 2}";
    let model = scripted![says(said)];
    play(with_schema("Add.", &schema), &model)
        .await
        .succeeds("{\"total\": 2}");
}

#[tokio::test]
async fn a_model_that_closes_its_thinking_alone_shows_it_once_at_most() {
    let mut first = call("get", "{}");
    first
        .content
        .insert(0, Content::Text("I look.\n</think>\n".to_owned()));
    let said = "I add.\n</think>\n42";
    let model = Scripted::new(vec![
        Line {
            deltas: "I look.\n</think>\n",
            ..first.into()
        },
        Line {
            deltas: said,
            ..says(said).into()
        },
    ]);
    let (_, spec) = with_get(spec("Go."));
    let recorder = play(spec, &model).await.succeeds("42");
    assert_eq!(recorder.deltas(), "I look.\n</think>\n42");
    // The text of the model goes back to it unchanged: some need their thinking again.
    let sent = assistant(&model.transcripts()[1], 0);
    assert_eq!(sent[0]["text"], "I look.\n</think>\n");
}

#[tokio::test]
async fn thinking_that_uses_up_the_length_of_an_answer_is_no_part_of_it() {
    let cut = Reply {
        stop_reason: StopReason::MaxTokens,
        ..says("<think>\nI add and add")
    };
    let model = scripted![cut, says("<think>\nI add.\n</think>\n42")];
    play(spec("Add."), &model).await.succeeds("42");
    assert!(
        model.asked()[1]
            .last
            .starts_with("Your last message reached its limit of length")
    );
    let only = || says("<think>\nI add.\n</think>");
    let model = scripted![only(), only()];
    play(spec("Add."), &model)
        .await
        .fails("the model gave no answer, twice in a row");
}

#[tokio::test]
async fn the_one_json_value_of_an_answer_is_the_output() {
    let schema =
        json!({"type": "object", "required": ["total"], "properties": {"total": {"type": "integer"}}});
    for (said, output) in [
        ("{\"total\": 3}\n\nI have counted twice.", "{\"total\": 3}"),
        ("The result [1] is {\"total\": 3}, as asked.", "{\"total\": 3}"),
        ("**Answer:** {\"total\": 3} (not {\"sum\": 3})", "{\"total\": 3}"),
        ("Use {braces}: {\"total\": 3}", "{\"total\": 3}"),
        ("So: {\"total\": 3}. Again: {\"total\": 3}", "{\"total\": 3}"),
        ("{\"total\": 3,}", "{\"total\":3}"),
        ("```json\n{'total': 3}\n```\nis it", "{\"total\":3}"),
        ("\"{\\\"total\\\": 3}\"", "{\"total\": 3}"),
    ] {
        let model = scripted![says(said)];
        let (outcome, _) = run_in(with_schema("Count.", &schema), &model, &untouched(), &[]).await;
        assert_eq!(succeeded(&outcome), output, "{said}");
    }
    for (said, error) in rows! {
        "Either {\"total\": 3} or {\"total\": 4}.", "output: 2 JSON values match, must be one";
        "It is {\"total\": \"three\"}.", "output.total: not of type \"integer\"";
        "It is 3.", "output: not JSON";
        "{\"sum\": 1, \"of\": {\"total\": 3}}", "output.total: required";
        "{\"sum\": , \"of\": {\"total\": 3}", "output: not JSON";
    } {
        let model = scripted![says(said), says("{\"total\": 3}")];
        let (_, recorder) = run_in(with_schema("Count.", &schema), &model, &untouched(), &[]).await;
        let told = &recorder.data("output_rejected")[0]["errors"][0];
        assert!(told.as_str().unwrap().starts_with(error), "{said}: {told}");
    }
}
