//! Replies as bad models and bad servers make them: cut off, malformed, doubled, empty.

use sortie_testkit::list;

use crate::prelude::*;

fn cut(arguments: &str) -> Reply {
    let call = ToolCall {
        id: "x".to_owned(),
        name: "write_file".to_owned(),
        arguments: arguments.to_owned(),
    };
    Reply {
        stop_reason: StopReason::MaxTokens,
        ..reply(vec![Content::ToolCall(call)])
    }
}

#[tokio::test]
async fn a_call_that_was_cut_off_is_told_and_the_run_goes_on() {
    for arguments in ["{\"path\": \"a\", \"content\": \"aaa", ""] {
        let model = scripted![cut(arguments), says("ok")];
        let recorder = play(spec("Go."), &model).await.succeeds("ok");
        assert!(
            model.asked()[1]
                .last
                .starts_with("bad arguments: they are cut off")
        );
        assert_eq!(recorder.steps(), ["1 reply", "1 result x"]);
    }
}

#[tokio::test]
async fn a_model_that_never_gets_a_call_right_ends_the_run() {
    let broken = [
        cut("{\"path\""),
        reply(vec![call("x", "launch", &json!({}))]),
        reply(vec![call("x", "shell", &json!("text"))]),
        cut("{\"path\""),
    ];
    let model = Scripted::new(broken.into_iter().map(Into::into).collect());
    let recorder = play(spec("Go."), &model)
        .await
        .fails("the model wrote no tool call that could be made, 4 times in a row");
    assert_eq!(recorder.data("tool_end").len(), 3);
}

#[tokio::test]
async fn calls_with_the_same_id_are_told_apart() {
    let probe = Arc::new(Probe::new("get", Order::SideBySide, Effect::Nothing));
    let twice = vec![
        call("a", "get", &json!({"n": 1})),
        call("a", "get", &json!({"n": 2})),
    ];
    let model = scripted![reply(twice), says("ok")];
    let (_, recorder) = run_in(spec("Go.").with_tool(probe), &model, &untouched(), &[]).await;
    let ids: Vec<_> = recorder
        .data("tool_end")
        .iter()
        .map(|end| end["id"].clone())
        .collect();
    assert_eq!(ids, ["a", "a_2"]);
    assert_eq!(model.asked()[1].last, "get did 1|get did 2");
    let Turn::Assistant(content) = &model.transcripts()[1][0] else {
        panic!()
    };
    assert!(matches!(&content[1], Content::ToolCall(call) if call.id == "a_2"));
}

#[tokio::test]
async fn of_thousands_of_calls_in_one_message_only_the_first_are_made() {
    let probe = Arc::new(Probe::new("get", Order::SideBySide, Effect::Nothing));
    let many = (0..1_000)
        .map(|n| call("same", "get", &json!({ "n": n })))
        .collect();
    let model = scripted![reply(many), says("ok")];
    let with_probe = spec("Go.").with_tool(probe.clone());
    let (outcome, recorder) = run_in(with_probe, &model, &untouched(), &[]).await;
    assert_eq!(succeeded(&outcome), "ok");
    assert_eq!(probe.calls().len(), 64);
    let ends = recorder.data("tool_end");
    assert_eq!(ends.len(), 1_000);
    assert_eq!(
        ends[999]["output"],
        "not made: at most 64 calls of one message are"
    );
}

#[tokio::test]
async fn an_empty_answer_is_handed_back_once() {
    let empty = || Reply {
        content: vec![Content::Text(String::new())],
        ..says("")
    };
    let model = scripted![empty(), says("ok")];
    let recorder = play(spec("Go."), &model).await.succeeds("ok");
    assert!(model.asked()[1].last.starts_with("Your last message was empty."));
    assert_eq!(recorder.steps(), ["1 correction"]);
    assert_eq!(
        model.transcripts()[1].len(),
        1,
        "an empty message is not sent back"
    );

    let model = scripted![empty(), empty()];
    play(spec("Go."), &model)
        .await
        .fails("the model gave no answer, twice in a row");
}

#[tokio::test]
async fn a_reply_that_was_refused_calls_nothing() {
    let refused = Reply {
        stop_reason: StopReason::Refusal,
        ..reply(vec![call("x", "shell", &json!({"command": "ls"}))])
    };
    let model = scripted![refused];
    play(spec("Go."), &model)
        .await
        .fails("the model refused to answer");
}

#[tokio::test]
async fn two_tools_of_one_name_end_the_run_before_it_begins() {
    let model = scripted![];
    let probe: Arc<dyn Tool> = Arc::new(Probe::new("shell", Order::OneByOne, Effect::Nothing));
    let clash = spec("Go.").with_tool(probe);
    let recorder = play(clash, &model)
        .await
        .fails("the run has two tools named `shell`");
    assert!(recorder.kinds().is_empty());
}

/// The calls that a model saw in its last request.
fn shown_calls(model: &Scripted) -> Vec<ToolCall> {
    let transcripts = model.transcripts();
    let turns = transcripts.last().unwrap().iter();
    let pieces = turns.flat_map(|turn| match turn {
        Turn::Assistant(pieces) => pieces.as_slice(),
        Turn::ToolResults(_) | Turn::User(_) => &[],
    });
    pieces
        .filter_map(|piece| match piece {
            Content::ToolCall(call) => Some(call.clone()),
            Content::Text(_) | Content::Opaque(_) => None,
        })
        .collect()
}

