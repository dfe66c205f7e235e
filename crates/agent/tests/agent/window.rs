//! Conversations longer than the model's window.

use crate::{prelude::*, support::asks_for_notes};

/// A model with a limited window that counts tokens as a strict tokenizer does, refuses requests that do not fit, and makes one
/// call of `get` after another.
struct Strict {
    info: ModelInfo,
    turns: u32,
    bytes: usize,
    state: Mutex<State>,
    /// Answer of the model when it is asked to summarize.
    summary: Result<&'static str, &'static str>,
}

#[derive(Default)]
struct State {
    asked: u32,
    summaries: u32,
    /// Maximum answer of the requests for a summary, in tokens.
    summary_tokens: u64,
    largest: u64,
    held: usize,
}

fn strict(window: u64, turns: u32, bytes: usize) -> Strict {
    Strict {
        info: ModelInfo {
            id: "strict".to_owned(),
            provider: "test".to_owned(),
            name: "Strict".to_owned(),
            context_window: window,
            max_output_tokens: window / 8,
            prices: ModelPrices::default(),
            capabilities: Vec::new(),
        },
        turns,
        bytes,
        state: Mutex::default(),
        summary: Ok("Turn after turn, get was called."),
    }
}

impl Strict {
    fn reply(&self, request: &Request<'_>) -> Result<Reply, ModelError> {
        let mut state = self.state.lock();
        let text = format!("{}{:?}", request.task.prompt, request.transcript);
        let tokens = text.len() as u64 / 4;
        state.largest = state.largest.max(tokens + request.max_tokens);
        state.held = state.held.max(text.len());
        if tokens + request.max_tokens > self.info.context_window {
            let mut error = ModelError::fatal("prompt is too long");
            error.retry = Retry::Smaller;
            return Err(error);
        }
        check_pairs(request.transcript);
        let usage = Usage {
            input_tokens: tokens,
            ..Usage::default()
        };
        if asks_for_notes(request) {
            state.summaries += 1;
            state.summary_tokens = state.summary_tokens.max(request.max_tokens);
            return match self.summary {
                Ok(summary) => Ok(Reply {
                    usage,
                    ..says(summary)
                }),
                Err(why) => Err(ModelError::fatal(why)),
            };
        }
        state.asked += 1;
        if state.asked > self.turns {
            return Ok(Reply {
                usage,
                ..says("done")
            });
        }
        let arguments = json!({"n": state.asked, "bytes": self.bytes});
        let id = format!("call_{}", state.asked);
        let thought = "It is not yet what was asked for. ".repeat(20);
        let said = Content::Text(format!("I call the {}th time. {thought}", state.asked));
        Ok(Reply {
            usage,
            ..reply(vec![said, call(&id, "get", &arguments)])
        })
    }
}

/// Every call is directly followed by its result, and every result follows its call.
fn check_pairs(transcript: &[Turn]) {
    let mut open: Vec<String> = Vec::new();
    for turn in transcript {
        match turn {
            Turn::Assistant(pieces) => {
                assert!(open.is_empty(), "{open:?} have no result");
                open = pieces
                    .iter()
                    .filter_map(|piece| match piece {
                        Content::ToolCall(call) => Some(call.id.clone()),
                        Content::Text(_) | Content::Opaque(_) => None,
                    })
                    .collect();
            }
            Turn::ToolResults(results) => {
                let ids: Vec<String> = results.iter().map(|result| result.id.clone()).collect();
                assert_eq!(std::mem::take(&mut open), ids);
            }
            Turn::User(_) => assert!(open.is_empty()),
        }
    }
}

impl Model for Strict {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn call<'a>(
        &'a self,
        request: Request<'a>,
        _deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        let reply = self.reply(&request);
        Box::pin(async { reply })
    }
}

fn with_get(prompt: &str) -> RunSpec {
    spec(prompt).with_tool(Arc::new(Probe::new("get", Order::OneByOne, Effect::Nothing)))
}

#[tokio::test]
async fn five_hundred_turns_with_large_outputs_stay_within_window_and_memory() {
    let model = strict(100_000, 500, 40_000);
    let run = RunSpec {
        max_steps: 1_000,
        ..with_get("Go on.")
    };
    let recorder = play(run, &model).await.succeeds("done");
    let state = model.state.lock();
    assert_eq!(state.asked, 501);
    assert!(state.largest <= 100_000, "{}", state.largest);
    assert!(state.held < 500_000, "{} bytes are held", state.held);
    let compacted = recorder.data("context_compacted");
    assert!(
        compacted.len() > 10 && compacted.len() < 200,
        "{}",
        compacted.len()
    );
    for data in compacted {
        assert!(data["after_tokens"].as_u64() < data["before_tokens"].as_u64());
        assert!(data["after_tokens"].as_u64().unwrap() < 60_000, "{data}");
    }
    // Notes replace about ten turns, and each is a call that is recorded.
    let summaries = usize::try_from(state.summaries).unwrap();
    assert!((10..100).contains(&summaries), "{summaries}");
    assert_eq!(recorder.data("model_call").len(), 501 + summaries);
    let journaled = recorder
        .entries()
        .into_iter()
        .filter(|entry| matches!(entry.what, What::Compacted { .. }));
    assert_eq!(journaled.count(), summaries);
    assert!(!recorder.deltas().contains("Turn after turn"));
}

