//! `GET /v1/runs/{id}/ui-messages` (`docs/API.md#ui-message-streams`).

use sortie_testkit::{
    client::EventStream,
    model::Turn,
    sse::{Item, Message},
};

use crate::{prelude::*, runs::model::Scripted};

both_databases![
    a_stream_continues_after_a_kill_with_the_next_chunk,
    text_comes_live_and_is_recorded
];

pub(crate) fn path(run: &str) -> String {
    format!("/v1/runs/{run}/ui-messages")
}

/// Returns the next message, or `None` at the end of the stream.
async fn next(stream: &mut EventStream) -> anyhow::Result<Option<Message>> {
    loop {
        match stream.item().await? {
            Some(Item::Message(message)) => return Ok(Some(message)),
            Some(Item::Comment(_) | Item::Retry(_)) => {}
            None => return Ok(None),
        }
    }
}

/// Returns all messages after a chunk.
pub(crate) async fn read(client: &Client, run: &str, after: Option<&str>) -> anyhow::Result<Vec<Message>> {
    let client = match after {
        Some(id) => client.with_header("last-event-id", id),
        None => client.clone(),
    };
    let mut stream = client.follow_at(&path(run), None).await?;
    let mut messages = Vec::new();
    while let Some(message) = next(&mut stream).await? {
        messages.push(message);
    }
    Ok(messages)
}

async fn a_stream_continues_after_a_kill_with_the_next_chunk(database: Database) -> Checked {
    let shell = |command: &str| Turn::calls("shell", json!({"command": command}));
    let script = [
        shell("echo one"),
        // This one goes with the node.
        Turn::says(["never"]).held(),
        shell("echo two"),
        Turn::says(["done"]),
    ];
    let mut rig = Scripted::start(database, script).await?;
    let client = rig.node.client()?;
    let id = client.create_id(&plain("Go.")).await?;
    let mut stream = client.follow_at(&path(&id), None).await?;
    let mut sent = Vec::new();
    while !sent
        .last()
        .is_some_and(|last: &Message| last.data.contains("tool-output-available"))
    {
        sent.push(next(&mut stream).await?.context("the stream ended")?);
    }
    rig.model.asked(2).await?;
    rig.node.kill()?;
    rig.node.restart().await?;
    let last = sent.last().and_then(|last| last.id.clone()).context("no id")?;
    let client = rig.node.client()?;
    sent.extend(read(&client, &id, Some(&last)).await?);
    assert_eq!(sent, read(&client, &id, None).await?);
    let kinds: Vec<Value> = sent
        .iter()
        .filter_map(|message| serde_json::from_str::<Value>(&message.data).ok())
        .map(|chunk| chunk["type"].clone())
        .collect();
    let count = |kind: &str| kinds.iter().filter(|other| **other == kind).count();
    for (kind, times) in [
        ("start", 1),
        ("tool-input-available", 2),
        ("tool-output-available", 2),
        ("data-resumed", 1),
        ("text-delta", 1),
        ("start-step", 3),
        ("finish-step", 3),
        ("finish", 1),
    ] {
        assert_eq!(count(kind), times, "{kind} in {kinds:?}");
    }
    assert_eq!(sent.last().map(|last| last.data.as_str()), Some("[DONE]"));
    Ok(())
}

async fn text_comes_live_and_is_recorded(database: Database) -> Checked {
    let rig = Scripted::start(database, [Turn::says(["The ", "answer."]).held()]).await?;
    let client = rig.node.client()?;
    let id = client.create_id(&plain("Go.")).await?;
    let live = format!("{}?deltas=true", path(&id));
    let mut stream = client.follow_at(&live, None).await?;
    rig.model.asked(1).await?;
    rig.model.release();
    let (mut text, mut is_recorded) = (String::new(), false);
    while let Some(message) = next(&mut stream).await? {
        let Ok(chunk) = serde_json::from_str::<Value>(&message.data) else {
            continue;
        };
        if chunk["type"] == "data-message-delta" {
            ensure!(message.id.is_none(), "{message:?}");
            assert_eq!(
                (&chunk["transient"], &chunk["data"]["step"]),
                (&json!(true), &json!(1))
            );
            text += chunk["data"]["text"].as_str().context("no text")?;
        } else if chunk["type"] == "text-delta" {
            ensure!(message.id.is_some());
            assert_eq!(chunk["delta"], "The answer.");
            is_recorded = true;
        }
    }
    ensure!(is_recorded);
    assert_eq!(text, "The answer.");
    // Without the parameter, live messages are not sent.
    let recorded = read(&client, &id, None).await?;
    ensure!(
        recorded
            .iter()
            .all(|message| !message.data.contains("data-message-"))
    );
    Ok(())
}
