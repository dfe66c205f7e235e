//! `GET /v1/runs/{id}/events` (`docs/API.md#event-streams`).

use sortie_testkit::{
    client::{Next, status_of},
    model::Turn,
    sse::Item,
};

use crate::{kit::unsettled, prelude::*, runs::model::Scripted};

both_databases![
    the_events_of_a_run_tell_its_whole_way,
    a_stream_resumes_after_last_event_id,
    new_events_come_as_they_happen_to_every_follower,
];

/// `docs/RUNS.md#events`.
async fn the_events_of_a_run_tell_its_whole_way(database: Database) -> Checked {
    let node = node(database).await?;
    let (events, run) = node.client()?.complete(&plain("hello")).await?;
    assert_eq!(
        statuses(&events),
        [
            RunStatus::Queued,
            RunStatus::Starting,
            RunStatus::Running,
            RunStatus::Succeeded
        ]
    );
    let order = kinds(&events);
    assert_eq!(
        order.iter().filter(|kind| **kind == "worker_started").count(),
        1,
        "{order:?}"
    );
    let started = data(of_kind(&events, "worker_started")[0]);
    assert_has!(started, {"mode": "self-hosted", "shell": true});
    ensure!(
        ["namespaces", "landlock", "none"]
            .map(Value::from)
            .contains(&started["runtime"]),
        "{started}"
    );
    assert_eq!(order[order.len() - 2..], ["result", "status"]);
    assert_eq!(data(of_kind(&events, "result")[0]), json!({"output": "hello"}));
    assert_eq!(data(&events[events.len() - 1]), json!({"status": "succeeded"}));
    let call = data(of_kind(&events, "model_call")[0]);
    for field in [
        "step",
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cost_micros",
        "duration_ms",
    ] {
        ensure!(call[field].is_u64(), "{field} in {call}");
    }
    assert_eq!(call["model"], "runbook");
    let times: Vec<_> = events.iter().map(|event| event.created_at).collect();
    ensure!(
        times.is_sorted() && times[0] == run.created_at,
        "{times:?} of {run:?}"
    );
    assert_eq!(Some(times[times.len() - 1]), run.finished_at);
    Ok(())
}

/// `docs/API.md#event-streams`: the bytes of the stream.
#[tokio::test]
async fn the_stream_is_framed_as_the_document_says() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let run = client.create(&plain("line\u{2028}separator\u{85}")).await?;
    let mut stream = client.follow(&run.id.to_string(), None).await?;
    stream.to_done().await?;
    let content_type = stream.headers.get("content-type").cloned();
    assert_eq!(content_type, Some(HeaderValue::from_static("text/event-stream")));
    ensure!(
        stream
            .headers
            .get("cache-control")
            .is_some_and(|value| value.as_bytes().starts_with(b"no-"))
    );
    assert_eq!(
        stream.headers.get("x-accel-buffering").cloned(),
        Some(HeaderValue::from_static("no"))
    );
    let text = std::str::from_utf8(stream.raw())?;
    ensure!(text.starts_with(": connected\n"), "{text}");
    assert_eq!(text.matches("retry: 2000\n").count(), 1);
    ensure!(
        !text.contains(['\r', '\u{2028}', '\u{2029}', '\u{85}']),
        "{text:?}"
    );
    let messages: Vec<&str> = text
        .split("\n\n")
        .filter(|block| block.contains("data: "))
        .collect();
    let (done, recorded) = messages
        .split_last()
        .ok_or_else(|| anyhow::anyhow!("no message in {text}"))?;
    for (n, message) in recorded.iter().enumerate() {
        let fields: Vec<&str> = message
            .lines()
            .filter(|line| !line.starts_with(':') && !line.starts_with("retry"))
            .collect();
        ensure!(fields.len() == 3, "{message}");
        assert_eq!(fields[0], format!("id: {}", n + 1));
        ensure!(
            fields[1].starts_with("event: ") && fields[2].starts_with("data: {"),
            "{message}"
        );
    }
    ensure!(
        done.starts_with("event: done\ndata: {") && done.lines().count() == 2,
        "{done}"
    );
    ensure!(text.ends_with("}\n\n"));
    Ok(())
}

/// `docs/API.md#event-streams`: `done` carries the run object, and closes the stream also for a late client.
#[tokio::test]
async fn a_final_run_is_replayed_and_done_at_once() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let (events, run) = client.complete(&commands(&["echo hi"])).await?;
    let id = run.id.to_string();
    let (again, done) = client.finished(&id).await?;
    assert_eq!(kinds(&again), kinds(&events));
    assert_eq!(done, client.run(&id).await?);
    let whole = client.get(&format!("/v1/runs/{id}")).await?.json()?;
    let mut stream = client.follow(&id, Some(i64::try_from(events.len())?)).await?;
    let Next::Done(sent) = stream.next().await? else {
        anyhow::bail!("no done")
    };
    assert_eq!(sent, whole);
    Ok(())
}

