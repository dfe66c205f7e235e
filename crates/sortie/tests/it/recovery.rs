//! What a node that is killed leaves behind, and what becomes of it (decisions 2; contract part 3).

mod calls;
mod durability;

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::{Value, json};
use sortie_api::RunStatus;
use sortie_testkit::{
    Database, NodeOptions,
    client::{data, kinds},
    http::HeaderValue,
};

use crate::{
    Checked, both_databases,
    kit::{assert_resumed, at_work, finals, of_kind, plain, unsettled},
    node, node_with,
};

both_databases![
    a_restart_goes_on_at_once_with_the_runs_its_predecessor_lost,
    a_run_goes_on_from_its_last_completed_step_in_its_directory,
    a_run_is_resumed_three_times_and_then_ended,
    waiting_runs_survive_a_kill,
    everything_acknowledged_is_there_after_a_kill,
];

async fn a_restart_goes_on_at_once_with_the_runs_its_predecessor_lost(database: Database) -> Checked {
    let mut node = node(database).await?;
    let id = at_work(&node.client()?).await?.id.to_string();
    node.kill()?;
    node.restart().await?;
    let begun = Instant::now();
    let client = node.client()?;
    let mut stream = client.follow(&id, None).await?;
    stream.until(|event| event.kind == "resumed").await?;
    ensure!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?} after the node was ready",
        begun.elapsed()
    );
    assert_eq!(client.run(&id).await?.status, RunStatus::Running);
    client.cancel(&id).await?;
    let (events, _) = client.finished(&id).await?;
    assert_resumed(&events, 1);
    // The node works on as if nothing had been.
    let (_, next) = client.complete(&plain("next")).await?;
    assert_eq!(next.status, RunStatus::Succeeded);
    Ok(())
}

async fn a_run_goes_on_from_its_last_completed_step_in_its_directory(database: Database) -> Checked {
    let mut node = node(database).await?;
    let prompt = "```sh\necho once >> log; echo 1\n```\n```sh\necho twice >> log; echo 2\n```\n\
                  ```wait 700\n```\n```sh\ncat log\n```\n";
    let client = node.client()?;
    let id = client.create(&json!({"prompt": prompt})).await?.id.to_string();
    let mut stream = client.follow(&id, None).await?;
    stream
        .until(|event| event.kind == "tool_end" && data(event)["id"] == "block_2")
        .await?;
    node.kill()?;
    node.restart().await?;
    let (events, run) = node.client()?.finished(&id).await?;
    assert_eq!(
        (run.status, run.output.as_deref()),
        (RunStatus::Succeeded, Some("once\ntwice\n"))
    );
    assert_resumed(&events, 1);
    assert_eq!(data(of_kind(&events, "resumed")[0])["step"], 2);
    let done: Vec<Value> = of_kind(&events, "tool_end")
        .into_iter()
        .map(|event| data(event)["id"].clone())
        .collect();
    assert_eq!(done, ["block_1", "block_2", "block_3"]);
    Ok(())
}

async fn a_run_is_resumed_three_times_and_then_ended(database: Database) -> Checked {
    let mut node = node(database).await?;
    let id = at_work(&node.client()?).await?.id.to_string();
    for attempt in 2..=4 {
        node.kill()?;
        node.restart().await?;
        let mut stream = node.client()?.follow(&id, None).await?;
        stream
            .until(|event| event.kind == "resumed" && data(event)["attempt"] == attempt)
            .await?;
    }
    node.kill()?;
    node.restart().await?;
    let (events, run) = node.client()?.finished(&id).await?;
    assert_eq!(run.status, RunStatus::Interrupted);
    ensure!(
        run.error
            .as_deref()
            .is_some_and(|error| error.contains("resumed 3 times"))
            && run.finished_at.is_some()
            && !run.billing_pending,
        "{run:?}"
    );
    assert_resumed(&events, 3);
    assert_eq!(data(of_kind(&events, "interrupted")[0])["reason"], "worker_lost");
    // Contract part 3: cancel leaves an interrupted run as it is.
    assert_eq!(node.client()?.cancel(&id).await?, run);
    Ok(())
}

async fn waiting_runs_survive_a_kill(database: Database) -> Checked {
    let mut node = node_with(database, NodeOptions::default().env("SORTIE_CONCURRENCY", "1")).await?;
    let client = node.client()?;
    let at_work = at_work(&client).await?.id.to_string();
    let mut waiting = Vec::new();
    for n in 0..5 {
        waiting.push(client.create(&plain(&n.to_string())).await?.id.to_string());
    }
    node.kill()?;
    node.restart().await?;
    // It has the only place again.
    node.client()?.cancel(&at_work).await?;
    for (n, id) in waiting.iter().enumerate() {
        let (events, run) = node.client()?.finished(id).await?;
        assert_eq!(
            (run.status, run.output),
            (RunStatus::Succeeded, Some(n.to_string()))
        );
        assert_eq!(of_kind(&events, "worker_started").len(), 1);
    }
    Ok(())
}