#[tokio::test]
async fn a_window_that_is_small_for_the_outputs_is_kept_too() {
    for (window, bytes) in [(8_000, 60_000), (4_000, 500), (16_000, 2_000)] {
        let model = strict(window, 60, bytes);
        let (outcome, _) = run_in(with_get("Go on."), &model, &untouched(), &[]).await;
        assert_eq!(succeeded(&outcome), "done", "{window} {bytes}");
    }
}

#[tokio::test]
async fn without_a_summary_a_plain_note_says_what_is_gone() {
    let model = Strict {
        summary: Err("overloaded"),
        ..strict(5_000, 60, 500)
    };
    let recorder = play(with_get("Go on."), &model).await.succeeds("done");
    let note = recorder.entries().into_iter().find_map(|entry| {
        if let What::Compacted { summary, .. } = entry.what {
            Some(summary)
        } else {
            None
        }
    });
    assert!(note.unwrap().contains("get ("));
}

#[tokio::test]
async fn a_model_that_thinks_may_think_before_it_summarizes() {
    for (capability, tokens) in [("tools", 2_048), ("thinking", 2_048 + 8_192)] {
        let mut model = strict(30_000, 60, 500);
        model.info.max_output_tokens = 15_000;
        model.info.capabilities = vec![capability.to_owned()];
        play(with_get("Go on."), &model).await.succeeds("done");
        assert_eq!(model.state.lock().summary_tokens, tokens);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_passes_does_not_cost_the_summary() {
    let get = |n: u32| reply(vec![call("x", "get", &json!({"n": n, "bytes": 4_000}))]).into();
    let mut script: Vec<Line> = (0..5).map(get).collect();
    script.extend([
        too_large().into(),
        too_large().into(),
        ModelError::retryable("overloaded", None).into(),
        says("a summary").into(),
        says("ok").into(),
    ]);
    let model = Scripted::new(script);
    let recorder = play(with_get("Go on."), &model).await.succeeds("ok");
    assert_eq!(recorder.data("retry")[0]["reason"], "overloaded");
    let told = format!("{:?}", model.transcripts().last().unwrap()[0]);
    assert!(told.contains("<notes>") && told.contains("a summary"), "{told}");
}

#[tokio::test]
async fn structured_output_that_stays_cut_off_is_told_with_the_limit_that_was_asked() {
    let cut = || {
        let reply = Reply {
            stop_reason: StopReason::MaxTokens,
            ..says("[1,")
        };
        Line::from(reply)
    };
    let mut model = Scripted::new(vec![cut(), cut(), cut()]);
    model.info.context_window = 9_000;
    model.info.max_output_tokens = 8_900;
    let (outcome, _) = run_in(
        with_schema("Count.", &json!({"type": "array"})),
        &model,
        &untouched(),
        &[],
    )
    .await;
    let asked = model.asked()[2].max_tokens;
    assert!(asked < 8_900, "{asked}");
    assert_eq!(
        failed(&outcome),
        format!("the model's answer was cut off at its limit of {asked} tokens")
    );
}

fn too_large() -> ModelError {
    ModelError {
        retry: Retry::Smaller,
        ..ModelError::fatal("prompt is too long")
    }
}

#[tokio::test]
async fn a_request_that_the_provider_finds_too_large_is_shortened_and_made_again() {
    let get = |n: u32| reply(vec![call("x", "get", &json!({"n": n, "bytes": 4_000}))]).into();
    let mut script: Vec<Line> = (0..5).map(get).collect();
    script.extend([too_large().into(), says("ok").into()]);
    let model = Scripted::new(script);
    let (outcome, recorder) = run_in(with_get("Go on."), &model, &untouched(), &[]).await;
    assert_eq!(succeeded(&outcome), "ok");
    assert_eq!(recorder.data("context_compacted").len(), 1);
    let transcripts = model.transcripts();
    let size = |transcript: &Vec<Turn>| format!("{transcript:?}").len();
    assert!(size(&transcripts[6]) < size(&transcripts[5]) * 6 / 10);
    assert!(
        format!("{:?}", transcripts[6].last()).len() > 4_000,
        "the newest output stays"
    );
}

#[tokio::test]
async fn a_request_that_never_fits_ends_the_run_with_the_providers_words() {
    let get = |n: u32| reply(vec![call("x", "get", &json!({"n": n, "bytes": 4_000}))]).into();
    let mut script: Vec<Line> = (0..5).map(get).collect();
    script.extend([
        too_large().into(),
        too_large().into(),
        says("a summary").into(),
        too_large().into(),
    ]);
    let model = Scripted::new(script);
    play(with_get("Go on."), &model).await.fails("prompt is too long");

    let model = scripted![too_large()];
    let recorder = play(with_get("Too long."), &model)
        .await
        .fails("prompt is too long");
    assert!(recorder.kinds().is_empty(), "there is nothing to shorten");
}

#[tokio::test]
async fn what_was_dropped_stays_dropped_after_a_resume() {
    let get = |n: u32| reply(vec![call("x", "get", &json!({"n": n, "bytes": 4_000}))]).into();
    let mut script: Vec<Line> = (0..5).map(get).collect();
    script.extend([too_large().into(), says("ok").into()]);
    let model = Scripted::new(script);
    let (_, recorder) = run_in(with_get("Go on."), &model, &untouched(), &[]).await;
    assert_eq!(recorder.steps().last().unwrap(), "5 trimmed");
    let shown = format!("{:?}", model.transcripts()[6]);

    let model = scripted![says("ok")];
    let resumed = with_get("Go on.").resuming(recorder.entries());
    let (outcome, recorder) = run_in(resumed, &model, &untouched(), &[]).await;
    assert_eq!(succeeded(&outcome), "ok");
    assert_eq!(format!("{:?}", model.transcripts()[0]), shown);
    assert!(recorder.data("context_compacted").is_empty());
}

#[tokio::test]
async fn a_task_that_does_not_fit_into_the_window_is_not_sent() {
    let model = strict(10_000, 0, 0);
    let large = RunSpec {
        input: Some(raw(&json!("word ".repeat(10_000)))),
        ..with_get("Sum up.")
    };
    let (outcome, recorder) = run_in(large, &model, &untouched(), &[]).await;
    let why = failed(&outcome);
    assert!(
        why.starts_with("the task does not fit into the model's window: about 1")
            && why.ends_with(" tokens of 10000"),
        "{why}"
    );
    assert_eq!(model.state.lock().asked, 0);
    assert!(recorder.kinds().is_empty());
}

#[tokio::test]
async fn a_large_task_does_not_make_every_turn_a_summary() {
    for words in [54_000, 62_000] {
        let model = strict(100_000, 30, 500);
        let (outcome, recorder) = run_in(with_get(&"word ".repeat(words)), &model, &untouched(), &[]).await;
        assert_eq!(succeeded(&outcome), "done");
        let compacted = recorder.data("context_compacted").len();
        let summaries = model.state.lock().summaries;
        assert!(compacted <= 3 && summaries <= 1, "{compacted} {summaries}");
    }
}

#[tokio::test]
async fn an_answer_is_asked_for_within_what_the_window_has_left() {
    let mut model = strict(10_000, 0, 0);
    model.info.max_output_tokens = 9_000;
    play(with_get(&"word ".repeat(3_000)), &model)
        .await
        .succeeds("done");
    let largest = model.state.lock().largest;
    assert!(largest > 5_000 && largest <= 10_000, "{largest}");
}

#[tokio::test]
async fn outputs_of_one_turn_share_the_room_that_the_window_has() {
    let get = |n: u32| call(&n.to_string(), "get", &json!({"n": n, "bytes": 40_000}));
    let model = scripted![reply((0..16).map(get).collect()), says("ok")];
    let (_, recorder) = run_in(with_get("Go on."), &model, &untouched(), &[]).await;
    // A quarter of 192,000 tokens for sixteen outputs.
    let told = model.asked()[1].last.len();
    assert!(told > 150_000 && told < 175_000, "{told}");
    assert_eq!(recorder.data("tool_end").len(), 16);
}

#[tokio::test]
async fn an_output_of_a_command_that_was_dropped_is_told_as_such() {
    let backend = Pretended::new(&["bash"], |command| {
        prints(if command == "a" { LONG } else { "short" })
    });
    let mut script: Vec<Line> = script![calls(&[shell("a")]), calls(&[shell("b")])];
    script.extend([too_large().into(), says("ok").into()]);
    let model = Scripted::new(script);
    let (outcome, _) = run_in(spec("Go."), &model, &backend, &[]).await;
    assert_eq!(succeeded(&outcome), "ok");
    let Turn::ToolResults(results) = &model.transcripts()[3][1] else {
        panic!()
    };
    assert_eq!(
        results[0].content.text(),
        "[an old output of 20000 bytes was dropped]"
    );
}

static LONG: &str = {
    static BYTES: [u8; 20_000] = [b'x'; 20_000];
    match std::str::from_utf8(&BYTES) {
        Ok(text) => text,
        Err(_) => "",
    }
};

#[tokio::test]
async fn long_text_from_outside_is_kept_whole_in_a_file_that_its_line_names() {
    let model = scripted![
        reply(vec![call("a", "get", &json!({"n": 1, "bytes": 100_000}))]),
        says("ok")
    ];
    let recorder = play(with_get("Go."), &model).await.succeeds("ok");
    let told = &model.asked()[1].last;
    assert!(told.len() < 34_000, "{}", told.len());
    let line = told.lines().find(|line| line.contains("left out")).unwrap();
    assert!(
        line.contains(".sortie/output/result-") && line.contains("the whole output is in"),
        "{line}"
    );
    let end = &recorder.data("tool_end")[0];
    assert_eq!(end["is_error"], false);
}
