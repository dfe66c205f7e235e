//! Purchases of credits: checkout, webhooks, the reconciler, refunds and disputes, against the double of Stripe.

mod auto;
mod card;
mod forged;
mod lost;
mod taken_back;

use sortie_testkit::{
    StripeDouble,
    stripe::{Card, Holdings, Storm, WebhookMode},
};

use crate::{prelude::*, rig::CREDITS};

crate::settings::everywhere! {
    a_purchase_is_credited_once_whoever_sees_it,
    the_amount_and_the_number_of_open_checkouts_have_limits,
    a_storm_of_webhooks_credits_each_purchase_once,
    payments_are_listed_in_pages,
    a_suspended_organization_can_pay,
    a_customer_who_comes_back_sees_the_credits,
    without_an_account_nothing_is_sold,
}

/// Micros of a cent.
const CENT: i64 = 10_000;

/// Deployment that sells credits.
pub(super) struct Shop {
    pub(super) rig: Rig,
    pub(super) double: StripeDouble,
}

impl Shop {
    pub(super) async fn open() -> Self {
        let double = StripeDouble::start().await.unwrap();
        let rig = Rig::start_selling(&double).await;
        let shop = Self { rig, double };
        // Finish the first search for events, so that later tests know the time of the next one.
        shop.work().await;
        shop
    }

    /// Path below the billing of the first organization.
    pub(super) fn path(&self, end: &str) -> String {
        format!("/v1/organizations/{}/billing{end}", self.rig.ours)
    }

    pub(super) fn checkout(&self, amount_cents: i64, saves_card: bool) -> Pending {
        let body = json!({"amount_cents": amount_cents, "save_payment_method": saves_card});
        let path = self.path("/checkout");
        self.rig.admin.post(&path, &body)
    }

    /// Creates a checkout. Returns its session.
    pub(super) async fn order(&self, amount_cents: i64) -> String {
        session(&self.checkout(amount_cents, false).must(200).await)
    }

    /// Buys credits. Returns the payment intent.
    pub(super) async fn buy(&self, amount_cents: i64) -> String {
        let session = self.order(amount_cents).await;
        self.double.pay(&session, Card::Good).unwrap();
        self.intents().pop().unwrap()
    }

    /// Intents that have succeeded, in the order of their payments.
    pub(super) fn intents(&self) -> Vec<String> {
        let mut intents = Vec::new();
        for event in self.double.events("payment_intent.succeeded") {
            let body: Value = serde_json::from_str(&self.double.event_body(&event).unwrap()).unwrap();
            intents.push(body["data"]["object"]["id"].as_str().unwrap().to_owned());
        }
        intents
    }

    /// Waits until every event so far was sent, and lets all nodes work.
    pub(super) async fn hear(&self) {
        let all = self.double.all_events();
        let heard = self.double.wait_for_deliveries(|sent| {
            all.iter().all(|event| {
                sent.iter()
                    .any(|sent| sent.event == *event && sent.status == Some(200))
            })
        });
        heard.await.unwrap();
        self.work().await;
    }

    /// Lets every node do its due work.
    pub(super) async fn work(&self) {
        for billing in &self.rig.billing {
            billing.turn().await.unwrap();
        }
    }

    /// Advances the clocks of the nodes and of the double.
    pub(super) fn advance(&self, by: Duration) {
        self.rig.clock.set(self.rig.clock.now() + by);
        self.double.advance(by);
    }

    /// Reads the billing of the first organization.
    pub(super) async fn billing(&self) -> Value {
        self.rig.owner.get(&self.path("")).must_json(200).await
    }

    /// Bought credits minus reversals, in cents.
    pub(super) async fn bought(&self) -> i64 {
        let balance = self.billing().await["balance_micros"].as_i64().unwrap() - CREDITS;
        assert_eq!(balance % CENT, 0);
        balance / CENT
    }

