//! The channel between nodes.

use sortie_testkit::{PATIENCE, postgres::TestDatabase};
use tokio::sync::mpsc::Receiver;

use super::prelude::*;
use crate::nodes::{ChannelMessage, LONGEST_HINT, Speaker};

/// Opens a separate store on the database, as another node does, and listens with it.
async fn node(database: &TestDatabase) -> (Store, Speaker, Receiver<ChannelMessage>) {
    let store = Store::open(database.url()).await.unwrap();
    let (speaker, mut heard) = store.channel().unwrap().expect("nodes can be many");
    assert_eq!(
        next(&mut heard).await,
        ChannelMessage::Gap,
        "what was said before is missed"
    );
    (store, speaker, heard)
}

async fn next(heard: &mut Receiver<ChannelMessage>) -> ChannelMessage {
    tokio::time::timeout(PATIENCE, heard.recv())
        .await
        .expect("nothing is heard")
        .expect("the channel is open")
}

fn text(said: &str) -> ChannelMessage {
    ChannelMessage::Text(said.to_owned())
}

#[tokio::test]
async fn what_one_node_says_all_others_hear_in_order_and_it_does_not() {
    let database = TestDatabase::postgres().await.unwrap();
    let (_first, one, mut by_one) = node(&database).await;
    let (_second, two, mut by_two) = node(&database).await;
    let (_third, _three, mut by_three) = node(&database).await;
    let longest = "x".repeat(LONGEST_HINT);
    for said in ["a", "b", &longest] {
        one.say(said.to_owned()).await.unwrap();
    }
    two.say("from two".to_owned()).await.unwrap();
    for heard in [&mut by_two, &mut by_three] {
        for said in ["a", "b", &longest] {
            assert_eq!(next(heard).await, text(said));
        }
    }
    assert_eq!(next(&mut by_three).await, text("from two"));
    assert_eq!(next(&mut by_one).await, text("from two"));
    assert!(by_one.try_recv().is_err() && by_two.try_recv().is_err());
}

#[tokio::test]
async fn one_node_alone_has_no_channel() {
    let fixture = Fixture::sqlite().await;
    assert!(fixture.store.channel().unwrap().is_none());
}

#[tokio::test]
async fn after_a_lost_connection_both_sides_go_on_and_are_told_of_the_gap() {
    let database = TestDatabase::postgres().await.unwrap();
    let (first, one, mut by_one) = node(&database).await;
    let (_second, two, mut by_two) = node(&database).await;
    let killed = first.db.write(|tx| {
        tx.query_all(
            "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
            vals![],
        )
    });
    killed.await.unwrap();
    assert_eq!(next(&mut by_one).await, ChannelMessage::Gap);
    assert_eq!(next(&mut by_two).await, ChannelMessage::Gap);
    one.say("again".to_owned()).await.unwrap();
    assert_eq!(next(&mut by_two).await, text("again"));
    two.say("and back".to_owned()).await.unwrap();
    assert_eq!(next(&mut by_one).await, text("and back"));
}

#[tokio::test]
async fn what_comes_too_fast_to_be_heard_is_told_as_a_gap() {
    let database = TestDatabase::postgres().await.unwrap();
    let (_first, one, _) = node(&database).await;
    let (_second, two, mut heard) = node(&database).await;
    // Sends more hints than the queue holds.
    for number in 0..1_100 {
        one.say(number.to_string()).await.unwrap();
    }
    // The server answers on the listening connection, after all earlier hints. After this, no hint is under
    // way.
    two.say("by itself".to_owned()).await.unwrap();
    for number in 0..1_024 {
        assert_eq!(next(&mut heard).await, text(&number.to_string()));
    }
    // The gap is reported with the next hint.
    assert!(heard.try_recv().is_err());
    one.say("more".to_owned()).await.unwrap();
    assert_eq!(next(&mut heard).await, ChannelMessage::Gap);
    assert_eq!(next(&mut heard).await, text("more"));
}

#[tokio::test]
async fn the_channel_ends_with_its_speaker_and_does_not_hold_the_store_up() {
    let database = TestDatabase::postgres().await.unwrap();
    let (store, speaker, mut heard) = node(&database).await;
    drop(store);
    speaker.say("still here".to_owned()).await.unwrap();
    let closing = tokio::task::spawn_blocking(move || drop(speaker));
    tokio::time::timeout(PATIENCE, closing)
        .await
        .expect("the store is closed")
        .unwrap();
    assert_eq!(heard.recv().await, None);
}
