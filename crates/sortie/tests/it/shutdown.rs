//! A node that is told to stop (decisions 6).

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;
use sortie_api::RunStatus;
use sortie_testkit::{Database, NodeOptions, client::Next};

use crate::{
    Checked, both_databases,
    kit::{assert_resumed, at_work, finals, of_kind, plain},
    node, node_with,
};

both_databases![
    a_run_that_ends_within_the_grace_is_finished,
    a_run_that_outlasts_the_grace_goes_on_after_the_restart,
    waiting_runs_stay_queued_and_go_on_after_the_restart,
];

#[tokio::test]
async fn an_idle_node_stops_at_once() -> Checked {
    let mut node = node(Database::Sqlite).await?;
    let begun = Instant::now();
    node.stop().await?;
    ensure!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    Ok(())
}

async fn a_run_that_ends_within_the_grace_is_finished(database: Database) -> Checked {
    let mut node = node(database).await?;
    let client = node.client()?;
    let run = client
        .create(&json!({"prompt": "```wait 700\n```\n```sh\necho made it\n```\n"}))
        .await?;
    let id = run.id.to_string();
    client
        .follow(&id, None)
        .await?
        .until_status(RunStatus::Running)
        .await?;
    node.stop().await?;
    node.restart().await?;
    let (events, run) = node.client()?.finished(&id).await?;
    assert_eq!(
        (run.status, run.output.as_deref()),
        (RunStatus::Succeeded, Some("made it\n"))
    );
    assert_eq!(finals(&events), 1);
    Ok(())
}

async fn a_run_that_outlasts_the_grace_goes_on_after_the_restart(database: Database) -> Checked {
    let options = NodeOptions::default().env("SORTIE_SHUTDOWN_GRACE_SECONDS", "1");
    let mut node = node_with(database, options).await?;
    let client = node.client()?;
    let prompt = "```sh\necho kept > note; echo begun\n```\n```wait 2500\n```\n```sh\ncat note\n```\n";
    let id = client.create(&json!({"prompt": prompt})).await?.id.to_string();
    let mut stream = client.follow(&id, None).await?;
    stream.until(|event| event.kind == "tool_end").await?;
    let begun = Instant::now();
    node.terminate()?;
    // The stream is closed without an end; it never keeps the node.
    while matches!(stream.next().await, Ok(Next::Event(_))) {}
    ensure!(node.ended().await?.success());
    ensure!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    node.restart().await?;
    let (events, run) = node.client()?.finished(&id).await?;
    assert_eq!(
        (run.status, run.output.as_deref()),
        (RunStatus::Succeeded, Some("kept\n"))
    );
    assert_resumed(&events, 1);
    Ok(())
}

/// A run that a node hands over goes on on another one, without waiting for a lease.
#[tokio::test]
async fn a_run_that_outlasts_the_grace_goes_on_elsewhere() -> Checked {
    let options = NodeOptions::default().env("SORTIE_SHUTDOWN_GRACE_SECONDS", "0");
    let mut first = node_with(Database::Postgres, options).await?;
    let client = first.client()?;
    let run = client
        .create(&json!({"prompt": "```wait 2000\n```\nmoved"}))
        .await?;
    let id = run.id.to_string();
    client
        .follow(&id, None)
        .await?
        .until_status(RunStatus::Running)
        .await?;
    let second = first.beside().await?;
    let client = second.client()?;
    let mut stream = client.follow(&id, None).await?;
    first.stop().await?;
    let stopped = Instant::now();
    stream.until(|event| event.kind == "resumed").await?;
    ensure!(
        stopped.elapsed() < Duration::from_secs(5),
        "{:?} after the other node had stopped",
        stopped.elapsed()
    );
    assert_eq!(client.finished(&id).await?.1.status, RunStatus::Succeeded);
    Ok(())
}

async fn waiting_runs_stay_queued_and_go_on_after_the_restart(database: Database) -> Checked {
    let options = NodeOptions::default()
        .env("SORTIE_CONCURRENCY", "1")
        .env("SORTIE_SHUTDOWN_GRACE_SECONDS", "1");
    let mut node = node_with(database, options).await?;
    let client = node.client()?;
    let at_work = at_work(&client).await?.id.to_string();
    let waiting = client.create(&plain("later")).await?;
    let id = waiting.id.to_string();
    let mut stream = client.follow(&id, None).await?;
    stream.until_status(RunStatus::Queued).await?;
    node.terminate()?;
    let next = stream.next().await;
    ensure!(
        matches!(next, Ok(Next::Closed) | Err(_)),
        "the stream of a waiting run went on: {next:?}"
    );
    ensure!(node.ended().await?.success());
    node.restart().await?;
    // It has the only place again.
    node.client()?.cancel(&at_work).await?;
    let (events, run) = node.client()?.finished(&id).await?;
    assert_eq!(
        (run.status, run.output.as_deref()),
        (RunStatus::Succeeded, Some("later"))
    );
    assert_eq!(of_kind(&events, "worker_started").len(), 1);
    Ok(())
}
