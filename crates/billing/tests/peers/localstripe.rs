//! Customers, saved cards, payments without the customer, refunds and webhooks: localstripe and the double in one scenario.

use std::sync::Arc;

use axum::{Router, extract::State, http::HeaderMap, routing::post};
use serde_json::Value;
use sortie_billing::{RefundOrder, SavedCardPayment, StripeError, StripeRefusal, verify_signature};
use sortie_testkit::{Bytes, StripeDouble, peers::installed, serve::Serving, stripe::Card};
use tokio::sync::watch;

use crate::rig::Api;

const SECRET: &str = "whsec_peers";

/// Received webhooks, with their signatures.
type Received = Arc<watch::Sender<Vec<(String, Bytes)>>>;

async fn receive(State(received): State<Received>, headers: HeaderMap, body: Bytes) {
    let signature = headers["stripe-signature"].to_str().unwrap().to_owned();
    received.send_modify(|all| all.push((signature, body)));
}

/// Saves a card for a customer.
async fn save_card(api: &Api, customer: &str, card: Card) -> String {
    let form = format!(
        "type=card&card[number]={}&card[exp_month]=12&card[exp_year]=2034&card[cvc]=123",
        card.number()
    );
    let method = api.made("/v1/payment_methods", &form).await;
    let attach = format!("/v1/payment_methods/{method}/attach");
    assert_eq!(api.made(&attach, &format!("customer={customer}")).await, method);
    method
}

fn payment<'a>(customer: &'a str, payment_method: &'a str, topup: &'a str) -> SavedCardPayment<'a> {
    SavedCardPayment {
        customer,
        payment_method,
        amount_cents: 4_000,
        topup,
    }
}

async fn scenario(api: &Api) {
    let name = api.name;
    let stripe = api.client();
    let customer = stripe
        .create_customer("org_1", "org_1", "Äcme & Co")
        .await
        .unwrap();
    assert!(
        customer.id.starts_with("cus_") && !customer.deleted,
        "{name}: {customer:?}"
    );
    assert_eq!(stripe.customer(&customer.id).await.unwrap(), customer, "{name}");
    let customer = customer.id;

    let good = save_card(api, &customer, Card::Good).await;
    let paid = stripe
        .charge_saved_card("topup_1", &payment(&customer, &good, "topup_1"))
        .await
        .unwrap();
    assert_eq!(
        (paid.status.as_str(), paid.amount, paid.currency.as_str()),
        ("succeeded", 4_000, "usd"),
        "{name}"
    );
    assert_eq!(
        (paid.customer.as_deref(), paid.payment_method.as_deref()),
        (Some(&*customer), Some(&*good)),
        "{name}"
    );
    assert_eq!(paid.metadata["topup"], "topup_1", "{name}");
    assert_eq!(stripe.intent(&paid.id).await.unwrap(), paid, "{name}");
    let charge = paid.latest_charge.unwrap();
    assert!(charge.starts_with("ch_"), "{name}: {charge}");

    let refund = RefundOrder {
        intent: &paid.id,
        amount_cents: Some(1_500),
        name: "refund_1",
    };
    let refund = stripe.refund("refund_1", &refund).await.unwrap();
    assert_eq!(
        (refund.amount, refund.status.as_deref()),
        (1_500, Some("succeeded")),
        "{name}"
    );
    assert_eq!(
        (refund.charge.as_deref(), refund.payment_intent.as_deref()),
        (Some(&*charge), Some(&*paid.id)),
        "{name}"
    );
    let refunds = stripe.refunds(&charge, None).await.unwrap();
    assert_eq!(
        (refunds.data.as_slice(), refunds.has_more),
        ([refund].as_slice(), false),
        "{name}"
    );

    refusals(api, &customer).await;
}

/// Payments and reads that the server refuses.
async fn refusals(api: &Api, customer: &str) {
    let name = api.name;
    let stripe = api.client();
    let declined = save_card(api, customer, Card::Declined).await;
    let refused = stripe
        .charge_saved_card("topup_2", &payment(customer, &declined, "topup_2"))
        .await;
    let Err(StripeError::Refused(refusal)) = refused else {
        panic!("{name}: {refused:?}")
    };
    assert_eq!(
        (refusal.status, refusal.code.as_deref()),
        (402, Some("card_declined")),
        "{name}"
    );

    let awaits = save_card(api, customer, Card::AwaitsAuthentication).await;
    let awaits = stripe
        .charge_saved_card("topup_3", &payment(customer, &awaits, "topup_3"))
        .await
        .unwrap();
    assert_eq!(
        (awaits.status.as_str(), awaits.latest_charge),
        ("requires_action", None),
        "{name}"
    );
    let cancelled = stripe.cancel_intent("topup_3-cancel", &awaits.id).await.unwrap();
    assert_eq!(cancelled.status, "canceled", "{name}");

    for missing in [
        stripe.intent("pi_none").await.map(drop),
        stripe.customer("cus_none").await.map(drop),
    ] {
        let Err(StripeError::Refused(refusal)) = missing else {
            panic!("{name}: {missing:?}")
        };
        let StripeRefusal { status, intent, .. } = *refusal;
        assert_eq!((status, intent), (404, None), "{name}");
    }
}

/// Waits for the webhook of a payment. Returns its signature and its body.
async fn webhook_of_payment(received: &Received) -> (String, Bytes) {
    let mut all = received.subscribe();
    let is_payment = |(_, body): &&(String, Bytes)| {
        serde_json::from_slice::<Value>(body).unwrap()["type"] == "payment_intent.succeeded"
    };
    let came = all.wait_for(|all| all.iter().any(|one| is_payment(&one)));
    let came = tokio::time::timeout(sortie_testkit::PATIENCE, came).await;
    let came = came.unwrap().unwrap();
    came.iter().find(is_payment).unwrap().clone()
}

#[tokio::test]
async fn localstripe_and_the_double_answer_the_client_alike() {
    let program = installed("venv/bin/localstripe").unwrap();
    let arguments = |port: u16| vec!["--from-scratch".to_owned(), "--port".to_owned(), port.to_string()];
    let double = StripeDouble::start().await.unwrap();
    let received: Received = Arc::new(watch::Sender::new(Vec::new()));
    let router = Router::new()
        .route("/hook", post(receive))
        .with_state(Arc::clone(&received));
    let server = Serving::start(router).await.unwrap();
    let hook = format!("{}/hook", server.base_url());
    double.send_webhooks(&hook, &[SECRET]).unwrap();
    let localstripe = Api::start("localstripe", &program, arguments);
    let form = format!("url={hook}&secret={SECRET}");
    localstripe
        .post("/_config/webhooks/one", None, &form)
        .await
        .expect(200)
        .unwrap();
    for api in [Api::of_double(&double), localstripe] {
        received.send_replace(Vec::new());
        scenario(&api).await;
        let (signature, body) = webhook_of_payment(&received).await;
        let now = u64::try_from(double.now()).unwrap();
        assert_eq!(
            verify_signature(&signature, &body, ["whsec_other", SECRET], now),
            Ok(()),
            "{}",
            api.name
        );
        assert!(
            verify_signature(&signature, &body, ["whsec_other"], now).is_err(),
            "{}",
            api.name
        );
        let event: sortie_billing::Event = serde_json::from_slice(&body).unwrap();
        assert!(event.object_id().starts_with("pi_"), "{}: {event:?}", api.name);
    }
}
