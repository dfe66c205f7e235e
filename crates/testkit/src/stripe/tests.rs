mod subscriptions;

use std::{sync::Arc, time::Duration};

use crate::rows;
use axum::{Router, extract::State as Shared, routing::post};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;

use super::*;
use crate::{Answer, Client, serve::Serving};

impl StripeDouble {
    fn client(&self) -> Client {
        Client::new(self.address(), Some(self.secret_key().to_owned()))
            .with_header("content-type", "application/x-www-form-urlencoded")
    }

    async fn post(&self, path: &str, form: &str) -> Answer {
        self.post_with("", path, form).await
    }

    async fn post_with(&self, key: &str, path: &str, form: &str) -> Answer {
        let mut client = self.client();
        if !key.is_empty() {
            client = client.with_header("idempotency-key", key);
        }
        let body = Bytes::copy_from_slice(form.as_bytes());
        client.send(Method::POST, path, body).await.unwrap()
    }

    async fn made(&self, path: &str, form: &str) -> String {
        let made = self.post(path, form).await.expect(200).unwrap();
        made.json().unwrap()["id"].as_str().unwrap().to_owned()
    }

    async fn read(&self, path: &str) -> Value {
        let read = self.client().get(path).await.unwrap();
        read.expect(200).unwrap().json().unwrap()
    }

    async fn customer(&self) -> String {
        self.made("/v1/customers", "name=Acme").await
    }

    async fn session(&self, customer: &str, topup: &str) -> String {
        let form = format!(
            "mode=payment&customer={customer}&line_items[0][quantity]=1&line_items[0][price_data][currency]=usd\
             &line_items[0][price_data][unit_amount]=2500&line_items[0][price_data][product_data][name]=Credits\
             &payment_intent_data[metadata][topup]={topup}&payment_intent_data[setup_future_usage]=off_session\
             &metadata[topup]={topup}&success_url=http://127.0.0.1:1/back?id={{CHECKOUT_SESSION_ID}}"
        );
        self.made("/v1/checkout/sessions", &form).await
    }

    async fn session_and_intent(&self, session: &str) -> (Value, Value) {
        let session = self.read(&format!("/v1/checkout/sessions/{session}")).await;
        let intent = session["payment_intent"].as_str().unwrap_or("none");
        let intent = self.client().get(&format!("/v1/payment_intents/{intent}")).await;
        (session, intent.unwrap().json().unwrap())
    }

    fn kinds(&self) -> Vec<&'static str> {
        let state = lock(&self.shared.state);
        state.events.all().map(|event| event.kind).collect()
    }
}

fn error(answer: &Answer) -> (u16, String) {
    let body = answer.json().unwrap();
    let error = &body["error"];
    let named = error["code"].as_str().or_else(|| error["type"].as_str());
    (answer.status, named.unwrap_or_default().to_owned())
}

fn off_session(customer: &str, method: &str, topup: &str) -> String {
    format!(
        "amount=4000&currency=usd&customer={customer}&payment_method={method}&off_session=true&confirm=true\
         &metadata[topup]={topup}"
    )
}