    /// Kinds and amounts of the entries about payments, oldest first, in cents.
    pub(super) async fn entries(&self) -> Vec<(String, i64)> {
        let billing = self.billing().await;
        let entries = billing["ledger"].as_array().unwrap().iter().rev();
        entries
            .filter(|entry| entry["payment_id"].is_string())
            .map(|entry| {
                let kind = entry["kind"].as_str().unwrap().to_owned();
                (kind, entry["amount_micros"].as_i64().unwrap() / CENT)
            })
            .collect()
    }

    pub(super) async fn payments(&self, query: &str) -> Value {
        let path = self.path(&format!("/payments{query}"));
        self.rig.owner.get(&path).must_json(200).await
    }

    /// The only payment.
    pub(super) async fn payment(&self) -> Value {
        let payments = self.payments("").await["payments"].clone();
        assert_eq!(payments.as_array().map(Vec::len), Some(1), "{payments}");
        payments[0].clone()
    }

    /// Compares the credits with the balance of the double.
    pub(super) async fn audit(&self) {
        let holdings: Holdings = self.double.holdings();
        assert_eq!(holdings.paid_twice(), Vec::<&str>::new());
        let held = holdings.total();
        let kept = held.captured_cents - held.refunded_cents - held.disputed_cents;
        assert_eq!(self.bought().await, kept, "{held:?}");
        let mut last = None;
        loop {
            let checked = self.rig.accounts.store().check_credits(last, 10).await.unwrap();
            assert_eq!(checked.differences, []);
            last = checked.looked_at.last().copied();
            if last.is_none() {
                break;
            }
        }
    }

    pub(super) async fn close(self) {
        self.rig.end().await;
    }
}

/// Session of a page.
pub(super) fn session(answer: &Answer) -> String {
    let url = answer.json().unwrap()["url"].as_str().unwrap().to_owned();
    let (_, session) = url.rsplit_once('/').unwrap();
    assert!(session.starts_with("cs_"), "{url}");
    session.to_owned()
}

async fn a_purchase_is_credited_once_whoever_sees_it() {
    let shop = Shop::open().await;
    assert_eq!(shop.billing().await["stripe_configured"], true);
    let session = shop.order(2_500).await;
    shop.hear().await;
    assert_eq!(shop.bought().await, 0, "a page is no payment");
    shop.double.pay(&session, Card::Declined).unwrap_err();
    shop.hear().await;
    assert_eq!(shop.bought().await, 0, "another card may follow");
    shop.double.pay(&session, Card::Good).unwrap();
    shop.hear().await;
    assert_eq!(shop.bought().await, 2_500);

    // Repeat every event, the return page of the customer, and the reconciler.
    for event in shop.double.all_events() {
        shop.double.resend(&event).unwrap();
    }
    let anybody = Client::new(shop.rig.address, None);
    let back = format!("/billing/paid?session={session}");
    anybody.get(&back).must(200).await;
    for _ in 0..3 {
        shop.advance(Duration::from_hours(2));
        shop.hear().await;
    }
    shop.advance(Duration::from_hours(26));
    shop.work().await;
    assert_eq!(shop.entries().await, [("purchase".to_owned(), 2_500)]);

    let payment = shop.payment().await;
    let entry = shop.billing().await["ledger"][0].clone();
    assert_eq!(entry["payment_id"], payment["id"]);
    assert_eq!(entry["topup_id"], payment["topup_id"]);
    for (field, value) in [
        ("amount_cents", json!(2_500)),
        ("refunded_cents", json!(0)),
        ("disputed_cents", json!(0)),
        ("refund_status", json!("none")),
    ] {
        assert_eq!(payment[field], value);
    }
    let path = payment["receipt_endpoint"].as_str().unwrap();
    let receipt = shop.rig.owner.get(path).must(200).await;
    assert!(
        receipt.json().unwrap()["url"]
            .as_str()
            .unwrap()
            .starts_with("http")
    );
    shop.rig.stranger.get(path).must_refuse("not_found").await;
    let elsewhere = path.replace(&shop.rig.ours.to_string(), &shop.rig.theirs.to_string());
    shop.rig.stranger.get(&elsewhere).must_refuse("not_found").await;
    let audit = format!("/engine/{}/v1/admin/audit?action=billing.", shop.rig.ours);
    for action in ["checkout", "purchase"] {
        let entries = shop.rig.owner.get(&format!("{audit}{action}")).await.unwrap();
        let entries = entries.json().unwrap()["items"].clone();
        assert_eq!(entries.as_array().unwrap().len(), 1, "{entries}");
        assert_eq!(entries[0]["target"], payment["topup_id"]);
    }
    shop.audit().await;
    shop.close().await;
}

