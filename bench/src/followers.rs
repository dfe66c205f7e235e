//! A thousand followers: of one run, and of a run each. What counts is how late they are told the end.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use sortie_api::Run;
use sortie_testkit::Node;
use tokio::task::JoinSet;

use crate::{
    Bench, connection::Connection, load::contains, memory::start_waiting, report::Report, samples::Samples,
};

/// Followers at once.
const FOLLOWERS: usize = 1_000;

/// One run, followed by all.
pub(crate) async fn on_one_run(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("followers") {
        return Ok(());
    }
    let node = bench.node().await?;
    let run = start_waiting(&node, 1, "```wait 8000\n```\n")
        .await?
        .pop()
        .context("no run")?;
    let lag = follow(&node, vec![run; FOLLOWERS]).await?;
    report.add(
        "lag of the last event, 1,000 followers on one run, p50 / p99",
        lag.to_string(),
    );
    Ok(())
}

/// A run each, all of which end at about the same time.
pub(crate) async fn each_on_its_own(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("followers") {
        return Ok(());
    }
    let node = bench.node().await?;
    let runs = start_waiting(&node, FOLLOWERS, "```wait 8000\n```\n").await?;
    let lag = follow(&node, runs).await?;
    report.add(
        "lag of the last event, 1,000 followers on 1,000 runs, p50 / p99",
        lag.to_string(),
    );
    Ok(())
}

async fn follow(node: &Node, runs: Vec<String>) -> Result<Samples> {
    let mut followers = JoinSet::new();
    for run in runs {
        let mut connection = Connection::to(node)?;
        followers.spawn(async move {
            let path = format!("/v1/runs/{run}/events");
            let response = connection.send(Method::GET, &path, Bytes::new()).await?;
            ensure!(response.status() == 200, "{path}: {}", response.status());
            lag(response.into_body()).await
        });
    }
    let mut samples = Samples::default();
    while let Some(lag) = followers.join_next().await {
        samples.add(lag??);
    }
    Ok(samples)
}

/// How long after the run's `finished_at` its `done` is here. Both clocks are this machine's; `finished_at` is cut
/// to the millisecond, so that a lag is shown up to 1 ms too long.
async fn lag(mut body: Incoming) -> Result<Duration> {
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(bytes) = frame?.into_data() else { continue };
        read.extend_from_slice(&bytes);
        if contains(&read, b"event: done") && read.ends_with(b"\n\n") {
            #[expect(
                clippy::disallowed_methods,
                reason = "the lag is between two readings of the machine's clock"
            )]
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
            let text = std::str::from_utf8(&read)?;
            let done = text.rsplit("data: ").next().context("no data")?;
            let run: Run = serde_json::from_str(done.trim())?;
            let finished = run.finished_at.context("done without finished_at")?.as_micros();
            return Ok(now.saturating_sub(Duration::from_micros(u64::try_from(finished)?)));
        }
    }
    anyhow::bail!("the stream ended without done")
}
