//! A node that is killed with active runs: the time until all of them have finished or continue on the next worker.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use sortie_testkit::{Database, Node};
use tokio::task::JoinSet;

use crate::{
    Bench,
    connection::Connection,
    load::contains,
    memory::start_waiting,
    report::{Limit, Report},
    samples::Millis,
};

/// Number of active runs when the node is killed.
const AT_WORK: usize = 200;

/// Maximum time to wait for the runs.
const PATIENCE: Duration = Duration::from_mins(1);

/// Lease of a node in the engine.
const LEASE: Duration = Duration::from_secs(10);

const PROMPT: &str = "```wait 3000000\n```\n";

/// Measures a restart of the same node, and on PostgreSQL also the takeover by another running node.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("SIGKILL") {
        return Ok(());
    }
    let mut node = bench.node().await?;
    let runs = start_waiting(&node, AT_WORK, PROMPT).await?;
    let killed = Instant::now();
    node.kill()?;
    node.restart().await?;
    let took = until_taken_up(&[&node], runs, killed).await?;
    let name = "SIGKILL to all of 200 runs final or resumed, same node restarted";
    report.add(name, Millis(took).to_string());
    report.against(Limit::Start, name, took.as_secs_f64());
    report.reach(name, took.as_secs_f64());
    let name = "SIGKILL to all of 200 runs final or resumed, by another node";
    if bench.database == Database::Sqlite {
        report.add(name, "one node");
        return Ok(());
    }
    let runs = start_waiting(&node, AT_WORK, PROMPT).await?;
    let other = node.beside().await?;
    let killed = Instant::now();
    node.kill()?;
    let took = until_taken_up(&[&other], runs, killed).await?;
    after_the_lease(report, name, took);
    Ok(())
}

/// Reports the time that other nodes took. They first wait until the lost node's lease expires.
pub(crate) fn after_the_lease(report: &mut Report, name: &str, took: Duration) {
    report.add(name, Millis(took).to_string());
    report.limit(Limit::Lease, LEASE.as_secs_f64());
    report.against(Limit::Lease, name, took.as_secs_f64());
    report.reach(name, took.as_secs_f64());
}

/// Returns the time from `since` until the streams of all these runs, read from these nodes, have reported that the run resumed
/// or ended.
pub(crate) async fn until_taken_up(nodes: &[&Node], runs: Vec<String>, since: Instant) -> Result<Duration> {
    let mut waiting = JoinSet::new();
    for (run, node) in runs.into_iter().zip(nodes.iter().cycle()) {
        let mut connection = Connection::to(node)?;
        waiting.spawn(async move {
            let told = tokio::time::timeout(PATIENCE, taken_up(&mut connection, &run)).await;
            told.with_context(|| format!("{run} is not taken up"))?
        });
    }
    while let Some(taken_up) = waiting.join_next().await {
        taken_up??;
    }
    Ok(since.elapsed())
}

async fn taken_up(connection: &mut Connection, run: &str) -> Result<()> {
    let path = format!("/v1/runs/{run}/events");
    let mut body = connection
        .send(Method::GET, &path, Bytes::new())
        .await?
        .into_body();
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(bytes) = frame?.into_data() {
            read.extend_from_slice(&bytes);
            if contains(&read, b"event: resumed") || contains(&read, b"event: done") {
                return Ok(());
            }
        }
    }
    anyhow::bail!("the stream of {run} ended")
}