#[tokio::test]
async fn requests_that_stripe_refuses_are_refused() {
    let double = StripeDouble::start().await.unwrap();
    let customer = double.customer().await;
    let intent = |more: &str| format!("amount=100&currency=usd&customer={customer}{more}");
    for (form, told) in rows! {
        intent("&receipt=x"), "parameter_unknown";
        intent("&metadata[a][b]=x"), "invalid_request_error";
        intent("&off_session=true"), "invalid_request_error";
        intent("&confirm=true"), "parameter_missing";
        intent("&payment_method=pm_none"), "resource_missing";
        "currency=usd".to_owned(), "parameter_missing";
        "amount=1.5&currency=usd".to_owned(), "parameter_invalid_integer";
        "amount=49&currency=usd".to_owned(), "amount_too_small";
        "amount=100000000&currency=usd".to_owned(), "amount_too_large";
        "amount=100&currency=usd&customer=cus_none".to_owned(), "resource_missing";
    } {
        let refused = double.post("/v1/payment_intents", &form).await;
        assert_eq!(error(&refused), (400, told.to_owned()), "{form}");
    }
    assert!(double.holdings().others.is_empty(), "nothing was made");
    let stranger = Client::new(double.address(), Some("sk_test_other".to_owned()));
    assert_eq!(stranger.get("/v1/account").await.unwrap().status, 401);
    let old = double.client().with_header("stripe-version", "2020-08-27");
    assert_eq!(old.get("/v1/account").await.unwrap().status, 400);
    for (path, told) in [
        ("/v1/invoices", "invalid_request_error"),
        ("/v1/charges/ch_none", "resource_missing"),
    ] {
        let missing = double.client().get(path).await.unwrap();
        assert_eq!(error(&missing), (404, told.to_owned()));
    }
    let other = double.save_card(&double.customer().await, Card::Good).unwrap();
    let refused = double
        .post("/v1/payment_intents", &off_session(&customer, &other, "t"))
        .await;
    assert_eq!(refused.status, 400, "the card of another customer");
}

#[tokio::test]
async fn a_key_replays_its_answer_and_nothing_else() {
    let double = StripeDouble::start().await.unwrap();
    let first = double.post_with("k", "/v1/customers", "name=a").await;
    let again = double.post_with("k", "/v1/customers", "name=a").await;
    assert_eq!(first.body, again.body);
    assert!(first.header("idempotent-replayed").is_err());
    assert_eq!(again.header("idempotent-replayed").unwrap(), "true");
    assert_eq!(
        again.header("original-request").unwrap(),
        first.header("request-id").unwrap()
    );
    let other = double.post_with("k", "/v1/customers", "name=b").await;
    assert_eq!(error(&other), (400, "idempotency_error".to_owned()));
    let elsewhere = double.post_with("k", "/v1/refunds", "name=a").await;
    assert_eq!(error(&elsewhere), (400, "idempotency_error".to_owned()));
    let replays = double
        .requests(Call::CreateCustomer)
        .iter()
        .map(|request| request.is_replayed)
        .collect::<Vec<_>>();
    assert_eq!(replays, [false, true, false]);
    double.advance(Duration::from_hours(24));
    let forgotten = double.post_with("k", "/v1/customers", "name=a").await;
    assert_ne!(first.body, forgotten.body);
    let wrong = double.post_with("w", "/v1/customers", "nam=a").await;
    assert_eq!(error(&wrong), (400, "parameter_unknown".to_owned()));
    let right = double.post_with("w", "/v1/customers", "name=a").await;
    assert_eq!(right.status, 200, "a request that was never begun leaves no key");
    let long = double
        .post_with(&"k".repeat(256), "/v1/customers", "name=a")
        .await;
    assert_eq!(long.status, 400);
}

#[tokio::test]
async fn declines_and_errors_are_kept_under_their_key() {
    let double = StripeDouble::start().await.unwrap();
    let customer = double.customer().await;
    let method = double.save_card(&customer, Card::Declined).unwrap();
    let form = off_session(&customer, &method, "topup_1");
    let declined = double.post_with("topup_1", "/v1/payment_intents", &form).await;
    assert_eq!(error(&declined), (402, "card_declined".to_owned()));
    assert_eq!(
        double
            .post_with("topup_1", "/v1/payment_intents", &form)
            .await
            .body,
        declined.body
    );
    assert_eq!(double.holdings().topups["topup_1"].len(), 1);

    double.fail(Call::CreateIntent, 1, Fault::ErrorAfter);
    let method = double.save_card(&customer, Card::Good).unwrap();
    let form = off_session(&customer, &method, "topup_2");
    for _ in 0..2 {
        let failed = double.post_with("topup_2", "/v1/payment_intents", &form).await;
        assert_eq!(error(&failed), (500, "api_error".to_owned()));
    }
    let held = double.holdings();
    assert_eq!(held.topups["topup_2"].len(), 1);
    assert_eq!(
        held.topups["topup_2"][0].status, "succeeded",
        "the answer failed, not the payment"
    );
    assert!(held.paid_twice().is_empty());
    double.advance(Duration::from_hours(24));
    double
        .post_with("topup_2", "/v1/payment_intents", &form)
        .await
        .expect(200)
        .unwrap();
    assert_eq!(
        double.holdings().paid_twice(),
        ["topup_2"],
        "a key that is too old makes a second payment"
    );
}

