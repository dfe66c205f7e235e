//! Several nodes on one PostgreSQL: what they do together, how late a stream ends whose run another node works on, and
//! how long it takes until the runs of one that is killed go on.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use sortie_testkit::{Database, Node, NodeOptions};
use tokio::task::JoinSet;

use crate::{
    Bench,
    connection::Connection,
    followers::Followers,
    load::{ROWS_OF_A_RUN, complete_for, contains, create_for, per_second, request},
    memory::start_waiting,
    report::{Limit, Report},
    samples::{Millis, Samples},
};

/// Runs at work on the node that is killed.
const AT_WORK: usize = 200;

/// Streams of runs on another node.
const FOLLOWERS: usize = 200;

/// Clients of all nodes together.
const CLIENTS: usize = 64;

/// Measures all of it.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("nodes") || bench.nodes < 2 || bench.database == Database::Sqlite {
        return Ok(());
    }
    rates(bench, report).await?;
    streams(bench, report).await?;
    killed(bench, report).await
}

/// So many nodes on one database.
async fn nodes(bench: &Bench) -> Result<Vec<Node>> {
    let mut nodes = vec![bench.node().await?];
    while nodes.len() < bench.nodes {
        let first = nodes.first().context("no node")?;
        nodes.push(first.beside().await?);
    }
    Ok(nodes)
}

async fn rates(bench: &Bench, report: &mut Report) -> Result<()> {
    let nodes = nodes(bench).await?;
    let all: Vec<&Node> = nodes.iter().collect();
    let count = all.len();
    let done = complete_for(&all, CLIENTS, bench.seconds, || request("hello")).await?;
    let rate = per_second(done.completed, bench.seconds)?;
    let name = format!("complete tool-free runs over {count} nodes, {CLIENTS} at once");
    report.against(Limit::Rows, name.clone(), rate * ROWS_OF_A_RUN);
    report.add(name, format!("{rate:.0}/s"));
    report.add(
        format!("… POST to `done`, p50 / p99, {count} nodes"),
        done.done.to_string(),
    );
    let (rate, samples) = create_for(&all, bench.seconds).await?;
    report.add(
        format!("creates acknowledged by {count} nodes while the runs are worked on, 64 at once"),
        format!("{rate:.0}/s"),
    );
    report.add(
        format!("… POST to 202, p50 / p99, {count} nodes"),
        samples.to_string(),
    );
    Ok(())
}

/// Streams from a node whose only place is taken, so that another one works on the runs.
async fn streams(bench: &Bench, report: &mut Report) -> Result<()> {
    let options = NodeOptions::default().env("SORTIE_CONCURRENCY", "1");
    let mut other = bench.node_with(options).await?;
    start_waiting(&other, 1, "```wait 3000000\n```\n").await?;
    other
        .options_mut()
        .environment
        .retain(|(name, _)| name != "SORTIE_CONCURRENCY");
    let working = other.beside().await?;
    let mut lags = Samples::default();
    for _ in 0..3 {
        let runs = start_waiting(&working, FOLLOWERS, "```wait 3000\n```\n").await?;
        let followers = Followers::open(other.address()?, other.key(), runs).await?;
        lags.extend(followers.lags().await?);
    }
    report.add(
        format!(
            "lag of the last event from another node than the one that works, {FOLLOWERS} runs, p50 / p99"
        ),
        lags.to_string(),
    );
    Ok(())
}

/// One of the nodes is killed with all runs that are at work: it was the first, and alone when they began.
async fn killed(bench: &Bench, report: &mut Report) -> Result<()> {
    let mut victim = bench.node().await?;
    let runs = start_waiting(&victim, AT_WORK, "```wait 3000000\n```\n").await?;
    let mut others = Vec::new();
    while others.len() + 1 < bench.nodes {
        others.push(victim.beside().await?);
    }
    let killed = Instant::now();
    victim.kill()?;
    let mut waiting = JoinSet::new();
    for (run, node) in runs.into_iter().zip(others.iter().cycle()) {
        let mut connection = Connection::to(node)?;
        waiting.spawn(async move { taken_up(&mut connection, &run).await });
    }
    let mut took = Samples::default();
    while let Some(taken_up) = waiting.join_next().await {
        taken_up??;
        took.add(killed.elapsed());
    }
    report.add(
        format!(
            "SIGKILL to one of {} nodes until its {AT_WORK} runs are final or resumed, seen on the others",
            bench.nodes
        ),
        Millis(took.percentile(100)).to_string(),
    );
    Ok(())
}

/// Returns when the stream of a run says that it was resumed, or has ended.
async fn taken_up(connection: &mut Connection, run: &str) -> Result<()> {
    let path = format!("/v1/runs/{run}/events");
    let mut body = connection
        .send(Method::GET, &path, Bytes::new())
        .await?
        .into_body();
    let mut read = Vec::new();
    let limit = Duration::from_mins(1);
    let told = tokio::time::timeout(limit, async {
        while let Some(frame) = body.frame().await {
            if let Ok(bytes) = frame?.into_data() {
                read.extend_from_slice(&bytes);
                if contains(&read, b"event: resumed") || contains(&read, b"event: done") {
                    return Ok(());
                }
            }
        }
        anyhow::bail!("the stream of {run} ended")
    });
    told.await.with_context(|| format!("{run} is not taken up"))?
}
