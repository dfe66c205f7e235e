//! Money: what a run costs while it runs and when it ends, whatever ends it.

use sortie_agent::BudgetSpec;

use crate::prelude::*;

/// Three and fifteen dollars a million tokens.
fn prices() -> ModelPrices {
    ModelPrices {
        input_micros_per_mtok: micros(3_000_000),
        output_micros_per_mtok: micros(15_000_000),
        cache_read_micros_per_mtok: micros(300_000),
        cache_write_micros_per_mtok: micros(3_750_000),
    }
}

fn budgeted(max: u64, rate: u64) -> RunSpec {
    let budget = BudgetSpec {
        max_cost: micros(max),
        compute_micros_per_second: micros(rate),
        started: Instant::now(),
        spent: Micros::ZERO,
    };
    RunSpec {
        budget,
        ..spec("Go.")
    }
}

fn used(reply: Reply, input_tokens: u64, output_tokens: u64) -> Reply {
    Reply {
        usage: Usage {
            input_tokens,
            output_tokens,
            ..Usage::default()
        },
        ..reply
    }
}

#[tokio::test]
async fn model_calls_cost_what_the_provider_counted() {
    let reply = Reply {
        usage: Usage {
            input_tokens: 100,
            output_tokens: 10,
            cache_read_tokens: 1_001,
            cache_write_tokens: 100,
        },
        ..says("ok")
    };
    let model = Scripted::priced(prices(), script![used(calls(&[shell("ls")]), 1_000, 20), reply]);
    let backend = Pretended::new(&["bash"], |_| prints(""));
    let recorder = play_in(budgeted(1_000_000, 0), &model, &backend, &[])
        .await
        .succeeds("ok");
    let costs: Vec<_> = recorder
        .data("model_call")
        .iter()
        .map(|call| call["cost_micros"].clone())
        .collect();
    // 300 + 150 + 300.3 + 375, rounded up.
    assert_eq!(costs, [json!(3_300), json!(1_126)]);
    assert_eq!(recorder.last_spent(), 4_426);
    assert_eq!(recorder.data("model_call")[1]["cache_read_tokens"], 1_001);
}

#[tokio::test]
async fn an_answer_may_only_be_as_long_as_the_budget_pays_for() {
    let cut = Reply {
        stop_reason: StopReason::MaxTokens,
        ..used(says("Half"), 1_000, 400)
    };
    let model = Scripted::priced(prices(), script![cut]);
    let (outcome, recorder) = run_in(budgeted(24_000, 0), &model, &untouched(), &[]).await;
    let asked = model.asked()[0].max_tokens;
    assert!((64..1_400).contains(&asked), "{asked}");
    assert_eq!(
        model.asked()[0].tool_use,
        ToolUse::Never,
        "there is money for one answer alone"
    );
    assert_eq!(
        succeeded(&outcome),
        "Half\n\n[The answer is cut off here: the run's budget is used up.]"
    );
    assert_eq!(
        recorder.data("answer_requested"),
        [json!({"reason": "budget", "step": 1})]
    );
}

#[tokio::test]
async fn no_call_is_made_that_could_cost_more_than_is_left() {
    let model = Scripted::priced(prices(), script![used(calls(&[shell("ls")]), 6_000, 60)]);
    let backend = Pretended::new(&["bash"], |_| prints(""));
    let (outcome, recorder) = run_in(budgeted(23_000, 0), &model, &backend, &[]).await;
    assert_eq!(
        failed(&outcome),
        "budget exhausted: $0.0189 of $0.023 spent, too little is left for another model call"
    );
    assert_eq!(model.asked().len(), 1);
    assert_eq!(recorder.last_spent(), 18_900);
    assert_eq!(
        recorder.data("budget_warning"),
        [json!({"spent_micros": 18_900, "limit_micros": 23_000})]
    );
    assert_eq!(recorder.data("budget_reached").len(), 1);
}

