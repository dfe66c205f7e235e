//! Tests of the stream of a run.

use sortie_api::RunStatus;
use tokio::{net::TcpListener, sync::oneshot};

use super::*;
use crate::client::tests::{client, engine, refusal};

const RUN: &str = "run_01kafs6w1cefkstv6qr1ptb0mp";

fn stream(messages: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{messages}")
}

fn event(id: i64) -> String {
    format!(
        "id: {id}\nevent: status\ndata: {{\"id\":{id},\"type\":\"status\",\"data\":{{\"status\":\"queued\"}},\
         \"created_at\":\"2026-11-20T21:30:00.000Z\"}}\n\n"
    )
}

fn done() -> String {
    format!(
        "event: done\ndata: {{\"id\":\"{RUN}\",\"status\":\"succeeded\",\
         \"created_at\":\"2026-11-20T21:30:00.000Z\",\"max_cost_micros\":1,\"billing_pending\":false,\
         \"timeout_seconds\":1,\"last_event_id\":1,\"zero_data_retention\":false}}\n\n"
    )
}

/// Follows a run to its end and returns a word for each message.
async fn seen(following: &mut Following) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        seen.push(match following.next().await.unwrap() {
            Followed::Event(event) => event.id.to_string(),
            Followed::Live(live) => format!("{live:?}"),
            Followed::Away(_) => "away".to_owned(),
            Followed::Back => "back".to_owned(),
            Followed::Done(run) => {
                assert_eq!(run.status, RunStatus::Succeeded);
                return seen;
            }
        });
    }
}

#[tokio::test]
async fn a_broken_stream_is_taken_up_again_behind_the_last_whole_event() {
    let (listener, client) = client().await;
    let cut = event(3).replace("\n\n", "\n");
    let answers = vec![
        stream(&format!(": connected\nretry: 1\n{}{}{cut}", event(1), event(2))),
        stream(&format!("{}{}{}", event(2), event(3), done())),
    ];
    let mut following = client.follow(RUN.parse().unwrap(), 0);
    let (asked, seen) = tokio::join!(engine(listener, answers), seen(&mut following));
    assert_eq!(seen, ["1", "2", "away", "back", "3"]);
    assert!(asked[0].contains("last-event-id: 0\r\n"), "{}", asked[0]);
    assert!(asked[1].contains("last-event-id: 2\r\n"), "{}", asked[1]);
    assert!(
        asked[1].contains("authorization: Bearer sts_x\r\n"),
        "{}",
        asked[1]
    );
}

/// A proxy that accepts every connection and closes it does not count as the engine.
#[tokio::test]
async fn a_stream_that_only_begins_is_no_sign_of_the_engine() {
    let (listener, client) = client().await;
    let greeting = || stream(": connected\nretry: 1\n\n");
    let answers = vec![greeting(), greeting(), stream(&format!("{}{}", event(1), done()))];
    let mut following = client.follow(RUN.parse().unwrap(), 0);
    let (_, seen) = tokio::join!(engine(listener, answers), seen(&mut following));
    assert_eq!(seen, ["away", "away", "back", "1"]);
}

