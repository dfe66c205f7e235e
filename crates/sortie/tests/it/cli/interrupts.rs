//! Commands that a signal ends.

use std::process::{Command, Stdio};

use sortie_testkit::{Passage, Proxy};

use super::kill;
use crate::prelude::*;

/// The first Ctrl-C cancels the run.
#[tokio::test]
async fn an_interrupt_cancels_the_run() -> Checked {
    let node = node(Database::Sqlite).await?;
    interrupted(&node, node.sortie(&["run", "```wait 60000\n```\n"]), "-INT").await
}

/// The end of the terminal has the same effect.
#[tokio::test]
async fn a_hangup_cancels_the_run() -> Checked {
    let node = node(Database::Sqlite).await?;
    let command = node.sortie(&["run", "```wait 60000\n```\n"]);
    interrupted(&node, with_signals(&command, "--default-signal=HUP"), "-HUP").await
}

/// A command under `nohup` outlives its terminal.
#[tokio::test]
async fn a_hangup_that_is_ignored_from_the_start_cancels_nothing() -> Checked {
    let node = node(Database::Sqlite).await?;
    let command = node.sortie(&["run", "```wait 60000\n```\n"]);
    let mut command = with_signals(&command, "--ignore-signal=HUP");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let client = node.client()?;
    let id = loop {
        if let Some(run) = client.list("status=running").await?.first() {
            break run.id.to_string();
        }
    };
    exits(kill(i32::try_from(child.id())?, "-HUP"), 0)?;
    exits(node.sortie(&["runs", "cancel", &id]), 0)?;
    let output = child.wait_with_output()?;
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    ensure!(!text(&output.stderr).contains("cancelling"), "{output:?}");
    Ok(())
}

/// A command that is started with another disposition of a signal.
#[expect(clippy::disallowed_methods, reason = "`env` sets it and then is the command")]
fn with_signals(command: &Command, option: &str) -> Command {
    let mut under = Command::new("env");
    under
        .arg(option)
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => under.env(name, value),
            None => under.env_remove(name),
        };
    }
    under
}

/// Also if it comes before the engine has confirmed the run.
#[tokio::test]
async fn an_interrupt_while_the_run_is_created_cancels_it() -> Checked {
    let node = node(Database::Sqlite).await?;
    let proxy = Proxy::start(node.address()?).await?;
    // Time for which the node works on the run before the command learns of it.
    proxy.set(Passage::Slow(Duration::from_secs(1)));
    let url = proxy.base_url();
    interrupted(
        &node,
        node.sortie(&["run", "```wait 60000\n```\n", "--url", &url]),
        "-INT",
    )
    .await
}

/// Interrupts a command once the node works on its run, which is cancelled.
async fn interrupted(node: &Node, mut command: Command, signal: &str) -> Checked {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let client = node.client()?;
    while client.list("status=running").await?.is_empty() {}
    let pid = i32::try_from(child.id())?;
    exits(kill(pid, signal), 0)?;
    // On a separate thread, because the server of the command may run on this one.
    let output = tokio::task::spawn_blocking(|| child.wait_with_output()).await??;
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_eq!(client.list("status=cancelled").await?.len(), 1);
    Ok(())
}