#[tokio::test]
async fn a_budget_that_pays_for_no_call_is_not_said_to_be_spent() {
    let model = Scripted::priced(prices(), vec![]);
    let recorder = play(budgeted(100, 0), &model)
        .await
        .fails("budget exhausted: the whole budget of $0.0001 is too little for a model call");
    assert_eq!(model.asked().len(), 0);
    assert_eq!(
        recorder.data("budget_reached"),
        [json!({"spent_micros": 0, "limit_micros": 100})]
    );
}

#[tokio::test]
async fn instructions_count_in_the_budget() {
    let model = Scripted::priced(prices(), script![used(says("ok"), 1, 1)]);
    play(budgeted(100_000, 0), &model).await.succeeds("ok");
    let model = Scripted::priced(prices(), vec![]);
    let instructed = RunSpec {
        instructions: "0123 ".repeat(8_000),
        ..budgeted(100_000, 0)
    };
    play(instructed, &model)
        .await
        .fails("budget exhausted: the whole budget of $0.10 is too little for a model call");
    assert_eq!(model.asked().len(), 0);
}

#[tokio::test]
async fn a_provider_that_counts_more_than_it_should_never_brings_the_cost_above_the_maximum() {
    let model = Scripted::priced(prices(), script![used(says("ok"), u64::MAX, u64::MAX)]);
    let recorder = play(budgeted(50_000, 0), &model).await.succeeds("ok");
    assert_eq!(recorder.last_spent(), 50_000);
}

#[tokio::test(start_paused = true)]
async fn compute_that_uses_the_budget_up_ends_the_run_in_the_middle_of_a_model_call() {
    let endless = Line {
        after: Duration::from_hours(1),
        ..says("late").into()
    };
    let model = Scripted::new(vec![endless]);
    let spec = budgeted(600, 30);
    let started = spec.budget.started;
    let recorder = play(spec, &model)
        .await
        .fails("budget exhausted: $0.0006 of $0.0006 spent");
    let took = started.elapsed();
    assert!(
        took >= Duration::from_secs(20) && took < Duration::from_millis(20_010),
        "{took:?}"
    );
    assert_eq!(
        recorder.kinds(),
        ["budget_warning", "model_call", "budget_reached"]
    );
    assert_eq!(recorder.data("budget_warning")[0]["spent_micros"], 480);
    assert_eq!(recorder.last_spent(), 600);
}

