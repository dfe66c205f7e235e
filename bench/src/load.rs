//! Creates and complete runs at a fixed concurrency and maximum speed.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::json;
use sortie_testkit::{Node, NodeOptions};
use tokio::task::JoinSet;

use crate::{
    Bench,
    connection::Connection,
    process::{cpu, cpu_each},
    report::{Limit, Report},
    run::Run,
    samples::{Millis, Samples},
};

/// Excluded from the results: connections open and caches fill.
pub(crate) const WARM_UP: Duration = Duration::from_secs(1);

/// Rows that a create writes: the run, its definition, its queue entry, its first event.
const ROWS_OF_A_CREATE: f64 = 4.0;

/// Rows that a tool-free run writes from its creation to its end, including updates and deletions.
pub(crate) const ROWS_OF_A_RUN: f64 = 17.0;

/// The POST and the stream.
pub(crate) const REQUESTS_OF_A_RUN: f64 = 2.0;

/// Times of one run since the first byte of the request.
pub(crate) struct Moments {
    /// The client has read the 202.
    pub(crate) acknowledged: Duration,
    /// The client has read the event with `starting`: a node has claimed the run.
    pub(crate) starting: Duration,
    /// The client has read the event with `running`.
    pub(crate) running: Duration,
    /// The client has read `done`.
    pub(crate) done: Duration,
}

/// Returns a run request with this prompt.
pub(crate) fn request(prompt: &str) -> Bytes {
    json!({"prompt": prompt, "timeout_seconds": 3600})
        .to_string()
        .into()
}

