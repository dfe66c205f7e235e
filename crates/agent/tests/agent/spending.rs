//! Whatever a run does and however it ends, it never costs more than its budget, and its reported cost is the cost of its calls.

use proptest::prelude::*;

use crate::prelude::*;

#[derive(Clone, Debug)]
enum Turn {
    /// Calls of the two priced tools, whether each fails, and how many seconds each takes.
    Calls(Vec<(usize, bool, u64)>),
    /// A failure that is retried.
    Failure,
    /// Text that is refused if the run has a schema.
    Text,
}

#[derive(Clone, Debug)]
struct Step {
    turn: Turn,
    usage: Usage,
    seconds: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let calls = proptest::collection::vec((0_usize..2, any::<bool>(), 0_u64..20), 1..4);
    let turn = prop_oneof![
        4 => calls.prop_map(Turn::Calls),
        1 => Just(Turn::Failure),
        1 => Just(Turn::Text),
    ];
    let tokens = || prop_oneof![4 => 0_u64..20_000, 1 => Just(0), 1 => 0_u64..=u64::MAX];
    (turn, [tokens(), tokens(), tokens(), tokens()], 0_u64..30).prop_map(|(turn, [i, o, r, w], seconds)| {
        Step {
            turn,
            usage: Usage {
                input_tokens: i,
                output_tokens: o,
                cache_read_tokens: r,
                cache_write_tokens: w,
            },
            seconds,
        }
    })
}

fn line(step: &Step, number: usize) -> Line {
    let ended = match &step.turn {
        Turn::Calls(calls) => {
            let call = |(index, (tool, fails, seconds)): (usize, &(usize, bool, u64))| {
                let arguments = json!({"n": number * 10 + index, "fails": fails, "seconds": seconds});
                call(&format!("call_{index}"), ["search", "buy"][*tool], &arguments)
            };
            Ok(reply(calls.iter().enumerate().map(call).collect()))
        }
        Turn::Failure => Err(ModelError {
            usage: step.usage,
            ..ModelError::retryable("overloaded", None)
        }),
        Turn::Text => Ok(says("{}")),
    };
    Line {
        after: Duration::from_secs(step.seconds),
        deltas: "some text before the end",
        hidden: 0,
        reply: ended.map(|reply| Reply {
            usage: step.usage,
            ..reply
        }),
    }
}

