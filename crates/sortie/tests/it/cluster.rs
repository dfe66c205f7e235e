//! Several nodes on one PostgreSQL: every change through one of them applies on all, at once.

mod rolling;

use sortie_api::node::NodeState;

use crate::prelude::*;

/// `docs/RUNS.md#cancel`: through any node. A test of the engine proves that the other node gets a hint and does not
/// depend on a poll.
#[tokio::test]
async fn a_cancel_through_another_node_stops_the_worker() -> Checked {
    let first = node_with(Database::Postgres, NodeOptions::default()).await?;
    let here = first.client()?;
    let id = at_work(&here).await?.id.to_string();
    // The run is on the first node, because there was no other when it began.
    let second = first.beside().await?;
    let there = second.client()?;
    let cancelled = there.cancel(&id).await?;
    assert_eq!(cancelled.status, RunStatus::Cancelled);
    // The worker has stopped once it has reported the cost of the run.
    settled(&there, &id).await?;
    let (events, run) = here.finished(&id).await?;
    assert_eq!((run.status, finals(&events)), (RunStatus::Cancelled, 1));
    Ok(())
}

/// A node is gone when the database's clock is set back: its lease ends in the future, but its runs do not wait
/// for that.
#[tokio::test]
async fn a_lease_from_before_the_clock_was_set_back_keeps_no_run_from_others() -> Checked {
    let mut first = node_with(Database::Postgres, NodeOptions::default()).await?;
    let run = at_work(&first.client()?).await?;
    first.kill()?;
    first
        .meddle("UPDATE node SET lease_until = lease_until + 3600 * 1000000::bigint")
        .await?;
    let second = first.beside().await?;
    let mut stream = second.client()?.follow(&run.id.to_string(), None).await?;
    stream.until(|event| event.kind == "resumed").await?;
    Ok(())
}

/// The name, state and runs of each node that `client` is shown.
async fn nodes(client: &Client) -> anyhow::Result<Vec<(String, NodeState, i64)>> {
    let listed: Vec<sortie_api::node::Node> = client.get("/v1/admin/nodes").read(200).await?;
    Ok(listed
        .into_iter()
        .map(|node| (node.name, node.state, node.runs_at_work))
        .collect())
}

/// Administrators see the nodes that are ready, one that is about to stop, and no stopped ones.
#[tokio::test]
async fn the_nodes_are_listed_with_their_state_and_their_runs() -> Checked {
    let options = NodeOptions::default()
        .env("SORTIE_DRAIN_SECONDS", "10")
        .env("SORTIE_SHUTDOWN_GRACE_SECONDS", "0")
        .env("SORTIE_NODE_NAME", "a");
    let mut first = node_with(Database::Postgres, options).await?;
    let here = first.client()?;
    at_work(&here).await?;
    "b".clone_into(&mut first.options_mut().environment[2].1);
    let second = first.beside().await?;
    let there = second.client()?;
    let name = |name: &str, state, runs| (name.to_owned(), state, runs);
    assert_eq!(
        nodes(&there).await?,
        [name("a", NodeState::Ready, 1), name("b", NodeState::Ready, 0)]
    );
    let command = |arguments: &[&str]| {
        // Only the first node has the key in its folder.
        let mut command = second.sortie(arguments);
        command.env("SORTIE_API_KEY", second.key());
        Ok::<_, anyhow::Error>(text(&exits(command, 0)?.stdout))
    };
    let table = command(&["nodes", "list"])?;
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0][..4], ["NODE", "STATE", "RUNS", "VERSION"]);
    assert_eq!(rows[1][..4], ["a", "ready", "1", env!("CARGO_PKG_VERSION")]);
    assert_eq!(rows[2][..3], ["b", "ready", "0"]);
    let listed: serde_json::Value = serde_json::from_str(&command(&["nodes", "list", "--json"])?)?;
    assert_eq!(listed[0]["address"], first.url()?);

    first.terminate()?;
    let look = async || nodes(&there).await;
    let draining = name("a", NodeState::Draining, 1);
    until("the node to drain", look, |listed| listed[0] == draining).await?;
    // It is not ready, and serves on.
    here.get("/readyz").refused("unavailable").await?;
    let answer = here.get("/healthz").expect(200).await?;
    assert_eq!(answer.header("connection")?, "close");
    assert_eq!(
        here.complete(&plain("still here")).await?.1.status,
        RunStatus::Succeeded
    );
    ensure!(first.ended().await?.success());
    let taken_over = [name("b", NodeState::Ready, 1)];
    until("the takeover", look, |listed| *listed == taken_over).await?;
    Ok(())
}

/// The node was silent for too long, as after a pause of its machine: it registers again, and works normally.
#[tokio::test]
async fn a_node_that_was_declared_lost_begins_anew_and_logs_no_error() -> Checked {
    let (node, client) = started_with(Database::Postgres, NodeOptions::default()).await?;
    node.meddle("UPDATE node SET ended_at = lease_until").await?;
    // Wakes the dispatcher. Its claim is refused until the next heartbeat.
    let (_, run) = client.complete(&plain("later")).await?;
    assert_eq!(run.status, RunStatus::Succeeded);
    node.until_logged("this node was declared lost").await?;
    let log = node.log();
    ensure!(!log.contains("ERROR"), "{log}");
    Ok(())
}

/// Older nodes tolerate the additions of a newer version, but a node that does not know the tables does not start.
#[tokio::test]
async fn a_node_goes_on_beside_a_newer_version_and_does_not_start_after_it() -> Checked {
    let (mut node, client) = started_with(Database::Postgres, NodeOptions::default()).await?;
    client.complete(&plain("before")).await?;
    node.meddle(
        "ALTER TABLE run ADD COLUMN later BIGINT NOT NULL DEFAULT 0; ALTER TABLE node ADD COLUMN later TEXT; \
         INSERT INTO migration (version, name, checksum) VALUES (9999, 'later', 'x')",
    )
    .await?;
    assert_eq!(
        client.complete(&plain("beside")).await?.1.status,
        RunStatus::Succeeded
    );
    let second = node.beside().await;
    let refused = second.err().context("an older version starts")?;
    let said = format!("{refused:?}");
    assert_contains!(
        said,
        "the database is newer than this program",
        "start a newer version"
    );
    assert_eq!(
        client.complete(&plain("still")).await?.1.status,
        RunStatus::Succeeded
    );
    node.stop().await
}