/// Creates a run and follows it to its end. Fails unless the run succeeds.
pub(crate) async fn complete(
    creating: &mut Connection,
    following: &mut Connection,
    request: &Bytes,
) -> Result<Moments> {
    let begun = Instant::now();
    let run: Run = creating
        .call(Method::POST, "/v1/runs", request.clone(), 202)
        .await?;
    let acknowledged = begun.elapsed();
    let path = format!("/v1/runs/{}/events", run.id);
    let mut body = following
        .send(Method::GET, &path, Bytes::new())
        .await?
        .into_body();
    let mut read = Vec::new();
    let (mut starting, mut running) = (None, None);
    while let Some(frame) = body.frame().await {
        if let Ok(bytes) = frame?.into_data() {
            read.extend_from_slice(&bytes);
            if starting.is_none() && contains(&read, br#""status":"starting""#) {
                starting = Some(begun.elapsed());
            }
            if running.is_none() && contains(&read, br#""status":"running""#) {
                running = Some(begun.elapsed());
            }
        }
    }
    ensure!(
        contains(&read, b"event: done"),
        "the stream of {} ended early",
        run.id
    );
    ensure!(
        contains(&read, br#""status":"succeeded""#),
        "{} did not succeed",
        run.id
    );
    Ok(Moments {
        acknowledged,
        starting: starting.context("never starting")?,
        running: running.context("never running")?,
        done: begun.elapsed(),
    })
}

/// Whether `bytes` contain `part`.
pub(crate) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Measures acknowledged creates per second: alone, with the only slot taken by a waiting run, and while the runs execute.
pub(crate) async fn creates(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("creates") {
        return Ok(());
    }
    let node = bench
        .node_with(NodeOptions::default().env("SORTIE_CONCURRENCY", "1"))
        .await?;
    let mut connection = Connection::to(&node)?;
    let _: Run = connection
        .call(Method::POST, "/v1/runs", request("```wait 3000000\n```\n"), 202)
        .await?;
    let (per_second, samples) = create_for(&[&node], bench.seconds).await?;
    report.add(
        "creates acknowledged, runs stay queued, 64 at once",
        format!("{per_second:.0}/s"),
    );
    report.against(Limit::Requests, "creates, 64 at once", per_second);
    report.against(Limit::Rows, "creates, 64 at once", per_second * ROWS_OF_A_CREATE);
    report.reach("creates, 64 at once", per_second);
    report.add("… POST to 202, p50 / p99", samples.to_string());
    drop(node);
    let node = bench.node().await?;
    let (per_second, _) = create_for(&[&node], bench.seconds).await?;
    report.add(
        "creates acknowledged while the runs are worked on, 64 at once",
        format!("{per_second:.0}/s"),
    );
    Ok(())
}

/// Runs 64 clients that post runs one after another, distributed over these nodes.
pub(crate) async fn create_for(nodes: &[&Node], seconds: u64) -> Result<(f64, Samples)> {
    let connections = nodes.iter().cycle().take(64).map(|node| Connection::to(node));
    create_on(connections.collect::<Result<_>>()?, seconds).await
}

/// Runs one client per connection. Each posts runs one after another. Returns the rate, and the times of the creates.
pub(crate) async fn create_on(connections: Vec<Connection>, seconds: u64) -> Result<(f64, Samples)> {
    let from = Instant::now() + WARM_UP;
    let to = from + Duration::from_secs(seconds);
    let request = request("hello");
    let mut clients = JoinSet::new();
    for mut connection in connections {
        let request = request.clone();
        clients.spawn(async move {
            let mut samples = Samples::default();
            while Instant::now() < to {
                let begun = Instant::now();
                let _: Run = connection
                    .call(Method::POST, "/v1/runs", request.clone(), 202)
                    .await?;
                if begun >= from {
                    samples.add(begun.elapsed());
                }
            }
            Ok::<_, anyhow::Error>(samples)
        });
    }
    let mut all = Samples::default();
    while let Some(samples) = clients.join_next().await {
        all.extend(samples??);
    }
    Ok((per_second(all.len(), seconds)?, all))
}

/// Measures complete tool-free runs at this concurrency.
pub(crate) async fn runs(bench: &Bench, report: &mut Report, concurrency: usize) -> Result<()> {
    let name = format!("complete tool-free runs, {concurrency} at once");
    if !report.wants(&name) {
        return Ok(());
    }
    let node = bench.node().await?;
    let before = cpu(&node)?;
    let done = complete_for(&[&node], concurrency, bench.seconds, || request("hello")).await?;
    let each = cpu_each(&node, before, done.completed, bench.seconds)?;
    let rate = per_second(done.completed, bench.seconds)?;
    report.against(Limit::Requests, name.clone(), rate * REQUESTS_OF_A_RUN);
    report.against(Limit::Rows, name.clone(), rate * ROWS_OF_A_RUN);
    report.reach(name.clone(), rate);
    report.add(name, format!("{rate:.0}/s"));
    report.add(
        format!("… CPU of the node a run, {concurrency} at once"),
        Millis(each).to_string(),
    );
    report.add(
        format!("… POST to 202, p50 / p99, {concurrency} at once"),
        done.acknowledged.to_string(),
    );
    report.add(
        format!("… POST to `running`, p50 / p99, {concurrency} at once"),
        done.running.to_string(),
    );
    report.add(
        format!("… POST to `done`, p50 / p99, {concurrency} at once"),
        done.done.to_string(),
    );
    let [claim, start, work] = &done.stages;
    report.add(
        format!("… 202 to `starting`, to `running`, to `done`, p50, {concurrency} at once"),
        [claim, start, work]
            .map(|stage| Millis(stage.percentile(50)).to_string())
            .join(", "),
    );
    Ok(())
}

/// Result of a load of complete runs.
#[derive(Default)]
pub(crate) struct Loaded {
    /// Number of runs that ended within the time.
    pub(crate) completed: usize,
    acknowledged: Samples,
    running: Samples,
    /// Times from the 202 to `starting`, to `running`, and to `done`.
    stages: [Samples; 3],
    /// Durations of the runs that started after the warm-up.
    pub(crate) done: Samples,
}

/// Runs clients that each execute one run after another, distributed over these nodes. Runs that started in the warm-up count for
/// the rate but not for the times, because their connections and statements were not prepared yet.
pub(crate) async fn complete_for(
    nodes: &[&Node],
    concurrency: usize,
    seconds: u64,
    request: impl Fn() -> Bytes + Clone + Send + 'static,
) -> Result<Loaded> {
    let from = Instant::now() + WARM_UP;
    let to = from + Duration::from_secs(seconds);
    let mut clients = JoinSet::new();
    for node in nodes.iter().cycle().take(concurrency) {
        let (mut creating, mut following) = (Connection::to(node)?, Connection::to(node)?);
        let request = request.clone();
        clients.spawn(async move {
            let (mut all, mut completed) = (Vec::new(), 0);
            while Instant::now() < to {
                let begun = Instant::now();
                let moments = complete(&mut creating, &mut following, &request()).await?;
                let ended = Instant::now();
                completed += usize::from(ended >= from && ended < to);
                if begun >= from {
                    all.push(moments);
                }
            }
            Ok::<_, anyhow::Error>((all, completed))
        });
    }
    let mut loaded = Loaded::default();
    while let Some(client) = clients.join_next().await {
        let (all, completed) = client??;
        loaded.completed += completed;
        for moments in all {
            loaded.acknowledged.add(moments.acknowledged);
            let [claim, start, work] = &mut loaded.stages;
            claim.add(moments.starting.saturating_sub(moments.acknowledged));
            start.add(moments.running.saturating_sub(moments.starting));
            work.add(moments.done.saturating_sub(moments.running));
            loaded.running.add(moments.running);
            loaded.done.add(moments.done);
        }
    }
    Ok(loaded)
}

/// Returns a rate per second.
pub(crate) fn per_second(count: usize, seconds: u64) -> Result<f64> {
    Ok(f64::from(u32::try_from(count)?) / Duration::from_secs(seconds).as_secs_f64())
}
