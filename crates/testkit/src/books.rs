//! The credits of a database, added up by `scripts/recompute-ledger`, which knows nothing of the product.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

use crate::Node;

/// Adds up the credits in the records of this node, whether it is up or not. A difference is an error that lists them all.
pub fn recompute_ledger(node: &Node) -> Result<()> {
    recompute_records(&node.records_address())
}

/// Adds up the credits in the database with this address, which may be in use. A difference is an error that lists them all.
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
