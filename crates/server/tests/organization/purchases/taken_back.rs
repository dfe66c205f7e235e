//! Refunds and disputes, in part and whole.

use sortie_testkit::stripe::{Call, DisputeStage, Fault, Verdict, WebhookMode, WebhookOrder};

use super::Shop;
use crate::prelude::*;

crate::settings::everywhere! {
    a_refund_takes_credits_back_and_a_failed_one_returns_them,
    the_operator_refunds_a_payment,
    a_refund_after_one_that_has_failed_is_made,
    a_refund_that_stripe_has_failed_on_is_made_once,
    a_repeated_refund_is_the_same_one_although_a_webhook_was_faster,
    a_refund_that_fails_before_it_is_answered_is_no_success,
    a_dispute_takes_credits_until_it_is_won,
    refunds_and_disputes_never_take_more_than_the_payment,
    the_order_of_events_does_not_matter,
}

fn entries(of: &[(&str, i64)]) -> Vec<(String, i64)> {
    of.iter()
        .map(|(kind, amount)| ((*kind).to_owned(), *amount))
        .collect()
}

async fn a_refund_takes_credits_back_and_a_failed_one_returns_them() {
    let shop = Shop::open().await;
    let intent = shop.buy(2_500).await;
    shop.hear().await;
    let first = shop.double.refund(&intent, 500).unwrap();
    shop.hear().await;
    assert_eq!(shop.payment().await["refund_status"], "partial");
    shop.double.refund(&intent, 2_000).unwrap();
    shop.hear().await;
    let payment = shop.payment().await;
    assert_eq!(payment["refund_status"], "full");
    assert_eq!(payment["refunded_cents"], 2_500);
    shop.double.fail_refund(&first).unwrap();
    shop.hear().await;
    assert_eq!(shop.payment().await["refunded_cents"], 2_000);
    let expected = [
        ("purchase", 2_500),
        ("refund", -500),
        ("refund", -2_000),
        ("refund_failed", 500),
    ];
    assert_eq!(sorted(shop.entries().await), sorted(entries(&expected)));
    shop.audit().await;
    shop.close().await;
}

/// Entries of the same time have no order.
fn sorted(mut entries: Vec<(String, i64)>) -> Vec<(String, i64)> {
    entries.sort();
    entries
}

async fn the_operator_refunds_a_payment() {
    let shop = Shop::open().await;
    let operator = operator(&shop.rig).await;
    shop.buy(2_500).await;
    shop.hear().await;
    let payment = shop.payment().await["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/operator/payments/{payment}/refund");
    for wrong in [
        json!({"amount_cents": 0, "reference": "a"}),
        json!({"amount_cents": 2_501, "reference": "a"}),
        json!({"amount_cents": 700}),
        json!({"amount_cents": 700, "reference": " "}),
        json!({"cents": 1}),
    ] {
        operator.post(&path, &wrong).must_refuse("invalid_request").await;
    }
    let seven = json!({"amount_cents": 700, "reference": "seven"});
    let part = operator.post(&path, &seven).must_json(200).await;
    assert_has!(part, {"refunded_cents": 700, "id": payment});
    assert_eq!(shop.bought().await, 1_800, "before any webhook");
    shop.hear().await;
    assert_eq!(shop.bought().await, 1_800);
    let rest = operator.post(&path, &json!({})).await.unwrap();
    assert_eq!(rest.expect(200).unwrap().json().unwrap()["refund_status"], "full");
    operator.post(&path, &json!({})).must_refuse("conflict").await;
    shop.hear().await;
    assert_eq!(shop.bought().await, 0);
    let unknown = "/v1/operator/payments/pay_01kafs6w1cefkstv6qr1ptb0mp/refund";
    operator.post(unknown, &json!({})).must_refuse("not_found").await;
    shop.rig
        .owner
        .post(&path, &json!({}))
        .must_refuse("forbidden")
        .await;
    let audit = format!("/engine/{}/v1/admin/audit?action=billing.refund", shop.rig.ours);
    let entries = shop.rig.owner.get(&audit).await.unwrap().json().unwrap()["items"].clone();
    assert_eq!(entries.as_array().unwrap().len(), 2);
    assert_eq!(entries[0]["actor_kind"], "operator");
    shop.audit().await;
    shop.close().await;
}

/// Operator who refunds the only payment.
struct Refunder {
    client: Client,
    path: String,
}

