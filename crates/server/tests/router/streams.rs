//! Open event streams while their API key ends (`docs/API.md#event-streams`).

use std::time::Instant;

use sortie_api::Mode;
use sortie_base::Clock;
use sortie_server::Options;
use sortie_testkit::{
    PATIENCE,
    client::{EventStream, Next},
    sse::Item,
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
    let streams = [
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
    for stream in [kept, again] {
        assert!(!is_cut(stream).await);
    }
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
    rig.admin.cancel(&run).await.unwrap();
}
