//! Several nodes on one PostgreSQL: their total throughput, the delay of streams from a node that does not run the run, and the
//! time until runs of a killed node resume.

use std::time::Instant;

use anyhow::Result;
use sortie_testkit::{Node, NodeOptions};

use crate::{
    Bench,
    followers::Followers,
    load::{ROWS_OF_A_RUN, complete_for, create_for, per_second, request},
    memory::start_waiting,
    mixed,
    outage::{after_the_lease, until_taken_up},
    report::{Limit, Report},
    samples::Samples,
};

/// Number of active runs on the node that is killed.
const AT_WORK: usize = 200;

/// Number of streams of runs on another node.
const FOLLOWERS: usize = 200;

/// Number of runs that are followed one after another.
const ROUNDS: usize = 30;

/// Number of clients for all nodes.
const CLIENTS: usize = 64;

/// Runs all measurements.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if !bench.has_several() {
        return Ok(());
    }
    if report.wants("mixed work over nodes") {
        mixed_work(bench, report).await?;
    }
    if report.wants("event through another of several nodes") {
        streams(bench, report).await?;
    }
    if !report.wants("nodes") {
        return Ok(());
    }
    rates(bench, report).await?;
    killed(bench, report).await
}

async fn rates(bench: &Bench, report: &mut Report) -> Result<()> {
    let nodes = bench.cluster(bench.nodes).await?;
    let all: Vec<&Node> = nodes.iter().collect();
    let count = all.len();
    let done = complete_for(&all, CLIENTS, bench.seconds, || request("hello")).await?;
    let rate = per_second(done.completed, bench.seconds)?;
    let name = format!("complete tool-free runs over {count} nodes, {CLIENTS} at once");
    report.against(Limit::Rows, name.clone(), rate * ROWS_OF_A_RUN);
    report.reach(name.clone(), rate);
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

/// Uses separate nodes, because those of the creates still process the queued runs.
async fn mixed_work(bench: &Bench, report: &mut Report) -> Result<()> {
    let nodes = bench.cluster(bench.nodes).await?;
    let all: Vec<&Node> = nodes.iter().collect();
    let name = format!("mixed work over {} nodes", all.len());
    mixed::over(&all, &name, bench.seconds, report).await
}

/// Starts a node with its only slot taken, and another one that executes all other runs.
pub(crate) async fn full_and_working(bench: &Bench) -> Result<(Node, Node)> {
    let options = NodeOptions::default().env("SORTIE_CONCURRENCY", "1");
    let mut full = bench.node_with(options).await?;
    start_waiting(&full, 1, "```wait 3000000\n```\n").await?;
    full.options_mut()
        .environment
        .retain(|(name, _)| name != "SORTIE_CONCURRENCY");
    let working = full.beside().await?;
    Ok((full, working))
}

/// Measures streams from a node that does not execute the runs: of one run at a time, and of many runs that end together.
async fn streams(bench: &Bench, report: &mut Report) -> Result<()> {
    let (other, working) = full_and_working(bench).await?;
    for (rounds, count, prompt) in [
        (ROUNDS, 1, "```wait 1000\n```\n"),
        (3, FOLLOWERS, "```wait 3000\n```\n"),
    ] {
        let mut lags = Samples::default();
        for _ in 0..rounds {
            let runs = start_waiting(&working, count, prompt).await?;
            let followers = Followers::open(other.address()?, other.key(), runs).await?;
            lags.extend(followers.lags().await?);
        }
        report.add(
            format!(
                "lag of the last event from another node than the one that works, {count} at once, p50 / p99"
            ),
            lags.to_string(),
        );
    }
    Ok(())
}

/// Measures the loss of the node with all active runs. It was the only node when they started.
async fn killed(bench: &Bench, report: &mut Report) -> Result<()> {
    let mut victim = bench.node().await?;
    let runs = start_waiting(&victim, AT_WORK, "```wait 3000000\n```\n").await?;
    let mut others = Vec::new();
    while others.len() + 1 < bench.nodes {
        others.push(victim.beside().await?);
    }
    let killed = Instant::now();
    victim.kill()?;
    let others: Vec<&Node> = others.iter().collect();
    let took = until_taken_up(&others, runs, killed).await?;
    let name = format!(
        "SIGKILL to one of {} nodes until its {AT_WORK} runs are final or resumed, seen on the others",
        bench.nodes
    );
    after_the_lease(report, &name, took);
    Ok(())
}