/// `docs/API.md#event-streams`: `Last-Event-ID`.
async fn a_stream_resumes_after_last_event_id(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let (events, run) = client.complete(&commands(&["echo one", "echo two"])).await?;
    let id = run.id.to_string();
    let last = i64::try_from(events.len())?;
    for after in 0..=last {
        let (rest, done) = client.follow(&id, Some(after)).await?.to_done().await?;
        assert_eq!(rest.len(), usize::try_from(last - after)?, "after {after}");
        assert_eq!(done, run);
    }
    // Beyond the last event nothing is replayed.
    for after in [last + 1, i64::MAX] {
        ensure!(
            matches!(
                client.follow(&id, Some(after)).await?.next().await?,
                Next::Done(_)
            ),
            "after {after}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn last_event_id_comes_before_after_and_is_sent_once() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let (_, run) = client.complete(&plain("x")).await?;
    let path = format!("/v1/runs/{}/events?after=3", run.id);
    let second = |client: Client| client.with_header("last-event-id", "2");
    for (client, first) in [(client.clone(), "id: 4\n"), (second(client.clone()), "id: 3\n")] {
        let sent = client.get(&path).expect(200).await?.text();
        ensure!(
            sent.starts_with(&format!(": connected\nretry: 2000\n{first}")),
            "{sent}"
        );
    }
    let refused = second(second(client)).get(&path).await?;
    let refused = refused.refused("invalid_request")?;
    ensure!(refused.error.starts_with("Last-Event-ID: "), "{}", refused.error);
    Ok(())
}

#[tokio::test]
async fn a_last_event_id_that_is_no_event_id_is_refused() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let run = client.create(&plain("x")).await?;
    for value in ["-1", "x", "1.5", "", "9223372036854775808", "1 2", "0x1", "+1"] {
        let client = client.with_header("last-event-id", value);
        let refusal = client
            .get(&format!("/v1/runs/{}/events", run.id))
            .refused("invalid_request")
            .await?;
        ensure!(
            refusal.error.to_lowercase().contains("last-event-id"),
            "{value:?}: {}",
            refusal.error
        );
    }
    Ok(())
}

async fn new_events_come_as_they_happen_to_every_follower(database: Database) -> Checked {
    let shell = |command: &str| Turn::calls("shell", json!({"command": command}));
    let script = [shell("echo one"), shell("echo two").held(), Turn::says(["done"])];
    let rig = Scripted::start(database, script).await?;
    let client = rig.node.client()?;
    let run = client.create(&plain("Go.")).await?;
    let id = run.id.to_string();
    let mut early = client.follow(&id, None).await?;
    // The first command's event arrives while the model is still held.
    let first = early.until(|event| event.kind == "tool_end").await?;
    assert_eq!(client.run(&id).await?.status, RunStatus::Running);
    let mut late = client.follow(&id, Some(first.id)).await?;
    rig.model.release();
    let (rest, done) = early.to_done().await?;
    let (same, _) = late.to_done().await?;
    assert_eq!(kinds(&rest), kinds(&same));
    assert_eq!(of_kind(&rest, "tool_end").len(), 1);
    assert_eq!(done.output.as_deref(), Some("done"));
    Ok(())
}

/// `docs/API.md#event-streams`.
#[tokio::test]
async fn disconnecting_does_not_cancel_the_run() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let request = json!({"prompt": "```wait 500\n```\n```sh\necho done\n```\n"});
    let run = client.create(&request).await?;
    let id = run.id.to_string();
    let mut stream = client.follow(&id, None).await?;
    stream.until_status(RunStatus::Running).await?;
    drop(stream);
    let (events, run) = client.finished(&id).await?;
    assert_eq!((run.status, finals(&events)), (RunStatus::Succeeded, 1));
    Ok(())
}

/// A client that does not read delays neither the run nor other clients.
#[tokio::test]
async fn a_reader_that_stands_still_holds_nobody_up() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let blocks: Vec<String> = (0..40)
        .map(|_| "head -c 16000 /dev/zero | tr '\\0' x".to_owned())
        .collect();
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
    let run = client.create(&commands(&blocks)).await?;
    let id = run.id.to_string();
    let mut still = client.follow(&id, None).await?;
    let (events, run) = client.finished(&id).await?;
    assert_eq!((run.status, run.error), (RunStatus::Succeeded, None));
    let (late, _) = still.to_done().await?;
    assert_eq!(kinds(&late), kinds(&events));
    Ok(())
}

