//! A node that is killed with runs at work: how long until every one of them is final.

use std::time::{Duration, Instant};

use anyhow::Result;
use sortie_testkit::{Database, Node};
use tokio::time::sleep;

use crate::{
    Bench,
    connection::Connection,
    memory::{some_with, start_waiting},
    report::Report,
    samples::Millis,
};

/// Runs at work when the node is killed.
const AT_WORK: usize = 200;

/// Restart of the same node; on PostgreSQL also another node that is there already.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("SIGKILL") {
        return Ok(());
    }
    let mut node = bench.node().await?;
    start_waiting(&node, AT_WORK, "```wait 3000000\n```\n").await?;
    let killed = Instant::now();
    node.kill()?;
    node.restart().await?;
    let all_final = until_final(&node, killed).await?;
    report.add(
        "SIGKILL to all of 200 runs final, same node restarted",
        Millis(all_final).to_string(),
    );
    let name = "SIGKILL to all of 200 runs final, by another node";
    if bench.database == Database::Sqlite {
        report.add(name, "one node");
        return Ok(());
    }
    start_waiting(&node, AT_WORK, "```wait 3000000\n```\n").await?;
    let other = node.beside().await?;
    let killed = Instant::now();
    node.kill()?;
    let all_final = until_final(&other, killed).await?;
    report.add(name, Millis(all_final).to_string());
    Ok(())
}

async fn until_final(node: &Node, since: Instant) -> Result<Duration> {
    let mut connection = Connection::to(node)?;
    for status in ["running", "starting", "queued"] {
        while some_with(&mut connection, status).await? {
            sleep(Duration::from_millis(2)).await;
        }
    }
    Ok(since.elapsed())
}
