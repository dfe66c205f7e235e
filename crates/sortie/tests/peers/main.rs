//! The API as third-party tools see it: validators of its description, and generated clients that use the real binary.
//! `scripts/peers` installs them.
#![cfg(test)]

mod browser;
mod clients;
mod collector;
mod description;
mod disaster;
mod mcp;
mod metrics;
mod people;
mod storage;
mod traces;

use std::process::Command;

use sortie_testkit::{
    peers::{self, installed},
    prelude::*,
};
use tempfile::TempDir;

/// A command of a peer, in `folder`.
fn peer(path: &str, folder: &TempDir) -> Result<Command> {
    let mut command = peers::command(installed(path)?)?;
    command
        .current_dir(folder.path())
        // Sends no telemetry, and looks nothing up.
        .env("REDOCLY_TELEMETRY", "off")
        .env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true");
    Ok(command)
}

/// Runs the command to its end, requires success, and returns its output.
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
        .expect(200)
        .await?;
    let folder = TempDir::new()?;
    std::fs::write(folder.path().join("openapi.json"), &answer.body)?;
    Ok((node, folder))
}
