//! Runs that reach their answer: near the end of their time and money, out of a loop, and after an answer that was cut off or
//! refused.

mod bound_thinking;

use sortie_agent::{journal::NoteKind, model::ErrorKind};

use self::bound_thinking::run_bound;
use crate::prelude::*;

fn with_get() -> RunSpec {
    spec("Go.").with_tool(Arc::new(Probe::new("get", Order::OneByOne, Effect::Nothing)))
}

fn get(wish: &Value) -> Reply {
    reply(vec![call("x", "get", wish)])
}

fn cut(text: &str) -> Reply {
    Reply {
        stop_reason: StopReason::MaxTokens,
        ..says(text)
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_told_of_its_time_and_asked_for_its_answer_before_it_is_over() {
    let wait = |n: u32, seconds: u32| Line::from(get(&json!({"n": n, "seconds": seconds})));
    let model = scripted![wait(1, 50), wait(2, 31), wait(3, 5), wait(4, 5), says("ok")];
    let run = with_get().until(Instant::now() + Duration::from_secs(100));
    let recorder = play(run, &model).await.succeeds("ok");
    let asked = model.asked();
    assert_eq!(asked[1].last, "get did 1");
    assert_eq!(
        asked[2].last,
        "get did 2\n\n[19 s of the run's time are left. Finish what matters most: at 90 % of the time the final answer is \
         asked for.]"
    );
    assert_eq!(asked[3].last, "get did 3", "the warning is given once");
    assert!(
        asked[4]
            .last
            .starts_with("get did 4\n\n[The run's time is nearly over. Answer now with what you have:"),
        "{}",
        asked[4].last
    );
    let uses: Vec<ToolUse> = asked.iter().map(|asked| asked.tool_use).collect();
    assert_eq!(uses[3..], [ToolUse::Auto, ToolUse::Never]);
    assert_eq!(
        recorder.data("answer_requested"),
        [json!({"reason": "time", "step": 5})]
    );
    // Everything sent stays: a note is appended to the newest result and is not moved.
    let transcripts = model.transcripts();
    for pair in transcripts.windows(2) {
        let shown = format!("{:?}", pair[0]);
        assert!(format!("{:?}", pair[1]).starts_with(shown.trim_end_matches(']')));
    }
}

fn priced(script: Vec<Line>) -> Scripted {
    let prices = ModelPrices {
        input_micros_per_mtok: micros(4_000_000),
        output_micros_per_mtok: micros(20_000_000),
        cache_read_micros_per_mtok: micros(200_000),
        cache_write_micros_per_mtok: micros(5_000_000),
    };
    Scripted::priced(prices, script)
}

fn used(reply: Reply, input_tokens: u64, output_tokens: u64) -> Line {
    let usage = Usage {
        input_tokens,
        output_tokens,
        ..Usage::default()
    };
    Reply { usage, ..reply }.into()
}

#[tokio::test]
async fn a_run_whose_money_is_nearly_spent_is_asked_for_its_answer() {
    let wish = |n: u32| get(&json!({"n": n}));
    let model = priced(vec![
        Line {
            hidden: 40_000,
            ..used(wish(1), 3_000, 40_000)
        },
        used(wish(2), 3_000, 4_500),
        used(says("as far as I came"), 3_000, 100),
    ]);
    let recorder = play(with_get(), &model).await.succeeds("as far as I came");
    let asked = model.asked();
    assert!(
        asked[1]
            .last
            .starts_with("get did 1\n\n[$0.812 of the run's budget of $1.00 are spent.")
    );
    assert!(
        asked[2]
            .last
            .contains("The rest of the run's budget is kept for the answer. Answer now")
    );
    assert_eq!(
        recorder.data("answer_requested"),
        [json!({"reason": "budget", "step": 3})]
    );
    assert!(recorder.last_spent() <= 1_000_000);
}

#[tokio::test]
async fn a_long_conversation_gets_notes_when_the_money_for_it_runs_short() {
    // 0.53 dollars are left, and the next call on about 50,000 tokens could cost 0.25 dollars, as could a last one.
    let long = |n: u32| get(&json!({"n": n, "bytes": 30_000}));
    let model = priced(vec![
        used(long(1), 4_000, 10_000),
        used(long(2), 34_000, 6_000),
        used(says("The figure is 42."), 40_000, 500),
        used(get(&json!({"n": 3})), 4_000, 100),
        used(says("42"), 4_500, 100),
    ]);
    let recorder = play(with_get(), &model).await.succeeds("42");
    assert_eq!(recorder.data("context_compacted").len(), 1);
    assert!(recorder.data("answer_requested").is_empty());
    let transcripts = model.transcripts();
    // The notes are requested after the whole conversation, so that its cache is read.
    let (before, notes) = (&transcripts[2], &transcripts[3]);
    assert!(
        matches!(before.last(), Some(Turn::User(text)) if text.starts_with("The conversation has become too long"))
    );
    let [Turn::User(text)] = notes.as_slice() else {
        panic!("{notes:?}")
    };
    assert!(text.contains("The figure is 42."));
}

#[tokio::test]
async fn equal_calls_with_equal_results_are_told_and_then_ended() {
    let same = || Line::from(get(&json!({"n": 1})));
    let mut script: Vec<Line> = (0..6).map(|_| same()).collect();
    script.push(says("it does not change").into());
    let model = Scripted::new(script);
    let recorder = play(with_get(), &model).await.succeeds("it does not change");
    let told: Vec<bool> = model
        .asked()
        .iter()
        .map(|asked| asked.last.contains("The same calls have had the same results"))
        .collect();
    assert_eq!(told, [false, false, false, true, true, true, false]);
    assert_eq!(
        recorder.data("answer_requested"),
        [json!({"reason": "repetition", "step": 7})]
    );
}

#[tokio::test]
async fn calls_that_a_server_lets_through_at_the_end_are_not_made() {
    let same = || Line::from(get(&json!({"n": 1})));
    let mut script: Vec<Line> = (0..7).map(|_| same()).collect();
    script.push(says("done").into());
    let model = Scripted::new(script);
    let probe = Arc::new(Probe::new("get", Order::OneByOne, Effect::Nothing));
    play(spec("Go.").with_tool(probe.clone()), &model)
        .await
        .succeeds("done");
    assert_eq!(probe.calls().len(), 6);
}

#[tokio::test]
async fn an_answer_that_was_cut_off_goes_on_twice() {
    let model = scripted![cut("one, "), cut("two, "), says("three")];
    let recorder = play(spec("Count."), &model).await.succeeds("one, two, three");
    assert!(model.asked()[1].last.starts_with("Your answer was cut off"));

    // A worker that dies between two pieces loses none.
    let journal: Vec<Entry> = recorder.entries().into_iter().take(3).collect();
    let model = scripted![cut("two, "), says("three")];
    play(spec("Count.").resuming(journal), &model)
        .await
        .succeeds("one, two, three");

    let model = scripted![cut("a"), cut("b"), cut("c")];
    play(spec("Count."), &model)
        .await
        .succeeds("abc\n\n[The answer is cut off here: the model's limit of length was reached.]");
}

#[tokio::test]
async fn structured_output_that_was_cut_off_is_checked_as_a_whole() {
    let model = scripted![cut("[1, "), says("2]")];
    play(with_schema("Count.", &json!({"type": "array"})), &model)
        .await
        .succeeds("[1, 2]");
}

fn refused() -> Reply {
    Reply {
        stop_reason: StopReason::Refusal,
        ..says("I will not.")
    }
}

#[tokio::test]
async fn a_refusal_is_tried_once_on_the_fallback_model() {
    let model = scripted![get(&json!({"n": 1})), refused()];
    let fallback = Arc::new(scripted![says("done")]);
    let recorder = play(with_get().with_fallback(fallback.clone()), &model)
        .await
        .succeeds("done");
    assert_eq!(fallback.asked()[0].last, "get did 1");
    assert_eq!(
        recorder.data("retry")[0]["reason"],
        "the model refused to answer; scripted answers in its place"
    );

    // The next attempt at the run continues with it.
    let never = scripted![];
    let fallback = Arc::new(scripted![refused()]);
    let run = with_get().with_fallback(fallback).resuming(recorder.entries());
    play(run, &never).await.fails("the model refused to answer");
}

fn busy(asked: Option<u64>) -> ModelError {
    ModelError {
        kind: ErrorKind::RateLimit,
        ..ModelError::retryable("come later", asked.map(Duration::from_secs))
    }
}

#[tokio::test(start_paused = true)]
async fn the_fallback_model_answers_where_waiting_would_not_fit() {
    let bad = || ModelError::retryable("garbled", None);
    for (failures, reason) in [
        (vec![busy(Some(120))], "come later; it asks to wait 120 s"),
        (vec![bad(); 5], "the model failed 5 times, last with: garbled"),
        (
            vec![busy(None); 8],
            "the model failed 8 times, last with: come later",
        ),
    ] {
        let mut script: Vec<Line> = script![get(&json!({"n": 1}))];
        script.extend(failures.into_iter().map(Line::from));
        let model = Scripted::new(script);
        let fallback = Arc::new(scripted![get(&json!({"n": 2})), says("done")]);
        let began = Instant::now();
        let run = with_get()
            .with_fallback(fallback.clone())
            .until(began + Duration::from_mins(10));
        let (outcome, recorder) = run_in(run, &model, &untouched(), &[]).await;
        assert_eq!(succeeded(&outcome), "done", "{reason}");
        assert_eq!(
            recorder.data("retry").last().unwrap()["reason"],
            format!("{reason}; scripted answers in its place")
        );
        assert!(
            began.elapsed() < Duration::from_secs(100),
            "{reason}: {:?}",
            began.elapsed()
        );
        assert_eq!(fallback.asked()[0].last, "get did 1");

        // The next attempt at the run continues with it, in the same conversation.
        let entries = recorder.entries();
        let again = Arc::new(scripted![says("done")]);
        let run = with_get().with_fallback(again.clone()).resuming(entries);
        play(run, &scripted![]).await.succeeds("done");
        let shown = |model: &Scripted| format!("{:?}", model.transcripts().last().unwrap());
        assert_eq!(shown(&again), shown(&fallback));
    }
    // A short wait is kept.
    let model = scripted![busy(Some(20)), says("ok")];
    play(with_get().with_fallback(Arc::new(scripted![])), &model)
        .await
        .succeeds("ok");
}

#[tokio::test]
async fn the_fallback_model_goes_on_with_an_answer_that_was_cut_off() {
    let model = scripted![cut("one, "), refused()];
    let run = spec("Count.").with_fallback(Arc::new(scripted![says("two")]));
    let recorder = play(run, &model).await.succeeds("one, two");

    let run = spec("Count.")
        .with_fallback(Arc::new(scripted![says("two")]))
        .resuming(recorder.entries());
    play(run, &scripted![]).await.succeeds("one, two");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_the_provider_asks_for_is_kept_within_the_time_of_the_run() {
    let later = |seconds| ModelError::retryable("come later", Some(Duration::from_secs(seconds)));
    let model = scripted![later(300), says("ok")];
    let started = Instant::now();
    play(spec("Go.").until(started + Duration::from_mins(10)), &model)
        .await
        .succeeds("ok");
    assert!(started.elapsed() >= Duration::from_mins(5));

    let model = scripted![later(580)];
    let run = spec("Go.").until(Instant::now() + Duration::from_mins(10));
    play(run, &model)
        .await
        .fails("come later; it asks to wait 580 s, longer than the run has time");
}

#[tokio::test]
async fn a_request_for_the_answer_is_not_repeated_after_a_resume() {
    let note = What::Note {
        kind: NoteKind::Ending,
        text: "Answer now.".to_owned(),
    };
    let (_, recorder) = {
        let model = scripted![get(&json!({"n": 1})), says("ok")];
        run_in(with_get(), &model, &untouched(), &[]).await
    };
    let mut entries = recorder.entries();
    entries.push(Entry {
        step: 1,
        spent_micros: micros(0),
        what: note,
    });
    let model = scripted![says("ok")];
    let recorder = play(with_get().resuming(entries), &model).await.succeeds("ok");
    assert_eq!(model.asked()[0].tool_use, ToolUse::Never);
    assert_eq!(model.asked()[0].last, "get did 1\n\n[Answer now.]");
    assert!(recorder.data("answer_requested").is_empty());
}

#[tokio::test]
async fn a_model_that_thinks_to_the_end_of_its_answer_is_told_and_nothing_of_it_is_kept() {
    let thought = || Reply {
        stop_reason: StopReason::MaxTokens,
        ..reply(vec![Content::Opaque(raw(&json!({"thinking": "…"})))])
    };
    let (outcome, _, shown) = run_bound(script![thought(), says("short")]).await;
    assert_eq!(succeeded(&outcome), "short");
    assert_eq!(shown, [0, 0]);
    let (outcome, ..) = run_bound(script![thought(), thought(), says(""), says("")]).await;
    assert_eq!(failed(&outcome), "the model gave no answer, twice in a row");
}

#[tokio::test]
async fn an_answer_that_is_begun_anew_does_not_hold_what_was_cut_off() {
    // After the first piece there is only money for an answer.
    let model = priced(vec![
        Line {
            hidden: 46_000,
            ..used(cut("The first half, "), 3_000, 46_000)
        },
        used(says("The whole answer."), 3_000, 100),
    ]);
    let recorder = play(with_get(), &model).await.succeeds("The whole answer.");
    assert_eq!(recorder.data("answer_requested").len(), 1);
}

#[tokio::test]
async fn text_beside_calls_that_are_not_made_is_no_answer_yet() {
    let same = || Line::from(get(&json!({"n": 1})));
    let mut script: Vec<Line> = (0..6).map(|_| same()).collect();
    let look = reply(vec![
        Content::Text("Let me look.".to_owned()),
        call("x", "get", &json!({"n": 1})),
    ]);
    script.extend([look.into(), says("It is 42.").into()]);
    play(with_get(), &Scripted::new(script))
        .await
        .succeeds("It is 42.");
}

#[tokio::test]
async fn a_large_task_is_worked_on_where_its_call_is_paid_for() {
    // 100 KB of prose are 25,000 tokens, and were held at 100,000 twice.
    let prompt = "the quick brown fox jumps over the lazy dog ".repeat(2_300);
    let model = priced(vec![
        used(get(&json!({"n": 1})), 26_000, 100),
        used(says("ok"), 26_500, 100),
    ]);
    let recorder = play(RunSpec { prompt, ..with_get() }, &model)
        .await
        .succeeds("ok");
    assert!(recorder.data("answer_requested").is_empty());
}

#[tokio::test]
async fn a_resumed_run_is_told_that_its_jobs_have_ended() {
    let backend = Pretended::new(&["bash"], |_| Does::Outlast(None));
    let model = scripted![calls(&[shell("serve")]), says("ok")];
    let (_, recorder) = run_in(spec("Go."), &model, &backend, &[]).await;
    let again = scripted![says("ok")];
    let (outcome, _) = run_in(spec("Go.").resuming(recorder.entries()), &again, &backend, &[]).await;
    assert_eq!(succeeded(&outcome), "ok");
    assert!(
        again.asked()[0]
            .last
            .contains("Commands that ran in the background have ended")
    );
}

#[tokio::test]
async fn calls_that_the_budget_cuts_off_again_and_again_lead_to_the_answer() {
    let cut_call = || {
        let mut large = get(&json!({"n": 1}));
        if let Some(Content::ToolCall(call)) = large.content.first_mut() {
            "{\"n\": 1, \"text\": \"long".clone_into(&mut call.arguments);
        }
        let large = Reply {
            stop_reason: StopReason::MaxTokens,
            ..large
        };
        used(large, 3_000, 100)
    };
    let mut script: Vec<Line> = (0..4).map(|_| cut_call()).collect();
    script.push(used(says("what I have"), 3_000, 100));
    let model = priced(script);
    let mut run = with_get();
    run.budget.max_cost = micros(250_000);
    let recorder = play(run, &model).await.succeeds("what I have");
    assert!(
        model.asked()[3].max_tokens < 8_000,
        "the budget shortens the answer"
    );
    assert_eq!(
        recorder.data("answer_requested"),
        [json!({"reason": "budget", "step": 5})]
    );
    let transcripts = model.transcripts();
    let before = format!("{:?}", transcripts[3]);
    assert!(
        format!("{:?}", transcripts[4]).starts_with(before.trim_end_matches(']')),
        "nothing that was sent has changed"
    );
}