async fn the_amount_and_the_number_of_open_checkouts_have_limits() {
    let shop = Shop::open().await;
    let path = shop.path("/checkout");
    for wrong in [
        json!({"amount_cents": 499}),
        json!({"amount_cents": 1_000_001}),
        json!({"amount_cents": -500}),
        json!({"amount_cents": 500.5}),
        json!({"amount_cents": "500"}),
        json!({}),
        json!({"amount_cents": 500, "currency": "eur"}),
        json!({"amount_cents": 500, "save_payment_method": "yes"}),
    ] {
        shop.rig
            .admin
            .post(&path, &wrong)
            .must_refuse("invalid_request")
            .await;
    }
    let mut sessions = vec![shop.order(500).await, shop.order(1_000_000).await];
    for _ in 0..8 {
        sessions.push(shop.order(500).await);
    }
    shop.checkout(500, false).must_refuse("conflict").await;
    // The other organization has a separate limit.
    let theirs = format!("/v1/organizations/{}/billing/checkout", shop.rig.theirs);
    let body = json!({"amount_cents": 500});
    shop.rig.stranger.post(&theirs, &body).must(200).await;
    shop.double.pay(&sessions[1], Card::Good).unwrap();
    shop.hear().await;
    assert_eq!(shop.bought().await, 1_000_000);
    shop.order(500).await;
    shop.checkout(500, false).must_refuse("conflict").await;
    // Pages expire after an hour, and events report it.
    shop.advance(Duration::from_mins(61));
    shop.hear().await;
    shop.order(500).await;
    shop.close().await;
}

async fn a_storm_of_webhooks_credits_each_purchase_once() {
    let shop = Shop::open().await;
    shop.double.set_webhooks(WebhookMode::Dropped);
    let mut sum = 0;
    for number in 0..10 {
        let intent = shop.buy(500 + number).await;
        sum += 500 + number;
        if number % 2 == 0 {
            shop.double.refund(&intent, 100).unwrap();
            sum -= 100;
        }
    }
    let storm = Storm {
        times: 5,
        per_second: 400,
        seed: 7,
    };
    let urls = vec![shop.rig.webhooks(); 3];
    let answers = shop.double.storm(&urls, storm).await.unwrap();
    assert!(answers.len() >= 150, "{}", answers.len());
    assert!(
        answers.iter().all(|answer| answer.status == Some(200)),
        "{answers:?}"
    );
    shop.work().await;
    assert_eq!(shop.bought().await, sum);
    assert_eq!(shop.entries().await.len(), 15);
    shop.audit().await;
    shop.close().await;
}

