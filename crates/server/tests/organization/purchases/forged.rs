//! Forged webhooks, and events of objects from other deployments.

use sortie_api::Credential;
use sortie_billing::{CheckoutOrder, Stripe, StripeSettings};
use sortie_testkit::stripe::{Card, WebhookMode, signature};

use super::Shop;
use crate::{prelude::*, rig::WEBHOOK_SECRETS};

// Several nodes count separately between two synchronizations.
crate::settings::both_databases! {
    a_refused_webhook_counts_against_its_network_and_a_genuine_one_does_not,
}

crate::settings::everywhere! {
    a_webhook_without_a_valid_signature_changes_nothing,
    the_object_of_an_event_is_read_again,
    a_purchase_that_was_paid_in_another_way_is_not_credited,
}

impl Shop {
    /// Sends a body to the webhook, with this signature.
    fn post(&self, header: &str, body: &str) -> Pending {
        let client = Client::new(self.rig.address, None).with_header("stripe-signature", header);
        let body = Bytes::from(body.to_owned());
        client.send(Method::POST, "/v1/webhooks/stripe", body)
    }

    fn signed(&self, secrets: &[&str], body: &str) -> String {
        signature(secrets, self.double.now(), body.as_bytes()).unwrap()
    }

    /// Number of events recorded by the deployment.
    async fn known_events(&self) -> i64 {
        self.rig.count("SELECT COUNT(*) AS v FROM stripe_event").await
    }
}

async fn a_webhook_without_a_valid_signature_changes_nothing() {
    let shop = Shop::open().await;
    shop.double.set_webhooks(WebhookMode::Dropped);
    shop.buy(2_500).await;
    let event = shop.double.events("checkout.session.completed").pop().unwrap();
    let body = shop.double.event_body(&event).unwrap();
    let (first, second) = (&WEBHOOK_SECRETS[..1], &WEBHOOK_SECRETS[1..]);
    let now = shop.double.now();
    let at = |at: i64| signature(first, at, body.as_bytes()).unwrap();
    let altered = body.replacen("2500", "9500", 1);
    assert_ne!(altered, body);
    for (header, sent) in [
        (shop.signed(&["whsec_wrong"], &body), body.as_str()),
        (at(now - 310), &body),
        // The margin to the tolerance of 300 seconds makes the duration of the request irrelevant.
        (at(now + 900), &body),
        (shop.signed(first, &body), &altered),
        (format!("t={now}"), &body),
        (format!("t={now},v1={}", "0".repeat(64)), &body),
        (format!("t={now},v0={}", &at(now)[at(now).len() - 64..]), &body),
        ("nothing".to_owned(), &body),
    ] {
        let refused = shop.post(&header, sent).await.unwrap();
        refused.refused("invalid_request").unwrap();
    }
    let client = Client::new(shop.rig.address, None);
    let unsigned = client.send(Method::POST, "/v1/webhooks/stripe", Bytes::from(body.clone()));
    unsigned.await.unwrap().refused("invalid_request").unwrap();
    // Signed, but not an event.
    for text in [
        "",
        "[]",
        "{}",
        r#"{"id":"","type":"x","created":1,"data":{"object":{}}}"#,
        "{\"id\":",
    ] {
        let refused = shop.post(&shop.signed(first, text), text).await.unwrap();
        refused.refused("invalid_request").unwrap();
    }
    let huge = format!("{{\"id\":\"{}\"}}", "x".repeat(1 << 20));
    let refused = shop.post(&shop.signed(first, &huge), &huge).await.unwrap();
    refused.refused("payload_too_large").unwrap();
    assert_eq!(shop.known_events().await, 0);
    shop.work().await;
    assert_eq!(shop.bought().await, 0);

    // One valid signature of two suffices, with any of the secrets, and it may be repeated.
    let two = shop.signed(&["whsec_wrong", WEBHOOK_SECRETS[1]], &body);
    for header in [two, shop.signed(second, &body), at(now - 290), at(now)] {
        shop.post(&header, &body).must(200).await;
    }
    assert_eq!(shop.known_events().await, 1);
    shop.work().await;
    assert_eq!(shop.bought().await, 2_500);
    shop.close().await;
}

