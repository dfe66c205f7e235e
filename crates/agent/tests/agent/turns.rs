//! The turn loop: tools between model calls, errors reported to the model and fatal ones, retries, corrections.

use sortie_agent::{Shell, model::ErrorKind};
use sortie_sandbox::StreamOutput;
use sortie_testkit::list;

use crate::prelude::*;

#[tokio::test]
async fn a_plain_answer_is_one_call_one_message_and_no_directory() {
    let model = Scripted::new(vec![Line {
        deltas: "Hel",
        ..says("Hello.").into()
    }]);
    let recorder = play(spec("Greet."), &model).await.succeeds("Hello.");
    assert_eq!(recorder.kinds(), ["model_call", "message"]);
    assert_eq!(recorder.data("message"), [json!({"text": "Hello.", "step": 1})]);
    assert_eq!(recorder.data("model_call")[0]["stop_reason"], "end_turn");
    assert_eq!(recorder.deltas(), "Hel");
    assert_eq!(recorder.last_spent(), 0);
    let first = &model.asked()[0].first_message;
    assert!(
        first.starts_with("Greet.\n\n<environment>\nWorking directory: /"),
        "{first}"
    );
    assert!(
        first.ends_with("\nBudget of the run: $1.00\n</environment>"),
        "{first}"
    );
}

