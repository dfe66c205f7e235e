//! Subscriptions to licenses, against the double of Stripe (`docs/LICENSES.md#sell-licenses`).

use sortie_api::Timestamp;
use sortie_testkit::stripe::{
    Call, Card, Fault, Storm,
    SubscriptionChange::{self, CanceledAtPeriodEnd, Ended, Paid, PastDue, Renewed, Resumed, Unpaid},
    WebhookMode, WebhookOrder,
};

use crate::{
    deletion::without_password,
    prelude::*,
    purchases::{Shop, session},
};

crate::settings::everywhere! {
    a_plan_is_bought_and_licenses_installations_while_it_is_paid,
    another_plan_of_the_portal_counts_at_once,
    a_late_payment_keeps_the_licenses_for_fourteen_days,
    a_canceled_subscription_ends_with_its_period_and_another_can_be_bought,
    the_order_and_the_number_of_webhooks_do_not_matter,
    lost_webhooks_are_found_by_the_search,
    a_reading_that_was_overtaken_by_another_is_repeated,
    a_grant_of_the_operator_comes_first_and_is_not_overwritten,
    requests_that_break_a_rule_are_refused_and_nothing_is_sold_while_stripe_is_away,
    an_organization_that_stripe_charges_is_not_deleted,
    without_plans_nothing_is_sold,
}

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
/// Length of a period of the double.
const PERIOD: u32 = 30;

impl Shop {
    /// Opens a shop that has prices for its plans at Stripe.
    async fn with_plans() -> Self {
        let shop = Self::open().await;
        // Periods are longer than sessions.
        let ends = (AT + 365 * DAY).as_micros();
        for user in [shop.rig.owner.user, shop.rig.admin.user] {
            let sql = format!("UPDATE session SET expires_at = {ends} WHERE user_id = '{user}'");
            shop.rig.meddle(&sql).await;
        }
        shop.double.add_price("price_team", 49_900);
        shop.double.add_price("price_company", 89_900);
        shop
    }

    fn license(&self, end: &str) -> String {
        format!("/v1/organizations/{}/license{end}", self.rig.ours)
    }

    fn wants(&self, body: &Value) -> Pending {
        let path = self.license("/checkout");
        self.rig.admin.post(&path, body)
    }

    /// Requests the checkout page of a plan. Returns its session.
    async fn plan_page(&self, plan: &str) -> String {
        session(&self.wants(&json!({"plan": plan})).must(200).await)
    }

    /// Subscribes to a plan. Returns the subscription.
    async fn subscribe(&self, plan: &str) -> String {
        let page = self.plan_page(plan).await;
        self.double.pay(&page, Card::Good).unwrap();
        self.double.subscriptions().pop().unwrap()
    }

    fn change(&self, subscription: &str, change: SubscriptionChange) {
        self.double.change_subscription(subscription, change).unwrap();
    }

    async fn entitlement(&self) -> Value {
        let answer = self.rig.owner.get(&self.license("")).await.unwrap();
        answer.expect(200).unwrap().json().unwrap()["entitlement"].clone()
    }

    /// Plan, state, and end of the entitlement in days. The clock of the double keeps running.
    async fn entitled(&self) -> (String, String, u64) {
        let found = self.entitlement().await;
        let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        (text("plan"), text("state"), days(&found["period_end"]))
    }

    /// Requests a deployment without an entitlement, which is refused.
    async fn is_not_entitled(&self, name: &str) {
        let refused = self.deploy(name).must_refuse("payment_required").await;
        assert_contains!(refused.error, "no active entitlement");
    }

    /// Waits until a webhook of this type was received.
    async fn until_taken(&self, kind: &str) {
        let taken = self.double.wait_for_deliveries(|sent| {
            sent.iter()
                .any(|sent| sent.kind == kind && sent.status == Some(200))
        });
        taken.await.unwrap();
    }

    fn deploy(&self, name: &str) -> Pending {
        let path = self.rig.path("/deployments");
        self.rig.admin.post(&path, &json!({"name": name}))
    }

    /// Number of changes in the audit log.
    async fn changes(&self) -> i64 {
        self.rig
            .count("SELECT COUNT(*) AS v FROM audit WHERE action = 'license.subscription'")
            .await
    }
}

fn is(plan: &str, state: &str, days: u32) -> (String, String, u64) {
    (plan.to_owned(), state.to_owned(), days.into())
}