async fn a_refused_webhook_counts_against_its_network_and_a_genuine_one_does_not() {
    let shop = Shop::open().await;
    let body = r#"{"id":"evt_1","type":"customer.created","created":1,"data":{"object":{"id":"cus_1"}}}"#;
    let left = |answer: &Answer| -> u64 { answer.header("x-ratelimit-remaining").unwrap().parse().unwrap() };
    let genuine = async || {
        shop.post(&shop.signed(&WEBHOOK_SECRETS[..1], body), body)
            .await
            .unwrap()
    };
    genuine().await.expect(200).unwrap();
    // A window of the rate limit may end in between, so there is a second try.
    let is_counted = async || {
        let before = left(&genuine().await);
        let again = left(&genuine().await);
        let refused = left(&shop.post("t=1,v1=00", body).await.unwrap());
        again == before && refused == before - 1 && left(&genuine().await) == before - 1
    };
    assert!(is_counted().await || is_counted().await);
    assert_eq!(
        shop.rig
            .count("SELECT COUNT(*) AS v FROM stripe_event WHERE outcome = 'ignored'")
            .await,
        1
    );
    shop.close().await;
}

async fn the_object_of_an_event_is_read_again() {
    let shop = Shop::open().await;
    shop.double.set_webhooks(WebhookMode::Dropped);
    let session = shop.order(2_500).await;
    let event = |id: &str, kind: &str, object: &str| {
        json!({"id": id, "type": kind, "created": shop.double.now(), "data": {"object": {
            "id": object, "status": "complete", "payment_status": "paid", "amount_total": 9_999_999
        }}})
        .to_string()
    };
    for (number, (kind, object)) in [
        ("checkout.session.completed", session.as_str()),
        ("checkout.session.completed", "cs_test_of_another_account"),
        ("payment_intent.succeeded", "pi_of_another_account"),
        ("charge.refunded", "ch_of_another_account"),
        ("refund.updated", "re_of_another_account"),
        ("charge.dispute.closed", "du_of_another_account"),
        ("checkout.session.completed", "../customers"),
    ]
    .into_iter()
    .enumerate()
    {
        let body = event(&format!("evt_{number}"), kind, object);
        let sent = shop
            .post(&shop.signed(&WEBHOOK_SECRETS[..1], &body), &body)
            .await
            .unwrap();
        sent.expect(200).unwrap();
    }
    shop.work().await;
    assert_eq!(shop.bought().await, 0, "the page was not paid");
    let open = "SELECT COUNT(*) AS v FROM stripe_event WHERE due_at IS NOT NULL";
    assert_eq!(shop.rig.count(open).await, 0);
    let failed = "SELECT COUNT(*) AS v FROM stripe_event WHERE outcome = 'failed'";
    assert_eq!(shop.rig.count(failed).await, 0);
    shop.close().await;
}

async fn a_purchase_that_was_paid_in_another_way_is_not_credited() {
    let shop = Shop::open().await;
    shop.double.set_webhooks(WebhookMode::Dropped);
    let stripe = Stripe::new(StripeSettings {
        secret_key: Credential::new(shop.double.secret_key()),
        webhook_secrets: Vec::new(),
        api_url: shop.double.url().parse().unwrap(),
        outbound: sortie_net::Outbound::default(),
    })
    .unwrap();
    let other = stripe
        .create_customer("other", "other", "Other")
        .await
        .unwrap()
        .id;
    let ours = {
        shop.order(2_500).await;
        let topups = shop.rig.count("SELECT COUNT(*) AS v FROM topup").await;
        assert_eq!(topups, 1);
        shop.rig.text("SELECT id AS v FROM topup").await
    };
    let customer = shop.rig.text("SELECT customer AS v FROM billing_account").await;
    // A holder of the secret key creates pages that name the purchase.
    for (number, (customer, amount_cents)) in [(&customer, 500), (&other, 2_500)].into_iter().enumerate() {
        let order = CheckoutOrder {
            customer,
            amount_cents,
            description: "x",
            topup: &ours,
            saves_card: false,
            expires_at: shop.double.now() + 3_600,
            success_url: "https://x.example",
            cancel_url: "https://x.example",
        };
        let page = stripe
            .create_checkout(&format!("wrong_{number}"), &order)
            .await
            .unwrap();
        shop.double.pay(&page.id, Card::Good).unwrap();
    }
    for event in shop.double.all_events() {
        shop.double.resend(&event).unwrap();
    }
    shop.hear().await;
    shop.advance(Duration::from_hours(1));
    shop.work().await;
    assert_eq!(shop.bought().await, 0);
    assert_eq!(shop.rig.text("SELECT state AS v FROM topup").await, "failed");
    assert_eq!(shop.payments("").await["payments"], Value::Array(Vec::new()));
    shop.close().await;
}
