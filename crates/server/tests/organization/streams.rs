//! Open event streams while their credential ends, on every node (`docs/API.md#event-streams`).
//!
//! The run of a test stays queued, so that its streams do not end for another reason.

use futures_util::future::join_all;
use sortie_testkit::{
    client::{EventStream, Next},
    sse::{Item, Message},
};

use crate::{
    access::key,
    oauth::{client_id, tokens},
    prelude::*,
    settings::Setting,
};

crate::settings::everywhere! {
    a_stream_ends_with_the_credential_that_opened_it,
    a_suspension_ends_the_streams_of_every_credential,
    a_stream_ends_with_the_time_of_its_access_token,
    a_feed_of_the_list_ends_with_its_session,
}

/// Six seconds plus a margin for a busy machine.
const WITHIN: Duration = Duration::from_secs(9);

/// A queued run, and the key that created it.
struct Queued {
    key: Client,
    run: String,
    /// Path of the stream on the engine API.
    path: String,
    /// Path of the stream for people, on the organization API.
    page: String,
}

impl Queued {
    async fn of(rig: &Rig) -> Self {
        let key = rig.engine_client(&key(rig, "kept", Role::Member).await.1);
        let request = json!({"prompt": "never begun", "shell": false});
        let run = key.create(&request).await.unwrap().id.to_string();
        let path = format!("/v1/runs/{run}/events");
        Self {
            page: format!("/engine/{}{path}", rig.ours),
            key,
            run,
            path,
        }
    }

    /// Cancels the run. Streams that were still open end with `done`.
    async fn done(&self, open: Vec<EventStream>) {
        self.key.cancel(&self.run).await.unwrap();
        for mut stream in open {
            stream.to_done().await.unwrap();
        }
    }
}

/// Opens a stream on every node.
async fn open(client: &Client, path: &str) -> Vec<EventStream> {
    let mut streams = Vec::new();
    for _ in 0..Setting::current().nodes() {
        let mut stream = client.follow_at(path, None).await.unwrap();
        assert!(matches!(stream.next().await.unwrap(), Next::Event(_)));
        streams.push(stream);
    }
    streams
}

/// Waits for the end of streams while their run continues.
async fn ended(what: &str, streams: Vec<EventStream>) {
    let ends = streams.into_iter().map(|mut stream| async move {
        loop {
            let next = tokio::time::timeout(WITHIN, stream.next()).await;
            match next.unwrap_or_else(|_| panic!("{what}: the stream is still open")) {
                Ok(Next::Event(_)) => {}
                Ok(Next::Closed) => break,
                other => panic!("{what}: {other:?}"),
            }
        }
    });
    join_all(ends).await;
}

/// A client with the cookie of a browser.
fn by_cookie(rig: &Rig, person: &Signed) -> Client {
    let cookie = format!("sortie={}", person.token);
    Client::new(rig.address, None).with_header("cookie", cookie)
}

/// An application with the permission of a person.
async fn application(rig: &Rig, person: &Signed) -> Client {
    let issued = tokens(rig, person, &client_id(rig).await, "member").await;
    rig.engine_client(issued["access_token"].as_str().unwrap())
}

