//! UI message streams (`docs/API.md#ui-message-streams`).

use sortie_api::Run;
use sortie_testkit::{
    PATIENCE,
    client::EventStream,
    sse::{Item, Message},
};

use crate::prelude::*;

fn path(run: &str) -> String {
    format!("/v1/runs/{run}/ui-messages")
}

async fn next(stream: &mut EventStream) -> Option<Message> {
    loop {
        let item = tokio::time::timeout(PATIENCE, stream.item()).await.unwrap();
        match item.unwrap()? {
            Item::Message(message) => return Some(message),
            Item::Comment(_) | Item::Retry(_) => {}
        }
    }
}

async fn read(client: &Client, path: &str) -> Vec<Message> {
    let mut stream = client.follow_at(path, None).await.unwrap();
    let mut messages = Vec::new();
    while let Some(message) = next(&mut stream).await {
        messages.push(message);
    }
    messages
}

fn chunks(messages: &[Message]) -> Vec<Value> {
    let (last, chunks) = messages.split_last().unwrap();
    assert_eq!((last.id.as_deref(), last.data.as_str()), (None, "[DONE]"));
    let parse = |message: &Message| serde_json::from_str(&message.data).unwrap();
    chunks.iter().map(parse).collect()
}

#[tokio::test]
async fn a_run_is_one_message_with_its_text_its_cost_and_its_end() {
    let rig = Rig::start().await;
    let (events, run) = rig.member.complete(&plain("hello")).await.unwrap();
    let id = run.id.to_string();
    let stream = rig.member.follow_at(&path(&id), None).await.unwrap();
    for (header, value) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-store"),
        ("x-accel-buffering", "no"),
        ("x-vercel-ai-ui-message-stream", "v1"),
    ] {
        assert_eq!(stream.headers[header], value);
    }
    let messages = read(&rig.member, &path(&id)).await;
    assert!(messages.iter().all(|message| message.event == "message"));
    let chunks = chunks(&messages);
    assert_eq!(chunks[0], json!({"type": "start", "messageId": id}));
    let kinds: Vec<&str> = chunks
        .iter()
        .map(|chunk| chunk["type"].as_str().unwrap())
        .filter(|kind| !kind.starts_with("data-"))
        .collect();
    let expected = [
        "start",
        "start-step",
        "text-start",
        "text-delta",
        "text-end",
        "finish-step",
        "finish",
    ];
    assert_eq!(kinds, expected);
    let of = |kind: &str| {
        chunks
            .iter()
            .filter(|chunk| chunk["type"] == kind)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("text-delta")[0]["delta"], "hello");
    assert_eq!(
        of("data-status").last().unwrap()["data"],
        json!({"status": "succeeded"})
    );
    let model_call = events.iter().find(|event| event.kind == "model_call").unwrap();
    assert_eq!(of("data-model-call")[0]["data"].to_string(), {
        let data: Value = serde_json::from_str(model_call.data.get()).unwrap();
        data.to_string()
    });
    let run = serde_json::to_value(Run { output: None, ..run }).unwrap();
    assert_eq!(of("data-run")[0]["data"], run);
    assert_eq!(of("finish")[0]["finishReason"], "stop");
}

#[tokio::test]
async fn a_stream_continues_after_each_chunk() {
    let rig = Rig::start().await;
    let prompt = "```tool read_file\n{\"path\": \"none.txt\"}\n```\n";
    let (_, run) = rig.member.complete(&plain(prompt)).await.unwrap();
    let path = path(&run.id.to_string());
    let whole = read(&rig.member, &path).await;
    let kinds: Vec<Value> = chunks(&whole)
        .into_iter()
        .map(|chunk| chunk["type"].clone())
        .collect();
    for kind in ["tool-input-available", "tool-output-error", "error", "finish"] {
        assert!(kinds.contains(&json!(kind)), "{kind} in {kinds:?}");
    }
    for (cut, message) in whole[..whole.len() - 1].iter().enumerate() {
        let id = message.id.as_deref().unwrap();
        let by_header = rig.member.with_header("last-event-id", id);
        let other = "0.0";
        for (client, path) in [
            (&by_header, path.clone()),
            (&by_header, format!("{path}?lastEventId={other}")),
            (&rig.member, format!("{path}?lastEventId={id}")),
        ] {
            assert_eq!(read(client, &path).await, whole[cut + 1..], "{path} after {id}");
        }
    }
    // Nothing is after such a position, except for the end of the run.
    let late = read(&rig.member, &format!("{path}?lastEventId=9999.1")).await;
    assert_eq!(late.last().map(|message| message.data.as_str()), Some("[DONE]"));
}