impl Refunder {
    async fn of(shop: &Shop) -> Self {
        let payment = shop.payment().await["id"].as_str().unwrap().to_owned();
        Self {
            client: operator(&shop.rig).await,
            path: format!("/v1/operator/payments/{payment}/refund"),
        }
    }

    fn refund(&self, cents: i64, reference: &str) -> Pending {
        let part = json!({"amount_cents": cents, "reference": reference});
        self.client.post(&self.path, &part)
    }

    /// Refunds a part of the payment. Returns the total refunded amount.
    async fn refunded(&self, cents: i64, reference: &str) -> Value {
        let answer = self.refund(cents, reference).await.unwrap();
        answer.expect(200).unwrap().json().unwrap()["refunded_cents"].clone()
    }
}

/// Refunds of the double, oldest first.
fn refunds(shop: &Shop) -> Vec<String> {
    let events = shop.double.events("refund.created");
    let body =
        |event: &String| -> Value { serde_json::from_str(&shop.double.event_body(event).unwrap()).unwrap() };
    let id = |event| body(event)["data"]["object"]["id"].as_str().unwrap().to_owned();
    events.iter().map(id).collect()
}

async fn a_refund_after_one_that_has_failed_is_made() {
    let shop = Shop::open().await;
    shop.buy(2_500).await;
    shop.hear().await;
    let operator = Refunder::of(&shop).await;
    assert_eq!(operator.refunded(700, "a").await, 700);
    shop.double.fail_refund(&refunds(&shop)[0]).unwrap();
    shop.hear().await;
    assert_eq!(shop.payment().await["refunded_cents"], 0);
    let failed = operator.refund(700, "a").must_refuse("conflict").await;
    assert!(failed.error.contains("the refund has failed"), "{failed:?}");
    assert_eq!(operator.refunded(700, "b").await, 700);
    assert_eq!(
        operator.refunded(700, "c").await,
        1_400,
        "two refunds of one amount"
    );
    assert_eq!(refunds(&shop).len(), 3);
    shop.hear().await;
    assert_eq!(shop.bought().await, 1_100);
    shop.audit().await;
    shop.close().await;
}

async fn a_refund_that_stripe_has_failed_on_is_made_once() {
    let shop = Shop::open().await;
    shop.buy(2_500).await;
    shop.hear().await;
    let operator = Refunder::of(&shop).await;
    // Stripe has made no refund, and replays the failure for the key. No other key is used.
    shop.double.fail(Call::CreateRefund, 1, Fault::ErrorKept);
    for _ in 0..2 {
        let answer = operator.refund(700, "a").await.unwrap();
        answer.refused("unavailable").unwrap();
    }
    assert_eq!(
        operator.refunded(700, "b").await,
        700,
        "the operator has looked at Stripe"
    );
    // Stripe has made the refund despite the error.
    shop.double.fail(Call::CreateRefund, 1, Fault::ErrorAfter);
    assert_eq!(operator.refunded(200, "c").await, 900);
    assert_eq!(refunds(&shop).len(), 2);
    let keys = shop.double.requests(Call::CreateRefund);
    let keys: std::collections::BTreeSet<_> = keys.into_iter().map(|sent| sent.key).collect();
    assert_eq!(keys.len(), 3, "one key for each reference");
    let other = operator.refund(300, "c").must_refuse("conflict").await;
    assert!(other.error.contains("another amount"), "{other:?}");
    shop.hear().await;
    assert_eq!(shop.bought().await, 1_600);
    shop.audit().await;
    shop.close().await;
}

/// `docs/BILLING.md#refund-a-payment`: a webhook reports the refund before the command is repeated.
async fn a_repeated_refund_is_the_same_one_although_a_webhook_was_faster() {
    let shop = Shop::open().await;
    shop.buy(2_500).await;
    shop.hear().await;
    let operator = Refunder::of(&shop).await;
    for (number, (fault, reference)) in [
        (Fault::LostAfter, "a"),
        (Fault::LostBefore, "b"),
        (Fault::TooMany, "c"),
    ]
    .into_iter()
    .enumerate()
    {
        let number = i64::try_from(number).unwrap() + 1;
        shop.double.fail(Call::CreateRefund, 1, fault);
        let lost = operator.refund(100, reference).await.unwrap();
        lost.refused("unavailable").unwrap();
        shop.hear().await;
        for _ in 0..2 {
            assert_eq!(operator.refunded(100, reference).await, 100 * number, "{fault:?}");
            shop.hear().await;
        }
        assert_eq!(shop.bought().await, 2_500 - 100 * number, "{fault:?}");
    }
    assert_eq!(refunds(&shop).len(), 3);
    shop.audit().await;
    shop.close().await;
}

