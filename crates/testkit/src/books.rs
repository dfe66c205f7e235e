//! Recomputes the credits of a database with `scripts/recompute-ledger`, which shares no code with the product.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

use crate::Node;

/// Recomputes the credits in the records of this node, which may be running. Fails with a list of all differences.
pub fn recompute_ledger(node: &Node) -> Result<()> {
    recompute_records(&node.records_address())
}

/// Recomputes the credits in the database with this address, which may be in use. Fails with a list of all differences.
pub fn recompute_records(address: &str) -> Result<()> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/recompute-ledger");
    #[expect(clippy::disallowed_methods, reason = "the script is another program")]
    let output = Command::new("python3")
        .arg(&script)
        .arg(address)
        .output()
        .context("python3 is needed")?;
    let (told, failed) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    ensure!(
        output.status.code() != Some(1),
        "{told}the tables contradict each other"
    );
    ensure!(output.status.success(), "{failed}");
    Ok(())
}
