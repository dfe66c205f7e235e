//! `/v1/runs/{id}/deliveries`.

use sortie_api::{DeliveryAttempt, DeliveryPage, Redelivery};
use sortie_testkit::CallbackReceiver;

use crate::prelude::*;

fn calling_back(mut request: Value, url: &str) -> Value {
    request["callback"] = json!({"url": url, "secret": "geheim"});
    request
}

async fn attempts(rig: &Rig, id: &str) -> Vec<DeliveryAttempt> {
    rig.member
        .get(&format!("/v1/runs/{id}/deliveries"))
        .must_read(200)
        .await
}

/// Waits for this number of attempts: the engine records them after the answer of the receiver.
async fn attempts_made(rig: &Rig, id: &str, count: usize) -> Vec<DeliveryAttempt> {
    let look = async || Ok(attempts(rig, id).await);
    until("the attempts", look, |made| made.len() >= count)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_callback_is_delivered_listed_and_sent_again() {
    let rig = Rig::start().await;
    let receiver = CallbackReceiver::start("geheim").await.unwrap();
    let run = rig
        .member
        .create(&calling_back(plain("x"), &receiver.url()))
        .await
        .unwrap();
    let id = run.id.to_string();
    let delivered = receiver.wait_for(&id, 1).await.unwrap();
    assert_eq!(delivered[0].refused, None);
    assert_eq!(delivered[0].body["status"], "succeeded");
    let made = attempts_made(&rig, &id, 1).await;
    assert_eq!(
        (made[0].attempt, made[0].status, &made[0].error, made[0].next_at),
        (1, Some(204), &None, None)
    );

    let listed: DeliveryPage = rig
        .member
        .get("/v1/deliveries?state=delivered")
        .await
        .unwrap()
        .read()
        .unwrap();
    assert_eq!((listed.items.len(), listed.next_cursor.as_str()), (1, ""));
    assert_eq!(
        (listed.items[0].run_id, listed.items[0].status),
        (run.id, Some(204))
    );
    let foreign: DeliveryPage = rig.stranger.get("/v1/deliveries").await.unwrap().read().unwrap();
    assert!(foreign.items.is_empty());
    let receiver_of = format!("/v1/deliveries?limit=1&receiver={}", listed.items[0].receiver);
    let found: DeliveryPage = rig.member.get(&receiver_of).await.unwrap().read().unwrap();
    assert_eq!(found.items, listed.items);

    let path = format!("/v1/runs/{id}/deliveries");
    let again = rig.member.post(&path, &Value::Null).must(202).await;
    assert_eq!(again.read::<Redelivery>().unwrap().attempt, 2);
    receiver.wait_for(&id, 2).await.unwrap();
    assert_eq!(attempts_made(&rig, &id, 2).await[1].attempt, 2);
}

#[tokio::test]
async fn what_has_no_callback_or_no_end_is_not_sent_again() {
    let rig = Rig::start().await;
    let plain = rig.member.create(&plain("x")).await.unwrap().id.to_string();
    let open = rig
        .member
        .create(&calling_back(waiting(), "http://127.0.0.1:9/"))
        .await
        .unwrap()
        .id
        .to_string();
    for (id, rule) in [
        (&plain, "the run has no callback"),
        (&open, "the run is not finished: its callback is sent when it is"),
    ] {
        let answer = rig
            .member
            .post(&format!("/v1/runs/{id}/deliveries"), &Value::Null)
            .await
            .unwrap();
        assert_eq!(answer.refused("conflict").unwrap().error, rule);
        assert!(attempts(&rig, id).await.is_empty());
    }
    for path in [
        "/v1/runs/run_01kafs6w1cefkstv6qr1ptb0mp/deliveries",
        "/v1/runs/x/deliveries",
    ] {
        rig.member.get(path).must_refuse("not_found").await;
        rig.member.post(path, &Value::Null).must_refuse("not_found").await;
    }
}