async fn a_refund_that_fails_before_it_is_answered_is_no_success() {
    let shop = Shop::open().await;
    shop.buy(2_500).await;
    shop.hear().await;
    let operator = Refunder::of(&shop).await;
    shop.double.fail(Call::CreateRefund, 1, Fault::HeldAfter);
    let meanwhile = async {
        let made = shop
            .double
            .wait_for_deliveries(|sent| sent.iter().any(|sent| sent.kind == "refund.created"));
        made.await.unwrap();
        shop.double.fail_refund(&refunds(&shop)[0]).unwrap();
        shop.hear().await;
        shop.double.release();
    };
    let refund = operator.refund(700, "a").must_refuse("conflict");
    let (refused, ()) = tokio::join!(refund, meanwhile);
    assert!(refused.error.contains("the refund has failed"), "{refused:?}");
    assert_eq!(shop.bought().await, 2_500);
    assert_eq!(operator.refunded(700, "b").await, 700);
    shop.hear().await;
    shop.audit().await;
    shop.close().await;
}

async fn a_dispute_takes_credits_until_it_is_won() {
    let shop = Shop::open().await;
    let intent = shop.buy(2_500).await;
    shop.hear().await;
    let question = shop
        .double
        .dispute(&intent, 2_500, DisputeStage::Inquiry)
        .unwrap();
    shop.hear().await;
    assert_eq!(shop.bought().await, 2_500, "a question takes nothing");
    shop.double.decide(&question, Verdict::Won).unwrap();
    shop.hear().await;
    assert_eq!(shop.bought().await, 2_500);
    let won = shop
        .double
        .dispute(&intent, 1_000, DisputeStage::Chargeback)
        .unwrap();
    shop.hear().await;
    assert_eq!(shop.bought().await, 1_500);
    assert_eq!(shop.payment().await["disputed_cents"], 1_000);
    shop.double.decide(&won, Verdict::Won).unwrap();
    shop.hear().await;
    assert_eq!(shop.bought().await, 2_500);
    let lost = shop
        .double
        .dispute(&intent, 2_500, DisputeStage::Chargeback)
        .unwrap();
    shop.double.decide(&lost, Verdict::Lost).unwrap();
    shop.hear().await;
    assert_eq!(shop.bought().await, 0);
    let expected = [
        ("purchase", 2_500),
        ("dispute", -1_000),
        ("dispute_won", 1_000),
        ("dispute", -2_500),
    ];
    assert_eq!(sorted(shop.entries().await), sorted(entries(&expected)));
    shop.audit().await;
    shop.close().await;
}

async fn refunds_and_disputes_never_take_more_than_the_payment() {
    let shop = Shop::open().await;
    let intent = shop.buy(2_000).await;
    shop.hear().await;
    shop.double.refund(&intent, 1_500).unwrap();
    shop.hear().await;
    let dispute = shop
        .double
        .dispute(&intent, 2_000, DisputeStage::Chargeback)
        .unwrap();
    shop.hear().await;
    assert_eq!(shop.bought().await, 0, "and not less");
    let payment = shop.payment().await;
    assert_eq!(
        (&payment["refunded_cents"], &payment["disputed_cents"]),
        (&json!(1_500), &json!(2_000)),
        "as Stripe tells it"
    );
    shop.double.decide(&dispute, Verdict::Won).unwrap();
    shop.hear().await;
    assert_eq!(shop.bought().await, 500, "the refund stands");
    shop.audit().await;
    shop.close().await;
}

async fn the_order_of_events_does_not_matter() {
    for seed in 0..4 {
        let shop = Shop::open().await;
        shop.double.set_webhooks(WebhookMode::Held);
        let intent = shop.buy(2_500).await;
        let failed = shop.double.refund(&intent, 500).unwrap();
        shop.double.fail_refund(&failed).unwrap();
        shop.double.refund(&intent, 300).unwrap();
        let won = shop
            .double
            .dispute(&intent, 1_000, DisputeStage::Chargeback)
            .unwrap();
        shop.double.decide(&won, Verdict::Won).unwrap();
        shop.double.release_webhooks(WebhookOrder::Shuffled(seed), 3);
        shop.hear().await;
        assert_eq!(shop.bought().await, 2_200);
        shop.audit().await;
        shop.close().await;
    }
}
