//! The API as those see it who did not write it: validators of its description, and clients generated from it, which
//! work with the real binary. `scripts/peers` installs them.
#![cfg(test)]

mod clients;
mod collector;
mod description;
mod disaster;
mod metrics;
mod storage;
mod traces;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use sortie_testkit::{Database, Node};
use tempfile::TempDir;

/// Returns the path of a peer's file, or fails with the command that installs it.
fn installed(path: &str) -> Result<PathBuf> {
    #[expect(
        clippy::disallowed_methods,
        reason = "where the peers are is no setting of the node"
    )]
    let folder = std::env::var_os("SORTIE_PEERS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers"),
        PathBuf::from,
    );
    // The folder alone: a program of Python's is a link that knows where it lies.
    let folder = folder.canonicalize().unwrap_or(folder);
    let path = folder.join(path);
    ensure!(path.exists(), "{} is missing: run scripts/peers", path.display());
    Ok(path)
}

/// A command of a peer, in `folder`.
fn peer(path: &str, folder: &TempDir) -> Result<Command> {
    #[expect(clippy::disallowed_methods, reason = "a test starts what others wrote")]
    let mut command = Command::new(installed(path)?);
    command
        .current_dir(folder.path())
        // Nothing is told to anybody, and nothing is looked up.
        .env("REDOCLY_TELEMETRY", "off")
        .env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true");
    Ok(command)
}

/// Runs it to its end, which must be a success, and returns what it has printed.
fn succeeds(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    ensure!(
        output.status.success(),
        "{command:?}: {}\n{out}\n{err}",
        output.status
    );
    Ok(out.into_owned())
}

/// A node, and a folder with its description in `openapi.json`.
async fn described() -> Result<(Node, TempDir)> {
    let node = Node::start(env!("CARGO_BIN_EXE_sortie"), Database::Sqlite).await?;
    let answer = node
        .client()?
        .anonymous()
        .get("/openapi.json")
        .await?
        .expect(200)?;
    let folder = TempDir::new()?;
    std::fs::write(folder.path().join("openapi.json"), &answer.body)?;
    Ok((node, folder))
}
