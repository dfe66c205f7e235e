//! Cancellation: the time until the run's worker has stopped and its stream has ended, requested from the node that runs it and
//! from another node.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use sortie_api::RunStatus;
use sortie_testkit::{
    Node,
    processes::{Process, command_line, descendants, is_alive},
};
use tokio::time::{sleep, timeout};

use crate::{
    Bench,
    cluster::full_and_working,
    connection::Connection,
    load::{complete, contains, request},
    memory::start_waiting,
    report::Report,
    run::Run,
    samples::{Millis, Samples},
};

/// Number of runs that are cancelled, one after another.
const CANCELS: usize = 100;

/// Interval of the checks.
const LOOK: Duration = Duration::from_millis(1);

/// Maximum time to wait for a cancellation.
const PATIENCE: Duration = Duration::from_secs(30);

const COMMAND: &str = "sleep 3000";

/// Measures both ways, the second one only if nodes can share the database.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if report.wants("cancel through its own node") {
        let node = bench.node().await?;
        cancels(&node, &node, "cancel through its own node", report).await?;
    }
    if report.wants("cancel through another of several nodes") && bench.has_several() {
        let (other, working) = full_and_working(bench).await?;
        cancels(&working, &other, "cancel through another node", report).await?;
    }
    Ok(())
}

async fn cancels(working: &Node, asked: &Node, name: &str, report: &mut Report) -> Result<()> {
    // The first run starts the service for all sandboxes. That does not count as a process of a run.
    let (mut here, mut there) = (Connection::to(working)?, Connection::to(asked)?);
    complete(&mut here, &mut there, &request("```sh\ntrue\n```\n")).await?;
    let command = format!("```sh\n{COMMAND}\n```\n");
    for (kind, prompt) in [("tool", "```wait 3000000\n```\n"), ("command", &command)] {
        let (mut stopped, mut told) = (Samples::default(), Samples::default());
        for _ in 0..CANCELS {
            let before = descendants(&[working.pid()?]);
            let run = start_waiting(working, 1, prompt).await?.pop().context("no run")?;
            let processes = match kind {
                "command" => at_work(working, &before).await?,
                _ => BTreeSet::new(),
            };
            let path = format!("/v1/runs/{run}/events");
            let stream = here.send(Method::GET, &path, Bytes::new()).await?.into_body();
            let begun = Instant::now();
            let both = async {
                tokio::try_join!(
                    until_stopped(&mut there, &run, &processes, begun),
                    until_told(stream, begun)
                )
            };
            let both = timeout(PATIENCE, both).await;
            let (stop, tell) = both.with_context(|| format!("{run} is not cancelled"))??;
            stopped.add(stop);
            told.add(tell);
        }
        let figure = format!("{name}, a waiting {kind}");
        let longest = |samples: &Samples| Millis(samples.percentile(100)).to_string();
        report.reach(
            format!("{figure}, longest"),
            stopped.percentile(100).as_secs_f64(),
        );
        report.add(
            format!("{figure}: until its worker has stopped, p50 / p99 / longest"),
            format!("{stopped} / {}", longest(&stopped)),
        );
        report.add(
            format!("… {figure}: until `done` on the node that works, p50 / p99 / longest"),
            format!("{told} / {}", longest(&told)),
        );
    }
    Ok(())
}

/// Returns the processes that were started after `before` for the run, once its command is running.
async fn at_work(node: &Node, before: &BTreeSet<Process>) -> Result<BTreeSet<Process>> {
    let begun = Instant::now();
    loop {
        let own = &descendants(&[node.pid()?]) - before;
        if own.iter().any(|process| command_line(*process).contains(COMMAND)) {
            return Ok(own);
        }
        ensure!(begun.elapsed() < PATIENCE, "the command does not start");
        sleep(LOOK).await;
    }
}

/// Cancels a run. Its worker has stopped once it has reported the cost and all processes have exited.
async fn until_stopped(
    asked: &mut Connection,
    run: &str,
    processes: &BTreeSet<Process>,
    begun: Instant,
) -> Result<Duration> {
    let path = format!("/v1/runs/{run}");
    let cancel = format!("{path}/cancel");
    let mut run: Run = asked.call(Method::POST, &cancel, Bytes::new(), 200).await?;
    ensure!(run.status == RunStatus::Cancelled, "{run:?}");
    while run.billing_pending || processes.iter().any(|process| is_alive(*process)) {
        sleep(LOOK).await;
        run = asked.call(Method::GET, &path, Bytes::new(), 200).await?;
    }
    Ok(begun.elapsed())
}

async fn until_told(mut stream: Incoming, begun: Instant) -> Result<Duration> {
    let mut read = Vec::new();
    while let Some(frame) = stream.frame().await {
        if let Ok(bytes) = frame?.into_data() {
            read.extend_from_slice(&bytes);
        }
    }
    ensure!(contains(&read, b"event: done"), "the stream ended early");
    Ok(begun.elapsed())
}
