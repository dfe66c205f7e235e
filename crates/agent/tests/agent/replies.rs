//! Replies as bad models and bad servers make them: cut off, malformed, doubled, empty.

use std::sync::Arc;

use serde_json::json;
use sortie_agent::{
    RunSpec, Tool,
    model::{Content, Reply, StopReason, ToolCall, Turn},
    tool::{Effect, Order},
};

use crate::support::{Probe, Scripted, call, failed, reply, run_in, says, spec, succeeded, untouched};

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
        let model = Scripted::new(vec![cut(arguments).into(), says("ok").into()]);
        let (outcome, recorder) = run_in(spec("Go."), &model, &untouched(), &[]).await;
        assert_eq!(succeeded(&outcome), "ok");
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
    let (outcome, recorder) = run_in(spec("Go."), &model, &untouched(), &[]).await;
    assert_eq!(
        failed(&outcome),
        "the model wrote no tool call that could be made, 4 times in a row"
    );
    assert_eq!(recorder.data("tool_end").len(), 3);
}

#[tokio::test]
async fn calls_with_the_same_id_are_told_apart() {
    let probe = Arc::new(Probe::new("get", Order::SideBySide, Effect::Nothing));
    let twice = vec![
        call("a", "get", &json!({"n": 1})),
        call("a", "get", &json!({"n": 2})),
    ];
    let model = Scripted::new(vec![reply(twice).into(), says("ok").into()]);
    let with_probe = RunSpec {
        tools: vec![probe],
        ..spec("Go.")
    };
    let (_, recorder) = run_in(with_probe, &model, &untouched(), &[]).await;
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
    let model = Scripted::new(vec![reply(many).into(), says("ok").into()]);
    let with_probe = RunSpec {
        tools: vec![probe.clone()],
        ..spec("Go.")
    };
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
    let model = Scripted::new(vec![empty().into(), says("ok").into()]);
    let (outcome, recorder) = run_in(spec("Go."), &model, &untouched(), &[]).await;
    assert_eq!(succeeded(&outcome), "ok");
    assert!(model.asked()[1].last.starts_with("Your last message was empty."));
    assert_eq!(recorder.steps(), ["1 correction"]);
    assert_eq!(
        model.transcripts()[1].len(),
        1,
        "an empty message is not sent back"
    );

    let model = Scripted::new(vec![empty().into(), empty().into()]);
    let (outcome, _) = run_in(spec("Go."), &model, &untouched(), &[]).await;
    assert_eq!(failed(&outcome), "the model gave no answer, twice in a row");
}

#[tokio::test]
async fn a_reply_that_was_refused_calls_nothing() {
    let refused = Reply {
        stop_reason: StopReason::Refusal,
        ..reply(vec![call("x", "shell", &json!({"command": "ls"}))])
    };
    let model = Scripted::new(vec![refused.into()]);
    let (outcome, _) = run_in(spec("Go."), &model, &untouched(), &[]).await;
    assert_eq!(failed(&outcome), "the model refused to answer");
}

#[tokio::test]
async fn two_tools_of_one_name_end_the_run_before_it_begins() {
    let model = Scripted::new(Vec::new());
    let probe: Arc<dyn Tool> = Arc::new(Probe::new("shell", Order::OneByOne, Effect::Nothing));
    let clash = RunSpec {
        tools: vec![probe],
        ..spec("Go.")
    };
    let (outcome, recorder) = run_in(clash, &model, &untouched(), &[]).await;
    assert_eq!(failed(&outcome), "the run has two tools named `shell`");
    assert!(recorder.kinds().is_empty());
}