async fn everything_acknowledged_is_there_after_a_kill(database: Database) -> Checked {
    let mut node = node(database).await?;
    let client = node
        .client()?
        .with_header("idempotency-key", HeaderValue::from_static("order 7"));
    let (events, run) = client.complete(&plain("kept")).await?;
    let definition = client
        .get(&format!("/v1/runs/{}/definition", run.id))
        .await?
        .text();
    node.kill()?;
    node.restart().await?;
    let client = node
        .client()?
        .with_header("idempotency-key", HeaderValue::from_static("order 7"));
    let (again, same) = client.finished(&run.id.to_string()).await?;
    assert_eq!((kinds(&again), &same), (kinds(&events), &run));
    assert_eq!(
        client
            .get(&format!("/v1/runs/{}/definition", run.id))
            .await?
            .text(),
        definition
    );
    let replayed: sortie_api::Run = client
        .post("/v1/runs", &plain("other"))
        .await?
        .expect(200)?
        .read()?;
    assert_eq!(replayed, run);
    Ok(())
}

/// Decisions 2 and the lease: another node goes on with the runs of one that is gone within 15 seconds.
#[tokio::test]
async fn another_node_goes_on_with_the_runs_of_a_lost_one_within_15_seconds() -> Checked {
    let mut first = node(Database::Postgres).await?;
    let client = first.client()?;
    let mut ids = Vec::new();
    for n in 0..4 {
        let prompt = format!("```wait 3000\n```\n```answer\n{n}\n```\n");
        let id = client.create(&json!({"prompt": prompt})).await?.id.to_string();
        client
            .follow(&id, None)
            .await?
            .until_status(RunStatus::Running)
            .await?;
        ids.push(id);
    }
    // The second node comes when the first has them all.
    let second = first.beside().await?;
    first.kill()?;
    let killed = Instant::now();
    let client = second.client()?;
    for id in &ids {
        let mut stream = client.follow(id, None).await?;
        stream.until(|event| event.kind == "resumed").await?;
        ensure!(
            killed.elapsed() < Duration::from_secs(15),
            "{:?} after the kill",
            killed.elapsed()
        );
    }
    for (n, id) in ids.iter().enumerate() {
        let (events, run) = client.finished(id).await?;
        assert_eq!(
            (run.status, run.output),
            (RunStatus::Succeeded, Some(n.to_string()))
        );
        assert_resumed(&events, 1);
    }
    Ok(())
}

/// What a completed command has left in the directory of a node that is gone is not on another one.
#[tokio::test]
async fn another_node_ends_a_run_whose_working_directory_it_does_not_have() -> Checked {
    let mut first = node(Database::Postgres).await?;
    let client = first.client()?;
    let prompt = "```sh\necho a > a; echo begun\n```\n```wait 600000\n```\n```sh\ncat a\n```\n";
    let request = json!({"prompt": prompt, "timeout_seconds": 900});
    let id = client.create(&request).await?.id.to_string();
    let mut stream = client.follow(&id, None).await?;
    stream.until(|event| event.kind == "tool_end").await?;
    let second = first.beside().await?;
    first.kill()?;
    let (events, run) = second.client()?.finished(&id).await?;
    assert_eq!(run.status, RunStatus::Interrupted);
    ensure!(
        run.error
            .as_deref()
            .is_some_and(|error| error.contains("working directory is gone")),
        "{run:?}"
    );
    assert_eq!(data(of_kind(&events, "interrupted")[0])["reason"], "worker_lost");
    assert_resumed(&events, 0);
    Ok(())
}

/// A node sees what another one does as it happens: events, the end, a cancel.
#[tokio::test]
async fn two_nodes_on_one_database_show_the_same() -> Checked {
    let first = node(Database::Postgres).await?;
    let second = first.beside().await?;
    let (here, there) = (first.client()?, second.client()?);
    let run = at_work(&here).await?;
    let id = run.id.to_string();
    let mut stream = there.follow(&id, None).await?;
    stream.until_status(RunStatus::Running).await?;
    let begun = Instant::now();
    let cancelled = there.cancel(&id).await?;
    let (events, done) = here.finished(&id).await?;
    ensure!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!((unsettled(&done), finals(&events)), (unsettled(&cancelled), 1));
    let (_, done) = there.complete(&plain("anywhere")).await?;
    assert_eq!(here.run(&done.id.to_string()).await?, done);
    Ok(())
}