async fn payments_are_listed_in_pages() {
    let shop = Shop::open().await;
    for amount in 500..530 {
        shop.buy(amount).await;
        // Open checkouts have a limit.
        shop.hear().await;
    }
    let amounts = |page: &Value| -> Vec<i64> {
        let payments = page["payments"].as_array().unwrap().iter();
        payments
            .map(|payment| payment["amount_cents"].as_i64().unwrap())
            .collect()
    };
    let first = shop.payments("").await;
    assert_eq!(amounts(&first).len(), 25, "by default");
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = shop.payments(&format!("?cursor={cursor}")).await;
    assert_eq!(rest["next_cursor"], "");
    let mut all = [amounts(&first), amounts(&rest)].concat();
    all.sort_unstable();
    assert_eq!(all, (500..530).collect::<Vec<_>>());
    assert_eq!(amounts(&shop.payments("?limit=100").await).len(), 30);
    assert_eq!(amounts(&shop.payments("?limit=1").await).len(), 1);
    for wrong in ["?limit=0", "?limit=101", "?cursor=x"] {
        let path = shop.path(&format!("/payments{wrong}"));
        shop.rig.owner.get(&path).must_refuse("invalid_request").await;
    }
    // A cursor of one organization is invalid for another.
    let path = format!(
        "/v1/organizations/{}/billing/payments?cursor={cursor}",
        shop.rig.theirs
    );
    shop.rig.stranger.get(&path).must_refuse("invalid_request").await;
    shop.close().await;
}

async fn a_suspended_organization_can_pay() {
    let shop = Shop::open().await;
    let operator = operator(&shop.rig).await;
    let path = format!("/v1/operator/organizations/{}/suspend", shop.rig.ours);
    operator.post(&path, &json!({})).must(200).await;
    shop.buy(700).await;
    shop.hear().await;
    assert_eq!(shop.bought().await, 700);
    let portal = shop.rig.owner.post(&shop.path("/portal"), &json!({})).await;
    portal.unwrap().expect(200).unwrap();
    // Automatic purchases can be disabled, but not enabled.
    let auto = shop.path("/auto-topup");
    let low = json!({"enabled": true, "threshold_cents": 1_000, "amount_cents": 5_000, "consent": true});
    let owner = &shop.rig.owner;
    let enabled = owner.put(&auto, &low).await.unwrap();
    enabled.refused("forbidden").unwrap();
    let disabled = owner.put(&auto, &json!({"enabled": false})).await.unwrap();
    assert_eq!(disabled.expect(200).unwrap().json().unwrap()["enabled"], false);
    shop.close().await;
}

async fn a_customer_who_comes_back_sees_the_credits() {
    let shop = Shop::open().await;
    shop.double.set_webhooks(WebhookMode::Dropped);
    let anybody = Client::new(shop.rig.address, None);
    let session = shop.order(900).await;
    let back = format!("/billing/paid?session={session}");
    let early = anybody.get(&back).must(200).await;
    assert!(early.text().contains("on its way"), "{}", early.text());
    shop.double.pay(&session, Card::Good).unwrap();
    let page = anybody.get(&back).must(200).await;
    assert!(
        page.text().contains("The credits are available"),
        "{}",
        page.text()
    );
    assert_eq!(shop.bought().await, 900, "without a webhook");
    let cancelled = anybody.get("/billing/cancelled").must(200).await;
    assert!(cancelled.text().contains("Nothing was paid"));
    for unknown in ["cs_test_nothing", "", "%00", "../customers"] {
        let page = anybody
            .get(&format!("/billing/paid?session={unknown}"))
            .await
            .unwrap();
        assert_eq!(page.status, 404, "{unknown}");
    }
    shop.close().await;
}

async fn without_an_account_nothing_is_sold() {
    let rig = Rig::start().await;
    let path = |end: &str| format!("/v1/organizations/{}/billing{end}", rig.ours);
    for (end, body) in [
        ("/checkout", json!({"amount_cents": 500})),
        ("/portal", json!({})),
    ] {
        rig.owner.post(&path(end), &body).must_refuse("conflict").await;
    }
    let anybody = Client::new(rig.address, None);
    let webhook = anybody.send(Method::POST, "/v1/webhooks/stripe", Bytes::from_static(b"{}"));
    webhook.await.unwrap().refused("conflict").unwrap();
    let answer = rig.owner.get(&path("/payments")).await.unwrap();
    let expected = json!({"payments": [], "next_cursor": ""});
    assert_eq!(answer.expect(200).unwrap().json().unwrap(), expected);
    rig.end().await;
}
