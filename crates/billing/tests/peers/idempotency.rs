//! Idempotency keys at two servers: stripe-stateful-mock was compared with Stripe by its authors.
//!
//! The mock has customers, charges of a card token and refunds of a charge. `POST /v1/payment_intents` is 404 there, with and
//! without a key, so a payment is declined as a charge at the mock and as a payment intent at the double. A refund that names
//! a `payment_intent` is 404 (`No such charge: undefined`), so both refund a charge. Left out is what the mock does in
//! another way than Stripe describes: the same key on another path is a new request (Stripe refuses it), a parameter that it
//! does not know is accepted, a key is never forgotten, and a request that comes while the first is worked on is not refused.
//! The double's own tests have those.

use std::path::Path;

use serde_json::Value;
use sortie_testkit::{Answer, StripeDouble, peers::installed, stripe::Card};

use crate::rig::{Api, script};

/// Answer without the parts that differ between servers.
#[derive(Debug, PartialEq)]
struct Told {
    status: u16,
    error: Option<String>,
    /// `code` and `decline_code` of the error.
    codes: [Option<String>; 2],
    is_replayed: bool,
    message: Option<String>,
}

fn told(answer: &Answer) -> Told {
    let body: Value = answer.json().unwrap();
    let text = |name: &str| body["error"][name].as_str().map(ToOwned::to_owned);
    let error = text("type");
    Told {
        status: answer.status,
        message: text("message").filter(|_| error.as_deref() == Some("idempotency_error")),
        error,
        codes: [text("code"), text("decline_code")],
        is_replayed: answer.header("idempotent-replayed").is_ok(),
    }
}

/// Sends requests with keys. Returns each response, and whether its body equals that of the first request with this key.
async fn sent(api: &Api, path: &str, requests: &[(Option<&str>, &str)]) -> (Vec<Told>, Vec<bool>) {
    let (mut answers, mut same) = (Vec::<Answer>::new(), Vec::new());
    for (key, form) in requests {
        let answer = api.post(path, *key, form).await;
        let first = requests
            .iter()
            .position(|(first, _)| first == key && key.is_some());
        let first = first.and_then(|at| answers.get(at));
        let value = |of: &Answer| -> Value { of.json().unwrap() };
        same.push(first.is_some_and(|first| value(first) == value(&answer)));
        if answer.header("idempotent-replayed").is_ok() {
            let original = first.unwrap().header("request-id").unwrap();
            let name = api.name;
            assert_eq!(answer.header("original-request").unwrap(), original, "{name}");
            assert_ne!(answer.header("request-id").unwrap(), original, "{name}");
        }
        answers.push(answer);
    }
    (answers.iter().map(told).collect(), same)
}

fn statuses((told, _): &(Vec<Told>, Vec<bool>)) -> Vec<u16> {
    told.iter().map(|told| told.status).collect()
}

fn started() -> Api {
    let npm = installed("npm").unwrap();
    installed("npm/node_modules/stripe-stateful-mock/package.json").unwrap();
    let arguments = |port: u16| {
        let script = script("stateful_mock.cjs");
        vec![
            script.display().to_string(),
            npm.display().to_string(),
            port.to_string(),
        ]
    };
    Api::start("stripe-stateful-mock", Path::new("node"), arguments)
}

/// Form of a payment at the double with a new card of a customer.
fn payment(double: &StripeDouble, customer: &str, card: Card) -> String {
    let method = double.save_card(customer, card).unwrap();
    format!(
        "amount=5000&currency=usd&customer={customer}&payment_method={method}&off_session=true&confirm=true"
    )
}

#[tokio::test]
async fn keys_are_replayed_and_refused_as_at_stripe_stateful_mock() {
    let (mock, double) = (started(), StripeDouble::start().await.unwrap());
    let requests = [
        (Some("one"), "name=a&metadata[x]=1"),
        (Some("one"), "name=a&metadata[x]=1"),
        (Some("one"), "metadata[x]=1&name=a"),
        (Some("one"), "name=b&metadata[x]=1"),
        (Some("one"), "name=a"),
        (Some("two"), "name=a&metadata[x]=1"),
        (None, "name=a&metadata[x]=1"),
        (None, "name=a&metadata[x]=1"),
        (Some("one"), "name=a&metadata[x]=1"),
    ];
    let expected = sent(&mock, "/v1/customers", &requests).await;
    let told = [200, 200, 200, 400, 400, 200, 200, 200, 200];
    assert_eq!(statuses(&expected), told, "{expected:?}");
    let double = Api::of_double(&double);
    assert_eq!(sent(&double, "/v1/customers", &requests).await, expected);
}

#[tokio::test]
async fn a_decline_is_kept_under_its_key_as_at_stripe_stateful_mock() {
    let (mock, double) = (started(), StripeDouble::start().await.unwrap());
    let declines = async |api: &Api, path: &str, form: &str| {
        let other = form.replace("amount=5000", "amount=6000");
        let requests = [
            (Some("one"), form),
            (Some("one"), form),
            (Some("one"), other.as_str()),
            (Some("two"), form),
            (Some("one"), form),
        ];
        sent(api, path, &requests).await
    };
    let token = "amount=5000&currency=usd&source=tok_chargeDeclined";
    let expected = declines(&mock, "/v1/charges", token).await;
    assert_eq!(statuses(&expected), [402, 402, 400, 402, 402], "{expected:?}");
    let api = Api::of_double(&double);
    let customer = api.made("/v1/customers", "name=a").await;
    let form = payment(&double, &customer, Card::Declined);
    assert_eq!(declines(&api, "/v1/payment_intents", &form).await, expected);
    assert_eq!(
        double.holdings().others.len(),
        2,
        "a replayed decline is no payment"
    );
}

#[tokio::test]
async fn a_refund_is_made_once_under_its_key_as_at_stripe_stateful_mock() {
    let (mock, double) = (started(), StripeDouble::start().await.unwrap());
    let refunds = async |api: &Api, charge: &str| {
        let [some, less, rest] =
            ["&amount=2000", "&amount=100", ""].map(|amount| format!("charge={charge}{amount}"));
        let requests = [
            (Some("one"), some.as_str()),
            (Some("one"), some.as_str()),
            (Some("one"), less.as_str()),
            (Some("two"), some.as_str()),
            // More than the remaining amount: the server keeps the refusal for the key.
            (Some("three"), some.as_str()),
            (Some("three"), some.as_str()),
            (Some("four"), rest.as_str()),
            (Some("four"), rest.as_str()),
            (Some("five"), rest.as_str()),
            (Some("five"), rest.as_str()),
            (Some("one"), some.as_str()),
        ];
        sent(api, "/v1/refunds", &requests).await
    };
    let charge = mock
        .made("/v1/charges", "amount=5000&currency=usd&source=tok_visa")
        .await;
    let expected = refunds(&mock, &charge).await;
    let told = [200, 200, 400, 200, 400, 400, 200, 200, 400, 400, 200];
    assert_eq!(statuses(&expected), told, "{expected:?}");
    let api = Api::of_double(&double);
    let customer = api.made("/v1/customers", "name=a").await;
    let form = payment(&double, &customer, Card::Good);
    let paid: Value = api.post("/v1/payment_intents", None, &form).await.json().unwrap();
    let charge = paid["latest_charge"].as_str().unwrap();
    assert_eq!(refunds(&api, charge).await, expected);
    let held = double.holdings().total();
    assert_eq!((held.captured_cents, held.refunded_cents), (5_000, 5_000));
}
