//! `sortie run --each`, and requests from files.

use std::{fs, path::Path, process::Stdio};

use super::{alone, kill};
use crate::prelude::*;

fn files(folder: &Path, count: usize) -> Checked {
    for n in 0..count {
        fs::write(folder.join(format!("doc{n}.txt")), format!("{n}\n"))?;
    }
    Ok(())
}

/// `docs/CLI-RUNS.md#a-batch-of-files`: without an engine, all runs share the one that the command starts.
#[tokio::test]
async fn each_file_has_its_run_and_its_line() -> Checked {
    let folder = tempfile::tempdir()?;
    files(folder.path(), 5)?;
    let data = folder.path().join("data");
    let prompt = "```sh\nset -e\ntest $(ls *.txt | wc -l) = 1\ncat *.txt\n```\n";
    let mut command = alone(&data, &["run", prompt, "--each", "doc*.txt", "--jobs", "2"]);
    command.current_dir(folder.path());
    let output = exits(command, 0)?;
    let lines = text(&output.stdout);
    assert_eq!(lines.lines().count(), 5, "{lines}");
    for n in 0..5 {
        let line = lines.lines().find(|line| line.contains(&format!("doc{n}.txt")));
        let line = line.context("a file has no line")?;
        ensure!(
            line.starts_with("succeeded    doc") && line.ends_with(&format!("  {n}")),
            "{line}"
        );
    }
    assert_contains!(output.stderr, "5 of 5 files: 5 succeeded · $0.00 · ");
    Ok(())
}

#[tokio::test]
async fn a_batch_has_the_worst_exit_code_and_lines_of_json() -> Checked {
    let node = node(Database::Sqlite).await?;
    files(node.data_dir(), 3)?;
    let pattern = node.data_dir().join("doc*.txt").display().to_string();
    let prompt = "```sh\nread n <$(ls *.txt)\ntest $n != 1\n```\n";
    let output = exits(node.sortie(&["run", prompt, "--json", "--each", &pattern]), 1)?;
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    assert_eq!(lines.len(), 3);
    for line in &lines {
        let file = line["file"].as_str().unwrap_or_default();
        let status = if file.ends_with("doc1.txt") {
            "failed"
        } else {
            "succeeded"
        };
        assert_eq!(line["run"]["status"], status, "{line}");
    }
    assert_contains!(output.stderr, "3 of 3 files: 1 failed, 2 succeeded");
    assert_eq!(node.client()?.list("").await?.len(), 3);
    Ok(())
}

/// A refusal that every run would get ends the batch; one about a file does not.
#[tokio::test]
async fn a_file_that_cannot_be_sent_does_not_end_a_batch_and_a_refused_key_does() -> Checked {
    let node = node(Database::Sqlite).await?;
    files(node.data_dir(), 2)?;
    fs::write(node.data_dir().join("doc\u{7}.txt"), "a name that no run takes")?;
    let pattern = node.data_dir().join("doc*.txt").display().to_string();
    let batch = || node.sortie(&["run", "hello", "--no-shell", "--jobs", "1", "--each", &pattern]);
    let output = exits(batch(), 64)?;
    assert_eq!(text(&output.stdout).lines().count(), 3, "{output:?}");
    assert_contains!(output.stdout, "not started  ");
    assert_contains!(output.stderr, "2 succeeded, 1 not started");

    let mut command = batch();
    command.env(
        "SORTIE_API_KEY",
        sortie_api::secret::Secret::new("sts_", [3; 32]).expose(),
    );
    let output = exits(command, 77)?;
    assert_eq!(text(&output.stdout).lines().count(), 1, "{output:?}");
    assert_contains!(output.stderr, "1 of 3 files: 3 not started");
    Ok(())
}