#[tokio::test]
async fn two_requests_with_one_key_at_once_are_a_conflict() {
    let double = StripeDouble::start().await.unwrap();
    double.fail(Call::CreateCustomer, 1, Fault::HeldBefore);
    let (first, second) = tokio::join!(double.post_with("k", "/v1/customers", ""), async {
        double.wait_for_requests(Call::CreateCustomer, 1).await.unwrap();
        let second = double.post_with("k", "/v1/customers", "").await;
        double.release();
        second
    });
    assert_eq!(
        (first.status, error(&second)),
        (200, (409, "idempotency_key_in_use".to_owned()))
    );
}

#[tokio::test]
async fn the_nth_call_fails_before_or_after_it_is_done() {
    let double = StripeDouble::start().await.unwrap();
    double.fail(Call::CreateCustomer, 2, Fault::ErrorBefore);
    double.fail(Call::CreateCustomer, 3, Fault::LostAfter);
    double.fail(Call::CreateCustomer, 4, Fault::TooMany);
    let form = || Bytes::from_static(b"name=a");
    let mut seen = Vec::new();
    for _ in 0..5 {
        let answer = double.client().send(Method::POST, "/v1/customers", form()).await;
        seen.push(answer.map_or(0, |answer| answer.status));
    }
    assert_eq!(seen, [200, 500, 0, 429, 200]);
    assert_eq!(double.events("customer.created").len(), 3);
    double.fail_always(Some(Fault::LostBefore));
    assert!(double.client().get("/v1/account").await.is_err());
    double.fail_always(None);
    assert_eq!(double.read("/v1/account").await["id"], double.account());
}

#[tokio::test]
async fn a_customer_pays_after_a_card_that_was_declined() {
    let double = StripeDouble::start().await.unwrap();
    let customer = double.customer().await;
    let id = double.session(&customer, "topup_1").await;
    let (session, _) = double.session_and_intent(&id).await;
    assert_eq!(
        session["payment_intent"],
        Value::Null,
        "before the first attempt there is no payment"
    );
    let declined = double.pay(&id, Card::InsufficientFunds).unwrap_err();
    assert_eq!(declined.to_string(), "Your card has insufficient funds.");
    let (session, intent) = double.session_and_intent(&id).await;
    assert_eq!(
        (&session["status"], &intent["status"]),
        (&"open".into(), &"requires_payment_method".into())
    );
    double.pay(&id, Card::NeedsAuthentication).unwrap();
    assert_eq!(
        double.session_and_intent(&id).await.1["status"],
        "requires_action"
    );
    assert!(double.authenticate(&id, Authentication::Failed).is_err());
    double.pay(&id, Card::NeedsAuthentication).unwrap();
    double.authenticate(&id, Authentication::Passed).unwrap();
    let (session, intent) = double.session_and_intent(&id).await;
    assert_eq!(
        (&session["status"], &session["payment_status"]),
        (&"complete".into(), &"paid".into())
    );
    assert_eq!(
        (&session["url"], &intent["status"]),
        (&Value::Null, &"succeeded".into())
    );
    assert_eq!(
        double.holdings().topups["topup_1"].len(),
        1,
        "one payment, however many attempts"
    );
    assert!(double.pay(&id, Card::Good).is_err());
    let expired = double
        .post(&format!("/v1/checkout/sessions/{id}/expire"), "")
        .await;
    assert_eq!(expired.status, 400, "a complete session does not expire");
    let saved = double
        .read(&format!("/v1/customers/{customer}/payment_methods"))
        .await;
    assert_eq!(saved["data"][0]["card"]["last4"], "3184");
    assert_eq!(
        double.kinds().into_iter().rev().take(4).collect::<Vec<_>>(),
        [
            "checkout.session.completed",
            "payment_method.attached",
            "payment_intent.succeeded",
            "charge.succeeded"
        ]
    );
}

