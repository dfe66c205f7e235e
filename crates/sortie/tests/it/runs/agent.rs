//! Features of a run: commands, files, input, time, and answers of any length.

use crate::prelude::*;

both_databases![
    commands_run_one_after_another_in_one_directory,
    an_answer_beyond_one_mebibyte_is_cut_and_said_to_be,
    a_run_is_timed_out_when_its_time_is_over,
];

async fn commands_run_one_after_another_in_one_directory(database: Database) -> Checked {
    let node = node(database).await?;
    let request = commands(&["mkdir out && printf 'a\\nb\\n' > out/list", "wc -l < out/list"]);
    let (events, run) = node.client()?.complete(&request).await?;
    assert_eq!((run.status, run.error.as_deref()), (RunStatus::Succeeded, None));
    assert_eq!(run.output.as_deref().map(str::trim), Some("2"));
    let (starts, ends) = (of_kind(&events, "tool_start"), of_kind(&events, "tool_end"));
    assert_eq!((starts.len(), ends.len()), (2, 2), "{:?}", kinds(&events));
    for (start, end) in starts.iter().zip(&ends) {
        let (start, end) = (data(start), data(end));
        assert_eq!(start["tool"], "shell");
        assert_eq!(start["id"], end["id"]);
        assert!(start["arguments"].is_object(), "{start}");
        assert_eq!(end["is_error"], false);
        assert!(
            end["output"].is_string() && end["output_bytes"].is_u64() && end["duration_ms"].is_u64(),
            "{end}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn files_and_input_are_in_the_working_directory() -> Checked {
    let node = node(Database::Sqlite).await?;
    let mut request = commands(&["cat data/sales.csv input.json", "test \"$(pwd)\" != /"]);
    request["files"] = json!([{"path": "data/sales.csv", "content": "region,sum\nnörd,3\n"}]);
    request["input"] = json!({"year": 2026});
    let blocks = request["prompt"].as_str().unwrap_or_default();
    request["prompt"] = format!("{blocks}```answer\n{{{{1}}}}\n```\n").into();
    let (_, run) = node.client()?.complete(&request).await?;
    assert_eq!((run.status, run.error.as_deref()), (RunStatus::Succeeded, None));
    let output = run.output.unwrap_or_default();
    assert_contains!(output, "region,sum\nnörd,3\n", r#"{"year":2026}"#);
    Ok(())
}

/// `docs/MODELS.md#the-offline-model`.
#[tokio::test]
async fn a_command_that_fails_ends_the_run_as_failed_with_its_last_words() -> Checked {
    let node = node(Database::Sqlite).await?;
    let request = commands(&[
        "true",
        "echo first >&2; echo 'no such region' >&2; exit 3",
        "echo never",
    ]);
    let (events, run) = node.client()?.complete(&request).await?;
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(
        run.error.as_deref(),
        Some("block 2 exited with status 3: no such region")
    );
    assert_eq!(run.output, None);
    assert_eq!(of_kind(&events, "tool_start").len(), 2, "block 3 ran as well");
    let last = events.last().map(data).unwrap_or_default();
    assert_eq!(last["error"], "block 2 exited with status 3: no such region");
    Ok(())
}

/// `docs/RUNS.md#fields-of-a-request`: `shell`.
#[tokio::test]
async fn a_run_without_shell_runs_no_command_and_writes_no_file() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let write = json!({"prompt": "```tool write_file\n{\"path\": \"a\", \"content\": \"b\"}\n```\n"});
    for (mut request, tools) in [(commands(&["echo hello"]), 0), (write, 1)] {
        request["shell"] = false.into();
        let (events, run) = client.complete(&request).await?;
        assert_eq!(run.status, RunStatus::Failed, "{run:?}");
        assert_eq!(data(of_kind(&events, "worker_started")[0])["shell"], false);
        let ends = of_kind(&events, "tool_end");
        assert_eq!(ends.len(), tools, "{events:?}");
        for end in ends.into_iter().map(data) {
            assert_eq!(end["is_error"], true);
            let output = end["output"].as_str().unwrap_or_default();
            assert!(output.starts_with("there is no tool"), "{end}");
        }
    }
    let mut reading = json!({"prompt": "```tool read_file\n{\"path\": \"note\"}\n```\n", "shell": false});
    reading["files"] = json!([{"path": "note", "content": "still readable"}]);
    let (_, run) = client.complete(&reading).await?;
    assert_eq!((run.status, run.error), (RunStatus::Succeeded, None));
    assert!(run.output.unwrap_or_default().contains("still readable"));
    Ok(())
}

/// `docs/RUNS.md#fields-of-a-run`: `output`, and the event `output_truncated`.
async fn an_answer_beyond_one_mebibyte_is_cut_and_said_to_be(database: Database) -> Checked {
    let node = node(database).await?;
    // The first byte shifts every two-byte character across the limit.
    let mut prompt = "```sh\nprintf 'ä%.0s' $(seq 4096)\n```\n```answer\nx".to_owned();
    prompt.push_str(&"{{1}}".repeat(150));
    prompt.push_str("\n```\n");
    let (events, run) = node.client()?.complete(&json!({"prompt": prompt})).await?;
    assert_eq!((run.status, run.error.as_deref()), (RunStatus::Succeeded, None));
    let output = run.output.unwrap_or_default();
    assert_eq!(
        output.len(),
        1024 * 1024 - 1,
        "cut at the limit, on a whole character"
    );
    assert!(output.starts_with("xä") && output.ends_with('ä'));
    let truncated = of_kind(&events, "output_truncated");
    assert_eq!(truncated.len(), 1);
    let truncated = data(truncated[0]);
    assert_eq!(truncated["limit_bytes"], 1024 * 1024);
    assert!(
        truncated["output_bytes"].as_u64() >= Some(150 * 8192),
        "{truncated}"
    );
    assert_eq!(data(of_kind(&events, "result")[0])["output"], output);
    Ok(())
}

#[tokio::test]
async fn an_answer_of_exactly_one_mebibyte_is_whole() -> Checked {
    let node = node(Database::Sqlite).await?;
    let answer = "{{1}}".repeat(128);
    let prompt = format!("```sh\nprintf 'y%.0s' $(seq 8192)\n```\n```answer\n{answer}\n```\n");
    let (events, run) = node.client()?.complete(&json!({"prompt": prompt})).await?;
    let length = run.output.unwrap_or_default().len();
    assert_eq!(length, 1024 * 1024);
    assert!(of_kind(&events, "output_truncated").is_empty());
    Ok(())
}

/// `docs/RUNS.md#fields-of-a-request`, `timeout_seconds`: for a run that waits and for one in a command.
async fn a_run_is_timed_out_when_its_time_is_over(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let prompts = ["```wait 60000\n```\n", "```sh\nsleep 60\n```\n"];
    let (mut timely, mut times) = (0, Vec::new());
    // A busy host is sometimes late: each prompt has two more tries.
    while timely < prompts.len() {
        assert!(times.len() < 6, "{times:?}");
        let (events, run) = client
            .complete(&json!({"prompt": prompts[timely], "timeout_seconds": 1}))
            .await?;
        assert_eq!(run.status, RunStatus::TimedOut, "{run:?}");
        assert_contains!(run.error, '1');
        let (started, finished) = (run.started_at.unwrap_or(run.created_at), run.finished_at);
        let took = finished
            .map(|finished| finished.since(started))
            .unwrap_or_default();
        assert!(took >= Duration::from_secs(1), "{took:?}");
        timely += usize::from(took < Duration::from_secs(3));
        times.push(took);
        assert_eq!(statuses(&events).last(), Some(&RunStatus::TimedOut));
    }
    Ok(())
}