/// Days from the start of the test to a time.
fn days(time: &Value) -> u64 {
    let time: Timestamp = time.as_str().unwrap().parse().unwrap();
    (time.since(AT) + DAY / 2).as_secs() / DAY.as_secs()
}

async fn a_plan_is_bought_and_licenses_installations_while_it_is_paid() {
    let shop = Shop::with_plans().await;
    let plans = shop.rig.owner.get(&shop.license("")).await.unwrap();
    let expected = json!({"entitlement": null, "plans": [
        {"name": "team", "monthly_runs": 1_000, "deployments": 2},
        {"name": "company", "monthly_runs": 2_000, "deployments": 4},
    ]});
    assert_eq!(plans.expect(200).unwrap().json().unwrap(), expected);

    let page = shop.plan_page("team").await;
    assert_eq!(shop.plan_page("team").await, page, "the same page");
    shop.double.pay(&page, Card::Declined).unwrap_err();
    shop.hear().await;
    assert_eq!(shop.entitlement().await, Value::Null);
    shop.double.pay(&page, Card::Good).unwrap();
    shop.hear().await;
    let found = shop.entitlement().await;
    let end = &found["period_end"];
    let expected = json!({"plan": "team", "source": "stripe", "monthly_runs": 1_000, "deployments": 2,
        "deployments_used": 0, "state": "active", "period_end": end});
    assert_eq!((&found, days(end)), (&expected, PERIOD.into()));
    assert_eq!(shop.bought().await, 0, "licenses are no credits");
    let anybody = Client::new(shop.rig.address, None);
    let back = anybody.get("/billing/subscribed").must(200).await;
    assert!(back.text().contains("entitled"), "{}", back.text());

    for name in ["north", "south"] {
        let made = shop.deploy(name).must_json(201).await;
        assert_eq!((&made["expires_at"], &made["monthly_runs"]), (end, &json!(1_000)));
    }
    shop.deploy("west").must_refuse("payment_required").await;
    let again = shop.wants(&json!({"plan": "team"})).await.unwrap();
    again.refused("conflict").unwrap();

    shop.advance(PERIOD * DAY + HOUR);
    shop.is_not_entitled("west").await;
    let subscription = shop.double.subscriptions().pop().unwrap();
    shop.change(&subscription, Renewed);
    shop.hear().await;
    assert_eq!(shop.entitled().await, is("team", "active", 2 * PERIOD));
    assert_eq!(shop.changes().await, 2);
    shop.audit().await;
    shop.close().await;
}

async fn another_plan_of_the_portal_counts_at_once() {
    let shop = Shop::with_plans().await;
    let subscription = shop.subscribe("team").await;
    shop.hear().await;
    shop.double
        .change_price(&subscription, "price_company", 1)
        .unwrap();
    shop.hear().await;
    assert_eq!(shop.entitled().await.0, "company");
    // Each paid unit includes the deployments of the plan.
    shop.double.change_price(&subscription, "price_team", 3).unwrap();
    shop.hear().await;
    let found = shop.entitlement().await;
    assert_has!(found, {"plan": "team", "deployments": 6, "monthly_runs": 1_000});
    // A price without a plan removes nothing, and a second subscription grants nothing.
    shop.double.add_price("price_other", 100);
    shop.double.change_price(&subscription, "price_other", 1).unwrap();
    let customer = shop.rig.text("SELECT customer AS v FROM billing_account").await;
    shop.double.subscribe(&customer, "price_company", 1).unwrap();
    shop.double.subscribe(&customer, "price_other", 1).unwrap();
    shop.hear().await;
    assert_eq!(shop.entitlement().await, found);
    assert_eq!(shop.changes().await, 3);
    shop.close().await;
}

async fn a_late_payment_keeps_the_licenses_for_fourteen_days() {
    let shop = Shop::with_plans().await;
    let subscription = shop.subscribe("team").await;
    shop.hear().await;
    shop.advance(PERIOD * DAY);
    shop.change(&subscription, PastDue);
    shop.hear().await;
    assert_eq!(shop.entitled().await, is("team", "past_due", PERIOD + 14));
    let made = shop.deploy("north").must_json(201).await;
    assert_eq!(days(&made["expires_at"]), u64::from(PERIOD) + 14);
    shop.advance(14 * DAY + HOUR);
    shop.is_not_entitled("south").await;
    // The subscription can still be paid, so a second one is not sold.
    let other = shop.wants(&json!({"plan": "company"})).await.unwrap();
    other.refused("conflict").unwrap();
    // The next period is not paid either, and does not extend the entitlement.
    shop.advance(16 * DAY);
    shop.change(&subscription, PastDue);
    shop.hear().await;
    assert_eq!(shop.entitled().await, is("team", "past_due", PERIOD + 14));
    shop.change(&subscription, Paid);
    shop.hear().await;
    assert_eq!(shop.entitled().await, is("team", "active", 3 * PERIOD));
    shop.deploy("south").must(201).await;
    shop.change(&subscription, Unpaid);
    shop.hear().await;
    assert_eq!(shop.entitled().await.1, "ended");
    shop.close().await;
}