#[tokio::test]
async fn an_interrupt_cancels_the_runs_of_a_batch_and_starts_no_more() -> Checked {
    let node = node(Database::Sqlite).await?;
    files(node.data_dir(), 5)?;
    let pattern = node.data_dir().join("doc*.txt").display().to_string();
    let mut command = node.sortie(&["run", "```wait 60000\n```\n", "--jobs", "2", "--each", &pattern]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let client = node.client()?;
    while client.list("status=running").await?.len() < 2 {}
    exits(kill(i32::try_from(child.id())?, "-INT"), 0)?;
    let output = tokio::task::spawn_blocking(|| child.wait_with_output()).await??;
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_contains!(output.stderr, "2 of 5 files: 2 cancelled, 3 not started");
    assert_eq!(client.list("status=cancelled").await?.len(), 2);
    Ok(())
}

/// `docs/CLI-RUNS.md#the-whole-request-in-a-file`
#[tokio::test]
async fn a_request_from_a_file_and_the_flags_are_one_run() -> Checked {
    let node = node(Database::Sqlite).await?;
    let request = node.data_dir().join("run.yaml");
    fs::write(
        &request,
        "prompt: |\n  ```sh\n  cat input.json note.txt\n  ```\ndescription: from the file\ntags: [file]\n\
         files: [{path: note.txt, content: from the file}]\n",
    )?;
    let path = request.display().to_string();
    let list = node.data_dir().join("list");
    fs::write(&list, "piped")?;
    let mut command = node.sortie(&[
        "run",
        "--request",
        &path,
        "--tag",
        "flag",
        "--metadata",
        "team=sales",
        "--description",
        "from the flag",
        "--json",
    ]);
    command.stdin(fs::File::open(&list)?);
    let output = text(&exits(command, 0)?.stdout);
    let run: Value = serde_json::from_str(output.lines().last().unwrap_or_default())?;
    assert_has!(run, {"status": "succeeded", "title": "from the flag", "tags": ["flag"],
        "metadata": {"team": "sales"}, "output": "\"piped\"from the file"});
    // A request on standard input.
    let mut command = node.sortie(&["run", "--request", "-"]);
    fs::write(&list, r#"{"prompt": "from standard input", "shell": false}"#)?;
    command.stdin(fs::File::open(&list)?);
    assert_eq!(text(&exits(command, 0)?.stdout).trim_end(), "from standard input");
    Ok(())
}

/// `docs/CLI-RUNS.md#start-a-run`: the same key is the same run, and the rest of the flags reaches the engine.
#[tokio::test]
async fn a_key_makes_one_run_and_wrong_flags_name_their_field() -> Checked {
    let node = node(Database::Sqlite).await?;
    let once = [
        "run",
        "hello",
        "--idempotency-key",
        "order 7",
        "--quiet",
        "--instructions",
        "Be brief.",
    ];
    for _ in 0..2 {
        let output = exits(node.sortie(&once), 0)?;
        assert_eq!(
            (text(&output.stdout).trim_end(), text(&output.stderr).as_str()),
            ("hello", "")
        );
    }
    assert_eq!(node.client()?.list("").await?.len(), 1);
    for (arguments, told) in rows! {
        &["run", "x", "--connection", "nothing"][..], "connections.nothing";
        &["run", "x", "--web-allow", "not a domain"], "web.allow";
        &["run", "x", "--metadata", "no pair"], "KEY=VALUE";
        &["run", "x", "--input-schema", "{}", "--input", "{"], "--input: not JSON";
        &["run", "x", "--callback", "https://example.com"], "--callback-secret-env";
        &["run", "--continue"], "--continue is reserved";
        &["run", "list"], "sortie run -- 'list'";
    } {
        let output = exits(node.sortie(arguments), 64)?;
        assert_contains!(output.stderr, told);
    }
    let mut command = node.sortie(&["run", "--no-shell"]);
    command.args(["--", "list"]);
    assert_eq!(text(&exits(command, 0)?.stdout).trim_end(), "list");
    Ok(())
}
