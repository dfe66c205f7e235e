//! A node that is asked to stop (`docs/OPERATIONS.md#updating`).

use std::time::Instant;

use sortie_testkit::{client::Next, model::Turn};

use crate::{kit::assert_resumed, prelude::*, runs::model::Scripted};

both_databases![
    a_run_that_ends_within_the_grace_is_finished,
    a_run_that_outlasts_the_grace_goes_on_after_the_restart,
    waiting_runs_stay_queued_and_go_on_after_the_restart,
];

#[tokio::test]
async fn an_idle_node_stops_at_once() -> Checked {
    let mut times: Vec<Duration> = Vec::new();
    // A busy host is sometimes late; a node that waits for something is late each time.
    while times.last().is_none_or(|took| *took >= Duration::from_secs(2)) {
        ensure!(times.len() < 3, "{times:?}");
        let mut node = node(Database::Sqlite).await?;
        let begun = Instant::now();
        node.stop().await?;
        times.push(begun.elapsed());
    }
    Ok(())
}

async fn a_run_that_ends_within_the_grace_is_finished(database: Database) -> Checked {
    let (mut node, client) = started(database).await?;
    let run = client
        .create(&json!({"prompt": "```wait 700\n```\n```sh\necho made it\n```\n"}))
        .await?;
    let id = run.id.to_string();
    client.until_running(&id).await?;
    node.stop().await?;
    node.restart().await?;
    let (events, run) = node.client()?.finished(&id).await?;
    assert_ended!(run, Succeeded, "made it\n");
    assert_eq!(finals(&events), 1);
    Ok(())
}

async fn a_run_that_outlasts_the_grace_goes_on_after_the_restart(database: Database) -> Checked {
    let options = NodeOptions::default().env("SORTIE_SHUTDOWN_GRACE_SECONDS", "1");
    let shell = |command: &str| Turn::calls("shell", json!({"command": command}));
    let script = [
        shell("echo kept > note"),
        // This one goes with the node.
        Turn::says(["never"]).held(),
        shell("cat note"),
        Turn::says(["done"]),
    ];
    let mut rig = Scripted::start_with(database, script, options).await?;
    let client = rig.node.client()?;
    let id = client.create_id(&plain("Go.")).await?;
    let mut stream = client.follow(&id, None).await?;
    stream.until(|event| event.kind == "tool_end").await?;
    rig.model.asked(2).await?;
    let begun = Instant::now();
    rig.node.terminate()?;
    // The stream is closed without a `done`, and never delays the node.
    while matches!(stream.next().await, Ok(Next::Event(_))) {}
    ensure!(rig.node.ended().await?.success());
    // The default grace period is 30 seconds.
    ensure!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    rig.node.restart().await?;
    let (events, run) = rig.node.client()?.finished(&id).await?;
    assert_ended!(run, Succeeded, "done");
    assert_resumed(&events, 1);
    let ended = of_kind(&events, "tool_end");
    assert_eq!(ended.len(), 2);
    let read = data(ended[1]);
    ensure!(read["output"].to_string().contains("kept"), "{read}");
    Ok(())
}

/// A run that a node hands over resumes on another one, without waiting for a lease.
#[tokio::test]
async fn a_run_that_outlasts_the_grace_goes_on_elsewhere() -> Checked {
    let options = NodeOptions::default().env("SORTIE_SHUTDOWN_GRACE_SECONDS", "0");
    // The first node is gone: the run can end only on another one.
    let script = [Turn::says(["never"]).held(), Turn::says(["moved"])];
    let mut rig = Scripted::start_with(Database::Postgres, script, options).await?;
    let run = rig.node.client()?.create(&plain("Go.")).await?;
    let id = run.id.to_string();
    rig.model.asked(1).await?;
    let second = rig.node.beside().await?;
    let client = second.client()?;
    let mut stream = client.follow(&id, None).await?;
    rig.node.stop().await?;
    let stopped = Instant::now();
    stream.until(|event| event.kind == "resumed").await?;
    ensure!(
        stopped.elapsed() < Duration::from_secs(5),
        "{:?} after the other node had stopped",
        stopped.elapsed()
    );
    let (_, run) = client.finished(&id).await?;
    assert_ended!(run, Succeeded, "moved");
    Ok(())
}

async fn waiting_runs_stay_queued_and_go_on_after_the_restart(database: Database) -> Checked {
    let options = NodeOptions::default()
        .env("SORTIE_CONCURRENCY", "1")
        .env("SORTIE_SHUTDOWN_GRACE_SECONDS", "1");
    let (mut node, client) = started_with(database, options).await?;
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
    assert_ended!(run, Succeeded, "later");
    assert_eq!(of_kind(&events, "worker_started").len(), 1);
    Ok(())
}
