//! What a node that is killed leaves behind, and what becomes of it (decisions 2; contract part 3).

mod durability;

use std::time::{Duration, Instant};

use anyhow::ensure;
use sortie_api::{Event, RunStatus};
use sortie_testkit::{
    Database, NodeOptions,
    client::{data, kinds},
    http::HeaderValue,
};

use crate::{
    Checked, both_databases,
    kit::{at_work, finals, of_kind, plain, unsettled},
    node, node_with,
};

both_databases![
    a_restart_ends_the_runs_its_predecessor_lost_at_once,
    waiting_runs_survive_a_kill,
    everything_acknowledged_is_there_after_a_kill,
];

fn assert_lost(events: &[Event]) {
    assert_eq!(finals(events), 1);
    assert_eq!(data(of_kind(events, "interrupted")[0])["reason"], "worker_lost");
}

async fn a_restart_ends_the_runs_its_predecessor_lost_at_once(database: Database) -> Checked {
    let mut node = node(database).await?;
    let id = at_work(&node.client()?).await?.id.to_string();
    node.kill()?;
    node.restart().await?;
    let begun = Instant::now();
    let (events, run) = node.client()?.finished(&id).await?;
    ensure!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?} after the node was ready",
        begun.elapsed()
    );
    assert_eq!(run.status, RunStatus::Interrupted);
    ensure!(
        run.error.is_some() && run.finished_at.is_some() && !run.billing_pending,
        "{run:?}"
    );
    assert_lost(&events);
    // The node works on as if nothing had been.
    let (_, next) = node.client()?.complete(&plain("next")).await?;
    assert_eq!(next.status, RunStatus::Succeeded);
    Ok(())
}

async fn waiting_runs_survive_a_kill(database: Database) -> Checked {
    let mut node = node_with(database, NodeOptions::default().env("SORTIE_CONCURRENCY", "1")).await?;
    let client = node.client()?;
    at_work(&client).await?;
    let mut waiting = Vec::new();
    for n in 0..5 {
        waiting.push(client.create(&plain(&n.to_string())).await?.id.to_string());
    }
    node.kill()?;
    node.restart().await?;
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

/// Decisions 2 and the lease: another node ends the runs of one that is gone within 15 seconds.
#[tokio::test]
async fn another_node_ends_the_runs_of_a_lost_one_within_15_seconds() -> Checked {
    let mut first = node(Database::Postgres).await?;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(at_work(&first.client()?).await?.id.to_string());
    }
    // The second node comes when the first has them all.
    let second = first.beside().await?;
    first.kill()?;
    let killed = Instant::now();
    let client = second.client()?;
    for id in &ids {
        let (events, run) = client.finished(id).await?;
        ensure!(
            killed.elapsed() < Duration::from_secs(15),
            "{:?} after the kill",
            killed.elapsed()
        );
        assert_eq!(run.status, RunStatus::Interrupted);
        assert_lost(&events);
    }
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
