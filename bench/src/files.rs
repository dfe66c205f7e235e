//! Upload and download of a 100 MiB file, compared with a copy on the same disk, and the node's memory during both.

use std::{fs, time::Instant};

use anyhow::{Result, ensure};
use sortie_api::File;
use sortie_testkit::Node;

use crate::{
    Bench,
    memory::mebibytes,
    process::{highest, resident},
    report::Report,
};

/// Size of the file, in bytes.
const SIZE: usize = 100 << 20;
const ROUNDS: u8 = 5;

/// Runs all measurements.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("file") {
        return Ok(());
    }
    let node = bench.node().await?;
    let client = node.client()?;
    let before = resident(&node)?;
    let (mut up, mut down, mut copy) = (0.0_f64, 0.0_f64, 0.0_f64);
    for round in 0..ROUNDS {
        // Different content each time, because identical content is stored only once.
        let content: Vec<u8> = (0_u32..)
            .map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3] ^ round)
            .take(SIZE)
            .collect();
        let name = format!("bench-{round}");
        let begun = Instant::now();
        let file: File = client.upload(&name, &content).await?;
        up = up.max(rate(begun));
        ensure!(file.size == i64::try_from(SIZE)?, "not all of it was taken");
        let begun = Instant::now();
        let answer = client
            .get(&format!("/v1/files/{name}/content"))
            .await?
            .expect(200)?;
        down = down.max(rate(begun));
        ensure!(answer.body == content, "another content came back");
        copy = copy.max(plain_copy(&node, &content)?);
    }
    report.add("file of 100 MiB, upload, best of 5", format!("{up:.0} MiB/s"));
    report.add("… download, best of 5", format!("{down:.0} MiB/s"));
    report.add(
        "… a plain copy on the same disk, synced, best of 5",
        format!("{copy:.0} MiB/s"),
    );
    report.add("… resident memory of the node before", mebibytes(before)?);
    report.add("… its highest until the end", mebibytes(highest(&node)?)?);
    Ok(())
}

/// Returns the rate in MiB per second since `begun` for one file.
fn rate(begun: Instant) -> f64 {
    100.0 / begun.elapsed().as_secs_f64()
}

fn plain_copy(node: &Node, content: &[u8]) -> Result<f64> {
    let source = node.data_dir().join("source");
    let target = node.data_dir().join("target");
    fs::write(&source, content)?;
    let begun = Instant::now();
    fs::copy(&source, &target)?;
    fs::File::open(&target)?.sync_all()?;
    let rate = rate(begun);
    fs::remove_file(source)?;
    fs::remove_file(target)?;
    Ok(rate)
}
