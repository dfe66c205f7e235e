//! Idempotency keys at two servers: stripe-stateful-mock was compared with Stripe by its authors.

use std::path::Path;

use serde_json::Value;
use sortie_testkit::{Answer, StripeDouble, peers::installed};

use crate::rig::{Api, script};

/// Answer without what differs between servers.
#[derive(Debug, PartialEq)]
struct Told {
    status: u16,
    error: Option<String>,
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
        is_replayed: answer.header("idempotent-replayed").is_ok(),
    }
}

/// Sends requests with keys. Returns what each was told, and which of the answers name the same object.
async fn scenario(api: &Api) -> (Vec<Told>, Vec<bool>) {
    let mut answers = Vec::new();
    for (key, form) in [
        (Some("one"), "name=a&metadata[x]=1"),
        (Some("one"), "name=a&metadata[x]=1"),
        (Some("one"), "metadata[x]=1&name=a"),
        (Some("one"), "name=b&metadata[x]=1"),
        (Some("one"), "name=a"),
        (Some("two"), "name=a&metadata[x]=1"),
        (None, "name=a&metadata[x]=1"),
        (None, "name=a&metadata[x]=1"),
        (Some("one"), "name=a&metadata[x]=1"),
    ] {
        answers.push(api.post("/v1/customers", key, form).await);
    }
    let id = |answer: &Answer| answer.json().unwrap()["id"].as_str().map(ToOwned::to_owned);
    let first = id(&answers[0]);
    let same = answers.iter().map(|answer| id(answer) == first).collect();
    let original = answers[0].header("request-id").unwrap().to_owned();
    assert_eq!(
        answers[1].header("original-request").unwrap(),
        original,
        "{}",
        api.name
    );
    assert_ne!(answers[1].header("request-id").unwrap(), original, "{}", api.name);
    (answers.iter().map(told).collect(), same)
}

#[tokio::test]
async fn keys_are_replayed_and_refused_as_at_stripe_stateful_mock() {
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
    let mock = Api::start("stripe-stateful-mock", Path::new("node"), arguments);
    let double = StripeDouble::start().await.unwrap();
    let expected = scenario(&mock).await;
    let statuses: Vec<_> = expected.0.iter().map(|told| told.status).collect();
    assert_eq!(
        statuses,
        [200, 200, 200, 400, 400, 200, 200, 200, 200],
        "{expected:?}"
    );
    assert_eq!(scenario(&Api::of_double(&double)).await, expected);
}