async fn a_canceled_subscription_ends_with_its_period_and_another_can_be_bought() {
    let shop = Shop::with_plans().await;
    let subscription = shop.subscribe("team").await;
    shop.hear().await;
    shop.change(&subscription, CanceledAtPeriodEnd);
    shop.hear().await;
    assert_eq!(shop.entitled().await, is("team", "active", PERIOD));
    shop.deploy("north").must(201).await;
    shop.advance(PERIOD * DAY);
    shop.change(&subscription, Ended);
    shop.hear().await;
    assert_eq!(shop.entitled().await, is("team", "ended", PERIOD));
    shop.is_not_entitled("south").await;

    let second = shop.subscribe("company").await;
    shop.hear().await;
    assert_eq!(shop.entitled().await, is("company", "active", 2 * PERIOD));
    shop.deploy("south").must(201).await;
    // Ended at once, in the dashboard. The same request within the same half hour gets another page then.
    shop.change(&second, Ended);
    shop.hear().await;
    assert_eq!(shop.entitled().await, is("company", "ended", PERIOD));
    let third = shop.subscribe("company").await;
    assert_ne!(third, second);
    shop.hear().await;
    assert_eq!(shop.entitled().await, is("company", "active", 2 * PERIOD));
    shop.close().await;
}

async fn the_order_and_the_number_of_webhooks_do_not_matter() {
    let shop = Shop::with_plans().await;
    shop.double.set_webhooks(WebhookMode::Held);
    let subscription = shop.subscribe("team").await;
    for change in [PastDue, Paid, CanceledAtPeriodEnd, Resumed, Renewed] {
        shop.change(&subscription, change);
    }
    shop.double.release_webhooks(WebhookOrder::Reversed, 2);
    shop.hear().await;
    let expected = is("team", "active", 3 * PERIOD);
    assert_eq!(shop.entitled().await, expected);
    let storm = Storm {
        times: 3,
        per_second: 400,
        seed: 7,
    };
    let urls = vec![shop.rig.webhooks(); 3];
    let answers = shop.double.storm(&urls, storm).await.unwrap();
    assert!(answers.len() > 3, "{answers:?}");
    assert!(
        answers.iter().all(|answer| answer.status == Some(200)),
        "{answers:?}"
    );
    shop.work().await;
    assert_eq!(shop.entitled().await, expected);
    assert_eq!(shop.changes().await, 1, "all of them read the same");
    shop.close().await;
}

async fn lost_webhooks_are_found_by_the_search() {
    let shop = Shop::with_plans().await;
    shop.double.set_webhooks(WebhookMode::Dropped);
    let subscription = shop.subscribe("team").await;
    shop.work().await;
    assert_eq!(shop.entitlement().await, Value::Null);
    shop.advance(HOUR);
    shop.work().await;
    assert_eq!(shop.entitled().await, is("team", "active", PERIOD));
    shop.change(&subscription, Ended);
    shop.advance(HOUR);
    shop.work().await;
    assert_eq!(shop.entitled().await.1, "ended");
    shop.close().await;
}

async fn a_reading_that_was_overtaken_by_another_is_repeated() {
    let shop = Shop::with_plans().await;
    let subscription = shop.subscribe("team").await;
    shop.hear().await;
    // The answer of the first read is delayed, and contains an active subscription.
    shop.change(&subscription, CanceledAtPeriodEnd);
    let readings = shop.double.requests(Call::ReadSubscription).len();
    shop.double.fail(Call::ReadSubscription, 1, Fault::HeldAfter);
    shop.until_taken("customer.subscription.updated").await;
    let later = async {
        let heard = shop
            .double
            .wait_for_requests(Call::ReadSubscription, readings + 1);
        heard.await.unwrap();
        shop.change(&subscription, Ended);
        shop.hear().await;
        assert_eq!(shop.entitled().await.1, "ended");
        shop.double.release();
    };
    let (first, ()) = tokio::join!(shop.rig.billing[0].turn(), later);
    first.unwrap();
    assert_eq!(
        shop.entitled().await.1,
        "ended",
        "what was read first is forgotten"
    );
    assert_eq!(shop.double.requests(Call::ReadSubscription).len(), readings + 3);
    shop.close().await;
}