async fn a_stream_ends_with_the_credential_that_opened_it() {
    let rig = Rig::start_idle().await;
    let (queued, operator) = (Queued::of(&rig).await, operator(&rig).await);
    let owner: &Client = &rig.owner;
    let (deleted, secret) = key(&rig, "deleted", Role::Member).await;
    let granted = application(&rig, &rig.owner).await;
    let removed = application(&rig, &rig.admin).await;
    let signed_out = Client::new(rig.address, Some(rig.another_session(rig.owner.user).await));
    let streams = rows! {
        "deleted key", open(&rig.engine_client(&secret), &queued.path).await;
        "ended grant", open(&granted, &queued.path).await;
        "grant of a removed person", open(&removed, &queued.path).await;
        "session of a removed person", open(&rig.admin, &queued.page).await;
        "cookie of a disabled person", open(&by_cookie(&rig, &rig.member), &queued.page).await;
        "ended session", open(&signed_out, &queued.page).await;
    };
    let mut kept = open(&queued.key, &queued.path).await;
    kept.extend(open(owner, &queued.page).await);

    let grants = owner.get("/v1/auth/grants").await.unwrap().json().unwrap();
    let ours = format!("/v1/organizations/{}", rig.ours);
    let disable = format!("/v1/operator/users/{}/disable", rig.member.user);
    for (client, method, path) in rows! {
        owner, Method::DELETE, format!("{ours}/keys/{deleted}");
        owner, Method::DELETE, format!("/v1/auth/grants/{}", grants[0]["id"].as_str().unwrap());
        owner, Method::DELETE, format!("{ours}/members/{}", rig.admin.user);
        &operator, Method::POST, disable;
        &signed_out, Method::POST, "/v1/auth/logout".to_owned();
    } {
        let done = send(client, method, &path, &Value::Null).await.unwrap();
        assert!(done.status < 300, "{path}: {}", done.text());
    }
    join_all(streams.map(|(what, streams)| ended(what, streams))).await;
    queued.done(kept).await;
    rig.end().await;
}

async fn a_suspension_ends_the_streams_of_every_credential() {
    let rig = Rig::start_idle().await;
    let (queued, operator) = (Queued::of(&rig).await, operator(&rig).await);
    let streams = rows! {
        "key", open(&queued.key, &queued.path).await;
        "token", open(&application(&rig, &rig.owner).await, &queued.path).await;
        "session", open(&rig.member, &queued.page).await;
    };
    let path = format!("/v1/operator/organizations/{}", rig.ours);
    let reason = json!({"reason": "unpaid"});
    operator.post(&format!("{path}/suspend"), &reason).must(200).await;
    join_all(streams.map(|(what, streams)| ended(what, streams))).await;

    operator
        .post(&format!("{path}/resume"), &Value::Null)
        .must(200)
        .await;
    rig.soon(200, async || queued.key.get("/v1/me").await.unwrap())
        .await;
    rig.end().await;
}

async fn a_stream_ends_with_the_time_of_its_access_token() {
    let rig = Rig::start_idle().await;
    let queued = Queued::of(&rig).await;
    let token = open(&application(&rig, &rig.owner).await, &queued.path).await;
    let kept = open(&queued.key, &queued.path).await;
    rig.clock.set(AT + Duration::from_hours(1));
    ended("access token", token).await;
    queued.done(kept).await;
    rig.end().await;
}

/// The next message of a feed, or `None` at its end.
async fn message(feed: &mut EventStream) -> Option<Message> {
    loop {
        match feed.item().await.unwrap()? {
            Item::Message(message) => return Some(message),
            Item::Comment(_) | Item::Retry(_) => {}
        }
    }
}

async fn a_feed_of_the_list_ends_with_its_session() {
    let rig = Rig::start_idle().await;
    let path = format!("/engine/{}/v1/runs", rig.ours);
    let session = Client::new(rig.address, Some(rig.another_session(rig.owner.user).await));
    let mut feeds = Vec::new();
    for _ in 0..Setting::current().nodes() {
        let asking = session.clone().with_header("accept", "text/event-stream");
        let mut feed = asking.follow_at(&path, None).await.unwrap();
        assert_eq!(message(&mut feed).await.unwrap().event, "reset");
        feeds.push(feed);
    }
    let queued = Queued::of(&rig).await;
    for feed in &mut feeds {
        let message = message(feed).await.unwrap();
        assert_eq!(message.event, "run");
        assert!(message.data.contains(&queued.run), "{}", message.data);
    }
    session.post("/v1/auth/logout", &Value::Null).must(204).await;
    for feed in &mut feeds {
        assert_eq!(tokio::time::timeout(WITHIN, message(feed)).await.ok(), Some(None));
    }
    queued.done(Vec::new()).await;
    rig.end().await;
}
