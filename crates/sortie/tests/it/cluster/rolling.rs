//! Restarts nodes one after the other while clients use them through a load balancer.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use sortie_api::Run;
use sortie_testkit::{Balancer, client::Next};
use tokio::task::JoinSet;

use crate::prelude::*;

const NODES: usize = 3;

/// Clients of each kind, all active for the whole test.
const CLIENTS: usize = 3;

/// Kind of work of a client with each of its runs.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Follows it, and reconnects at its position when the stream is closed.
    Follows,
    /// Polls it with `?wait=` until it is final.
    Waits,
}

/// Follows a run to its end. Returns the events of all the streams that it took.
async fn follow(client: &Client, id: &str) -> Result<(usize, Run)> {
    let (mut events, mut last) = (Vec::new(), None);
    loop {
        let mut stream = client.follow(id, last).await?;
        loop {
            match stream.next().await? {
                Next::Event(event) => {
                    last = Some(event.id);
                    events.push(event);
                }
                Next::Done(run) => return Ok((finals(&events), serde_json::from_value(run)?)),
                Next::Closed => break,
            }
        }
    }
}

async fn wait(client: &Client, id: &str) -> Result<(usize, Run)> {
    loop {
        let run: Run = client.get(&format!("/v1/runs/{id}?wait=20")).read(200).await?;
        if run.status.is_final() {
            return Ok((1, run));
        }
    }
}

/// Runs one run after the other until the stop flag is set. Returns their ids.
async fn work(client: Client, kind: Kind, request: Value, stop: Arc<AtomicBool>) -> Result<Vec<String>> {
    let mut runs = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let id = client.create(&request).await.context("a create")?.id.to_string();
        let ended = match kind {
            Kind::Follows => follow(&client, &id).await,
            Kind::Waits => wait(&client, &id).await,
        };
        let (finals, run) = ended.with_context(|| format!("run {} of a client that {kind:?}", runs.len()))?;
        ensure!(
            (finals, run.status) == (1, RunStatus::Succeeded),
            "{finals} ends of {run:?}"
        );
        runs.push(id);
    }
    Ok(runs)
}

/// No request fails, and every acknowledged run succeeds exactly once, including those that take longer than the grace
/// period of a stopping node.
#[tokio::test]
async fn a_rolling_restart_fails_no_request_and_loses_no_run() -> Checked {
    let options = NodeOptions::default()
        // Much longer than the balancer needs to notice, even if this process pauses for a while.
        .env("SORTIE_DRAIN_SECONDS", "5")
        .env("SORTIE_SHUTDOWN_GRACE_SECONDS", "1");
    let mut nodes = vec![node_with(Database::Postgres, options).await?];
    // Starts on the first node and outlasts it, so it is certainly handed over.
    let longest = json!({"prompt": "```wait 2500\n```\n".repeat(8)});
    let longest = nodes[0].client()?.create_id(&longest).await?;
    nodes[0].client()?.until_running(&longest).await?;
    while nodes.len() < NODES {
        nodes.push(nodes[0].beside().await?);
    }
    let addresses: Vec<_> = nodes.iter().map(Node::address).collect::<Result<_>>()?;
    let mut balancer = Balancer::start(addresses).await?;
    balancer.until_ready(NODES).await?;
    let client = Client::new(balancer.address(), Some(nodes[0].key().to_owned()));

    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    let short = json!({"prompt": "```wait 100\n```\n```wait 100\n```\ndone"});
    // Longer than a grace period, and than a node is down.
    let long = json!({"prompt": "```wait 1500\n```\n```wait 1500\n```\n```wait 1500\n```\ndone"});
    for request in [short, long] {
        for kind in [Kind::Follows, Kind::Waits] {
            for _ in 0..CLIENTS {
                clients.spawn(work(client.clone(), kind, request.clone(), Arc::clone(&stop)));
            }
        }
    }
    for node in &mut nodes {
        let before = node.address()?;
        node.terminate()?;
        ensure!(node.ended().await?.success());
        node.restart().await?;
        balancer.replace(before, node.address()?);
        balancer.until_ready(NODES).await?;
    }
    stop.store(true, Ordering::Relaxed);
    let mut runs = Vec::new();
    while let Some(ended) = clients.join_next().await {
        runs.extend(ended??);
    }
    ensure!(runs.len() > 4 * CLIENTS, "{} runs", runs.len());
    for id in &runs {
        let (events, run) = client.finished(id).await?;
        assert_eq!((run.status, finals(&events)), (RunStatus::Succeeded, 1), "{id}");
    }
    let (events, run) = client.finished(&longest).await?;
    assert_eq!((run.status, finals(&events)), (RunStatus::Succeeded, 1));
    ensure!(
        events.iter().any(|event| event.kind == "resumed"),
        "it was not handed over"
    );
    Ok(())
}

/// Without the drain time, a load balancer still sends clients to a node that is about to stop.
#[tokio::test]
async fn a_node_that_drains_serves_new_clients_until_it_stops() -> Checked {
    let options = NodeOptions::default().env("SORTIE_DRAIN_SECONDS", "3600");
    let (mut node, client) = started_with(Database::Sqlite, options).await?;
    node.terminate()?;
    let mut refused = 0;
    // Until the node reports not ready, and three more times.
    while refused < 4 {
        let served = client.complete(&json!({"prompt": "x"})).await;
        served.with_context(|| format!("it has said {refused} times that it is not ready"))?;
        refused += usize::from(client.get("/readyz").await?.status == 503);
    }
    // A second signal stops it at once.
    node.terminate()?;
    ensure!(!node.ended().await?.success());
    Ok(())
}

#[tokio::test]
async fn a_node_drains_for_as_long_as_it_was_told_and_then_stops() -> Checked {
    let options = NodeOptions::default().env("SORTIE_DRAIN_SECONDS", "1");
    let mut node = node_with(Database::Sqlite, options).await?;
    let begun = std::time::Instant::now();
    node.stop().await?;
    let took = begun.elapsed();
    ensure!(took >= Duration::from_secs(1), "{took:?}");
    Ok(())
}