#[tokio::test(start_paused = true)]
async fn compute_that_uses_the_budget_up_ends_the_run_in_the_middle_of_a_tool() {
    let model = scripted![calls(&[shell("sleep")])];
    let backend = Pretended::new(&["bash"], |_| Does::Hang);
    let recorder = play_in(budgeted(1_000, 1_000), &model, &backend, &[])
        .await
        .fails("budget exhausted: $0.001 of $0.001 spent");
    assert_eq!(
        recorder.kinds(),
        ["model_call", "tool_start", "budget_warning", "budget_reached"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_budget_ends_is_charged_for_what_was_seen() {
    // Compute reaches the unreserved money after a long text was received.
    let endless = Line {
        after: Duration::from_hours(10),
        deltas: "0123456789abcdef",
        ..says("late").into()
    };
    let model = Scripted::priced(prices(), vec![endless]);
    let spec = budgeted(150_000, 30);
    let started = spec.budget.started;
    let (outcome, recorder) = run_in(spec, &model, &untouched(), &[]).await;
    assert!(failed(&outcome).starts_with("budget exhausted: "));
    let reached = &recorder.data("budget_reached")[0];
    let spent = reached["spent_micros"].as_i64().unwrap();
    let compute = 30 * i64::try_from(started.elapsed().as_secs()).unwrap();
    // Four tokens of text at 15 micros, and some hundred of input.
    assert!(spent > compute + 1_000 && spent <= 150_000, "{spent} {compute}");
    assert_eq!(recorder.last_spent(), spent);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_charged_for_what_was_seen() {
    let endless = Line {
        after: Duration::from_hours(10),
        deltas: "0123456789abcdef",
        hidden: 40_000,
        ..says("late").into()
    };
    let model = Scripted::priced(prices(), vec![endless]);
    let (mut workspace, _root) = workspace(&untouched());
    let recorder = Recorder::default();
    {
        let run = run_agent(budgeted(1_000_000, 0), &model, &mut workspace, &recorder);
        tokio::time::timeout(Duration::from_secs(1), run)
            .await
            .unwrap_err();
    }
    // Four tokens of text and ten thousand of thinking at 15 micros, and the whole prompt.
    let input = recorder.last_spent() - 60 - 150_000;
    assert!((1_000..10_000).contains(&input), "{input}");
    workspace.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn compute_is_told_with_the_cost_and_never_goes_back() {
    let slow = |reply: Reply| Line {
        after: Duration::from_secs(10),
        ..reply.into()
    };
    let model = Scripted::priced(
        prices(),
        vec![
            slow(used(calls(&[shell("ls")]), 100, 10)),
            slow(used(says("ok"), 100, 10)),
        ],
    );
    let backend = Pretended::new(&["bash"], |_| prints(""));
    let (_, recorder) = run_in(budgeted(1_000_000, 30), &model, &backend, &[]).await;
    let spent = recorder.spent();
    assert!(spent.is_sorted());
    let last = recorder.last_spent();
    assert!((450 * 2 + 600..450 * 2 + 610).contains(&last), "{last}");
}

#[tokio::test(start_paused = true)]
async fn failed_attempts_that_the_provider_charges_are_paid() {
    let broken = ModelError {
        usage: Usage {
            input_tokens: 1_000,
            output_tokens: 5,
            ..Usage::default()
        },
        ..ModelError::retryable("the stream broke", None)
    };
    let model = Scripted::priced(prices(), script![broken, used(says("ok"), 1_000, 10)]);
    let (outcome, recorder) = run_in(budgeted(1_000_000, 0), &model, &untouched(), &[]).await;
    assert_eq!(succeeded(&outcome), "ok");
    assert_eq!(recorder.last_spent(), 3_075 + 3_150);
    let calls = recorder.data("model_call");
    assert_eq!(
        (&calls[0]["stop_reason"], &calls[0]["cost_micros"]),
        (&json!("error"), &json!(3_075))
    );
}

#[tokio::test]
async fn an_absurd_count_of_a_provider_is_clamped_to_what_the_call_can_have_used() {
    let absurd = 1 << 63;
    for figure in 0..4 {
        let mut figures = [100, 10, 0, 0];
        figures[figure] = absurd;
        let [input_tokens, output_tokens, cache_read_tokens, cache_write_tokens] = figures;
        let lied = Reply {
            usage: Usage {
                input_tokens,
                output_tokens,
                cache_read_tokens,
                cache_write_tokens,
            },
            ..calls(&[shell("ls")])
        };
        let failed = ModelError {
            usage: Usage {
                input_tokens: absurd,
                ..Usage::default()
            },
            ..ModelError::retryable("overloaded", None)
        };
        let model = Scripted::priced(prices(), script![lied, failed, used(says("ok"), 5_000, 10)]);
        let backend = Pretended::new(&["bash"], |_| prints(""));
        // The run continues: neither its money nor its knowledge of the provider's counts is lost.
        let recorder = play_in(budgeted(1_000_000, 0), &model, &backend, &[])
            .await
            .succeeds("ok");
        assert_eq!(recorder.clamped(), ["scripted", "scripted"], "{figure}");
        for call in recorder.data("model_call") {
            for count in [
                "input_tokens",
                "output_tokens",
                "cache_read_tokens",
                "cache_write_tokens",
            ] {
                assert!(call[count].as_u64().unwrap() < 64 * 1_024, "{call}");
            }
        }
        assert_eq!(recorder.data("model_call")[2]["input_tokens"], 5_000);
    }
}
