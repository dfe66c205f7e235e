//! The command line and an answer that can be read once (`docs/ZERO-DATA-RETENTION.md#reading-it`): a command that does
//! not print the answer does not consume it.

use super::unretained;
use crate::prelude::*;

both_databases![only_a_command_that_prints_the_answer_takes_it];

async fn only_a_command_that_prints_the_answer_takes_it(database: Database) -> Checked {
    let (node, client) = started(database).await?;
    let (_, done) = client.complete(&unretained("```answer\nread me\n```\n")).await?;
    let id = done.id.to_string();
    for (arguments, exit) in [
        (&["runs", "events", &id][..], 0),
        (&["runs", "events", &id, "--json"], 0),
        (&["runs", "events", &id, "--after", "100"], 0),
        (&["runs", "export", &id], 64),
        (&["runs", "definition", &id], 64),
        (&["runs", "resume", &id], 0),
        (&["runs", "cancel", &id], 0),
        (&["runs", "list"], 0),
        (&["runs", "deliveries", &id], 0),
        (&["runs", "artifacts", &id], 0),
    ] {
        exits(node.sortie(arguments), exit)?;
        let listed = client.list("").await?;
        ensure!(
            listed == [done.clone()],
            "{arguments:?} took the answer: {listed:?}"
        );
    }
    let transcript = said(&node, &["runs", "events", &id])?;
    assert_contains!(transcript, "\nread me\n");
    let after = exits(node.sortie(&["runs", "events", &id, "--after", "100"]), 0)?;
    assert_contains!(after.stderr, &format!("`sortie runs get {id}` prints it"));

    let first = said(&node, &["runs", "get", &id])?;
    ensure!(
        first.ends_with("\nread me\n") && first.contains("read now and deleted"),
        "{first}"
    );
    let second = said(&node, &["runs", "get", &id])?;
    let read_at = client.run(&id).await?.output_read_at.context("it was read")?;
    assert_contains!(second, &format!("was read at {read_at}, and deleted"));
    assert_lacks!(second, "read me");
    ensure!(Some(read_at) > done.finished_at, "{read_at}");
    Ok(())
}
