//! Open event streams while their API key ends (`docs/API.md#event-streams`).

use std::time::Instant;

use sortie_api::{Mode, Run, Timestamp, run_token::CreatedRunToken};
use sortie_base::Clock;
use sortie_server::Options;
use sortie_testkit::{
    PATIENCE,
    client::{EventStream, Next},
    sse::{Item, Message},
};

use crate::prelude::*;

/// A stream that has begun.
async fn open(client: &Client, run: &str) -> EventStream {
    let mut stream = client.follow(run, None).await.unwrap();
    assert!(matches!(stream.next().await.unwrap(), Next::Event(_)));
    stream
}

/// Reads a stream to its end. Returns true if the stream ended before the run.
async fn is_cut(mut stream: EventStream) -> bool {
    loop {
        match tokio::time::timeout(PATIENCE, stream.next())
            .await
            .unwrap()
            .unwrap()
        {
            Next::Event(_) => {}
            Next::Done(_) => return false,
            Next::Closed => return true,
        }
    }
}

/// `docs/API.md#event-streams`: by default a heartbeat every 15 seconds, one comment line without a blank line after it.
#[tokio::test]
async fn a_silent_stream_carries_heartbeats() {
    assert_eq!(Options::default().heartbeat, Duration::from_secs(15));
    let heartbeat = Duration::from_millis(50);
    let options = Options {
        heartbeat,
        ..options()
    };
    let rig = Rig::start_with(Mode::SelfHosted, options).await;
    let run = rig.member.create(&waiting()).await.unwrap().id.to_string();
    let mut stream = rig.member.follow(&run, None).await.unwrap();
    let mut comments = Vec::new();
    while comments.len() < 3 {
        let item = tokio::time::timeout(PATIENCE, stream.item()).await.unwrap();
        match item.unwrap().expect("the stream is open") {
            Item::Comment(comment) => comments.push(comment),
            Item::Message(_) | Item::Retry(_) => {}
        }
    }
    assert_eq!(comments, ["connected", "heartbeat", "heartbeat"]);
    let text = String::from_utf8_lossy(stream.raw()).into_owned();
    assert!(text.ends_with(": heartbeat\n"), "{text:?}");
}

#[tokio::test]
async fn a_stream_ends_with_its_key_and_no_other_stream_does() {
    let rig = Rig::start().await;
    let run = rig.member.create(&waiting()).await.unwrap().id.to_string();
    let (deleted, rotated) = (rig.new_key("deleted").await, rig.new_key("rotated").await);
    let kept = open(&rig.member, &run).await;
    let (token_kept, _) = token(&rig.admin, &run, 60).await;
    let kept_by_token = open(&token_kept, &run).await;
    let (token_deleted, _) = token(&deleted.client, &run, 60).await;
    let streams = [
        open(&token_deleted, &run).await,
        open(&deleted.client, &run).await,
        open(&deleted.client, &run).await,
        open(&rotated.client, &run).await,
    ];
    let begun = Instant::now();
    let path = format!("/v1/admin/keys/{}", deleted.id);
    rig.admin.delete(&path).must(204).await;
    let path = format!("/v1/admin/keys/{}/rotate", rotated.id);
    let done = rig.admin.post(&path, &json!({"grace_seconds": 0})).await.unwrap();
    let key = done.expect(200).unwrap().json().unwrap()["key"]
        .as_str()
        .unwrap()
        .to_owned();
    for stream in streams {
        assert!(is_cut(stream).await);
    }
    // This node invalidated its cached look-ups at once.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let again = open(&rig.admin.with_key(&key), &run).await;
    rig.admin.cancel(&run).await.unwrap();
    for stream in [kept, kept_by_token, again] {
        assert!(!is_cut(stream).await);
    }
}

/// Makes a token that reads a run for these seconds, and returns its client and its end.
async fn token(client: &Client, run: &str, ttl_seconds: i64) -> (Client, Timestamp) {
    let request = json!({"ttl_seconds": ttl_seconds});
    let made: CreatedRunToken = client
        .post(&format!("/v1/runs/{run}/tokens"), &request)
        .must_read(201)
        .await;
    (client.with_key(&made.token), made.expires_at)
}

