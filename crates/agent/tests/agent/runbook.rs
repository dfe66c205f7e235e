//! The offline model: the prompt's blocks, run one after another.

use sortie_agent::{Shell, runbook};
use sortie_sandbox::StreamOutput;
use sortie_testkit::rows;

use crate::prelude::*;

fn model() -> Arc<dyn Model> {
    runbook()
}

async fn run(prompt: &str, backend: &Arc<Pretended>) -> (Outcome, Recorder) {
    run_in(spec(prompt), &*model(), backend, &[("data.txt", "one\ntwo\n")]).await
}

fn shell_of_tests() -> Arc<Pretended> {
    Pretended::new(&["bash"], |command| match command {
        "echo one" => prints("one\n"),
        "echo two" => prints("two\n"),
        "silent" => prints(""),
        "false" => Does::End(ExitKind::Code(1), "", "first\nlast line \n\n"),
        "slow" => Does::End(ExitKind::TimedOut, "", ""),
        "killed" => Does::End(ExitKind::Signal(9), "", "oops"),
        other => panic!("ran {other}"),
    })
}

#[test]
fn it_is_in_the_catalog_as_offline_and_free() {
    let model = model();
    let info = model.info();
    assert_eq!((info.id.as_str(), info.provider.as_str()), ("runbook", "sortie"));
    assert_eq!(info.capabilities, ["tools", "offline"]);
    assert!(info.prices.input_micros_per_mtok.is_zero() && info.prices.output_micros_per_mtok.is_zero());
}

#[tokio::test]
async fn a_prompt_without_blocks_is_answered_with_itself_and_touches_nothing() {
    let prompt = "Hello.\n```python\nprint(1)\n```\n";
    let with_input = RunSpec {
        input: Some(raw(&json!({"a": 1}))),
        ..spec(prompt)
    };
    let recorder = play(with_input, &*model()).await.succeeds(prompt);
    assert_eq!(recorder.kinds(), ["model_call", "message"]);
    assert_eq!(recorder.deltas(), prompt);
}

#[tokio::test]
async fn blocks_run_one_after_another_and_the_last_output_is_the_answer() {
    let (outcome, recorder) = run(
        "```sh\necho one\n```\nThen\n```sh\necho two\n```\n",
        &shell_of_tests(),
    )
    .await;
    assert_eq!(succeeded(&outcome), "two\n");
    assert_eq!(
        recorder.kinds(),
        [
            "model_call",
            "tool_start",
            "tool_end",
            "model_call",
            "tool_start",
            "tool_end",
            "model_call",
            "message"
        ]
    );
    let start = &recorder.data("tool_start")[1];
    assert_eq!(
        *start,
        json!({"tool": "shell", "id": "block_2", "arguments": {"command": "echo two"}})
    );
    assert!(
        recorder
            .data("model_call")
            .iter()
            .all(|call| call["cost_micros"] == 0)
    );
}

#[tokio::test]
async fn an_answer_block_takes_the_outputs_in() {
    let prompt = "```sh\necho one\n```\n```tool read_file\n{\"path\": \"data.txt\", \"end_line\": 1}\n```\n\
                  ```answer\n1: {{1}}2: {{2}}last: {{last}}and {{name}}\n```\n";
    let (outcome, _) = run(prompt, &shell_of_tests()).await;
    assert_eq!(succeeded(&outcome), "1: one\n2: one\nlast: one\nand {{name}}");
}

#[tokio::test]
async fn a_block_that_fails_ends_the_run_with_its_number_and_its_last_line_of_standard_error() {
    for (block, error) in rows! {
        "```sh\nfalse\n```", "block 2 exited with status 1: last line";
        "```sh\nslow\n```", "block 2 was stopped after 60 s";
        "```sh\nkilled\n```", "block 2 was ended by signal 9 (SIGKILL): oops";
        "```tool read_file\n{\"path\": \"none\"}\n```", "block 2 failed: none: no such file or folder";
        "```tool read_file\n{\"lines\": 1}\n```",
            "block 2 failed: read_file: path is missing; it must be a string; there is no field lines";
        "```tool nothing\n```", "block 2 failed: there is no tool `nothing`";
    } {
        let prompt = format!("```sh\necho one\n```\n{block}\n```sh\nnever\n```\n");
        let (outcome, recorder) = run(&prompt, &shell_of_tests()).await;
        assert!(failed(&outcome).starts_with(error), "{}", failed(&outcome));
        assert_eq!(recorder.data("tool_end").len(), 2);
    }
}