#[tokio::test]
async fn a_slow_bank_settles_after_the_session() {
    let double = StripeDouble::start().await.unwrap();
    let customer = double.customer().await;
    for (settlement, status, event) in rows! {
        Settlement::Paid, "paid", "checkout.session.async_payment_succeeded";
        Settlement::Failed, "unpaid", "checkout.session.async_payment_failed";
    } {
        let id = double.session(&customer, "topup_1").await;
        double.pay(&id, Card::Slow).unwrap();
        let (session, intent) = double.session_and_intent(&id).await;
        assert_eq!(
            (&session["status"], &session["payment_status"]),
            (&"complete".into(), &"unpaid".into())
        );
        assert_eq!(intent["status"], "processing");
        double.settle(intent["id"].as_str().unwrap(), settlement).unwrap();
        assert_eq!(double.session_and_intent(&id).await.0["payment_status"], status);
        assert_eq!(double.events(event).len(), 1);
    }
    assert_eq!(double.holdings().total().captured_cents, 2_500);
}

#[tokio::test]
async fn sessions_expire_by_request_and_by_time() {
    let double = StripeDouble::start().await.unwrap();
    let customer = double.customer().await;
    let (asked, late) = (
        double.session(&customer, "a").await,
        double.session(&customer, "b").await,
    );
    double
        .post(&format!("/v1/checkout/sessions/{asked}/expire"), "")
        .await
        .expect(200)
        .unwrap();
    double.advance(Duration::from_hours(25));
    assert_eq!(double.events("checkout.session.expired").len(), 2);
    assert_eq!(double.session_and_intent(&late).await.0["status"], "expired");
    assert_eq!(
        double.pay(&late, Card::Good).unwrap_err().to_string(),
        "This session is expired."
    );
}

#[tokio::test]
async fn a_browser_pays_on_the_page() {
    let double = StripeDouble::start().await.unwrap();
    let id = double.session(&double.customer().await, "topup_1").await;
    let path = format!("/c/pay/{id}");
    let page = double.client().get(&path).await.unwrap().text();
    assert!(
        page.contains("Pay $25.00") && page.contains("value=\"declined\""),
        "{page}"
    );
    let declined = double.post(&path, "card=declined").await.text();
    assert!(declined.contains("Your card was declined."), "{declined}");
    let asks = double.post(&path, "card=awaits_authentication").await.text();
    assert!(asks.contains("Complete authentication"), "{asks}");
    let paid = double.post(&path, "authentication=passed").await;
    assert_eq!(
        (paid.status, paid.header("location").unwrap()),
        (303, &*format!("http://127.0.0.1:1/back?id={id}"))
    );
    let held = double.read("/_double/holdings").await;
    assert_eq!(held["topups"]["topup_1"][0]["held"]["captured_cents"], 2_500);
}