#[tokio::test]
async fn a_refused_stream_is_not_asked_for_again() {
    let (listener, client) = client().await;
    let answers = vec![refusal("404 Not Found", "not_found")];
    let mut following = client.follow(RUN.parse().unwrap(), 0);
    let (_, next) = tokio::join!(engine(listener, answers), following.next());
    let failure = next.map(|_| ()).unwrap_err();
    assert_eq!(failure.exit, Exit::Usage);
    assert!(
        failure
            .to_string()
            .ends_with(&format!(" has no runs/{RUN}/events")),
        "{failure}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_the_rate_limit_refuses_is_opened_when_it_may_be() {
    let (listener, client) = client().await;
    let refused = || refusal("429 Too Many Requests", "rate_limited");
    let answers = vec![refused(), refused(), stream(&format!("{}{}", event(1), done()))];
    let mut following = client.follow(RUN.parse().unwrap(), 0);
    let begun = Instant::now();
    let (_, seen) = tokio::join!(engine(listener, answers), seen(&mut following));
    assert_eq!(seen, ["away", "away", "back", "1"]);
    assert!(
        begun.elapsed() >= Duration::from_secs(14),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn an_engine_that_comes_back_is_followed_on() {
    let (listener, client) = client().await;
    let address = listener.local_addr().unwrap();
    let (missed, is_missed) = oneshot::channel();
    let mut following = client.follow(RUN.parse().unwrap(), 0);
    let follow = async {
        assert!(matches!(following.next().await, Ok(Followed::Event(_))));
        for _ in 0..8 {
            let next = following.next().await;
            assert!(matches!(next, Ok(Followed::Away(_))), "{next:?}");
        }
        missed.send(()).unwrap();
        loop {
            match following.next().await.unwrap() {
                Followed::Away(_) => {}
                Followed::Live(_) | Followed::Back => return seen(&mut following).await,
                other @ (Followed::Event(_) | Followed::Done(_)) => panic!("{other:?}"),
            }
        }
    };
    let serve = async {
        engine(listener, vec![stream(&format!("retry: 1\n{}", event(1)))]).await;
        is_missed.await.unwrap();
        let listener = TcpListener::bind(address).await.unwrap();
        engine(listener, vec![stream(&format!("{}{}", event(2), done()))]).await
    };
    let (asked, seen) = tokio::join!(serve, follow);
    assert!(asked[0].contains("last-event-id: 1\r\n"), "{}", asked[0]);
    assert_eq!(seen, ["2"]);
}

#[tokio::test]
async fn another_engine_is_asked_at_once() {
    let (gone, first) = client().await;
    drop(gone);
    let (listener, second) = client().await;
    let mut following = first.follow(RUN.parse().unwrap(), 3);
    assert!(matches!(following.next().await, Ok(Followed::Away(_))));
    following.move_to(&second);
    let answers = vec![stream(&format!("{}{}", event(4), done()))];
    let (_, seen) = tokio::join!(engine(listener, answers), seen(&mut following));
    assert_eq!(seen, ["back", "4"]);
}

/// No server listens, so every try fails at once and all the time passes in the pauses.
#[tokio::test(start_paused = true)]
async fn an_engine_that_stays_away_is_tried_for_five_minutes() {
    let (listener, client) = client().await;
    drop(listener);
    let begun = Instant::now();
    let mut following = client.follow(RUN.parse().unwrap(), 0);
    let mut tries = 1;
    let failure = loop {
        match following.next().await {
            Ok(Followed::Away(_)) => tries += 1,
            Ok(other) => panic!("{other:?}"),
            Err(failure) => break failure,
        }
    };
    let took = begun.elapsed();
    assert!(took >= PATIENCE && took <= PATIENCE + LONGEST_PAUSE, "{took:?}");
    // Each pause is longer than the one before, up to the longest.
    assert_eq!(tries, 34);
    assert_eq!(failure.exit, Exit::Unavailable);
    let text = failure.to_string();
    assert!(
        text.contains("not answered for 5 minutes") && text.ends_with(&format!("`sortie runs watch {RUN}`")),
        "{text}"
    );
}

#[tokio::test]
async fn live_messages_are_asked_for_and_come_between_the_events() {
    let (listener, client) = client().await;
    let live = "event: message_start\ndata: {\"model\":\"m\",\"step\":1}\n\n\
                event: message_delta\ndata: {\"text\":\"Hel\",\"step\":1}\n\n\
                event: tool_output\ndata: {\"id\":\"call_1\",\"text\":\"a\"}\n\n\
                event: later\ndata: {}\n\n";
    let answers = vec![stream(&format!("{}{live}{}", event(1), done()))];
    let mut following = client.follow(RUN.parse().unwrap(), 0).with_live();
    let (asked, seen) = tokio::join!(engine(listener, answers), seen(&mut following));
    assert_eq!(
        seen,
        [
            "1",
            "Start",
            "Text(\"Hel\")",
            "Output { call: \"call_1\", text: \"a\" }"
        ]
    );
    assert!(asked[0].starts_with("GET /v1/runs/run_01kafs6w1cefkstv6qr1ptb0mp/events?deltas=true "));
}