#[tokio::test]
async fn tools_run_between_model_calls_and_their_results_are_told() {
    let mut first = calls(&[shell("wc -l data")]);
    first.content.insert(0, Content::Text("I count.".to_owned()));
    let model = scripted![first, calls(&[shell("rm data")]), says("42")];
    let backend = Pretended::new(&["bash"], |command| match command {
        "wc -l data" => prints("42 data\n"),
        _ => Does::End(ExitKind::Code(2), "", "rm: no\n"),
    });
    let recorder = play_in(spec("Count."), &model, &backend, &[])
        .await
        .succeeds("42");
    assert_eq!(
        recorder.kinds(),
        list! {
            "model_call", "message", "tool_start", "tool_end", "model_call", "tool_start", "tool_end", "model_call",
            "message",
        }
    );
    assert_eq!(
        recorder.data("tool_start")[0],
        json!({"tool": "shell", "id": "call_0", "arguments": {"command": "wc -l data"}})
    );
    let asked = model.asked();
    assert_eq!(
        asked[1].last,
        "[the command exited with status 0]\n[stdout]\n42 data\n"
    );
    assert_eq!(
        asked[2].last,
        "[the command exited with status 2]\n[stderr]\nrm: no\n"
    );
    let ends = recorder.data("tool_end");
    assert_eq!(
        (&ends[0]["is_error"], &ends[1]["is_error"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(ends[0]["output"], asked[1].last.as_str());
    assert_eq!(ends[0]["output_bytes"], asked[1].last.len());
    assert_eq!(backend.opened.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[tokio::test]
async fn mistakes_of_the_model_are_told_to_it() {
    let broken = Reply {
        content: vec![Content::ToolCall(ToolCall {
            id: "x".to_owned(),
            name: "shell".to_owned(),
            arguments: "{\"command\": \"l".to_owned(),
        })],
        ..calls(&[])
    };
    let model = scripted![
        calls(&[("launch", json!({}))]),
        calls(&[("shell", json!({"line": "ls"}))]),
        calls(&[("shell", json!({"command": "ls", "timeout_seconds": 0}))]),
        broken,
        calls(&[("read_file", json!({"path": "../etc/passwd"}))]),
        says("done")
    ];
    let recorder = play(spec("Try."), &model).await.succeeds("done");
    let told: Vec<String> = model
        .asked()
        .into_iter()
        .skip(1)
        .map(|asked| asked.last)
        .collect();
    assert_eq!(
        told[0],
        "there is no tool `launch`; there are: shell, jobs, read_file, write_file, edit_file, list_files, search_files"
    );
    assert!(
        told[1].starts_with("shell: command is missing; it must be a string; there is no field line. Fields: command (string), "),
        "{}",
        told[1]
    );
    assert!(
        told[2].starts_with("shell: timeout_seconds must be a whole number from 1. Fields: "),
        "{}",
        told[2]
    );
    assert!(
        told[3].starts_with("bad arguments: they are cut off in command; "),
        "{}",
        told[3]
    );
    assert_eq!(
        told[4],
        "path: must lie in the working directory: \"../etc/passwd\" is outside of it, and only commands reach that"
    );
    assert_eq!(
        recorder.data("tool_start")[3]["arguments"],
        json!({"malformed": "{\"command\": \"l"})
    );
    assert!(
        recorder
            .data("tool_end")
            .iter()
            .all(|end| end["is_error"] == true)
    );
}

#[tokio::test]
async fn without_shell_only_reading_tools_are_offered() {
    let model = scripted![calls(&[shell("ls")]), says("no")];
    let (_, recorder) = run_in(spec("Try.").without_shell(), &model, &untouched(), &[]).await;
    assert_eq!(
        model.asked()[0].tools,
        ["read_file", "list_files", "search_files"]
    );
    assert!(
        recorder.data("tool_end")[0]["output"]
            .as_str()
            .unwrap()
            .starts_with("there is no tool `shell`")
    );
}

#[tokio::test]
async fn calls_of_one_turn_answer_in_order_and_a_change_waits_for_those_before_it() {
    let read = |path: &str| ("read_file", json!({ "path": path }));
    let model = scripted![
        calls(&[
            read("a"),
            read("none"),
            read("b"),
            ("write_file", json!({"path": "c", "content": "C"})),
            read("c"),
        ]),
        says("done")
    ];
    let (_, recorder) = run_in(spec("Read."), &model, &untouched(), &[("a", "A"), ("b", "B")]).await;
    assert_eq!(
        model.asked()[1].last,
        "A|none: no such file or folder|B|created c (1 bytes)|C"
    );
    // The write waits for the three before it, the last read for the write.
    let kinds: Vec<&str> = recorder
        .kinds()
        .into_iter()
        .filter(|kind| kind.starts_with("tool"))
        .collect();
    assert_eq!(kinds[6..], ["tool_start", "tool_end", "tool_start", "tool_end"]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_provider_is_called_again_with_growing_waits() {
    let overloaded = || ModelError::retryable("overloaded", None);
    let limited = ModelError::retryable("rate limit", Some(Duration::from_secs(9)));
    let model = scripted![overloaded(), overloaded(), limited, says("ok")];
    let (outcome, recorder) = run_in(spec("Go."), &model, &untouched(), &[]).await;
    assert_eq!(succeeded(&outcome), "ok");
    let retries = recorder.data("retry");
    let attempts: Vec<_> = retries
        .iter()
        .map(|retry| retry["attempt"].as_u64().unwrap())
        .collect();
    assert_eq!(attempts, [2, 3, 4]);
    assert_eq!(
        (&retries[0]["what"], &retries[0]["reason"]),
        (&json!("model_call"), &json!("overloaded"))
    );
    let waits: Vec<_> = retries
        .iter()
        .map(|retry| retry["delay_ms"].as_u64().unwrap())
        .collect();
    assert!(
        waits[0] >= 500 && waits[1] >= 1_000 && waits[2] >= 9_000,
        "{waits:?}"
    );
    assert_eq!(recorder.data("model_call").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_keeps_failing_ends_the_run() {
    let model = Scripted::new(
        (0..5)
            .map(|_| ModelError::retryable("overloaded", None).into())
            .collect(),
    );
    let recorder = play(spec("Go."), &model)
        .await
        .fails("the model failed 5 times, last with: overloaded");
    assert_eq!(recorder.data("retry").len(), 4);
}

fn busy(asked: Option<u64>) -> ModelError {
    ModelError {
        kind: ErrorKind::RateLimit,
        ..ModelError::retryable("overloaded", asked.map(Duration::from_secs))
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_busy_for_a_minute_does_not_end_the_run() {
    let (began, back) = (Instant::now(), Duration::from_mins(1));
    let mut script: Vec<Line> = (0..7).map(|_| busy(None).into()).collect();
    script.push(says("ok").into());
    let model = Scripted::new(script);
    let recorder = play(spec("Go.").until(began + Duration::from_mins(5)), &model)
        .await
        .succeeds("ok");
    assert!(
        (back..2 * back).contains(&began.elapsed()),
        "{:?}",
        began.elapsed()
    );
    let retries = recorder.data("retry");
    assert_eq!((retries.len(), &retries[6]["attempt"]), (7, &json!(8)));
    // It cost nothing, and the waits do not make the model count as slow.
    assert_eq!(recorder.data("model_call").len(), 1);
    assert!(recorder.data("answer_requested").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_stays_busy_ends_the_run_after_minutes() {
    let model = Scripted::new((0..30).map(|_| busy(None).into()).collect());
    let began = Instant::now();
    let (outcome, recorder) = run_in(spec("Go."), &model, &untouched(), &[]).await;
    let failures = recorder.data("retry").len() + 1;
    assert_eq!(
        failed(&outcome),
        format!("the model failed {failures} times, last with: overloaded")
    );
    let waited = began.elapsed();
    assert!(
        (Duration::from_mins(5)..Duration::from_mins(7)).contains(&waited),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_budget_ends_a_wait_for_a_provider() {
    let model = scripted![busy(Some(60))];
    let mut run = spec("Go.");
    run.budget.compute_micros_per_second = micros(100_000);
    let (outcome, _) = run_in(run, &model, &untouched(), &[]).await;
    assert!(failed(&outcome).starts_with("budget exhausted"), "{outcome:?}");
}

#[tokio::test]
async fn a_failure_that_no_second_attempt_mends_ends_the_run_at_once() {
    let model = scripted![ModelError::fatal("bad request")];
    let (outcome, recorder) = run_in(spec("Go."), &model, &untouched(), &[]).await;
    assert_eq!(failed(&outcome), "bad request");
    assert!(recorder.kinds().is_empty());
}

#[tokio::test]
async fn an_answer_that_is_refused_is_no_answer() {
    let refused = Reply {
        stop_reason: StopReason::Refusal,
        ..says("Half")
    };
    let model = scripted![refused];
    play(spec("Go."), &model)
        .await
        .fails("the model refused to answer");
}

#[tokio::test]
async fn a_lost_sandbox_is_told_and_the_next_command_gets_a_new_one() {
    let model = scripted![calls(&[shell("bomb")]), calls(&[shell("ls")]), says("ok")];
    let backend = Pretended::new(&["sh"], |command| {
        if command == "bomb" {
            Does::Lose
        } else {
            prints("x")
        }
    });
    play_in(spec("Go."), &model, &backend, &[]).await.succeeds("ok");
    assert!(
        model.asked()[1]
            .last
            .starts_with("the sandbox was lost: its init died; everything that ran")
    );
    assert!(model.asked()[2].last.ends_with("x\n"));
    assert_eq!(backend.opened.load(std::sync::atomic::Ordering::Relaxed), 2);
}

#[tokio::test]
async fn without_bash_commands_run_with_sh_and_the_shell_is_looked_up_once() {
    let model = scripted![calls(&[shell("a"), shell("b")]), says("ok")];
    let backend = Pretended::new(&["sh"], |_| prints(""));
    run_in(spec("Go."), &model, &backend, &[]).await;
    let commands = backend.commands();
    assert_eq!(commands.len(), 2);
    assert!(commands.iter().all(|command| command.argv[..2] == ["sh", "-c"]));
    assert_eq!(
        commands[0].timeout,
        Duration::from_secs(30),
        "half of what is left"
    );
}

#[tokio::test]
async fn a_long_output_keeps_its_head_and_its_tail_and_the_event_is_cut() {
    let model = scripted![calls(&[shell("much")]), says("ok")];
    let backend = Pretended::new(&["bash"], |_| {
        Does::Print(StreamOutput {
            head: vec![b'a'; 16_384],
            tail: [&[0_u8, 0xff][..], &[b'z'; 16_382]].concat(),
            total_bytes: 1_000_000,
            total_lines: 0,
        })
    });
    let (_, recorder) = run_in(spec("Go."), &model, &backend, &[]).await;
    let told = &model.asked()[1].last;
    assert!(
        told.contains("aaa\n[… 967,238 bytes left out …]\nzzz"),
        "{}",
        &told[16_000..17_000]
    );
    assert_eq!(backend.commands()[0].keep_bytes, 4 * 32 * 1024);
    let end = &recorder.data("tool_end")[0];
    assert_eq!(end["output_bytes"], told.len());
    let shown = end["output"].as_str().unwrap();
    assert!(shown.len() < 17_000 && shown.starts_with("[the command") && shown.ends_with("zzz\n"));
}

#[tokio::test]
async fn no_nul_reaches_the_answer_or_an_event() {
    let model = scripted![calls(&[shell("x")]), says("a\0b")];
    let backend = Pretended::new(&["bash"], |_| prints("n\0l"));
    let (outcome, recorder) = run_in(spec("Go."), &model, &backend, &[]).await;
    assert_eq!(succeeded(&outcome), "a\u{fffd}b");
    let all = format!("{:?}{:?}", recorder.data("message"), recorder.data("tool_end"));
    assert!(!all.contains("\\0") && all.contains("n\u{fffd}l"));
}

#[tokio::test]
async fn an_answer_that_does_not_match_is_handed_back_twice() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let model = scripted![
        says("It is three."),
        says("{\"n\": \"3\"}"),
        says("Here:\n```json\n{\"n\": 3}\n```\nGood luck.")
    ];
    let recorder = play(with_schema("Count.", &schema), &model)
        .await
        .succeeds("{\"n\": 3}");
    let rejected = recorder.data("output_rejected");
    assert_eq!(rejected.len(), 2);
    assert!(
        rejected[0]["errors"][0]
            .as_str()
            .unwrap()
            .starts_with("output: not JSON: ")
    );
    assert_eq!(
        rejected[1],
        json!({"errors": ["output.n: not of type \"integer\""], "attempt": 2})
    );
    let asked = model.asked();
    assert!(asked[0].first_message.contains(&schema.to_string()));
    assert!(asked[2].last.contains("output.n: not of type \"integer\""));
}

#[tokio::test]
async fn an_answer_that_never_matches_fails_the_run_with_the_field() {
    let schema = json!({"type": "object", "required": ["total"]});
    let model = Scripted::new((0..3).map(|_| says("{}").into()).collect());
    let recorder = play(with_schema("Count.", &schema), &model)
        .await
        .fails("output does not match output_schema: output.total: required");
    assert_eq!(recorder.data("output_rejected").len(), 3);
}

#[tokio::test]
async fn input_is_delimited_and_written_as_a_file_once_there_is_a_directory() {
    let model = scripted![calls(&[("read_file", json!({"path": "input.json"}))]), says("ok")];
    let input = json!({"rows": [1, 2]});
    let (_, _) = run_in(
        RunSpec {
            input: Some(raw(&input)),
            ..spec("Sum.")
        },
        &model,
        &untouched(),
        &[],
    )
    .await;
    let asked = model.asked();
    assert!(
        asked[0]
            .first_message
            .starts_with("Sum.\n\n<input>\n{\"rows\":[1,2]}\n</input>")
    );
    assert!(asked[0].first_message.contains("`input.json`"));
    assert_eq!(asked[1].last, input.to_string());
}

#[tokio::test]
async fn input_never_replaces_a_file_of_the_run() {
    let model = scripted![calls(&[("read_file", json!({"path": "input.json"}))]), says("ok")];
    let with_input = RunSpec {
        input: Some(raw(&json!({"a": 1}))),
        ..spec("Sum.")
    };
    run_in(with_input, &model, &untouched(), &[("input.json", "mine")]).await;
    assert_eq!(model.asked()[1].last, "mine");
    assert!(!model.asked()[0].first_message.contains("`input.json`"));
}

#[tokio::test]
async fn without_shell_only_large_input_is_written_as_a_file() {
    for (size, is_written) in [(8 * 1024, false), (8 * 1024 + 1, true)] {
        let model = scripted![calls(&[("list_files", json!({}))]), says("ok")];
        let input = json!("x".repeat(size - 2));
        let denied = RunSpec {
            input: Some(raw(&input)),
            shell: Shell::Denied,
            ..spec("Sum.")
        };
        run_in(denied, &model, &untouched(), &[]).await;
        assert_eq!(
            model.asked()[1].last.contains("input.json (8193 bytes)"),
            is_written,
            "{size}"
        );
    }
}

#[tokio::test]
async fn a_run_whose_events_nobody_takes_stops_before_the_next_effect() {
    let model = scripted![calls(&[shell("rm -r .")])];
    let backend = untouched();
    let (mut workspace, _root) = workspace(&backend);
    let recorder = Recorder::refusing_from(1);
    let outcome = run_agent(spec("Go."), &model, &mut workspace, &recorder).await;
    assert_eq!(failed(&outcome), "the run was taken over by another worker");
    assert_eq!(recorder.kinds(), ["model_call"]);
    workspace.close().await.unwrap();
}

#[tokio::test]
async fn a_dropped_run_leaves_a_workspace_that_closes() {
    let model = scripted![calls(&[shell("sleep")])];
    let (started, begun) = std::sync::mpsc::channel();
    let backend = Pretended::new(&["bash"], move |_| {
        started.send(()).unwrap();
        Does::Hang
    });
    let (mut workspace, root) = workspace(&backend);
    let recorder = Recorder::default();
    {
        let work = run_agent(spec("Go."), &model, &mut workspace, &recorder);
        tokio::pin!(work);
        while begun.try_recv().is_err() {
            tokio::select! { _ = &mut work => panic!("ended"), () = tokio::task::yield_now() => {} }
        }
    }
    workspace.close().await.unwrap();
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    assert_eq!(recorder.kinds(), ["model_call", "tool_start"]);
}
