//! PgBouncer between a node and PostgreSQL: it works in session mode, and is refused in transaction mode.

use std::process::Command;

use sortie_testkit::{Pgbouncer, PoolMode, Records, node::binary_command};

use crate::prelude::*;

/// Maximum time until a node refuses to start.
const REFUSAL: Duration = Duration::from_secs(30);

/// A pooler in front of a fresh database; `None`, with a notice, if the package is missing.
async fn pooled(mode: PoolMode) -> anyhow::Result<Option<(Records, Pgbouncer, String)>> {
    let records = Database::Postgres.fresh().await?;
    let Records::Shared(database) = &records else {
        anyhow::bail!("no server");
    };
    let Some(pooler) = Pgbouncer::start(database.server()?, mode).await? else {
        println!("NOT CHECKED: poolers of connections: the package pgbouncer is not installed");
        return Ok(None);
    };
    let url = database.url_at(pooler.address())?;
    Ok(Some((records, pooler, url)))
}

#[tokio::test]
async fn a_pooler_in_session_mode_works() -> Checked {
    let Some((records, _pooler, url)) = pooled(PoolMode::Session).await? else {
        return Ok(());
    };
    let options = NodeOptions {
        database_url: Some(url),
        ..NodeOptions::default()
    };
    let node = Node::on(env!("CARGO_BIN_EXE_sortie"), records, options, None).await?;
    let client = node.client()?;
    let (_, run) = client
        .complete(&json!({"prompt": "```sh\necho through\n```\n"}))
        .await?;
    ensure!(run.status == RunStatus::Succeeded, "{run:?}");
    ensure!(run.output.as_deref() == Some("through\n"), "{run:?}");
    // Nodes receive each other's hints: each has a session for itself.
    let other = node.beside().await?;
    let waits = client
        .create(&json!({"prompt": "```wait 600000\n```\n", "timeout_seconds": 900}))
        .await?;
    let id = waits.id.to_string();
    client.until_running(&id).await?;
    let cancelled = other.client()?.cancel(&id).await?;
    ensure!(cancelled.status == RunStatus::Cancelled, "{cancelled:?}");
    let (_, done) = client.finished(&id).await?;
    ensure!(done.status == RunStatus::Cancelled, "{done:?}");
    Ok(())
}

#[tokio::test]
async fn a_pooler_in_transaction_mode_is_refused_at_the_start() -> Checked {
    let Some((_records, _pooler, url)) = pooled(PoolMode::Transaction).await? else {
        return Ok(());
    };
    let data = tempfile::tempdir()?;
    let mut command: Command = binary_command(env!("CARGO_BIN_EXE_sortie").as_ref());
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(data.path())
        .args(["--database-url", &url]);
    let mut command = tokio::process::Command::from(command);
    let output = tokio::time::timeout(REFUSAL, command.kill_on_drop(true).output())
        .await
        .context("it starts, or hangs")??;
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    ensure!(!output.status.success(), "{said}");
    for words in ["pooler in transaction mode", "session mode"] {
        ensure!(said.contains(words), "it does not say {words:?}: {said}");
    }
    Ok(())
}
