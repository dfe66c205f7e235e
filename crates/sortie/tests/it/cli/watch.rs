//! `sortie runs list --watch`.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
    sync::mpsc::{Receiver, channel},
};

use super::kill;
use crate::prelude::*;

/// A watching command, and the lines that it prints.
struct Watching {
    child: Child,
    lines: Receiver<String>,
}

impl Watching {
    fn start(node: &Node, arguments: &[&str]) -> Result<Self> {
        let mut command = node.sortie(&[&["runs", "list", "--watch"], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("its output is piped")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, lines })
    }

    /// Interrupts the command, which leaves at once.
    fn leave(mut self) -> Checked {
        exits(kill(i32::try_from(self.child.id())?, "-INT"), 0)?;
        assert_eq!(self.child.wait()?.code(), Some(130));
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_list_is_shown_anew_when_a_run_changes() -> Checked {
    let node = node(Database::Sqlite).await?;
    let watching = Watching::start(&node, &["--tag", "wanted"])?;
    // The list comes at once, and a run later.
    assert!(watching.lines.recv_timeout(sortie_testkit::PATIENCE)?.is_empty());
    let (_, run) = node
        .client()?
        .complete(&json!({"prompt": "x", "tags": ["wanted"]}))
        .await?;
    let (id, status) = (run.id.to_string(), "succeeded");
    loop {
        let line = watching.lines.recv_timeout(sortie_testkit::PATIENCE)?;
        if line.starts_with(&id) && line.contains(status) {
            break;
        }
    }
    watching.leave()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_list_as_json_is_a_line_for_each_change() -> Checked {
    let node = node(Database::Sqlite).await?;
    let watching = Watching::start(&node, &["--json"])?;
    let client = node.client()?;
    let line = loop {
        // Until the command follows the feed.
        client.complete(&json!({"prompt": "x"})).await?;
        if let Ok(line) = watching.lines.try_recv() {
            break line;
        }
    };
    let run: sortie_api::Run = serde_json::from_str(&line)?;
    ensure!(client.run(&run.id.to_string()).await?.id == run.id);
    watching.leave()
}