#[tokio::test]
async fn the_holdings_follow_refunds_and_disputes() {
    let double = StripeDouble::start().await.unwrap();
    let customer = double.customer().await;
    let method = double.save_card(&customer, Card::Good).unwrap();
    let form = off_session(&customer, &method, "topup_1");
    let intent = double.made("/v1/payment_intents", &form).await;
    let held = || {
        let held = double.holdings().customers[&customer];
        (held.captured_cents, held.refunded_cents, held.disputed_cents)
    };
    assert_eq!(held(), (4_000, 0, 0));
    let refund = double.refund(&intent, 1_500).unwrap();
    assert!(double.refund(&intent, 2_501).is_err(), "more than is left");
    double.fail_refund(&refund).unwrap();
    assert_eq!(held(), (4_000, 0, 0));
    double.refund(&intent, 1_000).unwrap();
    let inquiry = double.dispute(&intent, 3_000, DisputeStage::Inquiry).unwrap();
    assert_eq!(held(), (4_000, 1_000, 0));
    double.decide(&inquiry, Verdict::Lost).unwrap();
    let dispute = double.dispute(&intent, 3_000, DisputeStage::Chargeback).unwrap();
    assert_eq!(held(), (4_000, 1_000, 3_000));
    assert!(double.refund(&intent, 1).is_err(), "the money is with the bank");
    double.decide(&dispute, Verdict::Won).unwrap();
    assert_eq!(held(), (4_000, 1_000, 0));
    assert_eq!(double.events("charge.dispute.funds_reinstated").len(), 1);
    let charge = double
        .read(&format!(
            "/v1/payment_intents/{intent}?expand[]=latest_charge.refunds"
        ))
        .await;
    let refunds = charge["latest_charge"]["refunds"]["data"].as_array().unwrap();
    let statuses: Vec<_> = refunds
        .iter()
        .map(|refund| refund["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["failed", "succeeded"]);
}

/// Webhooks that arrived, each with its signature. The receiver refuses a configured number of them.
#[derive(Clone, Default)]
struct Received {
    all: Arc<Mutex<Vec<(String, Bytes)>>>,
    refusals: Arc<Mutex<usize>>,
}

async fn receive(Shared(received): Shared<Received>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let signature = headers["stripe-signature"].to_str().unwrap().to_owned();
    lock(&received.all).push((signature, body));
    let mut refusals = lock(&received.refusals);
    if *refusals == 0 {
        return StatusCode::OK;
    }
    *refusals -= 1;
    StatusCode::SERVICE_UNAVAILABLE
}

impl Received {
    async fn start(refusals: usize) -> (Self, Serving) {
        let received = Self {
            refusals: Arc::new(Mutex::new(refusals)),
            ..Self::default()
        };
        let router = Router::new()
            .route("/hook", post(receive))
            .with_state(received.clone());
        (received, Serving::start(router).await.unwrap())
    }

    fn ids(&self) -> Vec<String> {
        let all = lock(&self.all);
        let id = |body: &Bytes| {
            serde_json::from_slice::<Value>(body).unwrap()["id"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        all.iter().map(|(_, body)| id(body)).collect()
    }
}

#[tokio::test]
async fn webhooks_are_signed_with_every_secret_and_sent_until_they_are_taken() {
    let double = StripeDouble::start().await.unwrap();
    let (received, server) = Received::start(2).await;
    double
        .send_webhooks(
            &format!("{}/hook", server.base_url()),
            &["whsec_old", "whsec_new"],
        )
        .unwrap();
    double.customer().await;
    let deliveries = double.wait_for_deliveries(|all| all.len() == 3).await.unwrap();
    let statuses: Vec<_> = deliveries.iter().map(|delivery| delivery.status).collect();
    assert_eq!(statuses, [Some(503), Some(503), Some(200)]);
    let (header, body) = lock(&received.all)[0].clone();
    let at: i64 = header.split(',').next().unwrap()["t=".len()..].parse().unwrap();
    assert_eq!(header, signature(&["whsec_old", "whsec_new"], at, &body).unwrap());
    assert!(at.abs_diff(double.now()) < 60);
}

#[tokio::test]
async fn webhooks_are_dropped_repeated_delayed_held_and_resent() {
    let double = StripeDouble::start().await.unwrap();
    let (received, server) = Received::start(0).await;
    double
        .send_webhooks(&format!("{}/hook", server.base_url()), &["whsec_x"])
        .unwrap();
    double.set_webhooks(WebhookMode::Dropped);
    double.customer().await;
    double.set_webhooks(WebhookMode::Repeated(3));
    double.customer().await;
    double.wait_for_deliveries(|all| all.len() == 3).await.unwrap();
    double.set_webhooks(WebhookMode::Held);
    double.customer().await;
    double.customer().await;
    let made = double.events("customer.created");
    assert_eq!(received.ids(), [&*made[1], &*made[1], &*made[1]]);
    double.release_webhooks(WebhookOrder::Reversed, 1);
    double.wait_for_deliveries(|all| all.len() == 5).await.unwrap();
    assert_eq!(received.ids()[3..], [made[3].clone(), made[2].clone()]);
    double.set_webhooks(WebhookMode::Delayed(Duration::from_millis(1)));
    double.customer().await;
    double.resend(&made[0]).unwrap();
    double.wait_for_deliveries(|all| all.len() == 7).await.unwrap();
    assert!(received.ids().contains(&made[0]));
    assert_eq!(
        double.event_body(&made[0]).unwrap().as_bytes(),
        &lock(&received.all)
            .iter()
            .find(|(_, body)| { String::from_utf8_lossy(body).contains(&made[0]) })
            .unwrap()
            .1[..]
    );
}

#[tokio::test]
async fn a_storm_sends_every_event_to_all_addresses_in_turn() {
    let double = StripeDouble::start().await.unwrap();
    let (one, first) = Received::start(0).await;
    let (two, second) = Received::start(0).await;
    let servers = [first, second];
    let urls = servers
        .each_ref()
        .map(|server| format!("{}/hook", server.base_url()));
    double.set_webhooks(WebhookMode::Dropped);
    double.send_webhooks(&urls[0], &["whsec_x"]).unwrap();
    for _ in 0..4 {
        double.customer().await;
    }
    let storm = Storm {
        times: 5,
        per_second: 2_000,
        seed: 7,
    };
    let sent = double.storm(&urls, storm).await.unwrap();
    assert!(sent.len() == 20 && sent.iter().all(|delivery| delivery.status == Some(200)));
    let (one, two) = (one.ids(), two.ids());
    assert_eq!((one.len(), two.len()), (10, 10));
    let mut all = [one.clone(), two].concat();
    assert!(!one.is_sorted_by_key(|id| {
        double
            .events("customer.created")
            .iter()
            .position(|made| made == id)
    }));
    all.sort();
    let made = double.events("customer.created");
    let mut expected = [&made[..]; 5].concat();
    expected.sort();
    assert_eq!(all, expected);
}

#[tokio::test]
async fn an_endpoint_gets_the_types_that_it_wants() {
    let double = StripeDouble::start().await.unwrap();
    let (received, server) = Received::start(0).await;
    let url = format!("{}/hook", server.base_url());
    double.send_webhooks(&url, &["whsec_x"]).unwrap();
    double.limit_webhooks(&["payment_intent.succeeded"]);
    let customer = double.customer().await;
    let session = double.session(&customer, "topup_1").await;
    double.pay(&session, Card::Good).unwrap();
    double.wait_for_deliveries(|all| !all.is_empty()).await.unwrap();
    let wanted = double.events("payment_intent.succeeded");
    assert_eq!(received.ids(), wanted);
    let storm = Storm {
        times: 1,
        per_second: 2_000,
        seed: 7,
    };
    let sent = double.storm(&[url], storm).await.unwrap();
    assert_eq!((sent.len(), &sent[0].event), (1, &wanted[0]));
    assert_eq!(double.intents("succeeded").len(), 1);
    assert!(double.intents("processing").is_empty());
}

#[tokio::test]
async fn failures_that_are_forgotten_do_not_come() {
    let double = StripeDouble::start().await.unwrap();
    double.fail(Call::CreateCustomer, 1, Fault::TooMany);
    double.fail_always(Some(Fault::TooMany));
    double.forget_failures();
    double.customer().await;
}