#[tokio::test]
async fn a_follower_of_a_waiting_run_sees_its_cancellation_and_done() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let run = client.create(&waiting()).await?;
    let mut stream = client.follow(&run.id.to_string(), None).await?;
    stream.until_status(RunStatus::Running).await?;
    let cancelled = client.cancel(&run.id.to_string()).await?;
    let (rest, done) = stream.to_done().await?;
    // The call of the model that the cancel interrupts may be recorded after the status.
    let last = rest.iter().rfind(|event| event.kind != "model_call");
    assert_eq!(last.and_then(status_of), Some(RunStatus::Cancelled));
    assert_eq!(unsettled(&done), unsettled(&cancelled));
    Ok(())
}

/// `docs/API.md#event-streams`: the record as JSON, from an event on.
#[tokio::test]
async fn the_record_is_also_to_be_had_as_json() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let (events, run) = client.complete(&commands(&["echo hi"])).await?;
    let json = client.with_header("accept", "application/json");
    let path = format!("/v1/runs/{}/events", run.id);
    let whole: Vec<sortie_api::Event> = json.get(&path).read(200).await?;
    assert_eq!(kinds(&whole), kinds(&events));
    // Names of media types are case-insensitive, and parameters are ignored.
    let named = client
        .with_header("accept", "text/plain, Application/JSON;q=0.5")
        .get(&path)
        .await?;
    assert_eq!(named.expect(200)?.text(), json.get(&path).await?.text());
    let rest: Vec<sortie_api::Event> = json.get(&format!("{path}?after=3")).read(200).await?;
    assert_eq!(rest.first().map(|event| event.id), Some(4));
    assert_eq!(rest.len(), events.len() - 3);
    let beyond = json.get(&format!("{path}?after=9223372036854775807")).await?;
    assert_eq!(beyond.expect(200)?.text(), "[]");
    for wrong in ["-1", "x", "1.5", ""] {
        json.get(&format!("{path}?after={wrong}"))
            .refused("invalid_request")
            .await?;
    }
    Ok(())
}

/// `docs/API.md#event-streams`: an array has at most 1,000 events, the first ones.
#[tokio::test]
async fn an_array_has_at_most_1000_events() -> Checked {
    let (node, client) = started(Database::Postgres).await?;
    let (events, run) = client.complete(&plain("x")).await?;
    let (id, first) = (run.id, events.len() + 1);
    node.meddle(&format!(
        "INSERT INTO event (run_id, seq, kind, data, created_at) \
         SELECT '{id}', seq, 'message', '{{}}', 0 FROM generate_series({first}, 1100) seq; \
         UPDATE run SET last_event = 1100 WHERE id = '{id}'"
    ))
    .await?;
    let json = client.with_header("accept", "application/json");
    for (after, ids) in [(0, 1..=1_000), (2, 3..=1_002), (1_000, 1_001..=1_100)] {
        let path = format!("/v1/runs/{id}/events?after={after}");
        let sent: Vec<sortie_api::Event> = json.get(&path).read(200).await?;
        ensure!(
            sent.iter().map(|event| event.id).eq(ids),
            "{} after {after}",
            sent.len()
        );
    }
    Ok(())
}

/// `docs/RUNS.md#follow`: with `deltas=true` a follower sees what a command prints while it runs, and when a model call begins.
#[tokio::test]
async fn the_output_of_a_command_and_the_begin_of_a_model_call_come_live() -> Checked {
    let node = node(Database::Sqlite).await?;
    let client = node.client()?;
    // The command prints long enough for the follower to come, and a call of the model follows it.
    let prompt = "```sh\nfor i in $(seq 40); do echo line; sleep 0.1; done\n```\n```wait 600000\n```";
    let id = client
        .create_id(&json!({"prompt": prompt, "timeout_seconds": 60}))
        .await?;
    let mut stream = client
        .follow_at(&format!("/v1/runs/{id}/events?deltas=true"), None)
        .await?;
    let (mut printed, mut calls, mut ended, mut has_begun) = (String::new(), Vec::new(), None, false);
    // Recorded events come a little later than live messages.
    while ended.is_none() || !has_begun {
        let item = stream.item().await?.context("the stream ended")?;
        let Item::Message(message) = item else { continue };
        let data: Value = serde_json::from_str(&message.data)?;
        match message.event.as_str() {
            "tool_output" => {
                ensure!(message.id.is_none() && ended.is_none(), "{message:?}");
                printed += data["text"].as_str().context("a text")?;
                calls.push(data["id"].clone());
            }
            "tool_end" => ended = Some(data["data"]["id"].clone()),
            "message_start" => {
                assert_eq!((message.id, &data["model"]), (None, &json!("runbook")));
                has_begun = true;
            }
            _ => {}
        }
    }
    ensure!(
        !printed.is_empty() && printed.lines().all(|line| line == "line"),
        "{printed:?}"
    );
    assert!(
        calls.iter().all(|call| Some(call) == ended.as_ref()),
        "{calls:?} {ended:?}"
    );
    client.cancel(&id).await?;
    Ok(())
}