#[tokio::test]
async fn a_stream_ends_at_the_time_of_its_key() {
    let rig = Rig::start().await;
    let run = rig.member.create(&waiting()).await.unwrap().id.to_string();
    let until = Clock::system().now() + Duration::from_secs(2);
    let made = json!({"name": "brief", "role": "member", "expires_at": until});
    let made = rig.admin.post("/v1/admin/keys", &made).await.unwrap();
    let key = made.expect(201).unwrap().json().unwrap()["key"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(is_cut(open(&rig.admin.with_key(&key), &run).await).await);
    assert!(Clock::system().now() >= until);
    let (brief, until) = token(&rig.admin, &run, 2).await;
    assert!(is_cut(open(&brief, &run).await).await);
    assert!(Clock::system().now() >= until);
    brief
        .get(&format!("/v1/runs/{run}"))
        .must_refuse("unauthorized")
        .await;
    rig.admin.cancel(&run).await.unwrap();
}

/// The feed of the list of runs, at its first message.
async fn open_feed(client: &Client, query: &str) -> (EventStream, String) {
    let client = client.clone().with_header("accept", "text/event-stream");
    let mut feed = client.follow_at(&format!("/v1/runs{query}"), None).await.unwrap();
    let message = message(&mut feed).await.expect("the feed is open");
    assert_eq!((message.event.as_str(), message.data.as_str()), ("reset", "{}"));
    (feed, message.id.unwrap())
}

async fn message(feed: &mut EventStream) -> Option<Message> {
    loop {
        match feed.item().await.unwrap()? {
            Item::Message(message) => return Some(message),
            Item::Comment(_) | Item::Retry(_) => {}
        }
    }
}

#[tokio::test]
async fn the_feed_of_the_list_has_runs_without_output_and_continues_at_its_position() {
    let rig = Rig::start().await;
    let (mut feed, position) = open_feed(&rig.member, "?tag=wanted&status=succeeded").await;
    for header in ["content-type", "cache-control", "x-accel-buffering"] {
        let value = feed.headers[header].to_str().unwrap();
        assert!(
            ["text/event-stream", "no-store", "no"].contains(&value),
            "{header}: {value}"
        );
    }
    rig.member.complete(&plain("another")).await.unwrap();
    rig.stranger
        .complete(&plain("of another organization"))
        .await
        .unwrap();
    let mut request = plain("hello");
    request["tags"] = json!(["wanted"]);
    let (_, run) = rig.member.complete(&request).await.unwrap();
    let first = message(&mut feed).await.unwrap();
    assert_eq!(first.event, "run");
    let sent: Run = serde_json::from_str(&first.data).unwrap();
    assert_eq!(sent, Run { output: None, ..run });

    let again = rig.member.clone().with_header("accept", "text/event-stream");
    let by_header = again.clone().with_header("last-event-id", &position);
    let mut by_header = by_header
        .follow_at("/v1/runs?tag=wanted&status=succeeded", None)
        .await
        .unwrap();
    let path = format!("/v1/runs?tag=wanted&status=succeeded&lastEventId={position}");
    let mut by_parameter = again.follow_at(&path, None).await.unwrap();
    for feed in [&mut by_header, &mut by_parameter] {
        assert_eq!(message(feed).await.unwrap(), first);
    }
    for (client, query, rule) in [
        (&again, "?limit=1", "limit and cursor: not with Accept"),
        (&again, "?status=no", "status: must be one of"),
        (&rig.member, "?lastEventId=1", "lastEventId: only with Accept"),
    ] {
        let refused = client.get(&format!("/v1/runs{query}")).await.unwrap();
        let error = refused.refused("invalid_request").unwrap().error;
        assert!(error.starts_with(rule), "{query}: {error}");
    }
}

#[tokio::test]
async fn a_feed_ends_with_its_key_and_with_the_node() {
    let rig = Rig::start().await;
    let deleted = rig.new_key("deleted").await;
    let (mut ended, _) = open_feed(&deleted.client, "").await;
    let (mut kept, _) = open_feed(&rig.member, "").await;
    let path = format!("/v1/admin/keys/{}", deleted.id);
    rig.admin.delete(&path).must(204).await;
    assert_eq!(message(&mut ended).await, None);
    let run = rig.member.create(&waiting()).await.unwrap().id.to_string();
    assert!(message(&mut kept).await.unwrap().data.contains(&run));
    rig.stop.cancel();
    while message(&mut kept).await.is_some() {}
}
