use super::*;

#[tokio::test]
async fn subscriptions_are_bought_changed_and_ended() {
    let double = StripeDouble::start().await.unwrap();
    let customer = double.customer().await;
    double.add_price("price_team", 10_000);
    let form = format!(
        "mode=subscription&customer={customer}&line_items[0][price]=price_team&line_items[0][quantity]=2\
         &subscription_data[metadata][organization]=org_1&success_url=https://a.example/"
    );
    let session = double.made("/v1/checkout/sessions", &form).await;
    double.pay(&session, Card::Good).unwrap();
    let session = double.read(&format!("/v1/checkout/sessions/{session}")).await;
    assert_eq!(
        (&session["payment_status"], &session["amount_total"]),
        (&"paid".into(), &20_000.into())
    );
    let id = session["subscription"].as_str().unwrap();
    let read = async || double.read(&format!("/v1/subscriptions/{id}")).await;
    let bought = read().await;
    assert_eq!(
        (&bought["status"], &bought["metadata"]["organization"]),
        (&"active".into(), &"org_1".into())
    );
    let end = |subscription: &Value| {
        subscription["items"]["data"][0]["current_period_end"]
            .as_i64()
            .unwrap()
    };
    for (change, status) in [
        (SubscriptionChange::PastDue, "past_due"),
        (SubscriptionChange::Unpaid, "unpaid"),
        (SubscriptionChange::Paid, "active"),
        (SubscriptionChange::Renewed, "active"),
        (SubscriptionChange::CanceledAtPeriodEnd, "active"),
        (SubscriptionChange::Resumed, "active"),
        (SubscriptionChange::CanceledAtPeriodEnd, "active"),
        (SubscriptionChange::Ended, "canceled"),
    ] {
        let was = end(&read().await);
        double.change_subscription(id, change).unwrap();
        let after = read().await;
        assert_eq!(after["status"], status, "{change:?}");
        let begins = matches!(change, SubscriptionChange::PastDue | SubscriptionChange::Renewed);
        assert_eq!(end(&after) > was, begins, "{change:?}");
        let ends = (change == SubscriptionChange::CanceledAtPeriodEnd).then(|| end(&after));
        if status == "active" {
            assert_eq!(after["cancel_at"].as_i64(), ends, "{change:?}");
        }
    }
    assert_eq!(double.subscriptions(), [id]);
    double.add_price("price_more", 20_000);
    double.change_price(id, "price_more", 1).unwrap();
    assert_eq!(read().await["items"]["data"][0]["price"]["id"], "price_more");
    assert_eq!(double.events("customer.subscription.updated").len(), 8);
    assert_eq!(double.events("customer.subscription.deleted").len(), 1);
    let wrong = double
        .post("/v1/checkout/sessions", &form.replace("price_team", "price_none"))
        .await;
    assert_eq!(error(&wrong), (400, "resource_missing".to_owned()));
}
