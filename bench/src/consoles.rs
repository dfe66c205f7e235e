//! A thousand clients follow the list of runs, as open consoles do. We measure the memory and the CPU time of the node while
//! nothing changes, and while runs start and end.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sortie_testkit::{Node, NodeOptions};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{interval, sleep},
};

use crate::{
    Bench,
    connection::Connection,
    load::{complete, contains, request},
    memory::mebibytes,
    process::{cpu, resident},
    report::Report,
};

/// Number of open consoles.
const CONSOLES: usize = 1_000;

/// Duration of each measurement.
const LASTS: Duration = Duration::from_secs(20);

/// Runs all measurements.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("open consoles") {
        return Ok(());
    }
    // All consoles share one address and would otherwise be limited to half of the connections.
    let options = NodeOptions::default().env("SORTIE_TRUSTED_PROXIES", "127.0.0.1");
    let node = bench.node_with(options).await?;
    let (mut creating, mut following) = (Connection::to(&node)?, Connection::to(&node)?);
    // One-time allocations are not counted.
    let mut first = open(&node).await?;
    complete(&mut creating, &mut following, &request("hello")).await?;
    until_row(&mut first).await?;
    let before = resident(&node)?;
    let mut open_consoles = Vec::with_capacity(CONSOLES);
    for _ in 0..CONSOLES {
        open_consoles.push(open(&node).await?);
    }
    let idle = share_of_core(&node, async {
        sleep(LASTS).await;
        Ok(())
    })
    .await?;
    let held = resident(&node)?.saturating_sub(before);
    report.add("1,000 open consoles: memory of the node", mebibytes(held)?);
    report.add(
        "… part of a core while nothing happens",
        format!("{:.1} %", 100.0 * idle),
    );
    let work = async {
        let mut second = interval(Duration::from_secs(1));
        let begun = Instant::now();
        while begun.elapsed() < LASTS {
            second.tick().await;
            complete(&mut creating, &mut following, &request("hello")).await?;
        }
        Ok(())
    };
    let busy = share_of_core(&node, work).await?;
    report.add(
        "… part of a core while one run a second comes and ends",
        format!("{:.1} %", 100.0 * busy),
    );
    for console in &mut open_consoles {
        until_row(console).await?;
    }
    Ok(())
}

/// Returns the part of a core that the node uses until `end`.
async fn share_of_core(node: &Node, end: impl Future<Output = Result<()>>) -> Result<f64> {
    let (begun, before) = (Instant::now(), cpu(node)?);
    end.await?;
    Ok(cpu(node)?.saturating_sub(before).as_secs_f64() / begun.elapsed().as_secs_f64())
}

/// Opens a feed as the console does, and waits until it has begun.
async fn open(node: &Node) -> Result<TcpStream> {
    let mut socket = TcpStream::connect(node.address()?)
        .await
        .context("cannot connect")?;
    let request = format!(
        "GET /v1/runs HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\nauthorization: Bearer {}\r\n\r\n",
        node.key()
    );
    socket.write_all(request.as_bytes()).await?;
    until(&mut socket, b"\r\n\r\n").await?;
    Ok(socket)
}

/// Waits until a feed has a row.
async fn until_row(socket: &mut TcpStream) -> Result<()> {
    until(socket, b"event: run\n").await
}

async fn until(socket: &mut TcpStream, wanted: &[u8]) -> Result<()> {
    let mut read = Vec::new();
    while !contains(&read, wanted) {
        let count = socket.read_buf(&mut read).await?;
        ensure!(count > 0, "a feed ended: {}", String::from_utf8_lossy(&read));
    }
    ensure!(
        read.starts_with(b"HTTP/1.1 200") || !read.starts_with(b"HTTP/"),
        "{}",
        String::from_utf8_lossy(&read)
    );
    Ok(())
}
