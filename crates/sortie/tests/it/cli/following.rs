//! Commands that follow, print and explain a run.

use std::sync::Arc;

use axum::{Router, body::Body, http::header, response::Response, routing::post};
use futures_util::{StreamExt as _, stream};
use sortie_testkit::{model::Turn, serve::Serving};
use tokio::sync::Notify;

use super::{alone, pseudo_terminal::OnTerminal};
use crate::{
    prelude::*,
    sharing::{Rig, folder_for},
};

/// Returns the widest line that a terminal got, in characters.
fn widest(shown: &str) -> usize {
    let lines = shown.split(['\r', '\n']);
    lines.map(|line| line.chars().count()).max().unwrap_or_default()
}

/// Starts a model server that writes some words and waits before it ends its answer.
async fn slow_writer(end: Arc<Notify>) -> Result<Serving> {
    let answer = move || {
        let end = Arc::clone(&end);
        async move {
            let chunk = |delta: Value, reason: Value| {
                let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
                let chunk = json!({"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "scripted",
                    "choices": [choice]});
                format!("data: {chunk}\n\n")
            };
            let words = chunk(
                json!({"role": "assistant", "content": "The first words"}),
                Value::Null,
            );
            let last = chunk(json!({}), json!("stop")) + "data: [DONE]\n\n";
            let rest = stream::once(async move {
                end.notified().await;
                Ok::<_, std::io::Error>(last)
            });
            Response::builder()
                .header(header::CONTENT_TYPE, "text/event-stream")
                .body(Body::from_stream(stream::once(async { Ok(words) }).chain(rest)))
                .unwrap()
        }
    };
    let router = Router::new().route("/v1/chat/completions", post(answer));
    Ok(Serving::start(router).await?)
}

/// `docs/CLI-RUNS.md#follow-a-run`: the text of the model is there before the model has ended it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_is_shown_while_the_model_writes_it() -> Checked {
    let end = Arc::new(Notify::new());
    let model = slow_writer(Arc::clone(&end)).await?;
    let folder = folder_for(&format!("http://{}/v1", model.address()))?;
    let mut command = alone(folder.path(), &["run", "Go.", "--no-shell"]);
    command.env_remove("SORTIE_DEFAULT_MODEL").env("NO_COLOR", "1");
    let mut run = OnTerminal::start(command, 60)?;
    run.until("  The first words")?;
    end.notify_one();
    let (code, shown) = run.end()?;
    assert_eq!(code, Some(0), "{shown}");
    assert_contains!(shown, "thinking · $0.00 of $", "The first words\r\n✓ succeeded");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_output_of_a_command_is_shown_while_it_runs() -> Checked {
    let node = node(Database::Sqlite).await?;
    let endless = "```sh\nwhile true; do echo tick; sleep 0.1; done\n```\n";
    let mut run = OnTerminal::start(node.sortie(&["run", endless]), 100)?;
    run.until("  tick")?;
    run.until("· shell ·")?;
    let client = node.client()?;
    let id = client.list("status=running").await?[0].id.to_string();
    let mut logs = OnTerminal::start(node.sortie(&["runs", "logs", "-f", &id]), 60)?;
    logs.until("tick")?;
    let mut watch = OnTerminal::start(node.sortie(&["runs", "watch", &id]), 60)?;
    watch.until("echo tick")?;
    watch.interrupt()?;
    assert_eq!(watch.end()?.0, Some(130));
    let why = said(&node, &["runs", "why", &id])?;
    assert_contains!(why, "which has not ended", &format!("sortie runs watch {id}"));
    assert_eq!(client.cancel(&id).await?.status, RunStatus::Cancelled);
    assert_eq!(run.end()?.0, Some(3));
    let (code, printed) = logs.end()?;
    assert_eq!(code, Some(0));
    ensure!(
        printed.lines().all(|line| line.is_empty() || line == "tick"),
        "{printed}"
    );
    Ok(())
}

/// `docs/CLI-RUNS.md#what-a-run-did`: the transcript is data, so a pipe gets it.
#[tokio::test]
async fn a_run_is_printed_and_explained_after_its_end() -> Checked {
    let node = node(Database::Sqlite).await?;
    let prompt = "```sh\necho first\n```\n```sh\necho second >&2; exit 7\n```\n";
    exits(node.sortie(&["run", prompt]), 1)?;
    let id = node.client()?.list("").await?[0].id.to_string();
    let events = exits(node.sortie(&["runs", "events", &id]), 0)?;
    assert_contains!(events.stdout, "$ echo first", "second", "✗ failed after");
    assert_eq!(text(&events.stderr), "");
    for arguments in [&["runs", "logs", &id][..], &["runs", "logs", "--follow", &id]] {
        assert_eq!(said(&node, arguments)?, "first\nsecond\n");
    }
    let why = said(&node, &["runs", "why", &id])?;
    assert_contains!(why, "failed after", "exit 7", &format!("sortie runs replay {id}"));
    assert_eq!(
        json_said(&node, &["runs", "why", &id, "--json"])?["status"],
        "failed"
    );
    let watch = exits(node.sortie(&["runs", "watch", &id]), 1)?;
    assert_contains!(watch.stderr, "✗ failed after");
    Ok(())
}

#[tokio::test]
async fn a_quiet_run_prints_its_answer_or_its_error() -> Checked {
    let node = node(Database::Sqlite).await?;
    let output = exits(node.sortie(&["run", "-q", "```sh\necho fine\n```\n"]), 0)?;
    assert_eq!(
        (text(&output.stdout), text(&output.stderr)),
        ("fine\n".to_owned(), String::new())
    );
    let output = exits(node.sortie(&["run", "-q", "```sh\nexit 7\n```\n"]), 1)?;
    assert_eq!(text(&output.stdout), "");
    let error = text(&output.stderr);
    ensure!(
        error.starts_with("sortie: run_") && error.contains(" failed: ") && error.lines().count() == 1,
        "{error}"
    );
    Ok(())
}

/// A person is asked before the name of a command starts a run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_name_of_a_command_is_asked_about() -> Checked {
    let rig = Rig::start([Turn::says(["A list."])]).await?;
    for (keys, code, part) in [("n\n", 64, "use `sortie runs list`"), ("y\n", 0, "A list.")] {
        let mut run = OnTerminal::start(rig.command(&["run", "list", "--no-shell"]), 100)?;
        run.until("Did you mean `sortie runs list`?")?;
        run.keys(keys)?;
        let (ended, shown) = run.end()?;
        assert_eq!(ended, Some(code), "{shown}");
        assert_contains!(shown, part);
    }
    Ok(())
}

/// Long words, wide characters and colours fit every width.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transcript_fits_its_terminal() -> Checked {
    let node = node(Database::Sqlite).await?;
    let prompt = format!(
        "```sh\necho {}; echo {}\n```\n",
        "word ".repeat(60),
        "x".repeat(300)
    );
    exits(node.sortie(&["run", &prompt]), 0)?;
    let id = node.client()?.list("").await?[0].id.to_string();
    for columns in [60, 100, 200] {
        let watch = OnTerminal::start(node.sortie(&["runs", "watch", &id]), columns)?;
        let (code, shown) = watch.end()?;
        assert_eq!(code, Some(0), "{shown}");
        let (transcript, _) = shown.split_once("✓").context("no end")?;
        ensure!(
            widest(transcript) <= usize::from(columns),
            "{columns}: {transcript}"
        );
    }
    Ok(())
}