fn event_ids(recorder: &Recorder, kind: &str) -> Vec<String> {
    let ends = recorder.data(kind);
    ends.iter()
        .map(|end| end["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_call_goes_back_under_the_name_that_it_was_understood_as() {
    let long = "x".repeat(100);
    for (written, sent_back, is_known) in [
        ("get", "get", true),
        ("functions.get", "get", true),
        ("get\" path=\"install/step4.php", "get", true),
        ("get<|channel|>commentary", "get", true),
        ("Read", "read_file", true),
        ("functions.read_file", "read_file", true),
        ("multi_tool_use.parallel", "multi_tool_use_parallel", false),
        ("søk", "s_k", false),
        ("", "_", false),
        (&*long, &long[..64], false),
    ] {
        let probe = Arc::new(Probe::new("get", Order::SideBySide, Effect::Nothing));
        let run = spec("Go.").with_tool(probe);
        let arguments = json!({"n": 1, "path": "none"});
        let model = scripted![reply(vec![call("a", written, &arguments)]), says("ok")];
        let recorder = play(run, &model).await.succeeds("ok");
        assert_eq!(shown_calls(&model)[0].name, sent_back, "{written}");
        assert_eq!(recorder.data("tool_start")[0]["tool"], sent_back);
        assert_eq!(recorder.data("tool_end")[0]["tool"], sent_back);
        let told = &model.asked()[1].last;
        assert_eq!(
            !told.starts_with("there is no tool"),
            is_known,
            "{written}: {told}"
        );
    }
}

#[tokio::test]
async fn no_two_calls_of_a_run_share_an_id_after_a_resume_and_after_notes() {
    let get = |id: &str, n: u32| reply(vec![call(id, "get", &json!({"n": n, "bytes": 4_000}))]);
    let probe = Arc::new(Probe::new("get", Order::SideBySide, Effect::Nothing));
    let run = |journal: Option<Vec<Entry>>| RunSpec {
        tools: vec![probe.clone()],
        resume: journal.map(Journal::new),
        ..spec("Go.")
    };
    let script = list! {
        get("get:0", 1), get("get:0", 2), get("", 3), get("", 4), says("ok"),
    };
    let model = Scripted::new(script.iter().cloned().map(Into::into).collect());
    let recorder = play(run(None), &model).await.succeeds("ok");
    let expected = ["get:0", "get:2", "call00003", "call00004"];
    for kind in ["tool_start", "tool_end"] {
        assert_eq!(event_ids(&recorder, kind), expected, "{kind}");
    }
    let shown: Vec<String> = shown_calls(&model).into_iter().map(|call| call.id).collect();
    assert_eq!(shown, expected);

    // After a resume the model sees the same as it would have without.
    let first: Vec<Entry> = recorder
        .entries()
        .into_iter()
        .filter(|entry| entry.step <= 1)
        .collect();
    let model = Scripted::new(script[1..].iter().cloned().map(Into::into).collect());
    let (_, recorder) = run_in(run(Some(first)), &model, &untouched(), &[]).await;
    assert_eq!(event_ids(&recorder, "tool_start"), expected[1..]);

    // Notes replace the turns that had the ids.
    let too_large = || ModelError {
        retry: Retry::Smaller,
        ..ModelError::fatal("prompt is too long")
    };
    let mut script: Vec<Line> = (0..5).map(|n| get(&format!("get:{n}"), n).into()).collect();
    script.extend([
        too_large().into(),
        too_large().into(),
        says("Some notes.").into(),
        get("get:0", 5).into(),
        says("ok").into(),
    ]);
    let model = Scripted::new(script);
    let (_, recorder) = run_in(run(None), &model, &untouched(), &[]).await;
    assert!(
        recorder.steps().iter().any(|step| step.ends_with("compacted")),
        "{:?}",
        recorder.steps()
    );
    let expected = ["get:0", "get:1", "get:2", "get:3", "get:4", "get:6"];
    assert_eq!(event_ids(&recorder, "tool_start"), expected);
}

#[tokio::test]
async fn half_a_surrogate_pair_is_kept_nowhere() {
    let written = Content::ToolCall(ToolCall {
        id: "a".to_owned(),
        name: "write_file".to_owned(),
        arguments: r#"{"path":"a.txt","content":"x\ud99c"}"#.to_owned(),
    });
    let model = scripted![reply(vec![written]), says("ok")];
    let (outcome, recorder) = run_in(spec("Go."), &model, &untouched(), &[]).await;
    assert_eq!(succeeded(&outcome), "ok");
    assert_eq!(model.asked()[1].last, "created a.txt (4 bytes)");
    assert_eq!(
        recorder.data("tool_start")[0]["arguments"]["content"],
        "x\u{fffd}"
    );
    let kept = recorder.entries().into_iter().find_map(|entry| {
        let What::Reply { content, .. } = entry.what else {
            return None;
        };
        Some(serde_json::to_string(&content).unwrap())
    });
    assert!(!kept.unwrap().contains("ud99c"));
}

#[tokio::test]
async fn a_message_that_stops_for_a_call_and_has_none_is_asked_for_again_once() {
    let stopped = || Reply {
        stop_reason: StopReason::ToolUse,
        ..says("I will now run the tests.")
    };
    let model = scripted![stopped(), says("ok")];
    let recorder = play(spec("Go."), &model).await.succeeds("ok");
    assert!(
        model.asked()[1]
            .last
            .starts_with("Your last message stopped for a call of a tool")
    );
    assert_eq!(recorder.steps(), ["1 correction"]);

    let model = scripted![stopped(), stopped()];
    play(spec("Go."), &model)
        .await
        .fails("the model stopped to call a tool and called none, twice in a row");

    // A worker that dies in between does not make it an answer, and an answer after the correction counts.
    let resumed = spec("Go.").resuming(recorder.entries());
    let model = scripted![says("ok")];
    play(resumed, &model).await.succeeds("ok");
}