/// Sum of the costs of model and tool calls in the events.
fn shown(events: &[(&'static str, Value)]) -> i64 {
    let calls = events
        .iter()
        .filter(|(kind, _)| matches!(*kind, "model_call" | "tool_end"));
    calls
        .map(|(_, data)| data.get("cost_micros").map_or(0, |cost| cost.as_i64().unwrap()))
        .sum()
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(work)
}

/// Tools with these prices, one of which reaches beyond the run.
fn tools([search, buy]: [u64; 2]) -> Vec<Arc<dyn Tool>> {
    let search = Probe {
        price: micros(search),
        ..Probe::new("search", Order::SideBySide, Effect::Nothing)
    };
    let buy = Probe {
        price: micros(buy),
        ..Probe::new("buy", Order::OneByOne, Effect::Outside)
    };
    vec![Arc::new(search), Arc::new(buy)]
}

/// Works on a run for at most so many seconds. Returns whether it ended, and the cost of its time.
async fn attempt(
    run: RunSpec,
    (prices, script): (ModelPrices, Vec<Line>),
    recorder: &Recorder,
    seconds: u64,
) -> (bool, i64) {
    let model = Scripted::priced(prices, script);
    let budget = run.budget;
    let (mut workspace, _root) = workspace(&untouched());
    let work = run_agent(run, &model, &mut workspace, recorder);
    let ended = tokio::time::timeout(Duration::from_secs(seconds), work)
        .await
        .is_ok();
    let compute = budget.compute(tokio::time::Instant::now()).get();
    workspace.close().await.unwrap();
    (ended, compute)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn a_run_never_costs_more_than_its_budget_and_costs_what_its_events_show(
        max in prop_oneof![1_u64..2_000, 1_u64..1_000_000, 1_u64..100_000_000],
        rate in prop_oneof![3 => Just(0_u64), 1 => 1_u64..1_000, 1 => 0_u64..10_000_000],
        price in [0_u64..80_000_000, 0_u64..80_000_000, 0_u64..80_000_000, 0_u64..80_000_000],
        tool_prices in [0_u64..200_000, 0_u64..2_000],
        spent in prop_oneof![Just(0_u64), 0_u64..2_000_000],
        steps in proptest::collection::vec(step(), 0..8),
        cancel_after in prop_oneof![Just(100_000_u64), 0_u64..120],
        stored in any::<prop::sample::Index>(),
    ) {
        let [input, output, read, write] = price.map(micros);
        let prices = ModelPrices {
            input_micros_per_mtok: input,
            output_micros_per_mtok: output,
            cache_read_micros_per_mtok: read,
            cache_write_micros_per_mtok: write,
        };
        let mut script: Vec<Line> = steps.iter().enumerate().map(|(number, step)| line(step, number)).collect();
        script.push(says("{}").into());
        let run = |spent: i64| {
            let mut run = RunSpec { tools: tools(tool_prices), ..spec("Go.") };
            run.budget.max_cost = micros(max);
            run.budget.compute_micros_per_second = micros(rate);
            run.budget.spent = Micros::try_from(spent).unwrap();
            run
        };
        let limit = i64::try_from(max).unwrap();
        let before = i64::try_from(spent).unwrap().min(limit);
        let (first, second) = (Recorder::default(), Recorder::default());
        block_on(async {
            let start = run(before);
            let started = start.budget.started;
            let (ended, compute) = attempt(start, (prices, script.clone()), &first, cancel_after).await;
            let events = first.cut(usize::MAX).0;
            check(&first, limit)?;
            // A call that was under way at a cancel or at the end of the budget is an event, too.
            let cost = (before + shown(&events) + compute).min(limit);
            if ended {
                prop_assert_eq!(first.last_spent(), cost);
            } else {
                // Compute has accrued since the last report.
                prop_assert!(first.last_spent() <= cost, "{} of {}", first.last_spent(), cost);
            }

            // The worker is lost: only a part of its events and entries is stored. Every cost in an entry is also in an event.
            let written = events.len() + first.entries().len();
            let (events, entries) = first.cut(stored.index(written + 1));
            let journal = Journal::new(entries);
            let known = (before + shown(&events)).min(limit);
            prop_assert!(journal.spent().get() <= known, "{} of {}", journal.spent(), known);
            if journal.uncertain_call().is_some() {
                return Ok(());
            }
            let mut again = run(known);
            again.budget.started = started;
            again.resume = Some(journal);
            let (ended, compute) = attempt(again, (prices, script), &second, 100_000).await;
            prop_assert!(ended);
            check(&second, limit)?;
            let cost = known + shown(&second.cut(usize::MAX).0) + compute;
            prop_assert_eq!(second.last_spent(), cost.min(limit));
            Ok(())
        })?;
    }
}

/// Checks that the reported and journaled costs only rise, up to the limit.
fn check(recorder: &Recorder, limit: i64) -> Result<(), TestCaseError> {
    let told = recorder.spent();
    prop_assert!(told.is_sorted(), "{told:?}");
    prop_assert!(
        told.iter().all(|cost| (0..=limit).contains(cost)),
        "{told:?} of {limit}"
    );
    let entries = recorder.entries();
    let journaled: Vec<i64> = entries.iter().map(|entry| entry.spent_micros.get()).collect();
    prop_assert!(journaled.is_sorted() && journaled.last().is_none_or(|last| *last <= limit));
    Ok(())
}

#[tokio::test]
async fn a_tool_call_is_charged_once_it_is_sent_and_not_made_when_it_cannot_be_paid() {
    let search = Arc::new(Probe {
        price: micros(400_000),
        ..Probe::new("search", Order::SideBySide, Effect::Nothing)
    });
    let find = |n: u32, fails: bool, unsent: bool| {
        let wish = json!({"n": n, "fails": fails, "unsent": unsent});
        call(&n.to_string(), "search", &wish)
    };
    let model = scripted![
        reply(vec![find(1, false, true), find(2, true, false)]),
        reply(vec![find(3, false, false), find(4, false, false)]),
        says("ok")
    ];
    let recorder = play(spec("Go.").with_tool(search.clone()), &model)
        .await
        .succeeds("ok");
    assert_eq!(recorder.last_spent(), 800_000);
    // Free calls do not name a cost. Concurrent calls end in any order.
    let mut costs: Vec<(String, Option<u64>)> = recorder
        .data("tool_end")
        .iter()
        .map(|end| (end["id"].to_string(), end["cost_micros"].as_u64()))
        .collect();
    costs.sort();
    let costs: Vec<_> = costs.into_iter().map(|(_, cost)| cost).collect();
    assert_eq!(costs, [None, Some(400_000), Some(400_000), None]);
    let told = &model.asked()[2].last;
    assert_eq!(
        told,
        "search did 3|not made: it costs $0.40, and too little of the budget is left\n\n[$0.80 of the run's budget \
         of $1.00 are spent. Finish what matters most: at 90 % the final answer is asked for.]"
    );
    assert_eq!(search.calls(), [1, 2, 3]);
    // The refused call was not begun.
    assert!(!recorder.steps().contains(&"2 intent 4".to_owned()));
    assert_eq!(recorder.entries().last().unwrap().spent_micros, micros(800_000));
}

#[tokio::test(start_paused = true)]
async fn a_priced_call_that_is_given_up_costs_its_price() {
    let slow = Arc::new(Probe {
        price: micros(400_000),
        ..Probe::new("search", Order::SideBySide, Effect::Nothing)
    });
    let model = scripted![reply(vec![call("a", "search", &json!({"n": 1, "seconds": 60}))])];
    let run = spec("Go.").with_tool(slow.clone());
    let recorder = Recorder::default();
    let (mut workspace, _root) = workspace(&untouched());
    let work = run_agent(run, &model, &mut workspace, &recorder);
    tokio::time::timeout(Duration::from_secs(5), work)
        .await
        .unwrap_err();
    workspace.close().await.unwrap();
    assert_eq!(slow.calls(), [1]);
    assert_eq!(recorder.last_spent(), 400_000);
    let ended = recorder.data("tool_end");
    assert_eq!(
        (&ended[0]["id"], &ended[0]["is_error"], &ended[0]["cost_micros"]),
        (&json!("a"), &json!(true), &json!(400_000))
    );
}

#[tokio::test(start_paused = true)]
async fn compute_never_spends_what_is_held_for_a_tool_call() {
    let slow = Arc::new(Probe {
        price: micros(900_000),
        ..Probe::new("search", Order::SideBySide, Effect::Nothing)
    });
    let wish = call("a", "search", &json!({"n": 1, "seconds": 3_600}));
    let model = scripted![reply(vec![wish])];
    let mut run = spec("Go.").with_tool(slow);
    run.budget.compute_micros_per_second = micros(1_000);
    let started = run.budget.started;
    let (outcome, _) = run_in(run, &model, &untouched(), &[]).await;
    assert!(failed(&outcome).starts_with("budget exhausted: "));
    let took = started.elapsed().as_secs();
    assert_eq!(took, 100, "a tenth of the budget is compute's");
}