#[tokio::test]
async fn a_mistake_in_the_runbook_is_found_before_anything_runs() {
    let (outcome, recorder) = run("```sh\necho one\n```\n```wait soon\n```\n", &untouched()).await;
    assert!(failed(&outcome).starts_with("line 4: a `wait` block takes milliseconds"));
    assert!(recorder.kinds().is_empty());
}

#[tokio::test]
async fn without_shell_a_command_block_fails_with_a_clear_message() {
    let denied = spec("```sh\nls\n```").without_shell();
    let recorder = play(denied, &*model())
        .await
        .fails("block 1 needs the shell, which is off for this run (shell: false)");
    assert!(recorder.kinds().is_empty());
    let denied = RunSpec {
        shell: Shell::Denied,
        ..spec("```tool list_files\n{}\n```")
    };
    play_in(denied, &*model(), &untouched(), &[("a", "1")])
        .await
        .succeeds("a (1 bytes)\n");
}

#[tokio::test(start_paused = true)]
async fn wait_blocks_wait_where_they_stand() {
    let began = Instant::now();
    let prompt = "```wait 1500\n```\n```sh\nsilent\n```\n```wait 500\n```\n";
    let (outcome, recorder) = run(prompt, &shell_of_tests()).await;
    assert_eq!(succeeded(&outcome), "");
    assert!(began.elapsed() >= Duration::from_secs(2));
    let took: Vec<Value> = recorder
        .data("model_call")
        .iter()
        .map(|call| call["duration_ms"].clone())
        .collect();
    assert!(
        took[0].as_u64() >= Some(1_500) && took[1].as_u64() >= Some(500),
        "{took:?}"
    );
    play(spec("```wait 10\n```"), &*model())
        .await
        .succeeds("```wait 10\n```");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_cut_off_books_no_tokens_of_a_cache() {
    let mut spec = spec("```wait 600000\n```\n```sh\nsilent\n```\n");
    spec.budget.compute_micros_per_second = Micros::new(30).unwrap();
    spec.budget.max_cost = Micros::new(600).unwrap();
    let recorder = play_in(spec, &*model(), &shell_of_tests(), &[])
        .await
        .fails("budget exhausted: $0.0006 of $0.0006 spent");
    let call = &recorder.data("model_call")[0];
    assert_eq!(
        (&call["cache_read_tokens"], &call["cache_write_tokens"]),
        (&json!(0), &json!(0))
    );
    assert!(call["input_tokens"].as_u64() > Some(0), "{call}");
}

#[tokio::test]
async fn an_output_longer_than_the_answer_limit_is_whole_at_its_head() {
    const LIMIT: usize = 1024 * 1024;
    let backend = Pretended::new(&["bash"], |_| {
        Does::Print(StreamOutput {
            head: vec![b'h'; 2 * LIMIT],
            tail: vec![b't'; 2 * LIMIT],
            total_bytes: 10 * LIMIT as u64,
            total_lines: 0,
        })
    });
    let (outcome, _) = run("```sh\nyes\n```", &backend).await;
    assert_eq!(backend.commands()[0].keep_bytes, 4 * LIMIT);
    let output = succeeded(&outcome);
    assert!(output[..2 * LIMIT].bytes().all(|byte| byte == b'h') && output.ends_with('t'));
}

#[tokio::test]
async fn the_answer_is_checked_against_the_schema_and_stays_the_same() {
    let schema = json!({"type": "object", "required": ["n"]});
    let (outcome, _) = run_in(
        with_schema("```answer\n{\"n\": 1}\n```", &schema),
        &*model(),
        &untouched(),
        &[],
    )
    .await;
    assert_eq!(succeeded(&outcome), "{\"n\": 1}");
    let (outcome, recorder) = run_in(with_schema("{\"m\": 1}", &schema), &*model(), &untouched(), &[]).await;
    assert_eq!(
        failed(&outcome),
        "output does not match output_schema: output.n: required"
    );
    assert_eq!(recorder.data("output_rejected").len(), 3);
}
