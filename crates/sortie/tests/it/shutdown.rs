//! A node that is told to stop (decisions 6).

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;
use sortie_api::RunStatus;
use sortie_testkit::{
    Database, NodeOptions,
    client::{Next, data},
};

use crate::{
    Checked, both_databases,
    kit::{at_work, finals, of_kind, plain},
    node, node_with,
};

both_databases![
    a_run_that_ends_within_the_grace_is_finished,
    a_run_that_outlasts_the_grace_is_interrupted,
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

async fn a_run_that_outlasts_the_grace_is_interrupted(database: Database) -> Checked {
    let options = NodeOptions::default().env("SORTIE_SHUTDOWN_GRACE_SECONDS", "1");
    let mut node = node_with(database, options).await?;
    let client = node.client()?;
    let id = at_work(&client).await?.id.to_string();
    let mut stream = client.follow(&id, None).await?;
    let begun = Instant::now();
    node.terminate()?;
    // The stream is told the end of the run, or is closed; it never keeps the node.
    while matches!(stream.next().await, Ok(Next::Event(_))) {}
    ensure!(node.ended().await?.success());
    ensure!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    node.restart().await?;
    let (events, run) = node.client()?.finished(&id).await?;
    assert_eq!(run.status, RunStatus::Interrupted);
    ensure!(run.error.is_some() && run.finished_at.is_some(), "{run:?}");
    assert_eq!(data(of_kind(&events, "interrupted")[0])["reason"], "shutdown");
    assert_eq!(finals(&events), 1);
    // Contract part 3: cancel leaves an interrupted run as it is.
    assert_eq!(node.client()?.cancel(&id).await?, run);
    Ok(())
}

async fn waiting_runs_stay_queued_and_go_on_after_the_restart(database: Database) -> Checked {
    let options = NodeOptions::default()
        .env("SORTIE_CONCURRENCY", "1")
        .env("SORTIE_SHUTDOWN_GRACE_SECONDS", "1");
    let mut node = node_with(database, options).await?;
    let client = node.client()?;
    at_work(&client).await?;
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
    let (events, run) = node.client()?.finished(&id).await?;
    assert_eq!(
        (run.status, run.output.as_deref()),
        (RunStatus::Succeeded, Some("later"))
    );
    assert_eq!(of_kind(&events, "worker_started").len(), 1);
    Ok(())
}
