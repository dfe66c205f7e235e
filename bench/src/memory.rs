//! Start-up time, and memory: idle, and with thousands of waiting runs.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http::Method;
use sortie_testkit::{Node, NodeOptions};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    Bench,
    connection::Connection,
    load::request,
    process::{private, resident},
    report::{Limit, Report},
    run::{Run, RunPage},
    samples::{Millis, Samples},
};

/// Number of concurrently waiting runs.
const WAITING: usize = 10_000;

/// Formats a number of bytes.
pub(crate) fn mebibytes(bytes: u64) -> Result<String> {
    Ok(format!(
        "{:.1} MiB",
        f64::from(u32::try_from(bytes / 1024)?) / 1024.0
    ))
}

/// Measures the time from the start of the process to its first 200, and its idle memory.
pub(crate) async fn start(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("start") && !report.wants("idle") {
        return Ok(());
    }
    let mut node = bench.node().await?;
    let mut samples = Samples::default();
    for _ in 0..10 {
        node.stop().await?;
        samples.add(node.restart().await?);
    }
    report.add(
        "start of the process to its first 200, p50 / p99",
        samples.to_string(),
    );
    report.limit(Limit::Start, samples.percentile(50).as_secs_f64());
    // Idle memory is measured some seconds after the start.
    sleep(Duration::from_secs(3)).await;
    report.add("idle resident memory", mebibytes(resident(&node)?)?);
    report.add(
        "… of it private, not code mapped from the binary",
        mebibytes(private(&node)?)?,
    );
    Ok(())
}

/// Starts runs that wait until they are cancelled. Returns their ids when all are active.
pub(crate) async fn start_waiting(node: &Node, count: usize, prompt: &str) -> Result<Vec<String>> {
    let request = request(prompt);
    let mut clients = JoinSet::new();
    for part in 0..50 {
        let (mut connection, request) = (Connection::to(node)?, request.clone());
        let share = count / 50 + usize::from(part < count % 50);
        clients.spawn(async move {
            let mut ids = Vec::new();
            for _ in 0..share {
                let run: Run = connection
                    .call(Method::POST, "/v1/runs", request.clone(), 202)
                    .await?;
                ids.push(run.id.to_string());
            }
            Ok::<_, anyhow::Error>(ids)
        });
    }
    let mut ids = Vec::new();
    while let Some(part) = clients.join_next().await {
        ids.extend(part??);
    }
    let mut connection = Connection::to(node)?;
    for status in ["queued", "starting"] {
        while some_with(&mut connection, status).await? {
            sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(ids)
}

/// Whether there is a run with this status.
pub(crate) async fn some_with(connection: &mut Connection, status: &str) -> Result<bool> {
    let path = format!("/v1/runs?limit=1&status={status}");
    let page: RunPage = connection.call(Method::GET, &path, Bytes::new(), 200).await?;
    Ok(!page.items.is_empty())
}

/// Measures the memory of a waiting run.
pub(crate) async fn waiting(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("waiting") {
        return Ok(());
    }
    // Slots for the waiting runs and for others.
    let places = (2 * WAITING).to_string();
    let node = bench
        .node_with(NodeOptions::default().env("SORTIE_CONCURRENCY", &places))
        .await?;
    // A few runs first, so that one-time allocations are not counted.
    start_waiting(&node, 100, "```wait 10\n```\n").await?;
    let before = resident(&node)?;
    start_waiting(&node, WAITING, "```wait 3000000\n```\n").await?;
    let held = resident(&node)?.saturating_sub(before);
    let each = held / u64::try_from(WAITING)?;
    let each = f64::from(u32::try_from(each)?) / 1024.0;
    let name = "memory of a waiting run, 10,000 waiting";
    report.add(name, format!("{each:.1} KiB"));
    report.reach(name, each);
    let mut samples = Samples::default();
    let (mut creating, mut following) = (Connection::to(&node)?, Connection::to(&node)?);
    for _ in 0..200 {
        samples.add(
            crate::load::complete(&mut creating, &mut following, &request("hello"))
                .await?
                .done,
        );
    }
    report.add(
        "… POST to `done` beside 10,000 waiting, p50 / p99",
        samples.to_string(),
    );
    report.add("… longest of them", Millis(samples.percentile(100)).to_string());
    Ok(())
}
