//! Runs with commands: their rate, and the cost of one command in an open sandbox.

use anyhow::Result;

use crate::{
    Bench,
    connection::Connection,
    load::{complete, complete_for, per_second, request},
    machine::bare_spawn,
    process::{cpu, cpu_each},
    report::{Limit, Report},
    samples::{Millis, Samples},
};

/// Number of commands in the long run. The difference from a run with one command is the cost of the others.
const COMMANDS: u32 = 101;

/// Measures both.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("shell") {
        return Ok(());
    }
    let node = bench.node().await?;
    let one = request("```sh\ntrue\n```\n");
    for concurrency in [1, 16, 64] {
        let before = cpu(&node)?;
        let done = complete_for(&[&node], concurrency, bench.seconds, {
            let one = one.clone();
            move || one.clone()
        })
        .await?;
        let rate = per_second(done.completed, bench.seconds)?;
        let name = format!("runs with one shell command, {concurrency} at once");
        if concurrency > 1 {
            report.against(Limit::Processes, &name, rate);
        }
        report.reach(&name, rate);
        report.add(
            format!("… CPU of the node a run with shell, {concurrency} at once"),
            Millis(cpu_each(&node, before, done.completed, bench.seconds)?).to_string(),
        );
        report.add(name, format!("{rate:.0}/s"));
        report.add(
            format!("… POST to `done` with shell, p50 / p99, {concurrency} at once"),
            done.done.to_string(),
        );
    }
    let many = request(&"```sh\ntrue\n```\n".repeat(usize::try_from(COMMANDS)?));
    let (mut creating, mut following) = (Connection::to(&node)?, Connection::to(&node)?);
    let mut short = Samples::default();
    let mut long = Samples::default();
    for _ in 0..10 {
        short.add(complete(&mut creating, &mut following, &one).await?.done);
        long.add(complete(&mut creating, &mut following, &many).await?.done);
    }
    let each = long.percentile(50).saturating_sub(short.percentile(50)) / (COMMANDS - 1);
    let bare = bare_spawn()?;
    report.add(
        "a shell command in an open sandbox, with its events",
        Millis(each).to_string(),
    );
    report.add(
        "… over a bare shell spawn",
        Millis(each.saturating_sub(bare)).to_string(),
    );
    Ok(())
}