#[tokio::test]
async fn a_position_that_is_no_chunk_is_refused() {
    let rig = Rig::start().await;
    let run = rig.member.create(&plain("x")).await.unwrap().id.to_string();
    let path = path(&run);
    for value in ["-1", "", "3", "1.", "1.-1", "+1.1", "x.1"] {
        let client = rig.member.with_header("last-event-id", value);
        let refusal = client.get(&path).must_refuse("invalid_request").await;
        assert_eq!(
            refusal.error,
            "Last-Event-ID: must be the id of a chunk, such as 3.1"
        );
    }
    for (query, rule) in [
        (
            "lastEventId=3",
            "lastEventId: must be the id of a chunk, such as 3.1",
        ),
        ("deltas=1", "deltas: must be true or false"),
        ("after=3", "after: no such parameter"),
    ] {
        let answer = rig
            .member
            .get(&format!("{path}?{query}"))
            .must_refuse("invalid_request");
        let error = answer.await.error;
        assert!(error.starts_with(rule), "{error}");
    }
}

#[tokio::test]
async fn large_texts_are_whole() {
    let rig = Rig::start().await;
    let prompt = "\"\\\n\u{1}aü€😀\u{2028}".repeat(7_500);
    let (_, run) = rig.member.complete(&plain(&prompt)).await.unwrap();
    let messages = read(&rig.member, &path(&run.id.to_string())).await;
    let chunks = chunks(&messages);
    let delta = chunks.iter().find(|chunk| chunk["type"] == "text-delta").unwrap();
    assert_eq!(delta["delta"].as_str(), run.output.as_deref());
    assert!(run.output.unwrap().len() > 100_000);
}

/// `docs/API.md#event-streams`.
#[tokio::test]
async fn a_stream_ends_with_its_key_and_with_the_node() {
    let rig = Rig::start().await;
    let run = rig.member.create(&waiting()).await.unwrap().id.to_string();
    let deleted = rig.new_key("deleted").await;
    let mut ended = deleted.client.follow_at(&path(&run), None).await.unwrap();
    let mut kept = rig.member.follow_at(&path(&run), None).await.unwrap();
    for stream in [&mut ended, &mut kept] {
        assert_eq!(next(stream).await.unwrap().id.as_deref(), Some("1.1"));
    }
    rig.admin
        .delete(&format!("/v1/admin/keys/{}", deleted.id))
        .must(204)
        .await;
    let mut last = None;
    while let Some(message) = next(&mut ended).await {
        last = Some(message.data);
    }
    assert_ne!(last.as_deref(), Some("[DONE]"));
    rig.stop.cancel();
    while let Some(message) = next(&mut kept).await {
        assert_ne!(message.data, "[DONE]");
    }
}

/// `docs/BROWSER.md#run-tokens`.
#[tokio::test]
async fn a_run_token_follows_its_run() {
    let rig = Rig::start().await;
    let (_, run) = rig.member.complete(&plain("hello")).await.unwrap();
    let other = rig.member.create(&plain("other")).await.unwrap().id;
    let made = rig
        .admin
        .post(
            &format!("/v1/runs/{}/tokens", run.id),
            &json!({"ttl_seconds": 60}),
        )
        .must_json(201)
        .await;
    let page = rig.admin.with_key(made["token"].as_str().unwrap());
    let messages = read(&page, &path(&run.id.to_string())).await;
    assert_eq!(chunks(&messages)[0]["messageId"], run.id.to_string());
    page.get(&path(&other.to_string())).must_refuse("not_found").await;
}