async fn a_grant_of_the_operator_comes_first_and_is_not_overwritten() {
    let shop = Shop::with_plans().await;
    let operator = operator(&shop.rig).await;
    let path = format!("/v1/operator/organizations/{}/license", shop.rig.ours);
    let grant = async |days: u32| {
        let body = json!({"monthly_runs": 7, "deployments": 1, "expires_at": AT + days * DAY});
        operator.put(&path, &body).must_json(200).await
    };
    let subscription = shop.subscribe("team").await;
    shop.hear().await;
    let granted = grant(10).await;
    assert_has!(granted, {"source": "operator", "deployments": 1});
    shop.change(&subscription, Renewed);
    shop.hear().await;
    assert_eq!(shop.entitlement().await, granted);
    assert_eq!(shop.changes().await, 2);
    shop.advance(10 * DAY);
    assert_eq!(shop.entitled().await, is("team", "active", 2 * PERIOD));
    shop.change(&subscription, Ended);
    shop.hear().await;
    grant(20).await;
    // A purchase that would have no effect is refused.
    let refused = shop.wants(&json!({"plan": "team"})).must_refuse("conflict").await;
    assert!(refused.error.contains("the operator"), "{}", refused.error);
    shop.advance(10 * DAY);
    shop.plan_page("team").await;
    shop.close().await;
}

async fn requests_that_break_a_rule_are_refused_and_nothing_is_sold_while_stripe_is_away() {
    let shop = Shop::with_plans().await;
    for wrong in [
        json!({}),
        json!({"plan": ""}),
        json!({"plan": "Team"}),
        json!({"plan": "price_team"}),
        json!({"plan": 1}),
        json!({"plan": "team", "quantity": 2}),
    ] {
        shop.wants(&wrong).must_refuse("invalid_request").await;
    }
    let team = json!({"plan": "team"});
    for fault in [Fault::ErrorBefore, Fault::TooMany, Fault::LostBefore] {
        shop.double.fail_always(Some(fault));
        shop.wants(&team).must_refuse("unavailable").await;
    }
    shop.double.fail_always(None);
    // The answer with a page is lost: the next request gets the same page.
    shop.double.fail(Call::CreateSession, 1, Fault::LostAfter);
    shop.wants(&team).must_refuse("unavailable").await;
    shop.wants(&team).must(200).await;
    let sent = shop.double.requests(Call::CreateSession);
    let [.., lost, repeated] = sent.as_slice() else {
        panic!("{sent:?}")
    };
    assert_eq!(lost.parameters, repeated.parameters);
    assert_eq!(shop.entitlement().await, Value::Null);
    // A suspended organization can pay.
    let operator = operator(&shop.rig).await;
    let path = format!("/v1/operator/organizations/{}/suspend", shop.rig.ours);
    operator.post(&path, &json!({})).must(200).await;
    shop.subscribe("team").await;
    shop.hear().await;
    assert_eq!(shop.entitled().await.1, "active");
    shop.close().await;
}

async fn an_organization_that_stripe_charges_is_not_deleted() {
    let shop = Shop::with_plans().await;
    let subscription = shop.subscribe("team").await;
    shop.hear().await;
    without_password(&shop.rig, &shop.rig.owner).await;
    let path = format!("/v1/organizations/{}", shop.rig.ours);
    let body = json!({"name": "ours"});
    let delete = async || send(&shop.rig.owner, Method::DELETE, &path, &body).await.unwrap();
    let refused = delete().await.refused("conflict").unwrap();
    assert!(refused.error.contains("subscription"), "{}", refused.error);
    shop.change(&subscription, CanceledAtPeriodEnd);
    shop.hear().await;
    delete().await.expect(204).unwrap();
    // Its events are ignored from now on.
    shop.change(&subscription, Ended);
    shop.hear().await;
    let waiting = "SELECT COUNT(*) AS v FROM stripe_event WHERE due_at IS NOT NULL";
    assert_eq!(shop.rig.count(waiting).await, 0);
    shop.close().await;
}

async fn without_plans_nothing_is_sold() {
    let rig = Rig::start().await;
    let path = rig.path("/license/checkout");
    let refused = rig.owner.post(&path, &json!({"plan": "team"})).await;
    refused.unwrap().refused("conflict").unwrap();
    rig.end().await;
}
